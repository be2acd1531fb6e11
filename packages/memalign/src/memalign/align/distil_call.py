"""One call of distillation: what it asks about, so that the prompt fits, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec.structs import replace as replace_struct

from memalign.align.deltas import ONE_RULE, Delta, Outcome, deltas_of, deltas_schema, refused_rules, rule_of
from memalign.align.distil_checks import ONLY_CHECKS, CheckReader, ReadChecks
from memalign.content import judged_texts
from memalign.content.parts import part_in
from memalign.errors import ModelError, ModelRefused
from memalign.judge import Judge
from memalign.memory import Annotation, Case, Memory, Shard
from memalign.models.base import ChatModel, ChatReply, ChatRequest
from memalign.models.raw_answers import asked_about
from memalign.prompts import DistilRecord, render_distil, render_distil_checks, render_distil_one
from memalign.prompts.encoding import estimate_tokens
from memalign.prompts.fit import FeedbackRecord, fit_records
from memalign.types import FeedbackKey, Guideline, Usage

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
ADVICE = "; it may decline these words every time: overwrite or unalign the feedback, or take another reflection model"


@dataclass(frozen=True, kw_only=True)
class DistilCall:
    """Some of a shard's `waiting` feedback, beside the shard's `guidelines` and, with `known`, what these state.

    Without `contrast` the judge's own verdict is shown only where the expert used no words.
    """

    judge: Judge
    memory: Memory
    model: ChatModel
    shard: Shard
    waiting: tuple[FeedbackKey, ...]
    guidelines: tuple[Guideline, ...]
    known: bool = True
    contrast: bool = True

    def parts(self) -> list[DistilCall]:
        """The call, or several smaller ones: prompts that fit, with useful parts of the cases and the experts' words."""
        least = min(USEFUL_TOKENS, self._most)
        if self._fits(fit_records(self._feedback, lambda _: True, most=least)):
            return [self]
        if self.known:
            return replace(self, known=False).parts()
        if len(self.waiting) == 1:
            return [self]
        half = (len(self.waiting) + 1) // 2
        halves = self.waiting[:half], self.waiting[half:]
        return [part for some in halves for part in replace(self, waiting=some).parts()]

    async def outcome(self) -> Outcome:
        """What the model answers. It is asked once more about records whose only rule was refused."""
        with asked_about(f"lessons of {', '.join(map(str, self.waiting))}"):
            return await self._outcome()

    async def _outcome(self) -> Outcome:
        records = fit_records(self._feedback, self._fits, most=self._most)
        first = await self._ask(records, {})
        refused = refused_rules(first, self.memory)
        if refused:
            labels = {key: label for label, key in self._labels.items()}
            second = await self._ask(records, {labels[key]: why for key, why in refused.items()})
            first = first.amended(second, refused)
        return await self._with_checks(first, records[-1]) if self._one_rule else first

    async def _ask(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> Outcome:
        outcome = Outcome(shard=self.shard, waiting=self.waiting, exposed_to=self._exposed_to)
        try:
            reply = await self.model.complete(self._request(records, refused))
        except ModelError as error:
            why = f"{type(error).__name__}: {error}{ADVICE if isinstance(error, ModelRefused) else ''}"
            return outcome.failed(why, error.usage or Usage())
        return outcome.answered(self._deltas(reply), reply.usage)

    async def _with_checks(self, outcome: Outcome, record: DistilRecord) -> Outcome:
        """The outcome of a weak model with checks of its rule, which are asked for on their own. The rule stays anyhow."""
        rule = next((delta for delta in outcome.deltas if delta.action == "ADD"), None)
        if rule is None or refused_rules(outcome, self.memory):
            return outcome

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
        return replace_struct(outcome, deltas=(replace_struct(rule, checks=read),), usage=outcome.usage + usage)

    def _deltas(self, reply: ChatReply) -> tuple[Delta, ...]:
        if not self._one_rule:
            return deltas_of(reply, self._labels, self._reader)
        annotation, case = self._annotation(self.waiting[0])
        return (rule_of(reply, annotation=annotation, case=case, value_type=self.judge.value_type),)

    @property
    def _reader(self) -> CheckReader:
        cases = (self._annotation(key)[1] for key in self.shard.keys)
        return CheckReader(
            value_type=self.judge.value_type,
            task=self.judge.instructions,
            remarks={key: self._annotation(key) for key in self.waiting},
            judged=[said for case in cases for said in judged_texts(case.example.content)],
        )

    # -- the prompt ----------------------------------------------------------------------------------------------------

    @cached_property
    def _one_rule(self) -> bool:
        """Whether a weak model is asked for one rule from one record."""
        return len(self.shard.keys) == 1 and not self.guidelines and self.model.limits.brief

    @cached_property
    def _labels(self) -> dict[str, FeedbackKey]:
        return {f"F{n}": key for n, key in enumerate(self.shard.keys, start=1)}

    @cached_property
    def _exposed_to(self) -> tuple[FeedbackKey, ...]:
        """Every record of the prompt, and all that its guidelines were exposed to."""
        records = {self._labels[record.label] for record in self._feedback}
        return tuple(sorted(records.union(*(guideline.exposed_to for guideline in self._shown_guidelines))))

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
        return ONE_RULE_TOKENS if self._one_rule else min(256 + RULE_TOKENS * len(self.waiting), ANSWER_TOKENS)

    @cached_property
    def _feedback(self) -> tuple[FeedbackRecord, ...]:
        carried = {key for guideline in self._shown_guidelines for key in guideline.supported_by}
        chosen = {*self.waiting, *(carried if self.known else ())}
        return tuple(self._record(label, key) for label, key in self._labels.items() if key in chosen)

    def _record(self, label: str, key: FeedbackKey) -> FeedbackRecord:
        annotation, case = self._annotation(key)
        before = case.pre_alignment if self.contrast or not annotation.rationale else None
        seen = ((name, part_in(case.example.content, name)) for name in self.judge.parts)
        return FeedbackRecord(
            label=label,
            content=tuple((name, value) for name, value in seen if value is not None),
            value=annotation.value,
            rationale=annotation.rationale,
            judge=None if before is None else before.value,
            judge_rationale=None if before is None else before.rationale,
        )

    def _annotation(self, key: FeedbackKey) -> tuple[Annotation, Case]:
        annotation = self.memory.annotation(key)
        case = self.memory.case(annotation.id) if annotation else None
        if annotation is None or case is None:  # shards hold live keys only; anything else is a defect of ours
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
        new = [record for record in records if self._labels[record.label] in self.waiting]
        if self._one_rule:
            why = next(iter(refused.values()), None)
            return render_distil_one(instructions=instructions, value_type=value_type, record=new[0], refused=why)
        return render_distil(
            instructions=instructions,
            value_type=value_type,
            guidelines=self._shown_guidelines,
            known=[record for record in records if record not in new],
            records=new,
            refused=refused,
        )

    def _request(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> ChatRequest:
        system, user = self._prompt(records, refused)
        if self._one_rule:
            return self._held(system, user, ONE_RULE, "rule")
        new = [label for label, key in self._labels.items() if key in self.waiting]
        return self._held(system, user, deltas_schema(new, [g.id for g in self._shown_guidelines]), "changes")

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
