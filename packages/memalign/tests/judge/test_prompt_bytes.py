"""The bytes that judges send: providers cache them, and every published figure is of them.

So a change is on purpose. A hash that no longer holds is replaced only where the prompt was
meant to change, with a word on why in the commit.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from memalign import Example, Guideline, aio
from memalign.errors import InputError
from memalign.judge import task_of
from memalign.judge.explain import explain
from memalign.memory import Memory
from memalign.models.base import Limits
from memalign.testing import HashEmbedding, ScriptedDecisionModel
from tests.support.keys import keys
from tests.support.scripted import case, scripted

EMBEDDING = HashEmbedding()
STRONG = Limits(context_tokens=128_000)
WEAK = Limits(context_tokens=8_192, writes=False, examples=3)


def rule(number: int, text: str, **changes: Any) -> Guideline:
    said = keys(f"t-{number}@ana")
    name = f"G{number}"
    return Guideline(id=name, text=text, supported_by=said, exposed_to=said, **changes)


RULES = (
    rule(1, "An answer that promises money is bad."),
    rule(2, "An answer that says sorry is good.", pinned_by="dora"),
)
QUESTION = "My cup came broken."
REPLY = "We are sorry, use the return form."
SIDES = {"A": "We are sorry.", "B": "Read the terms."}
INSTRUCTIONS = """\
Is the answer good?

Question: {{ inputs }}
Answer: {{ outputs }}"""


def memory(outputs: Any, labels: tuple[Any, ...]) -> Memory:
    cases = []
    for number, label in enumerate(labels):
        vector = [0.0] * 64
        vector[number] = 1.0
        cases.append(
            case(
                f"t-{number}",
                label,
                rationale=f"Comment {number}." if number else None,
                vector=vector,
                inputs=f"Where is order {number}?",
                outputs=outputs,
            )
        )
    return Memory(
        cases=tuple(cases),
        guidelines=RULES,
        next_guideline=3,
        embedding_model=EMBEDDING.name,
    )


KINDS: dict[str, tuple[str, Any, tuple[Any, ...], Any]] = {
    "bool": ("bool", REPLY, (True, False, True), True),
    "pair": ("A|B", SIDES, ("A", "B", "A"), "A"),
    "pair with tie": ("A|B|tie", SIDES, ("A", "tie", "B"), "tie"),
    "score": ("int:1..5", REPLY, (1, 5, 3), 3),
    "number": ("float:-1..1", REPLY, (-1.0, 0.5, 1.0), 0.5),
    "text": ("str", REPLY, ("good", "bad", "good"), "good"),
}
GOLDEN = {
    "bare": """
        bool          42d667766b85d4e4
        pair          dc6553f472248b25
        pair with tie 286701f6f132eafa
        score         d36a2392becffa57
        number        770cc1617c588a85
        text          2f4e734abb489ea8
    """,
    "bare, weak": """
        bool          906083bc7dafdf39
        pair          a30f7dc7e7de60ea
        pair with tie 96da5d408eb5bd8d
        score         3a4e046ff0ee0734
        number        75e3a4d16a5284bc
        text          c5d2eb8f7aa1e679
    """,
    "taught": """
        bool          2a83834b9002fe4c
        pair          59b8908077d991d4
        pair with tie e4d16d704a27a096
        score         017df4b4313c77e8
        number        b2dee6125765bb78
        text          b8bb54d22807b5a1
    """,
    "taught, weak": """
        bool          c19472fffd424ed2
        pair          eb72592d98d2db5d
        pair with tie 90b15f2f71cc23a7
        score         ec32b640b38a3bf4
        number        d867078761650b8c
        text          0ec4393e24bd1757
    """,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", GOLDEN)
async def test_a_judge_sends_the_bytes_on_record(kind: str, way: str) -> None:
    value_type, outputs, labels, answer = KINDS[kind]
    judge, model = scripted(
        {"rationale": "r", "value": answer},
        limits=WEAK if "weak" in way else STRONG,
        instructions=INSTRUCTIONS,
        feedback_value_type=value_type,
        embedding_model=EMBEDDING,
        memory=memory(outputs, labels) if "taught" in way else Memory(),
    )
    await judge.ajudge(inputs=QUESTION, outputs=outputs)
    (request,) = model.requests
    whole = [
        request.system,
        request.user,
        request.schema,
        request.max_tokens,
        request.temperature,
    ]
    sent = json.dumps(whole, ensure_ascii=False).encode()
    digest = hashlib.sha256(sent).hexdigest()
    assert f"{kind:13} {digest[:16]}" in GOLDEN[way]


def test_the_prompt_shown_is_the_one_that_is_sent() -> None:
    """Of a chat model its messages, of a decision model the item and its questions;
    nothing is asked for it."""
    item = Example(id="a", outputs="Hello there.")
    answer = {"findings": [], "rationale": "Kind.", "value": True}
    memory = Memory(guidelines=(rule(1, "Say sorry."),))
    talking, chat = scripted(answer, memory=memory)
    shown = talking.prompt(item)
    assert chat.requests == []
    talking(item)
    (sent,) = chat.requests
    assert shown == {"system": sent.system, "user": sent.user, "schema": sent.schema}
    # By its fields, as a judge is called.
    assert talking.prompt(outputs="Hello there.") == shown

    deciding = ScriptedDecisionModel(lambda *_: 0.5)
    decided = talking.replace(model=deciding)
    shown = decided.prompt(item)
    assert deciding.asked == []
    judgment = decided(item)
    for question, (state, asked) in zip(
        shown["questions"], deciding.asked, strict=True
    ):
        assert question["text"] == asked.text
        assert shown["item"] == state
    told = aio.run(explain(task_of(decided), decided.memory, item, judgment))
    assert told["prompt"] == shown
    with pytest.raises(InputError, match="outputs"):
        talking.prompt(Example(id="b", inputs="Hello?"))
