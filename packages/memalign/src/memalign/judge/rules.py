"""Rules that code decides: what an expert forbids in so many words, and what a person confirmed for every item.

Nothing of this is stored but the person's word. Whether a rule decides follows from the guideline, its test and all
labels in memory, so that a label which speaks against it takes it out of force at once, and so does forgetting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from memalign.cache import cached
from memalign.content import Part
from memalign.content.normal import literal_form
from memalign.judge.borne_out import ALPHA, chance, column_of, labelled_cases, outcome_of
from memalign.judge.code_tests import (
    Reading,
    found_words,
    holds,
    named_in,
    places,
    sentence,
    shape,
)
from memalign.judge.prohibitions import excepting, forbidden_answer, without_quotations
from memalign.judge.task import Item, Task
from memalign.memory import Memory
from memalign.types import CodeTest, Finding, Guideline, Judgment
from memalign.values import Value, ValueType, value_text

__all__ = [
    "CodeRule",
    "kept_rules",
    "lost_rules",
    "rule_sentence",
    "ruled_judgment",
    "rules_in_force",
]


class CodeRule(NamedTuple):
    """Where `test` answers `answer`, the verdict is `value`; nothing follows from the contrary."""

    guideline: Guideline
    test: CodeTest
    answer: bool
    value: Value

    def __str__(self) -> str:
        """`where the reply has the word "unfortunately", the verdict is false`."""
        said = sentence(self.test, positive=self.answer)
        return f"where {said[0].lower()}{said[1:]}, the verdict is {value_text(self.value)}"


def ruled_judgment(task: Task, memory: Memory, item: Item) -> Judgment | None:
    """Return the judgment of the rules that an item breaks; None where it breaks none, or where they differ."""
    rules = rules_in_force(memory, task.value_type)
    if not rules:
        return None
    reading = item.reading
    broken = [
        rule for rule in rules if holds(rule.test, reading) is rule.answer and _plain(rule, reading)
    ]
    if len({value_text(rule.value) for rule in broken}) != 1:
        return None
    findings = [
        Finding(
            guideline=rule.guideline.id,
            value=rule.value,
            evidence=found_words(rule.test, reading) if rule.answer else None,
            test=sentence(rule.test),
            holds=rule.answer,
            taught_by=memory.sources_of(rule.guideline),
        )
        for rule in broken
    ]
    ids = tuple(dict.fromkeys(rule.guideline.id for rule in broken))
    first = broken[0]
    return Judgment(
        id=item.id,
        value=first.value,
        rationale=f"{first.guideline.id} decides by code: {first}. {first.guideline.text}",
        decided_by="rule",
        findings=tuple(findings),
        guideline_ids=ids,
        memory_hash=memory.hash,
    )


def rules_in_force(memory: Memory, value_type: ValueType) -> tuple[CodeRule, ...]:
    """Return the rules by which code decides, in the order of the guidelines."""

    def make() -> tuple[CodeRule, ...]:
        rules = []
        for guideline in memory.semantic:
            for test in guideline.tests:
                rule = _rule(memory, value_type, guideline, test)
                if isinstance(rule, CodeRule):
                    rules.append(rule)
        return tuple(rules)

    return cached(memory, ("rules", value_type), make)


def kept_rules(memory: Memory, value_type: ValueType, found: Iterable[Finding]) -> frozenset[str]:
    """Return the tests among `found` whose rules would have decided the item, if it broke them.

    Nothing follows from a rule that an item keeps. A weak model that is told so takes it for
    the reason of its verdict: the embedded one had 5 of 24 items right with it, 17 without.
    """
    breaking = {sentence(rule.test): rule.answer for rule in rules_in_force(memory, value_type)}
    return frozenset(
        finding.test
        for finding in found
        if finding.test in breaking and finding.holds is not breaking[finding.test]
    )


def rule_sentence(memory: Memory, value_type: ValueType, guideline: Guideline) -> str:
    """Return in a sentence whether code decides by a guideline, and if not, why; empty without a test."""
    reasons = [_rule(memory, value_type, guideline, test) for test in guideline.tests]
    deciding = [rule for rule in reasons if isinstance(rule, CodeRule)]
    if not reasons:
        return ""
    if memory.status(guideline) == "active" and deciding:
        return f"Code decides: {deciding[0]}; no model is asked."
    why = reasons[0] if isinstance(reasons[0], str) else "the guideline is not in force"
    return f"Code does not decide: {why}."


def lost_rules(before: Memory, after: Memory, value_type: ValueType) -> list[str]:
    """Return a sentence for each guideline by which code decided before, and does no longer."""
    deciding = {rule.guideline.id for rule in rules_in_force(after, value_type)}
    standing = {guideline.id for guideline in after.guidelines}
    lost = dict.fromkeys(rule.guideline.id for rule in rules_in_force(before, value_type))
    named = [name for name in lost if name in standing and name not in deciding]
    return [
        f"{name}: {rule_sentence(after, value_type, after.guideline(name)) or 'Code decides no more.'}"
        for name in named
    ]


def _plain(rule: CodeRule, reading: Reading) -> bool:
    """Return whether a forbidden literal stands in the item as a word of its own, spelled so, outside quotations."""
    test = rule.test
    if not rule.answer or test.kind not in ("word", "contains", "shape"):
        return True
    literal = literal_form(test.text)
    capitals = literal.upper()
    form: Callable[[str], str] = shape if test.kind == "shape" else str.casefold
    before, spelled, _ = literal_form(rule.guideline.text).partition(capitals)
    if test.kind != "shape" and spelled and not before.isupper():
        form = str  # "US" is not "us"
        literal = capitals
    said = form(without_quotations(reading.text(test.field, str)))
    return next(places(said, form(literal)), -1) >= 0


def _rule(
    memory: Memory, value_type: ValueType, guideline: Guideline, test: CodeTest
) -> CodeRule | str:
    """Return the rule that a guideline's test makes, or why it makes none."""
    if (by := _switched_off(memory, guideline, test)) is not None:
        return f"{by} switched it off"
    if not named_in(test, guideline.text):
        return "the guideline does not name what the test looks for"
    answer = _forbidden_answer(memory, value_type, guideline, test)
    if answer is None and guideline.ruled_by is None:
        return "it asks for something, or has a condition, and nobody confirmed it for every item (--rule)"
    if answer is None:
        answer = _rejecting(value_type, test)
    value = _value_where(value_type, test, answer)
    if value is None:
        return "more than two labels are possible"
    if against := _counterexample(memory, test, answer, value):
        return f"{against} speaks against it"
    cases = cached(
        memory, ("labelled cases", value_type), lambda: labelled_cases(memory, value_type)
    )
    column = column_of(cases, test)
    table = (column if answer else column.turned()).table(outcome_of(cases, value))
    if not cases or chance(table) > ALPHA:
        return "too few labels bear it out"
    if guideline.ruled_by is None and (
        other := _said_otherwise(memory, value_type, test, guideline)
    ):
        return f"{other} makes an exception, or says otherwise"
    return CodeRule(guideline, test, answer, value)


def _switched_off(memory: Memory, guideline: Guideline, test: CodeTest) -> str | None:
    """Return who said that code may not decide by a test, of this guideline or of another one that has it."""
    if guideline.ruled_by is not None or guideline.unruled_by is not None:
        return guideline.unruled_by
    literal = literal_form(test.text).casefold()
    for other in memory.guidelines:
        if other.unruled_by is not None:
            for same in other.tests:
                if (same.field, literal_form(same.text).casefold()) == (test.field, literal):
                    return other.unruled_by
    return None


def _forbidden_answer(
    memory: Memory, value_type: ValueType, guideline: Guideline, test: CodeTest
) -> bool | None:
    """Return the answer that is forbidden: of a reply, and where it means the label of those who keep no rule."""
    if Part.parse(test.field).field != "outputs":
        return None  # a customer's words break no rule for replies
    annotations = [memory.annotation(key) for key in guideline.supported_by]
    comments = [(annotation.rationale if annotation else None) or "" for annotation in annotations]
    text = _unlabelled(value_type, guideline)
    answer = forbidden_answer(test, text, comments)
    if (
        answer is None
        and guideline.origin == "distilled"
        and not guideline.pinned
        and not excepting(text)
    ):
        # A model words a rule with its occasion; what the experts said themselves counts.
        answers = {forbidden_answer(test, comment) for comment in comments}
        answer = answers.pop() if len(answers) == 1 else None
    if answer is None or _rejects(memory, value_type, guideline, test, answer):
        return answer
    return None


def _unlabelled(value_type: ValueType, guideline: Guideline) -> str:
    text = guideline.text
    for label in map(value_text, value_type.labels):
        text = text.removesuffix(f": {label}.")
    return text


def _rejects(
    memory: Memory, value_type: ValueType, guideline: Guideline, test: CodeTest, answer: bool
) -> bool:
    """Return whether a prohibition rejects: "No apology." of a bad reply without one describes it."""
    if value_type.kind == "bool":
        return _value_where(value_type, test, answer) is False
    ids = {key.id for key in guideline.supported_by}
    readings = [Reading(case.example.content) for case in memory.cases if case.id in ids]
    return not ids or any(holds(test, reading) is answer for reading in readings)


def _said_otherwise(
    memory: Memory, value_type: ValueType, test: CodeTest, guideline: Guideline
) -> str | None:
    """Return whose words name what a test finds and make an exception, or without a label do not forbid it."""
    for other in memory.semantic:
        named = other.pinned and other.id != guideline.id and named_in(test, other.text)
        if named and forbidden_answer(test, _unlabelled(value_type, other)) is None:
            return other.id
    for case in memory.cases:
        for annotation in case.annotations:
            comment = annotation.rationale
            if comment and named_in(test, comment):
                forbids = (
                    annotation.value is not None or forbidden_answer(test, comment) is not None
                )
                if excepting(comment) or not forbids:
                    return str(annotation.key)
    return None


def _rejecting(value_type: ValueType, test: CodeTest) -> bool:
    """Return the answer by which a confirmed rule decides: of yes and no the one that means no, else the feedback's."""
    return test.holds if value_type.kind != "bool" or test.value is False else not test.holds


def _value_where(value_type: ValueType, test: CodeTest, answer: bool) -> Value | None:
    """Return the label where the test answers so: the test's own, or the other one of two."""
    if test.value not in value_type.labels:
        return None
    others = [label for label in value_type.labels if label != test.value]
    if answer is test.holds:
        return test.value
    return others[0] if len(others) == 1 else None


def _counterexample(memory: Memory, test: CodeTest, answer: bool, value: Value) -> str | None:
    """Return the key of feedback, whoever gave it, whose label is another one although the test answers so."""
    readings = cached(
        memory, "readings", lambda: [Reading(case.example.content) for case in memory.cases]
    )
    for case, reading in zip(memory.cases, readings, strict=True):
        if holds(test, reading) is answer:
            for annotation in case.annotations:
                if annotation.value is not None and annotation.value != value:
                    return str(annotation.key)
    return None
