"""What was learned of a person's words: which cases turned, and their say over the wording."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memalign.align import edit_guideline
from memalign.judge import Judge
from memalign.keys import same_person
from memalign.memory import Annotation, Memory, forget
from memalign.types import FeedbackKey, Guideline
from memalign_server.store import Transaction, answers
from memalign_server.store.answers import AnsweredCase
from memalign_server.store.rows import Answer, QueuedCase

__all__ = [
    "MOST",
    "LearnedRow",
    "TurnedCase",
    "Withdrawal",
    "confirmed",
    "is_named",
    "may_change",
    "people_of",
    "rephrased",
    "rows_of",
    "turned_cases",
    "withdrawal_of",
]

MOST = 200
"""Of a person's answers the latest so many are looked at."""
_FOLLOWED = ("learned", "merged")
"""States of feedback that guidelines follow."""


# -- cases that turned -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TurnedCase:
    """A case that the judge was asked about again after a person's answer, without knowing of it.

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


def turned_cases(
    connection: Transaction, judge: Judge, person: str
) -> list[TurnedCase]:
    """Return a person's answered cases that the judge was asked about again, the latest first."""
    turns = []
    for pair in answers.judged_again(connection, judge.name, person, most=MOST):
        turn = _turn(judge, pair)
        if turn is not None:
            turns.append(turn)
    return turns


def _turn(judge: Judge, pair: AnsweredCase) -> TurnedCase | None:
    """Return what became of a case, or None if one of the three verdicts is missing."""
    judgment = pair.case.judgment
    before = pair.answer.judge_value
    own = pair.answer.value
    if judgment is None or judgment.value is None or before is None or own is None:
        return None
    agree = judge.value_type.agree
    named = [finding.guideline for finding in judgment.findings]
    return TurnedCase(
        case=pair.case,
        answer=pair.answer,
        guidelines=frozenset([*judgment.guideline_ids, *named]),
        was_right=agree(before, own),
        right=agree(judgment.value, own),
        turned=not agree(before, judgment.value),
    )


# -- what became of words --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LearnedRow:
    """What became of some words of the reader.

    Attributes:
        id: The guideline's id, or why the words taught nothing.
        comments: The words, the latest first.
        taught: Whether the judge has them in memory, so that they can be taken back.
        guideline: What the judge understood; None for nothing.
        turns: The cases that the guideline bears on, as they are judged since.
    """

    id: str
    comments: Sequence[Annotation]
    taught: bool
    guideline: Guideline | None
    turns: Sequence[TurnedCase] = ()

    @property
    def latest(self) -> str:
        """When the latest of the words were written."""
        return _written_at(self.comments[0])


def rows_of(
    memory: Memory,
    person: str,
    turns: Iterable[TurnedCase] = (),
    idle: Mapping[str, Sequence[Annotation]] | None = None,
) -> list[LearnedRow]:
    """Return what became of a person's words, the latest words first.

    Args:
        memory: The judge's memory.
        person: Whose words.
        turns: The person's cases that were judged again.
        idle: Words that are not in memory, by the reason why they teach nothing.

    Returns:
        A row for each guideline that the words are behind, and for each reason.
    """
    active = {rule.id: rule for rule in memory.semantic}
    untaught = idle or {}
    words = {reason: list(comments) for reason, comments in untaught.items()}
    for name, comment in _learned_words(memory, person, active):
        words.setdefault(name, []).append(comment)
    rows = []
    for name, comments in words.items():
        comments.sort(key=_written_at, reverse=True)
        cases = {comment.id for comment in comments}
        row = LearnedRow(
            id=name,
            comments=comments,
            taught=name not in untaught,
            guideline=active.get(name),
            turns=[turn for turn in turns if _bears_on(turn, name, cases)],
        )
        rows.append(row)
    return sorted(rows, key=lambda row: row.latest, reverse=True)


def _written_at(comment: Annotation) -> str:
    return comment.created_at or ""


def _learned_words(
    memory: Memory, person: str, active: Collection[str]
) -> Iterable[tuple[str, Annotation]]:
    """Yield a person's words in memory, each with a guideline that follows it, or its state."""
    for entry in memory.ledger():
        comment = memory.annotation(entry.key)
        if comment is None or comment.rationale is None:
            continue
        if not same_person(comment.source, person):
            continue
        followed = entry.guideline_ids if entry.state in _FOLLOWED else ()
        names = [rule for rule in followed if rule in active]
        for name in names or [entry.state]:
            yield name, comment


def _bears_on(turn: TurnedCase, guideline: str, cases: Collection[str]) -> bool:
    return guideline in turn.guidelines or turn.case.case_id in cases


# -- a person's say over the wording ---------------------------------------------------


def people_of(memory: Memory, *rules: Guideline) -> set[str]:
    """Return whose guidelines are: whose wording each is, else whose words are behind it."""
    people = set[str]()
    for rule in rules:
        people |= rule.people or {key.source for key in memory.sources_of(rule)}
    return people


def is_named(person: str, people: Collection[str]) -> bool:
    """Return whether one of the names is this person's."""
    return any(same_person(person, name) for name in people)


def may_change(memory: Memory, rule: Guideline, person: str, *, is_owner: bool) -> bool:
    """Return whether a person may change a sentence.

    Owners may change any. Others may change a sentence that is theirs alone, or a model's that
    their words are behind.
    """
    if is_owner:
        return True
    people = people_of(memory, rule)
    if not is_named(person, people):
        return False
    return not rule.people or all(same_person(person, name) for name in people)


def confirmed(judge: Judge, guideline: str, *, by: str) -> Judge:
    """Return a judge with a guideline whose wording a person confirms.

    What another person confirmed before stays theirs too. A rule that code can test decides from
    then on.
    """
    rule = judge.memory.guideline(guideline)
    if rule.pinned_by not in (None, by) and rule.origin == "distilled":
        return edit_guideline(judge, guideline, text=rule.text, by=by)
    decides = True if rule.tests else None
    return edit_guideline(judge, guideline, pinned=True, rule=decides, by=by)


def rephrased(judge: Judge, guideline: str, text: str, *, by: str) -> Judge:
    """Return a judge with a guideline in a person's words."""
    return edit_guideline(judge, guideline, text=text, by=by)


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What would change if a person took words back.

    Attributes:
        texts: The guidelines in force that would go, or be learned again from what remains.
        stays: Guidelines in this person's wording that stay, because other words are behind them.
        in_question: Guidelines in this person's wording that no other words are behind.
    """

    texts: tuple[str, ...]
    stays: tuple[str, ...]
    in_question: tuple[str, ...]

    @property
    def changes(self) -> int:
        """How many guidelines would go."""
        return len(self.texts)


def withdrawal_of(
    memory: Memory, keys: Collection[FeedbackKey], person: str
) -> Withdrawal:
    """Return what would change if a person took back these pieces of feedback."""
    words = frozenset(keys)
    stays = []
    in_question = []
    for rule in memory.semantic:
        if words.isdisjoint(rule.exposed_to) or not is_named(person, rule.people):
            continue
        if words.issuperset(memory.sources_of(rule)):
            in_question.append(rule.id)
        else:
            stays.append(rule.id)
    without = forget(memory, words, keep=stays)
    remaining = {rule.id for rule in without.semantic}
    texts = [rule.text for rule in memory.semantic if rule.id not in remaining]
    return Withdrawal(
        texts=tuple(texts),
        stays=tuple(stays),
        in_question=tuple(in_question),
    )
