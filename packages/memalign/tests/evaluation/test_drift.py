"""Drift: an alarm as seldom false as it says, and raised when something changed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Judge
from memalign.errors import InputError
from memalign.evaluation import drift
from memalign.testing import ScriptedChatModel
from memalign.types import Judgment, json_line


def judge(kind: Any = bool) -> Judge:
    return Judge(name="tone", model=ScriptedChatModel([]), instructions="Warm? {{ outputs }}", feedback_value_type=kind)


def run(path: Path, values: list[Any], *, memory: str, sure: float | None = None, first: int = 0) -> Path:
    """A judgment file; `sure` is the confidence of every verdict."""
    with path.open("wb") as file:
        for place, value in enumerate(values, first):
            judgment = Judgment(value=value, own_value=value, confidence=sure, memory_hash=memory, model="m")
            head = {"id": f"a-{place}", "judge": "tone@1", "content_hash": f"{place}"}
            file.write(json_line(head | {**msgspec.structs.asdict(judgment), **head}))
    return path


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_equal_runs_raise_few_alarms(tmp_path: Path, share: float) -> None:
    tone, chance, alarms = judge(), random.Random(7), 0
    for _ in range(200):
        files = [
            run(
                tmp_path / f"{place}.jsonl",
                [chance.random() < share for _ in range(150)],
                memory=tone.memory.hash,
                first=place * 1000,
            )
            for place in (0, 1)
        ]
        alarms += drift(tone, *files).alarm
    assert alarms <= 20  # 10 are expected at most


def test_a_doubled_share_is_seen_with_its_cases(tmp_path: Path) -> None:
    tone = judge()
    first = run(tmp_path / "1.jsonl", [n % 5 == 0 for n in range(300)], memory=tone.memory.hash)
    second = run(tmp_path / "2.jsonl", [n % 5 < 2 for n in range(300)], memory=tone.memory.hash, first=1000)
    found = drift(tone, first, second)
    assert found.alarm
    assert found.label_shares["true"] == pytest.approx((0.2, 0.4))
    assert len(found.look_at) == 5
    assert all((int(name[2:]) - 1000) % 5 < 2 for name in found.look_at)


def test_scores_and_confidence_are_watched_too(tmp_path: Path) -> None:
    rank = judge("int:1..5")
    chance = random.Random(1)
    first = run(tmp_path / "1.jsonl", [chance.randint(1, 4) for _ in range(200)], memory=rank.memory.hash, sure=0.9)
    lower = run(
        tmp_path / "2.jsonl", [chance.randint(1, 4) for _ in range(200)], memory=rank.memory.hash, sure=0.7, first=500
    )
    found = {each.name: each for each in drift(rank, first, lower).signals}
    assert not found["mean score"].alarm
    assert found["mean confidence"].alarm
    assert (found["mean confidence"].first, found["mean confidence"].second) == pytest.approx((0.9, 0.7))


def test_likeness_to_memory_needs_the_examples(tmp_path: Path) -> None:
    def answer(_: object) -> dict[str, Any]:
        return {"rationale": "", "value": True}

    tone = judge().replace(model=ScriptedChatModel(answer))
    taught = tone.align(
        [{"id": f"t-{n}", "outputs": f"Your parcel {n} is late.", "value": True} for n in range(5)]
    ).judge
    known = [{"id": f"a-{n}", "outputs": f"Your parcel {n} arrives."} for n in range(40)]
    foreign = [{"id": f"b-{n}", "outputs": f"Quantum entropy {n} of lattices."} for n in range(40)]
    files = []
    for name, items in (("1", known), ("2", foreign)):
        taught.judge_many(items, out=tmp_path / f"{name}.jsonl")
        files.append(tmp_path / f"{name}.jsonl")
    found = drift(taught, *files, examples=(known, foreign))
    likeness = next(each for each in found.signals if "likeness" in each.name)
    assert likeness.alarm
    assert likeness.first > likeness.second
    with pytest.raises(InputError, match="the examples lack 40"):
        drift(taught, *files, examples=(known, known))


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    tone = judge()
    values = [True, False] * 20
    first = run(tmp_path / "1.jsonl", values, memory=tone.memory.hash)
    strange = tmp_path / "strange.jsonl"
    strange.write_text(first.read_text("utf-8").replace("tone@1", "rank@1"), "utf-8")
    remade = run(tmp_path / "remade.jsonl", values, memory=tone.memory.hash, first=100)
    remade.write_text(remade.read_text("utf-8").replace("tone@1", "tone@2"), "utf-8")
    few = run(tmp_path / "few.jsonl", values[:10], memory=tone.memory.hash, first=100)
    other = run(tmp_path / "other.jsonl", values, memory="0" * 64, first=100)
    for second, message in (
        (few, "10 verdicts: a comparison needs 20"),
        (other, "another memory"),
        (first, "in both runs"),
        (strange, "was judged by 'rank', not by 'tone'"),
        (remade, "by another model or wording each"),
    ):
        with pytest.raises(InputError, match=message):
            drift(tone, first, second)
    with pytest.raises(InputError, match="between 0 and 1"):
        drift(tone, first, first, false_alarms=0)
    with pytest.raises(InputError, match="cannot be told from none"):
        drift(tone, first, first, false_alarms=0.0001)
    assert json.loads(first.read_text("utf-8").splitlines()[0])["id"] == "a-0"
