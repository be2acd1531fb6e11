"""Judgments that lie in a file already, matched to the judge that made them and to the cases as they are today."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.io import read_judgments
from memalign.judge.many import signature_of
from memalign.prompts import prompts_hash
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["judgments_from", "made_by"]


def made_by(judge: Judge, path: str | Path) -> bool:
    """Whether the judge as it is today wrote the file of judgments; its name does not count, and no key is needed."""
    signature = f"@{judge.fingerprint}-{prompts_hash()[:6]}" if judge.model_name else signature_of(judge)
    return signature.rpartition("@")[2] == read_judgments(path).judge.rpartition("@")[2]


def judgments_from(path: str | Path, examples: Sequence[Example]) -> list[Judgment]:
    """The judgments of the examples, in their order, from a file that `judge -o` wrote. No model is asked.

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
        raise InputError(f"{path} has no judgment of {missing[0]!r}{more}; judge them first, or leave --judged out")
    for example in examples:
        if file.contents.get(example.id) not in ("", None, example.content_hash):
            raise InputError(f"{path}: {example.id!r} has changed since it was judged; judge it again")
    return [file.judgments[example.id] for example in examples]
