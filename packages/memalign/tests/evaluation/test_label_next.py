"""What to label next: four reasons, one list, no copies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memalign as ma
from memalign.errors import InputError
from memalign.evaluation import NextCases, next_cases
from memalign.io import JudgmentWriter
from memalign.memory import Memory
from memalign.testing import ScriptedChatModel
from memalign.types import Example, Finding, Guideline, Judgment
from tests.support.lists import ids
from tests.support.rows import RawRow
from tests.support.scripted import case, scripted

replace = msgspec.structs.replace

KNOWN = "The parcel is late and the customer asks for a refund of the postage."
NEAR = "The parcel is late and the customer asks for a refund of the postage now."
FAR = "Photosynthesis turns light into sugar."
OTHER = "Der Vertrag endet mit dem Quartal."


def judge(memory: Memory | None = None, **changes: Any) -> ma.Judge:
    return scripted(
        name="kind", embedding_model=None, memory=memory or Memory(), **changes
    )[0]


TAUGHT = judge(
    Memory(
        cases=(case("t-1", outputs=KNOWN),),
        guidelines=(Guideline(id="G1", text="Be warm."),),
        next_guideline=2,
    )
)


def items(**outputs: str) -> list[RawRow]:
    return [{"id": name, "outputs": text} for name, text in outputs.items()]


def said(*, p: float | None = 0.99, **fields: Any) -> Judgment:
    """A judgment with nothing unusual about it: a decision model is sure of the verdict,
    and of the guideline."""
    finding = Finding(guideline="G1", probability=p)
    settled: dict[str, Any] = {
        "value": True,
        "confidence": 0.99,
        "findings": (finding,),
    }
    return Judgment(**settled | fields)


UNSURE = said(confidence=0.5)


def applies(guideline: str, value: bool) -> Finding:
    """What a chat model finds: a guideline, its evidence, and the value that it means."""
    return Finding(guideline=guideline, evidence="a refund", value=value)


def ranked(
    one: ma.Judge,
    rows: list[RawRow],
    path: Path,
    judgments: dict[str, Judgment],
    n: int = 5,
) -> NextCases:
    """What comes next by judgments that exist already."""
    out = path / "out.jsonl"
    out.unlink(missing_ok=True)
    examples = [Example(**row) for row in rows]
    with JudgmentWriter(out, judge="kind@0", examples=examples) as writer:
        for row in rows:
            judgment = judgments[row["id"]]
            writer.write(row["id"], replace(judgment, memory_hash=one.memory.hash))
    return next_cases(one, rows, n=n, judged=out)


def test_cases_that_differ_in_their_reference_are_all_there(tmp_path):
    one = judge(instructions="Good? {{ inputs }} {{ outputs }} {{ expectations }}")
    rows = items(a=NEAR, b=NEAR, c=NEAR, d=NEAR)
    for row in rows:
        row |= {"inputs": "Late.", "expectations": {"reference": row["id"]}}
    chosen = ranked(one, rows, tmp_path, dict.fromkeys("abcd", said()))
    assert sorted(ids(chosen.cases)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "judgment", "reason"),
    [
        (NEAR, said(), "nothing unusual about it"),
        (NEAR, said(p=0.55), "no guideline applies"),
        (NEAR, said(findings=()), "no guideline applies"),
        (NEAR, said(findings=(applies("G1", True),)), "nothing unusual about it"),
        (
            NEAR,
            said(findings=(applies("G1", True), applies("G2", False))),
            "guidelines contradict each other",
        ),
        (NEAR, said(confidence=0.55), r"unsure \(55%\)"),
        (NEAR, said(confidence=None), "nothing unusual about it"),
        # The strongest reason comes first.
        (
            NEAR,
            said(p=0.6, confidence=0.5),
            r"unsure \(50%\); no guideline applies",
        ),
        (FAR, said(), r"unlike every case in memory \(likeness at most 0\.\d\d\)"),
    ],
)
def test_every_reason_has_its_words(tmp_path, text, judgment, reason):
    (case,) = ranked(TAUGHT, items(a=text), tmp_path, {"a": judgment}).cases
    assert re.fullmatch(reason, case.reason)


def test_a_judge_without_memory_says_so(tmp_path):
    silent = said(findings=())
    (case,) = ranked(judge(), items(a=NEAR), tmp_path, {"a": silent}).cases
    assert case.reason == "no guideline applies; memory has no cases yet"


class TestRanking:
    def test_the_strongest_reasons_come_first_up_to_n(self, tmp_path):
        rows = items(sure=NEAR, torn=OTHER, odd=FAR)
        judgments = {"sure": said(), "torn": said(confidence=0.5, p=0.5), "odd": said()}
        ranking = ranked(TAUGHT, rows, tmp_path, judgments)
        assert ids(ranking.cases) == ["torn", "odd", "sure"]
        scores = [case.score for case in ranking.cases]
        assert 1 >= scores[0] >= scores[1] >= scores[2] >= 0
        two = ranked(TAUGHT, rows, tmp_path, judgments, n=2)
        assert two.cases == ranking.cases[:2], "the same cases give the same list"
        assert two.ranked == ranking.ranked == 3

    def test_the_list_is_diverse(self, tmp_path):
        judgments = dict.fromkeys("abc", UNSURE) | {"d": said(confidence=0.6)}
        rows = items(a=FAR, b=f"{FAR} Really.", c=f"{FAR} Indeed.", d=OTHER)
        ranking = ranked(TAUGHT, rows, tmp_path, judgments)
        first, second, *_ = ids(ranking.cases)
        assert first in ("a", "b", "c")
        assert second == "d"

    def test_cases_of_one_score_come_by_chance_and_not_as_they_arrived(self, tmp_path):
        names = [f"c-{number:02}" for number in range(12)]
        rows = []
        for number, name in enumerate(names):
            text = FAR if number % 2 else OTHER
            rows.append({"id": name, "outputs": f"{name} {text}"})
        judgments = dict.fromkeys(names, UNSURE)
        one = ranked(judge(), rows, tmp_path, judgments, n=12)
        rows.reverse()
        other = ranked(judge(), rows, tmp_path, judgments, n=12)
        assert ids(one.cases) == ids(other.cases), "another order changes nothing"
        assert ids(one.cases) not in (names, names[::-1])

    def test_copies_and_remembered_cases_cost_no_call(self):
        ranking = next_cases(TAUGHT, items(remembered=KNOWN, a=FAR, copy=FAR))
        assert ids(ranking.cases) == ["a"]
        assert ranking.left_out == 2
        assert ranking.ranked == 1
        assert ranking.usage.calls == 1
        silent = TAUGHT.replace(model=ScriptedChatModel([]))
        assert next_cases(silent, items(remembered=KNOWN)).cases == ()

    def test_judgments_must_fit_these_cases_and_memory(self, tmp_path):
        rows = items(a=FAR)
        ranked(TAUGHT, rows, tmp_path, {"a": said()})
        message = "with another memory than this version of 'kind' has"
        with pytest.raises(InputError, match=message):
            next_cases(judge(), rows, judged=tmp_path / "out.jsonl")
        with pytest.raises(InputError, match="no such file"):
            next_cases(TAUGHT, rows, judged=tmp_path / "none.jsonl")

    @pytest.mark.parametrize("n", [0, 1.5, True])
    def test_n_is_a_whole_number(self, n):
        with pytest.raises(InputError, match="n must be a whole number of 1 or more"):
            next_cases(TAUGHT, items(a=FAR), n=n)
