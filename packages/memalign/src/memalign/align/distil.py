"""Distillation: what experts said becomes guidelines, as many records a call as the model takes.

A prompt that writes text holds records and guidelines that stand, and nothing else. What each was exposed to is kept
with the guideline, so that forgetting is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from msgspec import structs

from memalign import aio
from memalign.align.deltas import CallAnswer, apply_answer
from memalign.align.distil_answer import AnswerReader, changes_schema, merge_schema, merged_rules
from memalign.align.run import AlignRun
from memalign.align.word_for_word import NO_WORDS
from memalign.content import part_in
from memalign.content.encoding import estimate_tokens
from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.judge import Judge, named_parts
from memalign.judge.borne_out import decidable
from memalign.memory import Annotation, Case, Memory, Outcome, PreAlignmentVerdict
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts.fitting import FeedbackRecord, fit_guidelines, fit_records, guideline_tokens
from memalign.prompts.rendering import DistilRecord, render_distil, render_merge
from memalign.types import FeedbackKey, Guideline

__all__ = ["by_likeness", "distil"]

CONTRAST = 0.1
"""How much less alike a case of another label may be to stand next: near opposites teach (LEAP, arXiv 2402.05403)."""
COMPARED = 1_000
"""Records, the first that wait, which a record is compared with to find the one that follows it."""
GUIDELINE_TOKENS = 4_000
"""Of all guidelines in force: what a judge's prompt holds of them at most. A memory with more is merged."""
CASE_TOKENS = 3000
"""Of one case in a prompt at most."""
USEFUL_TOKENS = 100
"""Of each text of a case. Where there is no room for so many, the call asks about fewer records."""
RULE_TOKENS = 260
"""Of the answer, for each record: a rule and its tests."""
ANSWER_TOKENS = 8_192
"""Of the answer at most: of fifty comments strong models wrote seventeen rules. A cut one is asked for with more."""
MARGIN = 64
RETRIES = 12
"""Calls more for one answered wrongly or refused: enough to find one record of fifty by halves, and its neighbour."""


async def distil(judge: Judge, model: ChatModel, run: AlignRun, *, size: int) -> Judge:
    """The judge with everything distilled that is pending in its memory. Never raises for a failing model.

    Later feedback goes in with the guidelines that stand. Where several calls wrote the first guidelines side by side,
    and where guidelines outgrow their budget, one call more merges them; not where a call holds one record (`size`).
    """
    if size == 1:  # a label beside no other record teaches no rule
        labels = [annotation.key for annotation in judge.memory.pending if not annotation.rationale]
        examples = {
            key: Outcome(kind="example", reason=NO_WORDS, exposed_to=(key,)) for key in labels
        }
        judge = judge.replace(memory=judge.memory.with_outcomes(examples))
    before = learned = judge.memory
    outcomes = dict[FeedbackKey, Outcome | None]()
    with run.timed("distil"):
        calls = _calls(judge, model, run, size)
        tell = partial(run.tell, "distil")
        for answers in await aio.at_most(
            run.calls.in_flight(model), DistilCall.answers, calls, tell
        ):
            for (
                answer
            ) in answers:  # in their order, whoever finished first: guideline ids depend on it
                learned, ended = apply_answer(learned, answer)
                outcomes |= ended
        learned = learned.with_outcomes(outcomes)
        if learned.next_guideline > before.next_guideline:
            first = len(calls) > 1 and not any(
                g.supported_by and not g.people for g in before.semantic
            )
            outgrown = sum(guideline_tokens(g) for g in learned.semantic) > GUIDELINE_TOKENS
            if size > 1 and (first or outgrown):
                learned = await _merged(judge, learned, model, run)
    return judge.replace(memory=learned)


def _calls(judge: Judge, model: ChatModel, run: AlignRun, size: int) -> list[DistilCall]:
    """The calls about all that waits: as few as may be, of equal size, beside what fits in a quarter of the context."""
    memory = judge.memory
    keys = [annotation.key for annotation in memory.pending]
    keys = by_likeness(memory, keys) if size > 1 else keys
    count = -(-len(keys) // size)
    standing, _ = fit_guidelines(memory.semantic, model.limits.context_tokens // 4)
    shares = [
        tuple(keys[n * len(keys) // count : (n + 1) * len(keys) // count]) for n in range(count)
    ]
    calls = (DistilCall(judge, model, run, keys=share, guidelines=standing) for share in shares)
    return [part for call in calls for part in call.parts()]


def by_likeness(memory: Memory, keys: Sequence[FeedbackKey]) -> list[FeedbackKey]:
    """The keys so that each is followed by the most alike of the others, of another label if one is nearly as alike."""
    import numpy as np  # see Memory.matrix

    ordered = sorted(set(keys))
    if len(ordered) < 3 or not memory.matrix.shape[1]:
        return ordered
    rows = {case.id: row for row, case in enumerate(memory.cases)}
    places = [rows[key.id] for key in ordered]
    labels = np.array([str(memory.label(memory.cases[place])) for place in places])
    vectors, order, waiting = memory.matrix[places], [0], [*range(1, len(ordered))]
    while waiting:
        last, near = order[-1], waiting[:COMPARED]
        alike = np.round(vectors[near] @ vectors[last], 6) + CONTRAST * (
            labels[near] != labels[last]
        )
        order.append(waiting.pop(int(np.argmax(alike))))
    return [ordered[place] for place in order]


# -- one call ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistilCall:
    """What the feedback of `keys` teaches beside `guidelines` that stand."""

    judge: Judge
    model: ChatModel
    run: AlignRun
    keys: tuple[FeedbackKey, ...]
    guidelines: tuple[Guideline, ...] = ()

    def parts(self) -> list[DistilCall]:
        """The call, or smaller ones: prompts that fit, with useful parts of the cases and the experts' words."""
        least = min(USEFUL_TOKENS, self._most)
        if len(self.keys) == 1 or self._fits(
            fit_records(self._feedback, lambda _: True, most=least)
        ):
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
            else:
                answers.append(answer)
        return answers

    def _halves(self) -> tuple[DistilCall, DistilCall]:
        half = (len(self.keys) + 1) // 2
        return replace(self, keys=self.keys[:half]), replace(self, keys=self.keys[half:])

    async def _answer(self) -> tuple[CallAnswer, bool]:
        """What the model answers, and whether fewer records may be answered better."""
        records = fit_records(self._feedback, self._fits, most=self._most)
        try:
            reply = await self.run.calls.complete(self.model, self._request(records))
        except ModelError as error:
            fault = self.run.failure(error)
            return structs.replace(self._reader.call, fault=fault), isinstance(
                error, InvalidOutput | ModelRefused
            )
        self.run.spend(reply.usage)
        return self._reader.read(reply.data), False

    # -- its records and guidelines ------------------------------------------------------------------------------------

    @cached_property
    def _reader(self) -> AnswerReader:
        """Reads the answer; exposed is it to every record, and to what guidelines and own verdicts were exposed to."""
        verdicts = (self._own_verdict(*self.judge.memory.record(key)) for key in self.keys)
        exposures = [rule.exposed_to for rule in self.guidelines]
        exposures += [verdict.exposed_to for verdict in verdicts if verdict is not None]
        exposed, ids = (
            tuple(sorted({*self.keys}.union(*exposures))),
            tuple(rule.id for rule in self.guidelines),
        )
        call = CallAnswer(keys=self.keys, guideline_ids=ids, exposed_to=exposed)
        return AnswerReader(judge=self.judge, call=call)

    def _own_verdict(self, annotation: Annotation, case: Case) -> PreAlignmentVerdict | None:
        """What the judge said of the case before its experts did, where that is known and can be compared."""
        return (
            case.pre_alignment
            if self.judge.value_type.closed and annotation.value is not None
            else None
        )

    @cached_property
    def _feedback(self) -> tuple[FeedbackRecord, ...]:
        return tuple(
            self._record(label, *self.judge.memory.record(key))
            for label, key in self._reader.labels.items()
        )

    def _record(self, name: str, annotation: Annotation, case: Case) -> FeedbackRecord:
        verdict, label = self._own_verdict(annotation, case), annotation.value
        wrong = (
            verdict and label is not None and not self.judge.value_type.agree(label, verdict.value)
        )
        parts = (
            (part, part_in(case.example.content, part))
            for part in named_parts(self.judge.instructions)
        )
        return FeedbackRecord(
            label=name,
            content=tuple((part, value) for part, value in parts if value is not None),
            value=label,
            rationale=annotation.rationale,
            judge=None if verdict is None else verdict.value,
            judge_rationale=verdict.rationale if verdict and wrong else None,
        )

    # -- its prompt ----------------------------------------------------------------------------------------------------

    def _fits(self, records: Sequence[DistilRecord]) -> bool:
        """Whether an answer still fits into the context of a prompt that shows the records."""
        request = self._request(records)
        used = estimate_tokens(request.system) + estimate_tokens(request.user) + request.max_tokens
        return used + MARGIN <= self.model.limits.context_tokens

    def _request(self, records: Sequence[DistilRecord]) -> ChatRequest:
        system, user = render_distil(
            instructions=self.judge.instructions,
            value_type=self.judge.value_type,
            guidelines=self.guidelines,
            records=records,
            fields=self._tested,
        )
        tokens = min(256 + RULE_TOKENS * len(self.keys), ANSWER_TOKENS)
        return ChatRequest(
            system=system,
            user=user,
            schema=changes_schema(
                [*self._reader.labels], self._reader.call.guideline_ids, self._tested
            ),
            schema_name="changes",
            max_tokens=max(
                tokens, self.judge.parameters.get("max_tokens", 0)
            ),  # of a model that thinks first
            timeout=self.judge.parameters.get("timeout"),
        )

    @cached_property
    def _tested(self) -> tuple[str, ...]:
        """What tests may read of an item; nothing where the labels are too few to bear one out."""
        return named_parts(self.judge.instructions) if decidable(self._reader.cases) else ()

    @property
    def _most(self) -> int:
        return CASE_TOKENS // max(len(named_parts(self.judge.instructions)), 1)


# -- merging -----------------------------------------------------------------------------------------------------------


async def _merged(judge: Judge, memory: Memory, model: ChatModel, run: AlignRun) -> Memory:
    """`memory` with its distilled guidelines merged by one call; a note says where that failed.

    Those that a merged guideline was made from stay behind it, and step in when it goes. What a person wrote, confirmed
    or retired is left alone.
    """
    guidelines = [g for g in memory.semantic if g.supported_by and not g.people]
    if len(guidelines) < 2:
        return memory
    system, user = render_merge(
        instructions=judge.instructions, value_type=judge.value_type, guidelines=guidelines
    )
    request = ChatRequest(
        system=system,
        user=user,
        schema=merge_schema([guideline.id for guideline in guidelines]),
        schema_name="merged",
        max_tokens=ANSWER_TOKENS,
        timeout=judge.parameters.get("timeout"),
    )
    try:
        reply = await run.calls.complete(model, request)
    except ModelError as error:
        run.notes.append(
            f"the guidelines were not merged, they stay as they are: {run.failure(error)}"
        )
        return memory
    run.spend(reply.usage)
    exposed = tuple(sorted({key for guideline in guidelines for key in guideline.exposed_to}))
    for text, sources in merged_rules(reply.data, guidelines):
        name, supported = (
            f"G{memory.next_guideline}",
            {key for rule in sources for key in rule.supported_by},
        )
        new = Guideline(
            id=name, text=text, supported_by=tuple(sorted(supported)), exposed_to=exposed
        )
        new = structs.replace(new, tests=tuple(test for rule in sources for test in rule.tests))
        memory = memory.with_guidelines(
            [*(structs.replace(old, replaced_by=name) for old in sources), new]
        )
    return memory
