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

from memalign import Judge
from memalign.align import (
    AlignResult,
    edit_guideline,
    lock,
    set_policy,
    write_guideline,
)
from memalign.keys import same_person
from memalign.memory import Memory
from memalign.memory.text_search import NameFinder
from memalign.models.base import Limits
from memalign.registry import VersionInfo
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
    in_state,
    key_of,
    learn,
    prompts_of,
    row,
    states,
    words_in,
)
from tests.support.lists import keys_of, rules, table
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

EDITS: list[RawRow] = [
    {"text": PEOPLES[0]},
    {"text": PEOPLES[1]},
    {"text": PEOPLES[2]},
    {"pinned": True},
    {"pinned": False},
    {"retired": True},
    {"retired": False},
]

Said = tuple[int, str, str | None, bool | None, int]
"""A case, a source, an order, a label and a day."""

sources = st.sampled_from(SOURCES)
said = st.tuples(
    st.integers(1, 5),
    sources,
    st.none() | st.sampled_from(ORDERS),
    st.none() | st.booleans(),
    st.integers(0, 3),
)
contexts = st.sampled_from([600, 1200, 128_000])


def alive(memory: Memory) -> set[str]:
    """The unique words of all that people said and of what they said it of."""
    found = people_words(memory)
    for case in memory.cases:
        found.update(words_in(msgspec.json.encode(case.example).decode()))
    for annotation in memory.annotations():
        found.update(words_in(f"{annotation.rationale} {annotation.value}"))
    return found


class Hand:
    """Feedback as hypothesis draws it: every row with a word of its own, so that old
    and new words can be told apart."""

    def __init__(self) -> None:
        self.count = 1000

    def rows(self, drawn: list[Said]) -> list[RawRow]:
        found: dict[str, RawRow] = {}
        for case, source, order, value, day in drawn:
            self.count += 1
            one = row(case, source, order, value=value)
            if order is not None:
                one["rationale"] = f"word{self.count} do:{order}"
            elif value is None:
                one["value"] = case % 2 == 0
            if case == 5:  # the first case's content, under an id of its own
                first = row(1, "x", None)
                one |= {"inputs": first["inputs"], "outputs": first["outputs"]}
            if day:
                one["created_at"] = f"2026-01-0{day}"
            found[key_of(one)] = one
        return list(found.values())


ITEMS = (
    Example(id="new", inputs="a question about case1", outputs="another answer"),
    Example(id="other", inputs="q", outputs="a"),
)


def check_prompts(judge: Judge) -> None:
    """The same memory and item, the same bytes; one system message for all; what people
    pinned is in it."""
    first, second = map(judge.prompt, ITEMS)
    assert first["system"] == second["system"]
    again = msgspec.json.decode(msgspec.json.encode(judge.memory), type=Memory)
    reread = judge.replace(memory=again)
    assert [first, second] == list(map(reread.prompt, ITEMS))
    under = first["system"].partition("# Guidelines from experts")[2]
    shown_rules = set(re.findall(r"^(?:-|G\d+:) (.*)$", under, re.MULTILINE))
    for guideline in judge.memory.guidelines:
        if guideline.pinned and judge.memory.status(guideline) == "active":
            assert guideline.text in shown_rules, f"{guideline.id} is pinned"
    assert shown_rules <= {*rules(judge)}
    shown = " ".join([first["system"], first["user"], second["user"]])
    assert set(words_in(shown)) <= alive(judge.memory) | {"case1"}


def what_waits_has_its_reason(memory: Memory) -> None:
    reasons = {entry.key: entry.reason for entry in memory.ledger()}
    for annotation in memory.pending:
        order = (annotation.rationale or "").partition("do:")[2]
        reason = reasons[annotation.key]
        told = order not in TAKEN or re.search("shard|person|locked case", reason)
        # A revision of what another one has just revised, or of a guideline that the
        # model invented.
        odd = order in ("revise", "foreign") and "rule was not taken" in reason
        assert told or odd, (annotation.key, order, reason)


class JudgeMachine(RuleBasedStateMachine):
    """One judge, in memory."""

    judge: Judge
    erased: frozenset[str] = frozenset()
    """Keys."""

    @initialize(way=st.sampled_from(SETTINGS), context=contexts)
    def begin(self, way, context):
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
    def align(self, drawn):
        rows = [one for one in self.hand.rows(drawn) if key_of(one) not in self.erased]
        assume(rows)
        asked = len(self.model.requests)
        before = keys_of(self.judge.memory)
        result = self.learn(rows)
        given = list(map(key_of, rows))
        assert table(result.rows, "key") == [(key,) for key in given]
        for report in result.rows:
            assert report.status != "invalid"
            assert report.state
        assert {*before} <= {*keys_of(result.judge.memory)}
        self.withdrawn.difference_update(given)
        self._now(result.judge, asked)

    def learn(self, rows: list[RawRow]) -> AlignResult:
        return self.judge.align(rows)

    @rule()
    def align_nothing_new(self):
        asked = len(self.model.requests)
        once = self.judge.align([])
        assert once.changed == (once.judge != self.judge)
        self._now(once.judge, asked)
        twice = once.judge.align([])
        assert twice.judge == once.judge, "what waits waits for the same reason"

    @precondition(lambda self: bool(self.judge.memory.cases))
    @rule(data=st.data(), how=st.sampled_from(["key", "id", "source"]))
    def unalign(self, data, how):
        key = data.draw(st.sampled_from(sorted(keys_of(self.judge.memory))))
        asked = len(self.model.requests)
        if how == "source":
            result = self.judge.unalign(source=key.source)
        else:
            result = self.judge.unalign(key if how == "key" else key.id)
        self.withdrawn |= set(map(str, result.removed))
        assert in_state(result.judge, "withdrawn") == self.withdrawn
        self._now(result.judge, asked)

    # -- people ------------------------------------------------------------------------

    @precondition(lambda self: bool(self.judge.memory.guidelines))
    @rule(data=st.data(), changes=st.sampled_from(EDITS))
    def edit(self, data, changes):
        old = data.draw(st.sampled_from(self.judge.memory.guidelines))
        self.judge = edit_guideline(self.judge, old.id, by="dora", **changes)
        memory = self.judge.memory
        new = memory.guideline(old.id)
        match changes.get("retired"):
            case True:
                assert memory.status(new) == "retired"
            case False:  # a person said that it counts
                assert memory.status(new) in ("active", "superseded")

    @rule(text=st.sampled_from(PEOPLES), pinned=st.booleans())
    def write(self, text, pinned):
        assume(len(self.judge.memory.guidelines) < 12)
        self.judge = write_guideline(self.judge, text, by="eve", pinned=pinned)

    def labelled(self) -> list[str]:
        memory = self.judge.memory
        return [case.id for case in memory.cases if memory.label(case) is not None]

    @precondition(lambda self: bool(self.labelled()))
    @rule(data=st.data())
    def lock(self, data):
        name = data.draw(st.sampled_from(self.labelled()))
        self.judge = lock(self.judge, name)

    @precondition(lambda self: bool(self.judge.memory.locks))
    @rule(data=st.data())
    def unlock(self, data):
        name = data.draw(st.sampled_from(self.judge.memory.locks))
        self.judge = lock(self.judge, name, unlock=True)
        assert name not in self.judge.memory.locks

    @rule(authority=st.lists(sources, max_size=2, unique=True))
    def set_policy(self, authority):
        self.judge = set_policy(self.judge, authority=authority)
        assert set_policy(self.judge, authority=authority) == self.judge

    # -- the world ---------------------------------------------------------------------

    @rule(way=st.sampled_from(SETTINGS), context=contexts)
    def another_model(self, way, context):
        self.model = self._model(way, context)
        self.judge = self.judge.replace(model=self.model)

    @rule(manner=st.sampled_from(["", "Be strict.\n", "Be mild.\n"]))
    def other_instructions(self, manner):
        self.judge = self.judge.replace(instructions=manner + INSTRUCTIONS)

    @rule(
        kinds=st.sets(st.sampled_from(KINDS), min_size=1),
        fault=st.sampled_from(sorted(FAULTS)),
    )
    def storm(self, kinds, fault):
        self.imp.storm = dict.fromkeys(kinds, FAULTS[fault])

    @rule()
    def heal(self):
        self.imp.storm = {}

    # -- what holds --------------------------------------------------------------------

    def _now(self, judge: Judge, asked: int) -> None:
        """Take the judge after learning or forgetting; no prompt on the way held what
        is gone now."""
        self.judge = judge
        shown = words_in(prompts_of(self.model, asked))
        leaked = {*shown} - alive(judge.memory)
        assert not leaked, f"prompts held {leaked}, which nobody says any more"
        if not self.imp.storm:
            what_waits_has_its_reason(judge.memory)

    @invariant()
    def everything_that_must_hold(self):
        check_memory(self.judge)
        check_prompts(self.judge)


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

    def versions(self) -> list[tuple[VersionInfo, Judge]]:
        found = []
        for info in self.registry.history("replies"):
            found.append((info, self.registry.load("replies", info.number)))
        return found

    def words_of_all_versions(self) -> set[str]:
        found: set[str] = set()
        for _, judge in self.versions():
            found |= alive(judge.memory)
        return found

    @rule(data=st.data())
    def rollback(self, data):
        version = data.draw(st.sampled_from(self.registry.history("replies")))
        restored = self.registry.rollback("replies", version.number).judge
        assert self.judge == restored
        assert self.erased.isdisjoint(map(str, keys_of(restored.memory)))
        self.withdrawn = in_state(restored, "withdrawn")

    @precondition(lambda self: bool(self.judge.memory.guidelines))
    @rule(data=st.data(), source=sources)
    def pin_in_another_spelling(self, data, source):
        rule = data.draw(st.sampled_from(self.judge.memory.guidelines))
        by = data.draw(spelled_otherwise(source))
        self.judge = edit_guideline(self.judge, rule.id, by=by, pinned=True)

    @rule(data=st.data(), source=sources, depth=st.integers(0, 2))
    def note_a_name(self, data, source, depth):
        note = f"{data.draw(spelled_otherwise(source))} was asked"
        for _ in range(depth):
            note = json.dumps([note])
        changed = self.judge.replace(retrieval_k=(self.judge.retrieval_k or 0) % 5 + 1)
        self.registry.save(changed, note=note)

    @rule(data=st.data(), how=st.sampled_from(["key", "source"]))
    def erase(self, data, how):
        before = self.words_of_all_versions()
        keys = set()
        for _, judge in self.versions():
            keys.update(keys_of(judge.memory))
        assume(keys)
        key = data.draw(st.sampled_from(sorted(keys)))
        asked = len(self.model.requests)
        odd = data.draw(spelled_otherwise(key.source))
        selection: dict[str, Any] = {"source": odd}
        if how == "key":
            selection = {"selectors": [key._replace(source=odd)]}
        preview = self.registry.erase("replies", **selection, dry_run=True)
        receipt = self.registry.erase("replies", **selection)
        assert receipt.complete, receipt.left
        assert receipt.counts == preview.counts
        assert receipt.wordings == preview.wordings
        assert receipt.latest in (None, self.registry.history("replies")[-1].number)
        if how == "source":
            self.nobody_is_named(key.source)
        self.erased |= set(map(str, receipt.keys))
        self.withdrawn -= self.erased
        self.erased_words |= before - self.words_of_all_versions()
        self.holds_nothing_erased(prompts_of(self.model, asked))
        self.seen = {}  # versions were rewritten

    def holds_nothing_erased(self, text: str) -> None:
        assert self.erased_words.isdisjoint(words_in(text))

    def nobody_is_named(self, source: str) -> None:
        for info, judge in self.versions():
            assert not NameFinder(source).holds(info.note or "")
            people = set(judge.memory.authority)
            for key in keys_of(judge.memory):
                people.add(key.source)
            for guideline in judge.memory.guidelines:
                people.update((*guideline.people, guideline.retired_by or ""))
            for name in people:
                assert not same_person(name, source)

    @invariant()
    def every_version_holds_and_no_byte_what_was_erased(self):
        for number, (info, judge) in enumerate(self.versions(), 1):
            assert info.number == number
            if info.redacted:
                check_memory(judge)
            known = self.seen.setdefault(number, judge.memory.hash)
            assert known == judge.memory.hash, "a version never changes"
            self.holds_nothing_erased(msgspec.json.encode(judge.memory).decode())
        assert self.place.intact()
        self.holds_nothing_erased(self.place.bytes().decode("latin-1"))


quick = settings(
    max_examples=12, stateful_step_count=14, suppress_health_check=list(HealthCheck)
)

TestJudge = JudgeMachine.TestCase
TestJudge.settings = quick
TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(quick, max_examples=5, stateful_step_count=10)


def what_was_learned(judge: Judge) -> Any:
    """All but numbers of guidelines, which forgetting leaves gaps in, and reasons."""
    memory = judge.memory
    state = states(judge)
    return (
        table(memory.guidelines, "text", "supported_by", "exposed_to", "tests"),
        [memory.status(guideline) for guideline in memory.guidelines],
        table(memory.annotations(), "key", "value", "rationale"),
        [state[str(key)] for key in keys_of(memory)],
        table(memory.cases, "example", "pre_alignment", "vector"),
        memory.conflicts,
    )


def undisputed(rows: list[RawRow]) -> list[RawRow]:
    """Comments alone and labels alone, of one content always the same label: nobody's
    label silences anybody."""
    found = []
    for each in rows:
        one = {**each, "value": len(each["inputs"]) % 2 == 0}
        if "rationale" in each:
            del one["value"]
        found.append(one)
    return found


@settings(max_examples=20)
@given(batches(orders=TAKEN), st.lists(st.booleans(), min_size=15, max_size=15))
def test_forgetting_leaves_what_the_others_alone_would_teach(drawn, chosen):
    rows = undisputed(drawn)
    gone, kept = divide(rows, chosen)
    assume(gone and kept)
    judge = bare(Imp(healed=True), shard_size=1)[0]
    alone = learn(judge, kept).judge
    first = learn(alone, gone).judge
    last = learn(learn(judge, gone).judge, kept).judge
    for taught in (learn(judge, rows).judge, first, last):
        check_memory(taught)
        left = taught.unalign(*map(key_of, gone)).judge
        assert what_was_learned(left) == what_was_learned(alone)
    # What waits is a second revision of one guideline, or one of a guideline that the
    # model invented: it is asked again.
    waiting = first.memory.pending
    for annotation in waiting:
        assert re.search("do:revise|do:foreign", annotation.rationale or "")
    if not waiting:
        assert learn(first, rows).judge == first
