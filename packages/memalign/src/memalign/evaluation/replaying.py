"""The same judge on another model: which verdicts turn, and whether it still agrees with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from memalign import aio
from memalign.errors import InputError, InvalidRows, ModelError
from memalign.evaluation.agreement import Progress, measure
from memalign.evaluation.comparison import Comparison, compare
from memalign.evaluation.evaluated import ScoredCase
from memalign.io import Examples, ExampleSource, Given, check_feedback
from memalign.memory.label_policy import policy_label
from memalign.metrics import Estimate, wilson_interval
from memalign.models import resolve
from memalign.types import NOTHING_SAID, Example, Feedback, Judgment, Usage
from memalign.values import Value

if TYPE_CHECKING:
    from memalign.judge import Judge

__all__ = ["ChangedCheck", "Replay", "TurnedCase", "areplay", "replay"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnedCase:
    """A case whose verdict is another one on the other model; `label` is people's, None where they gave none."""

    id: str
    before: Value
    after: Value
    label: Value | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedCheck:
    """A guideline's check: on how many cases both models answered it, and on how many otherwise."""

    guideline: str
    check: str
    answered: int
    changed: int


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One judge on two models, `model` being the other one, over the `n` cases that both judged.

    `same` is the share of equal verdicts. `unscored` cases have no verdict of one of them. Where cases have people's
    labels, `before` and `after` are each model's figures and `comparison` sets the second against the first.
    `hidden` says that the cases are those in memory, each judged as if the judge had never met it.
    """

    judge: str
    model_before: str
    model: str
    n: int
    unscored: int
    hidden: bool
    same: Estimate
    turned: tuple[TurnedCase, ...]
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    comparison: Comparison | None
    checks: tuple[ChangedCheck, ...]
    usage_before: Usage
    usage: Usage
    errors: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def replay(
    judge: Judge,
    model: Any,
    cases: ExampleSource | None = None,
    *,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Judge the cases on both models; the synchronous form of `areplay`."""
    return aio.run(areplay(judge, model, cases, concurrency=concurrency, progress=progress))


async def areplay(
    judge: Judge,
    model: Any,
    cases: ExampleSource | None = None,
    *,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> Replay:
    """Judge every case with the judge as it is and on `model`, with the same memory.

    `cases` may have labels or not. Without any, the labelled cases in memory are judged, each with itself and all that
    came from it hidden, and by the models' own verdicts: no calibrator is fitted to a memory that hides a case. Raises
    InputError where there is no case, or none that both judged.
    """
    other = judge.replace(model=model)
    if isinstance(model, str) and other.model_name == judge.model_name:
        raise InputError(f"{judge.name} is on {judge.model_name} already: name another model")
    hidden = cases is None
    examples, labels = _taught(judge) if cases is None else _given(judge, cases)
    if not examples:
        raise InputError(f"{judge.name} has no labelled case in memory: give cases to judge")

    async def judged(one: Judge) -> Sequence[Judgment]:
        if not hidden:
            return await one.ajudge_many(examples, concurrency=concurrency, progress=progress)
        return await _unknowing(one, examples, concurrency, progress)

    before, after = await judged(judge), await judged(other)
    rows = list(zip(examples, before, after, strict=True))
    both = [(example, one, two) for example, one, two in rows if one.value is not None and two.value is not None]
    errors = tuple(
        (example.id, each.error or "no verdict") for example, *given in rows for each in given if each.value is None
    )
    if not both:
        raise InputError(f"no case was judged on both models; the first: {errors[0][1]}")
    agree = judge.value_type.agree
    same = [agree(one.value, two.value) for _, one, two in both]  # type: ignore[arg-type]  # both have a value
    turned = tuple(
        TurnedCase(id=example.id, before=one.value, after=two.value, label=labels.get(example.id))  # type: ignore[arg-type]
        for (example, one, two), equal in zip(both, same, strict=True)
        if not equal
    )
    known = [(labels[example.id], example, one, two) for example, one, two in both if example.id in labels]
    old = [_scored(example, one, label) for label, example, one, _ in known]
    new = [_scored(example, two, label) for label, example, _, two in known]
    low, high = wilson_interval(sum(same), len(same)) or (None, None)
    return Replay(
        judge=judge.name,
        model_before=both[0][1].model or judge.model_name or "",
        model=both[0][2].model or other.model_name or "",
        n=len(both),
        unscored=len(rows) - len(both),
        hidden=hidden,
        same=Estimate(value=sum(same) / len(same), low=low, high=high),
        turned=turned,
        before=measure(judge.value_type, old) if old else {},
        after=measure(judge.value_type, new) if new else {},
        comparison=compare(old, new) if old else None,
        checks=_changed([(one, two) for _, one, two in both]),
        usage_before=sum((each.usage for each in before), Usage()),
        usage=sum((each.usage for each in after), Usage()),
        errors=errors,
    )


def _taught(judge: Judge) -> tuple[list[Example], Mapping[str, Value]]:
    memory = judge.memory
    found: dict[str, tuple[Example, Value]] = {}
    for case in memory.cases:
        label = memory.label(case)
        if label is not None and case.example.content.keys() >= set(judge.fields):
            found.setdefault(case.example.content_hash, (case.example, label))
    return [example for example, _ in found.values()], {example.id: label for example, label in found.values()}


def _given(judge: Judge, cases: ExampleSource) -> tuple[list[Example], Mapping[str, Value]]:
    given = Given.of(cases, name="cases", remembered=judge.columns)
    examples = list(Examples.of(given))
    said: dict[str, list[Feedback]] = {}
    checked = check_feedback(given, value_type=judge.value_type, skip_invalid=True)
    if bad := [each for each in checked.invalid if each.reason != NOTHING_SAID]:  # a case needs no label here
        raise InvalidRows(given.name, bad)
    for row in checked.rows:
        said.setdefault(row.id, []).append(row)
    memory = judge.memory
    labels = {name: policy_label(rows, memory.authority, memory.policy) for name, rows in said.items()}
    return examples, {name: label for name, label in labels.items() if label is not None}


async def _unknowing(
    judge: Judge, examples: Sequence[Example], concurrency: int | None, progress: Progress | None
) -> Sequence[Judgment]:
    """A judgment of each case by the judge as if it had never met it."""
    memory = judge.memory
    plain = judge.replace(parameters={**judge.parameters, "calibrate": False})

    async def one(example: Example) -> Judgment:
        met = [duplicate.id for duplicate in memory.duplicates(example)]
        try:
            return await plain.replace(memory=memory.hiding(met)).ajudge(example)
        except (ModelError, InputError) as error:
            usage = error.usage if isinstance(error, ModelError) else None
            return Judgment(error=f"{type(error).__name__}: {error}", usage=usage or Usage())

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress("judge", done, total)

    limit = concurrency or resolve(judge.model).limits.concurrency
    return await aio.at_most(limit, one, examples, told)


def _scored(example: Example, judgment: Judgment, label: Value) -> ScoredCase:
    group = example.meta.get("group")
    return ScoredCase(id=example.id, label=label, value=judgment.value, group=None if group is None else str(group))


def _changed(pairs: Sequence[tuple[Judgment, Judgment]]) -> tuple[ChangedCheck, ...]:
    """The checks that both models answered, those most often answered otherwise first."""
    answered: Counter[tuple[str, str]] = Counter()
    changed: Counter[tuple[str, str]] = Counter()
    for one, other in pairs:
        said = {(each.guideline, each.check): each.answer for each in other.findings}
        for finding in one.findings:
            if (
                finding.guideline is None
                or finding.answer is None
                or (then := said.get((finding.guideline, finding.check))) is None
            ):
                continue
            answered[finding.guideline, finding.check] += 1
            changed[finding.guideline, finding.check] += then != finding.answer
    ordered = sorted(answered, key=lambda name: (-changed[name] / answered[name], name))
    return tuple(
        ChangedCheck(guideline=name[0], check=name[1], answered=answered[name], changed=changed[name])
        for name in ordered
    )
