"""Several judges over the same cases: one line a case, one verdict a judge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from memalign import aio
from memalign.errors import ConfigurationError, InputError
from memalign.io import Examples, ExampleSource, Given
from memalign.io.atomic import atomic_write
from memalign.judge.batch import Progress, judge_many
from memalign.judge.judge import Judge
from memalign.judge.open_model import open_model
from memalign.judge.spend_limit import SpendLimit
from memalign.types import Judgment, Usage
from memalign.values import Value, value_text

__all__ = ["Scorecard", "ScorecardRow", "Totals", "ascore", "score"]

_NOT_IN_FILE_NAMES = re.compile(r'[<>:"|?*\x00-\x1f%]')


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge said over all cases.

    `shares` has each label's part of the cases that were judged, in [0, 1], the commonest first; empty for free text.
    `not_judged` are those that the run stopped before. `mean` is that of numbers. `usage` is that of all judgments, those
    of an earlier run that were kept included.
    """

    judge: str
    n: int
    failed: int
    not_judged: int = 0
    abstained: int
    shares: dict[str, float]
    mean: float | None
    usage: Usage

    @property
    def judged(self) -> int:
        """How many cases have a verdict."""
        return self.n - self.failed - self.not_judged

    def __str__(self) -> str:
        """What the judge said, on one line."""
        parts = [f"{label} {share:.0%}" for label, share in list(self.shares.items())[:6]]
        parts += [f"mean {self.mean:.2f}"] if self.mean is not None else []
        counts = {"abstained": self.abstained, "failed": self.failed, "not judged": self.not_judged}
        return ", ".join([f"{self.judged} judged", *parts, *(f"{n} {what}" for what, n in counts.items() if n)])


class ScorecardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One case: its id, and each judge's judgment by the judge's name."""

    id: str
    judgments: dict[str, Judgment]

    @property
    def values(self) -> dict[str, Value | None]:
        """Each judge's verdict, None where it failed."""
        return {name: judgment.value for name, judgment in self.judgments.items()}

    @property
    def errors(self) -> dict[str, str]:
        """Why a judge has no verdict, for those that have none."""
        return {name: judgment.error for name, judgment in self.judgments.items() if judgment.error is not None}

    def to_dict(self) -> dict[str, Any]:
        """Verdicts and errors, as JSON values."""
        return {"id": self.id, "values": self.values, "errors": self.errors}


class Scorecard:
    """The verdicts of several judges on the same cases.

    Iterating gives a ScorecardRow a case, in their order; `len` is the number of cases. `totals` sums up each judge.
    """

    def __init__(self, ids: Sequence[str], columns: Mapping[str, Sequence[Judgment]], kinds: Mapping[str, str]) -> None:
        """Judgments by the judge's name, in the order of `ids`; `kinds` names the kind of each judge's labels."""
        self._ids = tuple(ids)
        self._columns = dict(columns)
        self.totals = tuple(_totals(name, column, kinds[name]) for name, column in columns.items())

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges' names, in the order in which they were given."""
        return tuple(self._columns)

    @property
    def usage(self) -> Usage:
        """What all judgments cost."""
        return sum((each.usage for each in self.totals), Usage())

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[ScorecardRow]:
        for example_id, *judgments in zip(self._ids, *self._columns.values(), strict=True):
            yield ScorecardRow(id=example_id, judgments=dict(zip(self._columns, judgments, strict=True)))

    def failures(self) -> Iterator[tuple[str, str, str]]:
        """Judge, case and error wherever a judge has no verdict, cases that the run stopped before included."""
        for row in self:
            for name, error in row.errors.items():
                yield name, row.id, error

    def to_dict(self) -> dict[str, Any]:
        """Totals of the judges, as JSON; the cases are what iterating gives."""
        return {"n": len(self), "judges": [msgspec.to_builtins(each) for each in self.totals]}

    def __str__(self) -> str:
        """One line a judge."""
        return "\n".join(f"{each.judge}: {each}" for each in self.totals)


def score(
    judges: Iterable[Judge] | Mapping[str, Judge],
    examples: ExampleSource,
    *,
    out: str | Path | None = None,
    concurrency: int | None = None,
    progress: Progress | None = None,
    max_cost: float | None = None,
) -> Scorecard:
    """Judge the same cases by several judges; see `ascore`."""
    return aio.run(ascore(judges, examples, out=out, concurrency=concurrency, progress=progress, max_cost=max_cost))


async def ascore(
    judges: Iterable[Judge] | Mapping[str, Judge],
    examples: ExampleSource,
    *,
    out: str | Path | None = None,
    concurrency: int | None = None,
    progress: Progress | None = None,
    max_cost: float | None = None,
) -> Scorecard:
    """Judge the same cases by several judges, one after the other.

    `judges` have different names, or are given by other ones, as two versions of one judge must be. A case that lacks a
    field of one judge fails for that judge only. `concurrency` is how many cases a judge has in flight. With `out`, a
    folder, each judge's judgments go to `judges/NAME.jsonl` in it, from which a later run takes up, and at the end
    `scorecard.jsonl` has a line a case with all verdicts. `max_cost` is what all judges may spend together in this run, in
    dollars: where it is reached, what is left has an error that begins with `NotJudged`. The columns that judges remember
    are read, of the first judge first. Raises what `Judge.ajudge_many` raises.
    """
    named = _named(judges)
    limit = None if max_cost is None else SpendLimit(max_cost)
    remembered = {field: name for judge in reversed(named.values()) for field, name in judge.columns.items()}
    source = Examples.of(Given.of(examples, name="examples", remembered=remembered).kept())  # read once for each judge
    ids = [example.id for example in source]  # checks everything before the first call
    folder = None if out is None else _folder(Path(out))
    columns: dict[str, Sequence[Judgment]] = {}
    for name, judge in named.items():
        earlier = len(columns) * len(ids)

        def count(phase: str, done: int, _: int, earlier: int = earlier) -> None:
            if progress is not None:
                progress(phase, earlier + done, len(ids) * len(named))

        file = None if folder is None else folder / "judges" / f"{file_name(name)}.jsonl"
        columns[name] = await judge_many(
            judge, source, concurrency=concurrency, out=file, progress=count, max_cost=limit
        )
    card = Scorecard(ids, columns, {name: judge.value_type.kind for name, judge in named.items()})
    if folder is not None:
        _write(folder / "scorecard.jsonl", card)
    return card


def file_name(name: str) -> str:
    """A judge's name as that of a file, on every system."""
    return _NOT_IN_FILE_NAMES.sub(lambda found: f"%{ord(found[0]):02x}", name).rstrip(" .") or "%2e"


def _named(judges: Iterable[Judge] | Mapping[str, Judge]) -> dict[str, Judge]:
    if not isinstance(judges, Iterable):
        raise InputError(f"give the judges as a list, or by names of your own as a dict, not a {type(judges).__name__}")
    pairs = list(judges.items()) if isinstance(judges, Mapping) else [(judge.name, judge) for judge in judges]
    if not pairs:
        raise InputError("a scorecard needs at least one judge")
    twice = [name for name, count in Counter(file_name(name).casefold() for name, _ in pairs).items() if count > 1]
    if twice:
        raise InputError(
            f"two judges are called {twice[0]}; give them by names of your own: {{'{twice[0]} 1': …, '{twice[0]} 2': …}}"
        )
    for name, judge in pairs:
        try:
            open_model(judge)
        except ConfigurationError as error:
            raise ConfigurationError(f"judge {name}: {error}") from None
    return dict(pairs)


def _folder(folder: Path) -> Path:
    try:
        (folder / "judges").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder for the scorecard: {error.strerror}") from None
    return folder


def _totals(name: str, column: Sequence[Judgment], kind: str) -> Totals:
    usage, failed, not_judged, abstained, values = Usage(), 0, 0, 0, Counter[Value]()
    for judgment in column:
        usage += judgment.usage
        not_judged += judgment.not_judged
        failed += judgment.error is not None and not judgment.not_judged
        abstained += judgment.abstained
        if judgment.value is not None and kind != "str":
            values[judgment.value] += 1
    judged = len(column) - failed - not_judged
    numeric = kind in ("int", "float") and judged > 0
    return Totals(
        judge=name,
        n=len(column),
        failed=failed,
        not_judged=not_judged,
        abstained=abstained,
        shares={} if kind == "float" else {value_text(each): n / judged for each, n in values.most_common()},
        mean=sum(float(value) * n for value, n in values.items()) / judged if numeric else None,
        usage=usage,
    )


def _write(path: Path, card: Scorecard) -> None:
    try:
        with atomic_write(path) as file:
            for row in card:
                errors = {"errors": row.errors} if row.errors else {}
                file.write(msgspec.json.encode({"id": row.id, "values": row.values} | errors) + b"\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
