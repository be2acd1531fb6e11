"""Whether what a judge sees has changed between two runs: an alarm with a stated rate of false ones.

Each signal is compared by a permutation test, which needs no assumption but that items come independently. The smallest
p counts, by Holm's method (1979), so that all signals together raise a false alarm as seldom as was asked for.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memalign import aio
from memalign.errors import InputError
from memalign.evaluation.label_next import likeness_to_memory, silence
from memalign.io import Examples, ExampleSource, Given, JudgmentFile, read_judgments
from memalign.types import Judgment
from memalign.values import value_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memalign.judge import Judge

__all__ = ["Drift", "Signal", "adrift", "drift"]

_SHUFFLES = 4000
_MOST_SIGNALS = 4
_FEWEST = 20  # judgments of a run
_SILENT = 0.5  # from this degree on a case counts as uncovered


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """One thing that is watched: its figure in both runs, the p of its change, and whether it raises the alarm."""

    name: str
    first: float
    second: float
    p: float
    alarm: bool


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What changed from the first run to the second; an alarm is false once in 1 / `false_alarms` times at most.

    `label_shares` has both runs' shares by label. `look_at` are ids of the second run to label, those first that the
    alarm is about.
    """

    judge: str
    n: tuple[int, int]
    false_alarms: float
    signals: tuple[Signal, ...]
    label_shares: dict[str, tuple[float, float]]
    look_at: tuple[str, ...]

    @property
    def alarm(self) -> bool:
        """Whether one signal raises it."""
        return any(each.alarm for each in self.signals)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        plain: dict[str, Any] = {"alarm": self.alarm, **msgspec.to_builtins(self)}
        return plain


def drift(
    judge: Judge,
    first: str | Path | JudgmentFile,
    second: str | Path | JudgmentFile,
    *,
    examples: tuple[ExampleSource, ExampleSource] | None = None,
    false_alarms: float = 0.05,
    n: int = 5,
    seed: int = 0,
) -> Drift:
    """Compare two runs; the synchronous form of `adrift`."""
    return aio.run(adrift(judge, first, second, examples=examples, false_alarms=false_alarms, n=n, seed=seed))


async def adrift(
    judge: Judge,
    first: str | Path | JudgmentFile,
    second: str | Path | JudgmentFile,
    *,
    examples: tuple[ExampleSource, ExampleSource] | None = None,
    false_alarms: float = 0.05,
    n: int = 5,
    seed: int = 0,
) -> Drift:
    """Compare two files of judgments of one judge on different items, or what was read from such files.

    Signals: the labels' shares (of numbers the mean), the mean confidence where it is told, the share of cases on which
    no check speaks, and with the `examples` of both runs the mean likeness to the nearest case in memory. `n` is how
    many cases to look at are named. No model is called. Raises InputError for two different judges, a run of fewer than
    20 judgments, or the same items twice: those are compared by `compare` or `replay`.
    """
    if not 0 < false_alarms < 1:
        raise InputError(f"the rate of false alarms lies between 0 and 1, not at {false_alarms:g}")
    if false_alarms * (_SHUFFLES + 1) < _MOST_SIGNALS:
        raise InputError(
            f"false alarms rarer than {_MOST_SIGNALS / _SHUFFLES:g} cannot be told from none: name a higher rate"
        )
    names = [
        f"the {place} run" if isinstance(each, JudgmentFile) else str(each)
        for place, each in (("first", first), ("second", second))
    ]
    files = [_file(judge, name, each) for name, each in zip(names, (first, second), strict=True)]
    if files[0].judge != files[1].judge:
        raise InputError(
            f"{names[0]} and {names[1]} were judged by another model or wording each: judge one of them again"
        )
    runs = [_run(judge, name, file) for name, file in zip(names, files, strict=True)]
    if len(same := runs[0].keys() & runs[1].keys()) > len(runs[1]) / 2:
        raise InputError(
            f"{len(same)} items are in both runs: compare their verdicts by `evaluate --against` or `replay`"
        )
    chance = np.random.default_rng(seed)
    old, new = ([*run.values()] for run in runs)
    labels = {} if judge.value_type.numeric else _shares(old, new)
    watched = [_verdicts(old, new, chance, numeric=judge.value_type.numeric)]
    if all(each.confidence is not None for each in (*old, *new)):
        confidence = [[each.confidence or 0.0 for each in run] for run in (old, new)]
        watched.append(("mean confidence", *_means(confidence, chance)))
    if any(guideline.checks for guideline in judge.memory.semantic):
        uncovered = [[float(silence(each) >= _SILENT) for each in run] for run in (old, new)]
        watched.append(("share of cases on which no check speaks", *_means(uncovered, chance)))
    if examples is not None:
        likeness = [await _likeness(judge, run, given) for run, given in zip(runs, examples, strict=True)]
        watched.append(("mean likeness to the nearest case in memory", *_means(likeness, chance)))
    raised = _holm([each[3] for each in watched], false_alarms)
    signals = tuple(
        Signal(name=name, first=before, second=after, p=p, alarm=alarm)
        for (name, before, after, p), alarm in zip(watched, raised, strict=True)
    )
    grown = max(labels, key=lambda name: labels[name][1] - labels[name][0]) if signals[0].alarm and labels else None
    return Drift(
        judge=judge.name,
        n=(len(old), len(new)),
        false_alarms=false_alarms,
        signals=signals,
        label_shares=labels,
        look_at=_look_at(runs[1], grown, n),
    )


_Watched = tuple[str, float, float, float]


def _file(judge: Judge, called: str, given: str | Path | JudgmentFile) -> JudgmentFile:
    file = given if isinstance(given, JudgmentFile) else read_judgments(given)
    if (name := file.judge.rpartition("@")[0]) != judge.name:
        raise InputError(f"{called} was judged by {name!r}, not by {judge.name!r}")
    return file


def _run(judge: Judge, called: str, file: JudgmentFile) -> Mapping[str, Judgment]:
    found = {name: each for name, each in file.judgments.items() if each.value is not None}
    if len(found) < _FEWEST:
        raise InputError(f"{called} has {len(found)} verdicts: a comparison needs {_FEWEST}")
    if any(each.memory_hash != judge.memory.hash for each in found.values()):
        raise InputError(
            f"{called} was judged with another memory than this version of {judge.name!r} has: name --version"
        )
    return found


def _shares(old: Sequence[Judgment], new: Sequence[Judgment]) -> dict[str, tuple[float, float]]:
    counts = [Counter(value_text(each.value) for each in run) for run in (old, new)]
    names = sorted(counts[0] | counts[1])
    return {name: (counts[0][name] / len(old), counts[1][name] / len(new)) for name in names}


def _verdicts(
    old: Sequence[Judgment], new: Sequence[Judgment], chance: np.random.Generator, *, numeric: bool
) -> _Watched:
    if numeric:
        scores = [[float(each.value) for each in run if each.value is not None] for run in (old, new)]
        return ("mean score", *_means(scores, chance))
    shares = _shares(old, new)
    names = [*shares]
    counts = np.array(
        [[round(shares[name][place] * n) for name in names] for place, n in ((0, len(old)), (1, len(new)))]
    )
    distance = float(np.abs(counts[0] / len(old) - counts[1] / len(new)).sum() / 2)
    drawn = chance.multivariate_hypergeometric(counts.sum(axis=0), len(old), size=_SHUFFLES)
    rest = counts.sum(axis=0) - drawn
    shuffled = np.abs(drawn / len(old) - rest / len(new)).sum(axis=1) / 2
    p = _p(shuffled, distance)
    return ("labels that changed share", 0.0, distance, p)


def _means(runs: Sequence[Sequence[float]], chance: np.random.Generator) -> tuple[float, float, float]:
    """The means of both runs, and the p of their difference."""
    old, new = runs
    every, half = np.array([*old, *new]), len(old)
    difference = abs(statistics.fmean(old) - statistics.fmean(new))
    shuffled: NDArray[np.float64] = np.empty(_SHUFFLES)
    total = float(every.sum())
    for place in range(_SHUFFLES):
        part = float(chance.permutation(every)[:half].sum())
        shuffled[place] = abs(part / half - (total - part) / len(new))
    return statistics.fmean(old), statistics.fmean(new), _p(shuffled, difference)


def _p(shuffled: NDArray[np.float64], found: float) -> float:
    """The share of shuffles at least as far apart, the data themselves being one (Phipson and Smyth 2010)."""
    return (1 + int(np.sum(shuffled >= found - 1e-12))) / (1 + len(shuffled))


def _holm(ps: Sequence[float], rate: float) -> list[bool]:
    raised = [False] * len(ps)
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda each: ps[each])):
        if ps[place] > rate / (len(ps) - rank):
            break
        raised[place] = True
    return raised


async def _likeness(judge: Judge, run: Mapping[str, Judgment], given: ExampleSource) -> list[float]:
    examples = [
        each for each in Examples.of(Given.of(given, name="examples", remembered=judge.columns)) if each.id in run
    ]
    if len(examples) < len(run):
        raise InputError(f"the examples lack {len(run) - len(examples)} of the judged items")
    return [near or 0.0 for near in await likeness_to_memory(judge, examples)]


def _look_at(run: Mapping[str, Judgment], grown: str | None, n: int) -> tuple[str, ...]:
    """Those with the label that grew first; then where no check speaks, then the unsure."""

    def order(name: str) -> tuple[bool, float, float, str]:
        judgment = run[name]
        return (
            grown is not None and value_text(judgment.value) != grown,
            -round(silence(judgment), 3),
            1.0 if judgment.confidence is None else judgment.confidence,
            name,
        )

    return tuple(sorted(run, key=order)[:n])
