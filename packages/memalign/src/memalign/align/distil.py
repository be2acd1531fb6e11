"""Distillation: feedback becomes guidelines, in calls of as many records as the model takes.

A prompt holds records and the guidelines in force, and nothing else. Each guideline keeps what it
was exposed to, so that forgetting is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from msgspec import structs

from memalign import aio
from memalign.align.deltas import CallAnswer, apply_answer, doubles_replaced
from memalign.align.distil_answer import (
    AnswerReader,
    changes_schema,
    merge_schema,
    merged_rules,
)
from memalign.align.likeness import by_likeness, word_likeness
from memalign.align.run import AlignRun
from memalign.align.word_for_word import without_lone_labels
from memalign.content.encoding import estimate_tokens
from memalign.errors import InvalidOutput, ModelError, ModelRefused
from memalign.judge import Judge, named_parts, task_of
from memalign.judge.borne_out import decidable
from memalign.memory import Annotation, Case, Memory, Outcome, PreAlignmentVerdict
from memalign.models.base import ChatModel, ChatRequest
from memalign.prompts.fitting import (
    FeedbackRecord,
    fit_guidelines,
    fit_records,
    guideline_tokens,
)
from memalign.prompts.rendering import DistilRecord, render_distil, render_merge
from memalign.types import CodeTest, FeedbackKey, Guideline

__all__ = ["distil"]

GUIDELINE_TOKENS = 4_000
"""Tokens of guidelines in force. If there are more, they are merged, and a call shows those whose
words are most like its feedback."""
GROWTH = 1.25
"""How much guidelines over their budget must grow before another merge: the model was asked about
the others before, and a merge of all costs as much as all of them."""
CASE_TOKENS = 3000
"""Tokens of one case in a prompt at most."""
USEFUL_TOKENS = 100
"""Tokens of each text of a case at least. Without so much room, the call has fewer records."""
RULE_TOKENS = 260
"""Tokens of the answer for each record: a rule and its tests."""
ANSWER_TOKENS = 8_192
"""Tokens of the answer at most: strong models wrote seventeen rules about fifty comments."""
MARGIN = 64
RETRIES = 12
"""Calls that may follow a wrong or refused answer: enough to find one record of fifty by halves,
and its neighbour."""


async def distil(judge: Judge, model: ChatModel, run: AlignRun, *, size: int) -> Judge:
    """Return the judge with all of its pending feedback distilled.

    A failing model raises nothing: the feedback waits, and says why.

    Later feedback goes in with the guidelines in force. If several calls wrote the first guidelines
    side by side, or if guidelines outgrow their budget, one more call merges them.

    Args:
        judge: The judge.
        model: The model that writes.
        run: Counts what the calls cost.
        size: How many records a call holds. With 1 nothing is merged.
    """
    if size == 1:
        judge = without_lone_labels(judge)
    before = judge.memory
    with run.timed("distil"):
        calls = _calls(judge, model, run, size)
        limit = run.calls.in_flight(model)
        tell = partial(run.tell, "distil")
        answered = await aio.at_most(limit, DistilCall.answers, calls, tell)
        answers = chain.from_iterable(answered)
        learned = _learned(before, answers)
        if size > 1 and _needs_merge(before, learned, len(calls)):
            learned = await _merged(judge, learned, model, run)
    return judge.replace(memory=learned)


def _learned(memory: Memory, answers: Iterable[CallAnswer]) -> Memory:
    """Return the memory after all answers; guideline ids depend on the order of the calls."""
    outcomes: dict[FeedbackKey, Outcome | None] = {}
    for answer in answers:
        memory, ended = apply_answer(memory, answer)
        outcomes |= ended
    return memory.with_outcomes(outcomes)


def _needs_merge(before: Memory, learned: Memory, calls: int) -> bool:
    """Return whether new guidelines were written side by side, or all together are too long."""
    if learned.next_guideline == before.next_guideline:
        return False
    if calls > 1 and not _mergeable(before):
        return True
    return _outgrown(learned) > _outgrown(before)


def _mergeable(memory: Memory) -> list[Guideline]:
    """Return the guidelines in force that only models wrote."""
    guidelines = []
    for guideline in memory.semantic:
        if guideline.supported_by and not guideline.people:
            guidelines.append(guideline)
    return guidelines


def _outgrown(memory: Memory) -> int:
    """Return how often the guidelines outgrew a limit: first their budget, then a quarter more."""
    tokens = guideline_tokens(*memory.semantic)
    limit = float(GUIDELINE_TOKENS)
    count = 0
    while tokens > limit:
        limit *= GROWTH
        count += 1
    return count


def _calls(
    judge: Judge, model: ChatModel, run: AlignRun, size: int
) -> list[DistilCall]:
    """Split pending feedback into the fewest equal calls.

    Guidelines in force get their budget, and a quarter of the context at most.
    """
    memory = judge.memory
    keys = [annotation.key for annotation in memory.pending]
    if size > 1:
        keys = by_likeness(memory, keys)
    room = min(GUIDELINE_TOKENS, model.limits.context_tokens // 4)
    count = math.ceil(len(keys) / size)
    calls = []
    for n in range(count):
        start = n * len(keys) // count
        end = (n + 1) * len(keys) // count
        share = tuple(keys[start:end])
        shown = _concerning(memory, share, room)
        call = DistilCall(judge, model, run, keys=share, guidelines=shown)
        calls.extend(call.parts())
    return calls


def _concerning(
    memory: Memory, keys: Sequence[FeedbackKey], room: int
) -> tuple[Guideline, ...]:
    """Return all guidelines in force or, if that is too much, those most like the feedback."""
    fitting, left = fit_guidelines(memory.semantic, room)
    if left:
        nearest = word_likeness(memory, keys)
        fitting, _ = fit_guidelines(memory.semantic, room, nearest=nearest)
    return fitting


# -- one call --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistilCall:
    """One call about the feedback of `keys`, beside `guidelines` in force."""

    judge: Judge
    model: ChatModel
    run: AlignRun
    keys: tuple[FeedbackKey, ...]
    guidelines: tuple[Guideline, ...] = ()

    def parts(self) -> list[DistilCall]:
        """Return the call, or smaller ones with room for useful parts of the cases."""
        least = min(USEFUL_TOKENS, self._most)
        shortest = fit_records(self._feedback, lambda _: True, most=least)
        if len(self.keys) == 1 or self._fits(shortest):
            return [self]
        first, second = self._halves()
        return [*first.parts(), *second.parts()]

    async def answers(self) -> list[CallAnswer]:
        """Ask the model. A wrong, cut or refused answer is asked for again by halves.

        Returns:
            The answers, in the order of the keys; one that failed says why.
        """
        waiting = [self]
        answers = []
        retries = RETRIES
        while waiting:
            call = waiting.pop(0)
            answer, again = await call._answer()
            if again and len(call.keys) > 1 and retries > 1:
                waiting[:0] = call._halves()
                retries -= 2
            else:
                answers.append(answer)
        return answers

    def _halves(self) -> tuple[DistilCall, DistilCall]:
        half = (len(self.keys) + 1) // 2
        first = replace(self, keys=self.keys[:half])
        second = replace(self, keys=self.keys[half:])
        return first, second

    async def _answer(self) -> tuple[CallAnswer, bool]:
        """Return the model's answer, and whether fewer records may be answered better."""
        records = fit_records(self._feedback, self._fits, most=self._most)
        request = self._request(records)
        try:
            reply = await self.run.calls.complete(self.model, request)
        except ModelError as error:
            fault = self.run.failure(error)
            failed = structs.replace(self._reader.call, fault=fault)
            return failed, isinstance(error, InvalidOutput | ModelRefused)
        self.run.spend(reply.usage)
        return self._reader.read(reply.data), False

    # -- its records and guidelines ----------------------------------------------------------------

    @cached_property
    def _reader(self) -> AnswerReader:
        """Reader of the answer.

        Its exposure is every record shown, plus the exposure of the guidelines and verdicts shown.
        """
        exposed = set(self.keys)
        for guideline in self.guidelines:
            exposed.update(guideline.exposed_to)
        for key in self.keys:
            annotation, case = self.judge.memory.record(key)
            verdict = self._own_verdict(annotation, case)
            if verdict is not None:
                exposed.update(verdict.exposed_to)
        call = CallAnswer(
            keys=self.keys,
            guideline_ids=tuple(guideline.id for guideline in self.guidelines),
            exposed_to=tuple(sorted(exposed)),
        )
        return AnswerReader(judge=self.judge, call=call)

    def _own_verdict(
        self, annotation: Annotation, case: Case
    ) -> PreAlignmentVerdict | None:
        """Return the judge's verdict before its experts' if it is known and can be compared."""
        if not self.judge.value_type.closed or annotation.value is None:
            return None
        return case.pre_alignment

    @cached_property
    def _feedback(self) -> tuple[FeedbackRecord, ...]:
        records = []
        for name, key in self._reader.labels.items():
            annotation, case = self.judge.memory.record(key)
            records.append(self._record(name, annotation, case))
        return tuple(records)

    def _record(self, name: str, annotation: Annotation, case: Case) -> FeedbackRecord:
        """Return what the prompt shows of one piece of feedback."""
        content = task_of(self.judge).shown(case.example.content)
        record = FeedbackRecord(
            label=name,
            content=tuple(content.items()),
            value=annotation.value,
            rationale=annotation.rationale,
        )
        verdict = self._own_verdict(annotation, case)
        if verdict is None or annotation.value is None:
            return record
        reason = verdict.rationale
        if self.judge.value_type.agree(annotation.value, verdict.value):
            reason = None
        return structs.replace(record, judge=verdict.value, judge_rationale=reason)

    # -- its prompt --------------------------------------------------------------------------------

    def _fits(self, records: Sequence[DistilRecord]) -> bool:
        """Return whether an answer still fits into the context of a prompt with these records."""
        request = self._request(records)
        prompt = estimate_tokens(request.system, request.user)
        used = prompt + request.max_tokens + MARGIN
        return used <= self.model.limits.context_tokens

    def _request(self, records: Sequence[DistilRecord]) -> ChatRequest:
        system, user = render_distil(
            instructions=self.judge.instructions,
            value_type=self.judge.value_type,
            guidelines=self.guidelines,
            records=records,
            fields=self._tested,
        )
        schema = changes_schema(
            list(self._reader.labels),
            self._reader.call.guideline_ids,
            self._tested,
        )
        room = min(256 + RULE_TOKENS * len(self.keys), ANSWER_TOKENS)
        parameters = self.judge.parameters
        return ChatRequest(
            system=system,
            user=user,
            schema=schema,
            schema_name="changes",
            # A model that thinks first gets the room that the judge gives it.
            max_tokens=max(room, parameters.get("max_tokens", 0)),
            timeout=parameters.get("timeout"),
        )

    @cached_property
    def _tested(self) -> tuple[str, ...]:
        """The fields that tests may read; none if the labels are too few to bear a test out."""
        if not decidable(self._reader.cases):
            return ()
        return named_parts(self.judge.instructions)

    @property
    def _most(self) -> int:
        parts = named_parts(self.judge.instructions)
        return CASE_TOKENS // max(len(parts), 1)


# -- merging ---------------------------------------------------------------------------------------


async def _merged(
    judge: Judge, memory: Memory, model: ChatModel, run: AlignRun
) -> Memory:
    """Return the memory with its distilled guidelines merged by one call; a note says if it failed.

    Merged guidelines replace their sources, which become active again when the merged one goes.
    Guidelines that a person wrote, confirmed or retired are left alone.
    """
    guidelines = _mergeable(memory)
    if len(guidelines) < 2:
        return memory
    system, user = render_merge(
        instructions=judge.instructions,
        value_type=judge.value_type,
        guidelines=guidelines,
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
        why = run.failure(error)
        run.notes.append(
            f"the guidelines were not merged, they stay as they are: {why}"
        )
        return memory
    run.spend(reply.usage)
    exposed: set[FeedbackKey] = set()
    for guideline in guidelines:
        exposed.update(guideline.exposed_to)
    for text, sources in merged_rules(reply.data, guidelines):
        merged = Guideline(
            id=f"G{memory.next_guideline}",
            text=text,
            exposed_to=tuple(sorted(exposed)),
        )
        memory = _with_merged(memory, merged, sources)
    return memory


def _with_merged(
    memory: Memory, merged: Guideline, sources: Iterable[Guideline]
) -> Memory:
    """Return the memory with a guideline in the place of others, with their feedback and tests."""
    changed = []
    supported: set[FeedbackKey] = set()
    tests: list[CodeTest] = []
    for source in sources:
        changed.append(structs.replace(source, replaced_by=merged.id))
        changed.extend(doubles_replaced(memory, source, merged.id))
        supported.update(memory.sources_of(source))
        tests.extend(source.tests)
    merged = structs.replace(
        merged,
        supported_by=tuple(sorted(supported)),
        tests=tuple(tests),
    )
    return memory.with_guidelines([*changed, merged])
