"""Judgments that lie in a file already: those of labelled cases, and those of traffic without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase
from memalign.io import Examples, ExampleSource, read_judgments
from memalign.judge.many import signature_of
from memalign.judge.spec import named_parts
from memalign.prompts.rendering import prompts_hash
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["column_of", "covers", "judged_rows", "judgments_from", "made_by", "made_by_another"]


def made_by(judge: Judge, path: str | Path) -> bool:
    """Return whether the judge as it is today wrote the file; its name does not count, and no key is needed."""
    signature = (
        f"@{judge.fingerprint}-{prompts_hash()[:6]}" if judge.model_name else signature_of(judge)
    )
    return signature.rpartition("@")[2] == read_judgments(path).judge.rpartition("@")[2]


def made_by_another(judge: Judge, path: str | Path) -> InputError:
    """Make the error that says who did not write a file."""
    return InputError(
        f"{path} was judged by another judge, or by {judge.name} with another model, instructions, setting or memory; "
        "judge the cases again"
    )


def covers(path: str | Path, examples: Sequence[Example]) -> bool:
    """Return whether a file has a judgment of each example as it is now."""
    file = read_judgments(path)
    return all(example.id in file.judgments and file.fits(example) for example in examples)


def judgments_from(path: str | Path, examples: Sequence[Example]) -> list[Judgment]:
    """Take the judgments of the examples, in their order, from a file that `judge -o` wrote. No model is asked.

    Args:
        path: A file of judgments.
        examples: The cases; the file may hold more.

    Raises:
        InputError: The file is unreadable, lacks a case, or a case has changed since.
    """
    file = read_judgments(path)
    missing = [example.id for example in examples if example.id not in file.judgments]
    if missing:
        more = f" and of {len(missing) - 1} others" if missing[1:] else ""
        raise InputError(
            f"{path} has no judgment for {missing[0]!r}{more}; judge them first, or leave out --judged"
        )
    for example in examples:
        if not file.fits(example):
            raise InputError(
                f"{path}: {example.id!r} has changed since it was judged; judge it again"
            )
    return [file.judgments[example.id] for example in examples]


def judged_rows(
    judge: Judge, on: str | Path | Sequence[Judgment], examples: ExampleSource | None
) -> tuple[list[ScoredCase], int]:
    """Read the judge's verdicts on traffic, with the groups and systems of the rows.

    Args:
        judge: Whose verdicts they must be.
        on: A file that `judge -o` wrote, or judgments.
        examples: The rows that were judged, which have the columns `group` and `system`.

    Returns:
        The rows, whose labels say nothing; and how many more the judge was taught.

    Raises:
        InputError: The file is unreadable, another judge wrote it, or nothing in it has a verdict.
    """
    if isinstance(on, str | Path):
        if not made_by(judge, on):
            raise made_by_another(judge, on)
        on = list(read_judgments(on).judgments.values())
    judged = [judgment for judgment in on if judgment.decided_by != "expert"]
    if not any(judgment.value is not None for judgment in judged):
        raise InputError("no judged row has a verdict, so there is no share to correct")
    columns: dict[str, Example] = {}
    if examples is not None:
        for example in Examples.of(
            examples, columns=judge.columns, fields=named_parts(judge.instructions)
        ):
            columns[example.id] = example
    rows = []
    for judgment in judged:
        known = columns.get(judgment.id)
        rows.append(
            ScoredCase(
                id=judgment.id,
                label="",
                value=judgment.value,
                group=column_of(known, "group"),
                system=column_of(known, "system"),
            )
        )
    return rows, len(on) - len(judged)


def column_of(example: Example | None, name: str) -> str | None:
    """Return a further column of a case in words; None where it has none."""
    value = None if example is None else example.meta.get(name)
    return None if value is None or not str(value).strip() else str(value).strip()
