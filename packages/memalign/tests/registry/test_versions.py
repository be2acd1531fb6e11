"""Judges and their versions: kept, listed, compared, rolled back, and shared by several people."""

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
    loaded = scratch.load("helpfulness", 1), scratch.load("helpfulness").memory
    restored = scratch.rollback("helpfulness", 1).judge.memory
    after = (
        scratch.load("helpfulness").memory,
        scratch.load("helpfulness", number).memory,
    )
    differs = scratch.diff("helpfulness", 1, scratch.history("helpfulness")[-1].number)
    scratch.delete("helpfulness")
    # Numbers of guidelines that were given once stay given.
    second = replace(
        second, next_guideline=max(first.next_guideline, second.next_guideline)
    )
    assert loaded == (judge(first, **chosen), second)
    assert [list(c.example.content) for c in loaded[0].memory.cases] == [
        list(c.example.content) for c in first.cases
    ]
    assert restored.hash == first.hash == loaded[0].memory.hash
    assert restored == replace(
        first, next_guideline=max(first.next_guideline, second.next_guideline)
    )
    assert after == (restored, second)
    assert not differs


@pytest.mark.parametrize(
    "value_type",
    [str, Literal["A or B", "tie-"], Annotated[float, Ge(-0.123456789), Le(1)]],
)
def test_value_types_odd_names_and_the_order_of_fields_survive(
    registry: Registry, value_type: object
):
    example = Example(
        id="t-1", inputs={"zeta": 1, "alpha": {"b": 2, "a": 3}}, outputs="x"
    )
    memory = Memory(
        cases=(
            Case(
                example=example,
                annotations=(Annotation(id="t-1", source="ana", rationale="So."),),
            ),
        ),
        tombstones=(
            Tombstone(key=FeedbackKey("ünï 🦆", 'o\'brien "x"@home'), state="erased"),
        ),
    )
    kept = judge(
        memory, name='a judge; DROP TABLE "x" --', feedback_value_type=value_type
    )
    registry.create(kept)
    loaded = registry.load(kept.name)
    assert (loaded.memory, loaded.value_type) == (memory, kept.value_type)
    # Prompts show this order, so their bytes depend on it.
    assert str(loaded.memory.cases[0].example.inputs) == str(example.inputs)


def test_a_change_rewrites_nothing_else(registry: Registry, place: Place):
    memory = memory_of(*(case(f"t-{n:03d}", "ana") for n in range(60)), size=1)
    grown = tuple(
        case(one.id, "ana", "bob") if one.id == "t-050" else one for one in memory.cases
    )
    registry.create(judge(memory))
    before = rows_in(place)
    registry.save(judge(replace(memory, cases=grown)))
    assert rows_in(place) - before == 1  # the annotation
    registry.save(judge(forget(replace(memory, cases=grown), keys("t-030@ana"))))
    assert rows_in(place) - before == 2  # the tombstone; the rest only ended


def test_history_says_what_made_each_version(registry: Registry):
    registry.create(judge())
    registry.save(judge(memory_of(*CASES)), action="align", note="first feedback")
    registry.update("helpfulness", lambda j: j.replace(model="openai:gpt-5"))
    registry.rollback("helpfulness", 1)
    lines = [
        (v.number, v.action, v.summary, v.note, v.cases, v.feedback)
        for v in registry.history("helpfulness")
    ]
    assert lines == [
        (1, "create", "created", None, 0, 0),
        (
            2,
            "align",
            "4 feedback added, 2 guidelines added (G1, G2)",
            "first feedback",
            3,
            4,
        ),
        (3, "edit", "model changed", None, 3, 4),
        (4, "rollback", "back to version 1", None, 0, 0),
    ]
    assert not any(v.redacted for v in registry.history("helpfulness"))


def test_a_rollback_may_bring_back_unaligned_feedback_and_reuses_no_id(
    registry: Registry,
):
    memory = memory_of(*CASES)
    registry.create(judge(memory_of(CASES[0])))
    registry.save(judge(memory), action="align")
    registry.save(judge(forget(memory, keys("t-1@ana"))), action="unalign")

    def state(version: int | None = None) -> str:
        return {
            str(e.key): e.state for e in registry.ledger("helpfulness", version=version)
        }["t-1@ana"]

    assert state() == "withdrawn"
    registry.rollback("helpfulness", to=1)
    assert (state(), state(3)) == ("learned", "withdrawn")
    written = registry.update(
        "helpfulness", lambda j: write_guideline(j, "Mind the tone.", by="ana")
    ).judge
    assert written.memory.guidelines[-1].id not in {
        guideline.id for guideline in memory.guidelines
    }


def test_a_stored_judge_gives_no_guidelines_number_to_another(registry: Registry):
    base = judge(memory_of(case("t-1", "ana"), case("t-2", "ana"), size=1))  # G1, G2
    registry.create(base)
    mine = write_guideline(registry.load("helpfulness"), "Be kind.", by="ben")
    other = replace(
        mine.memory.guidelines[-1], exposed_to=keys("t-1@ana")
    )  # G3 as well, from feedback
    registry.update(
        "helpfulness", lambda head: write_guideline(head, "Be brief.", by="ana")
    )
    with pytest.raises(
        VersionConflict,
        match=r"G3 of this judge is another guideline than G3.* under another name",
    ):
        registry.save(
            mine.replace(
                memory=replace(
                    mine.memory, guidelines=(*mine.memory.guidelines[:-1], other)
                )
            )
        )
    registry.save(
        edit_guideline(base, "G1", by="ana", text="Say sorry first.")
    )  # a reworded rule keeps its number
    grown = registry.update(
        "helpfulness", lambda head: write_guideline(head, "Be clear.", by="ana")
    ).judge
    texts = {rule.id: rule.text for rule in grown.memory.guidelines}
    assert (texts["G1"], texts["G4"]) == ("Say sorry first.", "Be clear.")


def test_a_diff_names_every_kind_of_change(registry: Registry):
    before = memory_of(*CASES)
    after = forget(
        before, keys("t-1@ana")
    )  # takes G1 along, and leaves t-2@ana pending
    *others, last = after.cases
    reworded = replace(
        last, annotations=(replace(last.annotations[0], rationale="said otherwise"),)
    )
    after = replace(after, cases=(*others, reworded))
    registry.create(judge(before))
    registry.save(judge(after, model="openai:gpt-5"))
    diff = registry.diff("helpfulness", 1, 2)
    changed = [
        (c.name, c.before is not None, c.after is not None) for c in diff.feedback
    ]
    assert changed == [
        ("t-1@ana", True, False),
        ("t-2@ana", True, True),
        ("t-3@bob", True, True),
    ]
    assert [(g.name, g.after) for g in diff.guidelines] == [("G1", None)]
    assert [(s.name, s.before, s.after) for s in diff.settings] == [
        ("model", None, "openai:gpt-5")
    ]
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
    shown = [
        (j.name, j.latest, j.value_type, j.model, j.cases, j.guidelines)
        for j in registry.list()
    ]
    assert shown == [
        ("help", 2, "bool", None, 3, 2),
        ("tone", 1, "int:1..5", "openai:gpt-5", 0, 0),
    ]
    registry.delete("help")
    assert [j.name for j in registry.list()] == ["tone"]
    assert registry.create(judge(name="help")) == 1


def test_a_judge_gets_another_name_with_all_its_versions(registry: Registry):
    registry.create(judge(memory_of(*CASES), name="help", model="openai:m"))
    registry.save(judge(name="help"))
    registry.create(judge(name="tone"))
    for taken, error in (("tone", JudgeExists), ("a\nb", InputError)):
        with pytest.raises(error):
            registry.rename("help", taken)
    registry.rename("help", "hilfe")
    assert [(j.name, j.latest) for j in registry.list()] == [("hilfe", 2), ("tone", 1)]
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
    registry.create(judge())
    annotation = Annotation(id=name, source="ana", value=True)
    with pytest.raises(InputError):
        registry.save(
            judge(
                Memory(
                    cases=(
                        Case(
                            example=Example(id=name, inputs=content),
                            annotations=(annotation,),
                        ),
                    )
                )
            )
        )
    with pytest.raises(InputError, match="a note, of valid Unicode"):
        registry.save(judge(model="openai:gpt-5"), note="\ud800")
    assert len(registry.history("helpfulness")) == 1


# -- several people at once: everybody's feedback ends in memory, and nobody waits for ever ---------------------------

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
            if len(aside.history("helpfulness")) <= times:
                aside.update(
                    "helpfulness",
                    lambda j: j.replace(retrieval_k=len(aside.history("helpfulness"))),
                )
            return await super().align(judge, feedback, **options)

    overtaken = Overtaken(
        reflection_model=MODELS[0], embedding_model=MODELS[1], shard_size=1
    )
    rows = iter([row("t-1", "ana", "too cold")])
    if times == 99:
        with pytest.raises(
            VersionConflict, match="20 times in a row; nothing was changed"
        ):
            learning.align("helpfulness", rows, optimizer=overtaken)
        assert keys_of(learning.load("helpfulness")) == set()
        return
    assert (
        learning.align("helpfulness", rows, optimizer=overtaken).judge.retrieval_k == 2
    )
    assert keys_of(learning.load("helpfulness")) == {"t-1@ana"}
    assert [v.action for v in learning.history("helpfulness")] == [
        "create",
        "edit",
        "edit",
        "align",
    ]


def test_a_reader_sees_the_head_and_a_long_lock_is_named(
    registry: Registry, place: Place
):
    registry.create(judge(memory_of(case("t-1", "ana"))))
    hasty = Registry(place.url, busy_timeout=0.05)
    with place.writer():
        assert keys_of(hasty.load("helpfulness")) == {"t-1@ana"}
        with pytest.raises(
            RegistryError,
            match=r"another process has been writing for more than 0\.05 s",
        ):
            hasty.save(judge(model="openai:gpt-5"))
        chat, embedding = models()
        with pytest.raises(RegistryError, match="another process has been writing"):
            hasty.align(
                "helpfulness",
                [row("t-2", "ana", "too cold")],
                optimizer=optimizer(chat, embedding),
            )
        if isinstance(
            place, OnSQLite
        ):  # on a server the judge's own lock is met at the first write
            assert chat.requests == [], "nothing is paid for that could not be kept"
    assert hasty.save(judge(model="openai:gpt-5")) == 2


def test_two_processes_may_create_and_save_at_once(path: Path):
    script = (
        "import sys; from memalign import Judge, Registry\n"
        "registry = Registry(sys.argv[1])\n"
        "judge = Judge(name=sys.argv[2], instructions='{{ inputs }}', feedback_value_type=bool)\n"
        "registry.create(judge)\n"
        "for n in range(1, 6): registry.save(judge.replace(retrieval_k=n))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name])
        for name in ("one", "two")
    ]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0]
    assert [(j.name, j.latest) for j in Registry(path.name).list()] == [
        ("one", 6),
        ("two", 6),
    ]
