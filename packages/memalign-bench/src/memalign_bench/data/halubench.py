"""HaluBench: whether an answer is faithful to the passage that it was given.

14,900 triples of passage, question and answer from six sources, PASS or FAIL (Ravi et al. 2024, Lynx, arXiv:2407.08488).
PASS is mostly a source's own gold answer; FAIL a hallucination that its annotators marked, or a gold answer
that a language model changed so that the passage no longer supports it. There are no comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memalign.types import Feedback
from memalign.values import ValueType
from memalign_bench.data.hub import Remote
from memalign_bench.data.tables import Record, digest, make_task, read_table
from memalign_bench.tasks import Task

__all__ = ["LICENCE", "TRIPLES", "load"]

LICENCE = "CC BY-NC 2.0 (PatronusAI/HaluBench)"
TRIPLES = Remote(
    hub="huggingface",
    repository="PatronusAI/HaluBench",
    revision="5966a87929f51c204ab3cbef986b449495cc97b6",
    path="data/test-00000-of-00001.parquet",
    sha256="c7e9cf966085ffae88d2947744418a05a26ea94380c35c238b9fc12ecb874cdc",
)

_COLUMNS = ("id", "passage", "question", "answer", "label", "source_ds")
_VALUES = ValueType.of("PASS|FAIL")


def load(paths: Sequence[Path]) -> tuple[Task, ...]:
    """The task `halubench`, PASS or FAIL; a group is a passage."""
    (path,) = paths
    task = make_task(
        "halubench",
        (_feedback(row) for row in read_table(path, _COLUMNS) if row.text("answer", blank=True).strip()),
        path=path,
        category="faithfulness",
        criterion=(
            "Is the answer to the question faithful to the passage? PASS: the passage supports all that it says. "
            "FAIL: it contradicts the passage or says what is not in it."
        ),
        values=_VALUES.spec,
        licence=LICENCE,
    )
    return (task,)


def _feedback(row: Record) -> Feedback:
    passage = row.text("passage")
    return Feedback(
        id=f"halubench-{row.text('id')}",
        inputs={"passage": passage, "question": row.text("question", blank=True)},
        outputs={"answer": row.text("answer")},
        value=row.label("label", _VALUES),
        source="halubench",
        meta={"group": digest(passage), "source_ds": row.text("source_ds", blank=True)},
    )
