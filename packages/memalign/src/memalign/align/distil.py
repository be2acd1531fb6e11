"""Distillation: what experts said becomes guidelines, as many records a call as the model takes.

A prompt that writes text holds records and guidelines that stand, and nothing else. What each was exposed to is kept
with the guideline, so that forgetting is exact; what several calls teach is carried out in their order, whoever
finished first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from msgspec import structs

from memalign import aio
from memalign.align.deltas import CallAnswer, LeftOut, apply_answer, refused_rules
from memalign.align.distil_answer import ONE_RULE, ONLY_CHECKS, AnswerReader, changes_schema
from memalign.content import part_in
from memalign.content.encoding import estimate_tokens
from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.judge import Judge, Progress
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Annotation, Case, Memory, Outcome, PreAlignmentVerdict
from memalign.memory.guard import guideline_fault, tidy
from memalign.memory.retrieval import was_misjudged
from memalign.models.base import ChatModel, ChatRequest
from memalign.models.calls import Calls
from memalign.models.judge_models import check_model_of
from memalign.prompts import DistilRecord, render_distil, render_distil_checks, render_distil_one, render_merge
from memalign.prompts.fitting import FeedbackRecord, fit_records
from memalign.types import FeedbackKey, Guideline, Usage
from memalign.values import value_text

__all__ = ["by_likeness", "distil"]

CONTRAST = 0.1
"""How much less alike a case of another label may be to stand next: near opposites teach (LEAP, arXiv 2402.05403)."""
GUIDELINE_TOKENS = 4_000
"""Of all guidelines in force: what a judge's prompt holds of them at most. A memory with more is merged."""
CASE_TOKENS = {True: 400, False: 3000}
"""Of one case in a prompt at most, for a brief model and for others."""
USEFUL_TOKENS = 100
"""Of each text of a case. Where there is no room for so many, the call asks about fewer records."""
RULE_TOKENS = 260
"""Of the answer, for each record: a rule and its checks."""
ANSWER_TOKENS = 8_192
"""Of the answer at most: of fifty comments strong models wrote seventeen rules. A cut one is asked for with more."""
ONE_RULE_TOKENS = 280
"""Of a brief model's answer, a rule or checks: all that its schema allows, and more of most languages."""
MARGIN = 64
RETRIES = 12
"""Calls more for one answered wrongly or refused: enough to find one record of fifty by halves, and its neighbour."""
ADVICE = "; it may decline these words every time: overwrite or unalign the feedback, or take another reflection model"
NO_WORDS = "kept as an example: there were no words to learn from"


async def distil(
    judge: Judge, memory: Memory, model: ChatModel, calls: Calls, *, size: int, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with every pending annotation distilled, what that cost, and notes. Never raises for a failing model.

    Later feedback goes in with the guidelines that stand. Where several calls wrote the first guidelines side by side,
    and where guidelines outgrow their budget, one call more merges them; not where a call holds one record.

    Args:
        judge: The judge that learns.
        memory: What it is to know, with what is pending.
        model: Writes the guidelines.
        calls: Steers the calls of the align.
        size: How many records a call holds at most.
        progress: Is told of each call.
    """
    started = time.perf_counter()
    if size == 1:
        memory = _with_wordless_examples(judge, memory)
    parts = _calls(judge, memory, model, calls, size)
    answered = await aio.at_most(
        calls.in_flight(model), DistilCall.answers, parts, progress and partial(progress, "distil")
    )
    learned, outcomes, left_out, usage = memory, dict[FeedbackKey, Outcome | None](), LeftOut(), Usage()
    for answer in (answer for answers in answered for answer in answers):  # in their order: guideline ids depend on it
        learned, ended = apply_answer(learned, answer, memory, left_out)
        outcomes |= ended
        usage += answer.usage
    learned = learned.with_outcomes(outcomes)
    notes = left_out.notes()
    from_nothing = len(parts) > 1 and not any(g.supported_by and not g.people for g in memory.semantic)
    outgrown = learned.next_guideline > memory.next_guideline and _tokens(learned) > GUIDELINE_TOKENS
    if size > 1 and (from_nothing or outgrown):
        learned, spent, fault = await _merged(judge, learned, model, calls)
        usage, notes = usage + spent, (*notes, *fault)
    return learned, usage + Usage(seconds={"distil": time.perf_counter() - started}), notes


def _with_wordless_examples(judge: Judge, memory: Memory) -> Memory:
    """Labels alone are learned as examples where a call holds nothing else, unless the judge is known to be wrong."""
    judged_by = base_fingerprint_of(judge)
    wordless = [
        annotation.key
        for annotation in memory.pending
        if not annotation.rationale
        and not was_misjudged(memory, memory.record(annotation.key)[1], judge.value_type, judged_by)
    ]
    return memory.with_outcomes({key: Outcome(kind="example", reason=NO_WORDS, exposed_to=(key,)) for key in wordless})


def _tokens(memory: Memory) -> int:
    return sum(estimate_tokens(guideline.text) + 2 for guideline in memory.semantic)


def _calls(judge: Judge, memory: Memory, model: ChatModel, calls: Calls, size: int) -> list[DistilCall]:
    """The calls about all that waits: as few as may be, of equal size."""
    keys = [annotation.key for annotation in memory.pending]
    if size > 1:
        keys = by_likeness(memory, keys)
    count = -(-len(keys) // size)
    whole = DistilCall(
        judge=judge,
        memory=memory,
        model=model,
        calls=calls,
        keys=tuple(keys),
        guidelines=()
        if model.limits.brief and size == 1
        else tuple(g for g in memory.semantic if g.supported_by or g.people),
        questions=check_model_of(judge) is not None,
    )
    shares = [keys[n * len(keys) // count : (n + 1) * len(keys) // count] for n in range(count)]
    return [part for share in shares for part in whole.of(share).parts()]


def by_likeness(memory: Memory, keys: Sequence[FeedbackKey]) -> list[FeedbackKey]:
    """The keys so that each is followed by the most alike of the others, of another label if one is nearly as alike.

    The order depends on the keys and their cases alone.
    """
    import numpy as np  # see Memory.matrix

    ordered = sorted(set(keys))
    rows = {case.id: row for row, case in enumerate(memory.cases)}
    if len(ordered) < 3 or not memory.matrix.shape[1]:
        return ordered
    vectors = memory.matrix[[rows[key.id] for key in ordered]]
    labels = [memory.label(memory.cases[rows[key.id]]) for key in ordered]
    numbers = {label: number for number, label in enumerate(sorted(set(labels), key=str))}
    label_of = np.array([numbers[label] for label in labels])
    free = np.arange(len(ordered)) > 0
    order = [0]
    while len(order) < len(ordered):
        last = order[-1]
        alike = np.round(vectors @ vectors[last], 6) + CONTRAST * (label_of != label_of[last])
        order.append(int(np.argmax(np.where(free, alike, -np.inf))))
        free[order[-1]] = False
    return [ordered[place] for place in order]


# -- one call ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DistilCall:
    """What the feedback of `keys` teaches beside the `guidelines` that stand, in the order of the keys.

    `questions` says whether each guideline gets questions too, for a judge with a decision model.
    """

    judge: Judge
    memory: Memory
    model: ChatModel
    calls: Calls
    keys: tuple[FeedbackKey, ...]
    guidelines: tuple[Guideline, ...] = ()
    questions: bool = False

    def of(self, keys: Sequence[FeedbackKey]) -> DistilCall:
        """The same call about these keys alone."""
        return replace(self, keys=tuple(keys))

    def parts(self) -> list[DistilCall]:
        """The call, or smaller ones: prompts that fit, with useful parts of the cases and the experts' words."""
        least = min(USEFUL_TOKENS, self._most)
        if len(self.keys) == 1 or self._fits(fit_records(self._feedback, lambda _: True, most=least)):
            return [self]
        return [part for half in self._halves() for part in half.parts()]

    async def answers(self) -> list[CallAnswer]:
        """What the model answers. A wrong, cut or refused answer is asked for again by halves; what fails says why."""
        calls, answers, retries = [self], list[CallAnswer](), RETRIES
        while calls:
            call = calls.pop(0)
            answer, again = await call._answer()
            if again and len(call.keys) > 1 and retries > 1:
                calls, retries = [*call._halves(), *calls], retries - 2
                answer = CallAnswer(keys=(), usage=answer.usage)
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
        answer, again = await self._ask(records, {})
        if refused := refused_rules(answer, self.memory):
            reasons = {label: refused[key] for label, key in self._labels.items() if key in refused}
            second, _ = await self._ask(records, reasons)
            answer = answer.amended(second, refused)
        if self._one_rule and self.questions:
            answer = await self._with_questions(answer, records[-1])
        return answer, again

    async def _ask(self, records: Sequence[DistilRecord], refused: Mapping[str, str]) -> tuple[CallAnswer, bool]:
        shown = tuple(guideline.id for guideline in self._shown)
        answer = CallAnswer(keys=self.keys, shown=shown, exposed_to=self._exposed_to)
        try:
            reply = await self.calls.complete(self.model, self._request(*self._prompt(records, refused), *self._form))
        except ModelError as error:
            why = f"{type(error).__name__}: {error}{ADVICE if isinstance(error, ModelRefused) else ''}"
            faults = dict.fromkeys(self.keys, why)
            failed = structs.replace(answer, faults=faults, usage=error.usage or Usage())
            return failed, isinstance(error, InvalidOutput | ModelRefused)
        if self._one_rule:
            return structs.replace(answer, deltas=(self._reader.one_rule(reply.data),), usage=reply.usage), False
        deltas, conflicts = self._reader.changes(reply.data, questions=self.questions)
        return structs.replace(answer, deltas=deltas, conflicts=conflicts, usage=reply.usage), False

    async def _with_questions(self, answer: CallAnswer, record: DistilRecord) -> CallAnswer:
        """The answer of a weak model with questions of its rule, which are asked for alone. The rule stays anyhow."""
        rule = next((delta for delta in answer.deltas if delta.action == "ADD"), None)
        if rule is None or rule.fault is not None:
            return answer
        text = rule.text

        def prompt(record: DistilRecord) -> tuple[str, str]:
            instructions, value_type = self.judge.instructions, self.judge.value_type
            return render_distil_checks(instructions=instructions, value_type=value_type, record=record, rule=text)

        # What is said around a comment is longer here than where it asks for a rule.
        if not self._leave_room(*prompt(record)):
            fitted = fit_records(self._feedback, lambda part: self._leave_room(*prompt(part[-1])), most=self._most)
            record = fitted[-1]
        try:
            reply = await self.calls.complete(self.model, self._request(*prompt(record), ONLY_CHECKS, "checks"))
        except ModelError as error:
            rule = structs.replace(rule, check_faults=(f"{type(error).__name__}: {error}",))
            return structs.replace(answer, deltas=(rule,), usage=answer.usage + (error.usage or Usage()))
        checks, faults = self._reader.questions(reply.data.get("checks"), rule.feedback)
        rule = structs.replace(rule, checks=checks, check_faults=faults)
        return structs.replace(answer, deltas=(rule,), usage=answer.usage + reply.usage)

    # -- its records and guidelines ------------------------------------------------------------------------------------

    @cached_property
    def _one_rule(self) -> bool:
        """Whether a weak model is asked for one rule from one record."""
        return len(self.keys) == 1 and not self.guidelines and self.model.limits.brief

    @cached_property
    def _labels(self) -> dict[str, FeedbackKey]:
        return {f"F{n}": key for n, key in enumerate(self.keys, start=1)}

    @cached_property
    def _reader(self) -> AnswerReader:
        return AnswerReader(judge=self.judge, memory=self.memory, labels=self._labels, exposed_to=self._exposed_to)

    @cached_property
    def _exposed_to(self) -> tuple[FeedbackKey, ...]:
        """Every record of the prompt, and all that its guidelines and the judge's own verdicts were exposed to."""
        verdicts = (self._own_verdict(*self.memory.record(key)) for key in self.keys)
        exposures = [verdict.exposed_to for verdict in verdicts if verdict is not None]
        return tuple(sorted({*self.keys}.union(*exposures, *(guideline.exposed_to for guideline in self._shown))))

    @cached_property
    def _shown(self) -> tuple[Guideline, ...]:
        """The first of the guidelines, which fit in a quarter of the context."""
        room, count = self.model.limits.context_tokens // 4, 0
        for guideline in self.guidelines:
            room -= estimate_tokens(guideline.text) + 4
            if room < 0:
                break
            count += 1
        return self.guidelines[:count]

    @cached_property
    def _feedback(self) -> tuple[FeedbackRecord, ...]:
        return tuple(self._record(label, *self.memory.record(key)) for label, key in self._labels.items())

    def _record(self, label: str, annotation: Annotation, case: Case) -> FeedbackRecord:
        verdict = self._own_verdict(annotation, case)
        agree = self.judge.value_type.agree
        wrong = verdict is not None and annotation.value is not None and not agree(annotation.value, verdict.value)
        parts = ((name, part_in(case.example.content, name)) for name in self.judge.parts)
        return FeedbackRecord(
            label=label,
            content=tuple((name, value) for name, value in parts if value is not None),
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
        comparable = read and self.judge.value_type.closed and annotation.value is not None
        return case.pre_alignment if comparable else None

    # -- its prompt ----------------------------------------------------------------------------------------------------

    @property
    def _most(self) -> int:
        return CASE_TOKENS[self.model.limits.brief] // max(len(self.judge.parts), 1)

    @property
    def _max_tokens(self) -> int:
        return ONE_RULE_TOKENS if self._one_rule else min(256 + RULE_TOKENS * len(self.keys), ANSWER_TOKENS)

    def _fits(self, records: Sequence[DistilRecord]) -> bool:
        # With room for what would be said of every rule if it were refused.
        return self._leave_room(*self._prompt(records, dict.fromkeys((record.label for record in records), "x" * 60)))

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
            guidelines=self._shown,
            records=records,
            refused=refused,
            questions=self.questions,
        )

    @property
    def _form(self) -> tuple[dict[str, Any], str]:
        """The schema of the answer, and its name."""
        if self._one_rule:
            return ONE_RULE, "rule"
        ids = [guideline.id for guideline in self._shown]
        values = [value_text(label) for label in self.judge.value_type.labels]
        schema = changes_schema(list(self._labels), ids, self.judge.parts, questions=self.questions, values=values)
        return schema, "changes"

    def _request(self, system: str, user: str, schema: dict[str, Any], name: str) -> ChatRequest:
        return ChatRequest(
            system=system,
            user=user,
            schema=schema,
            schema_name=name,
            max_tokens=self._max_tokens,
            temperature=0.0,
            timeout=self.judge.parameters.get("timeout"),
            about=f"lessons of {', '.join(map(str, self.keys))}",
        )


# -- merging -----------------------------------------------------------------------------------------------------------


async def _merged(
    judge: Judge, memory: Memory, model: ChatModel, calls: Calls
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` with its distilled guidelines merged by one call, what that cost, and a note where it failed.

    A merged guideline is exposed to all that the guidelines of the prompt were exposed to. Those that it was made from
    stay behind it, and step in when it goes. What a person wrote, confirmed or retired is left alone.
    """
    guidelines = [g for g in memory.semantic if g.supported_by and not g.people]
    if len(guidelines) < 2:
        return memory, Usage(), ()
    system, user = render_merge(instructions=judge.instructions, value_type=judge.value_type, guidelines=guidelines)
    request = ChatRequest(
        system=system,
        user=user,
        schema=_merge_schema([guideline.id for guideline in guidelines]),
        schema_name="merged",
        max_tokens=ANSWER_TOKENS,
        timeout=judge.parameters.get("timeout"),
    )
    try:
        reply = await calls.complete(model, request)
    except ModelError as error:
        note = f"the guidelines were not merged, they stay as they are: {type(error).__name__}: {error}"
        return memory, error.usage or Usage(), (note,)
    free = {guideline.id: guideline for guideline in guidelines}
    exposed = tuple(sorted({key for guideline in guidelines for key in guideline.exposed_to}))
    entries = reply.data.get("guidelines")
    for entry in entries if isinstance(entries, list) else ():
        sources, text = _merge_entry(entry, free)
        if len(sources) < 2 or guideline_fault(text) is not None:  # one rule alone stays as it is
            continue
        checked = [guideline.checks for guideline in sources if guideline.checks]
        new = Guideline(
            id=f"G{memory.next_guideline}",
            text=text,
            supported_by=tuple(sorted({key for guideline in sources for key in guideline.supported_by})),
            exposed_to=exposed,
            # The checks of one rule fire together: those of several rules would have to hold all at once.
            checks=checked[0] if len(checked) == 1 else (),
        )
        replaced = [structs.replace(free.pop(guideline.id), replaced_by=new.id) for guideline in sources]
        memory = memory.with_guidelines([*replaced, new])
    return memory, reply.usage, ()


def _merge_schema(ids: Sequence[str]) -> dict[str, Any]:
    sources = {"type": "array", "items": {"type": "string", "enum": list(ids)}}
    entry = {"text": {"type": "string"}, "from": sources}
    item = {"type": "object", "properties": entry, "required": list(entry), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"guidelines": {"type": "array", "items": item}},
        "required": ["guidelines"],
        "additionalProperties": False,
    }


def _merge_entry(entry: object, free: Mapping[str, Guideline]) -> tuple[list[Guideline], str]:
    """The guidelines that an entry merges, of those that no other has taken, and its text."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("from"), list):
        return [], ""
    names = dict.fromkeys(map(str, entry["from"]))
    return [free[name] for name in names if name in free], tidy(str(entry.get("text") or ""))
