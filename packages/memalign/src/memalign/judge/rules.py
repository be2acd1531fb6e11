"""Rules that code decides: what an expert forbids in so many words, or a person confirmed.

Nothing of this is stored but the person's word. Whether a rule decides follows from the guideline,
its test and all labels in memory. So a label that contradicts it takes it out of force at once, and
so does forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memalign.cache import cached
from memalign.content import Part
from memalign.content.normal import literal_form
from memalign.judge.borne_out import (
    ALPHA,
    chance,
    column_of,
    labelled_cases,
    outcome_of,
)
from memalign.judge.code_tests import (
    Reading,
    form_of,
    found_words,
    has_word,
    holds,
    literal_of,
    named_in,
    sentence,
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

    def is_broken_by(self, reading: Reading) -> bool:
        """Return whether an item breaks the rule; a literal counts outside quotations only."""
        if holds(self.test, reading) is not self.answer:
            return False
        if not self.answer or self.test.kind not in ("word", "contains", "shape"):
            return True
        said = without_quotations(reading.text(self.test.field, str))
        acronym = self._acronym()
        if acronym:
            return has_word(said, acronym)
        return has_word(form_of(self.test)(said), literal_of(self.test))

    def _acronym(self) -> str:
        """Return the literal in capitals if the guideline spells it so: "US" is not "us"."""
        capitals = literal_form(self.test.text).upper()
        before, spelled, _ = literal_form(self.guideline.text).partition(capitals)
        return spelled if self.test.kind != "shape" and not before.isupper() else ""


def ruled_judgment(task: Task, memory: Memory, item: Item) -> Judgment | None:
    """Return the judgment of the rules that an item breaks.

    Args:
        task: What the judge asks.
        memory: Has the rules.
        item: What is to be judged.

    Returns:
        The judgment, or None if the item breaks none, or rules that differ.
    """
    rules = rules_in_force(memory, task.value_type)
    broken = [rule for rule in rules if rule.is_broken_by(item.reading)]
    if len({value_text(rule.value) for rule in broken}) != 1:
        return None
    findings = []
    for rule in broken:
        finding = Finding(
            guideline=rule.guideline.id,
            value=rule.value,
            evidence=found_words(rule.test, item.reading) if rule.answer else None,
            test=sentence(rule.test),
            holds=rule.answer,
            taught_by=memory.sources_of(rule.guideline),
        )
        findings.append(finding)
    first = broken[0]
    return Judgment(
        id=item.example.id,
        value=first.value,
        rationale=f"{first.guideline.id} decides by code: {first}. {first.guideline.text}",
        decided_by="rule",
        findings=tuple(findings),
        guideline_ids=tuple(dict.fromkeys(rule.guideline.id for rule in broken)),
        memory_hash=memory.hash,
    )


def rules_in_force(memory: Memory, value_type: ValueType) -> tuple[CodeRule, ...]:
    """Return the rules by which code decides, in the order of the guidelines."""

    def make() -> tuple[CodeRule, ...]:
        made = []
        for guideline, test in memory.tests:
            rule = _Candidate(memory, value_type, guideline, test).rule()
            if isinstance(rule, CodeRule):
                made.append(rule)
        return tuple(made)

    return cached(memory, ("rules", value_type), make)


def kept_rules(
    memory: Memory, value_type: ValueType, found: Sequence[Finding]
) -> set[str | None]:
    """Return the tests among `found` whose rules would have decided the item, if it broke them.

    Nothing follows from a rule that an item keeps. A weak model that is told so takes it for the
    reason of its verdict: the embedded one had 5 of 24 items right with it, 17 without.
    """
    breaking = {}
    for rule in rules_in_force(memory, value_type):
        breaking[sentence(rule.test)] = rule.answer
    kept = set()
    for fact in found:
        answer = breaking.get(fact.test or "")
        if answer is not None and answer is not fact.holds:
            kept.add(fact.test)
    return kept


def rule_sentence(memory: Memory, value_type: ValueType, guideline: Guideline) -> str:
    """Return whether code decides by a guideline, and if not, why; empty without a test."""
    rules = _rules(memory, value_type, guideline)
    if not rules:
        return ""
    why = next((rule for rule in rules if isinstance(rule, CodeRule)), rules[0])
    if isinstance(why, CodeRule):
        if memory.status(guideline) == "active":
            return f"Code decides: {why}; no model is asked."
        why = rules[0] if isinstance(rules[0], str) else "the guideline is not in force"
    return f"Code does not decide: {why}."


def lost_rules(before: Memory, after: Memory, value_type: ValueType) -> list[str]:
    """Return a sentence for each guideline by which code decided before, and does no longer."""
    lost = {rule.guideline.id for rule in rules_in_force(before, value_type)}
    lost -= {rule.guideline.id for rule in rules_in_force(after, value_type)}
    sentences = []
    for guideline in after.guidelines:
        if guideline.id in lost:
            why = rule_sentence(after, value_type, guideline) or "Code decides no more."
            sentences.append(f"{guideline.id}: {why}")
    return sentences


# -- whether a test of a guideline becomes a rule ----------------------------------------------


def _rules(
    memory: Memory, value_type: ValueType, guideline: Guideline
) -> list[CodeRule | str]:
    """Return the rule of each test, or why it makes none."""
    tests = guideline.tests
    return [_Candidate(memory, value_type, guideline, test).rule() for test in tests]


@dataclass(frozen=True)
class _Candidate:
    """A test of a guideline that may become a rule."""

    memory: Memory
    value_type: ValueType
    guideline: Guideline
    test: CodeTest

    def rule(self) -> CodeRule | str:
        """Return the rule, or why there is none."""
        confirmed = self.guideline.ruled_by is not None
        switched_off_by = self._switched_off_by()
        if switched_off_by is not None:
            return f"{switched_off_by} switched it off"
        if not named_in(self.test, self.guideline.text):
            return "the guideline does not name what the test looks for"
        answer = self._forbidden_answer()
        if answer is None and not confirmed:
            what = "it asks for something, or has a condition"
            return f"{what}, and nobody confirmed it for every item (--rule)"
        if answer is None:
            answer = self._rejecting_answer()
        value = self._value_where(answer)
        if value is None:
            return "more than two labels are possible"
        against = self._counterexample(answer, value)
        if against is not None:
            return f"{against} speaks against it"
        if not self._is_borne_out(answer, value):
            return "too few labels bear it out"
        other = None if confirmed else self._said_otherwise()
        if other is not None:
            return f"{other} makes an exception, or says otherwise"
        return CodeRule(self.guideline, self.test, answer, value)

    def _switched_off_by(self) -> str | None:
        """Return who said that code may not decide by this test, of whichever guideline."""
        if self.guideline.ruled_by is not None or self.guideline.unruled_by is not None:
            return self.guideline.unruled_by
        literal = literal_form(self.test.text).casefold()
        for other in self.memory.guidelines:
            for same in other.tests if other.unruled_by is not None else ():
                alike = literal_form(same.text).casefold() == literal
                if alike and same.field == self.test.field:
                    return other.unruled_by
        return None

    def _forbidden_answer(self) -> bool | None:
        """Return the answer that is forbidden of a reply, if an item that gives it is rejected."""
        if Part.parse(self.test.field).field != "outputs":
            return None  # a customer's words break no rule for replies
        comments = self._comments()
        text = self._unlabelled(self.guideline)
        answer = forbidden_answer(self.test, text, comments)
        by_model = self.guideline.origin == "distilled" and not self.guideline.pinned
        if answer is None and by_model and not excepting(text):
            # A model words a rule with its occasion; what the experts said themselves counts.
            answers = {forbidden_answer(self.test, comment) for comment in comments}
            if len(answers) == 1:
                answer = answers.pop()
        if answer is None or not self._rejects(answer):
            return None
        return answer

    def _comments(self) -> list[str]:
        """Return the experts' own words behind the guideline."""
        comments = []
        for key in self.guideline.supported_by:
            annotation = self.memory.annotation(key)
            words = annotation.rationale if annotation is not None else None
            comments.append(words or "")
        return comments

    def _unlabelled(self, guideline: Guideline) -> str:
        """Return the text of a guideline without the label that stands at its end."""
        text = guideline.text
        for label in self.value_type.labels:
            text = text.removesuffix(f": {value_text(label)}.")
        return text

    def _rejects(self, answer: bool) -> bool:
        """Return whether a prohibition rejects: "No apology." may describe a bad reply."""
        if self.value_type.kind == "bool":
            return self._value_where(answer) is False
        ids = {key.id for key in self.guideline.supported_by}
        if not ids:
            return True
        for case in filter(None, map(self.memory.case, ids)):
            reading = Reading(case.example.content)
            if holds(self.test, reading) is answer:
                return True
        return False

    def _rejecting_answer(self) -> bool:
        """Return the answer of a confirmed rule: of yes and no the one that means no."""
        means_yes = self.value_type.kind == "bool" and self.test.value is not False
        return self.test.holds is not means_yes

    def _value_where(self, answer: bool) -> Value | None:
        """Return the label if the test answers so: the test's own, or the other one of two."""
        labels = self.value_type.labels
        own = self.test.value
        if own not in labels:
            return None
        if answer is self.test.holds:
            return own
        others = [label for label in labels if label != own]
        if len(others) != 1:
            return None
        return others[0]

    def _counterexample(self, answer: bool, value: Value) -> str | None:
        """Return the key of feedback with another label although the test answers so, or None."""
        cases = self.memory.cases
        readings = cached(
            self.memory,
            "readings",
            lambda: [Reading(case.example.content) for case in cases],
        )
        for case, reading in zip(cases, readings, strict=True):
            if holds(self.test, reading) is answer:
                for annotation in case.annotations:
                    if annotation.value not in (None, value):
                        return str(annotation.key)
        return None

    def _is_borne_out(self, answer: bool, value: Value) -> bool:
        """Return whether labels agree with the rule better than by chance."""
        memory = self.memory
        kind = self.value_type
        cases = cached(
            memory, ("labelled cases", kind), lambda: labelled_cases(memory, kind)
        )
        if not cases:
            return False
        column = column_of(cases, self.test)
        if not answer:
            column = column.turned()
        table = column.table(outcome_of(cases, value))
        return chance(table) <= ALPHA

    def _said_otherwise(self) -> str | None:
        """Return whose words name what the test finds, and make an exception or allow it."""
        for other in self.memory.semantic:
            if other.pinned and other.id != self.guideline.id and self._allows(other):
                return other.id
        for annotation in self.memory.annotations():
            comment = annotation.rationale
            if not comment or not named_in(self.test, comment):
                continue
            if (
                annotation.value is None
                and forbidden_answer(self.test, comment) is None
            ):
                return str(annotation.key)
            if excepting(comment):
                return str(annotation.key)
        return None

    def _allows(self, guideline: Guideline) -> bool:
        """Return whether a guideline names what the test finds, and does not forbid it."""
        if not named_in(self.test, guideline.text):
            return False
        text = self._unlabelled(guideline)
        return forbidden_answer(self.test, text) is None
