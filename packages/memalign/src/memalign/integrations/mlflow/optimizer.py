"""MemAlignOptimizer: what `judge.align(traces=…, optimizer=…)` calls. MLflow's traces in, a judge that learned out."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2  # noqa: F401  # what the first align needs is loaded here, as MLflow's own optimizer loads DSPy
import jsonschema  # noqa: F401
import mlflow
from mlflow.entities import Trace
from mlflow.genai.judges.base import AlignmentOptimizer

import memalign
import memalign.models.provider_openai
from memalign import aio
from memalign.align import AlignResult, MemAlign
from memalign.align.forget import forget
from memalign.integrations.mlflow.assessments import TraceFeedback, read_feedback
from memalign.integrations.mlflow.base_judges import base_of, core_of, value_type_of
from memalign.integrations.mlflow.errors import in_mlflows_words, invalid, translated
from memalign.integrations.mlflow.judge import MemAlignJudge
from memalign.integrations.mlflow.rebuilding import is_theirs, rebuilt_core
from memalign.integrations.mlflow.routes import chat_model, embedding_model
from memalign.integrations.mlflow.runs import log_alignment
from memalign.integrations.mlflow.traces import cases_of
from memalign.judge import Progress
from memalign.models import ChatModel, EmbeddingModel, resolve_embedding
from memalign.models.judge_models import decides_alone
from memalign.types import FeedbackKey
from memalign.values import value_text

_logger = logging.getLogger(__name__)

NAMED = 5
"""How many traces a warning names."""


@dataclass(frozen=True)
class MemAlignOptimizer(AlignmentOptimizer):  # type: ignore[misc]  # MLflow's classes are Any to mypy
    """Aligns MLflow judges with people's feedback; the arguments of MLflow's own optimizer, and more.

    It holds nothing of a judge, and several threads may use it. Models are named as MLflow names them.

    Attributes:
        reflection_lm: Distils guidelines. None: the judge's own model; for a decision model MLflow's default model.
        retrieval_k: How many similar cases a judgment sees. None: as many as suit the model. An identical case is
            always shown.
        embedding_model: A provider's, such as `openai:/text-embedding-3-small`. None: the one in this process, which
            needs no network.
        embedding_dim: The length of its vectors; None: the model's own.
        value_type: The bounds of numbers (`"int:1..5"`), which MLflow's types lack.
        parameters: Those of `memalign.Judge` (`{"samples": 3}`), beside the judge's own inference parameters.
        authority: The people whose label counts where people differ, first one first.
        policy: By what labels are weighed where people differ; see `memalign.MemAlign`.
        shard_size: How many pieces of feedback one distillation call holds.
        skip_invalid: Whether labels that the judge cannot give are set aside with a warning, instead of stopping.
        progress: Called with the stage, how much of it is done, and of how much; None shows a bar in a notebook.
        log_run: Whether every alignment is an MLflow run, with settings, counts, and what changed in memory.

    Raises:
        MlflowException: A setting cannot be used (INVALID_PARAMETER_VALUE).
    """

    reflection_lm: str | ChatModel | None = None
    retrieval_k: int | None = None
    embedding_model: str | EmbeddingModel | None = None
    embedding_dim: int | None = None
    _: dataclasses.KW_ONLY
    value_type: Any = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    authority: Sequence[str] | None = None
    policy: Sequence[Any] | None = None
    shard_size: int | None = None
    skip_invalid: bool = False
    progress: Progress | None = None
    log_run: bool = False

    def __post_init__(self) -> None:
        for name in ("retrieval_k", "embedding_dim", "shard_size"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number <= 0):
                raise invalid(f"{name} must be a positive integer, got {number!r}")
        if self.value_type is not None:
            value_type_of(None, self.value_type)
        checked = self._memalign(None, None)  # keys and addresses may follow until the first align
        for name in ("authority", "policy"):
            object.__setattr__(self, name, getattr(checked, name))

    # -- learning and forgetting ---------------------------------------------------------------------------------------

    def align(self, judge: Any, traces: list[Any]) -> MemAlignJudge:
        """Learn from the feedback in traces; the judge that is given stays as it is.

        For every trace that is given, memory then holds what people say of it now: unchanged feedback costs nothing,
        and changed feedback replaces. Traces without feedback for the judge are named in a warning and skipped.

        Args:
            judge: An MLflow judge.
            traces: Traces with people's feedback, which has the judge's name.

        Returns:
            The judge that learned.

        Raises:
            MlflowException: Nothing can be learned, the judge cannot be aligned, a label is none of the judge's, or all
                feedback on a trace in memory was deleted (INVALID_PARAMETER_VALUE). No model was asked then.
        """
        start = self.start(judge)
        core, base = start.memalign_judge, start.base_judge
        feedback = read_feedback(_traces(traces), base.name, core, base)
        _check(core, feedback)
        stale = _stale(core, feedback)
        before = core.replace(memory=forget(core.memory, stale)) if stale else core
        optimizer = self._optimizer_for(core)
        with translated(), mlflow.tracing.context(enabled=False):
            result = aio.run(
                optimizer.align(before, feedback.rows, skip_invalid=self.skip_invalid, progress=self.progress)
            )
        if stale:
            active = {guideline.id for guideline in result.judge.memory.semantic}
            forgotten = tuple(guideline for guideline in core.memory.semantic if guideline.id not in active)
            result = dataclasses.replace(result, changed=True, removed=tuple(stale), forgotten=forgotten)
        result = dataclasses.replace(result, notes=(*feedback.notes, *result.notes))
        return start if start is judge and not result.changed else self._reported(start, result)

    def unalign(self, judge: MemAlignJudge, traces: Iterable[Any]) -> MemAlignJudge:
        """Forget the feedback on traces, or ids of traces; see `MemAlignJudge.unalign`."""
        core = judge.memalign_judge
        learned, unknown = cases_of(_traces(traces, or_ids=True), core.memory)
        if unknown:
            _logger.warning("judge %s never learned from %s", core.name, _few(unknown))
        if not learned:
            return judge
        optimizer = self._optimizer_for(core)
        with translated(), mlflow.tracing.context(enabled=False):
            result = aio.run(optimizer.unalign(core, *learned, progress=self.progress))
        return self._reported(judge, result)

    def _reported(self, before: MemAlignJudge, result: AlignResult) -> MemAlignJudge:
        """The judge that an alignment made of this one; what people should know of it is logged."""
        name = result.judge.name
        if result.changed:
            _logger.info("judge %s: %s", name, result)
            for conflict in result.conflicts[:NAMED]:
                labels = ", ".join(
                    f"{key.source} gave {value_text(value)}" for key, value in conflict.annotations.items()
                )
                counts = "no label counts" if conflict.label is None else f"{value_text(conflict.label)} counts"
                if conflict.kind == "comments":
                    counts = "their comments contradict each other"
                about = (name, _few(conflict.ids), labels, counts, conflict.reason)
                _logger.warning("judge %s: people differ on %s: %s; %s (%s)", *about)
            if pending := result.pending:
                keys: dict[str, list[str]] = {}  # one call that failed leaves many lessons, for one reason
                for key, why in pending:
                    keys.setdefault(in_mlflows_words(why), []).append(str(key))
                waiting = "; ".join(f"{_few(names)}: {why}" for why, names in keys.items())
                text = "judge %s: %d lessons wait and are tried again at the next align: %s"
                _logger.warning(text, name, len(pending), waiting)
            if self.log_run:
                log_alignment(result, self.record())
        return MemAlignJudge(base=before.base_judge, core=result.judge, optimizer=self, alignment=result)

    # -- where it starts -----------------------------------------------------------------------------------------------

    def start(self, judge: Any) -> MemAlignJudge:
        """`judge` as one of ours: itself, with the memory that MLflow's own optimizer gave it, or with an empty one.

        Raises MlflowException for one that cannot be aligned.
        """
        if isinstance(judge, MemAlignJudge):
            return judge
        if is_theirs(judge):
            guidelines = [guideline.model_dump() for guideline in judge._semantic_memory]
            return self.rebuilt(base_of(judge._base_judge), guidelines, judge._episodic_trace_ids)
        return self.rebuilt(base_of(judge))

    def rebuilt(
        self,
        base: Any,
        guidelines: Iterable[Mapping[str, Any]] = (),
        trace_ids: Sequence[str] = (),
        value_type: str | None = None,
    ) -> MemAlignJudge:
        """The judge of `base` with these guidelines, and with what people say now of these traces."""
        kind = value_type_of(base.feedback_value_type, value_type or self.value_type)
        core = core_of(base, kind, self.parameters)
        if guidelines or trace_ids:
            core = rebuilt_core(core, base.name, guidelines, trace_ids).replace(retrieval_k=self.retrieval_k)
        return MemAlignJudge(base=base, core=core, optimizer=self)

    # -- settings ------------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """The settings as JSON values; models that are objects of the caller's own are left out."""
        knobs = {knob.name: getattr(self, knob.name) for knob in dataclasses.fields(self) if knob.name != "progress"}
        models = ("reflection_lm", "embedding_model")
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in knobs.items()
            if value not in (None, {}, False) and (name not in models or isinstance(value, str))
        }

    def routed_embedding(self) -> str | EmbeddingModel | None:
        """The embedding model, where MLflow's route would have it. Raises MlflowException."""
        model = self.embedding_model
        return embedding_model(model, self.embedding_dim) if isinstance(model, str) else model

    def _optimizer_for(self, core: memalign.Judge) -> MemAlign:
        """Our optimizer. Raises MlflowException where a model cannot be had, before anything is asked."""
        reflection, embedding = self.reflection_lm, self.routed_embedding()
        if reflection is None and decides_alone(core):
            from mlflow.genai.judges.utils import get_default_model

            reflection = get_default_model()
        if isinstance(reflection, str):
            reflection = chat_model(reflection, "reflection_lm")
        with translated():
            resolve_embedding(embedding)
        return self._memalign(reflection, embedding)

    def _memalign(self, reflection: str | ChatModel | None, embedding: str | EmbeddingModel | None) -> MemAlign:
        knobs = ("retrieval_k", "authority", "policy", "shard_size")
        settings: dict[str, Any] = {name: getattr(self, name) for name in knobs}
        with translated():
            return MemAlign(reflection_model=reflection, embedding_model=embedding, **settings)


# -- what is given -----------------------------------------------------------------------------------------------------


def _traces(traces: Any, *, or_ids: bool = False) -> list[Any]:
    """The traces. Raises MlflowException for anything but a list of them: one trace can be iterated over, too."""
    kinds, ids = ((Trace, str), ", or of the ids of traces") if or_ids else ((Trace,), "")
    text = isinstance(traces, str | bytes | Trace) or not isinstance(traces, Iterable) or hasattr(traces, "columns")
    every = [traces] if text else list(traces)
    if text or any(not isinstance(trace, kinds) for trace in every):
        raise invalid(
            f"traces must be a list of Trace objects{ids}, such as mlflow.search_traces(return_type='list') gives; got "
            f"{type(every[0]).__name__}"
        )
    return every


def _check(core: memalign.Judge, feedback: TraceFeedback) -> None:
    """Raise MlflowException where there is nothing to learn; warn of what is not learned."""
    if not (feedback.content or feedback.skipped):
        raise invalid("no traces to align with")
    name, skipped = core.name, feedback.skipped
    emptied = [case_id for case_id in skipped if case_id in feedback.content and core.memory.case(case_id) is not None]
    if emptied:
        raise invalid(
            f"all feedback for judge {name!r} on {_few(emptied)} was deleted since it was learned "
            f"({skipped[emptied[0]]}); aligning again forgets nothing: call unalign(traces) to forget it"
        )
    why = next(iter(skipped.values()), "")
    if not feedback.rows:
        raise invalid(
            f"none of {len(skipped)} traces has feedback for judge {name!r} ({why}); log some with "
            "mlflow.log_feedback, as a person (source_type HUMAN)"
        )
    if skipped:
        text = "judge %s: skipped %d of %d traces, %s (%s)"
        _logger.warning(text, name, len(skipped), len(feedback.content), _few(list(skipped)), why)
    for note in feedback.notes:
        _logger.info("judge %s: %s", name, note)
    if core.value_type.numeric and not core.value_type.bounded:
        _logger.warning(
            "judge %s gives numbers without bounds; MemAlignOptimizer(value_type='%s:1..5') says which scale is meant, "
            "and which verdicts are far from a label",
            name,
            core.value_type.kind,
        )


def _stale(core: memalign.Judge, feedback: TraceFeedback) -> list[FeedbackKey]:
    """Keys in memory that no longer hold: one of several people took theirs back, or the content is another now."""
    keys = {row.key for row in feedback.rows}
    return [
        annotation.key
        for annotation in core.memory.annotations()
        if (content := feedback.content.get(annotation.id)) is not None
        and (annotation.key not in keys or content != core.memory.record(annotation.key)[1].example.content)
    ]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
