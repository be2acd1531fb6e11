"""Remembered model calls: a second run asks the model nothing that it has answered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from memalign.errors import ModelError
from memalign.io.atomic import atomic_write
from memalign.models.base import ChatModel, ChatReply, ChatRequest, Limits
from memalign.types import Usage, json_line
from memalign_bench.spending import Gate

__all__ = ["Memo", "answering", "engine_of", "recalled"]

T = TypeVar("T")

ANSWER = "answer"
"""The phase under which a remembered reply keeps the seconds that its call once took."""


def recalled(file: Path, kind: type[T]) -> T | None:
    """What a memo's file holds; None where there is none, or one that a crash of the machine left empty or cut."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (FileNotFoundError, UnicodeDecodeError, msgspec.DecodeError):
        return None


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def answering(model: _Named) -> str:
    """Whose answers a memo keeps: the model's name, its engine's build in this process, or the address that the user set."""
    where = engine_of(model) or getattr(model, "base_url", None)
    return model.name if where is None else f"{model.name}\0{where}"


def engine_of(model: _Named) -> str | None:
    """What computes the model's answers in this process; None where another machine does."""
    return getattr(model, "engine", None)


class Memo:
    """A ChatModel that keeps another one's answers in a folder, by the hash of model and request.

    A remembered reply has the usage of the call that was made, its seconds included. Failures are not kept. `paid` gets the
    usage of every call that was made, failed ones too, and each goes through the `gate`. The folder holds what models wrote
    about judged texts: it is for nobody else.
    """

    def __init__(
        self,
        model: ChatModel,
        folder: Path,
        *,
        paid: Callable[[Usage], None] | None = None,
        gate: Gate = nullcontext,
    ) -> None:
        self._model = model
        self._answering = answering(model)
        self._folder = folder
        self._paid = paid or (lambda _: None)
        self._gate = gate
        self._spent = Usage()
        self._remembered = 0.0

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    @property
    def limits(self) -> Limits:
        """The model's own limits."""
        return self._model.limits

    @property
    def model(self) -> ChatModel:
        """The model behind it."""
        return self._model

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The remembered answer, else the model's. Raises what the model and the gate raise."""
        key = hashlib.sha256(self._answering.encode() + b"\0" + _asked(request)).hexdigest()
        file = self._folder / key[:2] / f"{key[2:40]}.json"
        reply = recalled(file, ChatReply)
        if reply is not None:
            self._remembered += reply.usage.seconds.get(ANSWER, 0.0)
        else:
            async with self._gate():
                reply = await self._ask(request, file)
        self._spent += reply.usage
        return reply

    async def _ask(self, request: ChatRequest, file: Path) -> ChatReply:
        started = time.perf_counter()
        try:
            reply = await self._model.complete(request)
        except ModelError as error:
            self._paid(error.usage or Usage())
            raise
        self._paid(reply.usage)
        usage = reply.usage + Usage(seconds={ANSWER: time.perf_counter() - started})
        reply = msgspec.structs.replace(reply, usage=usage)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Two runs may share a folder: a file is there whole or not at all.
        with atomic_write(file) as new:
            new.write(json_line(reply))
        return reply

    def take(self) -> tuple[Usage, float]:
        """What was spent since the last time, remembered calls included, and the seconds of the remembered ones."""
        taken = self._spent, self._remembered
        self._spent, self._remembered = Usage(), 0.0
        return taken


def cache_folder() -> Path:
    """Where a benchmark keeps calls and pulled data unless another folder is named: in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("memalign") / "bench"


def _asked(request: ChatRequest) -> bytes:
    """What decides the answer. Labels only ask for more about it: a reply remembered without probabilities will do."""
    fields = msgspec.structs.asdict(request)
    del fields["labels"]
    return msgspec.json.encode(fields)
