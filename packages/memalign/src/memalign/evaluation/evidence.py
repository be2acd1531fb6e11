"""Evidence: judgments on a labelled file, kept in a folder and bound to what they were made with.

A folder holds a judgment file for each judge that was measured, and `evidence.json`, which says what each is bound to:
the judge's fingerprint (model, instructions, settings, memory), memalign's prompts and the labelled cases. What was
measured with anything else is stale, and counts for nothing. Several sets of labelled cases may share a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memalign.errors import InputError
from memalign.io import read_judgments
from memalign.io.atomic import atomic_write
from memalign.prompts import prompts_hash
from memalign.types import Example, Judgment, Usage

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.values import ValueType

__all__ = ["Binding", "MeasuredJudge", "MissingEvidence"]

_INDEX = "evidence.json"
_DIGITS = 16
_NAME = "evidence"  # a judgment file is bound to a name, and evidence is not

Progress = Callable[[str, int, int], None]


class MissingEvidence(InputError):
    """There are no judgments of this judge on these cases, or they were made with something else."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What judgments were made with; all but `judge` and `model` are hashes. The judge's name changes no verdict.

    `fingerprint` is the judge's, over everything of it; `model`, `instructions` and `memory` are parts of that, for words.
    """

    judge: str
    fingerprint: str
    model: str
    instructions: str
    memory: str
    prompts: str
    labels: str

    @classmethod
    def of(cls, judge: Judge, labels: str) -> Binding:
        """That of a judge and a set of labels."""
        return cls(
            judge=judge.name,
            fingerprint=judge.fingerprint,
            model=judge.model_name or "",
            instructions=_hash(judge.instructions),
            memory=judge.memory.hash,
            prompts=prompts_hash()[:_DIGITS],
            labels=labels,
        )

    @property
    def file(self) -> str:
        """The name of the judgment file: the same whatever the labels, for a label changes no verdict."""
        return f"{self.fingerprint}-{self.prompts}.jsonl"

    def holds(self, now: Binding) -> bool:
        """Whether the judgments are evidence on `now`, under whatever name."""
        return (self.file, self.labels) == (now.file, now.labels)

    def changed(self, now: Binding) -> list[str]:
        """What differs from `now`, in words."""
        names = {
            "model": "the model",
            "instructions": "the instructions",
            "memory": "the memory",
            "prompts": "memalign's prompts",
            "labels": "the labelled cases",
        }
        found = [said for name, said in names.items() if getattr(self, name) != getattr(now, name)]
        return found or ["the settings"]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


class MeasuredJudge:
    """A judge whose judgments come from a folder of evidence as far as they are there, and go into it when made.

    Without a `folder` the judge is simply asked. With `offline` no model is: what is missing or stale raises
    MissingEvidence. A judgment that failed is missing.
    """

    def __init__(self, judge: Judge, *, labels: str, folder: str | Path | None = None, offline: bool = False) -> None:
        """`labels` is the hash of the labelled cases that the judge is measured on."""
        self._judge, self._offline = judge, offline
        self._folder = None if folder is None else Path(folder)
        self._binding = Binding.of(judge, labels)
        self.given: dict[str, Judgment] = {}
        """The judgments that it gave, by id."""
        self.asked = Usage()
        """What asking came to; judgments that were kept cost nothing."""

    @property
    def name(self) -> str:
        """The judge's."""
        return self._judge.name

    @property
    def value_type(self) -> ValueType:
        """The judge's."""
        return self._judge.value_type

    @property
    def memory(self) -> Memory:
        """The judge's."""
        return self._judge.memory

    @property
    def columns(self) -> Mapping[str, str]:
        """The judge's."""
        return self._judge.columns

    async def ajudge_many(
        self,
        examples: Sequence[Example],
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Sequence[Judgment]:
        """The judgments of the `examples`, in their order. Raises MissingEvidence where `offline` finds none."""
        judgments = self._kept(examples) if self._offline else await self._asked(examples, concurrency, out, progress)
        self.given |= {example.id: judgment for example, judgment in zip(examples, judgments, strict=True)}
        return judgments

    async def _asked(
        self, examples: Sequence[Example], concurrency: int | None, out: str | Path | None, progress: Progress | None
    ) -> Sequence[Judgment]:
        if self._folder is not None:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{self._folder} cannot be made: {error.strerror}") from None
            out = self._folder / self._binding.file
        judge = self._judge if self._folder is None else self._judge.replace(name=_NAME)

        def made(_: str, judgment: Judgment) -> None:
            self.asked += judgment.usage

        judgments = await judge.ajudge_many(
            examples, concurrency=concurrency, out=out, progress=progress, on_judgment=made
        )
        if self._folder is not None:
            self._note()
        return judgments

    def _kept(self, examples: Sequence[Example]) -> list[Judgment]:
        assert self._folder is not None  # noqa: S101  # the gate has looked
        measured = _bindings(self._folder)
        if not any(each.holds(self._binding) for each in measured):
            mine = [each for each in measured if each.judge == self.name]
            if not mine:
                raise MissingEvidence(f"{self._folder} has no evidence on {self.name}; {_REMEDY}")
            least: list[str] = min((each.changed(self._binding) for each in mine), key=len)
            why = ", ".join(least)
            raise MissingEvidence(f"the evidence on {self.name} in {self._folder} is stale: {why} changed; {_REMEDY}")
        file = read_judgments(self._folder / self._binding.file)
        found: list[Judgment] = []
        missing: list[str] = []
        for example in examples:
            judgment = file.judgments.get(example.id)
            if judgment is None or judgment.error or file.contents[example.id] != example.content_hash:
                missing.append(example.id)
            else:
                found.append(judgment)
        if missing:
            cases = f"{len(missing)} of {len(examples)} cases, the first {missing[0]!r}"
            raise MissingEvidence(f"{self._folder} has no judgment of {self.name} on {cases}; {_REMEDY}")
        return found

    def _note(self) -> None:
        assert self._folder is not None  # noqa: S101  # who calls this has looked
        measured = _bindings(self._folder)
        if any(each.holds(self._binding) for each in measured):
            return
        ordered = sorted([*measured, self._binding], key=lambda each: (each.judge, each.file, each.labels))
        with atomic_write(self._folder / _INDEX) as file:
            file.write(msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")


_REMEDY = "measure it again without --offline, and keep the folder"


def _bindings(folder: Path) -> list[Binding]:
    path = folder / _INDEX
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Binding])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
