"""What a distillation costs, one call for fifty, in which order, what fits, and what
becomes of wrong answers."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from memalign import Judge, Memory
from memalign.align import dismiss_conflict, likeness, write_guideline
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
from tests.support.rows import RawRow
from tests.support.scripted import by_kind, case, change, records_in

replace = msgspec.structs.replace
_RECORD = re.compile(r"^(F\d+) <<<.*?answer (\w+)\"", re.DOTALL | re.MULTILINE)


def distilled(request: ChatRequest) -> dict[str, Any]:
    """One rule of words of its own for each record."""
    return {
        "changes": [
            _rule(*record)
            for record in _RECORD.findall(request.user.rpartition("New feedback:")[2])
        ]
    }


def _rule(label: str, item: str) -> dict[str, Any]:
    return change("ADD", label, text=f"When matter {item} comes up, name it.")


def wordy(request: ChatRequest) -> dict[str, Any]:
    """One long rule for each record."""
    start = re.findall(r"answer (\w+)", request.user)[0]
    changes = []
    for number, name in enumerate(records_in(request)):
        text = f"When {start} and {number}: " + " ".join(["never be late"] * 15)
        changes.append(change("ADD", name, text=text))
    return {"changes": changes}


def provider(**answers: Any) -> Callable[[ChatRequest], ScriptedAnswer]:
    return by_kind(**{"changes": distilled} | answers)


def provider_judge(
    answer: Any = None, *, shard_size: int = 10
) -> tuple[Judge, ScriptedChatModel]:
    """A judge of a model at a provider, which takes ten pieces of feedback a call."""
    model = ScriptedChatModel(
        answer or provider(), limits=Limits(shard_size=shard_size)
    )
    return bare(model=model)[0], model


def spoken(cases: Iterable[int | str]) -> list[RawRow]:
    """Rows with a label, and with words that only this row has."""
    rows = [
        {"id": f"t-{n}", "inputs": f"question {n}", "outputs": f"answer {n}"}
        for n in cases
    ]
    said = [f"It should name matter {n}, says ana." for n in cases]
    return [
        row | {"source": "ana", "value": True, "rationale": words}
        for row, words in zip(rows, said, strict=True)
    ]


def kinds(model: ScriptedChatModel, start: int = 0) -> Counter[str]:
    return Counter(request.schema_name for request in model.requests[start:])


class TestWords:
    def test_an_align_of_fifty_is_one_call(self) -> None:
        model = ScriptedChatModel(provider())
        result = learn(bare(model=model)[0], spoken(range(50)))
        assert kinds(model) == {"changes": 1}
        assert result.usage.calls == 1
        assert {*states(result.judge).values()} == {"learned"}
        assert len(result.guidelines) == 50, "the records were all in it"
        left = result.judge.unalign("t-7").judge.memory
        assert kinds(model) == {"changes": 2}, (
            "what survives a withdrawal is distilled again in one call"
        )
        assert "matter 7," not in model.requests[-1].user
        assert not [
            each for each in left.guidelines if ("t-7", "ana") in each.exposed_to
        ]
        assert len(left.guidelines) == 49

    def test_a_thousand_are_twenty_calls_and_one_that_merges(self) -> None:
        model = ScriptedChatModel(provider())
        result = learn(
            bare(model=model)[0].replace(parameters={"timeout": 9}), spoken(range(1000))
        )
        assert kinds(model) == {"changes": 20, "merged": 1}
        assert {request.timeout for request in model.requests} == {9}, (
            "no call hangs longer than the judge may"
        )
        assert {*states(result.judge).values()} == {"learned"}

    def test_later_feedback_is_one_call_beside_the_guidelines_that_stand(self) -> None:
        judge, model = provider_judge()
        judge = learn(judge, spoken(range(10))).judge
        for number in range(3):
            asked = len(model.requests)
            judge = learn(judge, spoken([f"more{number}"])).judge
            assert kinds(model, asked) == {"changes": 1}
            assert "G1: When matter" in model.requests[-1].user
        assert {*states(judge).values()} == {"learned"}


class TestMerging:
    @staticmethod
    def merging(*entries: Any) -> tuple[Judge, ScriptedChatModel]:
        return provider_judge(
            provider(merged={"guidelines": list(entries)}), shard_size=2
        )

    def test_what_calls_wrote_side_by_side_is_merged_until_one_of_it_is_forgotten(
        self,
    ) -> None:
        judge, model = self.merging({"text": "Name the matter.", "from": ["G1", "G3"]})
        judge = learn(judge, spoken(range(4))).judge
        assert kinds(model) == {"changes": 2, "merged": 1}
        assert [g.id for g in judge.memory.semantic] == ["G2", "G4", "G5"]
        merged, *both = (judge.memory.guideline(name) for name in ("G5", "G1", "G3"))
        assert {*merged.supported_by} == {*both[0].supported_by, *both[1].supported_by}
        assert len(merged.exposed_to) == 4, "all that its prompt was exposed to"
        check_memory(judge)
        asked = len(model.requests)
        left = judge.unalign(both[0].exposed_to[0]).judge
        assert "Name the matter." not in {g.text for g in left.memory.guidelines}
        assert {"G3", "G4"} <= {g.id for g in left.memory.semantic}, (
            "what it was made from is back"
        )
        assert kinds(model, asked) == {"changes": 1}, (
            "about the one whose call held the withdrawn words"
        )

    def test_a_merge_takes_the_doubles_of_what_it_merges(self) -> None:
        def same(request: ChatRequest) -> dict[str, Any]:
            texts = ("Name the matter, please.", f"Rule of {request.user[-40:]!r}.")
            pairs = zip(records_in(request), texts, strict=True)
            return {"changes": [change("ADD", name, text=text) for name, text in pairs]}

        merged = {"guidelines": [{"text": "Name all.", "from": ["G1", "G2"]}]}
        judge, _ = provider_judge(provider(changes=same, merged=merged), shard_size=2)
        judge = learn(judge, spoken(range(4))).judge
        assert [g.id for g in judge.memory.semantic] == ["G4", "G5"], (
            "G3 says what G1 said"
        )
        assert len(judge.memory.sources_of(judge.memory.guideline("G5"))) == 3
        check_memory(judge)
        first = judge.memory.guideline("G1").supported_by[0]
        assert "G3" in {g.id for g in judge.unalign(first).judge.memory.semantic}

    def test_a_persons_guideline_is_never_merged(self) -> None:
        judge, model = self.merging({"text": "Be as Dora says.", "from": ["G1", "G2"]})
        judge = write_guideline(judge, "Be kind.", by="dora")
        memory = learn(judge, spoken(range(4))).judge.memory
        assert "G1: Be kind." not in model.requests[-1].user
        assert memory.status(memory.guideline("G1")) == "active"

    def test_a_memory_over_its_budget_is_merged(self) -> None:
        merged = {
            "guidelines": [
                {"text": "Be brief.", "from": [f"G{n}" for n in range(1, 61)]}
            ]
        }
        judge, model = provider_judge(
            provider(changes=wordy, merged=merged), shard_size=50
        )
        judge = learn(judge, spoken(range(40))).judge
        assert kinds(model) == {"changes": 1}
        judge = learn(judge, spoken(range(40, 80))).judge
        assert kinds(model) == {"changes": 2, "merged": 1}
        assert "Be brief." in {g.text for g in judge.memory.semantic}

    def test_guidelines_that_nothing_merged_are_merged_again_once_they_grew_by_a_quarter(
        self,
    ) -> None:
        judge, model = provider_judge(provider(changes=wordy), shard_size=100)
        judge = learn(judge, spoken(range(70))).judge
        assert kinds(model) == {"changes": 1, "merged": 1}
        judge = learn(judge, spoken(range(70, 73))).judge
        assert kinds(model) == {"changes": 2, "merged": 1}, (
            "the same seventy would be asked about"
        )
        learn(judge, spoken(range(73, 110)))
        assert kinds(model) == {"changes": 3, "merged": 2}

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
        self, row: RawRow
    ) -> None:
        def ruled(request: ChatRequest) -> ScriptedAnswer:
            answer = wordy(request)
            answer["changes"][7]["text"] = "When matter 7 (7番の件) comes up: name it."
            return answer

        judge, model = provider_judge(provider(changes=ruled), shard_size=300)
        judge = learn(judge, spoken(range(300))).judge
        learn(
            judge,
            [
                {"id": "more", "inputs": "When?", "outputs": "Soon.", "source": "ben"}
                | row
            ],
        )
        prompt = model.requests[-1].user
        assert "When matter 7 (7番の件) comes up" in prompt
        assert 30 < len(re.findall(r"^G\d+: ", prompt, re.MULTILINE)) < 100
        assert estimate_tokens(prompt) < 4_500

    def test_a_merge_that_fails_leaves_all_as_it_is(self) -> None:
        judge, _ = provider_judge(
            provider(merged=ModelUnavailable("down")), shard_size=2
        )
        result = learn(judge, spoken(range(4)))
        assert len(result.judge.memory.semantic) == 4
        assert any("were not merged" in note for note in result.notes)


@pytest.mark.parametrize(
    ("words", "error", "pending", "calls"),
    [
        (
            ["7"],
            InvalidOutput("cut"),
            1,
            range(2, 14),
        ),  # asked for by halves, until it is alone
        (["7"], ModelRefused("declined"), 1, range(2, 14)),
        (
            [str(n) for n in range(50)],
            InvalidOutput("cut"),
            50,
            range(2, 14),
        ),  # nothing is right: given up soon
        (
            ["7"],
            ModelUnavailable("down"),
            50,
            range(1, 2),
        ),  # who is down is not asked by halves
    ],
)
def test_one_record_that_fails_costs_few_calls_and_no_other_record(
    words: list[str], error: Exception, pending: int, calls: range
) -> None:
    def answer(request: ChatRequest) -> ScriptedAnswer:
        return (
            error
            if any(f'answer {word}"' in request.user for word in words)
            else distilled(request)
        )

    judge, model = provider_judge(provider(changes=answer), shard_size=50)
    result = learn(judge, spoken(range(50)))
    assert len(result.pending) == pending
    assert pending > 1 or str(result.pending[0][0]) == "t-7@ana"
    assert type(error).__name__ in result.pending[0][1]
    assert kinds(model)["changes"] in calls


class TestConflicts:
    @staticmethod
    def contradicting(*conflicts: Any) -> tuple[Judge, ScriptedChatModel]:
        answer = provider(
            changes=lambda request: distilled(request) | {"conflicts": list(conflicts)}
        )
        return provider_judge(answer, shard_size=50)

    def test_feedback_that_contradicts_other_feedback_waits_for_a_person(self) -> None:
        judge, _ = self.contradicting(
            {"feedback": ["F1", "F2"], "about": "whether a name is enough"}
        )
        result = learn(judge, spoken(range(2)))
        (conflict,) = result.conflicts
        seen = (conflict.kind, conflict.ids, conflict.reason)
        assert seen == ("comments", ("t-0", "t-1"), "whether a name is enough")
        assert {*states(result.judge).values()} == {"learned"}, "meanwhile both teach"
        later = learn(result.judge, spoken(["more"]))
        assert conflict in later.conflicts
        assert result.judge.unalign("t-0").conflicts == ()

    @pytest.mark.parametrize(
        ("entry", "reasons"),
        [
            *(
                (odd, [])
                for odd in (None, "F1", {}, {"feedback": ["F1"]}, {"feedback": "F1"})
            ),
            ({"feedback": ["F1", "F9"], "about": 3}, []),
            (
                {"feedback": ["F1", "F2"], "about": "<<< the tone >>>"},
                [""],
            ),  # may not enter a prompt
        ],
    )
    def test_what_is_no_conflict_or_no_reason_is_left_out(
        self, entry: Any, reasons: list[str]
    ) -> None:
        judge, _ = self.contradicting(entry)
        assert [
            conflict.reason for conflict in learn(judge, spoken(range(2))).conflicts
        ] == reasons

    def test_a_conflict_that_a_person_dismisses_does_not_come_back(self) -> None:
        judge, _ = self.contradicting(
            {"feedback": ["F1", "F2"], "about": "whether a name is enough"}
        )
        result = learn(judge, spoken(range(3)))
        (conflict,) = result.conflicts
        first, second = conflict.ids
        (third,) = {"t-0", "t-1", "t-2"} - {first, second}
        calm = dismiss_conflict(result.judge, (first, f"{second}@ana"), by="dora")
        # Distilled again from the survivors: the same pair is named again.
        left = calm.unalign(third)
        assert left.usage.calls == 1
        assert left.conflicts == ()
        (dismissed,) = left.judge.memory.conflicts
        assert (dismissed.feedback, dismissed.about) == (
            keys(f"{first}@ana", f"{second}@ana"),
            "",
        )
        assert dismissed.dismissed_by == "dora"
        assert not left.judge.unalign(second).judge.memory.conflicts, (
            "it goes with its feedback"
        )
        # Other words may contradict each other once more.
        changed = [
            row | {"rationale": "The contrary."}
            for row in spoken(range(3))
            if row["id"] != third
        ]
        assert [again.ids for again in learn(left.judge, changed).conflicts] == [
            conflict.ids
        ]

    @pytest.mark.parametrize(
        "named", [("t-0",), ("t-0", "t-5"), ("t-0", "t-9"), "t-0@ana"]
    )
    def test_only_a_conflict_that_is_open_can_be_dismissed(self, named: Any) -> None:
        judge, _ = self.contradicting(
            {"feedback": ["F1", "F2"], "about": "whether a name is enough"}
        )
        with pytest.raises((InputError, UnknownKey)):
            dismiss_conflict(
                learn(learn(judge, spoken(range(2))).judge, spoken([5])).judge,
                named,
                by="dora",
            )


def test_a_denied_reflection_stops_the_align_before_any_change() -> None:
    denied = learn(provider_judge()[0], spoken([1])).judge.replace(
        model=ScriptedChatModel(lambda _: AccessDenied("HTTP 401"))
    )
    with pytest.raises(AccessDenied, match="HTTP 401"):
        learn(denied, spoken(["more"]))


# -- in what order: like cases with other labels side by side, at any number of them ---

GROUPS = 4
EACH = 30


def memory() -> Memory:
    """Four groups of cases that are nearly alike, in which every other case has the other label."""
    cases = []
    for number in range(GROUPS * EACH):
        group = number % GROUPS
        nth = number // GROUPS
        vector = [float(place == group) for place in range(8)]
        vector[group + 4] = nth / 1_000
        cases.append(
            case(
                f"t-{number:03d}",
                nth % 2 == 0,
                vector=vector,
                outputs=f"Reply {number}.",
            )
        )
    return Memory(cases=tuple(cases), embedding_model="test")


@pytest.mark.parametrize(("compared", "parts"), [(1_000, 1), (40, 3)])
def test_like_cases_with_other_labels_stand_together(
    monkeypatch: pytest.MonkeyPatch, compared: int, parts: int
) -> None:
    monkeypatch.setattr(likeness, "COMPARED", compared)
    one = memory()
    keys = [annotation.key for annotation in one.annotations()]
    order = by_likeness(one, keys)
    assert sorted(order) == keys
    assert order == by_likeness(one, random.Random(0).sample(keys, len(keys)))
    groups = [int(key.id.removeprefix("t-")) % GROUPS for key in order]
    labels = [one.record(key)[0].value for key in order]
    pairs = len(order) - 1
    assert sum(a == b for a, b in itertools.pairwise(groups)) >= pairs - parts * GROUPS
    assert sum(a != b for a, b in itertools.pairwise(labels)) > 0.8 * pairs


# -- long cases, and a model of little context: every prompt fits, and the expert's words are in it ---

RULE_FOR_EACH = by_kind(
    changes=lambda request: {
        "changes": [
            change("ADD", name, text=f"Mind {name}.") for name in records_in(request)
        ]
    },
)


def long_row(number: int, length: int, words: int) -> dict[str, Any]:
    comment = f"comment {number}: " + "so " * words
    return {
        "id": f"t-{number}",
        "inputs": "q" * length,
        "outputs": "ä" * length,
        "rationale": comment + "end",
    }


def taught(
    context: int, length: int, count: int, words: int, *, size: int = 20
) -> tuple[Any, list[ChatRequest]]:
    limits = Limits(context_tokens=context, shard_size=size)
    model = ScriptedChatModel(RULE_FOR_EACH, limits=limits)
    judge, _ = bare(model=model)
    first = learn(judge, [long_row(n, length, words) for n in range(count)]).judge
    # And again in the same shards, beside what they have taught.
    rows = [long_row(n, length, words) for n in range(count, count + 3)]
    return learn(first, rows), list(model.requests)


def tokens(request: ChatRequest) -> int:
    return (
        estimate_tokens(request.system)
        + estimate_tokens(request.user)
        + request.max_tokens
    )


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    context=st.sampled_from([2_000, 3_000, 4_096, 8_192, 32_768, 200_000]),
    length=st.sampled_from([0, 50, 1_000, 30_000]),
    count=st.integers(1, 20),
    words=st.sampled_from([0, 20, 400, 3_000]),
    size=st.sampled_from([1, 20]),
)
def test_a_full_prompt_still_holds_the_experts_words(
    context: int, length: int, count: int, words: int, size: int
) -> None:
    result, requests = taught(context, length, count, words, size=size)
    assert not result.pending
    asked = [request for request in requests if request.schema_name == "changes"]
    assert all(tokens(request) <= context for request in asked)
    shown = "".join(request.user for request in asked)
    for number in range(count + 3):
        comment = encode(long_row(number, length, words)["rationale"])
        fits = (
            max(map(estimate_tokens, (request.system for request in asked)))
            + estimate_tokens(comment)
            + 900
            <= context
        )
        assert comment in shown or not fits
        assert f"comment {number}: " in shown or context < 2_500
