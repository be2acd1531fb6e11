"""One call of distillation: what it asks about, so that the prompt fits, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec.structs import replace as replace_struct

from memalign.align.deltas import ONE_RULE, CallAnswer, Delta, changes_schema, refused_rules, rule_of
from memalign.align.distil_checks import ONLY_CHECKS, CheckReader, ReadChecks
from memalign.align.proposed_tests import ProposedTests
from memalign.content import judged_texts, part_in
from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.judge import Judge
from memalign.memory import Annotation, Case, FeedbackConflict, Memory, PreAlignmentVerdict
from memalign.memory.guard import guideline_fault, tidy
from memalign.models.base import ChatModel, ChatReply, ChatRequest
from memalign.models.raw_answers import asked_about
from memalign.prompts import DistilRecord, render_distil, render_distil_checks, render_distil_one
from memalign.prompts.encoding import estimate_tokens
from memalign.prompts.fit import FeedbackRecord, fit_records
from memalign.types import FeedbackKey, Guideline, Usage
from memalign.values import value_text

__all__ = ["DistilCall"]

CASE_TOKENS = {True: 400, False: 3000}
"""Of one case in a prompt at most, for a brief model and for others."""
USEFUL_TOKENS = 100
"""Of each text of a case. Where there is no room for so many, the call asks about fewer records."""
RULE_TOKENS = 260
"""Of the answer, for each record: a rule and its checks."""
ANSWER_TOKENS = 8_192
"""Of the answer at most: of fifty comments strong models wrote seventeen rules. One that is cut is asked for with more."""
ONE_RULE_TOKENS = 280
"""Of a brief model's answer, a rule or checks: all that its schema allows, and more of most languages."""
MARGIN = 64
RETRIES = 12
"""Calls more for one that was answered wrongly or refused: enough to find one record of fifty by halves, and its neighbour."""
ADVICE = "; it may decline these words every time: overwrite or unalign the feedback, or take another reflection model"


@dataclass(frozen=True, kw_only=True)
class DistilCall:
    """What the feedback of `keys` teaches beside the `guidelines` that stand, in the order of the keys.

    `questions` says whether each guideline gets questions too, for a judge with a decision model.
    """

    judge: Judge
    memory: Memory
    model: ChatModel
    keys: tuple[FeedbackKey, ...]
    guidelines: tuple[Guideline, ...] = ()
    questions: bool = False

    def of(self, keys: Sequence[FeedbackKey]) -> DistilCall:
        """The same call about these keys alone."""
        return replace(self, keys=tuple(keys))

    def parts(self) -> list[DistilCall]:
        """The call, or several smaller ones: prompts that fit, with useful parts of the cases and the experts' words."""
        least = min(USEFUL_TOKENS, self._most)
        if len(self.keys) == 1 or self._fits(fit_records(self._feedback, lambda _: True, most=least)):
            return [self]
        return [part for half in self._halves() for part in half.parts()]

    async def answers(self) -> list[CallAnswer]:
        """What the model answers. A wrong, cut or refused answer is asked for again by halves; what fails has the reason."""
        calls, answers, left = [self], list[CallAnswer](), RETRIES
        while calls:
            call = calls.pop(0)
            with asked_about(f"lessons of {', '.join(map(str, call.keys))}"):
                answer, again = await call._answer()
            if again and len(call.keys) > 1 and left > 1:
                calls, left = [*call._halves(), *calls], left - 2
                answers.append(CallAnswer(keys=(), usage=answer.usage))
            else:
                answers.append(answer)
        return answers

    def _halves(self) -> tuple[DistilCall, DistilCall]:
        half = (len(self.keys) + 1) // 2
        return self.of(self.keys[:half]), self.of(self.keys[half:])

    async def _answer(self) -> tuple[CallAnswer, bool]:
        """What the model answers, and whether fewer records may be answered better.

        It is asked once more about records whose only rule was refused.
        """
        records = fit_records(self._feedback, self._fits, most=self._most)
        first, again = await self._ask(records, {})
        refused = refused_rules(first, self.memory)
        if refused:
            labels = {key: label for label, key in self._labels.items()}
            second, _ = await self._ask(records, {labels[key]: why for key, why in refused.items()})
            first = first.amended(second, refused)
        return (await self._with_checks(first, records[-1]) if self._one_rule else first), again

    async def _ask(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> tuple[CallAnswer, bool]:
        shown = tuple(guideline.id for guideline in self._shown_guidelines)
        answer = CallAnswer(keys=self.keys, shown=shown, exposed_to=self._exposed_to)
        try:
            reply = await self.model.complete(self._request(records, refused))
        except ModelError as error:
            why = f"{type(error).__name__}: {error}{ADVICE if isinstance(error, ModelRefused) else ''}"
            return answer.failed(why, error.usage or Usage()), isinstance(error, InvalidOutput | ModelRefused)
        if self._one_rule:
            return replace_struct(answer, deltas=(self._one_delta(reply),), usage=reply.usage), False
        deltas, conflicts = self._deltas(reply), self._conflicts(reply)
        return replace_struct(answer, deltas=deltas, conflicts=conflicts, usage=reply.usage), False

    async def _with_checks(self, answer: CallAnswer, record: DistilRecord) -> CallAnswer:
        """The answer of a weak model with questions of its rule, which are asked for alone. The rule stays anyhow."""
        rule = next((delta for delta in answer.deltas if delta.action == "ADD"), None)
        if not self.questions or rule is None or rule.fault is not None:
            return answer

        def prompt(record: DistilRecord) -> tuple[str, str]:
            return render_distil_checks(
                instructions=self.judge.instructions, value_type=self.judge.value_type, record=record, rule=rule.text
            )

        # What is said around a comment is longer here than where it asks for a rule.
        if not self._leave_room(*prompt(record)):
            fitted = fit_records(self._feedback, lambda some: self._leave_room(*prompt(some[-1])), most=self._most)
            record = fitted[-1]
        try:
            reply = await self.model.complete(self._held(*prompt(record), ONLY_CHECKS, "checks"))
        except ModelError as error:
            read, usage = ReadChecks(faults=(f"{type(error).__name__}: {error}",)), error.usage or Usage()
        else:
            read, usage = self._reader.read(reply.data.get("checks"), rule.feedback), reply.usage
        return replace_struct(answer, deltas=(replace_struct(rule, checks=read),), usage=answer.usage + usage)

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _one_delta(self, reply: ChatReply) -> Delta:
        annotation, case = self._annotation(self.keys[0])
        delta = rule_of(reply, annotation=annotation, case=case, value_type=self.judge.value_type)
        return replace_struct(delta, fault=self._fault(delta.text, delta.feedback)) if delta.writes else delta

    def _deltas(self, reply: ChatReply) -> tuple[Delta, ...]:
        """The model's changes, with labels turned into keys and their checks read."""
        changes = reply.data.get("changes")
        changes = [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
        tests = ProposedTests(
            changes=changes,
            memory=self.memory,
            shown=self._exposed_to,
            value_type=self.judge.value_type,
            fields=self.judge.parts,
            judged=self._judged,
        )
        return tuple(self._delta(change, tests) for change in changes)

    def _delta(self, change: Mapping[str, Any], tests: ProposedTests) -> Delta:
        delta = Delta(
            action=str(change.get("action")),
            text=tidy(str(change.get("text") or "")),
            feedback=self._named(change.get("feedback")),
            guideline=str(change.get("guideline")) if change.get("guideline") else None,
        )
        if not delta.writes:
            return delta
        checks, faults = tests.read(change.get("tests"), delta.feedback)
        asked = (
            self._reader.read(change.get("checks"), delta.feedback, change.get("value"))
            if self.questions
            else ReadChecks()
        )
        read = ReadChecks(checks=(*checks, *asked.checks), faults=(*faults, *asked.faults))
        return replace_struct(delta, fault=self._fault(delta.text, delta.feedback), checks=read)

    def _conflicts(self, reply: ChatReply) -> tuple[FeedbackConflict, ...]:
        """The feedback that contradicts other feedback. What it is about may say nothing that a guideline may not."""
        entries = reply.data.get("conflicts")
        conflicts = []
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            keys = tuple(sorted({key for key in self._named(entry.get("feedback")) if key in self.keys}))
            about = tidy(str(entry.get("about") or ""))
            about = about if self._fault(about, keys) is None else ""
            if len(keys) > 1:
                conflicts.append(FeedbackConflict(feedback=keys, about=about, exposed_to=self._exposed_to))
        return tuple(conflicts)

    def _named(self, labels: object) -> tuple[FeedbackKey, ...]:
        """The keys of labels; one that the model invented becomes the key of nothing."""
        names = labels if isinstance(labels, list) else ()
        return tuple(self._labels.get(str(label), FeedbackKey(str(label), "")) for label in names)

    def _fault(self, text: str, keys: Sequence[FeedbackKey]) -> str | None:
        """Why a text about the feedback of `keys` may not enter a prompt, or None."""
        annotations = (self.memory.annotation(key) for key in keys)
        comments = [each.rationale for each in annotations if each is not None and each.rationale]
        return guideline_fault(text, self._judged, comments)

    @cached_property
    def _judged(self) -> tuple[tuple[str, str], ...]:
        cases = (self._annotation(key)[1] for key in self.keys)
        return tuple(text for case in cases for text in judged_texts(case.example.content))

    @property
    def _reader(self) -> CheckReader:
        return CheckReader(
            value_type=self.judge.value_type,
            task=self.judge.instructions,
            remarks={key: self._annotation(key) for key in self.keys},
            judged=self._judged,
        )

    # -- the prompt ----------------------------------------------------------------------------------------------------

    @cached_property
    def _one_rule(self) -> bool:
        """Whether a weak model is asked for one rule from one record."""
        return len(self.keys) == 1 and not self.guidelines and self.model.limits.brief

    @cached_property
    def _labels(self) -> dict[str, FeedbackKey]:
        return {f"F{n}": key for n, key in enumerate(self.keys, start=1)}

    @cached_property
    def _exposed_to(self) -> tuple[FeedbackKey, ...]:
        """Every record of the prompt, and all that its guidelines and the judge's own verdicts were exposed to."""
        verdicts = (self._own_verdict(*self._annotation(key)) for key in self.keys)
        seen = [verdict.exposed_to for verdict in verdicts if verdict is not None]
        return tuple(sorted({*self.keys}.union(*seen, *(g.exposed_to for g in self._shown_guidelines))))

    @cached_property
    def _shown_guidelines(self) -> tuple[Guideline, ...]:
        """The first of them that fit in a quarter of the context."""
        shown, left = [], self.model.limits.context_tokens // 4
        for guideline in self.guidelines:
            left -= estimate_tokens(guideline.text) + 4
            if left < 0:
                break
            shown.append(guideline)
        return tuple(shown)

    @property
    def _most(self) -> int:
        return CASE_TOKENS[self.model.limits.brief] // max(len(self.judge.parts), 1)

    @property
    def _max_tokens(self) -> int:
        return ONE_RULE_TOKENS if self._one_rule else min(256 + RULE_TOKENS * len(self.keys), ANSWER_TOKENS)

    @cached_property
    def _feedback(self) -> tuple[FeedbackRecord, ...]:
        return tuple(self._record(label, key) for label, key in self._labels.items())

    def _record(self, label: str, key: FeedbackKey) -> FeedbackRecord:
        annotation, case = self._annotation(key)
        verdict = self._own_verdict(annotation, case)
        wrong = (
            verdict is not None
            and annotation.value is not None
            and not self.judge.value_type.agree(annotation.value, verdict.value)
        )
        seen = ((name, part_in(case.example.content, name)) for name in self.judge.parts)
        return FeedbackRecord(
            label=label,
            content=tuple((name, value) for name, value in seen if value is not None),
            value=annotation.value,
            rationale=annotation.rationale,
            judge=None if verdict is None else verdict.value,
            judge_rationale=verdict.rationale if verdict is not None and wrong else None,
        )

    def _own_verdict(self, annotation: Annotation, case: Case) -> PreAlignmentVerdict | None:
        """What the judge said of the case before its experts did, where that is known and can be compared.

        A weak model reads the expert's words alone, where there are any.
        """
        read = not (self._one_rule and annotation.rationale)
        known = read and self.judge.value_type.closed and annotation.value is not None
        return case.pre_alignment if known else None

    def _annotation(self, key: FeedbackKey) -> tuple[Annotation, Case]:
        annotation = self.memory.annotation(key)
        case = self.memory.case(annotation.id) if annotation else None
        if annotation is None or case is None:  # calls hold live keys only; anything else is a defect of ours
            raise LookupError(key)
        return annotation, case

    def _fits(self, records: Sequence[DistilRecord]) -> bool:
        # With room for what would be said of every rule if it were refused.
        system, user = self._prompt(records, dict.fromkeys((record.label for record in records), "x" * 60))
        return self._leave_room(system, user)

    def _leave_room(self, system: str, user: str) -> bool:
        """Whether an answer still fits into the context."""
        used = estimate_tokens(system) + estimate_tokens(user) + self._max_tokens + MARGIN
        return used <= self.model.limits.context_tokens

    def _prompt(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> tuple[str, str]:
        instructions, value_type = self.judge.instructions, self.judge.value_type
        if self._one_rule:
            why = next(iter(refused.values()), None)
            return render_distil_one(instructions=instructions, value_type=value_type, record=records[0], refused=why)
        return render_distil(
            instructions=instructions,
            value_type=value_type,
            fields=self.judge.parts,
            guidelines=self._shown_guidelines,
            records=records,
            refused=refused,
            questions=self.questions,
        )

    def _request(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> ChatRequest:
        system, user = self._prompt(records, refused)
        if self._one_rule:
            return self._held(system, user, ONE_RULE, "rule")
        ids = [guideline.id for guideline in self._shown_guidelines]
        values = [value_text(label) for label in self.judge.value_type.labels]
        schema = changes_schema(list(self._labels), ids, self.judge.parts, questions=self.questions, values=values)
        return self._held(system, user, schema, "changes")

    def _held(self, system: str, user: str, schema: dict[str, Any], name: str) -> ChatRequest:
        return ChatRequest(
            system=system,
            user=user,
            schema=schema,
            schema_name=name,
            max_tokens=self._max_tokens,
            temperature=0.0,
            timeout=self.judge.parameters.get("timeout"),
        )
