"""Judges and their versions: kept, listed, compared, rolled back, shared by several people."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from annotated_types import Ge, Le
from hypothesis import given, settings

from memalign import MemAlign, Memory, Registry
from memalign.align import edit_guideline, write_guideline
from memalign.cli.history import diff_text
from memalign.errors import (
    InputError,
    JudgeExists,
    JudgeNotFound,
    RegistryError,
    VersionConflict,
)
from memalign.judge import signature_of
from memalign.memory import Annotation, Case, Tombstone
from memalign.memory.forget import forget
from memalign.types import Example, FeedbackKey
from tests.support.keys import keys
from tests.support.learning import states
from tests.support.lists import ids, table
from tests.support.patience import PATIENCE
from tests.support.places import KINDS, OnSQLite, Place, place_of
from tests.support.registry import (
    case,
    judge,
    keys_of,
    memories,
    memory_of,
    models,
    optimizer,
    row,
)

replace = msgspec.structs.replace
CASES = (case("t-1", "ana"), case("t-2", "ana", "bob"), case("t-3", "bob"))


@pytest.fixture(scope="module", params=KINDS)
def scratch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    with place_of(request.param, tmp_path_factory.mktemp("registry")) as place:
        yield place.registry()


def rows_in(place: Place) -> int:
    return int(place.execute("SELECT count(*) FROM memalign_rows")[0][0])


@given(first=memories(), second=memories())
@settings(max_examples=10)
def test_any_version_comes_back_unchanged_and_by_a_rollback(
    scratch: Registry, first: Memory, second: Memory
):
    chosen = {
        "model": "openai:gpt-4.1-mini",
        "retrieval_k": 3,
        "parameters": {"temperature": 0.5, "seed": 7},
    }
    scratch.create(judge(first, **chosen))
    number = scratch.save(judge(second, **chosen))
    loaded = scratch.load("helpfulness", 1)
    head = scratch.load("helpfulness").memory
    restored = scratch.rollback("helpfulness", 1).judge.memory
    new_head = scratch.load("helpfulness").memory
    old_head = scratch.load("helpfulness", number).memory
    differs = scratch.diff("helpfulness", 1, scratch.history("helpfulness")[-1].number)
    scratch.delete("helpfulness")
    assert loaded == judge(first, **chosen)
    for one, kept in zip(first.cases, loaded.memory.cases, strict=True):
        assert list(kept.example.content) == list(one.example.content)
    assert restored.hash == first.hash == loaded.memory.hash
    # Numbers of guidelines that were given once stay given.
    given_next = max(first.next_guideline, second.next_guideline)
    assert head == old_head == replace(second, next_guideline=given_next)
    assert restored == new_head == replace(first, next_guideline=given_next)
    assert not differs


@pytest.mark.parametrize(
    "value_type",
    [str, Literal["A or B", "tie-"], Annotated[float, Ge(-0.123456789), Le(1)]],
)
def test_value_types_odd_names_and_the_order_of_fields_survive(
    registry: Registry, value_type: object
):
    inputs = {"zeta": 1, "alpha": {"b": 2, "a": 3}}
    example = Example(id="t-1", inputs=inputs, outputs="x")
    said = Annotation(id="t-1", source="ana", rationale="So.")
    gone = FeedbackKey("ünï 🦆", 'o\'brien "x"@home')
    memory = Memory(
        cases=(Case(example=example, annotations=(said,)),),
        tombstones=(Tombstone(key=gone, state="erased"),),
    )
    name = 'a judge; DROP TABLE "x" --'
    kept = judge(memory, name=name, feedback_value_type=value_type)
    registry.create(kept)
    loaded = registry.load(kept.name)
    assert (loaded.memory, loaded.value_type) == (memory, kept.value_type)
    # Prompts show this order, so their bytes depend on it.
    assert str(loaded.memory.cases[0].example.inputs) == str(inputs)


def test_a_change_rewrites_nothing_else(registry: Registry, place: Place):
    cases = [case(f"t-{n:03d}", "ana") for n in range(60)]
    memory = memory_of(*cases, size=1)
    cases[50] = case("t-050", "ana", "bob")
    grown = replace(memory, cases=tuple(cases))
    registry.create(judge(memory))
    before = rows_in(place)
    registry.save(judge(grown))
    assert rows_in(place) - before == 1  # the annotation
    registry.save(judge(forget(grown, keys("t-030@ana"))))
    assert rows_in(place) - before == 2  # the tombstone; the rest only ended


def test_history_says_what_made_each_version(registry: Registry):
    registry.create(judge())
    registry.save(judge(memory_of(*CASES)), action="align", note="first feedback")
    registry.update("helpfulness", lambda j: j.replace(model="openai:gpt-5"))
    registry.rollback("helpfulness", 1)
    added = "4 feedback added, 2 guidelines added (G1, G2)"
    history = registry.history("helpfulness")
    assert table(history, "number", "action", "summary", "note") == [
        (1, "create", "created", None),
        (2, "align", added, "first feedback"),
        (3, "edit", "model changed", None),
        (4, "rollback", "back to version 1", None),
    ]
    assert table(history, "cases", "feedback", "redacted") == [
        (0, 0, False),
        (3, 4, False),
        (3, 4, False),
        (0, 0, False),
    ]


def test_a_rollback_may_bring_back_unaligned_feedback_and_reuses_no_id(
    registry: Registry,
):
    memory = memory_of(*CASES)
    registry.create(judge(memory_of(CASES[0])))
    registry.save(judge(memory), action="align")
    registry.save(judge(forget(memory, keys("t-1@ana"))), action="unalign")

    def state(version: int | None = None) -> str:
        return states(registry.load("helpfulness", version))["t-1@ana"]

    assert state() == "withdrawn"
    registry.rollback("helpfulness", to=1)
    assert (state(), state(3)) == ("learned", "withdrawn")
    written = registry.update(
        "helpfulness", lambda j: write_guideline(j, "Mind the tone.", by="ana")
    ).judge
    new = written.memory.guidelines[-1].id
    assert new not in ids(memory.guidelines)


def test_a_stored_judge_gives_no_guidelines_number_to_another(registry: Registry):
    base = judge(memory_of(case("t-1", "ana"), case("t-2", "ana"), size=1))  # G1, G2
    registry.create(base)
    mine = write_guideline(registry.load("helpfulness"), "Be kind.", by="ben")
    *first, own = mine.memory.guidelines
    other = replace(own, exposed_to=keys("t-1@ana"))  # G3 as well, from feedback
    memory = replace(mine.memory, guidelines=(*first, other))
    registry.update(
        "helpfulness", lambda head: write_guideline(head, "Be brief.", by="ana")
    )
    said = "G3 of this judge is another guideline than G3.* under another name"
    with pytest.raises(VersionConflict, match=said):
        registry.save(mine.replace(memory=memory))
    # A reworded rule keeps its number.
    registry.save(edit_guideline(base, "G1", by="ana", text="Say sorry first."))
    grown = registry.update(
        "helpfulness", lambda head: write_guideline(head, "Be clear.", by="ana")
    ).judge.memory
    assert grown.guideline("G1").text == "Say sorry first."
    assert grown.guideline("G4").text == "Be clear."


def test_a_diff_names_every_kind_of_change(registry: Registry):
    before = memory_of(*CASES)
    # It takes G1 along, and leaves t-2@ana pending.
    after = forget(before, keys("t-1@ana"))
    *others, last = after.cases
    (said,) = last.annotations
    reworded = replace(last, annotations=(replace(said, rationale="said otherwise"),))
    after = replace(after, cases=(*others, reworded))
    registry.create(judge(before))
    registry.save(judge(after, model="openai:gpt-5"))
    diff = registry.diff("helpfulness", 1, 2)
    withdrawn, pending, changed = diff.feedback
    assert (withdrawn.name, withdrawn.after) == ("t-1@ana", None)
    assert (pending.name, changed.name) == ("t-2@ana", "t-3@bob")
    assert None not in (withdrawn.before, pending.before, changed.before)
    assert None not in (pending.after, changed.after)
    (rule,) = diff.guidelines
    assert (rule.name, rule.after) == ("G1", None)
    (setting,) = diff.settings
    assert (setting.name, setting.before) == ("model", None)
    assert setting.after == "openai:gpt-5"
    for shown in (
        "- t-1@ana",
        "comment t-2 ana [pending]",
        "+ t-3@bob: false · said otherwise",
        "- G1 rule number 1",
    ):
        assert shown in diff_text(diff)


def test_the_list_shows_every_judges_head_and_a_deleted_name_is_free(
    registry: Registry,
):
    registry.create(
        judge(name="tone", feedback_value_type="int:1..5", model="openai:gpt-5")
    )
    registry.create(judge(name="help"))
    registry.save(judge(memory_of(*CASES), name="help"))
    fields = ("name", "latest", "value_type", "model", "cases", "guidelines")
    assert table(registry.list(), *fields) == [
        ("help", 2, "bool", None, 3, 2),
        ("tone", 1, "int:1..5", "openai:gpt-5", 0, 0),
    ]
    registry.delete("help")
    (left,) = registry.list()
    assert left.name == "tone"
    assert registry.create(judge(name="help")) == 1


def test_a_judge_gets_another_name_with_all_its_versions(registry: Registry):
    registry.create(judge(memory_of(*CASES), name="help", model="openai:m"))
    registry.save(judge(name="help"))
    registry.create(judge(name="tone"))
    for taken, error in (("tone", JudgeExists), ("a\nb", InputError)):
        with pytest.raises(error):
            registry.rename("help", taken)
    registry.rename("help", "hilfe")
    named = table(registry.list(), "name", "latest")
    assert named == [("hilfe", 2), ("tone", 1)]
    before = registry.load("hilfe", 1)
    assert before.memory == memory_of(*CASES)
    written = signature_of(before.replace(name="help"))
    assert registry.judged_by("hilfe", written, before.memory.hash)[0] == 1
    with pytest.raises(JudgeNotFound):
        registry.rename("help", "again")


def test_a_missing_thing_is_named_with_existing_ones(registry: Registry):
    with pytest.raises(JudgeNotFound, match="judges: none yet"):
        registry.load("tone")
    registry.create(judge())
    registry.save(judge(model="openai:gpt-5"))
    wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (
            JudgeNotFound,
            "no judge 'tone' in the registry; judges: helpfulness",
            lambda: registry.load("tone"),
        ),
        (
            JudgeNotFound,
            "has no version 7; the latest is 2",
            lambda: registry.load("helpfulness", 7),
        ),
        (
            JudgeNotFound,
            "has no version 9",
            lambda: registry.rollback("helpfulness", 9),
        ),
        (JudgeNotFound, "has no version 3", lambda: registry.diff("helpfulness", 1, 3)),
        (JudgeExists, "take another name", lambda: registry.create(judge())),
        (
            VersionConflict,
            "at version 2, no longer at 1",
            lambda: registry.save(judge(), parent=1),
        ),
    ]
    for error, message, call in wrong:
        with pytest.raises(error, match=message):
            call()


def test_a_model_of_ones_own_keeps_its_name(registry: Registry, place: Place):
    chat, embedding = models()
    registry.create(judge(model=chat, embedding_model=embedding))
    loaded = registry.load("helpfulness")
    assert (loaded.model, loaded.embedding_model) == ("scripted", "hash:8")
    again = place.registry(models=[chat, embedding]).load("helpfulness")
    assert again.model is chat
    assert again.embedding_model is embedding


@pytest.mark.parametrize(("name", "content"), [("t-\ud800", "x"), ("t-1", object())])
def test_a_value_that_cannot_be_kept_is_refused(
    registry: Registry, name: str, content: object
):
    def odd() -> Memory:
        example = Example(id=name, inputs=content)
        annotation = Annotation(id=name, source="ana", value=True)
        return Memory(cases=(Case(example=example, annotations=(annotation,)),))

    registry.create(judge())
    with pytest.raises(InputError):
        registry.save(judge(odd()))
    with pytest.raises(InputError, match="a note, of valid Unicode"):
        registry.save(judge(model="openai:gpt-5"), note="\ud800")
    assert len(registry.history("helpfulness")) == 1


# -- several people at once: all feedback ends in memory, and nobody waits for ever ----

MODELS = models()


@pytest.fixture
def learning(place: Place) -> Registry:
    """A registry with a judge that learns by scripted models."""
    registry = place.registry(models=MODELS)
    registry.create(judge(model=MODELS[0], embedding_model=MODELS[1]))
    return registry


@pytest.mark.parametrize("times", [2, 99])
def test_an_overtaken_align_learns_on_the_new_head_or_gives_up(
    learning: Registry, place: Place, times: int
):
    class Overtaken(MemAlign):
        """Beside it somebody else commits first, the first few times."""

        async def align(self, judge: Any, feedback: Any = (), **options: Any) -> Any:
            aside = place.registry()
            count = len(aside.history("helpfulness"))
            if count <= times:
                aside.update("helpfulness", lambda j: j.replace(retrieval_k=count))
            return await super().align(judge, feedback, **options)

    overtaken = Overtaken(
        reflection_model=MODELS[0], embedding_model=MODELS[1], shard_size=1
    )
    rows = iter([row("t-1", "ana", "too cold")])
    if times == 99:
        said = "20 times in a row; nothing was changed"
        with pytest.raises(VersionConflict, match=said):
            learning.align("helpfulness", rows, optimizer=overtaken)
        assert keys_of(learning.load("helpfulness")) == set()
        return
    aligned = learning.align("helpfulness", rows, optimizer=overtaken).judge
    assert aligned.retrieval_k == 2
    assert keys_of(learning.load("helpfulness")) == {"t-1@ana"}
    actions = [version.action for version in learning.history("helpfulness")]
    assert actions == ["create", "edit", "edit", "align"]


def test_a_reader_sees_the_head_and_a_long_lock_is_named(
    registry: Registry, place: Place
):
    registry.create(judge(memory_of(case("t-1", "ana"))))
    hasty = Registry(place.url, busy_timeout=0.05)
    chat, embedding = models()
    rows = [row("t-2", "ana", "too cold")]
    learner = optimizer(chat, embedding)
    busy = "another process has been writing"
    with place.writer():
        assert keys_of(hasty.load("helpfulness")) == {"t-1@ana"}
        with pytest.raises(RegistryError, match=rf"{busy} for more than 0\.05 s"):
            hasty.save(judge(model="openai:gpt-5"))
        with pytest.raises(RegistryError, match=busy):
            hasty.align("helpfulness", rows, optimizer=learner)
        # On a server the judge's own lock is met at the first write.
        if isinstance(place, OnSQLite):
            assert chat.requests == [], "nothing is paid for that could not be kept"
    assert hasty.save(judge(model="openai:gpt-5")) == 2


CREATE_AND_SAVE = """
import sys
from memalign import Judge, Registry

registry = Registry(sys.argv[1])
name = sys.argv[2]
judge = Judge(name=name, instructions="{{ inputs }}", feedback_value_type=bool)
registry.create(judge)
for n in range(1, 6):
    registry.save(judge.replace(retrieval_k=n))
"""


def test_two_processes_may_create_and_save_at_once(path: Path):
    command = [sys.executable, "-c", CREATE_AND_SAVE, str(path)]
    one = subprocess.Popen([*command, "one"])
    two = subprocess.Popen([*command, "two"])
    assert one.wait(timeout=PATIENCE) == two.wait(timeout=PATIENCE) == 0
    named = table(Registry(path.name).list(), "name", "latest")
    assert named == [("one", 6), ("two", 6)]
