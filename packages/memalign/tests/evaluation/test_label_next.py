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
from tests.support.rows import RawRow
from tests.support.scripted import case, scripted

replace = msgspec.structs.replace

TAUGHT = "The parcel is late and the customer asks for a refund of the postage."
NEAR = "The parcel is late and the customer asks for a refund of the postage now."
FAR = "Photosynthesis turns light into sugar."
OTHER = "Der Vertrag endet mit dem Quartal."


def judge(memory: Memory | None = None, **changes: Any) -> ma.Judge:
    return scripted(
        name="kind", embedding_model=None, memory=memory or Memory(), **changes
    )[0]


def taught() -> Memory:
    return Memory(
        cases=(case("t-1", outputs=TAUGHT),),
        guidelines=(Guideline(id="G1", text="Be warm."),),
        next_guideline=2,
    )


def items(**outputs: str) -> list[RawRow]:
    return [{"id": name, "outputs": text} for name, text in outputs.items()]


def said(value: bool = True, *, p: float | None = 0.99, **fields: Any) -> Judgment:
    """A judgment with nothing unusual about it: a decision model is sure of the verdict, and of the guideline."""
    finding = Finding(guideline="G1", probability=p)
    settled: dict[str, Any] = {
        "value": value,
        "confidence": 0.99,
        "findings": (finding,),
    }
    return Judgment(**settled | fields)


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
    with JudgmentWriter(
        out, judge="kind@0", examples=[Example(**row) for row in rows]
    ) as writer:
        for name, judgment in judgments.items():
            writer.write(name, replace(judgment, memory_hash=one.memory.hash))
    return next_cases(one, rows, n=n, judged=out)


def test_cases_that_are_alike_to_the_last_word_come_once_each(tmp_path: Path) -> None:
    one = judge(instructions="Good? {{ inputs }} {{ outputs }} {{ expectations }}")
    rows: list[RawRow] = []
    for number in range(4):
        reference = {"reference": str(number)}
        rows.append(
            {
                "id": f"c-{number}",
                "inputs": "Late.",
                "outputs": NEAR,
                "expectations": reference,
            }
        )
    judgments = {row["id"]: said() for row in rows}
    chosen = ranked(one, rows, tmp_path, judgments)
    assert sorted(case.id for case in chosen.cases) == ["c-0", "c-1", "c-2", "c-3"]


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
        (NEAR, said(confidence=0.55), "unsure (55%)"),
        (NEAR, said(confidence=None), "nothing unusual about it"),
        (
            NEAR,
            said(p=0.6, confidence=0.5),
            "unsure (50%); no guideline applies",
        ),  # the strongest first
        (FAR, said(), r"unlike every case in memory \(likeness at most 0\.\d\d\)"),
    ],
)
def test_every_reason_has_its_words(
    tmp_path: Path, text: str, judgment: Judgment, reason: str
) -> None:
    (case,) = ranked(judge(taught()), items(a=text), tmp_path, {"a": judgment}).cases
    assert case.reason == reason or re.fullmatch(reason, case.reason)


def test_a_judge_without_memory_says_so(tmp_path: Path) -> None:
    (case,) = ranked(judge(), items(a=NEAR), tmp_path, {"a": said(findings=())}).cases
    assert case.reason == "no guideline applies; memory has no cases yet"


class TestRanking:
    def test_the_strongest_reasons_come_first_up_to_n(self, tmp_path: Path) -> None:
        rows = items(sure=NEAR, torn=OTHER, odd=FAR)
        judgments = {"sure": said(), "torn": said(confidence=0.5, p=0.5), "odd": said()}
        ranking = ranked(judge(taught()), rows, tmp_path, judgments)
        assert ([case.id for case in ranking.cases], ranking.ranked) == (
            ["torn", "odd", "sure"],
            3,
        )
        scores = [case.score for case in ranking.cases]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        (tmp_path / "out.jsonl").unlink()
        two = ranked(judge(taught()), rows, tmp_path, judgments, n=2)
        assert (two.cases, two.ranked) == (ranking.cases[:2], 3), (
            "the same cases give the same list"
        )

    def test_the_list_is_diverse(self, tmp_path: Path) -> None:
        unsure = said(confidence=0.5)
        less = said(confidence=0.6)
        rows = items(a=FAR, b=f"{FAR} Really.", c=f"{FAR} Indeed.", d=OTHER)
        ranking = ranked(
            judge(taught()),
            rows,
            tmp_path,
            {"a": unsure, "b": unsure, "c": unsure, "d": less},
        )
        first, second = (case.id for case in ranking.cases[:2])
        assert (first in ("a", "b", "c"), second) == (True, "d")

    def test_cases_of_one_score_come_by_chance_and_not_as_they_arrived(
        self, tmp_path: Path
    ) -> None:
        names = [f"c-{number:02}" for number in range(12)]
        texts = {
            name: f"{name} {FAR if number % 2 else OTHER}"
            for number, name in enumerate(names)
        }
        judgments = dict.fromkeys(names, said(confidence=0.5))
        orders = list[list[str]]()
        for rows in (items(**texts), items(**texts)[::-1]):
            (tmp_path / "out.jsonl").unlink(missing_ok=True)
            given = {row["id"]: judgments[row["id"]] for row in rows}
            orders.append(
                [case.id for case in ranked(judge(), rows, tmp_path, given, n=12).cases]
            )
        assert orders[0] == orders[1], "another order of arrival changes nothing"
        assert orders[0] not in (names, names[::-1])

    def test_copies_and_remembered_cases_cost_no_call(self) -> None:
        one = judge(taught())
        ranking = next_cases(one, items(remembered=TAUGHT, a=FAR, copy=FAR))
        assert [case.id for case in ranking.cases] == ["a"]
        assert (ranking.left_out, ranking.ranked, ranking.usage.calls) == (2, 1, 1)
        assert (
            next_cases(
                judge(taught(), model=ScriptedChatModel([])), items(remembered=TAUGHT)
            ).cases
            == ()
        )

    def test_n_and_judgments_must_fit_these_cases_and_memory(
        self, tmp_path: Path
    ) -> None:
        one = judge(taught())
        out = tmp_path / "out.jsonl"
        ranked(one, items(a=FAR), tmp_path, {"a": said()})
        forgetful = judge()
        wrong: list[tuple[ma.Judge, list[RawRow], dict[str, Any], str]] = [
            (
                forgetful,
                items(a=FAR),
                {"judged": out},
                "with another memory than this version of 'kind' has",
            ),
            (one, items(a=FAR), {"judged": tmp_path / "none.jsonl"}, "no such file"),
            *(
                (one, items(a=FAR), {"n": n}, "n must be a whole number of 1 or more")
                for n in (0, 1.5, True)
            ),
        ]
        for one_judge, rows, more, message in wrong:
            with pytest.raises(InputError, match=message):
                next_cases(one_judge, rows, **more)
