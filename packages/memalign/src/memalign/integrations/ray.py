"""Judging on Ray Data: `Judge.predict_batch` for `map_batches`, and judges whose model runs in Ray Data LLM's engines.

Ray decides how many workers there are. Each is a process with one adapter and one event loop. See
docs/decisions/0024-engines.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import narwhals as nw

from memalign import aio
from memalign.errors import ConfigurationError, InputError, MemalignError, ModelUnavailable
from memalign.integrations.coordinator import Coordinator, Limits, Place, Task
from memalign.io import Frame
from memalign.judge import Judge, signature_of
from memalign.judge.open_model import open_model
from memalign.judge.predict import asked_rows, keys_of
from memalign.models.answers import parse_answer
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.base import Limits as ModelLimits
from memalign.types import Usage

try:
    import pyarrow as pa
    import ray.util
    from ray.data import ActorPoolStrategy
except ImportError as missing:
    raise ConfigurationError(f"Ray needs what is not here ({missing}): pip install 'memalign[ray]'") from None

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["Verdicts", "judge", "offline"]

_KEY = "memalign_request"
_NOTHING = ChatRequest(system="Say nothing.", user="", schema={"type": "object"}, max_tokens=16)  # every row is asked


class _Held(NamedTuple):
    value: Judge


class Verdicts(Task):
    """What a worker does, as a class for `map_batches` with `batch_format="pyarrow"`: a batch in, its verdicts out.

    `place` is where the coordinator of the job listens. Rows whose keys `done` has are left out.
    """

    def __init__(
        self,
        judge: Judge,
        limits: Limits | None = None,
        place: Place | None = None,
        done: Collection[tuple[str, str]] = (),
    ) -> None:
        super().__init__(_Held(judge), limits or {}, place)
        self._done = done

    def __call__(self, batch: pa.Table) -> pa.Table:
        """The verdicts on the rows of a batch."""
        return self.predict(batch, done=self._done)


def judge(
    ds: Dataset,
    judge: Judge,
    *,
    workers: int | tuple[int, int] = 1,
    batch_size: int = 1_000,
    done: Frame | Collection[tuple[str, str]] = (),
    **limits: Unpack[Limits],
) -> Dataset:
    """The verdicts on the rows of a data set, with the columns of `Judge.predict_batch`; a row a row.

    It is lazy, as all of Ray Data is. `workers` is a number of processes, half a CPU each, or the fewest and the most
    between which Ray chooses. `done` leaves out what an earlier run judged. Raises ConfigurationError without a model or its key.
    """
    if judge.model is None:  # what the driver's environment names, whatever a worker's would
        judge = judge.replace(model=open_model(judge).name)
    keys = keys_of(done, signature_of(judge))
    coordinator = Coordinator.of(limits, judge, host=ray.util.get_node_ip_address())
    place = None if coordinator is None else coordinator.place
    made = {"judge": judge, "limits": limits, "place": place, "done": keys}
    pool = ActorPoolStrategy(size=workers) if isinstance(workers, int) else ActorPoolStrategy(**_between(*workers))
    # A worker waits more than it computes. At a CPU each, as many as there are would leave none for reading the rows.
    how: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": batch_size, "compute": pool, "num_cpus": 0.5}
    return ds.map_batches(Verdicts, fn_constructor_kwargs=made, **how)


def _between(fewest: int, most: int) -> dict[str, int]:
    return {"min_size": fewest, "max_size": most}


# -- engines of Ray Data LLM ---------------------------------------------------------------------------------------


def offline(
    ds: Dataset,
    judge: Judge,
    engine: Callable[[Dataset], Dataset],
    *,
    model: str,
    context_tokens: int = 32_768,
    batch_size: int = 1_000,
) -> Dataset:
    """The verdicts of a model that runs in the cluster itself, such as by vLLM on its GPUs.

    `engine` is a processor that `ray.data.llm.build_processor` gave. It gets rows with `messages` and `sampling_params`,
    and must keep their columns and add `generated_text`. `model` is the name that judgments tell, such as
    `vllm:Qwen/Qwen3-8B`. Of a trace that is too long to show only the outline is read.

    Raises InputError for a judge that asks more than once about a row (`samples`, `swap`).
    """
    if judge.parameters.get("samples", 1) != 1 or judge.parameters.get("swap"):
        raise InputError("an engine is asked once about a row: leave out the judge's samples and swap")
    work = _Offline(judge.replace(parameters={**judge.parameters, "trace_tool_calls": 0}), model, context_tokens)
    asked = ds.map_batches(work.ask, batch_format="pyarrow", batch_size=batch_size)
    return engine(asked).map_batches(work.verdicts, batch_format="pyarrow", batch_size=batch_size)


class _Engine:
    """A ChatModel whose answers are there already: by the key of a request its text and tokens."""

    def __init__(self, name: str, limits: ModelLimits, answers: Mapping[str, tuple[Any, ...]]) -> None:
        self.name, self.limits, self._answers = name, limits, answers

    async def complete(self, request: ChatRequest) -> ChatReply:
        text, read, written = self._answers.get(_key(request), (None, 0, 0))
        if not text:
            raise ModelUnavailable("the engine gave no answer to this row; its own log says why")
        usage = Usage(calls=1, input_tokens=read or 0, output_tokens=written or 0, cost=None)
        data = parse_answer(text, request.schema, optional=request.optional)
        return ChatReply(data=data, text=text, usage=usage)


class _Offline:
    """The two halves of a judgment: what is asked, and what is made of the answer."""

    def __init__(self, judge: Judge, model: str, context_tokens: int) -> None:
        self._judge, self._model, self._limits = judge, model, ModelLimits(context_tokens=context_tokens)

    def ask(self, batch: pa.Table) -> pa.Table:
        """The same rows with what their model is asked: `messages` and `sampling_params`."""
        requests = aio.run(self._requests(batch))
        keys = [None if request is None else _key(request) for request in requests]
        for name, cells in (("messages", _messages), ("sampling_params", _sampling)):
            batch = batch.append_column(name, pa.array([cells(request or _NOTHING) for request in requests]))
        return batch.append_column(_KEY, pa.array(keys, pa.string()))

    async def _requests(self, batch: pa.Table) -> list[ChatRequest | None]:
        """What each row asks; None where it cannot be asked, which is told where its verdict is made."""
        engine, found = _Engine(self._model, self._limits, {}), list[ChatRequest | None]()
        for row in asked_rows(self._judge, nw.from_native(batch, eager_only=True)):
            request = None
            if row.example is not None:
                with suppress(MemalignError):
                    request = (await self._judge.prepare(row.example, engine)).request
            found.append(request)
        return found

    def verdicts(self, batch: pa.Table) -> pa.Table:
        """The verdicts on rows with the engine's `generated_text`."""
        nothing = [None] * len(batch)
        told = (_KEY, "generated_text", "num_input_tokens", "num_generated_tokens")
        columns = [batch[name].to_pylist() if name in batch.column_names else nothing for name in told]
        answers = {key: tuple(rest) for key, *rest in zip(*columns, strict=True) if key}
        verdicts: pa.Table = self._judge.replace(model=_Engine(self._model, self._limits, answers)).predict_batch(batch)
        return verdicts


def _key(request: ChatRequest) -> str:
    return hashlib.sha256(f"{request.system}\0{request.user}".encode("utf-8", "surrogatepass")).hexdigest()


def _messages(request: ChatRequest) -> list[dict[str, str]]:
    return [{"role": "system", "content": request.system}, {"role": "user", "content": request.user}]


def _sampling(request: ChatRequest) -> dict[str, Any]:
    """By the names of vLLM. The schema is text: as a column it would have to be the same for all rows."""
    return {
        "temperature": request.temperature or 0.0,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "structured_outputs": {"json": json.dumps(request.schema)},
    }
