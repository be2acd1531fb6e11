"""MemAlign: from experts' feedback to a judge that learned from it. The pipeline, top to bottom.

The method is MemAlign's (dual memory: guidelines distilled from feedback, and the cases themselves), with pre-alignment verdicts,
typed deltas over small shards and exact forgetting added; DESIGN's order of stages is the order of this file.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.align.admission import admit
from memalign.align.consolidate import consolidate
from memalign.align.distil import distil, with_states
from memalign.align.forget import forget
from memalign.align.ingest import add_annotations, conflicts, refreshed, rule_conflicts, settle, sort_rows
from memalign.align.locked_cases import keep_locks
from memalign.align.pre_alignment import pre_alignment
from memalign.align.relate import candidates, relate
from memalign.align.result import AlignResult, Impact, LockCheck, RowReport
from memalign.errors import ConfigurationError, InputError, InvalidRows, ModelError, RowError
from memalign.io import FeedbackFile, check_feedback, read_feedback
from memalign.judge import Judge, Progress
from memalign.judge.calibrator import calibrates, calibrator_worth
from memalign.memory import Memory
from memalign.memory.directive_check import directive_in
from memalign.memory.label_policy import Rule, checked_authority, checked_policy
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve, resolve_embedding
from memalign.models.base import ChatModel, EmbeddingModel, Limits
from memalign.types import Feedback, FeedbackKey, Usage

if TYPE_CHECKING:
    from memalign.types import Guideline

__all__ = ["STAGES", "MemAlign", "default_stages"]

STAGES = frozenset({"pre_alignment", "distil", "consolidate", "admit", "budget"})
"""The stages that can be switched off, for ablations.

Without `pre_alignment` nothing is contrasted and no case ranks first as misjudged; without `distil` there are no guidelines, only
examples; without `consolidate` only guidelines of the same words are one; without `admit` nothing is tried before it
counts (locked cases always are); without `budget` no guideline is demoted, and what does not fit is left out.
"""


def default_stages(limits: Limits) -> frozenset[str]:
    """The stages that suit a model: all, but a weak one cannot say what two guidelines are to each other.

    The evidence is in docs/decisions/0009-stages.md.
    """
    return STAGES - {"consolidate"} if limits.brief else STAGES


NO_ROWS = FeedbackFile(rows=(), lines=())

replace = msgspec.structs.replace


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the stages made of a judge so far, and what they have to report; `learned` when there was something to learn."""

    judge: Judge
    learned: bool = False
    usage: Usage = Usage()
    impact: Impact | None = None
    locks: tuple[LockCheck, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MemAlign:
    """The optimizer and its knobs.

    `reflection_model` distils (None: the judge's model). `embedding_model` None is the judge's own, or the in-process one.
    `retrieval_k` is how many examples a judgment sees (None: as the judge has it). `shard_size` is how many pieces of
    feedback one distillation call holds (None: what the model can take). `policy` is by what several people's labels are
    weighed, and `authority` names the sources whose label then decides, first one first (None: as the judge has them).
    `stages` are those that run (None: what suits the model). `seed` is kept for methods that draw; every stage is
    deterministic.
    """

    reflection_model: str | ChatModel | None = None
    embedding_model: str | EmbeddingModel | None = None
    retrieval_k: int | None = None
    seed: int = 0
    shard_size: int | None = None
    authority: tuple[str, ...] | None = None
    policy: tuple[Rule, ...] | None = None
    stages: frozenset[str] | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.stages or ()) - STAGES)
        if unknown:
            raise InputError(f"unknown stage {unknown[0]!r}; stages: {', '.join(sorted(STAGES))}")
        if self.shard_size is not None and self.shard_size < 1:
            raise InputError("shard_size must be 1 or more")
        if self.authority is not None:
            object.__setattr__(self, "authority", checked_authority(self.authority))
        if self.policy is not None:
            object.__setattr__(self, "policy", checked_policy(self.policy))

    async def align(
        self,
        judge: Judge,
        feedback: str | Path | Iterable[Feedback | Mapping[str, Any]] = (),
        *,
        skip_invalid: bool = False,
        must_exist: bool = False,
        progress: Progress | None = None,
    ) -> AlignResult:
        """Learn from `feedback` (none: only what is pending) and return a complete new judge, or raise and change nothing.

        Raises InvalidRows when a row cannot be used, unless `skip_invalid`; with `must_exist`, a row whose key is not
        in memory is such a row. A model call that fails leaves named feedback pending instead.
        """
        started = time.perf_counter()
        given, judge = judge, self._configured(judge)
        before = judge.memory

        # Validate: unchanged rows cost nothing but may have another time; changed ones replace what they said before.
        file = self.check(judge, feedback, skip_invalid=skip_invalid, must_exist=must_exist)
        status = sort_rows(before, file.rows)
        news = [row for row in file.rows if status[row.key] != "unchanged"]

        # Annotations: all are kept; the policy says which of them count.
        memory = settle(add_annotations(refreshed(before, file.rows), news))

        # Learn, from what is new and from what still waits. The judge that is asked before learning knows nothing of what was replaced.
        replaced = [key for key, what in status.items() if what == "changed"]
        learner = judge.replace(memory=consolidate(settle(forget(before, replaced)))) if replaced else judge
        run = await self._learn(learner, memory, progress)
        run = await self._admit(learner, run, before, progress)
        if run.learned:
            run = dataclasses.replace(run, notes=(*run.notes, *await _worth_of_calibrator(run.judge)))
        return self._result(given, run, file=file, status=status, started=started)

    async def unalign(
        self, judge: Judge, *selectors: str | FeedbackKey, source: str | None = None, progress: Progress | None = None
    ) -> AlignResult:
        """Forget feedback and all that came from it; what survivors taught beside it is distilled again without it.

        `selectors` are ids (all annotations on a case) or keys (one); `source` all feedback of one person. Raises UnknownKey. The
        forgetting needs no model: when none answers, the survivors' lessons are pending.
        """
        started = time.perf_counter()
        given, judge = judge, self._configured(judge)
        keys = judge.memory.keys(*selectors, source=source)
        # Whatever is asked of a model from here on is asked by a judge that has forgotten already.
        judge = judge.replace(memory=consolidate(settle(forget(judge.memory, keys))))
        try:
            # What is derived again is tried again: a rule that was left out must not come back by its neighbour's end.
            run = await self._admit(judge, await self._learn(judge, judge.memory, progress), judge.memory, progress)
        except (ConfigurationError, ModelError) as error:
            # No key, no model, no vectors: the forgetting happens all the same, and the survivors' lessons wait.
            waiting = [annotation.key for annotation in judge.memory.annotations() if annotation.state == "pending"]
            why = f"to be derived again without withdrawn feedback: {error}"
            memory = with_states(consolidate(judge.memory), dict.fromkeys(waiting, ("pending", why)))
            run = Run(judge=judge.replace(memory=memory))
        return self._result(given, run, status={}, started=started, removed=keys)

    async def _learn(self, judge: Judge, memory: Memory, progress: Progress | None) -> Run:
        """Embed what is new, pre-alignment verdict, distil what is pending, consolidate, keep to the budget. The judge is as before."""
        memory = await self._embed(judge, memory, progress)
        waiting = any(annotation.state == "pending" for annotation in memory.annotations())
        if not waiting and not await candidates(memory):
            return Run(judge=judge.replace(memory=consolidate(self._budgeted(judge, memory))))
        usage, stages = Usage(), self._stages(judge)
        notes: tuple[str, ...] = ()
        if waiting and "pre_alignment" in stages:
            memory, spent = await pre_alignment(judge, memory, progress=progress)
            usage += spent
        if waiting and "distil" in stages:
            model = resolve(self.reflection_model or judge.model)
            size = self.shard_size or model.limits.shard_size
            contrast = "pre_alignment" in stages
            memory, spent = await distil(judge, memory, model, shard_size=size, contrast=contrast, progress=progress)
            usage += spent
        if "consolidate" in stages:
            model = resolve(self.reflection_model or judge.model)
            memory, spent, notes = await relate(judge, memory, model, progress=progress)
            usage += spent
        memory = self._budgeted(judge, memory)
        return Run(judge=judge.replace(memory=consolidate(memory)), learned=True, usage=usage, notes=notes)

    async def _admit(self, judge: Judge, run: Run, met: Memory, progress: Progress | None) -> Run:
        """Try what was learned before it counts; `judge` is as it was, without what was replaced of `met`."""
        if run.learned and "admit" in self._stages(judge):
            learned, impact, spent = await admit(judge, run.judge, met=met, progress=progress)
            run = dataclasses.replace(run, judge=learned, usage=run.usage + spent, impact=impact)
        return await self._keep_locks(judge, run, progress)

    async def _keep_locks(self, judge: Judge, run: Run, progress: Progress | None) -> Run:
        """Leave out what breaks a locked case; `judge` is as it was."""
        learned, locks, spent = await keep_locks(judge, run.judge, progress=progress)
        return dataclasses.replace(run, judge=learned, usage=run.usage + spent, locks=locks)

    def _budgeted(self, judge: Judge, memory: Memory) -> Memory:
        """`memory` with what guidelines may take of a prompt for the judge's model; as it is where there is no model."""
        try:
            tokens = judge.budget().guidelines if "budget" in self._stages(judge) else None
        except ConfigurationError:
            return memory  # nothing was asked, and an align without anything to learn needs no model
        return replace(memory, guideline_tokens=tokens)

    def _stages(self, judge: Judge) -> frozenset[str]:
        return default_stages(resolve(judge.model).limits) if self.stages is None else self.stages

    async def _embed(self, judge: Judge, memory: Memory, progress: Progress | None) -> Memory:
        """`memory` with a vector for every case: only new cases are embedded, unless the embedding model changed."""
        model = resolve_embedding(judge.embedding_model)
        kept = memory.embedding_model == model.name
        missing = [case for case in memory.cases if not (kept and case.vector)]
        if not missing:
            return replace(memory, embedding_model=model.name) if memory.cases else memory
        if progress is not None:
            progress("embed", 0, len(missing))
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
        if self.authority is not None or self.policy is not None:
            authority = judge.memory.authority if self.authority is None else self.authority
            policy = judge.memory.policy if self.policy is None else self.policy
            changes["memory"] = replace(judge.memory, authority=authority, policy=policy)
        return judge.replace(**changes) if changes else judge

    def check(
        self,
        judge: Judge,
        feedback: str | Path | Iterable[Feedback | Mapping[str, Any]],
        *,
        skip_invalid: bool = False,
        must_exist: bool = False,
    ) -> FeedbackFile:
        """The rows that `align` would learn, by which it begins; no model is asked. Raises what it raises for bad rows."""
        known = {case.id: case.example.content_hash for case in judge.memory.cases}
        if isinstance(feedback, str | Path):
            file = read_feedback(feedback, value_type=judge.value_type, skip_invalid=skip_invalid, known=known)
            source = str(feedback)
        else:
            items = tuple(feedback)
            if not items:
                return NO_ROWS
            file = check_feedback(items, value_type=judge.value_type, skip_invalid=skip_invalid, known=known)
            source = "feedback"
        faults = [
            RowError(line=line, id=row.id, reason=reason)
            for row, line in zip(file.rows, file.lines, strict=True)
            if (reason := judge.misfit(row))
        ]
        if must_exist:
            faults += _strangers(judge.memory, file.rows, file.lines)
        if not faults:
            return file
        if not skip_invalid:
            raise InvalidRows(source, sorted(faults, key=lambda fault: fault.line))
        bad = {fault.line for fault in faults}
        kept = [(row, line) for row, line in zip(file.rows, file.lines, strict=True) if line not in bad]
        return FeedbackFile(
            rows=tuple(row for row, _ in kept),
            lines=tuple(line for _, line in kept),
            invalid=(*file.invalid, *faults),
        )

    def _result(
        self,
        given: Judge,
        run: Run,
        *,
        file: FeedbackFile = NO_ROWS,
        status: Mapping[FeedbackKey, Any],
        started: float,
        removed: Sequence[FeedbackKey] = (),
    ) -> AlignResult:
        learned = run.judge
        before, after = ({g.id: g for g in judge.memory.guidelines} for judge in (given, learned))
        ledger = {entry.key: entry for entry in learned.memory.ledger()}
        rows = [
            RowReport(
                line=line,
                key=str(row.key),
                status=status[row.key],
                state=ledger[row.key].state,
                reason=ledger[row.key].reason,
            )
            for row, line in zip(file.rows, file.lines, strict=True)
        ]
        rows += [
            RowReport(line=bad.line, key=bad.id or "", status="invalid", reason=bad.reason) for bad in file.invalid
        ]
        written: tuple[Guideline, ...] = tuple(g for name, g in after.items() if name not in before)
        return AlignResult(
            judge=learned,
            rows=tuple(sorted(rows, key=lambda row: row.line)),
            guidelines=written,
            forgotten=tuple(g for name, g in before.items() if name not in after),
            removed=tuple(removed),
            conflicts=conflicts(learned.memory),
            rule_conflicts=rule_conflicts(learned.memory),
            impact=run.impact,
            locks=run.locks,
            notes=(*run.notes, *_directives(written, learned)),
            usage=run.usage,
            seconds=time.perf_counter() - started,
            changed=learned != given,
        )


async def _worth_of_calibrator(judge: Judge) -> list[str]:
    """That plain features see what the judge does not: then its verdicts are worth less than a regression that costs nothing."""
    worth = None if "calibrate" in judge.parameters else await calibrator_worth(judge)
    if worth is None or not worth.clear:
        return []
    stands = (
        "its value stands" if calibrates(judge, resolve(judge.model).limits) else "with calibrate=true its value stands"
    )
    note = (
        f"of {worth.n} taught cases the judge had {worth.judge} right before it learned, and a regression on its verdict, the "
        f"length and the likeness to the reference {worth.calibrator}, on cases that it was not fitted on: {stands} beside the "
        "judge's, as calibrated_value"
    )
    return [note]


def _directives(written: Sequence[Guideline], judge: Judge) -> list[str]:
    """New guidelines in force that are orders rather than rules: a person should look, and nothing is dropped."""
    flagged = [(g, why) for g in written if g.status != "retired" and (why := directive_in(g.text, judge.value_type))]
    return [
        f"look at {g.id} (from {', '.join(map(str, g.supported_by))}): {why}; keep it, reword it or retire it"
        for g, why in flagged
    ]


def _strangers(memory: Memory, rows: Sequence[Feedback], lines: Sequence[int]) -> list[RowError]:
    return [
        RowError(line=line, id=row.id, reason=f"{row.key} is not in memory; overwrite takes known feedback only")
        for row, line in zip(rows, lines, strict=True)
        if memory.annotation(row.key) is None
    ]
