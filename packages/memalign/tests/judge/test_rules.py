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
from memalign.models.base import Limits
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.testing import HashEmbedding, ScriptedChatModel
from tests.support.rows import RawRow
from tests.support.scripted import scripted

WORD = CodeTest(kind="word", text="unfortunately", value=False)
FORM = CodeTest(kind="shape", text="KD/4821", value=True)
ORDER = CodeTest(kind="word", text="order", value=False)


@pytest.mark.parametrize(
    "text",
    [
        "Never write unfortunately.",
        "Never write “Unfortunately”, it sounds cold.",
        "We never say the word 'unfortunately' in a reply",
        "A good reply does not use the word unfortunately.",
        "Replies must not contain unfortunately or sadly",
        "Don\u2019t write sadly or unfortunately!",
        "No “unfortunately”.",
        "Be kind. Never write unfortunately.",
        # A reason narrows nothing.
        "Never write unfortunately, because it sounds cold.",
        "Never write unfortunately: say what we can do.",
    ],
)
def test_a_plain_prohibition_forbids(text: str) -> None:
    assert forbidden_answer(WORD, text) is True


@pytest.mark.parametrize(
    "text",
    [
        # A condition or an exception, in the text or anywhere behind it.
        "Never write unfortunately unless somebody died.",
        "Never write unfortunately. Except in condolences.",
        "Never write unfortunately when it is about money.",
        "Never write unfortunately in the first line.",
        "Never write unfortunately twice.",
        "Never write unfortunately and sadly together.",
        "Never write unfortunately; exceptions: funerals.",
        "Never write unfortunately: allowed in letters.",
        "Never write unfortunately to children.",
        # It forbids the contrary, or nothing at all.
        "Do not avoid unfortunately.",
        "Never leave out unfortunately.",
        "Never forget to write unfortunately.",
        "Never do not write unfortunately.",
        "Do not hesitate to write unfortunately.",
        "Always write unfortunately.",
        "Is it so bad to never write unfortunately?",
        # Somebody else's words.
        "The customer said: never write unfortunately.",
        "“Never write unfortunately” is bad advice.",
        "It is wrong that we never write unfortunately.",
        "Customers never write unfortunately.",
        # Other words, other languages, other numbers.
        "Never write sadly.",
        "Never write unfortunatelyish.",
        "Schreibe nie unfortunately.",
        "Nunca escreva unfortunately.",
        # What goes on narrows it down, without a word that is a condition anywhere else.
        "Never write unfortunately, in condolences at least.",
        "Never write unfortunately, to children.",
        "Never write unfortunately, as long as nobody died.",
        "Never write unfortunately - in the subject line.",
        "Never write unfortunately in a letter.",
        "Letters never say unfortunately.",
        "Never write unfortunately. Condolences may have it.",
        "Never write unfortunately. Exempted: condolences.",
        "Generally, never write it. Never write unfortunately.",
    ],
)
def test_what_is_no_plain_prohibition_forbids_nothing(text: str) -> None:
    assert forbidden_answer(WORD, text) is None


@pytest.mark.parametrize(
    ("text", "test", "answer"),
    [
        ("Never include a number like PT/0007.", FORM, True),
        ("Never begin with Dear", CodeTest(kind="starts", text="Dear"), True),
        ("At most 20 words.", CodeTest(kind="length", high=20), False),
        ("Replies have at most 20 words", CodeTest(kind="length", low=21), True),
        ("Use no more than 5 %", CodeTest(kind="number", text="%", low=6), True),
        ("At most 20 words.", CodeTest(kind="length", high=30), None),
        ("At least 20 words.", CodeTest(kind="length", low=20), None),
        ("At most 20 %", CodeTest(kind="number", text="%", high=20), None),
        ("Give a number like KD/4821.", FORM, None),
        # The literal is a part of what is forbidden.
        ("Never write out-of-stock.", CodeTest(kind="word", text="out"), None),
        ("Never write 10:30.", CodeTest(kind="word", text="10"), None),
        ("Never write refund(s).", CodeTest(kind="word", text="refund"), None),
        ("Never write sooner or later.", CodeTest(kind="word", text="later"), None),
        ("Never say whether or not.", CodeTest(kind="word", text="not"), None),
    ],
)
def test_a_prohibition_has_to_be_of_the_very_test(
    text: str, test: CodeTest, answer: bool | None
) -> None:
    assert forbidden_answer(test, text) is answer


def test_a_condition_that_only_the_experts_own_words_have_counts() -> None:
    said = ["Never write it, only in condolences."]
    assert forbidden_answer(WORD, "Never write unfortunately.", said) is None


BROKEN = "Unfortunately it broke."


def row(name: str, outputs: str, comment: str | None = None, **more: Any) -> RawRow:
    content = {"id": name, "source": "ana", "outputs": outputs}
    return content | {"rationale": comment} | more


def rows(
    count: int = 12,
    *,
    comment: str | None = "Never write unfortunately.",
    good: str = "Today your order {}.",
    bad: str = "Unfortunately your order {}.",
) -> list[RawRow]:
    """Half of the replies have the word, and are bad."""
    made = []
    for n in range(count):
        odd = n % 2 == 1
        what = f"{n} is late" if n % 3 else f"{n} waits"
        text = (bad if odd else good).format(what)
        made.append(row(f"t-{n:02}", text, comment, value=not odd))
    return made


def again(comment: str) -> list[RawRow]:
    """Four later rows, of the same kind."""
    later = rows(4, comment=comment, bad="Unfortunately once more your order {}.")
    for one in later:
        one["id"] = f"u-{one['id']}"
    return later


def taught(
    feedback: list[RawRow] | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """A judge that took the comments word for word; its model passes everything."""
    judge, model = scripted(
        {"rationale": "Fine.", "value": True}, limits=Limits(writes=False), **changes
    )
    return judge.align(rows() if feedback is None else feedback).judge, model


def decided_by(judge: Judge, outputs: Any = BROKEN) -> str:
    return judge(outputs=outputs).decided_by


def sentence_of(judge: Judge, name: str = "G1") -> str:
    """What people are told of a rule: whether it decides, and why."""
    guideline = judge.memory.guideline(name)
    return rule_sentence(judge.memory, judge.value_type, guideline)


def test_what_is_forbidden_decides_without_a_call() -> None:
    judge, model = taught()
    made = judge(outputs=f"We are sorry. {BROKEN}")
    assert (made.value, made.decided_by, made.model) == (False, "rule", "")
    assert made.usage.calls == len(model.requests) == 0
    finding, *_ = made.findings
    assert (finding.guideline, finding.holds) == ("G1", True)
    assert finding.evidence == "Unfortunately"
    assert finding.test == 'The reply has the word "unfortunately"'
    assert made.guideline_ids == ("G1", "G2"), "said of good replies and of bad ones"
    assert "G1 decides by code" in str(made.rationale)


def test_nothing_follows_from_a_rule_that_is_kept() -> None:
    """Whoever keeps a rule may err elsewhere."""
    judge, model = taught()
    kept = judge(outputs="It is on its way.")
    assert (kept.value, kept.decided_by) == (True, "model")
    (request,) = model.requests
    assert "by code" not in request.user
    (finding,) = kept.findings
    assert (finding.guideline, finding.holds) == ("G1", False)


def test_the_experts_label_comes_first() -> None:
    judge, _ = taught()
    assert decided_by(judge, rows()[1]["outputs"]) == "expert"


def test_a_later_label_takes_it_out_of_force_at_once_and_says_so() -> None:
    judge, _ = taught()
    against = row("t-99", "Unfortunately you won.", "Good.", source="ben", value=True)
    result = judge.align([against])
    assert decided_by(result.judge) == "model"
    (note,) = [note for note in result.notes if note.startswith("G1: ")]
    assert note == "G1: Code does not decide: t-99@ben speaks against it."
    memory = result.judge.memory
    assert not rules_in_force(memory, judge.value_type)
    # And it comes back with the label's end.
    assert decided_by(result.judge.unalign("t-99@ben").judge) == "rule"


def test_a_label_that_another_one_overrules_speaks_against_it_too() -> None:
    judge, _ = taught()
    twin = rows()[1] | {"source": "ben", "value": True, "rationale": "No."}
    assert not rules_in_force(judge.align([twin]).judge.memory, judge.value_type)


def test_a_person_switches_it_off_and_it_stays_off() -> None:
    judge, _ = taught()
    off = judge
    for guideline in judge.memory.guidelines:
        if guideline.tests:
            off = edit_guideline(off, guideline.id, rule=False, by="dora")
    assert decided_by(off) == "model"
    assert "dora switched it off" in sentence_of(off)
    assert decided_by(off.align(again("So.")).judge) == "model"


def references() -> list[RawRow]:
    demand = "Give the reference, such as KD/4821"
    made = []
    for n in range(12):
        good = n % 2 == 1
        text = f"Under {'PT/10' if good else 'no. '}{n:02} it is packed."
        made.append(row(f"t-{n:02}", text, demand, value=good))
    return made


def test_a_demand_decides_by_its_absence_only_once_a_person_confirmed_it() -> None:
    judge, model = taught(references())
    (tested, _), *_ = judge.memory.tests
    lacking = "Two AAA batteries."
    assert decided_by(judge, lacking) == "model"
    assert "nobody confirmed it" in sentence_of(judge, tested.id)
    confirmed = edit_guideline(judge, tested.id, rule=True, by="ana")
    made = confirmed(outputs=lacking)
    assert (made.value, made.decided_by) == (False, "rule")
    assert made.findings[0].holds is False
    asked = len(model.requests)
    assert decided_by(confirmed, "KD/4821, two batteries.") == "model"
    assert len(model.requests) == asked + 1, "one-sided"
    # What was confirmed was another sentence.
    text = "Name the reference, like KD/4821, at once."
    reworded = edit_guideline(confirmed, tested.id, text=text, by="ana")
    assert decided_by(reworded, lacking) == "model"


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
    assert decided_by(left) == "model"


@pytest.mark.parametrize(
    ("text", "test", "people"),
    [
        ("Never write unfortunately.", WORD, {}),
        ("Never write unfortunately.", WORD, {"ruled_by": "ana", "pinned_by": "ana"}),
        ("Be kind.", ORDER, {"ruled_by": "ana"}),
        ("Never write order.", ORDER, {}),
    ],
)
def test_a_forged_rule_in_a_bundle_decides_nothing_that_labels_do_not_bear_out(
    text: str, test: CodeTest, people: dict[str, Any]
) -> None:
    judge, _ = taught(rows(6, comment=None))
    guideline = Guideline(id="G1", text=text, tests=(test,), **people)
    memory = judge.memory.with_guidelines([guideline])
    forged = judge.replace(memory=memory, model="openai:m", embedding_model=None)
    loaded = load_bundle(json.loads(json.dumps(bundle_of(forged))))
    for rule in rules_in_force(loaded.memory, loaded.value_type):
        # Which the six labels bear out.
        assert rule.guideline.text == "Never write unfortunately."
        assert rule.value is False


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
    feedback = []
    for n, (text, value, word) in enumerate(taught_rows):
        comment = f"Never write {word}."
        feedback.append(row(f"t-{n}", " ".join(text), comment, value=value))
    judge, _ = taught(feedback)
    if confirmed:
        for guideline in judge.memory.guidelines:
            if guideline.tests:
                judge = edit_guideline(judge, guideline.id, rule=True, by="dora")
    others = []
    for n, (text, value) in enumerate(later):
        others.append(row(f"u-{n}", " ".join(text), source="ben", value=value))
    judge = judge.align(others).judge
    task = task_of(judge)
    for case in judge.memory.cases:
        item = task.item(Example(id="x", outputs=case.example.outputs))
        made = ruled_judgment(task, judge.memory, item)
        for said in case.annotations:
            assert made is None or said.value in (None, made.value)


def alone(judge: Judge, text: str, **changes: Any) -> Judge:
    """The judge with G1 in other words, and no test but G1's."""
    guidelines = []
    for guideline in judge.memory.guidelines:
        if guideline.id == "G1":
            guidelines.append(replace(guideline, text=text, **changes))
        else:
            guidelines.append(replace(guideline, tests=()))
    return judge.replace(memory=judge.memory.with_guidelines(guidelines))


@pytest.mark.parametrize(
    ("outputs", "by"),
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
def test_the_reply_itself_has_to_say_it(outputs: Any, by: str) -> None:
    judge, _ = taught()
    assert decided_by(judge, outputs) == by


@pytest.mark.parametrize(
    ("said", "outputs", "by"),
    [
        ("Never write US.", "Call US now.", "rule"),
        ("Never write US.", "Call us now.", "model"),
        ("Never write us.", "Call US now.", "rule"),
        ("NEVER WRITE US.", "Call us now.", "rule"),
    ],
)
def test_an_acronym_is_not_the_word_of_the_same_letters(
    said: str, outputs: str, by: str
) -> None:
    judge, _ = taught(rows(comment=said, good="Order {}.", bad="Order {} helps US."))
    test = CodeTest(kind="word", text="us", value=False)
    tested = [replace(each, tests=(test,)) for each in judge.memory.guidelines]
    judge = judge.replace(memory=judge.memory.with_guidelines(tested))
    assert decided_by(judge, outputs) == by


def test_a_customers_word_breaks_no_rule_for_replies() -> None:
    feedback = rows()
    for n, one in enumerate(feedback):
        one |= {"inputs": one["outputs"], "outputs": f"Answer {n}, as ever."}
    judge, _ = taught(
        feedback, instructions="Is {{outputs}} a kind answer to {{inputs}}?"
    )
    assert "inputs" in [test.field for _, test in judge.memory.tests]
    made = judge(inputs=BROKEN, outputs="We mend it.")
    assert made.decided_by == "model"


@pytest.mark.parametrize(
    "labels", [(True, False), ("good", "bad"), ("good", "bad", "open")]
)
def test_a_description_of_a_failing_is_no_prohibition(labels: tuple[Any, ...]) -> None:
    good, bad = labels[:2]
    feedback = rows(bad="Regarding order {}.", good="Our apology for order {}.")
    for one in feedback:
        failed = one["value"] is False
        one["value"] = bad if failed else good
        one["rationale"] = "No apology." if failed else None
    answers = {"rationale": "Fine.", "value": bad}
    kind = bool if good is True else Literal[labels]
    judge, _ = scripted(answers, limits=Limits(writes=False), feedback_value_type=kind)
    judge = judge.align(feedback).judge
    assert decided_by(judge, "An apology costs nothing.") == "model"


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
    later = judge.align([row("u-1", "We miss him.", comment, source="ben")]).judge
    assert decided_by(later) == "model"
    assert "u-1@ben" in sentence_of(later)
    assert decided_by(later.unalign("u-1@ben").judge) == "rule"


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("Never write unfortunately.", "rule"),
        ("Write unfortunately in condolences.", "model"),
        ("Be kind.", "rule"),
    ],
)
def test_a_guideline_that_a_person_wrote_may_contradict_it(text: str, by: str) -> None:
    judge, _ = taught()
    written = edit_guideline(judge, "G2", text=text, pinned=True, by="ben")
    assert decided_by(written) == by


def test_switched_off_it_stays_off_in_another_guideline_with_the_same_test() -> None:
    judge, _ = taught()
    off = edit_guideline(judge, "G1", rule=False, by="dora")
    assert decided_by(off) == "model"
    later = off.align(again("We never say unfortunately!")).judge
    assert decided_by(later) == "model"
    assert decided_by(edit_guideline(later, "G1", rule=True, by="dora")) == "rule"


PLAIN = "Never write unfortunately."
SAYS = 'When a reply says "unfortunately": false'
REFUSING = 'When refusing, no "unfortunately"'


@pytest.mark.parametrize(
    ("text", "comment", "changes", "by"),
    [
        ('Never write "unfortunately": when a reply says it, false', PLAIN, {}, "rule"),
        (SAYS, f"{PLAIN} Be kind.", {}, "rule"),
        ('Never write "unfortunately" unless somebody died', PLAIN, {}, "model"),
        (
            'Never write "unfortunately" when refusing',
            "Never write unfortunately when refusing.",
            {},
            "model",
        ),
        (SAYS, "Unfortunately sounds cold.", {}, "model"),
        (REFUSING, PLAIN, {"origin": "ana"}, "model"),
        (REFUSING, PLAIN, {"pinned_by": "ana"}, "model"),
    ],
)
def test_what_the_experts_said_counts_where_a_model_added_the_occasion(
    text: str, comment: str, changes: dict[str, Any], by: str
) -> None:
    judge, _ = taught(rows(comment=comment))
    assert decided_by(alone(judge, text, **changes)) == by
