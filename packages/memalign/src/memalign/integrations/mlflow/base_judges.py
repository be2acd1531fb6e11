"""Judges of MLflow's that can be aligned, and the judge of ours that each becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import memalign
from memalign.integrations.mlflow.in_process_models import is_embedded
from memalign.integrations.mlflow.label_types import Scale
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.model_routes import check_not_managed, routed_chat
from memalign.models import ChatModel

__all__ = ["base_of", "core_name", "core_of", "model_of", "runs_here"]

_OURS = ("temperature", "max_tokens", "seed", "timeout")
_THEIR_NAMES = {"stop": "stop_sequences", "reasoning_effort": "openai_reasoning_effort"}
_SETTINGS = frozenset(("top_p", "top_k", "presence_penalty", "frequency_penalty", "logit_bias", *_THEIR_NAMES.values()))

# The variables of MLflow's own prompts, by ours.
_VARIABLES = {
    **dict.fromkeys(("input", "inputs"), "inputs"),
    **dict.fromkeys(("output", "outputs"), "outputs"),
    **dict.fromkeys(("ground_truth", "expected_output", "expectations"), "expectations"),
}
_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_BUILT_IN = (
    "RelevanceToQuery",
    "Correctness",
    "Equivalence",
    "Safety",
    "Guidelines",
    "Fluency",
    "Completeness",
    "Summarization",
)
_OF_SESSIONS = (
    "UserFrustration",
    "ConversationCompleteness",
    "ConversationalSafety",
    "ConversationalToolCallEfficiency",
    "ConversationalRoleAdherence",
    "ConversationalGuidelines",
)
_OF_TOOL_CALLS = ("ToolCallEfficiency", "ToolCallCorrectness")


def base_of(judge: Any) -> Any:
    """The judge of instructions that stands for `judge`: itself, or for a built-in one its criterion in such a judge.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a judge that cannot be aligned, saying why and what to do.
    """
    from mlflow.genai.judges.base import Judge
    from mlflow.genai.judges.instructions_judge import InstructionsJudge
    from mlflow.genai.scorers.builtin_scorers import BuiltInScorer

    if not isinstance(judge, Judge):
        raise invalid(f"{type(judge).__name__} is no judge; make one with mlflow.genai.judges.make_judge")
    if isinstance(judge, InstructionsJudge):
        return judge
    if isinstance(judge, BuiltInScorer):
        if type(judge).__name__ in _OF_SESSIONS:
            base = judge._create_judge()  # the judge of instructions that it asks
            base.aggregations = judge.aggregations
            return base
        if type(judge).__name__ in _OF_TOOL_CALLS and not getattr(judge, "should_exact_match", False):
            return _of_instructions(judge, _tool_calls(str(judge.instructions)))
        if type(judge).__name__ in _BUILT_IN:
            return _instructed(judge)
    names = ", ".join((*_BUILT_IN, *_OF_TOOL_CALLS, *_OF_SESSIONS))
    raise invalid(
        f"{type(judge).__name__} cannot be aligned: it does not judge by instructions alone. Those that can: judges of "
        f"make_judge, and {names}"
    )


def _tool_calls(text: str) -> str:
    """Instructions on tool calls, which a judge looks up in the trace instead of being given them."""
    criteria = text.partition("<request>")[0].replace("{{ordering_instruction}}", "").strip()
    return f"{criteria}\n\nThe request, the available tools and the tools called are in the trace: {{{{ trace }}}}"


def _instructed(judge: Any) -> Any:
    text = str(judge.instructions)
    if guidelines := getattr(judge, "guidelines", None):
        listed = "\n".join(f"- {field}" for field in ([guidelines] if isinstance(guidelines, str) else guidelines))
        listed = listed.replace("{{", "{ {").replace("}}", "} }")  # a guideline's own braces are no field of the item
        text = re.sub(r"\{\{\s*guidelines\s*\}\}", lambda _: listed, text)
        text = re.sub(r"\{\{\s*guidelines_context\s*\}\}", "", text)
    variables = set(_BRACES.findall(text))
    if strange := sorted(variables - set(_VARIABLES)):
        raise invalid(
            f"{type(judge).__name__} of this MLflow names {{{{ {strange[0]} }}}}, which memalign does not know"
        )
    text = _BRACES.sub(lambda match: f"{{{{ {_VARIABLES[match[1]]} }}}}", text).strip()
    named = {_VARIABLES[name] for name in variables}
    missing = [field.name for field in judge.get_input_fields() if field.name not in named]
    return _of_instructions(judge, text + "".join(f"\n{name.capitalize()}: {{{{ {name} }}}}" for name in missing))


def _of_instructions(judge: Any, text: str) -> Any:
    from mlflow.genai.judges.instructions_judge import InstructionsJudge

    base = InstructionsJudge(
        name=judge.name,
        instructions=text,
        description=judge.description,
        model=judge.model,
        feedback_value_type=judge.feedback_value_type,
        inference_params=getattr(judge, "inference_params", None),
        extra_headers=getattr(judge, "extra_headers", None),
    )
    base.aggregations = judge.aggregations  # MLflow's constructor took them only later
    return base


def core_name(name: str) -> str:
    """The name of our judge for one of MLflow's, whose names may hold slashes and line breaks and be of any length."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", name.strip())[:100].strip()


def core_of(base: Any, scale: Scale, parameters: Mapping[str, Any] | None = None) -> memalign.Judge:
    """Our judge, without memory, of MLflow's judge of instructions. `parameters` are ours, beside its own.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a name, a model or a parameter that cannot be.
    """
    inference = _inference(base)
    ours = {name: inference[name] for name in _OURS if name in inference}
    with translated():
        return memalign.Judge(
            name=core_name(base.name),
            instructions=base.instructions,
            feedback_value_type=scale.value_type,
            model=model_of(base),
            parameters={**ours, **(parameters or {})},
        )


def model_of(base: Any) -> str | ChatModel:
    """The model of MLflow's judge, with its address, headers and inference parameters. Raises MlflowException."""
    name = str(base.model)
    provider = name.partition(":")[0]
    check_not_managed(name)
    settings: dict[str, Any] = {}
    for key, value in _inference(base).items():
        setting = _THEIR_NAMES.get(key, key)
        if key in _OURS:
            continue
        if setting in _SETTINGS:
            settings[setting] = value
        else:
            settings.setdefault("extra_body", {})[key] = value
    base_url, headers = getattr(base, "_base_url", None), getattr(base, "_extra_headers", None)
    if provider == "gateway":
        name, base_url, headers = _gateway(name, base_url, headers)
    return routed_chat(name, base_url=base_url, headers=headers, settings=settings)


def _gateway(name: str, base_url: str | None, headers: Mapping[str, str] | None) -> tuple[str, str, dict[str, str]]:
    """Name, address and headers of an endpoint of MLflow's AI Gateway, which its tracking server serves."""
    from mlflow.genai.utils.gateway_utils import get_gateway_config

    endpoint = name.partition(":")[2].lstrip("/")
    config = get_gateway_config(endpoint)  # raises MlflowException where the tracking server is no server
    return f"openai:{endpoint}", base_url or config.api_base, {**(config.extra_headers or {}), **(headers or {})}


def runs_here(base: Any) -> bool:
    """Whether the judge's model runs in this process, where it calls no tools."""
    return is_embedded(str(base.model))


def _inference(base: Any) -> dict[str, Any]:
    params = dict(getattr(base, "inference_params", None) or {})
    if "max_completion_tokens" in params:
        params.setdefault("max_tokens", params.pop("max_completion_tokens"))
    return params
