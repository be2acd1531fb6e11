"""What evaluate, report and gate share: labelled cases, kept judgments, the judge to compare with, files to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.cli.common import Session
    from memalign.judge import Judge

__all__ = ["ZERO_SHOT", "Evidence", "Labelled", "Offline", "check_writable", "other_judge", "what_is_left"]

Labelled = Annotated[
    str, typer.Argument(metavar="LABELLED", help="A file of feedback with values; - reads JSON lines.")
]
Evidence = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Keep judgments here, and ask for none that is here."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Ask no model: all judgments are in --evidence.")]

ZERO_SHOT = ("zero-shot", "bare")
"""The judge without memory; the second is the old name."""


def other_judge(session: Session, chosen: Judge, against: str) -> Judge:
    """The judge that `--against` names: a version of `chosen`, or `chosen` without memory."""
    if against in ZERO_SHOT:
        return chosen.without_memory()
    if not against.isdecimal():
        raise InputError(f"--against {against}: give a version's number, or zero-shot (the judge without memory)")
    return session.judge(chosen.name, int(against))[1]


def check_writable(file: Path | None) -> None:
    """Raise InputError for a file that could not be written, before anything is paid for."""
    if file is None:
        return
    folder = file.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{file} cannot be written: there is no folder {folder}")
    if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise InputError(f"{file} cannot be written: {'it is a folder' if file.is_dir() else 'no permission'}")


def what_is_left(evidence: Path | None) -> str:
    """What Ctrl-C leaves behind."""
    if evidence is None:
        return "nothing was kept; with --evidence DIR the next run goes on from there"
    return f"what was judged is in {evidence}"
