"""Judge: instructions, a value type, a model and a memory; immutable, and callable on one item or many."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign import aio
from memalign.errors import InputError, InvalidInstructions, InvalidOutput, InvalidValue, ModelError
from memalign.files import JudgmentWriter, check_examples, read_examples
from memalign.memory.budget import Budget, estimate_tokens, fit_guidelines
from memalign.memory.model import Memory
from memalign.memory.retrieval import embedding_text, retrieve
from memalign.memory.working import assemble
from memalign.models.base import ChatModel, ChatRequest, EmbeddingModel, Limits
from memalign.models.resolve import resolve, resolve_embedding
from memalign.prompts import render_item, render_judge_system
from memalign.records import CONTENT_FIELDS, Example, Judgment, Usage, canonical_json
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.align import AlignResult, MemAlign
    from memalign.records import Feedback, Guideline

__all__ = ["Judge", "Progress"]

Progress = Callable[[str, int, int], None]
"""Called with the phase, how many are done, and how many there are."""

PARAMETERS = {"temperature": (int, float), "max_tokens": (int,), "seed": (int,), "timeout": (int, float)}
BRIEF_RATIONALE = 240  # characters: about 40 tokens, the length a weak model needs to reach a verdict

CALLED_FROM = 8
"""Nearest cases whose demoted guidelines are shown beside those in force."""

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def named_fields(instructions: str) -> tuple[str, ...]:
    """The content fields that instructions name in double braces, in the order in which prompts show them.

    The text is parsed, never rendered. Raises InvalidInstructions when a name is unknown or none is there.
    """
    names = {match.strip() for match in _BRACES.findall(instructions)}
    known = ", ".join(f"{{{{ {name} }}}}" for name in CONTENT_FIELDS)
    unknown = sorted(names - set(CONTENT_FIELDS))
    if unknown:
        raise InvalidInstructions(f"unknown field {{{{ {unknown[0]} }}}} in the instructions; fields: {known}")
    if not names:
        raise InvalidInstructions(f"the instructions name no field of the item; name at least one of: {known}")
    return tuple(name for name in CONTENT_FIELDS if name in names)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """An LLM judge: says of an item what the experts who taught it would say.

    `instructions` is the author's text; `{{ inputs }}`, `{{ outputs }}`, `{{ expectations }}`, `{{ conversation }}` and
    `{{ trace }}` in it name fields of the item and stay as written. `feedback_value_type` is bool, a Literal of strings,
    a bounded int or float (`Annotated[int, Ge(1), Le(5)]`), str, or the same as text (`int:1..5`). `model` is a name
    such as `openai:/gpt-4.1-mini` or `local:qwen2.5-coder-1.5b`, or any ChatModel; None takes it from the environment
    at the first call. `retrieval_k` is how many similar past cases a judgment sees: None means as
    many as suit the model (5, for the embedded ones 3), or none where an align found the judge better without;
    an identical case is always shown. `parameters` may hold temperature, max_tokens, seed, and timeout (seconds).

    Raises InvalidInstructions, InvalidValueType or InputError on construction. Immutable: `align`, `unalign` and
    `replace` return a new judge.
    """

    name: str
    instructions: str
    feedback_value_type: Any
    model: str | ChatModel | None = None
    embedding_model: str | EmbeddingModel | None = None
    retrieval_k: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[^\s/\\][^/\\\n]{0,99}", self.name):
            raise InputError("a judge's name is 1 to 100 characters on one line, without slashes")
        if not isinstance(self.instructions, str):
            raise InvalidInstructions("instructions must be text")
        if _HALF_PAIR.search(self.instructions):
            raise InvalidInstructions("the instructions hold half of a surrogate pair, which no model can be sent")
        named_fields(self.instructions)
        k = self.retrieval_k
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 0):
            raise InputError("retrieval_k is the number of examples to show: 0 or more, or None for the model's own")
        for key, value in self.parameters.items():
            if key not in PARAMETERS or isinstance(value, bool) or not isinstance(value, PARAMETERS[key]):
                raise InputError(f"parameter {key}={value!r}: parameters are {', '.join(PARAMETERS)}, all numbers")
        object.__setattr__(self, "parameters", dict(self.parameters))  # the caller's own may change later
        # Whatever spelling was given, the judge keeps the annotation, so that equal judges are equal.
        object.__setattr__(self, "feedback_value_type", ValueType.of(self.feedback_value_type).annotation)

    # -- what the judge is ---------------------------------------------------------------------------------------

    @property
    def value_type(self) -> ValueType:
        """The value type in its parsed form."""
        return ValueType.of(self.feedback_value_type)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of an item that the instructions name; others are not shown to the model."""
        return named_fields(self.instructions)

    @property
    def model_name(self) -> str | None:
        """The model's name, or None while it is left to the environment."""
        return self.model if isinstance(self.model, str) or self.model is None else self.model.name

    @property
    def embedding_model_name(self) -> str | None:
        """The embedding model's name, or None for the in-process one."""
        given = self.embedding_model
        return given if isinstance(given, str) or given is None else given.name

    @property
    def fingerprint(self) -> str:
        """16 hex digits over everything that can change a verdict: text, type, model, parameters, memory."""
        parts = {
            "instructions": self.instructions,
            "value_type": self.value_type.spec,
            "model": self.model_name,
            "retrieval_k": self.retrieval_k if self.memory else None,  # nothing to retrieve, nothing to tell apart
            "parameters": dict(self.parameters),
            "memory": self.memory.hash,
        }
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> Judge:
        """A judge with other settings and the same memory.

        What was measured with the old model or instructions is stale from then on: see `stale_probes`.
        """
        return replace(self, **changes)

    def without_memory(self) -> Judge:
        """The unaligned judge: the same in all but its memory, which is empty."""
        return replace(self, memory=Memory(authority=self.memory.authority, policy=self.memory.policy))

    @property
    def base_fingerprint(self) -> str:
        """16 hex digits over instructions, value type, model and parameters: what a probe was made with."""
        return self.replace(memory=Memory()).fingerprint  # whose label counts is no part of it

    def misfit(self, row: Feedback) -> str | None:
        """Why the judge could never be asked about a row's case, or None: a field that its instructions name is missing."""
        case = self.memory.case(row.id)
        content = row.content or (case.example.content if case else {})
        missing = next((name for name in self.fields if name not in content), None)
        return f"the judge's instructions name {{{{ {missing} }}}}, and the row has none" if missing else None

    def stale_probes(self) -> tuple[str, ...]:
        """Ids of cases whose probe was made with other instructions, another model or other parameters."""
        current = self.base_fingerprint
        return tuple(case.id for case in self.memory.cases if case.probe and case.probe.judge != current)

    # -- judging -------------------------------------------------------------------------------------------------

    def __call__(self, example: Example | None = None, /, **fields: Any) -> Judgment:
        """Judge one item, given as an Example or as keyword arguments `inputs`, `outputs`, …; see `ajudge`."""
        return aio.run(self.ajudge(example, **fields))

    async def ajudge(self, example: Example | None = None, /, **fields: Any) -> Judgment:
        """Judge one item with working memory: guidelines, and the most useful past cases.

        Raises InputError when a field that the instructions name is missing, and a ModelError when the model fails.
        """
        if example is None:
            unknown = sorted(set(fields) - {*CONTENT_FIELDS, "id"})
            if unknown:
                raise InputError(f"unknown field {unknown[0]!r}; fields: {', '.join(CONTENT_FIELDS)}")
            example = Example(**{"id": "item"} | fields)
        elif fields:
            raise InputError("give an Example or fields, not both")
        missing = [name for name in self.fields if name not in example.content]
        if missing:
            raise InputError(f"{example.id}: the instructions name {{{{ {missing[0]} }}}}, and the item has none")
        _ = example.content_hash  # raises InputError for what is no JSON value
        return await self._judge(example)

    async def _judge(self, example: Example) -> Judgment:
        model = resolve(self.model)
        request, receipt, retrieval_seconds = await self._prompt(example, model)
        started = time.perf_counter()
        reply = await model.complete(request)
        seconds = {"retrieve": retrieval_seconds, "model": time.perf_counter() - started}
        try:
            value = self.value_type.parse(reply.data.get("value"))
        except InvalidValue as error:
            # Not what it answered: errors are kept, in ledgers and judgments, and may not carry anyone's words along.
            allowed = self.value_type.allowed
            raise InvalidOutput(
                f"{model.name} answered outside the value type; allowed: {allowed}", usage=reply.usage
            ) from error
        usage = reply.usage + Usage(seconds=seconds)
        rationale = str(reply.data.get("rationale") or "").strip() or None
        return Judgment(value=value, rationale=rationale, usage=usage, **receipt)

    async def _prompt(self, example: Example, model: ChatModel) -> tuple[ChatRequest, dict[str, Any], float]:
        """The request for one item, what the judgment will say about it, and the seconds that retrieval took."""
        started = time.perf_counter()
        limits, memory, budget = model.limits, self.memory, self._budget(model.limits)
        guidelines, left_out = fit_guidelines(memory.semantic, budget.guidelines, corrective=lambda: memory.corrective)
        k = self._examples(limits)
        calls = bool(memory.demoted) and budget.called > 0
        reach = max(k, CALLED_FROM if calls else 0)
        vector, notes = await self._embed(example, reach)
        hits = retrieve(memory, example, vector, k, self.value_type)
        called: tuple[Guideline, ...] = ()
        if calls:
            called = memory.called_for(hit.case for hit in retrieve(memory, example, vector, reach, self.value_type))
        working = assemble(memory, hits, called, content=example.content, fields=self.fields, budget=budget)
        system = render_judge_system(
            instructions=self.instructions,
            fields=self.fields,
            value_type=self.value_type,
            guidelines=guidelines,
            brief=limits.brief,
        )
        request = ChatRequest(
            system=system,
            user=render_item(working.fields, working.examples, working.guidelines),
            schema=_answer_schema(self.value_type, brief=limits.brief),
            schema_name="judgment",
            max_tokens=self._answer_tokens(limits),
            temperature=self.parameters.get("temperature", 0.0),
            seed=self.parameters.get("seed"),
            timeout=self.parameters.get("timeout"),
        )
        receipt = {
            "guideline_ids": tuple(guideline.id for guideline in (*guidelines, *working.guidelines)),
            "example_ids": working.example_ids,
            "memory_hash": memory.hash,
            "model": model.name,
            "notes": (*notes, *working.notes, *(f"guideline {g} left out: over the token budget" for g in left_out)),
        }
        return request, receipt, time.perf_counter() - started

    def budget(self) -> Budget:
        """Tokens that each part of a prompt for the judge's model may take. Raises ConfigurationError without a model."""
        return self._budget(resolve(self.model).limits)

    def _budget(self, limits: Limits) -> Budget:
        return Budget.of(
            context_tokens=limits.context_tokens,
            system_tokens=estimate_tokens(self.instructions) + 400,
            answer_tokens=self._answer_tokens(limits),
            brief=limits.brief,
        )

    def _examples(self, limits: Limits) -> int:
        """How many similar cases to show: as the judge says, else as admission found good, else as suits the model."""
        wishes = (self.retrieval_k, self.memory.examples, limits.examples)
        return next(wish for wish in wishes if wish is not None)

    def _answer_tokens(self, limits: Limits) -> int:
        return int(self.parameters.get("max_tokens", 160 if limits.brief else 1024))

    async def _embed(self, example: Example, k: int) -> tuple[Any, tuple[str, ...]]:
        """The example's vector, of length 0 where there is nothing to compare it with, and notes."""
        import numpy as np  # not at import: see retrieval

        if not self.memory.cases or k == 0:
            return np.zeros(0, dtype=np.float32), ()
        model = resolve_embedding(self.embedding_model)
        if self.memory.embedding_model not in (None, model.name):
            # Vectors of two models compare to noise, and with equal lengths nothing else would tell.
            note = f"no similar examples: memory has vectors of {self.memory.embedding_model}, not of {model.name}"
            return np.zeros(0, dtype=np.float32), (note,)
        return (await model.embed([embedding_text(example)]))[0], ()

    def judge_many(
        self,
        examples: Iterable[Example | Mapping[str, Any]] | str | Path,
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Judge many items; see `ajudge_many`."""
        return aio.run(self.ajudge_many(examples, concurrency=concurrency, out=out, progress=progress))

    async def ajudge_many(
        self,
        examples: Iterable[Example | Mapping[str, Any]] | str | Path,
        *,
        concurrency: int | None = None,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Judge many items, at most `concurrency` at a time; the judgments come back in the order of the items.

        `examples` are Examples, mappings with the same fields, or the path of a file of them. An item that fails keeps
        its error in its judgment and never stops the rest. With `out`, judgments are also written there as JSON lines;
        an `out` that an earlier run of the same judge left is resumed, and only what failed is judged again.
        """
        items = read_examples(examples) if isinstance(examples, str | Path) else check_examples(examples)
        if concurrency is not None and concurrency < 1:
            raise InputError("concurrency must be 1 or more")
        model = resolve(self.model)
        limit = concurrency or model.limits.concurrency
        if out is None:
            return await self._judge_all(items, {}, limit, progress, None)
        # By the model that judges: one that is left to the environment may be another one when `out` is resumed.
        signature = f"{self.name}@{self.replace(model=model).fingerprint}"
        with JudgmentWriter.open(Path(out), judge=signature, examples=items) as writer:
            return await self._judge_all(items, writer.done, limit, progress, writer)

    async def _judge_all(
        self,
        items: Sequence[Example],
        done: Mapping[str, Judgment],
        limit: int,
        progress: Progress | None,
        writer: JudgmentWriter | None,
    ) -> list[Judgment]:
        waiting = iter(enumerate(items))
        judgments: list[Judgment | None] = [None] * len(items)
        written = finished = 0

        async def work() -> None:
            nonlocal written, finished
            for index, item in waiting:  # workers share one iterator: each takes the next item when it is free
                known = done.get(item.id)
                judgments[index] = known or await self._judge_safely(item)
                finished += 1
                if progress is not None:
                    progress("judge", finished, len(items))
                # Lines are written in the order of the items, as far as all before them are there.
                while written < len(items) and (ready := judgments[written]) is not None:
                    if writer is not None and items[written].id not in done:
                        writer.write(items[written].id, ready)
                    written += 1

        await aio.together(work() for _ in range(min(limit, len(items))))
        return [judgment for judgment in judgments if judgment is not None]

    async def _judge_safely(self, item: Example) -> Judgment:
        try:
            return await self.ajudge(item)
        except (ModelError, InputError) as error:
            usage = (error.usage if isinstance(error, ModelError) else None) or Usage()
            return Judgment(error=f"{type(error).__name__}: {error}", memory_hash=self.memory.hash, usage=usage)

    # -- learning and forgetting: the work is done in memalign.align -----------------------------------------------

    def align(
        self,
        feedback: str | Path | Iterable[Feedback | Mapping[str, Any]],
        *,
        optimizer: MemAlign | None = None,
        skip_invalid: bool = False,
        progress: Progress | None = None,
    ) -> AlignResult:
        """Learn from feedback: a path, Feedback objects or flat mappings. See `MemAlign.align`."""
        return aio.run(self._optimizer(optimizer).align(self, feedback, skip_invalid=skip_invalid, progress=progress))

    def unalign(
        self,
        *keys: str,
        source: str | None = None,
        optimizer: MemAlign | None = None,
        progress: Progress | None = None,
    ) -> AlignResult:
        """Forget feedback and all that came from it: all voices on `t-17`, one `t-17@ana`, or all of a `source`."""
        return aio.run(self._optimizer(optimizer).unalign(self, *keys, source=source, progress=progress))

    def _optimizer(self, optimizer: MemAlign | None) -> MemAlign:
        from memalign.align import MemAlign  # upward on purpose: the public surface hangs on Judge

        return optimizer or MemAlign()


def _answer_schema(value_type: ValueType, *, brief: bool) -> dict[str, Any]:
    """Rationale first: a verdict that is asked for first is justified afterwards instead of reached."""
    rationale = {"type": "string"} | ({"maxLength": BRIEF_RATIONALE} if brief else {})
    return {
        "type": "object",
        "properties": {"rationale": rationale, "value": value_type.json_schema()},
        "required": ["rationale", "value"],
        "additionalProperties": False,
    }
