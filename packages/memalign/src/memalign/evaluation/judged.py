"""Judgments that lie in a file already: of labelled cases, and of traffic without labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase, with_verdict
from memalign.io import Examples, ExampleSource, read_judgments
from memalign.io.judgments import difference
from memalign.judge import named_parts, signature_of
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["column_of", "fitting", "judged_rows", "judgments_from", "kept_judgments"]


def kept_judgments(
    judge: Judge,
    files: Sequence[str | Path],
    examples: Sequence[Example],
    *,
    needed: bool = False,
) -> dict[str, Judgment]:
    """Take the judgments of the examples from the file that this judge wrote.

    Args:
        judge: Whose judgments they must be.
        files: Files that `judge -o` wrote.
        examples: The cases.
        needed: Refuse files of which the judge wrote none.

    Returns:
        Judgments by id; none if the judge wrote none of the files.

    Raises:
        InputError: A file is unreadable, lacks a case, or a case has changed since.
    """
    for file in files:
        if _made_by(judge, file):
            return judgments_from(file, examples)
    if needed:
        raise _made_by_another(judge, files[0])
    return {}


def judgments_from(
    path: str | Path, examples: Sequence[Example]
) -> dict[str, Judgment]:
    """Take the judgments of the examples from a file that `judge -o` wrote. No model is asked.

    Args:
        path: A file of judgments.
        examples: The cases; the file may hold more.

    Returns:
        Judgments by id, in the order of the examples.

    Raises:
        InputError: The file is unreadable, lacks a case, or a case has changed since.
    """
    file = read_judgments(path)
    missing = [example.id for example in examples if example.id not in file.judgments]
    if missing:
        more = f" and of {len(missing) - 1} others" if missing[1:] else ""
        raise InputError(
            f"{path} has no judgment for {missing[0]!r}{more}; "
            "judge them first, or leave out --judged"
        )
    judgments = {}
    for example in examples:
        if not file.fits(example):
            raise InputError(
                f"{path}: {example.id!r} has changed since it was judged; judge it again"
            )
        judgments[example.id] = file.judgments[example.id]
    return judgments


def fitting(path: str | Path, examples: Sequence[Example]) -> dict[str, Judgment]:
    """Take from a file the verdicts on those examples that are today what they were when judged.

    Args:
        path: A file that `judge -o` wrote.
        examples: The cases.
    """
    file = read_judgments(path)
    found = {}
    for example in examples:
        judgment = file.judgments.get(example.id)
        if judgment is not None and judgment.value is not None and file.fits(example):
            found[example.id] = judgment
    return found


def judged_rows(
    judge: Judge, on: str | Path | Sequence[Judgment], examples: ExampleSource | None
) -> tuple[list[ScoredCase], Counter[str | None]]:
    """Read the judge's verdicts on traffic, with the groups and systems of the rows.

    Args:
        judge: Whose verdicts they must be.
        on: A file that `judge -o` wrote, or judgments.
        examples: The rows that were judged, which have the columns `group` and `system`.

    Returns:
        The rows, whose labels say nothing; and how many more the judge was taught, by system.

    Raises:
        InputError: The file is unreadable, another judge wrote it, or nothing in it has a verdict.
    """
    if isinstance(on, str | Path):
        if not _made_by(judge, on):
            raise _made_by_another(judge, on)
        on = list(read_judgments(on).judgments.values())
    known: dict[str, Example] = {}
    if examples is not None:
        fields = named_parts(judge.instructions)
        source = Examples.of(examples, columns=judge.columns, fields=fields)
        known = {example.id: example for example in source}
    rows = []
    taught: Counter[str | None] = Counter()
    for judgment in on:
        example = known.get(judgment.id)
        system = column_of(example, "system")
        if judgment.decided_by == "expert":
            taught[system] += 1
            continue
        row = ScoredCase(
            id=judgment.id,
            label="",
            value=judgment.value,
            group=column_of(example, "group"),
            system=system,
        )
        rows.append(row)
    if not with_verdict(rows):
        raise InputError("no judged row has a verdict, so there is no share to correct")
    return rows, taught


def column_of(example: Example | None, name: str) -> str | None:
    """Return a further column of a case in words; None where it has none."""
    if example is None:
        return None
    value = example.meta.get(name)
    if value is None:
        return None
    return str(value).strip() or None


def _made_by(judge: Judge, path: str | Path) -> bool:
    """Return whether the judge as it is today wrote the file, by any name; no key is needed."""
    written = read_judgments(path).judge
    return signature_of(judge).rpartition("@")[2] == written.rpartition("@")[2]


def _made_by_another(judge: Judge, path: str | Path) -> InputError:
    name, _, hashes = signature_of(judge).rpartition("@")
    written = read_judgments(path).judge
    _, _, others = written.rpartition("@")
    changed = difference(f"{name}@{others}", f"{name}@{hashes}")
    reason = f" (what differs: {changed})" if changed else ""
    return InputError(
        f"{path} was judged by another judge, or by {judge.name} with another model, "
        f"instructions, setting or memory{reason}; judge the cases again"
    )
