"""A person and a text are erased in every spelling, or the receipt says where they are left."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from memalign import Memory, Registry
from memalign.align import edit_guideline, set_policy, write_guideline
from memalign.content.normal import unescaped
from memalign.errors import InvalidRows, UnknownKey
from memalign.keys import name_key
from memalign.memory import Annotation, Case, FeedbackConflict
from memalign.memory.forget import without_disputed
from memalign.memory.text_search import Finder, NameFinder
from memalign.registry.erase_reach import Reach
from memalign.types import Example, FeedbackKey
from tests.registry.test_erase import nowhere
from tests.support.keys import keys
from tests.support.lists import ids, table
from tests.support.names import names, spelled_otherwise
from tests.support.places import OnSQLite, Place
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

JOSE = "José Müller"
DECOMPOSED = "Jose\u0301 Mu\u0308ller"
ESCAPED = json.dumps(JOSE)[1:-1]


def spoken(name: str, rationale: str, *, source: str = "ana", **fields: Any) -> Case:
    annotation = Annotation(
        id=name,
        source=source,
        value=False,
        rationale=rationale,
        meta=fields.pop("meta", {}),
    )
    content = {"inputs": f"question {name}", "outputs": f"answer {name}"} | fields
    return Case(example=Example(id=name, **content), annotations=(annotation,))


# -- the person --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (JOSE, DECOMPOSED),
        ("Ana@Example.org", "ana@example.org"),
        ("Li Wei", "Li\u00a0Wei"),
        ("Ana Lima", "ANA\u200b  LIMA"),
        ("Ana O'Neil", "Ana O\u2019Neil"),  # as a phone's keyboard writes it
        ("Anne-Marie", "Anne\u2011Marie"),
    ],
)
@pytest.mark.parametrize("how", ["source", "key"])
def test_whoever_is_erased_goes_in_every_spelling(
    registry: Registry, place: Place, one: str, other: str, how: str
):
    cases = (
        spoken("t-1", "warm words", source=one),
        spoken("t-2", "cold words", source=other),
        case("t-3", "ben"),
    )
    registry.create(judge(memory_of(*cases, size=1)))
    selection: dict[str, Any] = {"source": one}
    if how == "key":
        selection = {"selectors": [f"t-1@{other}", f"t-2@{one}"]}
    receipt = erase(registry, **selection)
    assert receipt.complete, receipt.answer
    assert len(receipt.keys) == len(receipt.guidelines) == 2
    assert keys_of(registry.load("helpfulness")) == {"t-3@ben"}
    assert nowhere(place, one, other, "warm words", "cold words")
    with pytest.raises(UnknownKey, match="it was erased on"):
        registry.erase("helpfulness", **selection)
    again = row("t-1", other.upper(), "warm words")
    result = registry.align("helpfulness", [again], optimizer=optimizer(*models()))
    assert "was erased on" in result.rows[0].reason


@given(names, st.data())
@settings(max_examples=8)
def test_no_spelling_of_any_name_is_left(name: str, data: st.DataObject) -> None:
    written = [data.draw(spelled_otherwise(name)) for _ in range(5)]
    said, pinned, retired, listed, dismissed = written
    theirs = spoken("t-1", "one", source=said)
    memory = memory_of(theirs, case("t-2", "ben"), case("t-3", "bob"), size=1)
    first, second, third = memory.guidelines
    second = replace(second, pinned_by=pinned)
    third = replace(third, retired_by=retired)
    conflict = FeedbackConflict(
        feedback=keys("t-2@ben", "t-3@bob"), dismissed_by=dismissed
    )
    memory = replace(
        memory,
        guidelines=(first, second, third),
        conflicts=(conflict,),
        authority=(listed, "ben"),
    )
    with tempfile.TemporaryDirectory() as folder:
        registry = OnSQLite(Path(folder) / "memalign.db").registry()
        registry.create(judge(memory))
        receipt = erase(registry, source=data.draw(spelled_otherwise(name)))
        after = registry.load("helpfulness").memory
    assert receipt.complete, (written, receipt.answer)
    assert name_key(name) not in map(name_key, filter(None, people_in(after)))


def people_in(memory: Memory) -> Iterator[str | None]:
    """Whoever a memory names as somebody who did something."""
    yield from memory.authority
    for annotation in memory.annotations():
        yield annotation.source
    for conflict in memory.conflicts:
        yield conflict.dismissed_by
    for guideline in memory.guidelines:
        yield from guideline.people
        yield guideline.retired_by


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"rationale": "Ask Ana\u00a0Lima about it"}, "comment t-2@ben"),
        ({"rationale": "Ask", "meta": {"reviewer": "ana lima"}}, "comment t-2@ben"),
        ({"rationale": "Ask", "outputs": {"by": "ANA LIMA"}}, "case t-2"),
        (
            {
                "rationale": "Ask",
                "trace": {"attributes": {"input": '"Ana\\u0020Lima wrote"'}},
            },
            "case t-2",
        ),
    ],
)
def test_a_name_in_other_peoples_words_is_left_and_listed(
    registry: Registry, where: dict[str, Any], left: str
):
    hers = spoken("t-1", "warm", source="Ana Lima")
    others = spoken("t-2", source="ben", **where)
    registry.create(judge(memory_of(hers, others, size=1)))
    receipt = erase(registry, source="Ana Lima")
    assert not receipt.complete
    assert receipt.stays == (left,)
    assert left in receipt.answer
    assert "the person's name in every spelling" in receipt.looked_for
    assert erase(registry, matching="Ana Lima").complete


def test_a_name_inside_a_longer_word_is_somebody_elses(registry: Registry):
    theirs = spoken("t-1", "warm", source="ana")
    others = spoken("t-2", "a banana for mariana", source="ben")
    registry.create(judge(memory_of(theirs, others, size=1)))
    assert erase(registry, source="ana").complete


# -- the text ----------------------------------------------------------------------

PLACES = {
    "pinned": lambda j: edit_guideline(j, "G1", by=DECOMPOSED, pinned=True),
    "written": lambda j: write_guideline(
        j, "Replies with an order number are good.", by=JOSE
    ),
    "rewritten": lambda j: edit_guideline(
        j, "G1", by=JOSE.upper(), text="Replies are short."
    ),
    "retired": lambda j: edit_guideline(j, "G1", by=JOSE, retired=True),
    "authority": lambda j: set_policy(j, authority=["ben", JOSE]),
}


@pytest.mark.parametrize("what", PLACES)
@pytest.mark.parametrize("how", ["matching", "source"])
def test_a_name_goes_from_every_record_of_who_did_what(
    registry: Registry, place: Place, what: str, how: str
):
    told = spoken("t-9", f"{JOSE} asked twice")
    if how == "source":
        told = spoken("t-9", "warm", source=JOSE)
    registry.create(judge(memory_of(case("t-1", "ana"), told, size=1)))
    registry.update("helpfulness", PLACES[what])
    who: dict[str, Any] = {how: JOSE}
    receipt = erase(registry, **who)
    assert receipt.complete, receipt.answer
    assert nowhere(place, JOSE, DECOMPOSED, JOSE.upper())


CUSTOMER = json.dumps({"customer": JOSE})
MLFLOWS = {"attributes": {"mlflow.spanInputs": json.dumps(f"Write to {JOSE}")}}
HIDDEN: dict[str, dict[str, Any]] = {
    "mlflow": {"trace": {"data": {"spans": [MLFLOWS]}}},
    "text before JSON": {"outputs": f"Result: {CUSTOMER}"},
    "a fence": {"outputs": f"```json\n{CUSTOMER}\n```"},
    "two lines of JSON": {"outputs": f'{{"n": 1}}\n{CUSTOMER}'},
    "cut": {"outputs": json.dumps({"customer": JOSE, "more": "x"})[:-9]},
    "JSON in JSON": {"outputs": json.dumps(CUSTOMER)},
    "thrice": {"inputs": {"log": json.dumps(json.dumps(json.dumps([JOSE])))}},
    "decomposed and escaped": {"inputs": json.dumps(DECOMPOSED)},
    "capitals in the escape": {"inputs": '"Jos\\u00E9 M\\u00FCller"'},
    "a line break": {"inputs": '"Jos\\u00e9\\nM\\u00fcller"'},
}


@pytest.mark.parametrize("how", HIDDEN)
def test_no_encoding_of_json_hides_a_text(registry: Registry, place: Place, how: str):
    told = spoken("t-1", "long", **HIDDEN[how])
    registry.create(judge(memory_of(told, case("t-2", "ben"), size=1)))
    receipt = erase(registry, matching=JOSE)
    assert receipt.cases == ("t-1",)
    assert receipt.complete
    assert nowhere(place, "Jos\\", "M\\u00fc", JOSE)


@given(st.text(min_size=1), st.integers(0, 3))
def test_a_text_is_found_however_deep_json_is_in_json(text: str, depth: int) -> None:
    written = text
    for _ in range(depth):
        written = json.dumps([written])
    if text.strip() and "\\" not in text and name_key(text) != text[:0]:
        try:
            finder = Finder(text)
        except ValueError:  # nothing that anybody sees
            return
        assert finder.holds(f"see {written} there")


@pytest.mark.parametrize(
    "text",
    ["plain", "C:\\new folder\\u12", "\\", "a\\\\u00e9", "\\ud83d\\ude00 and \\ud83d"],
)
def test_undoing_escapes_is_linear_and_never_fails(text: str) -> None:
    assert unescaped(text * 3).encode("utf-8", "replace")
    assert NameFinder("é").holds("caf\\u00e9") is False


def test_a_note_of_another_judge_makes_the_receipt_name_it(registry: Registry):
    registry.create(
        judge(memory_of(case("t-1", "ana")), name="other"), note=f"as {JOSE} said"
    )
    registry.create(judge(memory_of(spoken("t-1", f"{JOSE} asked"), size=1)))
    assert erase(registry, matching=JOSE).elsewhere == ("other",)


# -- wordings of people ------------------------------------------------------------

TOLD = [
    "Zoltan Kiss was lied to.",
    "Zoltan Kiss of Pest was lied to by the shop about his lamp in May.",
]


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("what", ["pin", "edit", "copy"])
@pytest.mark.parametrize(
    "how", [{"selectors": ["t-1"]}, {"selectors": ["t-1@ana"]}, {"source": "ana"}]
)
def test_a_wording_that_somebody_keeps_is_shown_and_goes(
    registry: Registry, place: Place, told: str, what: str, how: dict[str, Any]
):
    memory = memory_of(spoken("t-1", told), case("t-2", "ben"), size=1)
    first, second = memory.guidelines
    first = replace(first, text=f"Mind: {told}")
    registry.create(judge(replace(memory, guidelines=(first, second))))
    changes = {
        "pin": lambda j: edit_guideline(j, "G1", by="olga", pinned=True),
        "edit": lambda j: edit_guideline(
            j, "G1", by="olga", text=f"Always mind this: {told}"
        ),
        "copy": lambda j: write_guideline(
            j, f"Remember, {told}", by="olga", pinned=True
        ),
    }
    registry.update("helpfulness", changes[what])
    before = registry.erase("helpfulness", **how, dry_run=True)
    receipt = erase(registry, **how)
    kept = "G3" if what == "copy" else "G1"
    assert before.wordings == receipt.wordings == (kept,)
    assert before.counts == receipt.counts
    assert receipt.complete, receipt.answer
    assert nowhere(place, "Zoltan", told)
    assert ids(registry.load("helpfulness").memory.guidelines) == ["G2"]


def test_words_that_people_share_are_nobodys(registry: Registry):
    cases = (
        spoken("t-1", "Say sorry before all else."),
        spoken("t-2", "Say sorry before all else, then help", source="b"),
    )
    registry.create(judge(memory_of(*cases, size=1)))
    registry.update(
        "helpfulness",
        lambda j: write_guideline(j, "Say sorry before all else, always.", by="olga"),
    )
    receipt = erase(registry, "t-1")
    assert receipt.complete
    assert ids(registry.load("helpfulness").memory.guidelines) == ["G2", "G3"]


# -- registries --------------------------------------------------------------------


def test_a_whole_registry_brings_no_erased_text_back(
    registry: Registry, place: Place, tmp_path: Path
):
    told = memory_of(spoken("t-1", f"{JOSE} asked twice"), case("t-2", "ben"), size=1)
    old = OnSQLite(tmp_path / "old.db").registry()
    old.create(judge(told, name="zz"))
    old.update("zz", lambda j: j.unalign("t-1").judge)
    registry.create(judge(told))
    erase(registry, matching=JOSE)
    with pytest.raises(InvalidRows, match=r"t-1(.|\n)*--allow-erased"):
        registry.import_registry(old)
    (summary,) = registry.list()
    assert summary.name == "helpfulness"
    assert nowhere(place, JOSE)
    registry.import_registry(old, allow_erased=True)
    assert len(registry.history("zz")) == 2


# -- the reach of an erasure -------------------------------------------------------

COUNTS = ("number", "action", "cases", "feedback", "guidelines", "pending")


def _erased(versions: list[Memory], selection: dict[str, Any]) -> tuple[Any, ...]:
    """Return what an erasure says and leaves in a registry of these versions."""
    with tempfile.TemporaryDirectory() as folder:
        registry = OnSQLite(Path(folder) / "memalign.db").registry()
        registry.create(judge(versions[0]))
        for memory in versions[1:]:
            registry.save(judge(memory))
        shown = erase(registry, **selection).to_dict()
        del shown["at"], shown["searched"]
        history = table(registry.history("helpfulness"), *COUNTS)
        left = [version.memory for version in all_versions(registry).values()]
        return shown, history, left


def settled(memory: Memory) -> Memory:
    """Return the memory as an align leaves it, with nothing from a label that does not count."""
    while (after := without_disputed(memory)) != memory:
        memory = after
    return memory


@given(st.lists(memories().map(settled), min_size=1, max_size=3), st.data())
@settings(max_examples=30, phases=[Phase.generate])
def test_what_is_out_of_reach_is_what_would_stay_anyway(
    versions: list[Memory], data: st.DataObject
) -> None:
    everything: set[FeedbackKey] = set()
    for memory in versions:
        everything.update(annotation.key for annotation in memory.annotations())
    if not everything:
        return
    key = data.draw(st.sampled_from(sorted(everything)))
    ways: list[dict[str, Any]] = [
        {"selectors": [key]},
        {"source": key.source},
        {"selectors": [str(key.id)]},
    ]
    selection = data.draw(st.sampled_from(ways))
    reached = _erased(versions, selection)

    def everywhere(_: Reach, row: tuple[str, str]) -> bool:
        return row[0] != "judge" and row != ("memory", "next_guideline")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reach, "has", everywhere)
        assert _erased(versions, selection) == reached
