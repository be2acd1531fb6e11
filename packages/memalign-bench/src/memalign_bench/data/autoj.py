"""Auto-J's pairs: which of two responses people preferred, in two of its sources, PKU-SafeRLHF and OpenAI Summary.

Of Auto-J's files (Li et al. 2023, arXiv:2310.05470) only the pairwise training data say which data set each pair comes
from, so the subsets are taken from there. The label is people's, as the source collected it; the comment is GPT-4's
judgment, kept only where GPT-4 came to the same verdict as people (`meta["rationale_by"]`): elsewhere it argues for the
other response. The file speaks of Response 1 and 2, this task of A and B.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memalign.errors import InputError
from memalign.types import Feedback
from memalign_bench.data.hub import Remote
from memalign_bench.data.tables import Record, digest, make_task, read_table
from memalign_bench.tasks import Task

__all__ = ["LICENCE", "PAIRS", "SUBSETS", "Subset", "load"]

LICENCE = "none stated in the repository (GAIR-NLP/auto-j); PKU-SafeRLHF CC BY-NC 4.0, OpenAI Summary modified MIT"
PAIRS = Remote(
    hub="github", repository="GAIR-NLP/auto-j", revision="main", path="data/training/pairwise_traindata.jsonl"
)

_DATA = re.compile(
    r"\[BEGIN DATA\]\s*\*{3}\s*\[Query\]:(?P<query>.*?)\*{3}\s*"
    r"\[Response 1\]:(?P<A>.*?)\*{3}\s*\[Response 2\]:(?P<B>.*)\*{3}\s*\[END DATA\]",
    re.DOTALL,
)
_LABELS = {0: "A", 1: "B", 2: "tie"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subset:
    """The pairs of one source: those whose `source_dataset` has `mark` in it, and what is asked of them.

    Letters only, in lower case: the file's readme spells just one of the sources' names.
    """

    mark: str
    criterion: str


SUBSETS: Mapping[str, Subset] = {
    "saferlhf": Subset(mark="saferlhf", criterion="Which response to the query is better: A or B?"),
    "summary": Subset(
        mark="summar", criterion="Which response is the better summary of the post in the query: A or B?"
    ),
}


def load(subset: str, paths: Sequence[Path]) -> tuple[Task, ...]:
    """The task `autoj-<subset>`, A or B (and tie where there are ties); a group is a query.

    Raises InputError for a file without the subset's pairs.
    """
    wanted = SUBSETS[subset]
    (path,) = paths
    feedback, sources = [], set()
    for row in read_table(path):
        name = row.text("source_dataset")
        sources.add(name)
        if wanted.mark in re.sub(r"[^a-z]", "", name.lower()):
            feedback.append(_feedback(subset, row))
    if not feedback:
        raise InputError(f"{path}: no row of {subset}; its column 'source_dataset' holds: {', '.join(sorted(sources))}")
    task = make_task(
        f"autoj-{subset}",
        feedback,
        path=path,
        category="pairwise preference",
        criterion=wanted.criterion,
        # Where nobody called a tie, offering one would only mislead.
        values="A|B|tie" if any(row.value == "tie" for row in feedback) else "A|B",
        licence=LICENCE,
    )
    return (task,)


def _feedback(subset: str, row: Record) -> Feedback:
    # The readme calls the column usermsg, the file usrmsg.
    message = _DATA.search(row.text("usrmsg", "usermsg"))
    if message is None:
        raise row.wrong(
            "column 'usrmsg' has no [Query], [Response 1] and [Response 2] between [BEGIN DATA] and [END DATA]"
        )
    query, first, second = (message[name].strip() for name in ("query", "A", "B"))
    label = _label(row, "gt_label")
    # What cannot be read out of GPT-4's comment is no error of the row: the label is people's, the comment goes.
    agreed = _known(row.value("pred_label")) == label
    reason = (
        row.text("target_output", blank=True).replace("Response 1", "Response A").replace("Response 2", "Response B")
    )
    told = agreed and bool(reason.strip())
    return Feedback(
        id=f"autoj-{subset}-{digest(query, first, second)}",
        inputs={"query": query},
        outputs={"A": first, "B": second},
        value=label,
        rationale=reason.strip() if told else None,
        source="people",
        meta={
            "group": digest(query),
            "scenario": row.text("scenario", blank=True),
            **({"rationale_by": "gpt-4"} if told else {}),
        },
    )


def _label(row: Record, column: str) -> str:
    raw = row.value(column)
    if (label := _known(raw)) is None:
        raise row.wrong(f"column {column!r} should hold 0 (first), 1 (second) or 2 (tie), found {raw!r:.60}")
    return label


def _known(raw: object) -> str | None:
    if isinstance(raw, str) and raw.strip().isdigit():
        raw = int(raw)
    return _LABELS.get(raw) if isinstance(raw, int) and not isinstance(raw, bool) else None
