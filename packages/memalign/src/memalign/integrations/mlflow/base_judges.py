"""Judges of MLflow's that can be aligned, the judge of ours that each becomes, and labels from one to the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import memalign
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.routes import JUDGE_PARAMETERS, inference_of, judge_model
from memalign.values import UNBOUNDED, ValueType

# The variables of MLflow's own prompts, by ours.
_VARIABLES = {
    **dict.fromkeys(("input", "inputs"), "inputs"),
    **dict.fromkeys(("output", "outputs"), "outputs"),
    **dict.fromkeys(("ground_truth", "expected_output", "expectations"), "expectations"),
}
_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OF_FIELDS = (
    *("RelevanceToQuery", "Correctness", "Equivalence", "Safety"),
    *("Guidelines", "Fluency", "Completeness", "Summarization"),
)
_OF_TOOL_CALLS = ("ToolCallEfficiency", "ToolCallCorrectness")
_OF_SESSIONS = (
    *("UserFrustration", "ConversationCompleteness", "ConversationalSafety"),
    *("ConversationalToolCallEfficiency", "ConversationalRoleAdherence", "ConversationalGuidelines"),
)


# -- MLflow's judge ----------------------------------------------------------------------------------------------------


def base_of(judge: Any) -> Any:
    """The judge of instructions that can be aligned for `judge`: itself, or one with a built-in judge's criterion.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a judge that cannot be aligned, saying why and what to do.
    """
    from mlflow.genai.judges.base import Judge
    from mlflow.genai.judges.instructions_judge import InstructionsJudge
    from mlflow.genai.scorers.builtin_scorers import BuiltInScorer

    if isinstance(judge, InstructionsJudge):
        return judge
    kind = type(judge).__name__
    if not isinstance(judge, Judge):
        raise invalid(f"{kind} is no judge; make one with mlflow.genai.judges.make_judge")
    if isinstance(judge, BuiltInScorer) and kind in _OF_SESSIONS:
        base = judge._create_judge()  # the judge of instructions that it asks
        base.aggregations = judge.aggregations
        return base
    if isinstance(judge, BuiltInScorer) and kind in _OF_TOOL_CALLS and not getattr(judge, "should_exact_match", False):
        criteria = str(judge.instructions).partition("<request>")[0].replace("{{ordering_instruction}}", "").strip()
        place = "The request, the available tools and the tools called are in the trace: {{ trace }}"
        return _instructions_judge(judge, f"{criteria}\n\n{place}")
    if isinstance(judge, BuiltInScorer) and kind in _OF_FIELDS:
        return _instructions_judge(judge, _criterion(judge))
    names = ", ".join((*_OF_FIELDS, *_OF_TOOL_CALLS, *_OF_SESSIONS))
    raise invalid(
        f"{kind} cannot be aligned: it does not judge by instructions alone. Those that can: judges of make_judge, and "
        f"{names}"
    )


def _criterion(judge: Any) -> str:
    """The instructions of a built-in judge, with our names of fields."""
    text = str(judge.instructions)
    if guidelines := getattr(judge, "guidelines", None):
        listed = "\n".join(f"- {line}" for line in ([guidelines] if isinstance(guidelines, str) else guidelines))
        listed = listed.replace("{{", "{ {").replace("}}", "} }")  # a guideline's own braces are no field of the item
        text = re.sub(r"\{\{\s*guidelines\s*\}\}", lambda _: listed, text)
        text = re.sub(r"\{\{\s*guidelines_context\s*\}\}", "", text)
    variables = set(_BRACES.findall(text))
    if strange := sorted(variables - set(_VARIABLES)):
        raise invalid(f"memalign does not know {{{{ {strange[0]} }}}} in {type(judge).__name__} of this MLflow")
    text = _BRACES.sub(lambda match: f"{{{{ {_VARIABLES[match[1]]} }}}}", text).strip()
    named = {_VARIABLES[name] for name in variables}
    missing = [field.name for field in judge.get_input_fields() if field.name not in named]
    return text + "".join(f"\n{name.capitalize()}: {{{{ {name} }}}}" for name in missing)


def _instructions_judge(judge: Any, text: str) -> Any:
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


# -- our judge ---------------------------------------------------------------------------------------------------------


def core_of(base: Any, value_type: ValueType, parameters: Mapping[str, Any]) -> memalign.Judge:
    """Our judge, without memory, of MLflow's judge of instructions. `parameters` are ours, beside its own.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a name, a model or a parameter that cannot be.
    """
    inference = inference_of(base)
    model = judge_model(base)
    with translated():
        return memalign.Judge(
            name=core_name(base.name),
            instructions=base.instructions,
            feedback_value_type=value_type,
            model=model,
            parameters={**{name: inference[name] for name in JUDGE_PARAMETERS if name in inference}, **parameters},
        )


def core_name(name: str) -> str:
    """The name of our judge for one of MLflow's, whose names may hold slashes and line breaks and be of any length."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", name.strip())[:100].strip()


# -- value types -------------------------------------------------------------------------------------------------------


def value_type_of(annotation: Any, spec: object = None) -> ValueType:
    """Our value type for MLflow's `feedback_value_type`; `spec` is one of ours to take in its place.

    MLflow's numbers have no bounds. Raises MlflowException (INVALID_PARAMETER_VALUE) for lists, dicts, optional values
    and all else that no label can be.
    """
    with translated():
        if spec is not None:
            return ValueType.of(spec)
        if annotation in (int, float):
            kind: Literal["int", "float"] = "int" if annotation is int else "float"
            return ValueType(kind=kind, low=-float(UNBOUNDED), high=float(UNBOUNDED))
        if get_origin(annotation) is Literal:
            return _choices(get_args(annotation))
        text = annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
        why = ""
        if get_origin(annotation) in (list, dict) or annotation in (list, dict):
            why = "a label is one value (bool, str, int, float or a Literal); make one judge for each value"
        elif type(None) in get_args(annotation):
            why = "a missing label looks like None; name the case, such as Literal['yes', 'no', 'not applicable']"
        if why:
            raise invalid(f"feedback_value_type {text} cannot be aligned: {why}")
        return ValueType.of(annotation)


def _choices(choices: tuple[Any, ...]) -> ValueType:
    if set(choices) == {True, False} and all(isinstance(choice, bool) for choice in choices):
        return ValueType.of(bool)
    whole = sorted(choice for choice in choices if isinstance(choice, int) and not isinstance(choice, bool))
    if len(whole) == len(choices) > 1 and whole == list(range(whole[0], whole[0] + len(whole))):
        return ValueType(kind="int", low=float(whole[0]), high=float(whole[-1]))
    return ValueType.of(Literal[tuple(str(choice) for choice in choices)])


def annotation_of(value_type: ValueType) -> Any:
    """The value type as MLflow's judges take it: numbers lose their bounds."""
    return {"int": int, "float": float}.get(value_type.kind) or value_type.annotation


def core_label(value_type: ValueType, value: Any) -> Any:
    """A label of MLflow's as ours: a number that is a choice, such as of Literal[1, 3, 9], is text in ours."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value_type.kind != "choice":
        return value
    return str(int(value) if value == value // 1 else value)  # a tracking server sends 3 as 3.0


def mlflow_label(annotation: Any, value: Any) -> Any:
    """Our label as MLflow's judge of that `feedback_value_type` gives it."""
    return next((choice for choice in get_args(annotation) if str(choice) == value), value)
