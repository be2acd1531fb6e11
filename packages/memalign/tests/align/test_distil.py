"""What a distillation costs, one call for fifty, in which order, what fits, and what
becomes of wrong answers."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from memalign import Judge, Memory
from memalign.align import AlignResult, dismiss_conflict, likeness, write_guideline
from memalign.align.likeness import by_likeness
from memalign.content.encoding import encode, estimate_tokens
from memalign.errors import (
    AccessDenied,
    InputError,
    InvalidOutput,
    ModelRefused,
    ModelUnavailable,
    UnknownKey,
)
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedAnswer, ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import bare, learn, states
from tests.support.lists import ids, kinds, table, texts
from tests.support.rows import RawRow
from tests.support.scripted import by_kind, case, change, records_in
from tests.support.world import said

_RECORD = re.compile(r"^(F\d+) <<<.*?answer (\w+)\"", re.DOTALL | re.MULTILINE)


def distilled(request: ChatRequest) -> dict[str, Any]:
    """One rule of words of its own for each record."""
    new = request.user.rpartition("New feedback:")[2]
    changes = []
    for label, item in _RECORD.findall(new):
        text = f"When matter {item} comes up, name it."
        changes.append(change("ADD", label, text=text))
    return {"changes": changes}


def wordy(request: ChatRequest) -> dict[str, Any]:
    """One long rule for each record."""
    start = re.findall(r"answer (\w+)", request.user)[0]
    changes = []
    for number, name in enumerate(records_in(request)):
        text = f"When {start} and {number}: " + " ".join(["never be late"] * 15)
        changes.append(change("ADD", name, text=text))
    return {"changes": changes}


def provider_judge(
    *, shard_size: int = 10, **answers: Any
) -> tuple[Judge, ScriptedChatModel]:
    """A judge of a model at a provider, which takes ten pieces of feedback a call."""
    answer = by_kind(**{"changes": distilled} | answers)
    model = ScriptedChatModel(answer, limits=Limits(shard_size=shard_size))
    return bare(model=model)[0], model


def spoken(cases: Iterable[int | str]) -> list[RawRow]:
    """Rows with a label, and with words that only this row has."""
    return [said(n, f"It should name matter {n}.", value=True) for n in cases]


def all_learned(judge: Judge) -> bool:
    return {*states(judge).values()} == {"learned"}


USUAL = Limits().shard_size
"""Pieces of feedback in one call to a model of which nothing is known."""


class TestWords:
    def test_an_align_of_fifty_is_one_call(self):
        judge, model = provider_judge(shard_size=USUAL)
        result = learn(judge, spoken(range(50)))
        assert kinds(model) == ["changes"]
        assert result.usage.calls == 1
        assert all_learned(result.judge)
        assert len(result.guidelines) == 50, "the records were all in it"
        left = result.judge.unalign("t-7").judge.memory
        assert kinds(model, 1) == ["changes"], "what survives is distilled in one call"
        assert "matter 7," not in model.requests[-1].user
        assert len(left.guidelines) == 49

    def test_a_thousand_are_twenty_calls_and_one_that_merges(self):
        judge, model = provider_judge(shard_size=USUAL)
        result = learn(judge.replace(parameters={"timeout": 9}), spoken(range(1000)))
        assert kinds(model) == ["changes"] * 20 + ["merged"]
        for request in model.requests:
            assert request.timeout == 9, "no call hangs longer than the judge may"
        assert all_learned(result.judge)

    def test_later_feedback_is_one_call_beside_the_guidelines_that_stand(self):
        judge, model = provider_judge()
        judge = learn(judge, spoken(range(10))).judge
        for number in range(3):
            asked = len(model.requests)
            judge = learn(judge, spoken([f"more{number}"])).judge
            assert kinds(model, asked) == ["changes"]
            assert "G1: When matter" in model.requests[-1].user
        assert all_learned(judge)


class TestMerging:
    @staticmethod
    def merging(
        text: str, *guidelines: str, **answers: Any
    ) -> tuple[Judge, ScriptedChatModel]:
        """A judge whose guidelines of these ids are merged into one text."""
        merged = {"guidelines": [{"text": text, "from": list(guidelines)}]}
        return provider_judge(merged=merged, shard_size=2, **answers)

    def test_what_calls_wrote_side_by_side_is_merged_until_one_of_it_is_forgotten(
        self,
    ):
        judge, model = self.merging("Name the matter.", "G1", "G3")
        judge = learn(judge, spoken(range(4))).judge
        assert kinds(model) == ["changes", "changes", "merged"]
        assert ids(judge.memory.semantic) == ["G2", "G4", "G5"]
        first = judge.memory.guideline("G1")
        third = judge.memory.guideline("G3")
        merged = judge.memory.guideline("G5")
        assert {*merged.supported_by} == {*first.supported_by, *third.supported_by}
        assert len(merged.exposed_to) == 4, "all that its prompt was exposed to"
        check_memory(judge)
        left = judge.unalign(first.exposed_to[0]).judge
        assert "Name the matter." not in texts(left.memory.guidelines)
        assert {"G3", "G4"} <= {*ids(left.memory.semantic)}, "it was made from G3"
        assert kinds(model, 3) == ["changes"], "whose call held the withdrawn words"

    def test_a_merge_takes_the_doubles_of_what_it_merges(self):
        def same(request: ChatRequest) -> dict[str, Any]:
            first, second = records_in(request)
            named = change("ADD", first, text="Name the matter, please.")
            other = change("ADD", second, text=f"Rule of {request.user[-40:]!r}.")
            return {"changes": [named, other]}

        judge, _ = self.merging("Name all.", "G1", "G2", changes=same)
        judge = learn(judge, spoken(range(4))).judge
        assert ids(judge.memory.semantic) == ["G4", "G5"], "G3 says what G1 said"
        assert len(judge.memory.sources_of(judge.memory.guideline("G5"))) == 3
        check_memory(judge)
        first = judge.memory.guideline("G1").supported_by[0]
        assert "G3" in ids(judge.unalign(first).judge.memory.semantic)

    def test_a_persons_guideline_is_never_merged(self):
        judge, model = self.merging("Be as Dora says.", "G1", "G2")
        judge = write_guideline(judge, "Be kind.", by="dora")
        memory = learn(judge, spoken(range(4))).judge.memory
        assert "G1: Be kind." not in model.requests[-1].user
        assert memory.status(memory.guideline("G1")) == "active"

    def test_a_memory_over_its_budget_is_merged_and_again_once_it_grew_by_a_quarter(
        self,
    ):
        judge, model = provider_judge(changes=wordy, shard_size=100)
        judge = learn(judge, spoken(range(40))).judge
        assert kinds(model) == ["changes"]
        judge = learn(judge, spoken(range(40, 70))).judge
        assert kinds(model, 1) == ["changes", "merged"]
        judge = learn(judge, spoken(range(70, 73))).judge
        assert kinds(model, 3) == ["changes"], "the same seventy would be asked about"
        learn(judge, spoken(range(73, 110)))
        assert kinds(model, 4) == ["changes", "merged"]

    @pytest.mark.parametrize(
        "row",
        [
            {
                "value": True,
                "rationale": "Of matter 7 he should have been told earlier.",
            },
            {"value": False, "rationale": "7番の件を忘れないでください。"},
            {"value": True, "inputs": "Where is matter 7?"},
        ],
        ids=["a comment", "without spaces", "a label alone"],
    )
    def test_of_many_guidelines_a_call_shows_those_that_its_feedback_is_about(
        self, row
    ):
        def ruled(request: ChatRequest) -> ScriptedAnswer:
            answer = wordy(request)
            answer["changes"][7]["text"] = "When matter 7 (7番の件) comes up: name it."
            return answer

        judge, model = provider_judge(changes=ruled, shard_size=300)
        judge = learn(judge, spoken(range(300))).judge
        more = {"id": "more", "inputs": "When?", "outputs": "Soon.", "source": "ben"}
        learn(judge, [more | row])
        prompt = model.requests[-1].user
        assert "When matter 7 (7番の件) comes up" in prompt
        assert 30 < len(re.findall(r"^G\d+: ", prompt, re.MULTILINE)) < 100
        assert estimate_tokens(prompt) < 4_500

    def test_a_merge_that_fails_leaves_all_as_it_is(self):
        judge, _ = provider_judge(merged=ModelUnavailable("down"), shard_size=2)
        result = learn(judge, spoken(range(4)))
        assert len(result.judge.memory.semantic) == 4
        assert "were not merged" in "\n".join(result.notes)


@pytest.mark.parametrize(
    ("bad", "error", "pending", "calls"),
    [
        # Asked for by halves, until it is alone.
        (r"answer 7\"", InvalidOutput("cut"), 1, range(2, 14)),
        (r"answer 7\"", ModelRefused("declined"), 1, range(2, 14)),
        # Where nothing is right it is given up soon.
        (r"answer \d+\"", InvalidOutput("cut"), 50, range(2, 14)),
        # A model that is down is not asked by halves.
        (r"answer 7\"", ModelUnavailable("down"), 50, range(1, 2)),
    ],
)
def test_one_record_that_fails_costs_few_calls_and_no_other_record(
    bad, error, pending, calls
):
    def answer(request: ChatRequest) -> ScriptedAnswer:
        return error if re.search(bad, request.user) else distilled(request)

    judge, model = provider_judge(changes=answer, shard_size=50)
    result = learn(judge, spoken(range(50)))
    assert len(result.pending) == pending
    key, reason = result.pending[0]
    assert pending > 1 or str(key) == "t-7@ana"
    assert type(error).__name__ in reason
    assert kinds(model).count("changes") in calls


class TestConflicts:
    named = {"feedback": ["F1", "F2"], "about": "whether a name is enough"}

    @staticmethod
    def contradicting(entry: Any, count: int) -> AlignResult:
        """What a judge learned from some rows, in which the model names this conflict."""

        def changes(request: ChatRequest) -> ScriptedAnswer:
            return distilled(request) | {"conflicts": [entry]}

        judge, _ = provider_judge(changes=changes, shard_size=50)
        return learn(judge, spoken(range(count)))

    def test_feedback_that_contradicts_other_feedback_waits_for_a_person(self):
        result = self.contradicting(self.named, 2)
        assert table(result.conflicts, "kind", "ids", "reason") == [
            ("comments", ("t-0", "t-1"), "whether a name is enough")
        ]
        assert all_learned(result.judge), "meanwhile both teach"
        later = learn(result.judge, spoken(["more"]))
        assert result.conflicts[0] in later.conflicts
        assert result.judge.unalign("t-0").conflicts == ()

    @pytest.mark.parametrize(
        "entry",
        [
            None,
            "F1",
            {},
            {"feedback": ["F1"]},
            {"feedback": "F1"},
            {"feedback": ["F1", "F9"], "about": 3},
        ],
    )
    def test_what_is_no_conflict_is_left_out(self, entry):
        assert self.contradicting(entry, 2).conflicts == ()

    def test_a_reason_that_may_not_enter_a_prompt_is_left_out(self):
        marked = self.named | {"about": "<<< the tone >>>"}
        (conflict,) = self.contradicting(marked, 2).conflicts
        assert conflict.reason == ""

    def test_a_conflict_that_a_person_dismisses_does_not_come_back(self):
        result = self.contradicting(self.named, 3)
        (conflict,) = result.conflicts
        first, second = conflict.ids
        (third,) = {"t-0", "t-1", "t-2"} - {first, second}
        calm = dismiss_conflict(result.judge, (first, f"{second}@ana"), by="dora")
        # Distilled again from the survivors: the same pair is named again.
        left = calm.unalign(third)
        assert left.usage.calls == 1
        assert left.conflicts == ()
        both = keys(f"{first}@ana", f"{second}@ana")
        dismissed = table(
            left.judge.memory.conflicts, "feedback", "about", "dismissed_by"
        )
        assert dismissed == [(both, "", "dora")]
        forgot = left.judge.unalign(second).judge
        assert not forgot.memory.conflicts, "it goes with its feedback"
        # Other words may contradict each other once more.
        changed = []
        for row in spoken(range(3)):
            if row["id"] != third:
                changed.append(row | {"rationale": "The contrary."})
        (again,) = learn(left.judge, changed).conflicts
        assert again.ids == conflict.ids

    @pytest.mark.parametrize(
        "named", [("t-0",), ("t-0", "t-5"), ("t-0", "t-9"), "t-0@ana"]
    )
    def test_only_a_conflict_that_is_open_can_be_dismissed(self, named):
        judge = self.contradicting(self.named, 2).judge
        judge = learn(judge, spoken([5])).judge
        with pytest.raises((InputError, UnknownKey)):
            dismiss_conflict(judge, named, by="dora")


def test_a_denied_reflection_stops_the_align_before_any_change():
    judge = learn(provider_judge()[0], spoken([1])).judge
    denied = ScriptedChatModel(lambda _: AccessDenied("HTTP 401"))
    with pytest.raises(AccessDenied, match="HTTP 401"):
        learn(judge.replace(model=denied), spoken(["more"]))


# -- in what order: like cases with other labels side by side, at any number of them ---

GROUPS = 4
EACH = 30


def memory() -> Memory:
    """Four groups of cases that are nearly alike; every other case has the other label."""
    cases = []
    for number in range(GROUPS * EACH):
        group = number % GROUPS
        nth = number // GROUPS
        vector = [0.0] * 8
        vector[group] = 1.0
        vector[group + 4] = nth / 1_000
        label = nth % 2 == 0
        text = f"Reply {number}."
        cases.append(case(f"t-{number:03d}", label, vector=vector, outputs=text))
    return Memory(cases=tuple(cases), embedding_model="test")


def turns(things: list[Any]) -> int:
    """How often one of them is followed by another."""
    return sum(one != other for one, other in itertools.pairwise(things))


@pytest.mark.parametrize(("compared", "parts"), [(1_000, 1), (40, 3)])
def test_like_cases_with_other_labels_stand_together(monkeypatch, compared, parts):
    monkeypatch.setattr(likeness, "COMPARED", compared)
    one = memory()
    keys = [annotation.key for annotation in one.annotations()]
    order = by_likeness(one, keys)
    assert sorted(order) == keys
    random.Random(0).shuffle(keys)
    assert by_likeness(one, keys) == order
    groups = [int(key.id.removeprefix("t-")) % GROUPS for key in order]
    labels = [one.record(key)[0].value for key in order]
    assert turns(groups) <= parts * GROUPS
    assert turns(labels) > 0.8 * (len(order) - 1)


# -- long cases, and a model of little context ----------------------------------------


def mindful(request: ChatRequest) -> ScriptedAnswer:
    """One short rule for each record."""
    changes = []
    for name in records_in(request):
        changes.append(change("ADD", name, text=f"Mind {name}."))
    return {"changes": changes}


def long_row(number: int, length: int, words: int) -> RawRow:
    return {
        "id": f"t-{number}",
        "inputs": "q" * length,
        "outputs": "ä" * length,
        "rationale": f"comment {number}: " + "so " * words + "end",
    }


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    context=st.sampled_from([2_000, 3_000, 4_096, 8_192, 32_768, 200_000]),
    length=st.sampled_from([0, 50, 1_000, 30_000]),
    count=st.integers(1, 20),
    words=st.sampled_from([0, 20, 400, 3_000]),
    size=st.sampled_from([1, 20]),
)
def test_a_full_prompt_still_holds_the_experts_words(
    context, length, count, words, size
):
    """Every prompt fits, and the expert's words are in it."""
    limits = Limits(context_tokens=context, shard_size=size)
    model = ScriptedChatModel(by_kind(changes=mindful), limits=limits)
    rows = [long_row(n, length, words) for n in range(count + 3)]
    first = learn(bare(model=model)[0], rows[:count]).judge
    # And again in the same shards, beside what they have taught.
    assert not learn(first, rows[count:]).pending
    shown = ""
    longest = 0
    for request in model.requests:
        if request.schema_name == "changes":
            system = estimate_tokens(request.system)
            user = estimate_tokens(request.user)
            assert system + user + request.max_tokens <= context
            longest = max(longest, system)
            shown += request.user
    for number, row in enumerate(rows):
        comment = encode(row["rationale"])
        fits = longest + estimate_tokens(comment) + 900 <= context
        assert comment in shown or not fits
        assert f"comment {number}: " in shown or context < 2_500
