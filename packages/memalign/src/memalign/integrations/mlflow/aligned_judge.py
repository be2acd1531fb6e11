"""The judge that an alignment gives: MLflow's surface, with our memory behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import mlflow
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.judges.base import Judge
from mlflow.genai.scorers.base import ScorerKind

import memalign
from memalign.integrations.mlflow import trace_feedback as reading
from memalign.integrations.mlflow.base_judges import core_name, runs_here
from memalign.integrations.mlflow.label_types import Scale, annotation_of
from memalign.integrations.mlflow.learning import forget_traces, learn
from memalign.integrations.mlflow.memory_view import Episode, LearnedGuideline, memory_used, told_reason
from memalign.integrations.mlflow.mlflow_errors import invalid, translated
from memalign.integrations.mlflow.optimizer_settings import Settings
from memalign.integrations.mlflow.registered import core_of_bundle, fetched, record_of, registration
from memalign.integrations.mlflow.trace_judging import ask_mlflow, with_guidelines
from memalign.judge.decision import finding_text
from memalign.models.judge_models import open_model
from memalign.models.providers import parse_name
from memalign.registry.bundle import bundle_of
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.align import AlignResult

__all__ = ["Episode", "LearnedGuideline", "MemAlignJudge", "as_scorer"]

_loading = threading.RLock()


class MemAlignJudge(Judge):  # type: ignore[misc]  # MLflow's classes are Any to mypy
    """An MLflow judge that learned from people's feedback; see `MemAlignOptimizer`.

    It never changes: `align` and `unalign` give another one. `memalign_judge` is the judge of ours behind it, with its
    whole memory; `alignment` the report of the align or unalign that made it, None for one that was loaded.
    """

    _base_judge: Any
    _scale: Scale
    _settings: Settings
    _core: memalign.Judge | None = None
    _record: dict[str, Any] | None = None
    _alignment: Any = None

    def __init__(
        self,
        *,
        base: Any,
        scale: Scale,
        settings: Settings,
        core: memalign.Judge | None = None,
        record: dict[str, Any] | None = None,
        alignment: AlignResult | None = None,
    ) -> None:
        timed = {"timeout": base.timeout} if "timeout" in type(base).model_fields else {}
        super().__init__(name=base.name, description=base.description, aggregations=base.aggregations, **timed)
        self._base_judge, self._scale, self._settings = base, scale, settings
        self._core, self._record, self._alignment = core, record, alignment

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def memalign_judge(self) -> memalign.Judge:
        """The judge of ours behind this one: `memalign.Registry().save(…)` keeps it, `evaluate` measures it.

        Of a registered judge the memory is fetched at the first use. Raises MlflowException where it is gone.
        """
        if self._core is None:
            with _loading:  # several rows may be judged first, and the memory is fetched once
                if self._core is None:
                    self._core = fetched(self._base_judge, self._scale, self._settings, self._record or {})
        return self._core

    @property
    def base_judge(self) -> Any:
        """The judge of MLflow's that was aligned."""
        return self._base_judge

    @property
    def scale(self) -> Scale:
        """How labels of MLflow's judge become ours."""
        return self._scale

    @property
    def alignment(self) -> AlignResult | None:
        """What the alignment that made this judge reports: rows, guidelines, conflicts, impact, cost."""
        report: AlignResult | None = self._alignment
        return report

    @property
    def instructions(self) -> str:
        """The author's text, then the guidelines in force."""
        return with_guidelines(
            self._base_judge.instructions, [guideline.guideline_text for guideline in self._semantic_memory]
        )

    @property
    def feedback_value_type(self) -> Any:
        """As the base judge has it."""
        return self._base_judge.feedback_value_type

    @property
    def model(self) -> str:
        """As the base judge has it."""
        return str(self._base_judge.model)

    @property
    def kind(self) -> ScorerKind:
        """What plain MLflow takes the judge for."""
        return ScorerKind.INSTRUCTIONS

    @property
    def is_session_level_scorer(self) -> bool:
        """Whether it judges whole sessions."""
        return bool(self._base_judge.is_session_level_scorer)

    def get_input_fields(self) -> list[Any]:
        """As the base judge has them."""
        return list(self._base_judge.get_input_fields())

    @property
    def _semantic_memory(self) -> list[LearnedGuideline]:
        if self._core is None and self._record is not None:
            return [
                LearnedGuideline(
                    guideline_text=rule["guideline_text"], source_trace_ids=tuple(rule.get("source_trace_ids") or ())
                )
                for rule in self._record.get("semantic_memory") or ()
            ]
        memory = self.memalign_judge.memory
        return [
            LearnedGuideline(
                id=guideline.id,
                guideline_text=guideline.text,
                source_trace_ids=tuple(dict.fromkeys(key.id for key in memory.sources_of(guideline))),
            )
            for guideline in memory.semantic
        ]

    @property
    def _episodic_memory(self) -> list[Episode]:
        return [
            Episode(
                trace_id=case.id,
                source=annotation.source,
                result=self._scale.label(annotation.value),
                rationale=annotation.rationale,
                **case.example.content,
            )
            for case in self.memalign_judge.memory.cases
            for annotation in case.annotations
        ]

    @property
    def _episodic_trace_ids(self) -> list[str]:
        if self._core is None and self._record is not None:
            return list(self._record.get("episodic_trace_ids") or ())
        return [case.id for case in self.memalign_judge.memory.cases]

    # -- judging ---------------------------------------------------------------------------------------------------

    def __call__(
        self,
        *,
        inputs: Any = None,
        outputs: Any = None,
        expectations: dict[str, Any] | None = None,
        trace: Any = None,
        session: list[Any] | None = None,
    ) -> Feedback:
        """MLflow's Feedback on one item. Fields that are not given are taken from the trace.

        Raises MlflowException: INVALID_PARAMETER_VALUE for a field that is missing, otherwise what the model did.
        """
        core = self.memalign_judge
        arguments = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        content = {
            name: reading.plain(value) for name, value in arguments.items() if value is not None and name in core.fields
        }
        silent: frozenset[str] = frozenset()
        if trace is not None:
            silent = (reading.absent_fields(trace) & set(core.fields)) - set(content)
            content = reading.content_of(trace, core.fields) | content
        if session and "conversation" in core.fields:
            content = reading.content_of_session(session, core.fields, base=self._base_judge) | content
        missing = [name for name in core.fields if name not in content]
        unsaid = bool(silent) and set(missing) <= silent
        if trace is not None and ("trace" in core.fields or unsaid) and not runs_here(self._base_judge):
            # Tools that look into the trace are MLflow's, also where its root span says nothing.
            return self._looked(core, content, {**arguments, "trace": trace})
        if missing:
            names = ", ".join("session" if name == "conversation" else name for name in missing)
            raise invalid(f"judge {self.name!r} needs {names}: its instructions name {{{{ {missing[0]} }}}}")
        with translated(), mlflow.tracing.context(enabled=False):  # autologging would make a trace of each model call
            judgment = core(Example(id="item", **{name: content[name] for name in core.fields}))
        return self._feedback(judgment, trace)

    def _feedback(self, judgment: Judgment, trace: Any) -> Feedback:
        usage = judgment.usage
        metadata: dict[str, Any] = {
            "guideline": self._base_judge.instructions,  # MLflow's UI shows it as the criterion
            "mlflow.assessment.judgeInputTokens": usage.input_tokens,
            "mlflow.assessment.judgeOutputTokens": usage.output_tokens,
            "memalign.cached_tokens": usage.cached_tokens,
            "memalign.memory_hash": judgment.memory_hash,
        }
        if usage.cost is not None:
            metadata["mlflow.assessment.judgeCost"] = usage.cost
        if judgment.confidence is not None:
            metadata["memalign.confidence"] = judgment.confidence
        if judgment.notes:
            metadata["memalign.notes"] = list(judgment.notes)
        if judgment.findings:
            metadata["memalign.findings"] = [finding_text(finding) for finding in judgment.findings]
        if judgment.findings or judgment.decided_by != "model":
            metadata["memalign.decided_by"] = judgment.decided_by
        if judgment.decided_by == "calibrator":
            metadata["memalign.own_value"] = self._scale.label(judgment.own_value)
        return Feedback(
            name=self.name,
            value=self._scale.label(judgment.value),
            rationale=told_reason(judgment, self._semantic_memory),
            source=AssessmentSource(source_type="LLM_JUDGE", source_id=self.model),
            trace_id=None if trace is None else trace.info.trace_id,
            metadata=metadata | memory_used(self._semantic_memory, judgment.guideline_ids, judgment.example_ids),
        )

    def _looked(self, core: memalign.Judge, content: dict[str, Any], arguments: dict[str, Any]) -> Feedback:
        with mlflow.tracing.context(enabled=False):
            feedback, guidelines, cases = ask_mlflow(core, self._base_judge, content, arguments)
        ours = {"guideline": self._base_judge.instructions, "memalign.memory_hash": core.memory.hash}
        used = memory_used(self._semantic_memory, guidelines, cases)
        feedback.metadata = dict(feedback.metadata or {}) | ours | used
        return feedback

    # -- learning and forgetting -----------------------------------------------------------------------------------

    def align(self, traces: list[Any], optimizer: Any = None) -> Any:
        """Learn from the feedback in `traces`, with the settings of before unless an optimizer is given."""
        # MLflow's own `align` refuses judges of sessions, and does nothing else beside calling the optimizer.
        if optimizer is not None:
            return optimizer.align(self, traces)
        result = learn(self.memalign_judge, traces, self._settings, base=self._base_judge, scale=self._scale)
        return self.replaced(result, self._settings) if result.changed else self

    def unalign(self, traces: Iterable[Any]) -> MemAlignJudge:
        """A judge without the feedback on `traces` and all that came from it; a trace that is gone goes by its id.

        Any trace of a session stands for the session.
        What others taught beside it is distilled again without it. Traces that the judge never learned from are named
        in a warning. Raises MlflowException where no model can be had.
        """
        result = forget_traces(self.memalign_judge, traces, self._settings)
        return self if result is None else self.replaced(result, self._settings)

    def replaced(self, result: AlignResult, settings: Settings) -> MemAlignJudge:
        """The judge that an alignment made of this one."""
        return MemAlignJudge(
            base=self._base_judge, scale=self._scale, settings=settings, core=result.judge, alignment=result
        )

    # -- MLflow's registry -----------------------------------------------------------------------------------------

    def register(self, *, name: str | None = None, experiment_id: str | None = None) -> MemAlignJudge:
        """Register the judge in MLflow, as plain MLflow can load and run it, with its whole memory as a run's artifact.

        Raises MlflowException, and leaves nothing behind, where MLflow refuses it.
        """
        with registration(self, name=name, experiment_id=experiment_id) as judge:
            registered: MemAlignJudge = super(MemAlignJudge, judge).register(name=name, experiment_id=experiment_id)
        return registered

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The record that MLflow stores: its own form for judges of instructions."""
        return record_of(self)

    def _create_copy(self) -> MemAlignJudge:
        return self._named(self.name)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> MemAlignJudge:
        copied: MemAlignJudge = self.__copy__()  # nothing in it changes, and a model's connections cannot be copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        document = None if self._core is None else bundle_of(self._core)
        return _unpickled, (self._base_judge, self._scale, self._settings, document, self._record)

    def __repr__(self) -> str:
        learned = f"guidelines={len(self._semantic_memory)}, traces={len(self._episodic_trace_ids)}"
        return f"MemAlignJudge(name={self.name!r}, model={self.model!r}, {learned})"

    __str__ = __repr__

    def _named(self, name: str, record: dict[str, Any] | None = None) -> MemAlignJudge:
        base = self._base_judge
        core = self._core
        if name != base.name:
            base = base.model_copy(update={"name": name})
            with translated():
                core = self.memalign_judge.replace(name=core_name(name))
        return MemAlignJudge(
            base=base,
            scale=self._scale,
            settings=self._settings,
            core=core,
            record=self._record if record is None else record,
            alignment=self._alignment,
        )


def as_scorer(judge: memalign.Judge) -> MemAlignJudge:
    """A memalign judge as an MLflow scorer: for `mlflow.genai.evaluate`, and to register.

    Judges of `{{ conversation }}` become session-level scorers. Raises MlflowException (INVALID_PARAMETER_VALUE) for
    fields that MLflow's judges cannot have together.
    """
    from mlflow.genai.judges.instructions_judge import InstructionsJudge

    if not isinstance(judge, memalign.Judge):
        raise invalid(
            f"as_scorer takes a memalign.Judge, got {type(judge).__name__}; MLflow's own judges are scorers already"
        )
    with translated():
        provider, model = parse_name(open_model(judge).name)
    base = InstructionsJudge(
        name=judge.name,
        instructions=judge.instructions,
        model=f"{provider}:/{model}",
        feedback_value_type=annotation_of(judge.value_type),
    )
    embedding = judge.embedding_model
    settings = Settings(embedding_model=embedding, value_type=judge.value_type.spec, parameters=dict(judge.parameters))
    return MemAlignJudge(base=base, scale=Scale(value_type=judge.value_type), settings=settings, core=judge)


def _unpickled(
    base: Any, scale: Scale, settings: Settings, document: Mapping[str, Any] | None, record: dict[str, Any] | None
) -> MemAlignJudge:
    """A judge from `pickle`: with its memory where it was there, and without the report that made it."""
    core = None if document is None else core_of_bundle(document, base, scale, settings)
    return MemAlignJudge(base=base, scale=scale, settings=settings, core=core, record=record)
