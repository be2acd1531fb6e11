"""What the world varies, all at once: context, length, shard, who speaks, how labels are written, which answer is wrong.

Each draw writes a file, learns it, changes model and instructions, judges, forgets and erases. After each step all
invariants hold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import openpyxl
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memalign import Registry
from memalign.errors import InvalidOutput, ModelRefused, ModelUnavailable
from memalign.models.base import ChatRequest, Limits
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.types import FeedbackKey
from tests.support.invariants import check_memory
from tests.support.learning import INSTRUCTIONS, Imp, bare, words_in

NOBODY = "unknown"
SOURCES = ("ana@example.org", "default", "User", NOBODY, "مراجِعة", "Ωmega", "z" * 200, "two words", "a:b/c%20")
LENGTHS = (0, 200, 30_000)
WRONG: Mapping[str, Answer] = {
    "cut": InvalidOutput("the answer holds no JSON object"),
    "no value": {"rationale": "r"},
    "other type": {"rationale": "r", "value": {"is": True}},
    "prose": {"rationale": "r", "value": "it depends"},
    "refusal": ModelRefused("the model declined"),
    "down": ModelUnavailable("down: HTTP 503"),
}
LABELS: Mapping[str, Callable[[bool], Any]] = {
    "JSON": bool,
    "spreadsheet": lambda value: "TRUE" if value else "FALSE",
    "number": int,
    "float": float,
    "float in text": lambda value: "1.0" if value else "0.0",
    "words": lambda value: "yes" if value else "no",
}


class Drawn(NamedTuple):
    """One world."""

    context: int
    length: int
    shard_size: int
    brief: bool
    concurrency: int
    sources: list[str]
    label: str
    file: str
    wrong: str


worlds = st.builds(
    Drawn,
    context=st.sampled_from([2_000, 4_096, 32_768, 200_000]),
    length=st.sampled_from(LENGTHS),
    shard_size=st.sampled_from([1, 3, 20]),
    brief=st.booleans(),
    concurrency=st.sampled_from([1, 2, 8, 32]),
    sources=st.lists(st.sampled_from(SOURCES), min_size=2, max_size=4, unique=True),
    label=st.sampled_from(sorted(LABELS)),
    file=st.sampled_from(["jsonl", "csv", "xlsx", "parquet", "pandas", "polars"]),
    wrong=st.sampled_from(sorted(WRONG)),
)


def rows_of(world: Drawn) -> list[dict[str, Any]]:
    """Three cases, of which all sources speak: some by a label, some in words, some by both. Each has a word of its own."""
    rows = []
    for case in range(1, 4):
        for place, source in enumerate(world.sources):
            number = 10 * case + place
            rows.append(
                {
                    "id": f"t-{case}",
                    "source": source if source != NOBODY else None,  # an empty cell
                    "inputs": f"question about case{case} " + "q" * world.length,
                    "outputs": f"the answer to case{case} is a text of more than eight words",
                    "value": LABELS[world.label](case % 2 == 0) if place != 1 else None,
                    "rationale": f"word{number} do:add" if place != 0 else None,
                }
            )
    return rows


def written(rows: list[dict[str, Any]], kind: str, folder: Path) -> Any:
    """What `align` is given."""
    path, frame = folder / f"feedback.{kind}", pl.DataFrame(rows, infer_schema_length=None)
    match kind:
        case "jsonl":
            frame.write_ndjson(path)
        case "csv":
            frame.write_csv(path, include_bom=True)
        case "parquet":
            frame.write_parquet(path)
        case "xlsx":
            book = openpyxl.Workbook(write_only=True)
            sheet = book.create_sheet()
            for line in [list(rows[0]), *(list(row.values()) for row in rows)]:
                sheet.append(line)
            book.save(path)
        case _:
            return pd.DataFrame(rows) if kind == "pandas" else frame
    return path


class OneIsWrong(Imp):
    """Answers in a wrong form about one item, and well about the others."""

    def __init__(self, wrong: Answer) -> None:
        super().__init__(healed=True)
        self.wrong = wrong

    async def __call__(self, request: ChatRequest) -> Answer:
        item = request.user.rpartition("Now judge this item:")[2]
        return self.wrong if request.schema_name == "judgment" and "case8" in item else await super().__call__(request)


def model_of(world: Drawn) -> ScriptedChatModel:
    limits = Limits(
        context_tokens=world.context, shard_size=world.shard_size, brief=world.brief, concurrency=world.concurrency
    )
    return ScriptedChatModel(OneIsWrong(WRONG[world.wrong]), limits=limits)


@pytest.mark.usefixtures("few_are_enough")
@settings(max_examples=10, suppress_health_check=list(HealthCheck), phases=[Phase.reuse, Phase.generate])
@given(world=worlds)
def test_whatever_the_world_varies_invariants_hold(world: Drawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole_life(world, Path(folder))


def whole_life(world: Drawn, folder: Path) -> None:
    rows, model = rows_of(world), model_of(world)
    registry = Registry(f"sqlite:///{folder}/memalign.db", models=[model, HashEmbedding(dim=16)])
    registry.create(bare()[0].replace(model=model))
    given_rows = written(rows, world.file, folder)
    result = registry.align("replies", given_rows)
    expected = {FeedbackKey(row["id"], row["source"] or NOBODY) for row in rows}
    assert {report.key for report in result.rows} == set(map(str, expected))
    check_memory(registry.load("replies"))

    again = registry.align("replies", given_rows)
    assert {report.status for report in again.rows} == {"unchanged"}

    items = [{"id": f"i-{n}", "inputs": f"question about case{n}", "outputs": "an answer"} for n in range(6, 12)]
    judged = registry.load("replies").judge_many(items, out=folder / "judged.jsonl", concurrency=world.concurrency)
    assert [judgment.id for judgment in judged] == [item["id"] for item in items]
    assert [judgment.id for judgment in judged if judgment.error] == ["i-8"]

    registry.update("replies", lambda judge: judge.replace(instructions=f"Be strict.\n{INSTRUCTIONS}"))
    after = registry.align("replies", [])
    check_memory(after.judge)

    gone = max(world.sources)
    registry.unalign("replies", source=gone)
    head = registry.load("replies")
    check_memory(head)
    assert gone not in {annotation.source for annotation in head.memory.annotations()}

    receipt = registry.erase("replies", source=gone)
    assert set(map(str, receipt.keys)) == {str(key) for key in expected if key.source == gone}
    said = {word for row in rows if (row["source"] or NOBODY) == gone for word in words_in(row["rationale"] or "")}
    left = set(words_in((folder / "memalign.db").read_bytes().decode("latin-1")))
    assert not said & left
    check_memory(registry.load("replies"))
