"""The checks of a memory's guidelines: which a judgment asks, how they are answered, and the findings that they come to.

A model whose probabilities can be read is asked each check apart, of each side of a pair alone, so that no position can
matter. Any other answers all of them as JSON in the judgment itself, before the rationale. However they are answered,
the verdict never hangs on it: a check without an answer is no finding, and a note says so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.cache import kept_async
from memalign.errors import ModelError
from memalign.memory.check_answers import questions_of
from memalign.models.base import YesNoModel
from memalign.models.resolve import resolve_embedding
from memalign.types import FeedbackKey, Finding, Guideline, Usage

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = [
    "MOST_CHECKS",
    "AskedCheck",
    "Found",
    "ask_checks",
    "checks_schema",
    "margins_of",
    "read_checks",
    "which_checks",
]

MOST_CHECKS = 8
"""Questions that one judgment asks. Eight told as much as sixty, and take as long as one reasoned verdict."""

MOST_PINNED = 24
"""Questions of pinned guidelines that one judgment asks: each costs a call of one token, or ten tokens of an answer."""

SYSTEM = "Answer the question about the item with yes or no."

CheckAnswer = Literal["yes", "no", "n/a"]
_ANSWERS: dict[str, CheckAnswer] = {"yes": "yes", "no": "no", "n/a": "n/a"}


class AskedCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a judgment asks, the first guideline with this check, and the feedback behind all that have it."""

    question: str
    guideline: str
    taught_by: tuple[FeedbackKey, ...]

    def finding(self, *, answer: CheckAnswer | None, margin: float | None = None) -> Finding:
        """What an answer comes to; no calibrator has weighed it yet."""
        return Finding(
            guideline=self.guideline, check=self.question, answer=answer, margin=margin, taught_by=self.taught_by
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What asking came to: a finding for each check that was answered, notes on the others, and the cost."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()


async def which_checks(judge: Judge) -> tuple[tuple[AskedCheck, ...], tuple[str, ...]]:
    """The checks that a judgment asks, each question once, in the order of the guidelines; and a note on those left out.

    At most eight, of the guidelines that say what most others say: a question of one case's own names and numbers stands
    alone. Those of pinned guidelines come first, and up to 24 of them are asked.
    """
    memory = judge.memory

    async def make() -> tuple[tuple[AskedCheck, ...], tuple[str, ...]]:
        every = questions_of(memory.semantic)
        asked = tuple(
            AskedCheck(
                question=question,
                guideline=every[question][0].id,
                taught_by=tuple(dict.fromkeys(key for g in every[question] for key in memory.sources_of(g))),
            )
            for question in await _commonest(memory.semantic)
        )
        left = len(every) - len(asked)
        return asked, (f"{left} of {len(every)} checks not asked: others say more",) if left > 0 else ()

    return await kept_async(memory, "which checks", make)


async def _commonest(guidelines: Sequence[Guideline]) -> tuple[str, ...]:
    """The questions of the guidelines that say what most others say, by the in-process embedder; pinned ones' first.

    A guideline's questions come together, up to the last place: of a rule with a condition neither tells anything alone.
    """
    questions = list(questions_of(guidelines))
    if len(questions) <= MOST_CHECKS:
        return tuple(questions)
    import numpy as np  # a quarter of a second; only where there are many checks

    place = {question: number for number, question in enumerate(questions)}
    vectors = await resolve_embedding(None).embed(questions)
    nearness = (np.clip(vectors @ vectors.T, 0.0, 1.0) ** 2).sum(axis=1)
    asking = [guideline for guideline in guidelines if guideline.checks]
    means = {each.id: float(np.mean([nearness[place[c.question]] for c in each.checks])) for each in asking}
    chosen: dict[str, None] = {}
    for guideline in sorted(asking, key=lambda each: (not each.pinned, -round(means[each.id], 5), each.number)):
        for check in guideline.checks:
            if len(chosen) < (MOST_PINNED if guideline.pinned else MOST_CHECKS):
                chosen[check.question] = None
    return tuple(question for question in questions if question in chosen)


def margins_of(findings: Sequence[Finding]) -> dict[str, float]:
    """Each question's margin: log p(yes)/p(no), or 1, -1 and 0 for yes, no and does not apply without probabilities."""
    counts = {"yes": 1.0, "no": -1.0}
    return {
        finding.check: counts.get(finding.answer or "", 0.0) if finding.margin is None else finding.margin
        for finding in findings
        if finding.guideline is not None and finding.check
    }


# -- a model that answers each with one token ----------------------------------------------------------------------


async def ask_checks(
    model: YesNoModel, checks: Sequence[AskedCheck], items: Sequence[str], *, seconds: float | None
) -> Found:
    """Ask each check about each of the `items`: one, or the two sides of a pair, whose margins are subtracted.

    `seconds` is the time for one question, None for the model's own.
    """
    started = time.perf_counter()
    questions = [check.question for check in checks]
    usage, margins = Usage(), list[list[float]]()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    try:
        for item in items:
            told, spent = await model.margins(SYSTEM, item, questions, timeout=seconds)
            margins.append(told)
            usage += spent
    except ModelError as error:
        usage += error.usage or Usage()
        notes = _unanswered(checks, checks, str(error))
    else:
        findings = tuple(_weighed(check, each) for check, *each in zip(checks, *margins, strict=True))
    return Found(findings=findings, notes=notes, usage=usage + Usage(seconds={"checks": time.perf_counter() - started}))


def _weighed(check: AskedCheck, margins: Sequence[float]) -> Finding:
    if len(margins) == 2:  # one says yes more than the other: the pair as such has no answer
        return check.finding(answer=None, margin=margins[0] - margins[1])
    return check.finding(answer="yes" if margins[0] > 0 else "no", margin=margins[0])


# -- any other model, which answers all in the judgment itself -----------------------------------------------------


def checks_schema(checks: Sequence[AskedCheck]) -> dict[str, Any]:
    """The schema of the answers to C1, C2 and so on."""
    names = _named(checks)
    return {
        "type": "object",
        "properties": {name: {"type": "string", "enum": [*_ANSWERS]} for name in names},
        "required": [*names],
        "additionalProperties": False,
    }


def read_checks(checks: Sequence[AskedCheck], answers: Iterable[object]) -> Found:
    """The findings of the `checks` of one or several answers, whatever was answered: of several the majority, of a tie the first."""
    votes: dict[str, Counter[CheckAnswer]] = {name: Counter() for name in _named(checks)}
    for answer in answers:
        for name, said in _said(answer):
            if name in votes:
                votes[name][said] += 1
    named = _named(checks).items()
    missing = [check for name, check in named if not votes[name]]
    return Found(
        findings=tuple(check.finding(answer=votes[name].most_common(1)[0][0]) for name, check in named if votes[name]),
        notes=_unanswered(missing, checks, "the model gave none of yes, no and n/a"),
    )


def _named(checks: Sequence[AskedCheck]) -> dict[str, AskedCheck]:
    return {f"C{number}": check for number, check in enumerate(checks, 1)}


def _said(answer: object) -> Iterator[tuple[str, CheckAnswer]]:
    for name, said in answer.items() if isinstance(answer, dict) else ():
        if isinstance(said, str) and (known := _ANSWERS.get(said.strip().lower())):
            yield name, known


def _unanswered(missing: Sequence[AskedCheck], checks: Sequence[AskedCheck], why: str) -> tuple[str, ...]:
    if not missing:
        return ()
    of = ", ".join(dict.fromkeys(check.guideline for check in missing))
    which = "the checks" if len(missing) == len(checks) else f"{len(missing)} of {len(checks)} checks"
    return (f"no answer to {which} of {of}: {why}",)
