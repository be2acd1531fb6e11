"""An item that experts have judged has their label, and no model is asked."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Example, Judge
from memalign.memory import Annotation, Case, Memory
from memalign.models.base import ChatRequest
from tests.support.scripted import scripted


def said(
    name: str, source: str, value: Any = None, rationale: str | None = None
) -> Annotation:
    return Annotation(id=name, source=source, value=value, rationale=rationale)


def memory(*annotations: Annotation, **content: Any) -> Memory:
    """A memory of one case."""
    example = Example(
        id=annotations[0].id, **({"inputs": "q", "outputs": "a"} | content)
    )
    case = Case(example=example, annotations=annotations)
    return Memory(cases=(case,), embedding_model="hash:8")


def judge(
    knowledge: Memory, *, answer: Any = True, **changes: Any
) -> tuple[Judge, list[ChatRequest]]:
    task = {"instructions": "Good? {{ inputs }} {{ outputs }}"}
    reply = {"rationale": "the model's", "value": answer}
    one, model = scripted(reply, memory=knowledge, **task | changes)
    return one, model.requests


def test_the_experts_label_and_words_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    label = said("t-1", "ana", False, "No date.")
    one, requests = judge(memory(label, said("t-1", "ben", None, "Too curt.")))
    made = one(inputs="q", outputs="a", id="item")
    assert (made.id, made.value, made.decided_by) == ("item", False, "expert")
    assert made.rationale == "No date. Too curt."
    assert (made.example_ids, made.memory_hash) == (("t-1",), one.memory.hash)
    assert (made.model, made.confidence) == ("", None)
    assert made.usage.calls == len(requests) == 0
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    modelless = one.replace(model="openai:gpt-none")
    assert modelless(inputs="q", outputs="a").value is False
    assert one.unalign("t-1").judge(inputs="q", outputs="a").decided_by == "model"


@pytest.mark.parametrize(
    ("annotations", "task"),
    [
        ([said("t-1", "ana", True), said("t-1", "ben", False)], {}),
        ([said("t-1", "ana", None, "Hm.")], {}),
        (
            [said("t-1", "ana", "kind")],
            {"feedback_value_type": "str", "answer": "fine"},
        ),
    ],
)
def test_a_tie_a_comment_or_free_text_is_shown_to_the_model(
    annotations: list[Annotation], task: dict[str, Any]
) -> None:
    one, requests = judge(memory(*annotations), **task)
    made = one(inputs="q", outputs="a")
    assert (made.decided_by, made.rationale) == ("model", "the model's")
    assert made.example_ids == ("t-1",)
    assert len(requests) == 1


def test_only_what_the_judge_reads_makes_a_case() -> None:
    asked = {"question": "q", "trace_id": 1}
    knowledge = memory(said("t-1", "ana", False), inputs=asked, trace="run 1")
    one, requests = judge(
        knowledge, instructions="Good? {{ inputs.question }} {{ outputs }}"
    )
    asked["trace_id"] = 2
    made = one(inputs=asked, outputs="a", trace="run 2")
    assert made.decided_by == "expert"
    assert one(inputs=asked, outputs="b").decided_by == "model"
    assert len(requests) == 1


def test_hidden_cases_have_no_label_nor_have_those_that_look_the_same() -> None:
    cases = (
        *memory(said("t-1", "ana", False), trace="run 1").cases,
        *memory(said("t-2", "ben", False), trace="run 2").cases,
    )
    one, requests = judge(Memory(cases=cases, embedding_model="hash:8"))
    made = one.without_case(cases[0].example)(cases[0].example)
    assert (made.decided_by, made.value, made.example_ids) == ("model", True, ())
    assert len(requests) == 1
    assert one.without_case(Example(id="new", inputs="other", outputs="a")) is one
