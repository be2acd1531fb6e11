"""Rules that code decides: what experts forbid in so many words, as long as no label
speaks against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memalign import CodeTest, Example, Guideline, Judge, Registry
from memalign.align import edit_guideline
from memalign.errors import InputError
from memalign.judge import task_of
from memalign.judge.prohibitions import forbidden_answer
from memalign.judge.rules import rule_sentence, ruled_judgment, rules_in_force
from memalign.memory import Memory
from memalign.models.base import Limits
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.testing import HashEmbedding, ScriptedChatModel
from tests.support.rows import RawRow
from tests.support.scripted import scripted

WORD = CodeTest(kind="word", text="unfortunately", value=False)
FORM = CodeTest(kind="shape", text="KD/4821", value=True)


@pytest.mark.parametrize(
    ("text", "test", "answer"),
    [
        ("Never write unfortunately.", WORD, True),
        ("Never write “Unfortunately”, it sounds cold.", WORD, True),
        ("We never say the word 'unfortunately' in a reply", WORD, True),
        ("A good reply does not use the word unfortunately.", WORD, True),
        ("Replies must not contain unfortunately or sadly", WORD, True),
        ("Don\u2019t write sadly or unfortunately!", WORD, True),
        ("No “unfortunately”.", WORD, True),
        ("Be kind. Never write unfortunately.", WORD, True),
        ("Never include a number like PT/0007.", FORM, True),
        ("Never begin with Dear", CodeTest(kind="starts", text="Dear"), True),
        ("At most 20 words.", CodeTest(kind="length", high=20), False),
        ("Replies have at most 20 words", CodeTest(kind="length", low=21), True),
        ("Use no more than 5 %", CodeTest(kind="number", text="%", low=6), True),
        # A condition or an exception, in the text or anywhere behind it.
        ("Never write unfortunately unless somebody died.", WORD, None),
        ("Never write unfortunately. Except in condolences.", WORD, None),
        ("Never write unfortunately when it is about money.", WORD, None),
        ("Never write unfortunately in the first line.", WORD, None),
        ("Never write unfortunately twice.", WORD, None),
        ("Never write unfortunately and sadly together.", WORD, None),
        ("Never write unfortunately; exceptions: funerals.", WORD, None),
        ("Never write unfortunately: allowed in letters.", WORD, None),
        ("Never write unfortunately to children.", WORD, None),
        # It forbids the contrary, or nothing at all.
        ("Do not avoid unfortunately.", WORD, None),
        ("Never leave out unfortunately.", WORD, None),
        ("Never forget to write unfortunately.", WORD, None),
        ("Never do not write unfortunately.", WORD, None),
        ("Do not hesitate to write unfortunately.", WORD, None),
        ("Always write unfortunately.", WORD, None),
        ("Is it so bad to never write unfortunately?", WORD, None),
        # Somebody else's words.
        ("The customer said: never write unfortunately.", WORD, None),
        ("“Never write unfortunately” is bad advice.", WORD, None),
        ("It is wrong that we never write unfortunately.", WORD, None),
        ("Customers never write unfortunately.", WORD, None),
        # Other words, other languages, other numbers.
        ("Never write sadly.", WORD, None),
        ("Never write unfortunatelyish.", WORD, None),
        ("Schreibe nie unfortunately.", WORD, None),
        ("Nunca escreva unfortunately.", WORD, None),
        ("At most 20 words.", CodeTest(kind="length", high=30), None),
        ("At least 20 words.", CodeTest(kind="length", low=20), None),
        ("At most 20 %", CodeTest(kind="number", text="%", high=20), None),
        ("Give a number like KD/4821.", FORM, None),
        # What goes on narrows it down, without a word that is a condition anywhere else.
        ("Never write unfortunately, in condolences at least.", WORD, None),
        ("Never write unfortunately, to children.", WORD, None),
        ("Never write unfortunately, as long as nobody died.", WORD, None),
        ("Never write unfortunately - in the subject line.", WORD, None),
        ("Never write unfortunately in a letter.", WORD, None),
        ("Letters never say unfortunately.", WORD, None),
        ("Never write unfortunately. Condolences may have it.", WORD, None),
        ("Never write unfortunately. Exempted: condolences.", WORD, None),
        ("Generally, never write it. Never write unfortunately.", WORD, None),
        # The literal is a part of what is forbidden.
        ("Never write out-of-stock.", CodeTest(kind="word", text="out"), None),
        ("Never write 10:30.", CodeTest(kind="word", text="10"), None),
        ("Never write refund(s).", CodeTest(kind="word", text="refund"), None),
        ("Never write sooner or later.", CodeTest(kind="word", text="later"), None),
        ("Never say whether or not.", CodeTest(kind="word", text="not"), None),
        # A reason narrows nothing.
        ("Never write unfortunately, because it sounds cold.", WORD, True),
        ("Never write unfortunately: say what we can do.", WORD, True),
    ],
)
def test_only_a_plain_prohibition_forbids(
    text: str, test: CodeTest, answer: bool | None
) -> None:
    assert forbidden_answer(test, text) is answer


def test_a_condition_in_the_experts_own_words_counts_although_the_guideline_lost_it() -> (
    None
):
    assert (
        forbidden_answer(
            WORD, "Never write unfortunately.", ["Never write it, only in condolences."]
        )
        is None
    )


def rows(
    count: int = 12, *, comment: str = "Never write unfortunately.", **more: Any
) -> list[RawRow]:
    """Half of the replies have the word, and are bad."""
    made = []
    for n in range(count):
        bad = n % 2 == 1
        text = f"{'Unfortunately' if bad else 'Today'} your order {n} {'is late' if n % 3 else 'waits'}."
        made.append(
            {
                "id": f"t-{n:02}",
                "source": "ana",
                "outputs": text,
                "value": not bad,
                "rationale": comment,
            }
            | more
        )
    return made


def taught(
    feedback: list[RawRow] | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """A judge that took the comments word for word; its model passes everything."""
    judge, model = scripted(
        {"rationale": "Fine.", "value": True}, limits=Limits(writes=False), **changes
    )
    return judge.align(rows() if feedback is None else feedback).judge, model


def test_what_is_forbidden_decides_without_a_call() -> None:
    judge, model = taught()
    made = judge(outputs="We are sorry. Unfortunately it broke.")
    assert (made.value, made.decided_by, made.usage.calls, made.model) == (
        False,
        "rule",
        0,
        "",
    )
    finding, *_ = made.findings
    assert (finding.guideline, finding.evidence, finding.holds) == (
        "G1",
        "Unfortunately",
        True,
    )
    assert finding.test == 'The reply has the word "unfortunately"'
    assert made.guideline_ids == ("G1", "G2"), "said of good replies and of bad ones"
    assert "G1 decides by code" in (made.rationale or "")
    assert model.requests == []
    kept = judge(outputs="It is on its way.")
    assert (kept.value, kept.decided_by, len(model.requests)) == (True, "model", 1), (
        "who keeps a rule may err elsewhere"
    )
    assert "by code" not in model.requests[0].user, (
        "nothing follows from a rule that is kept"
    )
    assert [(finding.guideline, finding.holds) for finding in kept.findings] == [
        ("G1", False)
    ]


def test_the_experts_label_comes_first() -> None:
    judge, _ = taught()
    assert judge(outputs=rows()[1]["outputs"]).decided_by == "expert"


def test_a_later_label_takes_it_out_of_force_at_once_and_says_so() -> None:
    judge, _ = taught()
    against = {
        "id": "t-99",
        "source": "ben",
        "outputs": "Unfortunately you won.",
        "value": True,
        "rationale": "Good.",
    }
    result = judge.align([against])
    assert result.judge(outputs="Unfortunately it broke.").decided_by == "model"
    (note,) = [note for note in result.notes if note.startswith("G1: ")]
    assert (
        note == "G1: Code does not decide: t-99@ben speaks against it."
        or "decides no more" in note
    )
    memory = result.judge.memory
    assert not rules_in_force(memory, judge.value_type)
    back = result.judge.unalign("t-99@ben").judge
    assert back(outputs="Unfortunately it broke.").decided_by == "rule", (
        "and it comes back with the label's end"
    )


def test_a_label_that_another_one_overrules_speaks_against_it_too() -> None:
    judge, _ = taught()
    twin = {
        "id": "t-01",
        "source": "ben",
        "outputs": rows()[1]["outputs"],
        "value": True,
        "rationale": "No.",
    }
    assert not rules_in_force(judge.align([twin]).judge.memory, judge.value_type)


def test_a_person_switches_it_off_and_it_stays_off() -> None:
    judge, _ = taught()
    off = judge
    for guideline in judge.memory.guidelines:
        if guideline.tests:
            off = edit_guideline(off, guideline.id, rule=False, by="dora")
    assert off(outputs="Unfortunately it broke.").decided_by == "model"
    assert "dora switched it off" in rule_sentence(
        off.memory, off.value_type, off.memory.guideline("G1")
    )
    more = [
        row | {"id": f"u-{n}", "outputs": f"{row['outputs']} {n}"}
        for n, row in enumerate(rows(4, comment="So."))
    ]
    assert (
        off.align(more).judge(outputs="Unfortunately it broke.").decided_by == "model"
    )


DEMAND = "Give the reference, such as KD/4821"


def references() -> list[RawRow]:
    return [
        {"id": f"t-{n:02}", "source": "ana", "outputs": f"Under {'PT/10' if n % 2 else 'no. '}{n:02} it is packed.",
         "value": n % 2 == 1, "rationale": DEMAND}
        for n in range(12)
    ]  # fmt: skip


def test_what_is_demanded_decides_by_its_absence_only_once_a_person_confirmed_it() -> (
    None
):
    judge, model = taught(references())
    tested = next(guideline for guideline in judge.memory.semantic if guideline.tests)
    assert judge(outputs="Two AAA batteries.").decided_by == "model"
    assert "nobody confirmed it" in rule_sentence(
        judge.memory, judge.value_type, tested
    )
    confirmed = edit_guideline(judge, tested.id, rule=True, by="ana")
    made = confirmed(outputs="Two AAA batteries.")
    assert (made.value, made.decided_by) == (False, "rule")
    assert made.findings[0].holds is False
    asked = len(model.requests)
    assert confirmed(outputs="KD/4821, two batteries.").decided_by == "model"
    assert len(model.requests) == asked + 1, "one-sided"
    reworded = edit_guideline(
        confirmed,
        tested.id,
        text="Name the reference, like KD/4821, at once.",
        by="ana",
    )
    assert reworded(outputs="Two AAA batteries.").decided_by == "model", (
        "confirmed was another sentence"
    )


def test_without_a_test_there_is_nothing_to_confirm() -> None:
    judge, _ = taught(rows(2))
    with pytest.raises(InputError, match="G1 has no test"):
        edit_guideline(judge, "G1", rule=True, by="ana")


def test_erasing_its_comments_ends_it(tmp_path: Path) -> None:
    judge, model = taught()
    registry = Registry(
        f"sqlite:///{tmp_path}/r.db", models=[model, HashEmbedding(dim=8)]
    )
    registry.create(judge)
    receipt = registry.erase(judge.name, source="ana", rederive=False)
    assert receipt.complete, receipt.left
    left = registry.load(judge.name)
    assert not rules_in_force(left.memory, left.value_type)
    assert left(outputs="Unfortunately it broke.").decided_by == "model"


@pytest.mark.parametrize(
    "guideline",
    [
        Guideline(id="G1", text="Never write unfortunately.", tests=(WORD,)),
        Guideline(
            id="G1",
            text="Never write unfortunately.",
            tests=(WORD,),
            ruled_by="ana",
            pinned_by="ana",
        ),
        Guideline(
            id="G1",
            text="Be kind.",
            tests=(CodeTest(kind="word", text="order", value=False),),
            ruled_by="ana",
        ),
        Guideline(
            id="G1",
            text="Never write order.",
            tests=(CodeTest(kind="word", text="order", value=False),),
        ),
    ],
)
def test_a_forged_rule_in_a_bundle_decides_nothing_that_labels_do_not_bear_out(
    guideline: Guideline,
) -> None:
    judge, _ = taught([row | {"rationale": None} for row in rows(6)])
    forged = judge.replace(memory=judge.memory.with_guidelines([guideline]))
    labels = {row["outputs"]: row["value"] for row in rows(6)}
    loaded = load_bundle(
        json.loads(
            json.dumps(
                bundle_of(forged.replace(model="openai:m", embedding_model=None))
            )
        )
    )
    for rule in rules_in_force(loaded.memory, loaded.value_type):
        assert rule.guideline.text == "Never write unfortunately.", (
            "which the six labels bear out"
        )
        assert all(
            value is rule.value
            for text, value in labels.items()
            if "Unfortunately" in text
        )


words = st.sampled_from(["unfortunately", "today", "order", "late", "sorry", "photo"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(words, min_size=1, max_size=4), st.booleans(), words),
        min_size=1,
        max_size=14,
    ),
    st.lists(
        st.tuples(st.lists(words, min_size=1, max_size=4), st.booleans()), max_size=3
    ),
    st.booleans(),
)
def test_no_rule_decides_against_a_label(
    taught_rows: Any, later: Any, confirmed: bool
) -> None:
    feedback = [
        {
            "id": f"t-{n}",
            "source": "ana",
            "outputs": " ".join(text),
            "value": value,
            "rationale": f"Never write {word}.",
        }
        for n, (text, value, word) in enumerate(taught_rows)
    ]
    judge, _ = taught(feedback)
    if confirmed:
        for guideline in judge.memory.guidelines:
            if guideline.tests:
                judge = edit_guideline(judge, guideline.id, rule=True, by="dora")
    others = [
        {"id": f"u-{n}", "source": "ben", "outputs": " ".join(text), "value": value}
        for n, (text, value) in enumerate(later)
    ]
    judge = judge.align(others).judge if others else judge
    memory: Memory = judge.memory
    for case in memory.cases:
        labels = {
            annotation.value
            for annotation in case.annotations
            if annotation.value is not None
        }
        task = task_of(judge)
        item = task.item(Example(id="x", outputs=case.example.outputs))
        made = ruled_judgment(task, memory, item)
        assert made is None or labels <= {made.value}


def switched(judge: Judge, text: str, **changes: Any) -> Judge:
    """The judge with G1 in other words, with that test."""
    guideline = judge.memory.guideline("G1")
    (test,) = guideline.tests
    return judge.replace(
        memory=judge.memory.with_guidelines(
            [replace(guideline, text=text, tests=(test,), **changes)]
        )
    )


def alone(judge: Judge) -> Judge:
    """The judge with no test but G1's."""
    others = [replace(g, tests=()) for g in judge.memory.guidelines if g.id != "G1"]
    return judge.replace(memory=judge.memory.with_guidelines(others))


@pytest.mark.parametrize(
    ("outputs", "decided_by"),
    [
        ("UNFORTUNATELY it broke.", "rule"),
        ("\uff35nfortunately it broke.", "rule"),
        ("You wrote “unfortunately it broke”, and we mended it.", "model"),
        ("You wrote «unfortunately». Unfortunately it broke.", "rule"),
        ("An unfortunate delay.", "model"),
        ("", "model"),
        ({"reply": "Unfortunately it broke."}, "rule"),
        (["It broke.", None, {}], "model"),
    ],
)
def test_the_reply_itself_has_to_say_it(outputs: Any, decided_by: str) -> None:
    judge, _ = taught()
    assert judge(outputs=outputs).decided_by == decided_by


@pytest.mark.parametrize(
    ("said", "outputs", "decided_by"),
    [
        ("Never write US.", "Call US now.", "rule"),
        ("Never write US.", "Call us now.", "model"),
        ("Never write us.", "Call US now.", "rule"),
        ("NEVER WRITE US.", "Call us now.", "rule"),
    ],
)
def test_an_acronym_is_not_the_word_of_the_same_letters(
    said: str, outputs: str, decided_by: str
) -> None:
    feedback = [
        row
        | {
            "outputs": f"Order {n} {'helps US' if n % 2 else 'waits'}.",
            "rationale": said,
        }
        for n, row in enumerate(rows())
    ]
    judge, _ = taught(feedback)
    test = CodeTest(kind="word", text="us", value=False)
    tested = [
        replace(guideline, tests=(test,)) for guideline in judge.memory.guidelines
    ]
    judge = judge.replace(memory=judge.memory.with_guidelines(tested))
    assert judge(outputs=outputs).decided_by == decided_by


def test_a_customers_word_breaks_no_rule_for_replies() -> None:
    feedback = [
        row | {"inputs": row["outputs"], "outputs": f"Answer {n}, as ever."}
        for n, row in enumerate(rows())
    ]
    judge, _ = taught(
        feedback, instructions="Is {{outputs}} a kind answer to {{inputs}}?"
    )
    assert any(
        test.field == "inputs" for g in judge.memory.guidelines for test in g.tests
    )
    assert (
        judge(inputs="Unfortunately it broke.", outputs="We mend it.").decided_by
        == "model"
    )


@pytest.mark.parametrize(
    "labels", [(True, False), ("good", "bad"), ("good", "bad", "open")]
)
def test_a_description_of_a_failing_is_no_prohibition(labels: tuple[Any, ...]) -> None:
    good, bad = labels[:2]
    feedback = [
        row | {
            "outputs": f"{'Regarding' if n % 2 else 'Our apology for'} order {n}.",
            "value": bad if n % 2 else good,
            "rationale": "No apology." if n % 2 else None,
        }
        for n, row in enumerate(rows())
    ]  # fmt: skip
    answers = {"rationale": "Fine.", "value": bad}
    kind = bool if good is True else Literal[labels]
    judge, _ = scripted(answers, limits=Limits(writes=False), feedback_value_type=kind)
    judge = judge.align(feedback).judge
    assert judge(outputs="An apology costs nothing.").decided_by == "model"


@pytest.mark.parametrize(
    "comment",
    [
        "Unfortunately is fine in condolences.",
        "Always write unfortunately.",
        "Write unfortunately to be kind.",
    ],
)
def test_another_persons_words_to_the_contrary_end_it_without_a_label(
    comment: str,
) -> None:
    judge, _ = taught()
    other = {
        "id": "u-1",
        "source": "ben",
        "outputs": "We miss him.",
        "rationale": comment,
    }
    later = judge.align([other]).judge
    assert later(outputs="Unfortunately it broke.").decided_by == "model"
    assert "u-1@ben" in rule_sentence(
        later.memory, later.value_type, later.memory.guideline("G1")
    )
    assert (
        later.unalign("u-1@ben").judge(outputs="Unfortunately it broke.").decided_by
        == "rule"
    )


@pytest.mark.parametrize(
    ("text", "decided_by"),
    [
        ("Never write unfortunately.", "rule"),
        ("Write unfortunately in condolences.", "model"),
        ("Be kind.", "rule"),
    ],
)
def test_a_guideline_that_a_person_wrote_may_contradict_it(
    text: str, decided_by: str
) -> None:
    judge, _ = taught()
    written = edit_guideline(judge, "G2", text=text, pinned=True, by="ben")
    assert written(outputs="Unfortunately it broke.").decided_by == decided_by


def test_switched_off_it_stays_off_in_another_guideline_with_the_same_test() -> None:
    judge, _ = taught()
    off = edit_guideline(judge, "G1", rule=False, by="dora")
    assert off(outputs="Unfortunately it broke.").decided_by == "model"
    more = [
        row | {"id": f"u-{n}"}
        for n, row in enumerate(rows(4, comment="We never say unfortunately!"))
    ]
    more = [
        row | {"outputs": f"{row['outputs']} Again {n}."} for n, row in enumerate(more)
    ]
    again = off.align(more).judge
    assert again(outputs="Unfortunately it broke.").decided_by == "model"
    assert (
        edit_guideline(again, "G1", rule=True, by="dora")(
            outputs="Unfortunately it broke."
        ).decided_by
        == "rule"
    )


@pytest.mark.parametrize(
    ("text", "comment", "changes", "decided_by"),
    [
        (
            'Never write "unfortunately": when a reply says it, false',
            "Never write unfortunately.",
            {},
            "rule",
        ),
        (
            'When a reply says "unfortunately": false',
            "Never write unfortunately. Be kind.",
            {},
            "rule",
        ),
        (
            'Never write "unfortunately" unless somebody died',
            "Never write unfortunately.",
            {},
            "model",
        ),
        (
            'Never write "unfortunately" when refusing',
            "Never write unfortunately when refusing.",
            {},
            "model",
        ),
        (
            'When a reply says "unfortunately": false',
            "Unfortunately sounds cold.",
            {},
            "model",
        ),
        (
            'When refusing, no "unfortunately"',
            "Never write unfortunately.",
            {"origin": "ana"},
            "model",
        ),
        (
            'When refusing, no "unfortunately"',
            "Never write unfortunately.",
            {"pinned_by": "ana"},
            "model",
        ),
    ],
)
def test_what_the_experts_said_counts_where_a_model_added_the_occasion(
    text: str, comment: str, changes: dict[str, Any], decided_by: str
) -> None:
    judge, _ = taught(rows(comment=comment))
    judge = alone(switched(judge, text, **changes))
    assert judge(outputs="Unfortunately it broke.").decided_by == decided_by
