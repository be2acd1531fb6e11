"""The bytes that judges send. Providers cache them and every published figure was measured with them: a change is on purpose.

A hash that no longer holds is replaced only where the prompt was meant to change, with a word on why in the commit.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from memalign import Check, Example, Guideline
from memalign.memory import Memory
from memalign.models.base import Limits
from memalign.testing import HashEmbedding
from tests.support.keys import keys
from tests.support.scripted import case, scripted

EMBEDDING = HashEmbedding()
STRONG, BRIEF = Limits(context_tokens=128_000), Limits(context_tokens=8_192, brief=True, examples=3)


def rule(number: int, text: str, question: str, **changes: Any) -> Guideline:
    return Guideline(
        id=f"G{number}",
        text=text,
        supported_by=keys(f"t-{number}@ana"),
        exposed_to=keys(f"t-{number}@ana"),
        checks=(Check(question=question),),
        **changes,
    )


RULES = (
    rule(1, "An answer that promises money is bad.", "Does the answer promise money?"),
    rule(2, "An answer that says sorry is good.", "Does the answer apologise?", pinned_by="dora"),
)
SINGLE = {"inputs": "My cup came broken.", "outputs": "We are sorry, use the return form."}
SIDES = {"inputs": "My cup came broken.", "outputs": {"A": "We are sorry.", "B": "Read the terms."}}


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
    return Memory(cases=tuple(cases), guidelines=RULES, next_guideline=3, embedding_model=EMBEDDING.name)


KINDS: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], Any]] = {
    "bool": ("bool", SINGLE, (True, False, True), True),
    "pair": ("A|B", SIDES, ("A", "B", "A"), "A"),
    "pair with tie": ("A|B|tie", SIDES, ("A", "tie", "B"), "tie"),
    "score": ("int:1..5", SINGLE, (1, 5, 3), 3),
    "number": ("float:-1..1", SINGLE, (-1.0, 0.5, 1.0), 0.5),
    "text": ("str", SINGLE, ("good", "bad", "good"), "good"),
}


async def sent(kind: str, *, taught: bool, limits: Limits) -> str:
    """The hash of all that a judge of this kind sends about an item."""
    value_type, content, labels, answer = KINDS[kind]
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
    whole = [request.system, request.user, request.schema, request.max_tokens, request.temperature, request.labels]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()[:16]


GOLDEN: dict[tuple[str, str], str] = {
    ("bool", "bare"): "dd39f4fc87cae42a",
    ("bool", "bare, brief"): "d41a6636becd3add",
    ("bool", "taught"): "125de2d9b82ca743",
    ("bool", "taught, brief"): "de05df680907c707",
    ("pair", "bare"): "b1371fccb8c8ca9a",
    ("pair", "bare, brief"): "af902a883835ddb0",
    ("pair", "taught"): "680f4761df943de4",
    ("pair", "taught, brief"): "0c7f1532dfa42ca3",
    ("pair with tie", "bare"): "b16fb0000788a921",
    ("pair with tie", "bare, brief"): "58c2b45fe5dad04b",
    ("pair with tie", "taught"): "1ee7ddf725702930",
    ("pair with tie", "taught, brief"): "b1db25b0d154b53b",
    ("score", "bare"): "d697d2c5d0035679",
    ("score", "bare, brief"): "f104ffb3f1e21f2c",
    ("score", "taught"): "582d134522dbfb7a",
    ("score", "taught, brief"): "94aa88bcd7d7db0f",
    ("number", "bare"): "84a15f6d74a36bfc",
    ("number", "bare, brief"): "2c0efea0a66afc21",
    ("number", "taught"): "5a8ed7031e63bc45",
    ("number", "taught, brief"): "bbdf842d571d6f6f",
    ("text", "bare"): "523cbe9d8cb70248",
    ("text", "bare, brief"): "9f852a1dd0177e91",
    ("text", "taught"): "79f92a814173aba5",
    ("text", "taught, brief"): "4469dba170086ca9",
}


@pytest.mark.parametrize(("kind", "way"), sorted(GOLDEN))
async def test_a_judge_sends_the_bytes_on_record(kind: str, way: str) -> None:
    taught, limits = way.startswith("taught"), BRIEF if way.endswith("brief") else STRONG
    assert await sent(kind, taught=taught, limits=limits) == GOLDEN[kind, way]


def test_every_kind_is_on_record() -> None:
    ways = ("bare", "bare, brief", "taught", "taught, brief")
    assert set(GOLDEN) == {(kind, way) for kind in KINDS for way in ways}
