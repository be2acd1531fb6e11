"""A judge and the scripted chat model behind it, and what such a model answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from memalign import Example, Judge
from memalign.memory import Annotation, Case, PreAlignmentVerdict
from memalign.models.base import ChatRequest, Limits
from memalign.testing import HashEmbedding, ScriptedChatModel


def scripted(
    answers: Any = None, *, limits: Limits | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """A judge of a yes or no, and its model: one answer to all, a list of one a
    request, or a function of the request."""
    always = {"rationale": "So it is.", "value": True} if answers is None else answers
    model = ScriptedChatModel(
        (lambda _: always) if isinstance(always, dict) else always, limits=limits
    )
    settings: dict[str, Any] = {
        "name": "tone",
        "instructions": "Good? {{ outputs }}",
        "feedback_value_type": bool,
        "model": model,
        "embedding_model": HashEmbedding(dim=8),
    }
    return Judge(**settings | changes), model


def change(
    action: str, *labels: str, text: str = "", guideline: str = "", **more: Any
) -> dict[str, Any]:
    """One change to the guidelines, from the feedback of these labels."""
    return {
        "action": action,
        "feedback": list(labels),
        "text": text,
        "guideline": guideline,
    } | more


def case(
    name: str,
    value: Any = True,
    *,
    rationale: str | None = None,
    vector: Sequence[float] = (),
    pre_alignment: PreAlignmentVerdict | None = None,
    **content: Any,
) -> Case:
    """A case that Ana labelled."""
    label = Annotation(id=name, source="ana", value=value, rationale=rationale)
    return Case(
        example=Example(id=name, **content),
        annotations=(label,),
        vector=struct.pack(f"<{len(vector)}f", *vector) or None,
        pre_alignment=pre_alignment,
    )


def by_kind(**answers: Any) -> Callable[[ChatRequest], Any]:
    """Answers each kind of question (the name of its schema) as named: an answer, or a
    function of the request."""
    usual = {
        "judgment": {"rationale": "So it is.", "value": True},
        "merged": {"guidelines": []},
    }

    def answer(request: ChatRequest) -> Any:
        chosen = (usual | answers)[request.schema_name]
        return chosen(request) if callable(chosen) else chosen

    return answer


def records_in(request: ChatRequest) -> list[str]:
    """The labels of the feedback that a distillation is asked about."""
    change = request.schema["properties"]["changes"]["items"]
    labels: list[str] = change["properties"]["feedback"]["items"]["enum"]
    return labels


class Teacher:
    """Answers each question for changes with the next of a list, the last one again and
    again; verdicts are all true."""

    def __init__(self, *answers: list[dict[str, Any]] | Exception) -> None:
        self.answers = list(answers)

    def __call__(self, request: ChatRequest) -> dict[str, Any] | Exception:
        if request.schema_name == "judgment":
            return {"rationale": "fine", "value": True}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Exception) else {"changes": answer}
