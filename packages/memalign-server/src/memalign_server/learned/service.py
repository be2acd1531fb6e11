"""What was learned of a person's words: which cases turned, and the person's say over the wording."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from memalign.align import edit_guideline
from memalign.judge import Judge
from memalign.keys import same_person
from memalign.memory import Memory
from memalign.memory.forget import forget
from memalign.types import FeedbackKey, Guideline
from memalign.values import Value
from memalign_server.store import Transaction, answers
from memalign_server.store.answers import AnsweredCase
from memalign_server.store.rows import Answer, QueuedCase

MOST = 200
"""Of a person's answers the latest so many are looked at."""
TODAY = 12 * 3600
"""Seconds of a day's work. Where the reader's midnight is, the server does not know."""
TRIED = 20
"""Cases that a wording is tried on."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A case that the judge was asked about again after a person had answered it, with the case hidden from the judge.

    Attributes:
        case: The case, with the judgment of now.
        answer: What the person said, and what the judge said then.
        guidelines: The ids of those that bore on the judgment of now.
        was_right: Whether the judge agreed with the person then.
        right: Whether it agrees now.
        turned: Whether it says something else than then.
    """

    case: QueuedCase
    answer: Answer
    guidelines: frozenset[str]
    was_right: bool
    right: bool
    turned: bool


def turns_of(connection: Transaction, judge: Judge, person: str) -> list[Turn]:
    """Return a person's answered cases that the judge was asked about again, the latest answer first."""
    pairs = answers.judged_again(connection, judge.name, person, most=MOST)
    return [turn for turn in (_turn(judge, pair) for pair in pairs) if turn is not None]


def _turn(judge: Judge, pair: AnsweredCase) -> Turn | None:
    """Return what became of a case, or None where one of the three verdicts is missing."""
    judgment = pair.case.judgment
    before = pair.answer.judge_value
    own = pair.answer.value
    if judgment is None or judgment.value is None or before is None or own is None:
        return None
    agree = judge.value_type.agree
    named = (finding.guideline for finding in judgment.findings)
    return Turn(
        case=pair.case,
        answer=pair.answer,
        guidelines=frozenset((*judgment.guideline_ids, *named)),
        was_right=agree(before, own),
        right=agree(judgment.value, own),
        turned=not agree(before, judgment.value),
    )


def today_of(connection: Transaction, judge: str, person: str) -> tuple[int, int]:
    """Return how many answers a person gave today, and how many of them have words."""
    return answers.today_of(connection, judge, person, seconds=TODAY)


def confirmed(judge: Judge, guideline: str, *, by: str) -> Judge:
    """A judge with a guideline whose wording a person confirms; what another confirmed before stays theirs too."""
    rule = judge.memory.guideline(guideline)
    if rule.pinned_by not in (None, by) and rule.origin == "distilled":
        return edit_guideline(judge, guideline, text=rule.text, by=by)
    return edit_guideline(judge, guideline, pinned=True, rule=True if rule.tests else None, by=by)


def rephrased(judge: Judge, guideline: str, text: str, *, by: str) -> Judge:
    """Return a judge with a guideline in a person's words."""
    return edit_guideline(judge, guideline, text=text, by=by)


def cases_for_trial(
    connection: Transaction, judge: Judge, person: str, guideline: str
) -> list[tuple[QueuedCase, Value]]:
    """Return up to twenty cases with what the person says of them: those behind the guideline first, then the latest.

    Cases that are held out stay so: what measures the judge must not choose its words.
    """
    memory = judge.memory
    behind = [key.id for key in memory.sources_of(memory.guideline(guideline))]
    pairs = answers.cases_for_trial(connection, judge.name, person, behind, most=TRIED)
    return [(pair.case, pair.answer.value) for pair in pairs if pair.answer.value is not None]


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What it would change if a person took words back.

    Attributes:
        texts: The guidelines in force that would go, or be learned again from what remains.
        stays: Guidelines whose wording is this person's and that stay, because other words are behind them too.
        in_question: Guidelines whose wording is this person's and that no other words are behind.
    """

    texts: tuple[str, ...]
    stays: tuple[str, ...]
    in_question: tuple[str, ...]

    @property
    def changes(self) -> int:
        """How many guidelines that are."""
        return len(self.texts)


def withdrawal_of(memory: Memory, keys: Collection[FeedbackKey], person: str) -> Withdrawal:
    """What it would change if a person took back these pieces of feedback."""
    words = frozenset(keys)
    own = list[Guideline]()
    for rule in memory.semantic:
        theirs = any(same_person(person, name) for name in rule.people)
        if theirs and not words.isdisjoint(rule.exposed_to):
            own.append(rule)
    in_question = tuple(rule.id for rule in own if words.issuperset(memory.sources_of(rule)))
    stays = tuple(rule.id for rule in own if rule.id not in in_question)
    remaining = {rule.id for rule in forget(memory, words, keep=stays).semantic}
    texts = tuple(rule.text for rule in memory.semantic if rule.id not in remaining)
    return Withdrawal(texts=texts, stays=stays, in_question=in_question)
