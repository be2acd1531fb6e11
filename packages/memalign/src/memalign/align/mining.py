"""Rules that code finds by itself, for a judge whose model is too weak to propose tests.

Words and forms that comments and items share become candidate tests, alone and two together; the labels choose among
them, and admit none that chance would explain. What is admitted becomes guidelines whose checks are these tests.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import NamedTuple

import msgspec

from memalign.align.admission import (
    ALPHA,
    Column,
    LabelledCase,
    chance,
    chance_limit,
    column,
    labelled_cases,
    least_chance,
    outcome,
)
from memalign.judge.code_tests import checked, holds, is_mined, normal, sentence, shape
from memalign.memory import Memory
from memalign.types import Check, CodeTest, Guideline
from memalign.values import Value, ValueType, value_text

__all__ = ["mined", "with_mined"]

LONGEST = 4
"""Words of a mined literal: longer ones are whole sentences, and seldom stand in two items."""
CANDIDATES, PAIRED = 1_000, 80
"""Tests that are tried alone, and two together: those that most comments speak of."""

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BREAK = re.compile(r"[^\w\s']+|_")
_NUMBERED = re.compile(r"[0-9] ?([^\W\d_]+)")
_AROUND = ",;:!?\"'()[]\u2013\u2014"


class Rule(NamedTuple):
    """One or two tests that decide together, and how many cases they decide as the labels do."""

    tests: tuple[CodeTest, ...]
    column: Column
    right: int = 0
    by_chance: float = 1.0


def with_mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> Memory:
    """The memory with the guidelines that its labels bear out today, and without those that they bore out before.

    Nobody said such a guideline: nothing supports it, and it is exposed to all feedback on the labelled cases. One that
    a person pinned, retired or rewrote is theirs.

    Args:
        memory: What was learned, all labels in it.
        value_type: The judge's.
        fields: The fields, and parts of fields, that the judge reads.
    """
    texts = {guideline.text: guideline for guideline in mined(memory, value_type, fields)}
    standing = [g for g in memory.guidelines if not is_mined(g) or g.retired_by or g.text in texts]
    number = memory.next_guideline
    fresh = [text for text in texts if text not in {guideline.text for guideline in standing}]
    added = [msgspec.structs.replace(texts[text], id=f"G{n}") for n, text in enumerate(fresh, number)]
    if not added and len(standing) == len(memory.guidelines):
        return memory
    return msgspec.structs.replace(memory, guidelines=(*standing, *added), next_guideline=number + len(added))


def mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> tuple[Guideline, ...]:
    """The guidelines of the rule that decides most labelled cases rightly; none where no rule is admitted.

    Each says for one combination of the tests' answers which value most labels have there. Arguments: see `with_mined`.
    """
    cases = labelled_cases(memory, value_type) if value_type.kind != "str" else []
    sides = any(case.sides for case in cases)
    columns = _columns(_candidates(cases, fields), cases)
    alone = [Rule((test,), answers) for answers, test in columns.items()]
    together = [] if sides else _together(list(columns.items())[:PAIRED], columns)
    rule, pair = (_best(_admitted(rules, cases, value_type)) for rules in (alone, together))
    if pair and (not rule or pair.right - rule.right > max(1, math.sqrt(len(cases) - rule.right))):
        rule = pair  # by what it is right about beyond chance: one case more would be bought by any second word
    if not rule:
        return ()
    exposed = tuple(sorted({annotation.key for case in cases for annotation in case.feedback}))
    return tuple(
        Guideline(id="G0", text=text, exposed_to=exposed, checks=checks)
        for text, checks in (_for_sides(rule, cases, value_type) if sides else _by_answers(rule, cases, value_type))
    )


# -- candidates --------------------------------------------------------------------------------------------------------


def _candidates(cases: Sequence[LabelledCase], fields: Sequence[str]) -> dict[CodeTest, int]:
    """Tests of what comments and items share, with the number of comments that have it, the most common first."""
    words, forms = Counter[str](), Counter[str]()
    for comment in (annotation.rationale for case in cases for annotation in case.feedback if annotation.rationale):
        words.update(set(_grams(normal(comment).casefold())))
        forms.update(set(_forms(normal(comment))))
    counts = dict[CodeTest, int]()
    for field, reading in product(fields, (reading for case in cases for reading in case.readings)):
        if reading.value(field) is None:
            continue
        text = reading.text(field)
        counts |= {CodeTest(kind="word", field=field, text=w): words[w] for w in {*_grams(text)} & words.keys()}
        counts |= {
            CodeTest(kind="number", field=field, text=unit): words[unit]
            for unit in {*_NUMBERED.findall(text)} & words.keys()
        }
        shown = {*_forms(reading.text(field, str))} & forms.keys()
        counts |= {CodeTest(kind="shape", field=field, text=form): forms[form] for form in shown}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], -len(item[0].text), repr(item[0])))
    return {test: count for test, count in ordered if checked(test) is None}


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


def _columns(candidates: Mapping[CodeTest, int], cases: Sequence[LabelledCase]) -> dict[Column, CodeTest]:
    """One test for all that say the same of every case: the longest that half as many comments have as any of them."""
    columns = dict[Column, list[CodeTest]]()
    for test in list(candidates)[:CANDIDATES]:
        answers = column(cases, partial(holds, test))
        if answers.yes and answers.no:
            same = columns.get(Column(answers.no, answers.yes)) or columns.setdefault(answers, [])
            if not same or candidates[test] * 2 >= candidates[same[0]]:
                same.append(test)
    return {answers: max(same, key=lambda test: len(test.text)) for answers, same in columns.items()}


def _together(columns: Sequence[tuple[Column, CodeTest]], alone: Mapping[Column, CodeTest]) -> list[Rule]:
    """Two tests each: both hold, one without the other, or not both alike; but for what one test says alone."""
    rules = dict[Column, Rule]()
    for (one, first), (other, second) in combinations(columns, 2):
        known = (one.yes | one.no) & (other.yes | other.no)
        unlike = (one.yes & other.no) | (one.no & other.yes)
        for yes in (unlike, *(a & b for a, b in product(one, other))):
            answers = Column(yes, known & ~yes)
            mirrored = Column(answers.no, answers.yes)
            if answers.yes and answers.no and not {answers, mirrored} & (rules.keys() | alone.keys()):
                rules[answers] = Rule((first, second), answers)
    return list(rules.values())


# -- what the labels bear out ------------------------------------------------------------------------------------------


def _admitted(rules: Sequence[Rule], cases: Sequence[LabelledCase], value_type: ValueType) -> Iterator[Rule]:
    """The rules that chance would not explain, among these; single tests and pairs each have half of the error."""
    sides = any(case.sides for case in cases)
    labels = sorted({case.label for case in cases}, key=str)
    targets = [None] if sides else labels[-1:] if value_type.numeric or len(labels) == 2 else labels
    tried = [(rule, rule.column.table(outcome(cases, target, value_type))) for rule, target in product(rules, targets)]
    limit = chance_limit((2 * least_chance(table, sides=sides) for _, table in tried), ALPHA / 2)
    for rule, (a, b, c, d) in tried:
        by_chance = 2 * min(chance((a, b, c, d), sides=sides), chance((b, a, d, c), sides=sides))
        if by_chance <= limit:
            yield rule._replace(right=max(a + d, b + c), by_chance=by_chance)


def _best(rules: Iterable[Rule]) -> Rule | None:
    return max(rules, key=lambda rule: (rule.right, -rule.by_chance), default=None)


def _by_answers(
    rule: Rule, cases: Sequence[LabelledCase], value_type: ValueType
) -> Iterator[tuple[str, tuple[Check, ...]]]:
    """A guideline's text and checks for each combination of the tests' answers in which most cases have one label."""
    for answers in product((True, False), repeat=len(rule.tests)):
        labels = [
            case.label for case in cases if tuple(holds(test, case.readings[0]) for test in rule.tests) == answers
        ]
        value = _commonest(labels, value_type)
        if value is not None:
            yield (
                f"Where {' and '.join(map(_clause, rule.tests, answers))}: {value_text(value)}.",
                tuple(_check(test, holds, value) for test, holds in zip(rule.tests, answers, strict=True)),
            )


def _for_sides(
    rule: Rule, cases: Sequence[LabelledCase], value_type: ValueType
) -> Iterator[tuple[str, tuple[Check, ...]]]:
    a, b, c, d = rule.column.table(outcome(cases, None, value_type))
    test, better = rule.tests[0], a + d > b + c
    yield f"The better side is the one where {_clause(test, better)}.", (_check(test, better, None),)


def _commonest(labels: Sequence[Value], value_type: ValueType) -> Value | None:
    if value_type.numeric:
        return sorted(labels)[(len(labels) - 1) // 2] if labels else None
    counts = Counter(labels)
    return next((label for label in counts if 2 * counts[label] > len(labels)), None)


def _clause(test: CodeTest, holds: bool) -> str:
    text = sentence(test, positive=holds)
    return text[0].lower() + text[1:]


def _check(test: CodeTest, holds: bool, value: Value | None) -> Check:
    return Check(question=sentence(test), answer="yes" if holds else "no", value=value, test=test)
