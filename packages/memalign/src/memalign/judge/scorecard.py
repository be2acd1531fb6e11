"""Several judges over the same cases: one line a case, one verdict a judge.

What can be shared is: the cases are checked once, a case is embedded once for all judges that use the same embedding
model, and all judges' calls run side by side under the limit of the model that they share.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memalign import aio
from memalign.errors import ConfigurationError, InputError
from memalign.io import Examples
from memalign.io.atomic import atomic_write
from memalign.judge.batch import NOT_JUDGED, Progress, judge_many
from memalign.judge.judge import Judge
from memalign.judge.spend_limit import SpendLimit
from memalign.models.base import ChatModel, ChatReply, ChatRequest, EmbeddingModel, Limits
from memalign.models.concurrency import ConcurrencyLimiter
from memalign.models.resolve import resolve, resolve_embedding
from memalign.types import Example, Judgment, Usage
from memalign.values import Value, value_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Scorecard", "ScorecardRow", "Totals", "ascore", "score"]

KEPT_VECTORS = 4096
"""Of the cases that some judges have done and others not; one that is asked for later is embedded again."""

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
        return "\n".join(f"{each.judge}: {words(each)}" for each in self.totals)


def words(totals: Totals) -> str:
    """What a judge said over all cases, on one line."""
    parts = [f"{label} {share:.0%}" for label, share in list(totals.shares.items())[:6]]
    parts += [f"mean {totals.mean:.2f}"] if totals.mean is not None else []
    parts += [f"{totals.abstained} abstained"] if totals.abstained else []
    parts += [f"{totals.failed} failed"] if totals.failed else []
    parts += [f"{totals.not_judged} not judged"] if totals.not_judged else []
    return ", ".join([f"{totals.judged} judged", *parts])


def score(
    judges: Iterable[Judge] | Mapping[str, Judge],
    examples: Iterable[Example | Mapping[str, Any]] | str | Path,
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
    examples: Iterable[Example | Mapping[str, Any]] | str | Path,
    *,
    out: str | Path | None = None,
    concurrency: int | None = None,
    progress: Progress | None = None,
    max_cost: float | None = None,
) -> Scorecard:
    """Judge the same cases by several judges, side by side.

    `judges` have different names, or are given by other ones, as two versions of one judge must be. A case that lacks a
    field of one judge fails for that judge only. `concurrency` is how many cases each judge has in flight. With `out`, a
    folder, each judge's judgments go to `judges/NAME.jsonl` in it, from which a later run takes up, and at the end
    `scorecard.jsonl` has a line a case with all verdicts. `max_cost` is what all judges may spend together in this run, in
    dollars: where it is reached, all stop, and what is left has an error that begins with `NotJudged`. Raises what
    `Judge.ajudge_many` raises.
    """
    named = _named(judges)
    spend_limit = None if max_cost is None else SpendLimit(max_cost)
    # All judges go through the cases, each at its own pace: what can be read only once must be kept.
    source = Examples.of(examples if isinstance(examples, str | Path) else list(examples))
    ids = [example.id for example in source]  # checks everything, once for all
    folder = None if out is None else _folder(Path(out))
    sharing = _sharing(named)
    done = dict.fromkeys(named, 0)

    def counted(name: str) -> Progress:
        def count(phase: str, number: int, _: int) -> None:
            done[name] = number
            if progress is not None:
                progress(phase, sum(done.values()), len(ids) * len(named))

        return count

    columns = await aio.together(
        judge_many(
            judge,
            source,
            concurrency=concurrency,
            out=None if folder is None else folder / "judges" / f"{file_name(name)}.jsonl",
            progress=counted(name),
            max_cost=spend_limit,
        )
        for name, judge in sharing.items()
    )
    kinds = {name: judge.value_type.kind for name, judge in named.items()}
    card = Scorecard(ids, dict(zip(named, columns, strict=True)), kinds)
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
            resolve(judge.model)
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
    usage, failed, not_judged, abstained, total = Usage(), 0, 0, 0, 0.0
    labels: Counter[str] = Counter()
    for judgment in column:
        usage += judgment.usage
        if judgment.value is None:
            left = (judgment.error or "").startswith(NOT_JUDGED)
            not_judged, failed = not_judged + left, failed + (not left)
            continue
        abstained += judgment.abstained
        total += float(judgment.value) if kind in ("int", "float") else 0.0
        if kind in ("bool", "choice", "int"):
            labels[value_text(judgment.value)] += 1
    judged = len(column) - failed - not_judged
    return Totals(
        judge=name,
        n=len(column),
        failed=failed,
        not_judged=not_judged,
        abstained=abstained,
        shares={label: count / judged for label, count in labels.most_common()},
        mean=total / judged if judged and kind in ("int", "float") else None,
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


# -- what judges share -----------------------------------------------------------------------------------------------------


def _sharing(judges: Mapping[str, Judge]) -> dict[str, Judge]:
    """The judges, those of one model under one limit, those of one embedding model with one memory of vectors."""
    models: dict[int, list[Judge]] = {}
    embedders: dict[str, list[Judge]] = {}
    for judge in judges.values():
        if judge.model is not None and not isinstance(judge.model, str):  # a named one counts its calls by itself
            models.setdefault(id(judge.model), []).append(judge)
        if judge.memory.cases:
            embedders.setdefault(resolve_embedding(judge.embedding_model).name, []).append(judge)
    limited = {key: _Limited(resolve(several[0].model)) for key, several in models.items() if len(several) > 1}
    once = {
        name: _Once(resolve_embedding(several[0].embedding_model))
        for name, several in embedders.items()
        if len(several) > 1
    }
    shared = {}
    for name, judge in judges.items():
        changes: dict[str, Any] = {}
        if id(judge.model) in limited:
            changes["model"] = limited[id(judge.model)]
        if judge.memory.cases and (embedder := once.get(resolve_embedding(judge.embedding_model).name)):
            changes["embedding_model"] = embedder
        shared[name] = judge.replace(**changes) if changes else judge
    return shared


class _Limited:
    """A chat model that several judges use at once: together they have no more calls in flight than it takes."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._limiter = ConcurrencyLimiter(model.limits.concurrency)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def limits(self) -> Limits:
        return self._model.limits

    async def complete(self, request: ChatRequest) -> ChatReply:
        async with self._limiter:
            return await self._model.complete(request)


class _Once:
    """An embedding model that embeds a text once for all who ask, also while the first is still waiting."""

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self._kept: OrderedDict[str, asyncio.Task[NDArray[np.float32]]] = OrderedDict()

    @property
    def name(self) -> str:
        return self._model.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if len(texts) != 1:
            return await self._model.embed(texts)
        (text,) = texts
        task = self._kept.get(text)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._kept[text] = asyncio.ensure_future(self._embedded(text))
            while len(self._kept) > KEPT_VECTORS:
                self._kept.popitem(last=False)
        return await asyncio.shield(task)  # one who gives up must not take it from the others

    async def _embedded(self, text: str) -> NDArray[np.float32]:
        return await self._model.embed([text])
