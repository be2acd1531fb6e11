"""What an align costs on a provider's model: words are learned at once, a label alone is held against one verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest

from memalign import Judge
from memalign.align.ask import MOST
from memalign.errors import AccessDenied
from memalign.judge.calibrator import FEWEST
from memalign.memory import Answers, Memory
from memalign.memory.retrieval import Neighbourhood, is_hard
from memalign.models import Limits
from memalign.models.base import ChatRequest
from memalign.testing import Answer, ScriptedChatModel
from memalign.types import Example
from tests.support.invariants import no_answer_outlives_its_source
from tests.support.learning import bare, learn, text_of

replace = msgspec.structs.replace
_RECORD = re.compile(r"^(F\d+) <<<.*?answer (\w+)\".*?>>>$(.*?)(?=\n\s*\nF\d+ <<<|\Z)", re.DOTALL | re.MULTILINE)


def provider(request: ChatRequest) -> Answer:
    """Says true of everything, and writes one rule of words of its own, with a check, for each record."""
    match request.schema_name:
        case "judgment":
            return {"rationale": "It reads well.", "value": True}
        case _:
            new = request.user.rpartition("New feedback:")[2]
            return {"changes": [_rule(label, item) for label, item, _ in _RECORD.findall(new)]}


def _rule(label: str, item: str) -> dict[str, Any]:
    question = {"question": f"Does it name matter {item}?", "answer": "yes"}
    text = f"When matter {item} comes up, name it."
    return {"action": "ADD", "feedback": [label], "text": text, "guideline": "", "checks": [question]}


def provider_judge(*, shard_size: int = 10) -> tuple[Judge, ScriptedChatModel]:
    """A judge of a model at a provider, which takes ten pieces of feedback a call."""
    model = ScriptedChatModel(provider, limits=Limits(shard_size=shard_size))
    return bare(model=model)[0], model


def spoken(
    cases: Iterable[int | str], *, by: str = "ana", value: bool = True, words: bool = True
) -> list[dict[str, Any]]:
    """Rows with a label, and with words that only this row has."""
    rows = [{"id": f"t-{n}", "source": by, "inputs": f"question {n}", "outputs": f"answer {n}"} for n in cases]
    said = [{"rationale": f"It should name matter {n}, says {by}."} if words else {} for n in cases]
    return [row | {"value": value} | comment for row, comment in zip(rows, said, strict=True)]


def kinds(model: ScriptedChatModel, start: int = 0) -> Counter[str]:
    return Counter(request.schema_name for request in model.requests[start:])


def states(memory: Memory) -> dict[str, str]:
    return {str(entry.key): entry.state for entry in memory.ledger()}


class TestWords:
    def test_an_align_of_fifty_is_one_call(self) -> None:
        model = ScriptedChatModel(provider)
        result = learn(bare(model=model)[0], spoken(range(50)))
        assert kinds(model) == {"changes": 1}
        assert result.usage.calls == 1
        assert {*states(result.judge.memory).values()} == {"learned"}
        assert len(result.guidelines) == 50, "the records were all in it"

    def test_what_survives_a_withdrawal_is_distilled_again_in_one_call(self) -> None:
        model = ScriptedChatModel(provider)
        judge = learn(bare(model=model)[0], spoken(range(50))).judge
        left = judge.unalign("t-7").judge
        assert kinds(model) == {"changes": 2}
        assert "matter 7," not in model.requests[-1].user
        assert not [each for each in left.memory.guidelines if ("t-7", "ana") in each.exposed_to]
        assert len(left.memory.guidelines) == 49

    def test_fifty_comments_take_five_distillation_calls(self) -> None:
        judge, model = provider_judge()
        result = learn(judge, spoken(range(50)))
        order = [request.schema_name for request in model.requests]
        assert "judgment" not in order[: order.index("changes")]
        asked = kinds(model)
        assert asked["changes"] == 5
        assert 0 < asked["judgment"] <= MOST[False] == 24
        assert asked.keys() <= {"changes", "judgment"}
        assert result.usage.calls == sum(asked.values())
        assert {*states(result.judge.memory).values()} == {"learned"}

    def test_one_more_comment_costs_a_few_calls(self) -> None:
        # Past cases are asked about again only where it brings other checks into view, or moves them to another fold.
        judge, model = provider_judge()
        judge = learn(judge, spoken(range(50))).judge
        calls = []
        for number in range(11):
            asked = len(model.requests)
            judge = learn(judge, spoken([f"more{number}"])).judge
            found = kinds(model, asked)
            assert found["changes"] == 1
            assert found["judgment"] < MOST[False]
            calls.append(sum(found.values()))
        assert sorted(calls)[5] <= 2, "the median"
        assert {*states(judge.memory).values()} == {"learned"}

    def test_a_few_comments_cost_one_call(self) -> None:
        judge, model = provider_judge()
        result = learn(judge, spoken(range(5)))
        assert kinds(model) == {"changes": 1}
        assert result.usage.calls == 1
        assert {*states(result.judge.memory).values()} == {"learned"}
        assert all(case.pre_alignment is None and case.answers is None for case in result.judge.memory.cases)

    def test_past_cases_are_asked_about_from_ten_on(self) -> None:
        judge, model = provider_judge(shard_size=1)
        judge = learn(judge, spoken(range(FEWEST - 1))).judge
        assert kinds(model)["judgment"] == 0
        unlabelled = [{name: part for name, part in row.items() if name != "value"} for row in spoken(["none"])]
        judge = learn(judge, unlabelled).judge
        assert kinds(model)["judgment"] == 0
        judge = learn(judge, spoken(["last"])).judge
        assert kinds(model)["judgment"] == FEWEST
        assert sum(case.answers is not None for case in judge.memory.cases) == FEWEST

    def test_calls_keep_the_rules_of_others_in_view(self) -> None:
        # Dealt out one by one, every part would hold a case of both calls and hide all rules.
        judge, model = provider_judge()
        judge = learn(judge, spoken(range(20))).judge
        assert kinds(model)["judgment"] == 20
        assert all(case.answers is not None and case.answers.margins for case in judge.memory.cases)

    def test_a_case_that_met_every_rule_is_skipped(self) -> None:
        # Ten comments are one call: with any of them hidden there is no rule left to ask with.
        judge, model = provider_judge()
        learn(judge, spoken(range(FEWEST)))
        assert kinds(model) == {"changes": 1}

    def test_forgetting_below_ten_cases_asks_nothing_more(
        self,
    ) -> None:
        judge, model = provider_judge(shard_size=1)
        judge = learn(judge, spoken(range(FEWEST))).judge
        assert kinds(model)["judgment"] == FEWEST
        asked = len(model.requests)
        left = judge.unalign("t-3").judge
        assert kinds(model, asked)["judgment"] == 0
        no_answer_outlives_its_source(left.memory)
        again = learn(left)
        assert again.judge == left
        assert kinds(model, asked)["judgment"] == 0


class TestLabelsAlone:
    def test_a_label_alone_costs_a_verdict(self) -> None:
        judge, model = provider_judge()
        rows = [*spoken(range(3), words=False), *spoken(range(3, 5), value=False, words=False)]
        memory = learn(judge, rows).judge.memory
        assert kinds(model) == {"judgment": 5, "changes": 1}
        assert [request.schema_name for request in model.requests] == ["judgment"] * 5 + ["changes"]
        told = model.requests[-1].user
        assert re.findall(r"answer (\w+)", told) == ["3", "4"], "only what the judge had wrong"
        assert told.count('judge: true because "It reads well."') == 2
        assert {str(key) for guideline in memory.semantic for key in guideline.supported_by} == {"t-3@ana", "t-4@ana"}
        assert {*states(memory).values()} == {"learned"}

    def test_labels_beside_words_show_the_judges_verdict(self) -> None:
        judge, model = provider_judge()
        learn(judge, [*spoken(range(2), value=False), *spoken(range(2, 4), value=False, words=False)])
        assert kinds(model) == {"judgment": 2, "changes": 1}
        shown = {item: "\njudge: " in rest for _, item, rest in _RECORD.findall(model.requests[-1].user)}
        assert shown == {"0": False, "1": False, "2": True, "3": True}

    def test_free_text_labels_are_free_examples(self) -> None:
        # Two right answers differ there: a verdict would not say whether there is something to learn.
        judge, model = provider_judge()
        free = judge.replace(feedback_value_type=str)
        rows = [row | {"value": f"answered {row['id']}"} for row in spoken(range(3), words=False)]
        result = learn(free, rows)
        assert not model.requests
        assert {*states(result.judge.memory).values()} == {"learned"}
        assert result.rows[0].reason == "kept as an example: there were no words to learn from"

    @pytest.mark.parametrize("right", [False, True], ids=["judge wrong", "judge right"])
    def test_a_forgotten_label_leaves_no_trace_in_lessons(self, right: bool) -> None:
        mute = spoken([1], by="ana", value=right, words=False)
        told = [*spoken([1], by="ben", value=right), *spoken(range(2, 5), by="ben")]
        alone = learn(provider_judge()[0], told).judge
        for first, second in ((mute, told), (told, mute), ([*mute, *told], [])):
            judge, model = provider_judge()
            judge = learn(learn(judge, first).judge, second).judge
            asked = len(model.requests)
            left = judge.unalign("t-1@ana").judge
            ours = [replace(guideline, id="G") for guideline in left.memory.guidelines]
            theirs = [replace(guideline, id="G") for guideline in alone.memory.guidelines]
            assert sorted(map(msgspec.json.encode, ours)) == sorted(map(msgspec.json.encode, theirs))
            assert "ana" not in text_of(left.memory, tombstones=False)
            assert all("\njudge: " not in request.user for request in model.requests[asked:])


class TestHardCases:
    def vectors(self, *degrees: float) -> list[bytes]:
        return [np.array([np.cos(a), np.sin(a)], dtype="<f4").tobytes() for a in np.radians(degrees)]

    def memory_of(self, judge: Judge, *, wrong: str, by: str | None = None) -> Memory:
        """Six cases, the first of them nearest to an item at 0°; the answer given about `wrong` was not its label."""
        memory = learn(judge, spoken(range(6))).judge.memory
        vectors = self.vectors(1, 2, 3, 4, 5, 6)
        by = by or judge.base_fingerprint
        cases = tuple(
            replace(case, vector=vector, answers=Answers(judge=by, verdict=case.id != wrong))
            for case, vector in zip(memory.cases, vectors, strict=True)
        )
        return replace(memory, cases=cases)

    def nearest(self, judge: Judge, memory: Memory) -> list[str]:
        item = Example(id="new", inputs="q", outputs="a")
        vector = np.array([1, 0], dtype=np.float32)
        kind, by = judge.value_type, judge.base_fingerprint
        return [hit.case.id for hit in Neighbourhood(memory, item, vector, kind, judge=by).hits(2)]

    def test_a_case_judged_wrong_ranks_before_nearer_ones(self) -> None:
        judge, _ = provider_judge()
        assert self.nearest(judge, self.memory_of(judge, wrong="")) == ["t-0", "t-1"]
        assert self.nearest(judge, self.memory_of(judge, wrong="t-2")) == ["t-2", "t-0"]
        assert self.nearest(judge, self.memory_of(judge, wrong="t-5")) == ["t-0", "t-1"], "and not one from afar"

    def test_what_another_judge_had_wrong_ranks_nothing(self) -> None:
        judge, _ = provider_judge()
        memory = self.memory_of(judge, wrong="t-2", by="0123456789abcdef")
        assert self.nearest(judge, memory) == ["t-0", "t-1"]
        assert is_hard(memory, memory.cases[2], judge.value_type), "though it was hard for some judge"

    def test_hard_cases_are_those_the_pass_got_wrong(self) -> None:
        # The model says true of everything, and of all that it was asked it has just these wrong.
        judge, _ = provider_judge(shard_size=1)
        judge = learn(judge, [*spoken(range(8)), *spoken(range(8, 12), value=False)]).judge
        memory, kind = judge.memory, judge.value_type
        hard = {case.id for case in memory.cases if is_hard(memory, case, kind, judge.base_fingerprint)}
        assert hard == {f"t-{n}" for n in range(8, 12)}


class TestDenied:
    """A judge whose key is refused: what needs no judge is done, and nothing that was paid for is lost."""

    @staticmethod
    def taught() -> tuple[Judge, ScriptedChatModel]:
        judge, model = provider_judge(shard_size=1)
        return learn(judge, spoken(range(FEWEST + 2))).judge, model

    @staticmethod
    def denied(judge: Judge) -> Judge:
        def answer(request: ChatRequest) -> Answer:
            return AccessDenied("HTTP 401") if request.schema_name == "judgment" else provider(request)

        return judge.replace(model=ScriptedChatModel(answer, limits=Limits(shard_size=1)))

    def test_forgetting_needs_no_judge(self) -> None:
        judge, _ = self.taught()
        result = self.denied(judge).unalign("t-3")
        assert "t-3@ana" not in {str(each.key) for each in result.judge.memory.annotations()}
        assert "AccessDenied: HTTP 401" in result.notes[0]

    def test_a_lesson_that_was_distilled_is_kept(self) -> None:
        judge, _ = self.taught()
        result = learn(self.denied(judge), spoken(["more"]))
        assert states(result.judge.memory)["t-more@ana"] == "learned"
        assert "AccessDenied: HTTP 401" in result.notes[0]

    def test_denied_access_stops_the_align_before_any_cost(self) -> None:
        judge, model = self.taught()
        with pytest.raises(AccessDenied, match="HTTP 401"):
            learn(self.denied(judge), spoken(["more"], words=False))
        assert kinds(model)["judgment"] > 0
