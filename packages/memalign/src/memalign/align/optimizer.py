"""MemAlign: from experts' feedback to a judge that learned from it, step by step.

The method is MemAlign's (dual memory: guidelines distilled from feedback, and the cases themselves), with typed deltas
and exact forgetting added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from memalign.align.annotations import (
    add_annotations,
    checked_rows,
    sort_rows,
    with_own_verdicts,
)
from memalign.align.distil import distil
from memalign.align.impact import impact
from memalign.align.locks import broken_locks, with_lessons_waiting
from memalign.align.mining import with_mined
from memalign.align.pasted import check_instructions
from memalign.align.result import AlignResult
from memalign.align.run import AlignRun
from memalign.align.word_for_word import word_for_word
from memalign.errors import ConfigurationError, InputError, ModelError
from memalign.io import FeedbackSource, OwnVerdicts, RowSource
from memalign.judge import Judge, Progress, named_parts
from memalign.judge.rules import lost_rules
from memalign.memory import Outcome
from memalign.memory.forget import WHY, exposed_wordings, forget, without_disputed
from memalign.memory.label_policy import checked_authority
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.models.base import ChatModel, EmbeddingModel
from memalign.models.calls import AnswerStore, Calls
from memalign.models.dry_run import DryRun
from memalign.models.judge_models import open_reflection_model
from memalign.notebook import notebook_progress
from memalign.types import Feedback, FeedbackKey

__all__ = ["MemAlign"]


@dataclass(frozen=True, kw_only=True)
class MemAlign:
    """The optimizer and its knobs; None leaves a knob as the judge has it.

    Attributes:
        reflection_model: Distils (None: the one of the judge's parameters, else its model).
        embedding_model: Embeds cases (None: the judge's own, or the in-process one).
        retrieval_k: How many examples a judgment sees.
        shard_size: How many pieces of feedback one distillation call holds (None: what the model can take).
        authority: The sources whose label decides where people differ, first one first.
        columns: Which column a field is read from, such as `{"value": "label"}`; the judge remembers it.
        max_cost: What one align may spend, in dollars: what it stops stays pending.
        concurrency: How many calls are in flight at most (None: as many as suit the model).
        impact: How many taught cases are judged again, before and after, to say which verdicts changed; without, none.
    """

    reflection_model: str | ChatModel | None = None
    embedding_model: str | EmbeddingModel | None = None
    retrieval_k: int | None = None
    shard_size: int | None = None
    authority: tuple[str, ...] | None = None
    columns: Mapping[str, str] | None = None
    max_cost: float | None = None
    concurrency: int | None = None
    impact: int | None = None

    def __post_init__(self) -> None:
        for name in ("shard_size", "impact"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise InputError(f"{name} must be 1 or more")
        self.calls()
        if self.authority is not None:
            object.__setattr__(self, "authority", checked_authority(self.authority))

    def calls(self, answers: AnswerStore | None = None, dry_run: DryRun | None = None) -> Calls:
        """The model calls of one align, within this optimizer's limits: for its `calls`."""
        return Calls(
            answers=answers, max_cost=self.max_cost, concurrency=self.concurrency, dry_run=dry_run
        )

    async def align(
        self,
        judge: Judge,
        feedback: FeedbackSource = (),
        *,
        skip_invalid: bool = False,
        refuse: Callable[[Feedback], str | None] | None = None,
        own_verdicts: OwnVerdicts | None = None,
        progress: Progress | None = None,
        calls: Calls | None = None,
    ) -> AlignResult[Any]:
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
        run = AlignRun(
            before=judge, progress=progress or notebook_progress(), calls=calls or self.calls()
        )
        judge = self._configured(judge)

        # 1. Validate: what can fail without a model call fails here. Unchanged rows cost nothing.
        check_instructions(judge.name, judge.instructions)
        source = RowSource.of(feedback, columns=self.columns, remembered=judge.columns)
        run.file = checked_rows(judge, source, skip_invalid=skip_invalid, refuse=refuse)
        run.notes += run.file.notes
        status = sort_rows(judge.memory, run.file.rows)
        news = [row for row in run.file.rows if status[row.key] != "unchanged"]
        replaced = [row.key for row in news if status[row.key] == "changed"]

        # 2. Annotations: all are kept, the policy says which label counts. What the judge itself had said of the cases
        #    goes with them.
        memory = add_annotations(judge.memory, news)
        memory, note = with_own_verdicts(run.before, memory, own_verdicts or {}, replaced)
        run.notes += [note] if note else []
        memory = without_disputed(memory)

        # 3. Embed what is new, in the process by default.
        embedded = await self._embedded(judge.replace(memory=memory), run)

        # 4. Distil what is pending: as many records as the model takes in one call, beside the guidelines that stand.
        #    Tests come with it: a model proposes them in its answer; where it is too weak for that, code finds them.
        learned = await self._distilled(embedded, run)

        # What a label speaks against, code does not decide any more.
        run.notes += lost_rules(judge.memory, learned.memory, judge.value_type)

        # 5. Locked cases are judged, hidden from themselves: a registry commits nothing that breaks one, unless it is
        #    told to. Then the impact, where it is asked for.
        if learned.memory.hash != judge.memory.hash:
            run.broken = await broken_locks(learned, run)
            run.held = with_lessons_waiting(embedded) if run.broken else None
        run.impact = await impact(learned, self.impact, run) if self.impact is not None else None
        return run.result(learned)

    async def unalign(
        self,
        judge: Judge,
        *selectors: str | FeedbackKey,
        source: str | None = None,
        people_agree: bool = False,
        keep: Collection[str] = (),
        progress: Progress | None = None,
        calls: Calls | None = None,
    ) -> AlignResult[Any]:
        """Forget feedback and all that came from it; what survivors taught beside it is distilled again without it.

        The forgetting needs no model: when none answers, the survivors' lessons are pending. A guideline that a person
        wrote or confirmed stays, and a note names it, unless that person's own words are withdrawn.

        Args:
            judge: The judge that is to forget.
            selectors: Ids (all annotations on a case) or keys (one).
            source: All feedback of this person.
            people_agree: Whether guidelines that people wrote or confirmed go too, where they saw the feedback.
            keep: Guidelines, by id, whose wording the person keeps although their own feedback goes.
            progress: Is told of each call.
            calls: Those of an earlier attempt.

        Raises:
            UnknownKey: A selector names nothing here.
        """
        run = AlignRun(
            before=judge, progress=progress or notebook_progress(), calls=calls or self.calls()
        )
        run.removed = judge.memory.keys(*selectors, source=source)
        keep = {keep} if isinstance(keep, str) else keep
        judge = self._configured(judge)

        # 1. Forget, without a model. Whatever is asked from here on is asked by a judge that has forgotten already.
        if theirs := () if people_agree else exposed_wordings(judge.memory, run.removed, keep):
            run.notes.append(
                f"{', '.join(theirs)} stay: people wrote or confirmed them; with consent they go too"
            )
        memory = without_disputed(
            forget(judge.memory, run.removed, people_agree=people_agree, keep=keep)
        )
        judge = judge.replace(memory=memory)

        # 2. Distil what survivors lost, and hold it against locked cases: a rule must not come back by another's end.
        try:
            embedded = await self._embedded(judge, run)
            learned = await self._distilled(embedded, run)
            if learned.memory.hash != judge.memory.hash:
                run.broken = await broken_locks(learned, run)
                learned = with_lessons_waiting(embedded) if run.broken else learned
        except (ConfigurationError, ModelError) as error:
            # No key, no model, no vectors: the forgetting happens all the same, and the survivors' lessons wait.
            keys = tuple(annotation.key for annotation in judge.memory.pending)
            waiting = dict.fromkeys(
                keys, Outcome(kind="waiting", reason=f"{WHY}: {error}", exposed_to=keys)
            )
            learned = judge.replace(memory=judge.memory.with_outcomes(waiting))
        return run.result(learned)

    # -- steps of both -------------------------------------------------------------------------------------------------

    async def _embedded(self, judge: Judge, run: AlignRun) -> Judge:
        """With a vector for every case: only new cases are embedded, unless the embedding model changed."""
        memory, model = judge.memory, resolve_embedding(judge.embedding_model)
        current = memory.embedding_model == model.name
        missing = [case for case in memory.cases if not (current and case.vector)]
        if not missing:
            return judge
        run.tell("embed", 0, len(missing))
        rows = await run.calls.embed(model, [embedding_text(case.example) for case in missing])
        run.tell("embed", len(missing), len(missing))
        vectors = {
            case.id: row.astype("<f4").tobytes() for case, row in zip(missing, rows, strict=True)
        }
        cases = tuple(
            replace(case, vector=vectors.get(case.id, case.vector)) for case in memory.cases
        )
        return judge.replace(memory=replace(memory, embedding_model=model.name, cases=cases))

    async def _distilled(self, judge: Judge, run: AlignRun) -> Judge:
        """Return the judge with what is pending distilled; no model is opened where nothing is.

        Whoever is too weak to write writes nothing: comments are guidelines word for word, and code finds the tests.
        """
        if not judge.memory.pending and not run.removed:
            return judge
        model = open_reflection_model(judge, self.reflection_model)
        if model.limits.writes:
            return await distil(judge, model, run, size=self.shard_size or model.limits.shard_size)
        judge = word_for_word(judge)
        return judge.replace(
            memory=with_mined(judge.memory, judge.value_type, named_parts(judge.instructions))
        )

    def _configured(self, judge: Judge) -> Judge:
        """The judge with these knobs."""
        names = ("retrieval_k", "embedding_model", "columns")
        changes: dict[str, Any] = {
            name: value for name in names if (value := getattr(self, name)) is not None
        }
        if self.authority is not None:
            changes["memory"] = replace(judge.memory, authority=self.authority)
        return judge.replace(**changes) if changes else judge
