"""Anything may be done to a judge, in any order, while its model misbehaves: what must
hold holds after every step."""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from memalign import Judge, aio
from memalign.align import (
    AlignResult,
    edit_guideline,
    lock,
    set_policy,
    write_guideline,
)
from memalign.judge import task_of
from memalign.judge.prompt import prompt_of
from memalign.keys import same_person
from memalign.memory import Memory
from memalign.memory.text_search import NameFinder
from memalign.models.base import ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import Example
from tests.support.invariants import check_memory, people_words
from tests.support.learning import (
    FAULTS,
    INSTRUCTIONS,
    ORDERS,
    SETTINGS,
    TAKEN,
    Imp,
    bare,
    batches,
    divide,
    key_of,
    learn,
    prompts_of,
    row,
    words_in,
)
from tests.support.names import spelled_otherwise
from tests.support.places import place_of
from tests.support.rows import RawRow

SOURCES = ("ana@example.org", "two words", "a:b/c%20", "مراجِعة")
KINDS = ("judgment", "changes", "rule")
PEOPLES = (
    "Be kind to whoever has waited.",
    "Name the day.",
    "Mind what matters here: the tone.",
)

cases = st.integers(1, 5)
sources = st.sampled_from(SOURCES)
said = st.tuples(
    cases,
    sources,
    st.none() | st.sampled_from(ORDERS),
    st.none() | st.booleans(),
    st.integers(0, 3),
)
contexts = st.sampled_from([600, 1200, 128_000])


def alive(memory: Memory) -> set[str]:
    """The unique words of all that people said and of what they said it of."""
    texts = [msgspec.json.encode(case.example).decode() for case in memory.cases]
    said = [
        f"{annotation.rationale} {annotation.value}"
        for annotation in memory.annotations()
    ]
    return {*words_in(" ".join([*texts, *said])), *people_words(memory)}


class Hand:
    """Feedback as hypothesis draws it: every row with a word of its own, so that old
    and new words can be told apart."""

    def __init__(self) -> None:
        self.count = 1000

    def rows(
        self, drawn: list[tuple[int, str, str | None, bool | None, int]]
    ) -> list[RawRow]:
        found: dict[str, RawRow] = {}
        for case, source, order, value, day in drawn:
            self.count += 1
            one = row(
                case,
                source,
                order,
                value=(case % 2 == 0) if order is None and value is None else value,
            )
            if order is not None:
                one["rationale"] = f"word{self.count} do:{order}"
            if (
                case == 5
            ):  # the same content as the first case's, under an id of its own
                one |= {name: row(1, "x", None)[name] for name in ("inputs", "outputs")}
            if day:
                one["created_at"] = f"2026-01-0{day}"
            found[key_of(one)] = one
        return list(found.values())


def requests_for(judge: Judge, model: ScriptedChatModel) -> list[ChatRequest]:
    items = [
        Example(id="new", inputs="a question about case1", outputs="another answer")
    ]
    items.append(Example(id="other", inputs="q", outputs="a"))
    task = task_of(judge)
    requests = []
    for item in map(task.item, items):
        prompt = aio.run(prompt_of(task, judge.memory, item, model, Calls()))
        requests.append(prompt.request)
    return requests


def check_prompts(judge: Judge, model: ScriptedChatModel) -> None:
    """The same memory and item, the same bytes; one system message for all; what people
    pinned is in it."""
    asked = requests_for(judge, model)
    again = judge.replace(
        memory=msgspec.json.decode(msgspec.json.encode(judge.memory), type=Memory)
    )
    assert requests_for(again, model) == asked
    assert len({request.system for request in asked}) == 1
    under = asked[0].system.partition("# Guidelines from experts")[2]
    rules = set(re.findall(r"^(?:-|G\d+:) (.*)$", under, re.MULTILINE))
    for guideline in judge.memory.guidelines:
        if guideline.pinned and judge.memory.status(guideline) == "active":
            assert guideline.text in rules, f"{guideline.id} is pinned"
    assert rules <= {g.text for g in judge.memory.semantic}
    shown = " ".join(request.system + request.user for request in asked)
    assert set(words_in(shown)) <= alive(judge.memory) | {"case1"}


def what_waits_has_its_reason(memory: Memory) -> None:
    orders = {
        v.key: (v.rationale or "").partition("do:")[2] for v in memory.annotations()
    }
    for entry in memory.ledger():
        if entry.state != "pending":
            continue
        order = orders[entry.key]
        reason = entry.reason
        told = order not in TAKEN or re.search("shard|person|locked case", reason)
        # A revision of what another one has just revised, or of a guideline that the
        # model invented.
        odd = order in ("revise", "foreign") and "rule was not taken" in reason
        assert told or odd, (entry.key, order, reason)


class JudgeMachine(RuleBasedStateMachine):
    """One judge, in memory."""

    judge: Judge
    erased: frozenset[str] = frozenset()
    """Keys."""

    @initialize(way=st.sampled_from(SETTINGS), context=contexts)
    def begin(self, way: tuple[int, bool], context: int) -> None:
        self.hand = Hand()
        self.imp = Imp(healed=True)
        self.model = self._model(way, context)
        self.withdrawn: set[str] = set()
        self.start(bare(self.imp)[0].replace(model=self.model))

    def start(self, judge: Judge) -> None:
        self.judge = judge

    def _model(self, way: tuple[int, bool], context: int) -> ScriptedChatModel:
        limits = Limits(
            shard_size=way[0], writes=not way[1], context_tokens=context, concurrency=4
        )
        return ScriptedChatModel(self.imp, limits=limits)

    # -- learning and forgetting -------------------------------------------------------

    @rule(drawn=st.lists(said, min_size=1, max_size=3))
    def align(self, drawn: list[tuple[int, str, str | None, bool | None, int]]) -> None:
        rows = [one for one in self.hand.rows(drawn) if key_of(one) not in self.erased]
        assume(rows)
        asked = len(self.model.requests)
        before = self.judge.memory
        result = self.learn(rows)
        assert [report.key for report in result.rows] == [key_of(one) for one in rows]
        assert all(
            report.status != "invalid" and report.state for report in result.rows
        )
        assert {annotation.key for annotation in before.annotations()} <= {
            annotation.key for annotation in result.judge.memory.annotations()
        }
        self.withdrawn -= {key_of(one) for one in rows}
        self._now(result.judge, asked)

    def learn(self, rows: list[RawRow]) -> AlignResult:
        return self.judge.align(rows)

    @rule()
    def align_nothing_new(self) -> None:
        asked = len(self.model.requests)
        once = self.judge.align([])
        assert once.changed == (once.judge != self.judge)
        self._now(once.judge, asked)
        twice = once.judge.align([])
        assert twice.judge == once.judge, "what waits waits for the same reason"

    @precondition(lambda self: bool(self.judge.memory.cases))
    @rule(data=st.data(), how=st.sampled_from(["key", "id", "source"]))
    def unalign(self, data: st.DataObject, how: str) -> None:
        annotation = data.draw(
            st.sampled_from(
                sorted(self.judge.memory.annotations(), key=lambda each: each.key)
            )
        )
        asked = len(self.model.requests)
        if how == "source":
            result = self.judge.unalign(source=annotation.source)
        else:
            result = self.judge.unalign(
                annotation.key if how == "key" else annotation.id
            )
        self.withdrawn |= set(map(str, result.removed))
        assert {
            str(e.key) for e in result.judge.memory.ledger() if e.state == "withdrawn"
        } == self.withdrawn
        self._now(result.judge, asked)

    # -- people ------------------------------------------------------------------------

    @precondition(lambda self: bool(self.judge.memory.guidelines))
    @rule(
        data=st.data(),
        what=st.sampled_from(["text", "pin", "unpin", "retire", "restore"]),
    )
    def edit(self, data: st.DataObject, what: str) -> None:
        old = data.draw(st.sampled_from(self.judge.memory.guidelines))
        possible: dict[str, RawRow] = {
            "text": {"text": data.draw(st.sampled_from(PEOPLES))},
            "pin": {"pinned": True},
            "unpin": {"pinned": False},
            "retire": {"retired": True},
            "restore": {"retired": False},
        }
        self.judge = edit_guideline(self.judge, old.id, by="dora", **possible[what])
        new = self.judge.memory.guideline(old.id)
        if what == "retire":
            assert self.judge.memory.status(new) == "retired"
        if what == "restore":
            status = self.judge.memory.status(self.judge.memory.face(new))
            assert status in ("active", "superseded"), "a person said that it counts"

    @rule(text=st.sampled_from(PEOPLES), pinned=st.booleans())
    def write(self, text: str, pinned: bool) -> None:
        assume(len(self.judge.memory.guidelines) < 12)
        self.judge = write_guideline(self.judge, text, by="eve", pinned=pinned)

    @precondition(
        lambda self: any(
            self.judge.memory.label(case) is not None
            for case in self.judge.memory.cases
        )
    )
    @rule(data=st.data())
    def lock(self, data: st.DataObject) -> None:
        memory = self.judge.memory
        names = [case.id for case in memory.cases if memory.label(case) is not None]
        self.judge = lock(self.judge, data.draw(st.sampled_from(names)))

    @precondition(lambda self: bool(self.judge.memory.locks))
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.judge.memory.locks))
        self.judge = lock(self.judge, name, unlock=True)
        assert name not in self.judge.memory.locks

    @rule(authority=st.lists(sources, max_size=2, unique=True))
    def set_policy(self, authority: list[str]) -> None:
        self.judge = set_policy(self.judge, authority=authority)
        again = set_policy(self.judge, authority=authority)
        assert again == self.judge

    # -- the world ---------------------------------------------------------------------

    @rule(way=st.sampled_from(SETTINGS), context=contexts)
    def another_model(self, way: tuple[int, bool], context: int) -> None:
        self.model = self._model(way, context)
        self.judge = self.judge.replace(model=self.model)

    @rule(manner=st.sampled_from(["", "Be strict.\n", "Be mild.\n"]))
    def other_instructions(self, manner: str) -> None:
        self.judge = self.judge.replace(instructions=manner + INSTRUCTIONS)

    @rule(
        kinds=st.sets(st.sampled_from(KINDS), min_size=1),
        fault=st.sampled_from(sorted(FAULTS)),
    )
    def storm(self, kinds: set[str], fault: str) -> None:
        self.imp.storm = dict.fromkeys(kinds, FAULTS[fault])

    @rule()
    def heal(self) -> None:
        self.imp.storm = {}

    # -- what holds --------------------------------------------------------------------

    def _now(self, judge: Judge, asked: int) -> None:
        """Take the judge after learning or forgetting; no prompt on the way held what
        is gone now."""
        self.judge = judge
        leaked = set(words_in(prompts_of(self.model, asked))) - alive(judge.memory)
        assert not leaked, f"prompts held {leaked}, which nobody says any more"
        if not self.imp.storm:
            what_waits_has_its_reason(judge.memory)

    @invariant()
    def everything_that_must_hold(self) -> None:
        check_memory(self.judge)
        check_prompts(self.judge, self.model)


class RegistryMachine(JudgeMachine):
    """The same in a registry, with history: versions, rollback, erasure."""

    # What the judge's own machine does is left out, so that there is time for versions
    # and erasures.
    align_nothing_new = write = unlock = set_policy = None  # type: ignore[assignment]
    another_model = other_instructions = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        folder = self.opened.enter_context(tempfile.TemporaryDirectory())
        self.place = self.opened.enter_context(place_of("sqlite", Path(folder)))
        self.seen: dict[int, str] = {}
        self.erased_words: set[str] = set()

    def teardown(self) -> None:
        self.opened.close()

    def _model(self, way: tuple[int, bool], context: int) -> ScriptedChatModel:
        model = super()._model(way, context)
        self.registry = self.place.registry(models=[model, HashEmbedding(dim=16)])
        return model

    def start(self, judge: Judge) -> None:
        self.registry.create(judge)

    @property
    def judge(self) -> Judge:  # the newest version
        return self.registry.load("replies")

    @judge.setter
    def judge(self, judge: Judge) -> None:
        if judge != self.judge:
            self.registry.update("replies", lambda _: judge, force=True)

    def learn(self, rows: list[RawRow]) -> AlignResult:
        # Somebody else may speak of a case that went with the erased annotation: asked
        # for, its text is there again.
        self.erased_words -= set(words_in(json.dumps(rows)))
        return self.registry.align("replies", rows, allow_erased=True, force=True)

    def versions(self) -> list[Judge]:
        return [
            self.registry.load("replies", info.number)
            for info in self.registry.history("replies")
        ]

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        version = data.draw(
            st.sampled_from([info.number for info in self.registry.history("replies")])
        )
        restored = self.registry.rollback("replies", version).judge
        assert self.judge == restored
        assert self.erased.isdisjoint(
            str(annotation.key) for annotation in restored.memory.annotations()
        )
        self.withdrawn = {
            str(stone.key)
            for stone in restored.memory.tombstones
            if stone.state == "withdrawn"
        }

    @precondition(lambda self: bool(self.judge.memory.guidelines))
    @rule(data=st.data(), source=sources)
    def pin_in_another_spelling(self, data: st.DataObject, source: str) -> None:
        rule = data.draw(st.sampled_from(self.judge.memory.guidelines))
        self.judge = edit_guideline(
            self.judge, rule.id, by=data.draw(spelled_otherwise(source)), pinned=True
        )

    @rule(data=st.data(), source=sources, depth=st.integers(0, 2))
    def note_a_name(self, data: st.DataObject, source: str, depth: int) -> None:
        note = f"{data.draw(spelled_otherwise(source))} was asked"
        for _ in range(depth):
            note = json.dumps([note])
        changed = self.judge.replace(retrieval_k=(self.judge.retrieval_k or 0) % 5 + 1)
        self.registry.save(changed, note=note)

    @rule(data=st.data(), how=st.sampled_from(["key", "source"]))
    def erase(self, data: st.DataObject, how: str) -> None:
        before = set().union(*(alive(judge.memory) for judge in self.versions()))
        keys = sorted(
            {
                annotation.key
                for judge in self.versions()
                for annotation in judge.memory.annotations()
            }
        )
        assume(keys)
        key = data.draw(st.sampled_from(keys))
        asked = len(self.model.requests)
        odd = data.draw(spelled_otherwise(key.source))
        selection: dict[str, Any] = (
            {"selectors": [key._replace(source=odd)]}
            if how == "key"
            else {"source": odd}
        )
        preview = self.registry.erase("replies", **selection, dry_run=True)
        receipt = self.registry.erase("replies", **selection)
        assert receipt.complete, receipt.left
        assert (receipt.counts, receipt.wordings) == (preview.counts, preview.wordings)
        assert receipt.latest in (None, self.registry.history("replies")[-1].number)
        if how == "source":
            self.nobody_is_named(key.source)
        self.erased |= set(map(str, receipt.keys))
        self.withdrawn -= self.erased
        self.erased_words |= before.difference(
            *(alive(judge.memory) for judge in self.versions())
        )
        assert not self.erased_words & set(words_in(prompts_of(self.model, asked))), (
            "nor asked again"
        )
        self.seen = {}  # versions were rewritten

    def nobody_is_named(self, source: str) -> None:
        for info, judge in zip(
            self.registry.history("replies"), self.versions(), strict=True
        ):
            assert not NameFinder(source).holds(info.note or "")
            people = {
                name
                for rule in judge.memory.guidelines
                for name in (*rule.people, rule.retired_by or "")
            }
            people.update(
                judge.memory.authority,
                (said.source for said in judge.memory.annotations()),
            )
            assert not any(same_person(name, source) for name in people)

    @invariant()
    def every_version_holds_and_no_byte_what_was_erased(self) -> None:
        history = self.registry.history("replies")
        assert [info.number for info in history] == list(range(1, len(history) + 1))
        for info, judge in zip(history, self.versions(), strict=True):
            if info.redacted:
                check_memory(judge)
            assert (
                self.seen.setdefault(info.number, judge.memory.hash)
                == judge.memory.hash
            ), "a version never changes"
            assert not self.erased_words & set(
                words_in(msgspec.json.encode(judge.memory).decode())
            )
        assert self.place.intact()
        assert not self.erased_words & set(
            words_in(self.place.bytes().decode("latin-1"))
        )


quick = settings(
    max_examples=12, stateful_step_count=14, suppress_health_check=list(HealthCheck)
)

TestJudge = JudgeMachine.TestCase
TestJudge.settings = quick
TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(quick, max_examples=5, stateful_step_count=10)


def what_was_learned(memory: Memory) -> Any:
    """All but numbers of guidelines, which forgetting leaves gaps in, reasons, and what
    was asked in folds."""
    rules = [
        (g.text, g.supported_by, g.exposed_to, g.tests, memory.status(g))
        for g in memory.guidelines
    ]
    states = {entry.key: entry.state for entry in memory.ledger()}
    said = [(a.key, a.value, a.rationale, states[a.key]) for a in memory.annotations()]
    return (
        rules,
        said,
        memory.conflicts,
        [(case.example, case.pre_alignment, case.vector) for case in memory.cases],
    )


def undisputed(rows: list[RawRow]) -> list[RawRow]:
    """Comments alone and labels alone, of one content always the same label: nobody's
    label silences anybody."""
    comments = [
        {name: value for name, value in row.items() if name != "value"}
        for row in rows
        if "rationale" in row
    ]
    return comments + [
        row | {"value": len(row["inputs"]) % 2 == 0}
        for row in rows
        if "rationale" not in row
    ]


@settings(max_examples=20)
@given(batches(orders=TAKEN), st.lists(st.booleans(), min_size=15, max_size=15))
def test_forgetting_leaves_what_the_others_alone_would_teach(
    drawn: list[RawRow], chosen: list[bool]
) -> None:
    rows = undisputed(drawn)
    gone, kept = divide(rows, chosen)
    assume(gone and kept)
    judge = bare(Imp(healed=True), shard_size=1)[0]
    alone = what_was_learned(learn(judge, kept).judge.memory)
    away = [key_of(row) for row in gone]
    first = learn(learn(judge, kept).judge, gone).judge
    last = learn(learn(judge, gone).judge, kept).judge
    for taught in (learn(judge, rows).judge, first, last):
        check_memory(taught)
        assert what_was_learned(taught.unalign(*away).judge.memory) == alone
    # What waits is a second revision of one guideline, or one of a guideline that the
    # model invented: it is asked again.
    waiting = [annotation.rationale or "" for annotation in first.memory.pending]
    for words in waiting:
        assert re.search("do:revise|do:foreign", words)
    if not waiting:
        assert learn(first, rows).judge == first
