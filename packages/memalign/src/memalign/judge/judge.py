"""Judge: instructions, a value type, a model and a memory; immutable, and callable on items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from typing_extensions import TypeForm

from memalign import aio
from memalign.errors import InputError
from memalign.io import (
    Examples,
    ExampleSource,
    FeedbackSource,
    Frame,
    OwnVerdicts,
    RowSource,
    checked_columns,
)
from memalign.judge.explain import prompt_for
from memalign.judge.frames import FrameT, JudgmentList, predict_batch
from memalign.judge.many import OnJudgment, Progress, judge_examples
from memalign.judge.spec import (
    check_name,
    check_retrieval_k,
    checked_model,
    checked_parameters,
)
from memalign.judge.standing import same_cases
from memalign.judge.task import Task
from memalign.judge.verdict import decide
from memalign.memory import Memory
from memalign.models.base import ChatModel, DecisionModel, EmbeddingModel
from memalign.models.calls import Calls
from memalign.models.resolve import checked_object
from memalign.types import Example, Judgment
from memalign.values import ValueT_co, ValueType

if TYPE_CHECKING:
    from memalign.align import AlignResult, MemAlign
    from memalign.types import FeedbackKey

__all__ = ["Judge", "signature_of", "task_of"]


@dataclass(frozen=True, kw_only=True)
class Judge(Generic[ValueT_co]):
    """An LLM judge: says of an item what the experts who taught it would say.

    Immutable: `align`, `unalign` and `replace` return a new judge. Generic in the value: to a type
    checker the verdicts of a judge with `feedback_value_type=bool` are `bool`.

    Attributes:
        name: 1 to 100 characters on one line, without slashes.
        instructions: The author's text. `{{ inputs }}`, `{{ outputs }}`, `{{ expectations }}`,
            `{{ conversation }}` and `{{ trace }}` name fields of the item, `{{ inputs.question }}`
            and `{{ outputs[0].text }}` parts of them. Nothing is rendered: the text stays as it is.
        feedback_value_type: bool, a Literal of strings, a bounded int or float
            (`Annotated[int, Ge(1), Le(5)]`), str, or the same as text (`int:1..5`). An Enum stands
            for its texts, or the numbers of an IntEnum; verdicts are these plain values.
        model: A name such as `openai:/gpt-4.1-mini` or `local:qwen2.5-coder-1.5b`, or any
            ChatModel; None takes it from the environment at the first call. A decision model
            (`system-one:m@URL`, `typesafe:m`, `openai-decisions:m`) answers typed questions and
            writes nothing: `reflection_model` then writes guidelines.
        embedding_model: Finds similar cases; None for the one in this process.
        retrieval_k: How many similar cases a judgment sees; None for as many as suit the model. An
            identical case is always shown.
        parameters: temperature, max_tokens, seed, timeout (seconds), and:

            - `swap`: ask a judge of two sides, such as A|B, a second time with the sides swapped:
              where both answers differ, the confidence is one half;
            - `reasoning_effort`: none, minimal, low, medium, high or xhigh, for models that think
              before they answer;
            - `reflection_model`: the name of the model that writes the guidelines, unless it is the
              judge's own;
            - `models`: by the name of a model its `context` in tokens and its `prices` in dollars
              per million tokens:
              `{"openai:m@http://gpu:8000/v1": {"prices": {"input": 0.1, "output": 0.2}}}`.
        columns: Which column of files and frames a field is read from where it has another name,
            such as `{"outputs": "answer"}`; it changes no verdict.
        memory: What it has learned.

    Raises:
        InvalidInstructions, InvalidValueType, InputError: A setting makes no judge.
        ConfigurationError: A model's address holds a password.
    """

    name: str
    instructions: str
    feedback_value_type: TypeForm[ValueT_co] | type[Enum] | ValueType | str
    model: str | ChatModel | DecisionModel | None = None
    embedding_model: str | EmbeddingModel | None = None
    retrieval_k: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory, repr=False)

    # -- one item ------------------------------------------------------------------------------

    async def ajudge(
        self,
        example: Example | None = None,
        /,
        *,
        inputs: Any = None,
        outputs: Any = None,
        expectations: Any = None,
        conversation: Any = None,
        trace: Any = None,
        id: str | None = None,
    ) -> Judgment[ValueT_co]:
        """Judge one item: an Example, or its fields by name.

        Args:
            example: The item; or give its fields.
            inputs: What the judged system was asked.
            outputs: What it answered.
            expectations: A reference.
            conversation: A list of turns.
            trace: A trace, as text or JSON.
            id: The item's id; "item" unless one is given.

        Raises:
            InputError: A field that the instructions name is missing.
            ModelError: The model failed.
        """
        content = {
            "inputs": inputs,
            "outputs": outputs,
            "expectations": expectations,
            "conversation": conversation,
            "trace": trace,
            "id": id,
        }
        return await decide(
            self._task, self.memory, _example_of(example, content), Calls()
        )

    __call__ = aio.blocking(ajudge)

    async def aprompt(
        self, example: Example | None = None, /, **fields: Any
    ) -> dict[str, Any]:
        """Return what the model would read about an item, without asking it.

        An embedding model of a provider is asked for the similar cases.

        Args:
            example: The item; or give its fields, as when it is judged.
            fields: Such as `inputs` and `outputs`.

        Returns:
            `system`, `user` and the answer's `schema`; of a decision model `item` and `questions`.

        Raises:
            InputError: A field that the instructions name is missing.
            ConfigurationError: There is no model.
        """
        item = _example_of(example, fields)
        prompt, _ = await prompt_for(self._task, self.memory, item)
        return prompt

    prompt = aio.blocking(aprompt)

    # -- learning and forgetting: the work is done in memalign.align ----------------------------

    async def aalign(
        self,
        feedback: FeedbackSource,
        *,
        optimizer: MemAlign | None = None,
        skip_invalid: bool = False,
        own_verdicts: OwnVerdicts | None = None,
        progress: Progress | None = None,
        columns: Mapping[str, str] | None = None,
        max_cost: float | None = None,
    ) -> AlignResult[ValueT_co]:
        """Learn from feedback, and return a complete new judge, or raise and change nothing.

        Args:
            feedback: A path, a DataFrame, a data set, Feedback objects or flat mappings.
            optimizer: The knobs; None: the usual ones.
            skip_invalid: Whether rows that cannot be used are reported and left out, instead of
                refusing all.
            own_verdicts: Judgments that this judge gave on the cases before, by their ids, or a
                file of them, as `memalign.io.read_judgments` reads it: guidelines are then written
                against what it got wrong.
            progress: Called with the phase, how many of its steps are done, and how many there are.
            columns: Field to column of another name, which the new judge remembers; the same as
                the optimizer's.
            max_cost: What it may spend, in dollars; the same as the optimizer's.

        Raises:
            InvalidRows: A row cannot be used.
            ConfigurationError: There is no model to learn with, or its price is not known where a
                limit is set.
        """
        from memalign.align import (
            MemAlign,
        )  # upward on purpose: the public surface hangs on Judge

        learner = optimizer or MemAlign()
        if columns is not None:
            learner = replace(learner, columns=columns)
        if max_cost is not None:
            learner = replace(learner, max_cost=max_cost)
        return await learner.align(
            self,
            feedback,
            skip_invalid=skip_invalid,
            own_verdicts=own_verdicts,
            progress=progress,
        )

    align = aio.blocking(aalign)

    async def aunalign(
        self,
        *keys: str | FeedbackKey,
        source: str | None = None,
        people_agree: bool = False,
        optimizer: MemAlign | None = None,
        progress: Progress | None = None,
    ) -> AlignResult[ValueT_co]:
        """Forget feedback and all that came from it.

        What nobody else taught goes at once, without a model. Guidelines that a person wrote or
        confirmed stay, unless `people_agree` or the person's own words are withdrawn.

        Args:
            keys: `t-17` for all annotations on a case, `t-17@ana` for one.
            source: All feedback of this person, or of `keys` only theirs.
            people_agree: Whether people's own wordings may go as well.
            optimizer: The knobs; None: the usual ones.
            progress: As for `aalign`.

        Raises:
            UnknownKey: A key names nothing in memory.
        """
        from memalign.align import MemAlign  # as above

        return await (optimizer or MemAlign()).unalign(
            self, *keys, source=source, people_agree=people_agree, progress=progress
        )

    unalign = aio.blocking(aunalign)

    # -- many items ----------------------------------------------------------------------------

    async def ajudge_many(
        self,
        examples: ExampleSource | Examples,
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
        max_cost: float | Calls | None = None,
        on_judgment: OnJudgment | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> JudgmentList[ValueT_co]:
        """Judge many items; the judgments come back in the order of the items.

        An item that fails keeps its error in its judgment and never stops the rest. Where the limit
        is reached, or the model could not be reached for dozens in a row, the run stops, and the
        rest have an error that begins with `NotJudged`.

        Args:
            examples: Examples, mappings with the same fields, a DataFrame, a data set, or the path
                of a file; all are checked before the first is judged.
            concurrency: Items at a time; None for as many as suit the model.
            out: Where judgments are written as JSON lines. What an earlier run of the same judge
                left is resumed, and only what failed is judged again.
            progress: Called with "judge", how many are done and how many there are.
            max_cost: What this run may spend, in dollars, or the Calls whose limit it shares with
                other runs.
            on_judgment: Called with the id and the judgment of each item that was judged in this
                run.
            columns: Field to column of another name, for these rows; None for those that the judge
                remembers.

        Returns:
            A sequence, with `to_frame()` for a DataFrame.

        Raises:
            ConfigurationError: There is a limit, and the model's price is not known.
        """
        if isinstance(examples, Example | Mapping):
            one = "for one example, call judge(…)"
            raise InputError(
                f"judge_many takes a list of examples or a file's path; {one}"
            )
        source = examples
        if columns is not None and not isinstance(source, Examples):
            source = RowSource.of(source, name="examples", columns=columns)
        judgments = await judge_examples(
            self._task,
            self.memory,
            source,
            columns=self.columns,
            concurrency=concurrency,
            max_cost=max_cost,
            out=out,
            progress=progress,
            on_judgment=on_judgment,
        )
        return JudgmentList(judgments, examples)

    judge_many = aio.blocking(ajudge_many)

    async def apredict_batch(
        self,
        frame: FrameT,
        *,
        done: Frame | Collection[tuple[str, str]] = (),
        concurrency: int | None = None,
        max_cost: float | Calls | None = None,
    ) -> FrameT:
        """Return the verdict on every row of a frame, as a frame of the same library and order.

        The columns are `id`, `value` (of the judge's value type), `probability` (of the value, in
        [0, 1]), `findings` (JSON text), `rationale`, `input_tokens`, `cached_tokens`,
        `output_tokens`, `cost` (dollars), `error`, `answered_by`, `judge` (its name and hashes of
        what it judges with) and `content_hash`, of the same types whatever the rows are. A row that
        cannot be judged has an `error` and stops no other. Rows of one id and one content are asked
        once, and the copies cost nothing.

        Args:
            frame: A frame of pandas, Polars, Arrow or another library that narwhals reads.
            done: Earlier verdicts, as a frame or as keys (`id`, `content_hash`): their rows are
                left out. Errors and verdicts of other judges do not count.
            concurrency: As for `ajudge_many`.
            max_cost: As for `ajudge_many`.

        Raises:
            InputError: It is no frame, or has no column of content.
            ConfigurationError: As for `ajudge_many`.
        """
        return await predict_batch(
            self._task,
            self.memory,
            frame,
            columns=self.columns,
            done=done,
            concurrency=concurrency,
            max_cost=max_cost,
        )

    predict_batch = aio.blocking(apredict_batch)

    # -- other judges --------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Judge[ValueT_co]:
        """Return a judge with other settings and the same memory.

        Args:
            changes: The settings that change, by their names.
        """
        return replace(self, **changes)

    def without_case(self, example: Example) -> Judge[ValueT_co]:
        """Return this judge with one case hidden, and all cases that look the same to it.

        What experts said of it then answers nothing, and is no similar case: so a judge is tried on
        what it was taught. Its guidelines stay, also those that the case taught.

        Args:
            example: The case, or any item.
        """
        hidden = {same.id for same in same_cases(self._task, self.memory, example)}
        if not hidden:
            return self
        cases = tuple(case for case in self.memory.cases if case.id not in hidden)
        return self.replace(memory=msgspec.structs.replace(self.memory, cases=cases))

    # -- what the judge is ---------------------------------------------------------------------

    @property
    def value_type(self) -> ValueType:
        """The value type in its parsed form."""
        return self._task.value_type

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of an item that the instructions name; others are not shown to the model."""
        return self._task.fields

    @property
    def model_name(self) -> str | None:
        """The model's name, or None while it is left to the environment."""
        return self._task.model_name

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that can change a verdict, the memory included."""
        return self._task.fingerprint(self.memory)

    @cached_property
    def _task(self) -> Task:
        return Task(
            name=self.name,
            instructions=self.instructions,
            value_type=ValueType.of(self.feedback_value_type),
            model=self.model,
            embedding_model=self.embedding_model,
            retrieval_k=self.retrieval_k,
            parameters=self.parameters,
        )

    def __post_init__(self) -> None:
        value_type = ValueType.of(self.feedback_value_type)
        check_name(self.name)
        check_retrieval_k(self.retrieval_k)
        if self.embedding_model is not None and not isinstance(
            self.embedding_model, str
        ):
            checked_object(self.embedding_model, "embed")
        parameters = checked_parameters(self.parameters, value_type)
        # Whatever spelling was given, the judge keeps one, so that equal judges are equal.
        kept = {
            "feedback_value_type": value_type.annotation,
            "model": checked_model(self.model),
            "parameters": MappingProxyType(parameters),
            "columns": MappingProxyType(checked_columns(self.columns)),
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        _ = self.fields  # raises InvalidInstructions

    def __hash__(self) -> int:
        """Leave parameters out: 0 and 0.0 are equal, and are not the same text."""
        return hash((self.name, self.instructions, self.value_type, self.memory.hash))

    def __reduce__(self) -> tuple[Callable[..., Judge], tuple[()]]:
        """Pickle a judge as the arguments that make it: a read-only mapping has no pickled form."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        settings["parameters"] = dict(self.parameters)
        settings["columns"] = dict(self.columns)
        return partial(Judge, **settings), ()

    def __repr__(self) -> str:
        text = " ".join(self.instructions.split())
        short = text if len(text) <= 80 else f"{text[:79]}…"
        return (
            f"Judge(name={self.name!r}, feedback_value_type={self.value_type.spec!r}, "
            f"model={self.model_name!r}, instructions={short!r}, memory={self.memory!r})"
        )


def task_of(judge: Judge) -> Task:
    """Return what a judge asks, derived once from its settings."""
    return judge._task


def signature_of(judge: Judge) -> str:
    """Return who gives a judgment: a judge's name, and hashes of all that makes its verdicts."""
    return task_of(judge).signature(judge.memory)


def _example_of(example: Example | None, fields: Mapping[str, Any]) -> Example:
    """Return the item that was given, either as an Example or by its fields."""
    given = {name: value for name, value in fields.items() if value is not None}
    if example is None:
        return Example(**{"id": "item", **given})
    if given:
        raise InputError("pass either an Example or its fields, not both")
    if not isinstance(example, Example):
        raise InputError(
            f"pass fields by name, judge(inputs=…), or an Example, not a {type(example).__name__}"
        )
    return example
