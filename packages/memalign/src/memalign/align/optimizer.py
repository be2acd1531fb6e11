"""MemAlign: from experts' feedback to a judge that learned from it. `align` and `unalign` are the pipeline, step by step.

The method is MemAlign's (dual memory: guidelines distilled from feedback, and the cases themselves), with typed deltas and
exact forgetting added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.align.annotations import Refuse, add_annotations, checked_rows, refreshed, sort_rows, without_disputed
from memalign.align.ask import ask, made_by_other, with_own_verdicts
from memalign.align.distil import distil
from memalign.align.forget import forget, stays_theirs
from memalign.align.impact import impact
from memalign.align.learned_tests import with_mined
from memalign.align.locks import keep_locks
from memalign.align.report import Run, calibrator_note
from memalign.align.result import AlignResult
from memalign.errors import ConfigurationError, InputError, ModelError
from memalign.io import FeedbackSource, Given, JudgmentFile, OwnVerdicts, checked_columns
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
from memalign.types import FeedbackKey, Usage

__all__ = ["MemAlign"]

replace = msgspec.structs.replace

OTHER_JUDGE = "the file of judgments was written by another judge or version: no verdict is taken from it"


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
        own_verdicts: OwnVerdicts | None = None,
        progress: Progress | None = None,
        calls: PaidCalls | None = None,
    ) -> AlignResult:
        """Learn from `feedback` and return a complete new judge, or raise and change nothing.

        A model call that fails leaves named feedback pending instead.

        Args:
            judge: The judge that is to learn.
            feedback: The rows; none: only what is pending.
            skip_invalid: Whether rows that cannot be used are left out and named.
            refuse: Gives a reason why a row may not be learned, or None.
            own_verdicts: Judgments that the judge gave before, by the ids of the cases, or a file of them: what it had
                said stands beside what its experts say. Nothing is asked for them.
            progress: Is told of each call.
            calls: Those of an align before, on another version of the judge.

        Raises:
            InvalidRows: A row cannot be used, unless `skip_invalid`.
        """
        run = Run(given=judge, progress=progress or notebook_progress(), calls=calls or self.calls())
        with asked_through(run.calls):
            judge = self._configured(judge)
            await libraries_loaded(judge, vectors=True)

            # 1. Validate: what can fail without a model call fails here. Unchanged rows cost nothing.
            rows = Given.of(feedback, columns=self.columns, remembered=judge.columns)
            run.file = checked_rows(judge, rows, skip_invalid=skip_invalid, refuse=refuse)
            run.notes += run.file.notes
            run.status = sort_rows(judge.memory, run.file.rows)

            # 2. Annotations: all are kept, the policy says which label counts. The judge that is asked from here on knows
            #    nothing of what a changed row said before.
            news = [row for row in run.file.rows if run.status[row.key] != "unchanged"]
            memory = add_annotations(refreshed(judge.memory, run.file.rows), news)
            replaced = [key for key, status in run.status.items() if status == "changed"]
            asked = judge.replace(memory=_without(judge.memory, replaced)) if replaced else judge
            # What the judge itself had said of them is known where it judged them before.
            memory = without_disputed(with_own_verdicts(run.given, memory, own_verdicts or {}, replaced=replaced))
            if isinstance(own_verdicts, JudgmentFile) and made_by_other(run.given, own_verdicts):
                run.notes.append(OTHER_JUDGE)

            # 3. to 5. Embed, distil, mine tests.
            learned = await self._learned(asked, memory, run)

            # 6. Locked cases hold, whatever was learned.
            learned = await self._locked(asked, learned, run)

            # 7. Ask and weigh; without rows, also what could not be asked before. Then the impact, where it is asked for.
            if run.learned or not run.file.rows:
                learned = await self._asked(learned, run, thorough=bool(replaced) or not run.file.rows)
                run.notes += calibrator_note(learned)
                await self._measured(learned, run)
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
        run = Run(given=judge, progress=progress or notebook_progress(), calls=calls or self.calls())
        run.removed = judge.memory.keys(*selectors, source=source)
        with asked_through(run.calls):
            judge = self._configured(judge)
            await libraries_loaded(judge, vectors=True)

            # 1. Forget, without a model. Whatever is asked from here on is asked by a judge that has forgotten already.
            if theirs := [] if people_agree else _theirs(judge.memory, run.removed):
                stay = "stay: people wrote or confirmed them; with their consent they go too"
                run.notes.append(f"{', '.join(theirs)} {stay}")
            judge = judge.replace(memory=_without(judge.memory, run.removed, people_agree=people_agree))

            # 2. Distil what survivors lost, and hold it against locked cases: a rule must not come back by another's end.
            try:
                learned = await self._locked(judge, await self._learned(judge, judge.memory, run), run)
            except (ConfigurationError, ModelError) as error:
                # No key, no model, no vectors: the forgetting happens all the same, and the survivors' lessons wait.
                waits = Outcome(kind="waiting", reason=f"to be derived again without withdrawn feedback: {error}")
                waiting = {annotation.key: waits for annotation in judge.memory.pending}
                return run.result(judge.replace(memory=judge.memory.with_outcomes(waiting)))

            # 3. Ask again what was answered with what is forgotten in view.
            return run.result(await self._asked(learned, run, thorough=True))

    # -- steps of both -------------------------------------------------------------------------------------------------

    async def _learned(self, judge: Judge, memory: Memory, run: Run) -> Judge:
        """`judge` with `memory` after what is new in it was embedded and what is pending was distilled."""
        # 3. Embed what is new, in the process by default.
        memory = await self._embedded(judge, memory, run)
        run.learned = bool(memory.pending)

        # 4. Distil: as many records as the model takes in one call, beside the guidelines that stand.
        if run.learned:
            memory, spent, notes = await self._distilled(judge, memory, run)
            run.spend(spent, notes)

        # 5. Tests: a model proposes them in its answer; where it is too weak for that, labels and words do.
        if (run.learned or run.removed) and open_reflection_model(judge, self.reflection_model).limits.brief:
            memory = with_mined(memory, judge.value_type, judge.parts)
        return judge.replace(memory=memory)

    async def _distilled(
        self, judge: Judge, memory: Memory, run: Run | None = None
    ) -> tuple[Memory, Usage, tuple[str, ...]]:
        model = open_reflection_model(judge, self.reflection_model)
        size = self.shard_size or model.limits.shard_size
        return await distil(judge, memory, model, size=size, progress=None if run is None else run.progress)

    async def _locked(self, judge: Judge, learned: Judge, run: Run) -> Judge:
        """Without what broke a locked case; `judge` is as it was."""
        learned, run.locks, spent = await keep_locks(judge, learned, progress=run.progress)
        run.spend(spent)
        return learned

    async def _asked(self, learned: Judge, run: Run, *, thorough: bool) -> Judge:
        """With what its decision model answers about labelled cases; as it is where it has none, or none answers."""

        async def relearn(judge: Judge) -> tuple[Memory, Usage]:
            memory, spent, _ = await self._distilled(judge, judge.memory)
            return memory, spent

        memory, spent, notes = await ask(learned, relearn, thorough=thorough, progress=run.progress)
        run.spend(spent, notes)
        return learned.replace(memory=memory)

    async def _measured(self, learned: Judge, run: Run) -> None:
        """What changed on taught cases, where that is asked for."""
        if self.impact is not None:
            run.impact, spent, notes = await impact(run.given, learned, self.impact, progress=run.progress)
            run.spend(spent, notes)

    async def _embedded(self, judge: Judge, memory: Memory, run: Run) -> Memory:
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
