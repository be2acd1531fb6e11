"""MemAlign: from experts' feedback to a judge that learned from it. The pipeline, top to bottom.

The method is MemAlign's (dual memory: guidelines distilled from feedback, and the cases themselves), with typed deltas over
shards and exact forgetting added. The order of the stages is the order of this file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.align.ask import ask, with_own_verdicts
from memalign.align.distil import distil
from memalign.align.forget import forget, stays_theirs
from memalign.align.impact import impact
from memalign.align.ingest import Refuse, add_annotations, checked_rows, refreshed, sort_rows, without_disputed
from memalign.align.locks import keep_locks
from memalign.align.mining import with_mined
from memalign.align.report import Run, calibrator_note
from memalign.align.result import AlignResult
from memalign.align.states import with_outcomes
from memalign.errors import ConfigurationError, InputError, ModelError
from memalign.io import FeedbackSource, Given, checked_columns
from memalign.judge import Judge, Progress
from memalign.judge.open_model import libraries_loaded, open_reflection_model
from memalign.judge.paid_calls import Answers, PaidCalls
from memalign.judge.rehearsal import Rehearsal
from memalign.memory import Memory, Outcome
from memalign.memory.label_policy import Rule, checked_authority, checked_policy
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.models.asking import asked_through
from memalign.models.base import ChatModel, EmbeddingModel
from memalign.notebook import notebook_progress
from memalign.types import FeedbackKey, Judgment, Usage

__all__ = ["MemAlign"]

replace = msgspec.structs.replace


@dataclass(frozen=True, kw_only=True)
class MemAlign:
    """The optimizer and its knobs.

    `reflection_model` distils (None: the one of the judge's parameters, else its model). `embedding_model` None is the
    judge's own, or the in-process one.
    `retrieval_k` is how many examples a judgment sees (None: as the judge has it). `shard_size` is how many pieces of
    feedback one distillation call holds (None: what the model can take). `policy` is by what several people's labels are
    weighed, and `authority` names the sources whose label then decides, first one first (None: as the judge has them).
    `columns` says which column of the feedback each field is read from, such as `{"value": "label"}` (None: as the judge
    has them); the judge remembers them.
    `max_cost` is what one align may spend, in dollars: what it stops stays pending. `concurrency` is how many calls are in
    flight at most (None: as many as suit the model). `impact` is how many taught cases are judged again, before and
    after, to say which verdicts changed; without it nothing is asked.
    """

    reflection_model: str | ChatModel | None = None
    embedding_model: str | EmbeddingModel | None = None
    retrieval_k: int | None = None
    shard_size: int | None = None
    authority: tuple[str, ...] | None = None
    policy: tuple[Rule, ...] | None = None
    columns: Mapping[str, str] | None = None
    max_cost: float | None = None
    concurrency: int | None = None
    impact: int | None = None

    def __post_init__(self) -> None:
        if self.shard_size is not None and self.shard_size < 1:
            raise InputError("shard_size must be 1 or more")
        if self.impact is not None and self.impact < 1:
            raise InputError("impact is how many taught cases are judged again: 1 or more")
        self.calls()
        if self.authority is not None:
            object.__setattr__(self, "authority", checked_authority(self.authority))
        if self.policy is not None:
            object.__setattr__(self, "policy", checked_policy(self.policy))
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns(self.columns))

    def calls(self, answers: Answers | None = None, rehearsal: Rehearsal | None = None) -> PaidCalls:
        """The model calls of one align, within this optimizer's limits; `answers` keeps what is paid for.

        With a `rehearsal` nothing is asked, and it says what would be.
        """
        return PaidCalls(answers=answers, max_cost=self.max_cost, concurrency=self.concurrency, rehearsal=rehearsal)

    async def align(
        self,
        judge: Judge,
        feedback: FeedbackSource = (),
        *,
        skip_invalid: bool = False,
        refuse: Refuse | None = None,
        own_verdicts: Mapping[str, Judgment] | None = None,
        progress: Progress | None = None,
        calls: PaidCalls | None = None,
    ) -> AlignResult:
        """Learn from `feedback` (none: only what is pending) and return a complete new judge, or raise and change nothing.

        Raises InvalidRows when a row cannot be used, unless `skip_invalid`; a row that `refuse` gives a reason for is
        one. A model call that fails leaves named
        feedback pending instead. `own_verdicts` are judgments that the judge gave before, by the ids of the cases: in a queue, a
        file or a trace; nothing is asked for them. `calls` may have been those of an align before, on another version of the judge.
        """
        calls = calls or self.calls()
        with asked_through(calls):
            run = Run(
                given=judge, progress=progress or notebook_progress(), calls=calls, own_verdicts=own_verdicts or {}
            )
            return await self._align(judge, feedback, run, skip_invalid=skip_invalid, refuse=refuse)

    async def _align(self, judge: Judge, feedback: FeedbackSource, run: Run, **options: Any) -> AlignResult:
        judge = self._configured(judge)
        await libraries_loaded(judge, vectors=True)
        before = judge.memory

        # Validate: unchanged rows cost nothing but may have another time; changed ones replace what they said before.
        feedback = Given.of(feedback, columns=self.columns, remembered=judge.columns)
        run.file = checked_rows(judge, feedback, **options)
        run.notes += run.file.notes
        run.status = sort_rows(before, run.file.rows)

        # Annotations: all are kept; the policy says which of them count.
        news = [row for row in run.file.rows if run.status[row.key] != "unchanged"]
        memory = without_disputed(add_annotations(refreshed(before, run.file.rows), news))

        # Learn from what is new and from what still waits. The judge that is asked meanwhile knows nothing of what was
        # replaced.
        replaced = [key for key, status in run.status.items() if status == "changed"]
        asked = judge.replace(memory=_without(before, replaced)) if replaced else judge
        memory = with_own_verdicts(asked, memory, run.own_verdicts)
        learned = await self._learn(asked, memory, run)

        # Locked cases hold, whatever was learned.
        learned = await self._keep_locks(asked, learned, run)

        # Ask what every check says of cases that it does not stem from; without rows, also what could not be asked before.
        if run.learned or not run.file.rows:
            learned = await self._ask(learned, run, thorough=bool(replaced) or not run.file.rows)
            run.notes += calibrator_note(learned)
            await self._impact(learned, run)
        return run.result(learned)

    async def unalign(
        self,
        judge: Judge,
        *selectors: str | FeedbackKey,
        source: str | None = None,
        people_agree: bool = False,
        progress: Progress | None = None,
        calls: PaidCalls | None = None,
    ) -> AlignResult:
        """Forget feedback and all that came from it; what survivors taught beside it is distilled again without it.

        The forgetting needs no model: when none answers, the survivors' lessons are pending. A guideline that a person
        wrote or confirmed stays, and a note names it, unless that person's own words are withdrawn.

        Args:
            judge: The judge that is to forget.
            selectors: Ids (all annotations on a case) or keys (one).
            source: All feedback of this person.
            people_agree: Whether guidelines that people wrote or confirmed go too, where they saw the feedback.
            progress: Is told of each call.
            calls: Those of an earlier attempt.

        Raises:
            UnknownKey: A selector names nothing here.
        """
        calls = calls or self.calls()
        with asked_through(calls):
            run = Run(given=judge, progress=progress or notebook_progress(), calls=calls)
            run.removed = judge.memory.keys(*selectors, source=source)
            return await self._unalign(judge, run, people_agree=people_agree)

    async def _unalign(self, judge: Judge, run: Run, *, people_agree: bool) -> AlignResult:
        judge = self._configured(judge)
        await libraries_loaded(judge, vectors=True)
        # Whatever is asked of a model from here on is asked by a judge that has forgotten already.
        if theirs := [] if people_agree else _theirs(judge.memory, run.removed):
            run.notes.append(
                f"{', '.join(theirs)} stay: people wrote or confirmed them; with their consent they go too"
            )
        judge = judge.replace(memory=_without(judge.memory, run.removed, people_agree=people_agree))
        try:
            # What is derived again is held against locked cases again: a rule must not come back by its neighbour's end.
            learned = await self._keep_locks(judge, await self._learn(judge, judge.memory, run), run)
        except (ConfigurationError, ModelError) as error:
            # No key, no model, no vectors: the forgetting happens all the same, and the survivors' lessons wait.
            waits = Outcome(kind="waiting", reason=f"to be derived again without withdrawn feedback: {error}")
            waiting = [annotation.key for annotation in judge.memory.pending]
            learned = judge.replace(memory=with_outcomes(judge.memory, dict.fromkeys(waiting, waits)))
        else:
            # Verdicts that were made with what is forgotten went with it.
            learned = await self._ask(learned, run, thorough=True)
        return run.result(learned)

    async def _learn(self, judge: Judge, memory: Memory, run: Run) -> Judge:
        """Embed what is new, ask `judge` about it where that is needed, and distil what is pending."""
        memory = await self._embed(judge, memory, run)
        run.learned = bool(memory.pending)
        if run.learned:
            model = open_reflection_model(judge, self.reflection_model)
            size = self.shard_size or model.limits.shard_size
            memory, spent, notes = await distil(judge, memory, model, size=size, progress=run.progress)
            run.usage += spent
            run.notes += notes
        if (run.learned or run.removed) and open_reflection_model(judge, self.reflection_model).limits.brief:
            memory = with_mined(memory, judge.value_type, judge.parts)  # too weak to propose tests: labels and words do
        return judge.replace(memory=memory)

    async def _keep_locks(self, judge: Judge, learned: Judge, run: Run) -> Judge:
        """Without what broke a locked case; `judge` is as it was."""
        learned, run.locks, spent = await keep_locks(judge, learned, progress=run.progress)
        run.usage += spent
        return learned

    async def _ask(self, learned: Judge, run: Run, *, thorough: bool) -> Judge:
        """With what its decision model answers about labelled cases; as it is where it has none, or none answers."""

        async def relearn(judge: Judge) -> tuple[Memory, Usage]:
            model = open_reflection_model(judge, self.reflection_model)
            size = self.shard_size or model.limits.shard_size
            memory, spent, _ = await distil(judge, judge.memory, model, size=size)
            return memory, spent

        memory, spent, notes = await ask(learned, relearn, thorough=thorough, progress=run.progress)
        run.usage += spent
        run.notes += notes
        return learned.replace(memory=memory)

    async def _impact(self, learned: Judge, run: Run) -> None:
        """What changed on taught cases, where that is asked for."""
        if self.impact is None:
            return
        run.impact, spent, notes = await impact(run.given, learned, self.impact, progress=run.progress)
        run.usage += spent
        run.notes += notes

    async def _embed(self, judge: Judge, memory: Memory, run: Run) -> Memory:
        """`memory` with a vector for every case: only new cases are embedded, unless the embedding model changed."""
        model = resolve_embedding(judge.embedding_model)
        kept = memory.embedding_model == model.name
        missing = [case for case in memory.cases if not (kept and case.vector)]
        if not missing:
            return replace(memory, embedding_model=model.name) if memory.cases else memory
        if run.progress is not None:
            run.progress("embed", 0, len(missing))
        vectors = await model.embed([embedding_text(case.example) for case in missing])
        of = {case.id: vector.astype("<f4").tobytes() for case, vector in zip(missing, vectors, strict=True)}
        return replace(
            memory,
            embedding_model=model.name,
            cases=tuple(replace(case, vector=of.get(case.id, case.vector)) for case in memory.cases),
        )

    def _configured(self, judge: Judge) -> Judge:
        changes: dict[str, Any] = {}
        if self.retrieval_k is not None:
            changes["retrieval_k"] = self.retrieval_k
        if self.embedding_model is not None:
            changes["embedding_model"] = self.embedding_model
        if self.columns is not None:
            changes["columns"] = self.columns
        if self.authority is not None or self.policy is not None:
            authority = judge.memory.authority if self.authority is None else self.authority
            policy = judge.memory.policy if self.policy is None else self.policy
            changes["memory"] = replace(judge.memory, authority=authority, policy=policy)
        return judge.replace(**changes) if changes else judge


def _without(memory: Memory, keys: Collection[FeedbackKey], *, people_agree: bool = False) -> Memory:
    """`memory` without the feedback of `keys` and all that came from it."""
    return without_disputed(forget(memory, keys, people_agree=people_agree))


def _theirs(memory: Memory, keys: Collection[FeedbackKey]) -> list[str]:
    """The guidelines that were exposed to the feedback of `keys` and stay, as wordings of people, by id."""
    lost = frozenset(keys)
    exposed = (guideline for guideline in memory.guidelines if not lost.isdisjoint(guideline.exposed_to))
    return [guideline.id for guideline in exposed if stays_theirs(guideline, lost)]
