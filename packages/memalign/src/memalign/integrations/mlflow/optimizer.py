"""What `judge.align(traces=…, optimizer=…)` calls: MLflow's traces in, a judge that learned out."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jinja2  # noqa: F401  # what the first align needs is loaded here
import jsonschema  # noqa: F401
import mlflow
from mlflow.genai.judges.base import AlignmentOptimizer

import memalign
from memalign import aio
from memalign.align import AlignResult, MemAlign
from memalign.errors import InputError, InvalidRows
from memalign.integrations.mlflow.assessments import (
    TraceFeedback,
    listed,
    nothing_learned,
    read_feedback,
)
from memalign.integrations.mlflow.base_judges import base_of, core_of, value_type_of
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.registered import registered_as
from memalign.integrations.mlflow.routes import chat_model, embedding_model
from memalign.integrations.mlflow.traces import cases_of
from memalign.judge import Progress
from memalign.memory.forget import forget
from memalign.models import ChatModel, EmbeddingModel, resolve_embedding
from memalign.models.judge_models import decides_alone
from memalign.models.provider_model import preload
from memalign.types import FeedbackKey

preload()  # as MLflow's own optimizer loads DSPy: a first align that imports is seconds slower

_logger = logging.getLogger(__name__)

NAMED = 5
"""How many traces a warning names."""


@dataclass(frozen=True)
class MemAlignOptimizer(AlignmentOptimizer):  # type: ignore[misc]  # to mypy, it is Any
    """Aligns MLflow judges with people's feedback, with the arguments of MLflow's own optimizer.

    It holds nothing of a judge, and several threads may use it. Models have MLflow's names.

    Attributes:
        reflection_lm: Distils guidelines. None: the judge's own model; for a decision model
            MLflow's default model.
        retrieval_k: How many similar cases a judgment sees. None: as many as suit the model. An
            identical case is always shown.
        embedding_model: A provider's, such as `openai:/text-embedding-3-small`. None: the one in
            this process, which needs no network.
        embedding_dim: The length of its vectors; None: the model's own.
        value_type: The bounds of numbers (`"int:1..5"`), which MLflow's types lack.
        authority: The people whose label counts where people differ, first one first.
        skip_invalid: Whether labels that the judge cannot give are set aside with a warning,
            instead of stopping.
        progress: Called with the stage, how much of it is done, and of how much; None shows a bar
            in a notebook.

    Raises:
        MlflowException: A setting cannot be used (INVALID_PARAMETER_VALUE).
    """

    reflection_lm: str | ChatModel | None = None
    retrieval_k: int | None = None
    embedding_model: str | EmbeddingModel | None = None
    embedding_dim: int | None = None
    _: dataclasses.KW_ONLY
    value_type: Any = None
    authority: Sequence[str] | None = None
    skip_invalid: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for name in ("retrieval_k", "embedding_dim"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 1):
                raise invalid(f"{name} must be a positive integer, got {number!r}")
        if self.value_type is not None:
            value_type_of(None, self.value_type)
        # Keys and addresses may follow until the first align.
        checked = self._memalign(None, None)
        object.__setattr__(self, "authority", checked.authority)

    def align(self, judge: Any, traces: list[Any]) -> MemAlignJudge:
        """Learn from the feedback in traces; the judge that is given stays as it is.

        For every trace that is given, memory then holds what people say of it now: unchanged
        feedback costs nothing, and changed feedback replaces. Traces without feedback for the judge
        are named in a warning and skipped.

        Args:
            judge: An MLflow judge.
            traces: Traces with people's feedback, which has the judge's name.

        Returns:
            The judge that learned.

        Raises:
            MlflowException: Nothing can be learned, the judge cannot be aligned, a label is none of
                the judge's, or all feedback on a trace in memory was deleted
                (INVALID_PARAMETER_VALUE). No model was asked then.
        """
        start = self._start(judge)
        core = start.memalign_judge
        base = start.base_judge
        with translated():
            feedback = read_feedback(listed(traces), base.name, core, base)
        _check(core, feedback)
        stale = _stale(core, feedback)
        before = core.replace(memory=forget(core.memory, stale)) if stale else core
        optimizer = self._optimizer_for(core)
        with translated(), _rows_by_trace(), mlflow.tracing.context(enabled=False):
            result = aio.run(
                optimizer.align(
                    before,
                    feedback.rows,
                    skip_invalid=self.skip_invalid,
                    progress=self.progress,
                )
            )
        if stale:
            active = {guideline.id for guideline in result.judge.memory.semantic}
            forgotten = tuple(
                rule for rule in core.memory.semantic if rule.id not in active
            )
            result = dataclasses.replace(
                result, changed=True, removed=tuple(stale), forgotten=forgotten
            )
        result = dataclasses.replace(result, notes=(*feedback.notes, *result.notes))
        return (
            start
            if start is judge and not result.changed
            else self._reported(start, result)
        )

    def unalign(self, judge: Any, traces: Iterable[Any]) -> MemAlignJudge:
        """Forget the feedback on traces, or ids of traces; see `MemAlignJudge.unalign`."""
        start = self._start(judge)
        core = start.memalign_judge
        learned, unknown = cases_of(listed(traces, or_ids=True), core.memory)
        if unknown:
            _logger.warning("judge %s never learned from %s", core.name, _few(unknown))
        if not learned:
            return start
        optimizer = self._optimizer_for(core)
        with translated(), mlflow.tracing.context(enabled=False):
            result = aio.run(optimizer.unalign(core, *learned, progress=self.progress))
        return self._reported(start, result)

    def _reported(self, before: MemAlignJudge, result: AlignResult) -> MemAlignJudge:
        """Return the judge that an alignment made, and log what people should know of it."""
        name = result.judge.name
        if result.changed:
            _logger.info("judge %s: %s", name, result)
        for conflict in result.conflicts:
            given = ", ".join(
                f"{key.source}: {value}" for key, value in conflict.annotations.items()
            )
            text = "judge %s: people differ on %s: %s; %s counts (%s)"
            _logger.warning(
                text, name, _few(conflict.ids), given, conflict.label, conflict.reason
            )
        # One call that failed leaves much feedback pending, for one reason.
        reasons: dict[str, list[str]] = {}
        for key, why in result.pending:
            reasons.setdefault(why, []).append(str(key))
        for why, keys in reasons.items():
            count = f"{len(keys)} pieces of feedback are pending"
            text = "judge %s: %s, and the next align tries again: %s: %s"
            _logger.warning(text, name, count, _few(keys), why)
        return MemAlignJudge(
            base=before.base_judge, core=result.judge, optimizer=self, alignment=result
        )

    def _start(self, judge: Any) -> MemAlignJudge:
        """Return `judge` as one of ours, with its memory, its registered one, or an empty one.

        Raises MlflowException if it cannot be aligned.
        """
        if isinstance(judge, MemAlignJudge):
            return judge
        base = base_of(judge)
        known = registered_as(base)
        if known is not None:
            core = known.core(self.routed_embedding())
            text = "judge %s: %d cases of the registered version are its memory"
            _logger.info(text, base.name, len(core.memory.cases))
            return MemAlignJudge(base=known.base, core=core, optimizer=self)
        core = core_of(base, value_type_of(base.feedback_value_type, self.value_type))
        return MemAlignJudge(base=base, core=core, optimizer=self)

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values, without models that are objects of the caller's."""
        settings = {}
        for knob in dataclasses.fields(self):
            value = getattr(self, knob.name)
            if isinstance(value, tuple):
                value = list(value)
            if isinstance(value, str | int | list) and value is not False:
                settings[knob.name] = value
        return settings

    def routed_embedding(self) -> str | EmbeddingModel | None:
        """Return the embedding model at MLflow's route. Raises MlflowException."""
        model = self.embedding_model
        return (
            embedding_model(model, self.embedding_dim)
            if isinstance(model, str)
            else model
        )

    def _optimizer_for(self, core: memalign.Judge) -> MemAlign:
        """Return our optimizer.

        Raises MlflowException if a model cannot be had, before anything is asked.
        """
        reflection = self.reflection_lm
        embedding = self.routed_embedding()
        if reflection is None and decides_alone(core):
            from mlflow.genai.judges.utils import get_default_model

            reflection = get_default_model()
        if isinstance(reflection, str):
            reflection = chat_model(reflection)
        with translated():
            resolve_embedding(embedding)
        return self._memalign(reflection, embedding)

    def _memalign(
        self, reflection: str | ChatModel | None, embedding: str | EmbeddingModel | None
    ) -> MemAlign:
        with translated():
            return MemAlign(
                reflection_model=reflection,
                embedding_model=embedding,
                retrieval_k=self.retrieval_k,
                authority=self.authority,  # type: ignore[arg-type]  # any sequence
            )


@contextmanager
def _rows_by_trace() -> Iterator[None]:
    """Name traces and this optimizer's argument, not lines and the command line's option."""
    try:
        yield
    except InvalidRows as error:
        reasons = "\n".join(
            f"  {row.id}: {row.reason}" for row in error.rows[: InvalidRows.SHOWN]
        )
        more = "MemAlignOptimizer(skip_invalid=True) learns the others"
        raise InputError(
            f"{len(error.rows)} labels cannot be used, nothing was done; {more}\n{reasons}"
        ) from error


def _check(core: memalign.Judge, feedback: TraceFeedback) -> None:
    """Raise MlflowException if there is nothing to learn; warn of what is not learned."""
    if not (feedback.content or feedback.skipped):
        raise invalid("No traces provided for alignment")
    name = core.name
    skipped = feedback.skipped
    emptied = []
    for case_id in skipped:
        if case_id in feedback.content and core.memory.case(case_id) is not None:
            emptied.append(case_id)
    if emptied:
        raise invalid(
            f"all feedback for judge {name!r} on {_few(emptied)} was deleted since it was learned "
            f"({skipped[emptied[0]]}); aligning again forgets nothing: call unalign(traces) to "
            "forget it"
        )
    if not feedback.rows:
        raise invalid(nothing_learned(feedback, name))
    if skipped:
        every = len({*skipped, *feedback.content})
        why = next(iter(skipped.values()))
        text = "judge %s: skipped %d of %d traces, %s (%s)"
        _logger.warning(text, name, len(skipped), every, _few(list(skipped)), why)
    for note in feedback.notes:
        _logger.info("judge %s: %s", name, note)
    if core.value_type.numeric and not core.value_type.bounded:
        text = (
            "judge %s gives numbers without bounds; MemAlignOptimizer(value_type='%s:1..5') says "
            "which scale is meant, and which verdicts are far from a label"
        )
        _logger.warning(text, name, core.value_type.kind)


def _stale(core: memalign.Judge, feedback: TraceFeedback) -> list[FeedbackKey]:
    """Return the keys in memory that no longer hold.

    One of several people took theirs back, or the content is another now.
    """
    keys = {row.key for row in feedback.rows}
    stale = []
    for annotation in core.memory.annotations():
        content = feedback.content.get(annotation.id)
        if content is not None:
            example = core.memory.record(annotation.key)[1].example
            if annotation.key not in keys or content != example.content:
                stale.append(annotation.key)
    return stale


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
