"""Feedback Collection: ten of its 996 fine-grained criteria, scored 1 to 5, a task each.

20 instructions with five responses each per criterion, the criteria's rubrics, the responses, the scores and the
comments all written by GPT-4 (Kim et al. 2023, Prometheus, arXiv:2310.08491): this task asks how fast a judge takes on
another judge's standard, not people's.

Which ten: of the criteria that have at least nine tenths of the rows of a usual one (that of the middle row, should a
few be larger or many be small; of the ten largest where fewer have them), in the order of the SHA-256 of their text (so
that neither the file's order nor the alphabet chooses), each that shares few enough of its words with every one taken
before. Words are those of four letters and more that at most a tenth of the criteria use. "Few enough"
is a tenth of the words of both together, or as many tenths more as it takes to find ten.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

from memalign.errors import InputError
from memalign.types import Feedback
from memalign.values import ValueType
from memalign_bench.data.hub import Remote
from memalign_bench.data.tables import Record, digest, make_task, read_table
from memalign_bench.tasks import Task

__all__ = ["CRITERIA", "LICENCE", "SCORED", "Rubric", "choose", "load"]

LICENCE = "CC BY 4.0 (prometheus-eval/Feedback-Collection)"
SCORED = Remote(
    hub="huggingface",
    repository="prometheus-eval/Feedback-Collection",
    revision="22a339f961c40b07261bea44ec10849c7440b75f",
    path="new_feedback_collection.json",
)
CRITERIA = 10

_VALUES = ValueType.of("int:1..5")
_DESCRIPTIONS = tuple(f"orig_score{score}_description" for score in range(1, 6))
_COLUMNS = (
    "orig_criteria",
    *_DESCRIPTIONS,
    "orig_instruction",
    "orig_response",
    "orig_reference_answer",
    "orig_feedback",
    "orig_score",
)


class Rubric(NamedTuple):
    """A criterion and what each score from 1 to 5 means."""

    criterion: str
    scores: tuple[str, ...]

    @property
    def text(self) -> str:
        """The criterion and a line for each score, as a judge is told."""
        return "\n".join([self.criterion, *(f"{score}: {text}" for score, text in enumerate(self.scores, 1))])

    @property
    def rank(self) -> str:
        """Its place among equals."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


def load(paths: Sequence[Path]) -> tuple[Task, ...]:
    """The tasks `feedback-collection-1` to `-10`, each with its rubric as the criterion; a group is an instruction.

    The file is read twice and never in memory whole. Raises InputError for fewer than ten criteria.
    """
    (path,) = paths
    chosen = choose(Counter(_rubric(row) for row in read_table(path, _COLUMNS)), path=path)
    rows: dict[Rubric, list[Feedback]] = {rubric: [] for rubric in chosen}
    for row in read_table(path, _COLUMNS):
        if (rubric := _rubric(row)) in rows:
            rows[rubric].append(_feedback(rubric, row))
    return tuple(
        make_task(
            f"feedback-collection-{place}",
            feedback,
            path=path,
            category="fine-grained criteria",
            criterion=rubric.text,
            values=_VALUES.spec,
            licence=LICENCE,
        )
        for place, (rubric, feedback) in enumerate(rows.items(), 1)
    )


def choose(sizes: Mapping[Rubric, int], *, path: Path, count: int = CRITERIA) -> tuple[Rubric, ...]:
    """The `count` diverse rubrics that this module's docstring describes, of rubrics with their numbers of rows."""
    if len(sizes) < count:
        raise InputError(f"{path} has {len(sizes)} criteria in column 'orig_criteria'; {count} are needed")
    ranked = sorted(sizes, key=lambda rubric: (-sizes[rubric], rubric.rank))
    usual = median_low(size for size in sizes.values() for _ in range(size))
    large = [rubric for rubric in ranked if 10 * sizes[rubric] >= 9 * usual]
    pool = sorted(large if len(large) >= count else ranked[:count], key=lambda rubric: rubric.rank)
    words = {rubric: frozenset(re.findall(r"[^\W\d_]{4,}", rubric.criterion.lower())) for rubric in pool}
    used = Counter(word for of_one in words.values() for word in of_one)
    words = {
        rubric: frozenset(w for w in of_one if 10 * used[w] <= max(10, len(pool))) for rubric, of_one in words.items()
    }
    taken: list[Rubric] = []
    for tenths in range(1, 11):  # at ten tenths, all are far enough apart
        taken = []
        for rubric in pool:
            if len(taken) < count and all(_apart(words[rubric], words[other], tenths) for other in taken):
                taken.append(rubric)
        if len(taken) == count:
            break
    return tuple(taken)


def _apart(one: frozenset[str], other: frozenset[str], tenths: int) -> bool:
    return 10 * len(one & other) <= tenths * len(one | other)


def _rubric(row: Record) -> Rubric:
    return Rubric(
        row.text("orig_criteria").strip(), tuple(row.text(name, blank=True).strip() for name in _DESCRIPTIONS)
    )


def _feedback(rubric: Rubric, row: Record) -> Feedback:
    instruction, response = row.text("orig_instruction"), row.text("orig_response", blank=True)
    return Feedback(
        id=f"feedback-collection-{digest(rubric.text, instruction, response)}",
        inputs={"instruction": instruction},
        outputs={"response": response},
        expectations=row.text("orig_reference_answer", blank=True) or None,
        value=row.label("orig_score", _VALUES),
        rationale=row.text("orig_feedback", blank=True).strip() or None,
        source="gpt-4",
        meta={"group": digest(instruction)},
    )
