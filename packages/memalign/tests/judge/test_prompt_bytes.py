"""The bytes that judges send. Providers cache them and every published figure was measured with them: a change is on purpose.

A hash that no longer holds is replaced only where the prompt was meant to change, with a word on why in the commit.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from memalign import Example, Guideline, Judge, aio
from memalign.errors import InputError
from memalign.judge import task_of
from memalign.judge.explain import explain
from memalign.memory import Memory
from memalign.models.base import Limits
from memalign.testing import HashEmbedding, ScriptedChatModel, ScriptedDecisionModel
from tests.support.keys import keys
from tests.support.scripted import case, scripted

EMBEDDING = HashEmbedding()
STRONG = Limits(context_tokens=128_000)
WEAK = Limits(context_tokens=8_192, writes=False, examples=3)


def rule(number: int, text: str, **changes: Any) -> Guideline:
    return Guideline(
        id=f"G{number}",
        text=text,
        supported_by=keys(f"t-{number}@ana"),
        exposed_to=keys(f"t-{number}@ana"),
        **changes,
    )


RULES = (
    rule(1, "An answer that promises money is bad."),
    rule(2, "An answer that says sorry is good.", pinned_by="dora"),
)
SINGLE = {
    "inputs": "My cup came broken.",
    "outputs": "We are sorry, use the return form.",
}
SIDES = {
    "inputs": "My cup came broken.",
    "outputs": {"A": "We are sorry.", "B": "Read the terms."},
}


def memory(content: dict[str, Any], labels: tuple[Any, ...]) -> Memory:
    cases = [
        case(
            f"t-{number}",
            label,
            rationale=f"Comment {number}." if number else None,
            vector=[float(n == number) for n in range(64)],
            **content | {"inputs": f"Where is order {number}?"},
        )
        for number, label in enumerate(labels)
    ]
    return Memory(
        cases=tuple(cases),
        guidelines=RULES,
        next_guideline=3,
        embedding_model=EMBEDDING.name,
    )


KINDS: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], Any]] = {
    "bool": ("bool", SINGLE, (True, False, True), True),
    "pair": ("A|B", SIDES, ("A", "B", "A"), "A"),
    "pair with tie": ("A|B|tie", SIDES, ("A", "tie", "B"), "tie"),
    "score": ("int:1..5", SINGLE, (1, 5, 3), 3),
    "number": ("float:-1..1", SINGLE, (-1.0, 0.5, 1.0), 0.5),
    "text": ("str", SINGLE, ("good", "bad", "good"), "good"),
}


WAYS = {
    "bare": (False, STRONG),
    "bare, weak": (False, WEAK),
    "taught": (True, STRONG),
    "taught, weak": (True, WEAK),
}
GOLDEN: dict[str, tuple[str, str, str, str]] = {
    "bool": (
        "42d667766b85d4e4",
        "906083bc7dafdf39",
        "2a83834b9002fe4c",
        "c19472fffd424ed2",
    ),
    "pair": (
        "dc6553f472248b25",
        "a30f7dc7e7de60ea",
        "59b8908077d991d4",
        "eb72592d98d2db5d",
    ),
    "pair with tie": (
        "286701f6f132eafa",
        "96da5d408eb5bd8d",
        "e4d16d704a27a096",
        "90b15f2f71cc23a7",
    ),
    "score": (
        "d36a2392becffa57",
        "3a4e046ff0ee0734",
        "017df4b4313c77e8",
        "ec32b640b38a3bf4",
    ),
    "number": (
        "770cc1617c588a85",
        "75e3a4d16a5284bc",
        "b2dee6125765bb78",
        "d867078761650b8c",
    ),
    "text": (
        "2f4e734abb489ea8",
        "c5d2eb8f7aa1e679",
        "b8bb54d22807b5a1",
        "0ec4393e24bd1757",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_judge_sends_the_bytes_on_record(kind: str, way: str) -> None:
    value_type, content, labels, answer = KINDS[kind]
    taught, limits = WAYS[way]
    judge, model = scripted(
        {"rationale": "r", "value": answer},
        limits=limits,
        instructions="Is the answer good?\n\nQuestion: {{ inputs }}\nAnswer: {{ outputs }}",
        feedback_value_type=value_type,
        embedding_model=EMBEDDING,
        memory=memory(content, labels) if taught else Memory(),
    )
    await judge.ajudge(Example(id="item", **content))
    (request,) = model.requests
    whole = [
        request.system,
        request.user,
        request.schema,
        request.max_tokens,
        request.temperature,
    ]
    digest = hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()[
        :16
    ]
    assert digest == GOLDEN[kind][[*WAYS].index(way)]


def test_the_prompt_shown_is_the_one_that_is_sent() -> None:
    """Of a chat model its messages, of a decision model the item and its questions;
    nothing is asked for it."""
    item = Example(id="a", outputs="Hello there.")
    rule = Guideline(id="G1", text="Say sorry.", supported_by=keys("t-1@ana"))
    memory = Memory(guidelines=(rule,))
    chat = ScriptedChatModel(
        lambda _: {"findings": [], "rationale": "Kind.", "value": True}
    )
    talking = Judge(
        name="j",
        instructions="Good? {{ outputs }}",
        feedback_value_type=bool,
        model=chat,
    ).replace(memory=memory)
    shown = talking.prompt(item)
    assert chat.requests == []
    talking(item)
    (sent,) = chat.requests
    assert shown == {"system": sent.system, "user": sent.user, "schema": sent.schema}
    assert talking.prompt(outputs="Hello there.") == shown, (
        "by its fields, as a judge is called"
    )

    deciding = ScriptedDecisionModel(lambda *_: 0.5)
    decided = talking.replace(model=deciding)
    shown = decided.prompt(item)
    assert deciding.asked == []
    judgment = decided(item)
    assert [question["text"] for question in shown["questions"]] == [
        question.text for _, question in deciding.asked
    ]
    assert {shown["item"]} == {state for state, _ in deciding.asked}
    told = aio.run(explain(task_of(decided), decided.memory, item, judgment))
    assert told["prompt"] == shown
    with pytest.raises(InputError, match="outputs"):
        talking.prompt(Example(id="b", inputs="Hello?"))
