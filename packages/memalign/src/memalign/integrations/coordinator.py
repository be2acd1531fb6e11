"""One rate and one limit of cost for workers on many machines: each call is asked for and paid at one place.

The driver of a job starts a Coordinator. A worker connects to it once (TCP, with the job's token), asks before each call of a
model, and tells afterwards what the call cost. The accounts are those of `PaidCalls`, so that a limit means the same as in
one process. Messages are JSON, one a line, of a few dozen bytes; what is judged never passes here.

Whatever breaks, no call goes out that was not granted. A worker that is lost may have paid for what it had in flight: that is
counted at the mean price. A coordinator that is lost ends the granting: rows of calls that were asked for then have an
error, and the next run judges them.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypedDict, TypeVar

from msgspec import convert, to_builtins

from memalign import aio
from memalign.errors import ConfigurationError, InputError, ModelError, ModelUnavailable, SpendLimitReached
from memalign.judge import Judge
from memalign.judge.open_model import open_model
from memalign.judge.paid_calls import Call, PaidCalls
from memalign.judge.spend_limit import check_concurrency
from memalign.models.asking import asked_through
from memalign.models.base import PricedModel
from memalign.types import Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Coordinator", "GrantedCalls", "Limits", "Place", "Task"]

T = TypeVar("T")

_TRIES = 3  # to connect, half a second apart
_FAULTS = {each.__name__: each for each in (SpendLimitReached, ConfigurationError)}


class Limits(TypedDict, total=False):
    """The limits of a job. `concurrency` is the calls in flight of one worker process (None: as many as suit the model).

    `max_cost`, in dollars, and `calls_per_second` are those of all workers together; without either nobody coordinates.
    """

    concurrency: int | None
    max_cost: float | None
    calls_per_second: float | None


class Place(NamedTuple):
    """Where a coordinator listens, and the token that it asks for."""

    host: str
    port: int
    token: str


class Coordinator:
    """Grants calls, until it is closed. `max_cost` is in dollars, `calls_per_second` over all workers; None: no limit.

    Calls are granted at even distances; attempts that repeat a refused call are not counted. Raises InputError for what is
    no limit.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", max_cost: float | None = None, calls_per_second: float | None = None
    ) -> None:
        rate = calls_per_second
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1e6):
            raise InputError(f"calls_per_second is a number above 0, not {rate!r}")
        self._calls = PaidCalls(max_cost=max_cost)
        self._pause = 0.0 if rate is None else 1 / rate
        self._next = 0.0
        self._spent, self._answered = 0.0, 0
        self._connected: set[asyncio.StreamWriter] = set()
        token = secrets.token_hex(16)
        self._server: asyncio.Server = aio.run(self._open(host))
        self.place = Place(host, self._server.sockets[0].getsockname()[1], token)

    @classmethod
    def of(cls, limits: Limits, judge: Judge, *, host: str) -> Self | None:
        """One that holds to `limits` of a judge's calls; None where none is shared.

        Raises InputError for what is no limit, ConfigurationError for a limit of cost where the price is not known.
        """
        check_concurrency(limits.get("concurrency"))
        cost, rate = limits.get("max_cost"), limits.get("calls_per_second")
        model = open_model(judge)
        if cost is not None and isinstance(model, PricedModel) and model.price_of(Usage(input_tokens=1)) is None:
            raise ConfigurationError(
                f"max_cost cannot hold: what a call of {model.name} costs is not known; say it with the judge's parameter "
                "models, or leave max_cost out"
            )
        return None if cost is None and rate is None else cls(host=host, max_cost=cost, calls_per_second=rate)

    async def _open(self, host: str) -> asyncio.Server:
        return await asyncio.start_server(self._serve, host, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Grant no more."""

        async def end() -> None:
            self._server.close()
            for writer in self._connected:
                writer.close()

        aio.run(end())

    @property
    def spent(self) -> float:
        """Dollars, those of lost workers' calls by estimate."""
        return self._spent

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One worker, until it goes."""
        outstanding: dict[int, asyncio.Future[Usage]] = {}
        tasks: set[asyncio.Task[None]] = set()
        try:
            hello = json.loads(await reader.readline() or b"{}")
            token = str(hello.get("token")) if isinstance(hello, dict) else ""
            if not hmac.compare_digest(token.encode(), self.place.token.encode()):
                return
            self._connected.add(writer)
            async for line in reader:
                said = json.loads(line)
                if "usage" in said:
                    outstanding.pop(said["call"]).set_result(convert(said["usage"], Usage))
                else:
                    tasks.add(task := asyncio.ensure_future(self._grant(said, writer, outstanding)))
                    task.add_done_callback(tasks.discard)
        except (OSError, ValueError):  # the worker is gone, or whoever it is speaks something else
            pass
        finally:
            self._connected.discard(writer)
            writer.close()
            mean = self._spent / self._answered if self._answered else 0.0
            for paid in outstanding.values():
                if not paid.done():
                    paid.set_result(Usage(cost=mean))
            outstanding.clear()

    async def _grant(
        self, said: dict[str, Any], writer: asyncio.StreamWriter, outstanding: dict[int, asyncio.Future[Usage]]
    ) -> None:
        number = said["call"]

        async def granted() -> Usage:
            self._next = max(time.monotonic(), self._next) + self._pause
            await asyncio.sleep(self._next - self._pause - time.monotonic())
            if writer.is_closing():  # the worker went while its call waited
                return Usage()
            paid = outstanding[number] = asyncio.get_running_loop().create_future()
            _send(writer, {"call": number})
            usage: Usage = await paid
            self._spent += usage.cost or 0.0
            self._answered += usage.calls > 0
            return usage

        try:
            await self._calls.pay(Call(*said["asked"]), granted, lambda usage: usage)
        except SpendLimitReached as error:
            _fault(writer, number, error, f"{self._calls.stopped}; run it again to go on")
        except ConfigurationError as error:
            _fault(writer, number, error, str(error))


class GrantedCalls(PaidCalls):
    """The calls of a worker: each is granted by the coordinator at `place`, for `asked_through`. One a process and place.

    A call raises SpendLimitReached where it would pass the limit, ConfigurationError where its price is not known, and
    ModelUnavailable where the coordinator cannot be reached.
    """

    _all: dict[Place, GrantedCalls] = {}  # noqa: RUF012  # of this process

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()

    @classmethod
    def at(cls, place: Place) -> GrantedCalls:
        """The calls of this process."""
        return cls._all.get(place) or cls._all.setdefault(place, cls(place))

    async def pay(self, asked: Call, call: Callable[[], Awaitable[T]], usage_of: Callable[[T], Usage]) -> T:
        """What `call` gives, once it is granted."""
        writer, number = await self._connection(), next(self._numbers)
        granted = self._waiting[number] = asyncio.get_running_loop().create_future()
        _send(writer, {"call": number, "asked": asked})
        await granted
        usage = Usage()
        try:
            answer = await call()
            usage = usage_of(answer)
        except ModelError as error:
            usage = error.usage or Usage()
            raise
        finally:
            _send(writer, {"call": number, "usage": to_builtins(usage)})
        return answer

    async def _connection(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await self._connected()
                _send(self._writer, {"token": self._place.token})
                self._listening = asyncio.ensure_future(self._listen(reader, self._writer))
            return self._writer

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for attempt in range(_TRIES):
            with suppress(OSError):
                return await asyncio.open_connection(self._place.host, self._place.port)
            await asyncio.sleep(0.5 * (attempt + 1 < _TRIES))
        raise self._gone()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the coordinator says, until it goes."""
        with suppress(OSError):
            async for line in reader:
                said = json.loads(line)
                waiting = self._waiting.pop(said["call"])
                if "fault" not in said and waiting.done():  # whoever asked was cancelled, and pays nothing
                    _send(writer, {"call": said["call"], "usage": {}})
                elif not waiting.done():
                    _settle(waiting, said)
        writer.close()
        self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._gone())
        self._waiting.clear()

    def _gone(self) -> ModelUnavailable:
        where = f"{self._place.host}:{self._place.port}"
        return ModelUnavailable(f"the coordinator at {where} is gone, and no call is made without it; run it again")


class Held(Protocol):
    """Where a worker finds the judge, such as a broadcast of Spark's."""

    @property
    def value(self) -> Judge: ...


class Task:
    """What goes to the workers, pickled: where the judge is, and within which limits it is asked."""

    def __init__(self, held: Held, limits: Limits, place: Place | None) -> None:
        self._held, self._concurrency, self._place = held, limits.get("concurrency"), place

    @property
    def judge(self) -> Judge:
        """The judge, unpickled once a process."""
        return self._held.value

    def predict(self, table: pa.Table, *, done: Collection[tuple[str, str]] = ()) -> pa.Table:
        """The verdicts on the rows of an Arrow table; see `Judge.predict_batch`."""
        with asked_through(None if self._place is None else GrantedCalls.at(self._place)):
            return self.judge.predict_batch(table, done=done, concurrency=self._concurrency)


def _settle(waiting: asyncio.Future[None], said: dict[str, Any]) -> None:
    if "fault" in said:
        waiting.set_exception(_FAULTS[said["fault"]](said["reason"]))
    else:
        waiting.set_result(None)


def _fault(writer: asyncio.StreamWriter, number: int, error: Exception, reason: str) -> None:
    _send(writer, {"call": number, "fault": type(error).__name__, "reason": reason})


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(message).encode() + b"\n")
