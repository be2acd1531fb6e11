"""MLflow for tests: traces that people gave feedback on, and a model behind a loopback endpoint that learns from it."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

import mlflow
from mlflow.entities import AssessmentSource
from mlflow.genai.judges import make_judge

from memalign.models.base import ChatRequest
from tests.support.endpoint import Answer, Endpoint, system_of, user_of
from tests.support.world import Verdict, World

INSTRUCTIONS = "Is the answer kind? Question: {{ inputs }} Answer: {{ outputs }}"


class Mind(World):
    """The model of `World`, as an endpoint asks it; what it has no part for (MLflow's own judge) is answered by `other`."""

    def __init__(self, verdict: Verdict = lambda _rules, _item: True, other: Any = None) -> None:
        super().__init__(verdict)
        self.other = other or {"result": True, "rationale": "looked"}

    def answer(self, body: dict[str, Any]) -> Answer:
        name = (body.get("response_format") or {}).get("json_schema", {}).get("name", "")
        if name not in ("judgment", "changes"):
            given = self.other(body) if callable(self.other) else self.other
            return given if isinstance(given, str) else json.dumps(given)
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


def tone_judge(endpoint: Endpoint | None = None, **changes: Any) -> Any:
    settings: dict[str, Any] = {
        "name": "tone",
        "instructions": INSTRUCTIONS,
        "model": "openai:/small",
        "feedback_value_type": bool,
    }
    return make_judge(**settings | changes)


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


def labelled(number: int | str, value: bool = True) -> str:
    """A new trace to which somebody gives a label without a word; its id."""
    trace_id = traced(number)
    says(trace_id, value)
    return trace_id


def lesson(number: int | str, *, by: str = "ana", name: str = "tone") -> str:
    """A new trace on which somebody teaches `case N is unkind`; its id."""
    trace_id = traced(number)
    says(trace_id, False, f"say: case {number} is unkind", by=by, name=name)
    return trace_id


def fetched(*ids: str) -> list[Any]:
    return [mlflow.get_trace(each) for each in ids]


def as_mlflow_asks(body: dict[str, Any]) -> dict[str, Any]:
    """The same model as MLflow's own optimizer and judges ask it: `say: case 3 is unkind` becomes that guideline."""
    if "messages" not in body:  # texts to embed
        return {}
    prompt = system_of(body) + user_of(body)
    if "source_trace_ids" in prompt:
        said: dict[str, list[int]] = {}
        for number, rule in re.findall(
            r'^  "id": (\d+),$.*?"rationale": "say: (.*?)"', prompt, re.MULTILINE | re.DOTALL
        ):
            said.setdefault(rule, []).append(int(number))
        return {"guidelines": [{"guideline_text": rule, "source_trace_ids": ids} for rule, ids in said.items()]}
    asked = re.findall(r"answer (\w+)", user_of(body)) or ["nothing"]
    rules = re.findall(r"^  - (.*?)\.?$", prompt.partition("Distilled Guidelines")[2], re.MULTILINE)
    return {"result": following(frozenset(rules), asked[-1]), "rationale": "so"}


def mlflows_optimizer() -> Any:
    """MLflow's own MemAlignOptimizer, which keeps nothing from one test to the next; it needs DSPy."""
    from mlflow.genai.judges.optimizers import MemAlignOptimizer

    dspy: Any = import_module("dspy")
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    return MemAlignOptimizer
