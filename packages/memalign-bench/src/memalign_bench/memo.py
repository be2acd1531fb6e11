"""Remembered model calls: a second run asks the model nothing that it has answered."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from memalign.errors import ModelError
from memalign.io.atomic import atomic_write
from memalign.models.base import ChatModel, ChatReply, ChatRequest, Limits, YesNoModel
from memalign.types import Usage, json_line
from memalign_bench.spending import Gate

__all__ = ["Memo", "YesNoMemo", "answering", "engine_of", "recalled", "remembering"]

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
        file = self._file(_asked(request))
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
        _keep(file, reply)
        return reply

    def _file(self, asked: bytes) -> Path:
        key = hashlib.sha256(self._answering.encode() + b"\0" + asked).hexdigest()
        return self._folder / key[:2] / f"{key[2:40]}.json"

    def take(self) -> tuple[Usage, float]:
        """What was spent since the last time, remembered calls included, and the seconds of the remembered ones."""
        taken = self._spent, self._remembered
        self._spent, self._remembered = Usage(), 0.0
        return taken


class _Margin(msgspec.Struct, frozen=True, kw_only=True):
    margin: float
    usage: Usage


class YesNoMemo(Memo):
    """A Memo of a model that is a YesNoModel too: each question about an item is asked once."""

    async def margins(
        self,
        system: str,
        item: str,
        questions: Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
    ) -> tuple[list[float], Usage]:
        """The remembered margins, and the model's for the other questions, whose cost they share equally.

        Raises what the model and the gate raise.
        """
        model: Any = self._model
        files = {q: self._file(msgspec.json.encode([system, item, q])) for q in questions}
        known = {q: found for q, file in files.items() if (found := recalled(file, _Margin)) is not None}
        self._remembered += sum(each.usage.seconds.get(ANSWER, 0.0) for each in known.values())
        if new := [q for q in files if q not in known]:
            async with self._gate():
                started = time.perf_counter()
                try:
                    margins, usage = await model.margins(system, item, new, timeout=timeout)
                except ModelError as error:
                    self._paid(error.usage or Usage())
                    raise
            self._paid(usage)
            usage += Usage(seconds={ANSWER: time.perf_counter() - started})
            for n, (question, margin) in enumerate(zip(new, margins, strict=True)):
                known[question] = _Margin(margin=margin, usage=_share(usage, n, len(new)))
                _keep(files[question], known[question])
        spent = sum((each.usage for each in known.values()), Usage())
        self._spent += spent
        return [known[question].margin for question in questions], spent


def remembering(
    model: ChatModel, folder: Path, *, paid: Callable[[Usage], None] | None = None, gate: Gate = nullcontext
) -> Memo:
    """The Memo of a model, with all that the model can do."""
    return (YesNoMemo if isinstance(model, YesNoModel) else Memo)(model, folder, paid=paid, gate=gate)


def _share(usage: Usage, number: int, of: int) -> Usage:
    """One of equal parts, numbered from 0; what cannot be divided goes to the first ones."""

    def part(whole: int) -> int:
        return (whole + of - 1 - number) // of

    return Usage(
        calls=part(usage.calls),
        input_tokens=part(usage.input_tokens),
        cached_tokens=part(usage.cached_tokens),
        output_tokens=part(usage.output_tokens),
        cost=None if usage.cost is None else usage.cost / of,
        seconds={phase: seconds / of for phase, seconds in usage.seconds.items()},
    )


def _keep(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Two runs may share a folder: a file is there whole or not at all.
    with atomic_write(file) as new:
        new.write(json_line(value))


def cache_folder() -> Path:
    """Where a benchmark keeps calls and pulled data unless another folder is named: in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("memalign") / "bench"


def _asked(request: ChatRequest) -> bytes:
    """What decides the answer.

    Labels only ask for more about it: a reply remembered without probabilities will do. What is optional only says what
    may be missing.
    """
    fields = msgspec.structs.asdict(request)
    del fields["labels"], fields["optional"]
    return msgspec.json.encode(fields)
