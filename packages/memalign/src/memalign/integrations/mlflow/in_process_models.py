"""Models of this process for MLflow's own judges: `make_judge(model="local:/…")` answers without a server.

So a judge can be asked before it is aligned, and a scorer that was never aligned can run beside one that was, on one
model.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

from mlflow.entities import AssessmentSource, Feedback

from memalign import aio
from memalign.errors import ConfigurationError
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.judge.answer import BRIEF_RATIONALE
from memalign.models import ChatRequest, resolve
from memalign.models.providers import parse_name

__all__ = ["is_embedded", "teach_embedded"]


def is_embedded(model: str) -> bool:
    """Whether the model runs in this process."""
    try:
        return parse_name(model)[0] == "local"
    except ConfigurationError:  # one of MLflow's own, such as "databricks"
        return False


class _Embedded:
    """As MLflow's adapters: one question to a model, and the verdict in its answer."""

    def invoke(self, request: Any) -> SimpleNamespace:
        """Raises MlflowException: INVALID_PARAMETER_VALUE for what a model in this process cannot do."""
        if request.trace is not None:
            raise invalid(
                f"model {request.model_uri!r} runs in this process and calls no tools that look into a trace; name "
                "{{ inputs }} and {{ outputs }} in the instructions, or align the judge: memalign shows it the trace"
            )
        parameters = dict(request.inference_params or {})
        strange = sorted(set(parameters) - {"temperature", "max_tokens", "seed"})
        if strange or request.base_url or request.extra_headers:
            what = ", ".join([*strange, *(name for name in ("base_url", "extra_headers") if getattr(request, name))])
            raise invalid(f"model {request.model_uri!r} runs in this process and takes no {what}")
        messages = [("user", request.prompt)] if isinstance(request.prompt, str) else []
        messages = messages or [(message.role, message.content or "") for message in request.prompt]
        with translated():
            model = resolve(request.model_uri)
            question = ChatRequest(
                system="\n\n".join(text for role, text in messages if role == "system"),
                user="\n\n".join(text for role, text in messages if role != "system"),
                schema=_schema(request.response_format, brief=model.limits.brief),
                **parameters,
            )
            reply = aio.run(model.complete(question))
        return SimpleNamespace(
            feedback=Feedback(
                name=request.assessment_name,
                value=reply.data["result"],
                rationale=reply.data.get("rationale", ""),
                source=AssessmentSource(source_type="LLM_JUDGE", source_id=request.model_uri),
                metadata={
                    "mlflow.assessment.judgeInputTokens": reply.usage.input_tokens,
                    "mlflow.assessment.judgeOutputTokens": reply.usage.output_tokens,
                },
            )
        )


def _schema(wanted: Any, *, brief: bool) -> dict[str, Any]:
    text = {"type": "string"}
    plain = {"type": "object", "properties": {"result": text, "rationale": text}, "required": ["result", "rationale"]}
    schema: dict[str, Any] = wanted.model_json_schema() if wanted else plain
    if brief and "rationale" in schema["properties"]:  # a weak model would go on and on
        bounded = {**schema["properties"]["rationale"], "maxLength": BRIEF_RATIONALE}
        schema = {**schema, "properties": {**schema["properties"], "rationale": bounded}}
    return schema


def teach_embedded() -> None:
    """Let MLflow's judges ask models of this process; for all others MLflow chooses as before."""
    from mlflow.genai.judges.utils import invocation_utils

    theirs = invocation_utils.get_adapter
    if getattr(theirs, "asks_memalign", False):
        return

    @functools.wraps(theirs)
    def get_adapter(model_uri: str, prompt: Any) -> Any:
        return _Embedded() if is_embedded(model_uri) else theirs(model_uri=model_uri, prompt=prompt)

    get_adapter.asks_memalign = True  # type: ignore[attr-defined]
    invocation_utils.get_adapter = get_adapter
