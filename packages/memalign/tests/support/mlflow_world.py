"""MLflow for tests: traces that people gave feedback on, and a model behind a loopback endpoint that learns from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource
from mlflow.exceptions import MlflowException
from mlflow.genai.judges import make_judge

from memalign.models.base import ChatRequest
from tests.support.endpoint import Answer, system_of, user_of
from tests.support.learning import changes_of
from tests.support.world import World

INSTRUCTIONS = "Is the answer kind? Question: {{ inputs }} Answer: {{ outputs }}"


class Mind(World):
    """The model of `World`, as an endpoint asks it; what it has no part for (MLflow's own judge) is answered by `other`."""

    other: Any = staticmethod(lambda _: {"result": True, "rationale": "looked"})

    def answer(self, body: dict[str, Any]) -> Answer:
        name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
        if name not in ("judgment", "changes"):
            return json.dumps(self.other(body))
        user = user_of(body)
        if name == "judgment" and 'outputs: "' not in user:  # a conversation is known by its last answer
            last = re.findall(r"answer \w+", user)[-1]
            user += f'\noutputs: "{last}"'
        reply = self(ChatRequest(system=system_of(body), user=user, schema={}, schema_name=name))
        if isinstance(reply, dict):
            return reply
        raise AssertionError(reply)


def following(rules: frozenset[str], item: str) -> bool:
    """Kind, unless a rule in the prompt names the case: `case 3 is unkind`."""
    return f"case {item} is unkind" not in rules


def tone_judge(**changes: Any) -> Any:
    settings: dict[str, Any] = {"instructions": INSTRUCTIONS, "model": "openai:/small", "feedback_value_type": bool}
    return make_judge(**{"name": "tone"} | settings | changes)


@contextmanager
def refused(words: str) -> Iterator[None]:
    """A block in which the caller is told in these words that a value is wrong."""
    with pytest.raises(MlflowException, match=words) as error:
        yield
    assert error.value.error_code == "INVALID_PARAMETER_VALUE"


def traced(number: int | str, *, session: str | None = None) -> str:
    """A new trace of one question and answer; its id."""
    with mlflow.start_span("reply") as span:
        if session is not None:
            mlflow.update_current_trace(metadata={"mlflow.trace.session": session})
        span.set_inputs({"question": f"question {number}"})
        with mlflow.start_span("look up", span_type="TOOL") as inner:
            inner.set_inputs({"number": str(number)})
            inner.set_outputs("found")
        span.set_outputs(f"answer {number}")
    return str(span.trace_id)


def says(
    trace_id: str, value: Any, rationale: str | None = None, *, by: str = "ana", name: str = "tone", kind: str = "HUMAN"
) -> str:
    """Feedback on a trace; its id."""
    source = AssessmentSource(source_type=kind, source_id=by)
    given = mlflow.log_feedback(trace_id=trace_id, name=name, value=value, rationale=rationale, source=source)
    return str(given.assessment_id)


def labelled(number: int | str) -> str:
    """A new trace to which somebody gives a label without a word; its id."""
    trace_id = traced(number)
    says(trace_id, True)
    return trace_id


def lesson(number: int | str, *, name: str = "tone") -> str:
    """A new trace on which somebody teaches `case N is unkind`; its id."""
    trace_id = traced(number)
    says(trace_id, False, f"say: case {number} is unkind", name=name)
    return trace_id


def fetched(*ids: str) -> list[Any]:
    return [mlflow.get_trace(each) for each in ids]


def as_mlflow_asks(body: dict[str, Any]) -> dict[str, Any]:
    """The same model as MLflow's own optimizer and judges ask it: `say: case 3 is unkind` becomes that guideline."""
    prompt = system_of(body) + user_of(body)
    if "source_trace_ids" in prompt:
        said: dict[str, list[int]] = {}
        for number, rule in re.findall(
            r'^  "id": (\d+),$.*?"rationale": "(?:say: )?(.*?)",?$', prompt, re.MULTILINE | re.DOTALL
        ):
            said.setdefault(rule, []).append(int(number))
        return {"guidelines": [{"guideline_text": rule, "source_trace_ids": ids} for rule, ids in said.items()]}
    asked = re.findall(r"answer (\w+)", user_of(body)) or ["nothing"]
    rules = re.findall(r"^  - (.*?)\.?$", prompt.partition("Distilled Guidelines")[2], re.MULTILINE)
    return {"result": following(frozenset(rules), asked[-1]), "rationale": "so"}


def teachable(body: dict[str, Any]) -> Any:
    """The model of the demo: sends all replies, until it was told that an upset customer wants an apology."""
    name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
    if name == "changes":
        return changes_of(user_of(body))
    if "source_trace_ids" in user_of(body):
        return as_mlflow_asks(body)
    upset = "furious" in user_of(body).rpartition("Now judge this item:")[2]
    value = not (upset and "say sorry first" in system_of(body))
    if name == "judgment":
        return {"rationale": "so", "value": value}
    return json.dumps({"result": value, "rationale": "so"}) if not name or name == "ResponseFormat" else {}


def mlflows_optimizer() -> Any:
    """MLflow's own MemAlignOptimizer, which keeps nothing from one test to the next; it needs DSPy."""
    from mlflow.genai.judges.optimizers import MemAlignOptimizer

    dspy: Any = import_module("dspy")
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    return MemAlignOptimizer
