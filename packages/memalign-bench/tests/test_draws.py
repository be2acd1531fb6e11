"""`memalign bench draws`: methods with checks and without, on many small sets of labels of a kept study."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.answers.keep import keep

from bench_support.world import write_tasks
from memalign.errors import InputError
from memalign_bench.data.folder import load_folder
from memalign_bench.draws.draw_methods import CHECKS, EVERYTHING, FORMER, MAJORITY, UNLABELLED
from memalign_bench.draws.draw_report import run_study
from memalign_bench.draws.drawing import Prepared, drawn
from memalign_bench.draws.study import Study, packed, read_studies
from tests.cli.conftest import Run

LABELS: dict[str, list[Any]] = {"bool": [True, False], "a|b|c": ["a", "b", "c"], "int:1..5": [1, 2, 3, 4, 5], "A|B": ["A", "B"]}  # fmt: skip


def write_study(
    folder: Path,
    values: str = "bool",
    *,
    tells: bool = True,
    judged: bool = True,
    count: int = 45,
    only_own: bool = False,
) -> Path:
    """An invented task of which every fourth question tells the label; where only_own, each tells that of its own row alone."""
    rng, labels, sides = random.Random(values), LABELS[values], values == "A|B"
    items = [
        {"id": f"{part}{n}", "group": f"g{part}{n // 2}", "label": labels[n % len(labels)], "plain": [rng.gauss(0, 1), 0.5],
         "verdict": [rng.gauss(0, 1) for _ in labels] if judged else None, "vector": packed(np.array([n % 7, 1.0], np.float32))}
        for part in "PS" for n in range(count)
    ]  # fmt: skip
    questions = []
    for number in range(32):
        own = items[number]
        questions.append(
            {
                "hash": f"q{number}",
                "rows": [{"item": own["id"], "answer": "yes", "value": None if sides else own["label"]}],
                "near": [1.0 if number == n else 0.1 * (number % 4 == 0) for n in range(32)],
            }
        )
        for item in items:
            same = _likeness(values, item["label"], own["label"])
            told = 3 * same * (item is own if only_own else tells and number % 4 == 0)
            rows = item.setdefault("margins", [[], []] if sides else [[]])
            for place, row in enumerate(rows):
                row.append((told if place == 0 else -told) + rng.gauss(0, 1))
    where = folder / "invented"
    where.mkdir(parents=True)
    header = {
        "format": 1,
        "name": "invented",
        "values": values,
        "model": "m",
        "sides": labels if sides else [],
        "questions": questions,
    }
    (where / "task.json").write_text(json.dumps(header))
    for part in "PS":
        lines = [json.dumps(item) + "\n" for item in items if item["id"].startswith(part)]
        (where / f"{part}.jsonl").write_text("".join(lines))
    return folder


def _likeness(values: str, label: Any, other: Any) -> float:
    if values == "A|B":  # a yes speaks for the side that is asked about
        return 1.0 if label == "A" else -1.0
    if values == "int:1..5":
        return float(np.sign(other - 3) * (label - 3) / 2)
    return 1.0 if label == other else -1.0


def study_of(folder: Path, part: Any = "P") -> Study:
    return read_studies(folder, part)[0]


@pytest.mark.parametrize("values", LABELS)
def test_telling_questions_are_found_and_meet_the_criterion(tmp_path: Path, values: str) -> None:
    report = run_study([study_of(write_study(tmp_path, values), "S")], part="S", draws=2, labels=40)
    figures = report.main.figures["invented"]
    assert figures[EVERYTHING][0] > figures[MAJORITY][0] + 0.2
    assert figures[CHECKS][0] > figures[FORMER][0] + 0.2
    assert figures[UNLABELLED][0] > figures[MAJORITY][0]
    assert report.met
    assert set(report.stages) == {10, 20, 30, 40}


def test_questions_that_tell_nothing_gain_nothing(tmp_path: Path) -> None:
    report = run_study([study_of(write_study(tmp_path, tells=False))], part="P", draws=2, labels=20)
    found = report.criterion[FORMER]
    assert found.low is not None
    assert found.low <= 0
    assert "Part P is for development" in report.text()
    assert report.data()["met"] is None


def test_a_taught_rows_own_questions_do_not_count(tmp_path: Path) -> None:
    study = study_of(write_study(tmp_path, only_own=True))
    draw = drawn(study, 0)
    written = {q.rows[0].item: q.hash for q in study.header.questions}
    ids = [study.items[place].id for place in draw.taught]
    every = Prepared(study=study, most=None)
    assert every.checks(draw).keys() == {written[name] for name in ids if name in written}
    masked, whole = every.taught(draw), Prepared(study=study, most=None, masked=False).taught(draw)
    for number, (one, other) in enumerate(zip(masked, whole, strict=True)):
        fold = {written[name] for name in ids[number % 5 :: 5] if name in written}
        assert other.known.margins.keys() - one.known.margins.keys() == fold
    report = run_study([study], part="P", draws=3, labels=40)
    assert report.main.figures["invented"][CHECKS][0] < 0.65  # and not what its own rows would flatter it to


def test_only_the_nearest_of_many_questions_are_asked(tmp_path: Path) -> None:
    study = study_of(write_study(tmp_path))
    cases = Prepared(study=study, most=2).taught(drawn(study, 0))
    assert {len(case.known.margins) for case in cases} <= {1, 2}
    assert {int(name[1:]) % 4 for case in cases for name in case.known.margins} == {0}


def test_the_order_of_files_changes_no_draw(tmp_path: Path) -> None:
    folder = write_study(tmp_path)
    study = study_of(folder)
    lines = (folder / "invented" / "P.jsonl").read_text().splitlines(keepends=True)
    (folder / "invented" / "P.jsonl").write_text("".join(reversed(lines)))
    turned = study_of(folder)

    def ids(one: Study, number: int, labels: int = 50) -> list[str]:
        return [one.items[place].id for place in drawn(one, number, labels).taught]

    assert ids(study, 3) == ids(turned, 3) != ids(study, 4)
    assert len(ids(study, 3)) == 30  # two thirds of the pool
    assert ids(study, 3, 10) == ids(study, 3)[:10]
    assert drawn(study, 3, 10).unseen == drawn(study, 3).unseen
    whole = study_of(folder, "S")
    assert {whole.items[place].id[0] for place in drawn(whole, 3).unseen} == {"S"}


def test_missing_verdicts_leave_their_methods_out(tmp_path: Path) -> None:
    report = run_study([study_of(write_study(tmp_path, judged=False))], part="P", draws=2, labels=20)
    assert FORMER not in report.main.figures["invented"]
    assert "No verdicts yet" in report.text()
    assert not report.met


def _changed(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def changed(line: str) -> str:
        item = json.loads(line)
        change(item)
        return json.dumps(item)

    return changed


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda line: line[:40], "line 2"),
        (_changed(lambda item: item.update(label="good")), "none of the task's"),
        (_changed(lambda item: item["margins"][0].pop()), "31 margins for 32 questions"),
        (_changed(lambda item: item.update(verdict=[0.0])), "1 log-probabilities for 2 labels"),
        (_changed(lambda item: item.update(id="P0")), "it is there twice"),
        (_changed(lambda item: item.update(vector="?")), "line 2"),
        (_changed(lambda item: item.update(vector="AAA=")), "vectors"),
        (_changed(lambda item: item.update(outputs="a text")), "unknown field"),
    ],
)
def test_a_damaged_folder_is_refused_with_its_place(tmp_path: Path, damage: Callable[[str], str], says: str) -> None:
    file = write_study(tmp_path) / "invented" / "P.jsonl"
    first, second, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, damage(second), *rest]))
    with pytest.raises(InputError, match="invented") as refused:
        read_studies(tmp_path)
    assert says in str(refused.value)


def test_the_command_writes_its_report_into_the_folder(memalign: Run, tmp_path: Path) -> None:
    args = ["bench", "draws", write_study(tmp_path / "study"), "--draws", "2", "--labels", "10"]
    ran = memalign(*args)
    assert ran.code == 0, ran.err
    page = (tmp_path / "study" / "draws-P.md").read_text("utf-8")
    assert page.index("Fixed beforehand") < page.index("Points ahead")
    assert page.strip() in ran.out
    assert "<svg" in (tmp_path / "study" / "draws-P.svg").read_text("utf-8")
    told = json.loads(memalign(*args, "--json").out)
    assert told["tasks"]["invented"][EVERYTHING]["figure"]["value"] > 0
    assert memalign("bench", "draws", tmp_path / "study", "--part", "Q").code == 2
    assert "no study in" in memalign("bench", "draws", tmp_path).err


def test_what_is_kept_of_answers_has_no_text(tmp_path: Path) -> None:
    (task, *_) = load_folder(write_tasks(tmp_path / "tasks"))
    answers, question = tmp_path / "answers", "Is the reply polite to people?"
    answers.mkdir()
    out = json.dumps({"when": "", "because": "", "checks": [{"question": question, "answer": "yes"}]})
    rows = [{"id": case.id, "value": case.label, "out": out} for case in task.cases[:3]]
    (answers / f"distil_{task.name}.json").write_text(json.dumps(rows))
    (answers / f"q_{task.name}.json").write_text(json.dumps([question]))
    (answers / "splits.json").write_text("{}")
    lines = [json.dumps({"u": case.id, "m": [0.5, 9.0]}) + "\n" for case in task.cases[:5]]
    (answers / f"m_P_{task.name}.jsonl").write_text("".join(lines) + '{"u": "half a li')
    assert "5 items" in keep(task, answers, tmp_path / "study", "P")
    study = study_of(tmp_path / "study")
    assert [item.id for item in study.items] == [case.id for case in task.cases[:5]]
    assert {len(item.margins[0]) for item in study.items} == {1}
    assert [row.item for row in study.header.questions[0].rows] == [case.id for case in task.cases[:3]]
    written = "".join(path.read_text() for path in (tmp_path / "study").rglob("*.json*"))
    assert "polite" not in written
    assert not any(str(case.example.outputs) in written for case in task.cases[:5])
