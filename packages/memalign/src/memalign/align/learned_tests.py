"""Tests that are learned: proposed by a model in its answer, or mined from words that comments and items share.

Either way a test is admitted where its agreement with the labels is too rare by chance, over all tests that were tried.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memalign.content import sides_of
from memalign.judge import Judge, named_parts
from memalign.judge.code_tests import Reading, checked, holds, is_mined, normal, sentence, shape
from memalign.memory import Annotation, Memory
from memalign.types import Check, CodeTest, FeedbackKey, Guideline, TestKind
from memalign.values import Value, ValueType, value_text

__all__ = ["ALPHA", "LabelledCase", "chance", "decidable", "labelled_cases", "mined", "proposed_tests", "with_mined"]

ALPHA = 0.05
"""The share of memories in which anything at all may be admitted that only chance bears out."""
MOST_TESTS = 3
"""Of one guideline."""
LONGEST = 4
"""Words of a mined literal: longer ones are whole sentences, and seldom stand in two items."""
CANDIDATES, PAIRED = 1_000, 80
"""Tests that are mined alone, and two together: those that most comments speak of."""


# -- cases, and what tests say of them ---------------------------------------------------------------------------------


class LabelledCase(NamedTuple):
    """A case as tests read it: its label, the item, and the feedback on it."""

    label: Value
    reading: Reading
    feedback: tuple[Annotation, ...]


class Column(NamedTuple):
    """A test's answers over some cases, a bit a case: where it holds, where it fails; neither where it is silent."""

    yes: int
    no: int

    def table(self, outcome: int) -> tuple[int, int, int, int]:
        """How many cases have yes and the outcome, yes without it, no with it, no without it."""
        bits = (self.yes & outcome, self.yes & ~outcome, self.no & outcome, self.no & ~outcome)
        a, b, c, d = map(int.bit_count, bits)
        return a, b, c, d


def labelled_cases(memory: Memory, value_type: ValueType, ids: Collection[str] | None = None) -> list[LabelledCase]:
    """The cases with an effective label, of these ids or all, each content once.

    None for numbers, free text, and items of which the labels name sides: there code decides nothing.
    """
    if value_type.numeric or not value_type.closed:
        return []
    named = memory.cases if ids is None else filter(None, map(memory.case, ids))
    firsts = {first.id: first for case in named for first in memory.duplicates(case.example)[:1]}
    cases = []
    for _, case in sorted(firsts.items()):
        if sides_of(case.example.content, value_type.choices):
            return []
        if (label := memory.label(case)) is not None:
            cases.append(LabelledCase(label, Reading(case.example.content), memory.annotations_on(case)))
    return cases


def _column(cases: Sequence[LabelledCase], test: CodeTest) -> Column:
    """What a test says of each case."""
    answers = [holds(test, case.reading) for case in cases]
    return Column(_mask(answer is True for answer in answers), _mask(answer is False for answer in answers))


def _outcome(cases: Sequence[LabelledCase], value: Value | None) -> int:
    """The cases, a bit each, whose label is `value`."""
    return _mask(case.label == value for case in cases)


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


# -- chance ------------------------------------------------------------------------------------------------------------


@cache
def chance(table: tuple[int, int, int, int]) -> float:
    """The probability that labels dealt at random agree so well that yes means the outcome: Fisher's exact test."""
    yes, yes_else, no, _ = table
    total, drawn, right = sum(table), yes + yes_else, yes + no
    ways = sum(comb(right, k) * comb(total - right, drawn - k) for k in range(yes, min(drawn, right) + 1))
    return ways / comb(total, drawn)


def decidable(cases: Sequence[LabelledCase]) -> bool:
    """Whether the labels can bear any test out: one that is right about every case would be rare enough by chance."""
    every, outcomes = (1 << len(cases)) - 1, {_outcome(cases, case.label) for case in cases}
    return any(chance(Column(yes, every & ~yes).table(yes)) <= ALPHA for yes in outcomes)


# -- proposed by a model -----------------------------------------------------------------------------------------------


def _proposal(entry: object) -> tuple[CodeTest, bool] | None:
    """The test in an entry of an answer, and whether it is to hold; None for what is none."""
    parts = {name: part for name, part in entry.items() if part is not None} if isinstance(entry, dict) else {}
    try:
        return msgspec.convert(parts, CodeTest), msgspec.convert(parts.get("holds", True), bool)
    except msgspec.ValidationError:
        return None


def proposed_tests(
    judge: Judge,
    tests: object,
    keys: Collection[FeedbackKey],
    cases: Sequence[LabelledCase],
    *,
    tried: int,
    judged: Collection[tuple[str, str]] = (),
) -> tuple[Check, ...]:
    """The checks that the `tests` of a change become: those that may be used and that the labels bear out.

    `cases` are those that the call saw; `tried` counts the tests of its whole answer (Bonferroni's correction). Of
    feedback with both of two labels nobody knows in which sense a test is meant, so both are tried.
    """
    annotations = [annotation for key in keys if (annotation := judge.memory.annotation(key))]
    comments = [annotation.rationale for annotation in annotations if annotation.rationale]
    labels = {annotation.value for annotation in annotations if annotation.value is not None}
    parts = named_parts(judge.instructions)
    usable = [
        proposal
        for proposal in dict.fromkeys(map(_proposal, tests if isinstance(tests, list) else ()))
        if proposal and proposal[0].field in parts and checked(proposal[0], judged, comments) is None
    ][:MOST_TESTS]
    both = sorted({case.label for case in cases}, key=str)
    sure = len(labels) == 1
    value = next(iter(labels)) if sure else both[-1] if len(both) == 2 else None
    if not usable or not cases or value is None:
        return ()
    outcome, checks = _outcome(cases, value), []
    for test, expected in usable:
        yes, no = _column(cases, test)
        for answer, column in ((True, Column(yes, no)), (False, Column(no, yes))):
            limit = ALPHA / tried if sure else ALPHA / tried / 2
            if (answer is expected or not sure) and chance(column.table(outcome)) <= limit:
                checks.append(_check(test, answer, value))
    return tuple(checks)


def _check(test: CodeTest, holds: bool, value: Value | None) -> Check:
    return Check(question=sentence(test), answer="yes" if holds else "no", value=value, test=test)


# -- mined by code -----------------------------------------------------------------------------------------------------

Rules = dict[Column, tuple[CodeTest, ...]]
"""The tests that decide together, by what they say of the cases."""

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BREAK = re.compile(r"[^\w\s']+|_")
_NUMBERED = re.compile(r"[0-9] ?([^\W\d_]+)")
_AROUND = ",;:!?\"'()[]\u2013\u2014"


def with_mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> Memory:
    """The memory with the guidelines that its labels bear out today, and without those that they bore out before.

    Nobody said such a guideline: nothing supports it, and it is exposed to all feedback on the labelled cases. One that
    a person pinned, retired or rewrote is theirs.
    """
    texts = {guideline.text: guideline for guideline in mined(memory, value_type, fields)}
    if outdated := {g.id for g in memory.guidelines if is_mined(g) and not g.retired_by and g.text not in texts}:
        memory = memory.without_guidelines(outdated)
    standing = {guideline.text for guideline in memory.guidelines}
    for text, guideline in texts.items():
        if text not in standing:
            memory = memory.with_guidelines([replace(guideline, id=f"G{memory.next_guideline}")])
    return memory


def mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> tuple[Guideline, ...]:
    """A guideline for each combination of answers to the tests that decide most labelled cases rightly, if any do."""
    cases = labelled_cases(memory, value_type)
    columns = _columns(_candidates(cases, fields), cases)
    right, rule = _best({column: (test,) for column, test in columns.items()}, cases)
    paired, pair = _best(_together(columns), cases)
    if paired - right > max(1, math.sqrt(len(cases) - right)):
        rule = pair  # by what it is right about beyond chance: one case more would be bought by any second word
    exposed = tuple(sorted({annotation.key for case in cases for annotation in case.feedback}))
    guidelines = []
    for answers in product((True, False), repeat=len(rule)) if rule else ():
        alike = [c.label for c in cases if tuple(holds(test, c.reading) for test in rule) == answers]
        value, count = next(iter(Counter(alike).most_common(1)), (None, 0))
        if 2 * count > len(alike):
            clauses = [sentence(test, positive=answer) for test, answer in zip(rule, answers, strict=True)]
            condition = " and ".join(clause[0].lower() + clause[1:] for clause in clauses)
            checks = tuple(_check(test, answer, value) for test, answer in zip(rule, answers, strict=True))
            text = f"Where {condition}: {value_text(value)}."
            guidelines.append(Guideline(id="G0", text=text, exposed_to=exposed, checks=checks))
    return tuple(guidelines)


def _together(columns: Mapping[Column, CodeTest]) -> Rules:
    """Two tests each: both hold, one without the other, or not both alike; but for what one test says alone."""
    rules = Rules()
    for (one, first), (other, second) in combinations(list(columns.items())[:PAIRED], 2):
        answered = (one.yes | one.no) & (other.yes | other.no)
        unlike = (one.yes & other.no) | (one.no & other.yes)
        for yes in (unlike, *(a & b for a, b in product(one, other))):
            answers, contrary = Column(yes, answered & ~yes), Column(answered & ~yes, yes)
            duplicate = any(column in rules or column in columns for column in (answers, contrary))
            if answers.yes and answers.no and not duplicate:
                rules[answers] = (first, second)
    return rules


def _best(rules: Rules, cases: Sequence[LabelledCase]) -> tuple[int, tuple[CodeTest, ...]]:
    """How many cases the best rule is right about, and its tests; of those that chance would not explain."""
    labels = sorted({case.label for case in cases}, key=str)
    targets = labels[-1:] if len(labels) == 2 else labels
    outcomes = [_outcome(cases, target) for target in targets]
    tried = [(tests, column.table(outcome)) for column, tests in rules.items() for outcome in outcomes]
    limit = _chance_limit((table for _, table in tried), ALPHA / 4)  # for single tests and pairs, each in two senses
    best: tuple[int, float, tuple[CodeTest, ...]] = (0, -1.0, ())
    for tests, (a, b, c, d) in tried:
        by_chance = min(chance((a, b, c, d)), chance((b, a, d, c)))
        if by_chance <= limit:
            best = max(best, (max(a + d, b + c), -by_chance, tests), key=lambda entry: entry[:2])
    return best[0], best[2]


def _candidates(cases: Sequence[LabelledCase], fields: Sequence[str]) -> list[CodeTest]:
    """Tests of what comments and items share: what most comments have first, of that the longest."""
    words, forms = Counter[str](), Counter[str]()
    for comment in (annotation.rationale for case in cases for annotation in case.feedback if annotation.rationale):
        words.update(set(_grams(normal(comment).casefold())))
        forms.update(set(_forms(normal(comment))))
    counts = dict[CodeTest, int]()
    for field, reading in product(fields, (case.reading for case in cases)):
        if reading.value(field) is None:
            continue
        text = reading.text(field)
        kinds: tuple[tuple[TestKind, Iterable[str], Counter[str]], ...] = (
            ("word", _grams(text), words),
            ("number", _NUMBERED.findall(text), words),
            ("shape", _forms(reading.text(field, str)), forms),
        )
        for kind, literals, spoken in kinds:
            shared = {*literals} & spoken.keys()
            counts |= {CodeTest(kind=kind, field=field, text=literal): spoken[literal] for literal in shared}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], -len(item[0].text), repr(item[0])))
    return [test for test, _ in ordered if checked(test) is None][:CANDIDATES]


def _grams(text: str) -> Iterator[str]:
    """Runs of one to four words with nothing but spaces between them."""
    for words in map(_TOKEN.findall, _BREAK.split(text)):
        for start, length in product(range(len(words)), range(1, LONGEST + 1)):
            if start + length <= len(words):
                yield " ".join(words[start : start + length])


def _forms(text: str) -> Iterator[str]:
    """The shapes of the pieces that are no plain words: references, initials. A shape is its own example."""
    for piece in text.split():
        stripped = piece.strip(_AROUND)
        form = shape(stripped.removesuffix(".") if stripped.count(".") == 1 else stripped)
        if len(form) > 1 and not re.fullmatch("A?a+", form):
            yield form


def _columns(candidates: Iterable[CodeTest], cases: Sequence[LabelledCase]) -> dict[Column, CodeTest]:
    """The first of the tests that say the same of every case, or the contrary."""
    columns = dict[Column, CodeTest]()
    for test in candidates:
        answers = _column(cases, test)
        if answers.yes and answers.no and Column(answers.no, answers.yes) not in columns:
            columns.setdefault(answers, test)
    return columns


def _chance_limit(tables: Iterable[tuple[int, int, int, int]], alpha: float) -> float:
    """What a test's chance may be at most: `alpha` shared out over all candidates that could pass at all.

    Bonferroni's correction as Tarone (1990, Biometrics 46:515) counts: a candidate that no labels with these shares
    could have admitted was not tried.
    """
    least = []
    for a, b, c, d in tables:
        most, fewest = min(b, c), min(a, d)  # cases that could have another label, so that the test agrees best
        best = (a + most, b - most, c - most, d + most), (b + fewest, a - fewest, d - fewest, c + fewest)
        least.append(min(chance(table) for table in best))
    least.sort()
    return next(alpha / n for n in range(1, len(least) + 2) if bisect_right(least, alpha / n) <= n)
