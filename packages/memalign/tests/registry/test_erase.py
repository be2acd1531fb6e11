"""Erased feedback is in no version, in no byte of the file, and does not come back unasked."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Judge, MemAlign, Memory, Registry
from memalign.align import edit_guideline, write_guideline
from memalign.errors import (
    InputError,
    InvalidRows,
    JudgeNotFound,
    ModelUnavailable,
    UnknownKey,
)
from memalign.memory import Annotation, Case, FeedbackConflict, Outcome
from memalign.memory.forget import forget
from memalign.memory.status import LedgerEntry
from memalign.registry import MemoryDiff, Receipt, RedactedVersion, kinds
from memalign.registry.residue import Residue
from memalign.testing import ScriptedChatModel
from memalign.types import Example, Guideline
from tests.support.keys import keys
from tests.support.learning import prompts_of, states
from tests.support.lists import ids, table
from tests.support.places import KINDS, OnSQLite, Place, place_of
from tests.support.registry import (
    all_versions,
    case,
    erase,
    judge,
    keys_of,
    memories,
    memory_of,
    models,
    optimizer,
    row,
)

replace = msgspec.structs.replace

SECRET = (
    "Maria Oliveira of Lisbon lost nine hundred euros "
    "when her card was charged twice in May"
)
FAR = "Rua das Flores 12, third floor on the left, is where the parcel of the customer went"


def secret_case(*sources: str) -> Case:
    meta = {"address": FAR}
    example = Example(id="t-7", inputs={"note": SECRET}, outputs="Hm.", meta=meta)
    annotations = []
    for source in sorted(sources):
        words = f"{source} says: {SECRET}"
        said = Annotation(id="t-7", source=source, value=False, rationale=words)
        annotations.append(said)
    vector = b"\x01\x02\x03\x04" * 4
    return Case(example=example, annotations=tuple(annotations), vector=vector)


def secret_among_others() -> Memory:
    """The secret case with others; t-7 and t-8 share a guideline."""
    return memory_of(case("t-1", "ana"), case("t-8", "bob"), secret_case("ana"))


def actions(registry: Registry) -> list[str]:
    return [version.action for version in registry.history("helpfulness")]


def nowhere(place: Place, *texts: str) -> bool:
    data = place.bytes()
    return all(text.encode() not in data for text in texts)


@pytest.fixture
def learned(registry: Registry) -> Registry:
    return learn(registry)


def learn(registry: Registry) -> Registry:
    """Three versions: nothing, the secret case with others, and the secret unaligned."""
    registry.create(judge())
    memory = secret_among_others()
    registry.save(judge(memory), action="align")
    registry.save(judge(forget(memory, keys("t-7@ana"))), action="unalign")
    return registry


def test_an_erase_reaches_every_version_and_every_byte(
    registry: Registry, place: Place
):
    registry.create(judge())
    registry.save(judge(secret_among_others()))
    assert not nowhere(place, SECRET, FAR)
    receipt = erase(registry, "t-7")
    assert nowhere(place, SECRET, FAR, "t-7", "rule number 1")
    assert receipt.complete
    assert (receipt.keys, receipt.cases) == (keys("t-7@ana"), ("t-7",))
    assert (receipt.guidelines, receipt.pending) == (("G1",), keys("t-1@ana"))
    (version,) = receipt.versions
    assert (version.number, receipt.latest) == (2, 3)
    assert (version.comments, version.cases, version.guidelines) == (1, 1, 1)
    made = ("number", "action", "redacted", "feedback", "guidelines")
    assert table(registry.history("helpfulness"), *made) == [
        (1, "create", False, 0, 0),
        (2, "save", True, 2, 1),
        (3, "erase", False, 2, 1),
    ]
    others = {"t-1@ana", "t-8@bob"}
    left = list(map(keys_of, all_versions(registry).values()))
    assert left == [set(), others, others]


def test_an_interrupted_erase_still_gives_its_receipt(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
):
    registry.save(judge(secret_among_others()))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "align", interrupted)
    receipt = registry.erase("helpfulness", ["t-7"])
    assert receipt.pending == keys("t-1@ana")
    assert "interrupted" in str(receipt)


def test_feedback_in_older_versions_only_is_erased(learned: Registry, place: Place):
    assert not nowhere(place, SECRET)
    receipt = erase(learned, "t-7@ana")
    # The withdrawn key went from the head's ledger too.
    assert nowhere(place, SECRET, FAR, "t-7")
    assert [version.number for version in receipt.versions] == [2, 3]
    restored = learned.rollback("helpfulness", 2).judge
    assert states(restored) == {"t-1@ana": "pending", "t-8@bob": "learned"}


def test_a_head_without_the_feedback_gets_no_version(registry: Registry, place: Place):
    registry.create(judge(memory_of(secret_case("ana"))))
    registry.save(judge())
    receipt = erase(registry, "t-7")
    assert receipt.latest is None
    first, head = registry.history("helpfulness")
    assert (first.redacted, head.redacted) == (True, False)
    assert nowhere(place, SECRET)


def test_a_case_stays_while_others_speak_of_it(registry: Registry, place: Place):
    registry.create(judge(memory_of(secret_case("ana"))))
    registry.save(judge(memory_of(secret_case("ana", "bob"))))
    receipt = erase(registry, "t-7@ana")
    left = list(map(keys_of, all_versions(registry).values()))
    assert left == [set(), {"t-7@bob"}, {"t-7@bob"}]
    assert registry.load("helpfulness", 1).memory.cases == ()  # there nobody else spoke
    (kept,) = registry.load("helpfulness", 2).memory.cases
    assert kept.example.inputs == {"note": SECRET}
    assert nowhere(place, "ana says")
    counts = table(receipt.versions, "number", "comments", "cases")
    assert counts == [(1, 1, 1), (2, 1, 0)]
    everything = erase(registry, "t-7")
    assert everything.keys == keys("t-7@bob")
    assert nowhere(place, SECRET, FAR)


def test_all_of_one_person_can_be_erased(registry: Registry, place: Place):
    cases = [case(f"t-{n}", "ana", "bob", says="well") for n in range(5)]
    registry.create(judge(memory_of(*cases)))
    receipt = erase(registry, source="bob")
    assert len(receipt.keys) == 5
    assert keys_of(registry.load("helpfulness")) == {f"t-{n}@ana" for n in range(5)}
    assert nowhere(place, "@bob", "t-3 bob")
    with pytest.raises(UnknownKey, match="holds feedback of source 'bob'"):
        registry.erase("helpfulness", source="bob")


def test_all_of_one_person_leaves_the_name_nowhere(registry: Registry, place: Place):
    cases = [case(f"t-{n}", "ana", "philippa", says="well") for n in range(3)]
    memory = memory_of(*cases, size=1)
    first, *rest = memory.guidelines
    own = Guideline(
        id=f"G{memory.next_guideline}",
        text="Every reply names a day.",
        origin="philippa",
        pinned_by="philippa",
    )
    conflict = FeedbackConflict(
        feedback=keys("t-0@ana", "t-1@ana"), dismissed_by="philippa"
    )
    memory = replace(
        memory,
        guidelines=(replace(first, pinned_by="philippa"), *rest, own),
        next_guideline=memory.next_guideline + 1,
        authority=("philippa", "ana"),
        conflicts=(conflict,),
    )
    registry.create(judge(memory), note="after a talk with philippa")
    save_guideline(registry, "philippa", "Every reply is short.")
    receipt = erase(registry, source="philippa")
    assert receipt.complete, receipt.left
    assert nowhere(place, "philippa")
    for version in all_versions(registry).values():
        assert version.memory.authority == ("ana",)
        for each in version.memory.guidelines:
            assert each.origin == "distilled"
    left = str(registry.load("helpfulness").memory.guidelines)
    assert "Every reply names a day." not in left
    assert "Every reply is short." not in left


@pytest.mark.parametrize("action", ["after the call of Maria Oliveira", "", "Save"])
def test_what_made_a_version_is_one_of_a_few_words(registry: Registry, action: Any):
    registry.create(judge())
    with pytest.raises(InputError, match="rollback"):
        registry.save(judge(memory_of(case("t-1", "ana"))), action=action)
    assert len(registry.history("helpfulness")) == 1


letters = st.characters(min_codepoint=97, max_codepoint=1500, categories=["L"])
words = st.lists(st.text(letters, min_size=4, max_size=9), min_size=2, max_size=14)
sentences = words.map(" ".join) | st.text(
    st.characters(exclude_categories=()), min_size=12, max_size=40
)


@given(memory=memories(), secret=sentences, told=sentences)
@settings(max_examples=8)
def test_no_erased_random_text_stays_in_the_file(
    memory: Memory, secret: str, told: str
):
    erased_for_good("sqlite", memory, secret, told)


@pytest.mark.skipif("postgresql" not in KINDS, reason="no PostgreSQL here")
@given(memory=memories(), secret=sentences, told=sentences)
@settings(max_examples=2)
def test_nor_on_a_server(memory: Memory, secret: str, told: str):
    erased_for_good("postgresql", memory, secret, told)


def erased_for_good(kind: str, memory: Memory, secret: str, told: str) -> None:
    name = "ÿ-secret"
    annotation = Annotation(
        id=name, source="ana", value=True, rationale=told, meta={"why": secret}
    )
    example = Example(id=name, inputs=[secret, {"x": told}])
    taught = Case(example=example, annotations=(annotation,))
    number = memory.next_guideline
    rule = Guideline(id=f"G{number}", text="a rule", exposed_to=(annotation.key,))
    knowing = replace(
        memory,
        cases=tuple(sorted((*memory.cases, taught), key=lambda c: c.id)),
        guidelines=(*memory.guidelines, rule),
        next_guideline=number + 1,
    )
    with tempfile.TemporaryDirectory() as folder, place_of(kind, Path(folder)) as place:
        registry = place.registry()
        registry.create(judge(memory))
        registry.save(judge(knowing))
        registry.save(judge(memory), action="unalign")
        erase(registry, name)
        assert nowhere(place, str(annotation.key), name)
        for text in (secret, told):
            assert text in str(memory) or spelled(text) not in place.bytes()
        assert registry.load("helpfulness", 1).memory == memory
        assert registry.load("helpfulness").memory.hash == memory.hash


def spelled(text: str) -> bytes:
    """`text` as the file would spell it."""
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def test_erased_feedback_costs_itself_until_asked_for(place: Place):
    chat, embedding = models()
    registry = place.registry(models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    learner = optimizer(chat, embedding)
    rows = [row("t-7", "ana", SECRET), row("t-8", "bob", "too long")]
    registry.align("helpfulness", rows, optimizer=learner)
    registry.erase("helpfulness", ["t-7"], optimizer=learner)
    # The same case under another id, and the same words of the same person on it.
    again = row(
        "t-99", "eva", "another comment", inputs="question t-7", outputs="answer t-7"
    )
    more = [*rows, row("t-9", "bob", "fine"), again]
    result = registry.align("helpfulness", more, optimizer=learner)
    assert table(result.rows, "line", "key", "status") == [
        (1, "t-7@ana", "invalid"),
        (2, "t-8@bob", "unchanged"),
        (3, "t-9@bob", "new"),
        (4, "t-99@eva", "invalid"),
    ]
    erased, *_, same = result.rows
    assert erased.reason.startswith("this feedback was erased on ")
    assert "--allow-erased" in erased.reason
    assert same.reason.startswith("a case of this content was erased on ")
    assert nowhere(place, SECRET)


def test_erased_feedback_comes_back_when_it_is_asked_for(place: Place):
    chat, embedding = models()
    registry = place.registry(models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    learner = optimizer(chat, embedding)
    rows = [row("t-7", "ana", SECRET), row("t-8", "bob", "too long")]
    registry.align("helpfulness", rows, optimizer=learner)
    registry.erase("helpfulness", ["t-7"], optimizer=learner)
    only_erased = registry.align("helpfulness", rows[:1], optimizer=learner)
    (line,) = only_erased.rows
    assert (line.status, only_erased.changed) == ("invalid", False)
    registry.align("helpfulness", rows, optimizer=learner, allow_erased=True)
    assert "t-7@ana" in keys_of(registry.load("helpfulness"))
    assert erased_entries(registry) == []
    assert not registry.align("helpfulness", rows, optimizer=learner).changed


def erased_entries(registry: Registry) -> list[LedgerEntry]:
    ledger = registry.ledger("helpfulness")
    return [entry for entry in ledger if entry.state == "erased"]


def test_a_bad_row_is_refused_together_with_what_was_erased(learned: Registry):
    erase(learned, "t-7")
    rows = [row("t-7", "ana", SECRET), row("t-9", "ana", "")]
    rows[1]["value"] = "perhaps"
    with pytest.raises(InvalidRows, match=r"2 invalid rows(.|\n)*t-7@ana(.|\n)*t-9"):
        learned.align("helpfulness", rows)


def test_a_bad_row_after_erasing_is_still_named(learned: Registry, tmp_path: Path):
    erase(learned, "t-7")
    file = tmp_path / "more.jsonl"
    bad = row("t-9", "ana", "", value="perhaps")
    file.write_text(f"\n\n{json.dumps(bad)}\n", "utf-8")
    said = r"more\.jsonl: 1 invalid row(.|\n)*line 3 \(t-9\)"
    with pytest.raises(InvalidRows, match=said):
        learned.align("helpfulness", file)


def test_an_older_judge_cannot_bring_erased_feedback_back(learned: Registry):
    stale = learned.load("helpfulness", 2)
    erase(learned, "t-7")
    with pytest.raises(InvalidRows, match="holds feedback that was erased") as refused:
        learned.save(stale)
    (named,) = refused.value.rows
    assert named.id == "t-7@ana", "each once"
    silent = replace(secret_case("ana"), annotations=())
    unspoken = replace(stale.memory, cases=(silent,), guidelines=())
    said = r"\(t-7\): a case of this content was erased"
    with pytest.raises(InvalidRows, match=said):
        learned.save(judge(unspoken))
    with pytest.raises(InvalidRows):
        learned.update("helpfulness", lambda _: stale)
    assert learned.save(stale, allow_erased=True) == 5


def test_an_exported_bundle_cannot_bring_erased_feedback_back(learned: Registry):
    bundle = learned.export("helpfulness", version=2)
    erase(learned, "t-7")
    for name in (None, "another"):
        with pytest.raises(InvalidRows, match="t-7@ana"):
            learned.import_bundle(bundle, name)
    (only,) = learned.list()
    assert only.name == "helpfulness"
    assert learned.import_bundle(bundle, "another", allow_erased=True) == 1


@pytest.mark.parametrize("pinned", [False, True])
def test_an_erased_persons_own_guideline_does_not_come_back(
    learned: Registry, tmp_path: Path, pinned: bool
):
    written = "Name the depot."
    save_guideline(learned, "dora", written, pinned=pinned)
    stale = learned.load("helpfulness")
    bundle = learned.export("helpfulness")
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    Registry(url).import_bundle(bundle)
    learned.erase("helpfulness", source="dora")
    for come_back in (
        lambda: learned.save(stale),
        lambda: learned.update("helpfulness", lambda _: stale),
        lambda: save_guideline(learned, "DORA ", written),
        lambda: learned.import_bundle(bundle, "another"),
    ):
        with pytest.raises(InvalidRows, match=r"G\d+@.*wording was erased"):
            come_back()
    learned.update("helpfulness", lambda _: stale, allow_erased=True)
    learned.erase("helpfulness", source="dora")
    other = Registry(url)
    assert written in str(other.load("helpfulness").memory.semantic)
    save_guideline(learned, "eve", written)  # who may say the same
    save_guideline(learned, "dora", "Another wording.")
    learned.save(stale, allow_erased=True)
    learned.import_bundle(bundle, "another")


def test_a_guideline_with_an_erased_text_does_not_come_back(learned: Registry):
    save_guideline(learned, "ben", "Never write to john@x.com again.", pinned=True)
    save_guideline(learned, "eve", "Say sorry.")
    bundle = learned.export("helpfulness")
    learned.erase("helpfulness", matching="john@x.com")
    for name in (None, "another"):
        with pytest.raises(InvalidRows, match=r"@ben.*wording was erased"):
            learned.import_bundle(bundle, name)
    copy = learned.export("helpfulness")
    learned.import_bundle(copy, "another")  # eve's stays hers


def test_who_else_confirmed_an_erased_persons_guideline_keeps_it(learned: Registry):
    save_guideline(learned, "ben", "Say sorry.")
    written = learned.load("helpfulness").memory.guidelines[-1].id

    def pinned(judge: Judge) -> Judge:
        return edit_guideline(judge, written, by="dora", pinned=True)

    learned.update("helpfulness", pinned)
    learned.erase("helpfulness", source="dora")
    copy = learned.export("helpfulness")
    assert "Say sorry." in str(learned.load("helpfulness").memory.semantic)
    learned.import_bundle(copy, "another")
    learned.update(
        "helpfulness",
        lambda judge: edit_guideline(judge, written, by="ben", retired=True),
    )


def save_guideline(
    registry: Registry, author: str, text: str, *, pinned: bool = False
) -> None:
    def written(judge: Judge) -> Judge:
        return write_guideline(judge, text, by=author, pinned=pinned)

    registry.update("helpfulness", written)


def test_the_ledger_names_erased_feedback_by_hash_only(learned: Registry):
    erase(learned, "t-7")
    (erased,) = erased_entries(learned)
    assert str(erased.key).startswith("erased:")
    assert "t-7" not in str(erased.key) + erased.reason
    with pytest.raises(UnknownKey, match="it was erased on"):
        learned.erase("helpfulness", ["t-7@ana"])


def test_survivors_are_derived_again_when_a_model_answers(place: Place):
    chat, embedding = models()
    registry = place.registry(models=[chat, embedding])
    memory = memory_of(case("t-6", "bob"), secret_case("ana"))
    registry.create(judge(memory, model=chat, embedding_model=embedding))
    receipt = registry.erase(
        "helpfulness", ["t-7"], optimizer=optimizer(chat, embedding)
    )
    assert receipt.pending == ()
    assert receipt.rederived == ("G2",)
    assert actions(registry) == ["create", "erase", "align"]
    assert chat.requests
    assert SECRET not in prompts_of(chat)
    assert states(registry.load("helpfulness")) == {"t-6@bob": "learned"}


def test_an_erase_stands_when_no_model_answers(place: Place):
    _, embedding = models()
    down = ScriptedChatModel(lambda _: ModelUnavailable("the server is down"))
    registry = place.registry(models=[down, embedding])
    memory = memory_of(case("t-6", "bob"), secret_case("ana"))
    registry.create(judge(memory, model=down, embedding_model=embedding))
    receipt = registry.erase(
        "helpfulness", ["t-7"], optimizer=optimizer(down, embedding)
    )
    assert receipt.pending == keys("t-6@bob")
    assert "server is down" in receipt.problem
    assert "server is down" in str(receipt)
    assert nowhere(place, SECRET)


def test_a_dry_run_only_tells_what_would_go(learned: Registry, place: Place):
    before = all_versions(learned)
    receipt = learned.erase("helpfulness", ["t-7"], dry_run=True)
    assert receipt.dry_run
    assert receipt.latest is None
    assert receipt.guidelines == ("G1",)
    assert "1 case, 1 comment and 1 guideline would be erased" in str(receipt)
    assert all_versions(learned) == before
    for version in learned.history("helpfulness"):
        assert not version.redacted
    assert not nowhere(place, SECRET)


def test_a_persons_guideline_with_erased_words_goes_too(
    registry: Registry, place: Place
):
    memory = memory_of(case("t-1", "ana"), secret_case("bob"), size=1)
    own = Guideline(
        id="G9", text=f"Remember that {SECRET}", origin="eva", pinned_by="eva"
    )
    registry.create(judge(replace(memory, guidelines=(*memory.guidelines, own))))
    receipt = erase(registry, "t-7")
    assert receipt.copied == ("G9",)
    assert receipt.guidelines == ("G2", "G9")
    assert nowhere(place, SECRET)
    assert ids(registry.load("helpfulness").memory.guidelines) == ["G1"]


def waiting(case: Case, reason: str) -> Case:
    """A case whose only comment waits, for that reason."""
    (annotation,) = case.annotations
    outcome = Outcome(kind="pending", reason=reason)
    return replace(case, annotations=(replace(annotation, outcome=outcome),))


def test_notes_with_erased_words_are_blanked(registry: Registry, place: Place):
    first = waiting(case("t-1", "ana"), "waits for t-7@bob")
    memory = memory_of(first, secret_case("bob"), size=1)
    registry.create(judge(memory), note=f"after the call: {SECRET}")
    erase(registry, "t-7")
    assert nowhere(place, SECRET, "t-7@bob")
    assert registry.history("helpfulness")[0].note == "(erased)"
    assert registry.load("helpfulness").memory.cases == (waiting(first, "(erased)"),)


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        (
            "病人王小明住在青年路十二号他说护士两次挂断了他的电话没有道歉",
            "如果病人王小明住在青年路十二号他说护士两次挂断了他的电话就判为不合格",
        ),
        (
            "患者の山田花子さんは青葉町三丁目に住んでいて看護師に二回電話を切られたと言っています",
            "患者の山田花子さんは青葉町三丁目に住んでいて看護師に二回電話を切られた場合は不合格とする",
        ),
    ],
)
def test_erased_words_in_spaceless_languages_are_blanked_too(
    registry: Registry, place: Place, told: str, rule: str
):
    annotation = Annotation(id="t-7", source="bob", value=False, rationale=told)
    example = Example(id="t-7", inputs="q", outputs="a")
    theirs = Case(example=example, annotations=(annotation,))
    registry.create(judge(memory_of(case("t-1", "ana"), theirs, size=1)))
    registry.update(
        "helpfulness",
        lambda judge: write_guideline(judge, rule, by="dora"),
        note=f"Bob: {told}",
    )
    receipt = erase(registry, "t-7")
    assert nowhere(place, told, rule)
    assert len(receipt.copied) == 1
    assert registry.history("helpfulness")[1].note == "(erased)"
    assert len(registry.load("helpfulness").memory.guidelines) == 1


def test_an_older_reason_with_those_words_is_blanked(registry: Registry):
    first = case("t-1", "ana")
    late = waiting(first, "the model timed out after 60 s")
    registry.create(judge(memory_of(late)))
    said = Annotation(id="t-2", source="ben", value=False, rationale="Timed out.")
    terse = replace(case("t-2", "ben"), annotations=(said,))
    registry.save(judge(memory_of(first, terse, size=1)))
    receipt = erase(registry, "t-2")
    assert receipt.complete
    left = registry.load("helpfulness", 1).memory.cases
    assert left == (waiting(first, "(erased)"),)


def test_the_file_is_found_after_a_folder_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    registry = Registry("sqlite:///memalign.db")
    registry.create(judge(memory_of(case("t-1", "ana"), secret_case("bob"), size=1)))
    other = tmp_path / "other"
    other.mkdir()
    (other / "memalign.db").write_text("somebody else's")
    monkeypatch.chdir(other)
    receipt = erase(registry, "t-7")
    assert f"{(tmp_path / 'memalign.db').stat().st_size:,} bytes" in receipt.searched
    assert nowhere(OnSQLite(tmp_path / "memalign.db"), SECRET)


def test_a_missing_journal_holds_nothing(tmp_path: Path):
    (tmp_path / "there").write_bytes(b"12345")
    files = [tmp_path / "there", tmp_path / "gone-journal"]
    assert Residue([SECRET]).in_files(files, []) == (5, [])


def test_bytes_that_are_no_text_are_searched_too(tmp_path: Path):
    told = "病人王小明住在青年路十二号他说护士两次挂断了他的电话没有道歉"
    noise = b"\xed\xa0\x80\xe0\x80\x80\xf4\x90\x80\x80\xff" * 9
    (tmp_path / "noise").write_bytes(noise)
    (tmp_path / "left").write_bytes(noise + told.encode() + noise)
    assert Residue([told]).in_files([tmp_path / "noise"], [noise]) == (len(noise), [])
    assert Residue([told]).in_files([tmp_path / "left"], [])[1] == [
        "left (a run of eight erased words)"
    ]


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("返答が長すぎて読めない", "返答が長すぎて読めない"),
        ("bardzo proszę o to i o to, i to", "bardzo proszę o to i o to, i to"),
        (
            "the answer was too long and nobody could read it",
            "the answer was too long \0\0\0\7and nobody could read it",
        ),
        (
            "the answer was too long and nobody could read it",
            "the answer was too long\x1b and nobody could read it",
        ),
    ],
)
def test_words_between_binary_bytes_are_found(tmp_path: Path, told: str, left: str):
    (tmp_path / "left").write_bytes(b"\xff\x05" + left.encode() + b"\0\xff\1")
    found = Residue([told]).in_files([tmp_path / "left"], [])[1]
    assert found == ["left (a run of eight erased words)"]


def test_an_error_outside_memalign_keeps_the_receipt(place: Place):
    chat, embedding = models()
    registry = place.registry(models=[chat, embedding])
    registry.create(judge(model=chat, embedding_model=embedding))
    rows = [row("t-1", "ana", "first"), row("t-2", "ben", "second")]
    registry.align("helpfulness", rows, optimizer=MemAlign(shard_size=2))

    def lost(_: Any) -> Any:
        raise ConnectionError("the line is dead")

    broken = place.registry(models=[ScriptedChatModel(lost, name=chat.name), embedding])
    receipt = broken.erase("helpfulness", ["t-1"])
    assert "the line is dead" in str(receipt.to_dict())


def test_the_receipt_names_another_judge_with_this_feedback(
    registry: Registry, place: Place
):
    registry.create(judge(memory_of(secret_case("ana"))))
    registry.create(judge(memory_of(secret_case("ana")), name="tone"))
    receipt = erase(registry, "t-7")
    assert receipt.elsewhere == ("tone",)
    assert keys_of(registry.load("tone")) == {"t-7@ana"}
    assert registry.erase("tone", ["t-7"], rederive=False).elsewhere == ()
    assert nowhere(place, SECRET, FAR)


def test_ids_that_contain_one_another_are_told_apart(registry: Registry, place: Place):
    names = ("7", "t-7", "17", "7.1", "t 7")
    cases = [case(name, "ana", "an") for name in names]
    registry.create(judge(memory_of(*cases, size=1)))
    receipt = erase(registry, "7@ana")
    assert receipt.keys == keys("7@ana")
    assert len(keys_of(registry.load("helpfulness"))) == 9


def test_other_withdrawn_feedback_stays_withdrawn_after_an_erase(registry: Registry):
    memory = memory_of(secret_case("ana", "bob"))
    registry.create(judge(forget(memory, keys("t-7@bob"))))
    erase(registry, "t-7@ana")
    withdrawn, erased = registry.ledger("helpfulness")
    assert (str(withdrawn.key), withdrawn.state) == ("t-7@bob", "withdrawn")
    assert erased.state == "erased"
    assert str(erased.key).startswith("erased:")


def test_short_words_that_survivors_use_are_no_trace(registry: Registry):
    """Labels, roles and field names of the file itself must not raise an alarm."""

    def small(name: str, text: str) -> Case:
        content = [{"role": "user", "key": text, "state": "pending"}]
        annotation = Annotation(
            id=name,
            source="ana",
            value=True,
            rationale=text,
            meta={"kind": "annotation"},
        )
        return Case(
            example=Example(id=name, conversation=content), annotations=(annotation,)
        )

    cases = (
        small("t-0", "id"),
        small("t-1", "key"),
        small("t-2", "cold"),
        small("t-3", ":"),
    )
    registry.create(judge(Memory(cases=cases)))
    erase(registry, "t-0", "t-2")
    erase(registry, "t-1", "t-3")
    assert keys_of(registry.load("helpfulness")) == set()


@pytest.mark.parametrize("text", [SECRET, "t-7@ana", f"He said: {FAR}!"])
def test_a_trace_left_anywhere_makes_the_receipt_say_no(
    registry: Registry, place: Place, text: str
):
    learned = learn(registry)
    place.execute("CREATE TABLE somebody_elses (note VARCHAR(200))")
    place.execute("INSERT INTO somebody_elses VALUES (?)", text)
    receipt = erase(learned, "t-7")
    assert not receipt.complete
    assert "somebody_elses.note (1 row)" in receipt.left
    assert "NO" in str(receipt)
    assert SECRET not in str(receipt.left)


def test_a_trace_in_the_bytes_of_the_file_makes_it_say_no(path: Path):
    learned = learn(Registry(f"sqlite:///{path}"))
    place = OnSQLite(path)
    place.execute("CREATE TABLE somebody_elses (note BLOB)")
    place.execute("INSERT INTO somebody_elses VALUES (?)", b'\x00\xff"Hm."\xff')
    receipt = erase(learned, "t-7")
    assert not receipt.complete
    assert path.name in str(receipt.left)


def test_what_is_not_there_cannot_be_erased(learned: Registry):
    wrong: list[tuple[type[Exception], Any]] = [
        (UnknownKey, lambda: learned.erase("helpfulness", ["t-99"])),
        (UnknownKey, lambda: learned.erase("helpfulness", ["t-7@bob"])),
        (UnknownKey, lambda: learned.erase("helpfulness", [])),
        (JudgeNotFound, lambda: learned.erase("tone", ["t-7"])),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    assert len(learned.history("helpfulness")) == 3


def test_the_receipt_reads_as_text_and_as_json(learned: Registry):
    receipt = erase(learned, "t-7")
    for shown in (
        "1 case, 1 comment and 1 guideline erased",
        "t-7@ana",
        "version 2: 1 case, 1 comment and 1 guideline",
        "no word is left",
        "exported bundles",
    ):
        assert shown in str(receipt)
    plain = msgspec.json.decode(msgspec.json.encode(receipt.to_dict()))
    counts = {"number": 2, "comments": 1, "cases": 1, "guidelines": 1}
    assert plain["versions"][0] == counts
    assert "MLflow versions and traces" in plain["unreachable"]


def test_all_that_is_learned_is_described():
    """A new kind of memory that the table does not know would outlive an erasure."""
    described = {kind.collection for kind in kinds.KINDS.values()} - {None}
    state = {"cases", "locks", "next_guideline", "authority", "embedding_model"}
    assert described == set(Memory.__struct_fields__) - state


@pytest.mark.parametrize("kind", kinds.LESSONS.values(), ids=lambda kind: kind.noun)
def test_a_lesson_is_counted_and_compared(kind: kinds.Kind):
    assert kind.field == kind.collection
    assert kind.field in field_names(MemoryDiff)
    for words in kind.experts:
        assert "{n}" in words


@pytest.mark.parametrize(("noun", "kind"), kinds.NOUNS.items())
def test_a_kind_with_a_name_is_in_the_receipt(noun: str, kind: kinds.Kind):
    assert kind.field in field_names(Receipt)
    assert f"{noun}s" in field_names(RedactedVersion)


def field_names(of: type) -> set[str]:
    return {field.name for field in dataclasses.fields(of)}
