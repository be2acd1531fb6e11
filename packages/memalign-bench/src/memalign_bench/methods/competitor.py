"""Competitors: MLflow's MemAlign and DSPy's optimizers, each in a process of another environment.

They get the same judge model through an endpoint on this machine, the same rows and the same instructions, and keep
their own defaults. `benchmarks/competitors/` has their environment's requirements.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from memalign.errors import ConfigurationError, InvalidValue, ModelUnavailable
from memalign.models.base import EmbeddingModel, Limits
from memalign.models.providers import parse_name
from memalign.models.resolve import resolve_embedding
from memalign.types import Usage
from memalign.values import ValueType
from memalign_bench import competitors
from memalign_bench.endpoint import DEFAULTS, REMEMBERED, Endpoint, RawMemo, RawModel, raw_model
from memalign_bench.methods.base import Fitted, Setting, Verdict
from memalign_bench.prices import Prices
from memalign_bench.raw import Fit, View
from memalign_bench.spending import Gate
from memalign_bench.tasks import Case, Task

__all__ = ["COMPETITORS", "DEFAULT_WORKERS", "SETUP", "Competitor", "competitor_environment", "workers_for"]

SETUP = "python -m venv .competitors && .competitors/bin/python -m pip install -r packages/memalign-bench/benchmarks/competitors/requirements.txt"
"""What makes the competitors' environment."""

WORKERS = {
    "mlflow": ("mlflow_worker.py", "memalign"),
    "miprov2": ("dspy_worker.py", "miprov2"),
    "simba": ("dspy_worker.py", "simba"),
    "gepa": ("dspy_worker.py", "gepa"),
}
COMPETITORS = tuple(WORKERS)
DEFAULT_WORKERS = 8  # MLflow's and DSPy's own
_LINE = 1 << 26  # bytes of one reply at most


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """A competitor, by `name`: mlflow, miprov2, simba or gepa.

    `python` is the interpreter of its environment. `folder` takes its logs and remembered calls, which hold judged texts.
    `model`, `embedding` and `worker` replace the setting's model, the in-process embedder and the competitor's worker script.
    Times are in seconds. `paid` gets the usage of every call that was made; each goes through the `gate`.
    """

    name: str
    python: Path
    folder: Path
    prices: Prices | None = None
    model: RawModel | None = None
    embedding: EmbeddingModel | None = None
    learn_timeout: float = 4 * 3600.0
    judge_timeout: float = 900.0
    worker: Path | None = None
    paid: Callable[[Usage], None] | None = None
    gate: Gate = nullcontext

    # It cannot hide what it learned from a case.
    views: ClassVar[frozenset[View]] = frozenset({"unseen", "seen"})

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        """The competitor's judge after `train`, learned anew at each stage; without cases its unaligned one.

        Raises ConfigurationError when its environment is not there, ModelUnavailable when it fails or takes too long, and
        StoppedError when the run stopped before.
        """
        del before
        task = setting.task
        if not task.value_type.closed:
            raise ConfigurationError(f"{self.name} cannot judge task {task.name!r}: free text is no label to compare")
        if not self.python.exists():
            raise ConfigurationError(f"{self.name}: no interpreter at {self.python}; set it up with: {SETUP}")
        script, method = WORKERS.get(self.name, ("", self.name))
        script_path = self.worker or Path(competitors.__file__).with_name(script)
        model = self.model or raw_model(setting.model)
        log = self.folder / "logs" / f"{self.name}-{task.name}-seed{setting.seed}-{len(train)}.log"
        served = _served_name(model.name)
        async with contextlib.AsyncExitStack() as stack:
            endpoint = stack.enter_context(
                Endpoint(
                    RawMemo(model, self.folder / "memo", gate=self.gate),
                    self.embedding or resolve_embedding(None),
                    prices=self.prices,
                    defaults=_defaults(model, setting),
                    paid=self.paid,
                )
            )
            home = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="memalign-competitor-", ignore_cleanup_errors=True)
            )
            workers = workers_for(setting.model.limits)
            worker = _Worker(
                name=self.name,
                command=(
                    str(self.python),
                    "-I",
                    str(Path(competitors.__file__).with_name("serve.py")),
                    str(script_path),
                ),
                environment=competitor_environment(home, endpoint.base_url, workers),
                folder=Path(home),
                log=log,
            )
            # Left to itself it would try thousands of calls more, all of them in vain.
            endpoint.on_stop = worker.kill
            await worker.start()
            stack.push_async_callback(worker.stop)
            reply = await _asked(
                endpoint,
                worker,
                {
                    "op": "learn",
                    "method": method,
                    "name": task.name,
                    "instructions": task.instructions,
                    "values": _values(task.value_type),
                    "rows": _rows(train),
                    "base_url": endpoint.base_url,
                    "model": served,
                    "context_tokens": setting.model.limits.context_tokens,
                    "workers": workers,
                    "seed": setting.seed,
                },
                timeout=self.learn_timeout,
            )
            if "error" in reply:
                raise self._failure(reply["error"], log)
            fit = _fit(reply, endpoint.take(), workers)
            return _FittedCompetitor(
                task=task, fit=fit, worker=worker, endpoint=endpoint, timeout=self.judge_timeout, stack=stack.pop_all()
            )

    def _failure(self, error: str, log: Path) -> ConfigurationError | ModelUnavailable:
        if error.startswith(("ModuleNotFoundError", "ImportError")):
            return ConfigurationError(
                f"{self.name}: {self.python} lacks a package of its own ({error}); set it up with: {SETUP}"
            )
        return ModelUnavailable(f"{self.name} could not learn: {error} (see {log})")


@dataclass(frozen=True, kw_only=True)
class _FittedCompetitor:
    task: Task
    fit: Fit
    worker: _Worker
    endpoint: Endpoint
    timeout: float
    stack: contextlib.AsyncExitStack
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def judge(self, case: Case, view: View) -> Verdict:
        """The competitor's verdict, the same way in every view. Raises StoppedError when the run stopped in its midst."""
        del view
        async with self.lock:
            try:
                request = {"op": "judge", "fields": case.example.content}
                reply = await _asked(self.endpoint, self.worker, request, timeout=self.timeout)
            except ModelUnavailable as error:
                # Without the end of the log, which may quote what was judged: errors are published.
                return Verdict(
                    value=None, usage=_spent(self.endpoint.take())[0], error=str(error).partition("; its log")[0]
                )
            usage = _spent(self.endpoint.take())[0]
        if "error" in reply:
            return Verdict(value=None, usage=usage, error=_without_words(str(reply["error"])))
        try:
            return Verdict(value=self.task.value_type.parse(reply.get("value")), usage=usage)
        except InvalidValue:
            return Verdict(value=None, usage=usage, error="its verdict is outside the value type")

    async def close(self) -> None:
        """End the process, and its endpoint."""
        await self.stack.aclose()


async def _asked(endpoint: Endpoint, worker: _Worker, request: dict[str, Any], *, timeout: float) -> dict[str, Any]:  # noqa: ASYNC109
    """The worker's reply. Raises StoppedError where the run refused it a model call: such a reply is no answer."""
    try:
        reply = await worker.ask(request, timeout=timeout)
    except ModelUnavailable as error:
        raise endpoint.stopped or error from None
    if endpoint.stopped is not None:
        raise endpoint.stopped
    return reply


class _Worker:
    """The other process: one request at a time. Once it failed it stays so, and says why."""

    def __init__(
        self, *, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        self._name = name
        self._command = tuple(command)
        self._environment = dict(environment)
        self._folder = folder
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._failed = ""

    async def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=self._folder,  # libraries that write where they are started write here
                env=self._environment,
                limit=_LINE,
                start_new_session=True,  # ended as a whole, and by us: not by a Ctrl-C
            )

    async def ask(self, request: dict[str, Any], *, timeout: float) -> dict[str, Any]:  # noqa: ASYNC109
        """The reply. Raises ModelUnavailable for a worker that is dead, late or not making sense."""
        if self._failed:
            raise ModelUnavailable(self._failed)
        try:
            async with asyncio.timeout(timeout):
                line = await self._exchange(request)
            reply = json.loads(line)
            if isinstance(reply, dict):
                return reply
            problem = "its reply is no object"
        except TimeoutError:
            problem = f"no answer to {request['op']!r} in {timeout:g} s"
        except ValueError as error:  # no JSON, or a line beyond the limit
            problem = f"its reply cannot be read ({error})"
        except (_EndedError, ConnectionError):
            problem = "its process ended"
        except asyncio.CancelledError:
            # Its answer would be taken for that of the next request.
            await self._fail("its last request was given up")
            raise
        await self._fail(problem)
        raise ModelUnavailable(self._failed)

    async def stop(self) -> None:
        """Ask it to end; after 10 seconds, end it."""
        if self._process is None or self._process.returncode is not None:
            return
        if not self._failed:
            with contextlib.suppress(TimeoutError, ConnectionError, _EndedError, ValueError):
                async with asyncio.timeout(10):
                    await self._exchange({"op": "close"})
                    await self._process.wait()
        await self._kill()

    async def _exchange(self, request: dict[str, Any]) -> bytes:
        assert self._process is not None  # noqa: S101  # start() comes first
        assert self._process.stdin is not None  # noqa: S101  # they are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise _EndedError
        return line

    async def _fail(self, problem: str) -> None:
        await self._kill()
        said = self._log.read_text("utf-8", "replace").strip().splitlines()[-8:]
        self._failed = f"{self._name}: {problem}; its log ({self._log}) ends: {' / '.join(said) or '(nothing)'}"

    async def _kill(self) -> None:
        self.kill()
        if self._process is not None:
            await self._process.wait()

    def kill(self) -> None:
        """End it, without waiting until it has ended."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):  # with its children, which would keep its output open
                    os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()


class _EndedError(Exception):
    """The process closed its output."""


def workers_for(limits: Limits) -> int:
    """How many calls a competitor makes at once while it learns: its own default, or what the model takes."""
    return min(DEFAULT_WORKERS, limits.concurrency)


def _without_words(error: str) -> str:
    """The kind of a failure: the message may quote judged text, and errors are published; the log has all of it."""
    kind = error.partition(":")[0].strip()
    return f"{kind if kind.isidentifier() else 'it failed'} (its log has the words)"


def _served_name(name: str) -> str:
    """The model's name as competitors see it: without provider, and for a file without its folder."""
    model = parse_name(name)[1]
    return Path(model).name if model.endswith(".gguf") else model


def _defaults(model: RawModel, setting: Setting) -> dict[str, Any]:
    """What requests get that do not say: as the other methods, temperature 0."""
    if not model.name.startswith("local:"):
        return dict(DEFAULTS)
    # Competitors set no limit, since providers do. Without one, a small model that repeats itself fills its whole context.
    return {**DEFAULTS, "max_tokens": setting.model.limits.context_tokens // 4}


def _values(values: ValueType) -> dict[str, Any]:
    return {"kind": values.kind, "labels": list(values.labels), "low": values.low, "high": values.high}


def _rows(train: Sequence[Case]) -> list[dict[str, Any]]:
    return [
        {
            "id": case.id,
            **case.example.content,
            "value": row.value,
            "rationale": row.rationale,
            "source": row.source,
            "label": case.label,
        }
        for case in train
        for row in case.feedback
    ]


def _spent(usage: Usage) -> tuple[Usage, float]:
    """A usage without the seconds of remembered calls, and those."""
    remembered = usage.seconds.get(REMEMBERED, 0.0)
    model = usage.seconds.get("model", 0.0)
    return Usage(
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
        seconds={"model": model},
    ), remembered


def _fit(reply: dict[str, Any], usage: Usage, workers: int) -> Fit:
    usage, remembered = _spent(usage)
    return Fit(
        id=reply["fingerprint"],
        calls=usage.calls,
        tokens_in=usage.input_tokens,
        cached=usage.cached_tokens,
        tokens_out=usage.output_tokens,
        cost=usage.cost,
        # The competitor's own clock, without the start of its process, as if nothing had been remembered: remembered calls
        # would have shared its threads.
        seconds=round(reply.get("seconds", 0.0) + remembered / workers, 2),
        counts=reply.get("counts", {}),
    )


def competitor_environment(home: str, base_url: str, workers: int) -> dict[str, str]:
    """The environment of a competitor's process: no key, no proxy, no network but the endpoint."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "HOME": home,
        "TMPDIR": home,
        "XDG_CACHE_HOME": home,
        "DSPY_CACHEDIR": f"{home}/dspy",
        "MPLCONFIGDIR": home,
        "OPENAI_API_KEY": "not-needed",
        "OPENAI_API_BASE": base_url,
        "OPENAI_BASE_URL": base_url,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for a price list
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
        "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
        "MLFLOW_GATEWAY_ROUTE_TIMEOUT_SECONDS": "3600",  # its 300 are too few for a model on two cores
        "MLFLOW_GENAI_OPTIMIZE_MAX_WORKERS": str(workers),
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
    }
