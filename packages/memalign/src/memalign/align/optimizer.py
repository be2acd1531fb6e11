"""MemAlign: from experts' feedback to a judge that learned from it, step by step.

The method is MemAlign's (dual memory: guidelines distilled from feedback, and the cases
themselves), with typed deltas and exact forgetting added.
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
from memalign.align.locks import (
    broken_locks,
    with_lessons_unanswered,
    with_lessons_waiting,
)
from memalign.align.mining import with_mined
from memalign.align.pasted import check_instructions
from memalign.align.result import AlignResult
from memalign.align.run import AlignRun
from memalign.align.word_for_word import word_for_word
from memalign.errors import ConfigurationError, InputError, ModelError
from memalign.io import FeedbackSource, OwnVerdicts, RowSource
from memalign.judge import Judge, Progress, named_parts
from memalign.judge.rules import lost_rules
from memalign.memory.forget import exposed_wordings, forget, without_disputed
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
        reflection_model: The model that distils (None: the one of the judge's parameters, else its
            model).
        embedding_model: The model that embeds cases (None: the judge's own, or the in-process one).
        retrieval_k: How many examples a judgment sees.
        shard_size: How many pieces of feedback one distillation call holds (None: as many as the
            model can take).
        authority: The sources whose label decides where people differ, first one first.
        columns: The column that a field is read from, such as `{"value": "label"}`; the judge
            remembers it.
        max_cost: The most that one align may spend, in dollars; what it stops stays pending.
        concurrency: How many calls are in flight at most (None: as many as suit the model).
        impact: How many taught cases are judged again, before and after, to say which verdicts
            changed (None: no case).
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
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"{name} must be 1 or more")
        self.calls()  # which checks the limits
        if self.authority is not None:
            object.__setattr__(self, "authority", checked_authority(self.authority))

    def calls(
        self, answers: AnswerStore | None = None, dry_run: DryRun | None = None
    ) -> Calls:
        """Create the model calls of one run, within this optimizer's limits.

        Args:
            answers: Answers that are kept, so that they are paid for once.
            dry_run: Counts calls instead of making them.
        """
        return Calls(
            answers=answers,
            max_cost=self.max_cost,
            concurrency=self.concurrency,
            dry_run=dry_run,
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
            judge: The judge that learns.
            feedback: The rows; without any, only what is pending is learned.
            skip_invalid: Whether rows that cannot be used are left out and named.
            refuse: Gives a reason why a row may not be learned, or None. Such a row is always left
                out and named.
            own_verdicts: Judgments that the judge gave before, by the ids of the cases, or a file
                of them. They stand beside what its experts say. Nothing is asked for them.
            progress: Is told of each call.
            calls: The calls of an earlier align, on another version of the judge.

        Raises:
            InvalidRows: A row cannot be used, unless `skip_invalid`.
        """
        run = self._begin(judge, progress, calls)
        judge = self._configured(judge)

        # 1. Validate: what can fail without a model call fails here. Unchanged rows cost nothing.
        check_instructions(judge.name, judge.instructions)
        source = RowSource.of(feedback, columns=self.columns, remembered=judge.columns)
        run.file = checked_rows(judge, source, skip_invalid=skip_invalid, refuse=refuse)
        run.notes += run.file.notes

        # 2. Annotations: all are kept, and the judge's policy says which label counts.
        annotated = _annotated(judge, own_verdicts or {}, run)

        # 3. Embed new cases, in the process by default.
        embedded = await _embedded(annotated, run)

        # 4. and 5. Distil pending feedback, as many records a call as the model takes, beside the
        #    guidelines in force. Tests come with it: a model proposes them, or code mines them.
        learned = await self._distilled(embedded, run)
        run.notes += lost_rules(judge.memory, learned.memory, judge.value_type)

        # 6. Locked cases are judged, hidden from themselves: a registry commits nothing that breaks
        #    one, unless it is told to. Then the impact, if asked for.
        if learned.memory.hash != judge.memory.hash:
            run.broken = await broken_locks(learned, run)
        if run.broken:
            run.held = with_lessons_waiting(embedded)
        if self.impact is not None:
            run.impact = await impact(learned, self.impact, run)
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
        """Forget feedback and all that came from it, and distil again what other feedback lost.

        The forgetting needs no model: if none answers, those lessons are pending. A guideline that
        a person wrote or confirmed stays, and a note names it, unless that person's own words are
        withdrawn.

        Args:
            judge: The judge that forgets.
            selectors: Ids (all annotations on a case) or keys (one).
            source: All feedback of this person.
            people_agree: Whether guidelines that people wrote or confirmed go too, if they were
                exposed to the feedback.
            keep: Ids of guidelines whose wording the person keeps although their own feedback goes.
            progress: Is told of each call.
            calls: The calls of an earlier attempt.

        Raises:
            UnknownKey: A selector names nothing here.
        """
        run = self._begin(judge, progress, calls)
        run.removed = judge.memory.keys(*selectors, source=source)
        keep = {keep} if isinstance(keep, str) else keep
        judge = self._configured(judge)

        # 1. Forget, without a model. From here on every question is asked by a judge that forgot.
        staying = exposed_wordings(judge.memory, run.removed, keep)
        if staying and not people_agree:
            names = ", ".join(staying)
            run.notes.append(
                f"{names} stay: people wrote or confirmed them; with consent they go too"
            )
        memory = forget(judge.memory, run.removed, people_agree=people_agree, keep=keep)
        judge = judge.replace(memory=without_disputed(memory))

        # 2. Distil what was lost beside it, and judge locked cases: no new rule may break one.
        try:
            embedded = await _embedded(judge, run)
            learned = await self._distilled(embedded, run)
            if learned.memory.hash != judge.memory.hash:
                run.broken = await broken_locks(learned, run)
            if run.broken:
                learned = with_lessons_waiting(embedded)
        except (ConfigurationError, ModelError) as error:
            # There is no key, no model or no vector. What was forgotten stays forgotten.
            learned = with_lessons_unanswered(judge, error)
            run.notes.append(f"what other feedback lost waits: {error}")
        return run.result(learned)

    def _begin(
        self, judge: Judge, progress: Progress | None, calls: Calls | None
    ) -> AlignRun:
        return AlignRun(
            before=judge,
            progress=progress or notebook_progress(),
            calls=calls or self.calls(),
        )

    def _configured(self, judge: Judge) -> Judge:
        """Return the judge with these knobs."""
        changes: dict[str, Any] = {}
        for name in ("retrieval_k", "embedding_model", "columns"):
            value = getattr(self, name)
            if value is not None:
                changes[name] = value
        if self.authority is not None:
            changes["memory"] = replace(judge.memory, authority=self.authority)
        return judge.replace(**changes) if changes else judge

    async def _distilled(self, judge: Judge, run: AlignRun) -> Judge:
        """Return the judge with its pending feedback distilled.

        If nothing is pending, no model is opened. A model that is too weak to write is not asked:
        comments are guidelines word for word, and code finds the tests.
        """
        if not judge.memory.pending and not run.removed:
            return judge
        model = open_reflection_model(judge, self.reflection_model)
        if model.limits.writes:
            size = self.shard_size or model.limits.shard_size
            return await distil(judge, model, run, size=size)
        judge = word_for_word(judge)
        fields = named_parts(judge.instructions)
        memory = with_mined(judge.memory, judge.value_type, fields)
        return judge.replace(memory=memory)


def _annotated(judge: Judge, own_verdicts: OwnVerdicts, run: AlignRun) -> Judge:
    """Return the judge with the rows of a run as annotations, beside its own verdicts."""
    status = sort_rows(judge.memory, run.file.rows)
    news = []
    changed = []
    for row in run.file.rows:
        if status[row.key] == "unchanged":
            continue
        news.append(row)
        if status[row.key] == "changed":
            changed.append(row.key)
    memory = add_annotations(judge.memory, news)
    memory, note = with_own_verdicts(run.before, memory, own_verdicts, changed)
    if note:
        run.notes.append(note)
    return judge.replace(memory=without_disputed(memory))


async def _embedded(judge: Judge, run: AlignRun) -> Judge:
    """Return the judge with a vector for every case.

    Only new cases are embedded, unless the embedding model changed.
    """
    memory = judge.memory
    model = resolve_embedding(judge.embedding_model)
    if memory.embedding_model == model.name:
        missing = [case for case in memory.cases if not case.vector]
    else:
        missing = list(memory.cases)
    if not missing:
        return judge
    count = len(missing)
    texts = [embedding_text(case.example) for case in missing]
    run.tell("embed", 0, count)
    rows = await run.calls.embed(model, texts)
    run.tell("embed", count, count)
    cases = []
    for case, row in zip(missing, rows, strict=True):
        vector = row.astype("<f4").tobytes()
        cases.append(replace(case, vector=vector))
    memory = replace(memory.with_cases(cases), embedding_model=model.name)
    return judge.replace(memory=memory)
