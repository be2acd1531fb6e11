"""The judge that an alignment gives: MLflow's surface, with our memory behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlflow
from mlflow.entities import AssessmentSource, Feedback
from mlflow.genai.judges.base import Judge
from mlflow.genai.scorers.base import ScorerKind

import memalign
from memalign.align.pasted import check_instructions
from memalign.integrations.mlflow.base_judges import core_name, mlflow_label
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.record import record_of, registration
from memalign.integrations.mlflow.traces import content_of, logged, without_verdicts
from memalign.integrations.mlflow.verdicts import (
    LearnedGuideline,
    ask_mlflow,
    instructions_with,
    learned_guidelines,
    metadata_of,
    rationale_of,
)
from memalign.judge import task_of
from memalign.judge.standing import standing_judgment
from memalign.types import Example, Judgment

if TYPE_CHECKING:
    from memalign.align import AlignResult
    from memalign.integrations.mlflow.optimizer import MemAlignOptimizer


@dataclass(frozen=True, kw_only=True)
class Episode:
    """What one person said of one trace, under the names that MLflow's own judge has."""

    _trace_id: str
    source: str
    result: Any
    rationale: str | None


class MemAlignJudge(Judge):  # type: ignore[misc]  # MLflow's classes are Any to mypy
    """An MLflow judge that learned from people's feedback, from `MemAlignOptimizer` or `load`.

    It never changes: `align` and `unalign` give another one.
    """

    _base_judge: Any
    _core: memalign.Judge
    _optimizer: MemAlignOptimizer
    _alignment: Any = None
    _reference: Any = None  # where the registered memory is kept

    def __init__(
        self,
        *,
        base: Any,
        core: memalign.Judge,
        optimizer: MemAlignOptimizer,
        alignment: AlignResult | None = None,
    ) -> None:
        with translated():
            check_instructions(base.name, base.instructions)
        # Name, description, aggregations; in newer versions of MLflow also a time limit and the
        # level of sessions.
        super().__init__(
            **{field: getattr(base, field) for field in type(base).model_fields}
        )
        self._base_judge = base
        self._core = core
        self._optimizer = optimizer
        self._alignment = alignment

    # -- judging -----------------------------------------------------------------------------------

    def __call__(
        self,
        *,
        inputs: Any = None,
        outputs: Any = None,
        expectations: dict[str, Any] | None = None,
        trace: Any = None,
        session: list[Any] | None = None,
    ) -> Feedback:
        """Judge one item; fields that are not given are taken from the trace.

        Args:
            inputs: What the application was asked.
            outputs: What it answered.
            expectations: What people expect of it.
            trace: The MLflow trace of the item.
            session: The traces of a session, for a judge of `{{ conversation }}`.

        Returns:
            MLflow's Feedback; the metadata names the guidelines and, most similar first, the traces
            that were shown.

        Raises:
            MlflowException: A field is missing (INVALID_PARAMETER_VALUE), or the model failed.
        """
        core = self._core
        given = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        content = self._content(given, trace, session)
        missing = [name for name in core.fields if name not in content]
        item = None if missing else Example(id="item", **content)
        standing = None
        if item is not None:
            standing = standing_judgment(task_of(core), core.memory, item)
        if standing is None and self._looks_into(trace):
            arguments = {**given, "trace": without_verdicts(trace)}
            with mlflow.tracing.context(enabled=False):
                return ask_mlflow(core, self._base_judge, content, arguments)
        if item is None:
            names = ", ".join(missing).replace("conversation", "session")
            raise invalid(
                f"judge {self.name!r} needs {names}: its instructions name {{{{ {missing[0]} }}}}"
            )
        # Autologging would make a trace of each model call.
        with translated(), mlflow.tracing.context(enabled=False):
            judgment = core(item) if standing is None else standing
        return self._feedback(judgment, None if trace is None else trace.info.trace_id)

    def _looks_into(self, trace: Any) -> bool:
        """Return whether MLflow's own judge is asked, whose tools look into the trace."""
        if trace is None or "trace" not in self._core.fields:
            return False
        return not self.model.startswith("local:")  # which MLflow cannot ask

    def _content(
        self, given: dict[str, Any], trace: Any, session: Any
    ) -> dict[str, Any]:
        """Return the fields that the judge reads: what is given, and the rest from the traces."""
        fields = self._core.fields
        content: dict[str, Any] = {}
        if session and "conversation" in fields:
            content.update(content_of(session, fields, self._base_judge))
        if trace is not None:
            content.update(content_of([trace], set(fields) - {"conversation"}))
        for name, value in given.items():
            if value is not None and name in fields:
                content[name] = logged(value)
        return content

    def _feedback(self, judgment: Judgment, trace_id: str | None) -> Feedback:
        usage = judgment.usage
        memory = self._core.memory
        metadata = {
            "guideline": self._base_judge.instructions,  # MLflow's UI shows it as the criterion
            "mlflow.assessment.judgeInputTokens": usage.input_tokens,
            "mlflow.assessment.judgeOutputTokens": usage.output_tokens,
            "mlflow.assessment.judgeCost": usage.cost,
            "memalign.cached_tokens": usage.cached_tokens,
            "memalign.confidence": judgment.confidence,
            "memalign.answered_by": judgment.answered_by or None,
            "memalign.notes": list(judgment.notes) or None,
            "memalign.findings": [str(finding) for finding in judgment.findings]
            or None,
        }
        if judgment.findings or judgment.decided_by != "model":
            metadata["memalign.decided_by"] = judgment.decided_by
        metadata |= metadata_of(memory, judgment.guideline_ids, judgment.example_ids)
        return Feedback(
            name=self.name,
            value=mlflow_label(self.feedback_value_type, judgment.value),
            rationale=rationale_of(judgment, memory),
            source=AssessmentSource(source_type="LLM_JUDGE", source_id=self.model),
            trace_id=trace_id,
            metadata={
                name: value for name, value in metadata.items() if value is not None
            },
        )

    # -- learning and forgetting -------------------------------------------------------------------

    def align(self, traces: list[Any], optimizer: Any = None) -> Any:
        """Learn from the feedback in traces.

        Args:
            traces: Traces with people's feedback.
            optimizer: None for the one that aligned this judge before.

        Returns:
            The judge that learned; this one where there was nothing new.

        Raises:
            MlflowException: As for `MemAlignOptimizer.align`.
        """
        # MLflow's own `align` refuses judges of sessions, and does nothing else beside this.
        return (optimizer or self._optimizer).align(self, traces)

    def unalign(self, traces: Iterable[Any]) -> MemAlignJudge:
        """Forget the feedback on traces, and all that came from it.

        What others taught beside it is distilled again.

        Args:
            traces: Traces, or the ids of traces that are gone. Any trace of a session stands for
                the session. A warning names those that the judge never learned from.

        Returns:
            The judge without that feedback.

        Raises:
            MlflowException: It is no list of traces (INVALID_PARAMETER_VALUE).
        """
        return self._optimizer.unalign(self, traces)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def memalign_judge(self) -> memalign.Judge:
        """The memalign judge behind this one, for `memalign.Registry().save(…)` and `evaluate`."""
        return self._core

    @property
    def base_judge(self) -> Any:
        """The judge of MLflow's that was aligned."""
        return self._base_judge

    @property
    def alignment(self) -> AlignResult | None:
        """The report of the align or unalign that made this judge; None for one that was loaded."""
        report: AlignResult | None = self._alignment
        return report

    @property
    def instructions(self) -> str:
        """The author's text, then the guidelines in force."""
        return instructions_with(self._base_judge.instructions, self._core.memory)

    @property
    def feedback_value_type(self) -> Any:
        """The type of the base judge."""
        return self._base_judge.feedback_value_type

    @property
    def model(self) -> str:
        """The model of the base judge."""
        return str(self._base_judge.model)

    @property
    def kind(self) -> ScorerKind:
        """The kind of judge that plain MLflow takes it for."""
        return ScorerKind.INSTRUCTIONS

    @property
    def is_session_level_scorer(self) -> bool:
        """True for a judge of whole sessions."""
        return bool(self._base_judge.is_session_level_scorer)

    def get_input_fields(self) -> list[Any]:
        """Return the input fields of the base judge."""
        return list(self._base_judge.get_input_fields())

    @property
    def _semantic_memory(self) -> list[LearnedGuideline]:
        return learned_guidelines(self._core.memory)

    @property
    def _episodic_memory(self) -> list[Episode]:
        kind = self.feedback_value_type
        return [
            Episode(
                _trace_id=entry.id,
                source=entry.source,
                result=mlflow_label(kind, entry.value),
                rationale=entry.rationale,
            )
            for entry in self._core.memory.annotations()
        ]

    @property
    def _episodic_trace_ids(self) -> list[str]:
        return [case.id for case in self._core.memory.cases]

    # -- MLflow's registry, copies and pickle ------------------------------------------------------

    def register(
        self, *, name: str | None = None, experiment_id: str | None = None
    ) -> MemAlignJudge:
        """Register the judge as plain MLflow can run it, with its whole memory as an artifact.

        Args:
            name: Another name to register it under.
            experiment_id: The experiment; None for the active one.

        Returns:
            The registered judge.

        Raises:
            MlflowException: MLflow refuses it; nothing is left behind then.
        """
        renamed = self._named(name or self.name)
        with registration(renamed.name, renamed._core, experiment_id) as reference:
            renamed._reference = reference
            registered: MemAlignJudge = super(MemAlignJudge, renamed).register(
                experiment_id=experiment_id
            )
        return registered

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the record that MLflow stores: its own form for judges of instructions."""
        return record_of(
            self._base_judge,
            self._core,
            self._optimizer.record(),
            self._reference or {},
        )

    def _create_copy(self) -> MemAlignJudge:
        return self._named(self.name)

    def _named(self, name: str) -> MemAlignJudge:
        base = self._base_judge
        core = self._core
        if name != base.name:
            base = base.model_copy(update={"name": name})
            core = core.replace(name=core_name(name))
        copied = MemAlignJudge(
            base=base, core=core, optimizer=self._optimizer, alignment=self._alignment
        )
        copied._reference = self._reference
        return copied

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> MemAlignJudge:
        # Nothing in it changes, and a model's connections cannot be copied.
        copied: MemAlignJudge = self.__copy__()
        return copied

    def __repr__(self) -> str:
        memory = self._core.memory
        learned = f"guidelines={len(memory.semantic)}, traces={len(memory.cases)}"
        return f"MemAlignJudge(name={self.name!r}, model={self.model!r}, {learned})"

    __str__ = __repr__
