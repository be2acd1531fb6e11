"""The judge model behind an OpenAI-compatible address on this machine, so that competitors ask the same model.

Requests go through as they came. Their cost is counted here, the same way for every competitor.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable

import msgspec

from memalign import aio
from memalign.errors import ConfigurationError, MemalignError, ModelRejected
from memalign.io.atomic import atomic_write
from memalign.models.base import ChatModel, EmbeddingModel
from memalign.models.local import LocalChatModel
from memalign.models.provider_errors import PromptTooLong, Subject, failure_of
from memalign.models.providers import Target, parse_name, target_of
from memalign.models.resolve import resolve
from memalign.models.retry import Retry
from memalign.types import Usage, canonical_json, json_line
from memalign_bench.embedded import LocalRaw
from memalign_bench.memo import Memo, answering, recalled
from memalign_bench.prices import Prices, cost_of
from memalign_bench.spending import Gate, StoppedError

__all__ = ["Endpoint", "OpenAIRaw", "RawMemo", "RawModel", "raw_model"]

REMEMBERED = "remembered"
"""The phase of a usage's seconds that says how much of "model" was not spent now: remembered calls took it once."""

DEFAULTS: Mapping[str, Any] = MappingProxyType({"temperature": 0.0})
"""What a request that leaves it out gets: the temperature of all other methods."""


@runtime_checkable
class RawModel(Protocol):
    """Anything that answers an OpenAI chat completion request."""

    @property
    def name(self) -> str:
        """The model's resolved name."""
        ...

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """The response to `body`; its `seconds`, where given, is the model's own time, without any waiting in line.

        Raises a ModelError: PromptTooLong for a prompt longer than the context.
        """
        ...


def raw_model(model: ChatModel) -> RawModel:
    """The model behind `model`, with or without a memo around it, as a RawModel.

    Raises ConfigurationError for one that takes no OpenAI requests.
    """
    while isinstance(model, Memo):
        model = model.model
    if isinstance(model, RawModel):
        return model
    if parse_name(model.name)[0] == "local" and isinstance(found := resolve(model.name), LocalChatModel):
        return LocalRaw(found)
    if parse_name(model.name)[0] == "openai":
        return OpenAIRaw(target_of(model.name))
    raise ConfigurationError(
        f"{model.name} takes no OpenAI requests, and competitors send nothing else; name local:MODEL or openai:MODEL"
    )


class OpenAIRaw:
    """A RawModel that passes requests on to OpenAI, or to the compatible server at OPENAI_BASE_URL."""

    def __init__(self, target: Target, *, retry: Retry | None = None, timeout: float = 600.0) -> None:
        self._target = target
        self._retry = retry or Retry()
        self._subject = Subject(model=target.name, base_url=target.base_url, key_name=target.key_name, timeout=timeout)

    @property
    def name(self) -> str:
        """The resolved name, `openai:gpt-4.1-mini`."""
        return self._target.name

    @property
    def base_url(self) -> str | None:
        """The compatible server's address; None for OpenAI's own."""
        return self._target.base_url

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """The server's response; tried again after a 429 or 5xx."""

        async def attempt() -> dict[str, Any]:
            try:
                return await asyncio.to_thread(self._post, {**body, "model": self._target.model})
            except Exception as error:
                if (failed := failure_of(error, self._subject)) is None:
                    raise
                raise failed from error

        return await self._retry.run(attempt, subject=str(self._subject))

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  # the address that the user configured
            f"{self._target.url.rstrip('/')}/chat/completions",
            data=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self._target.api_key or 'no-key-needed'}",
            },
        )
        started = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=self._subject.timeout) as response:  # noqa: S310
                reply: dict[str, Any] = json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise _StatusError(error.code, error.read(), dict(error.headers)) from None
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason)) from error
        return {**reply, "seconds": time.perf_counter() - started}


class _StatusError(Exception):
    """A response that is an error, with the attributes by which `failure_of` knows those of providers' libraries."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers
        try:
            self.body: Any = json.loads(body)
        except ValueError:
            self.body = {}


class RawMemo:
    """A RawModel that keeps another one's responses in a folder, by the hash of model and request.

    A remembered response says so in `remembered`, with the usage and seconds of the call that was made. The nth equal request
    at a temperature, without a seed, has the nth remembered response. Every call that is made goes through the `gate`.
    """

    def __init__(self, model: RawModel, folder: Path, *, gate: Gate = nullcontext) -> None:
        self._model = model
        self._answering = answering(model)
        self._folder = folder
        self._gate = gate
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The model's own name."""
        return self._model.name

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """The remembered response, else the model's. Raises what model and gate raise; failures are not kept."""
        request = canonical_json(body)
        if body.get("temperature") != 0 and body.get("seed") is None:
            with self._lock:
                number = self._asked[request] = self._asked.get(request, -1) + 1
            request = f"{request}\0{number}" if number else request
        key = hashlib.sha256(f"{self._answering}\0{request}".encode("utf-8", "surrogatepass")).hexdigest()
        file = self._folder / key[:2] / f"{key[2:40]}.json"
        kept = recalled(file, dict[str, Any])
        if kept is not None:
            return {**kept, REMEMBERED: True}
        async with self._gate():
            started = time.perf_counter()
            reply = await self._model.raw(body)
            reply = {"seconds": time.perf_counter() - started, **reply}
            file.parent.mkdir(parents=True, exist_ok=True)
            # Two runs may share a folder: a file is there whole or not at all.
            with atomic_write(file) as new:
                new.write(json_line(reply))
        return reply


class Endpoint:
    """Serves a model and an embedder at `base_url` for as long as the context lasts.

    `prices` give the cost, without them the provider's list; None where neither knows it. `defaults` are fields that a
    request may leave out. `paid` gets the usage of every call that was made. When the run has stopped, the client gets a 400,
    `stopped` says why, and `on_stop` is called.
    """

    def __init__(
        self,
        model: RawModel,
        embedding: EmbeddingModel,
        *,
        prices: Prices | None = None,
        defaults: Mapping[str, Any] = DEFAULTS,
        paid: Callable[[Usage], None] | None = None,
    ) -> None:
        self._model = model
        self._embedding = embedding
        self._prices = prices
        self._defaults = dict(defaults)
        self._paid = paid or (lambda _: None)
        self.on_stop: Callable[[], None] = lambda: None
        self.stopped: StoppedError | None = None
        self._lock = threading.Lock()
        self._spent = Usage()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        """What clients take as their OpenAI base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def take(self) -> Usage:
        """What was spent since the last time, remembered calls included; their seconds are also under "remembered"."""
        with self._lock:
            spent, self._spent = self._spent, Usage()
        return spent

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The model's response to a chat request, counted."""
        started = time.perf_counter()
        try:
            reply = await self._model.raw({**self._defaults, **body})
        except StoppedError as error:
            self.stopped = error
            self.on_stop()
            raise
        seconds = float(reply.pop("seconds", time.perf_counter() - started))
        remembered = bool(reply.pop(REMEMBERED, False))
        used = reply.get("usage") or {}
        usage = Usage(
            calls=1,
            input_tokens=used.get("prompt_tokens", 0),
            cached_tokens=(used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
            output_tokens=used.get("completion_tokens", 0),
            seconds={"model": seconds, REMEMBERED: seconds if remembered else 0.0},
        )
        usage = msgspec.structs.replace(usage, cost=cost_of(self._model.name, usage, self._prices))
        with self._lock:
            self._spent += usage
        if not remembered:
            self._paid(usage)
        return reply

    async def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        """The embedder's vectors, as numbers or, where asked so, in base64."""
        given = body.get("input", "")
        texts = [given] if isinstance(given, str) else list(given)
        if not all(isinstance(text, str) for text in texts):
            raise ModelRejected("embeddings are served for texts only, not for tokens")
        vectors = await self._embedding.embed(texts)
        packed = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if packed else row.tolist(),
            }
            for index, row in enumerate(vectors)
        ]
        words = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": words, "total_tokens": words}
        return {"object": "list", "model": body.get("model", ""), "data": data, "usage": usage}

    def models(self) -> dict[str, Any]:
        """The list of models that clients may look into."""
        name = parse_name(self._model.name)[1]
        return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "memalign"}]}


class _Server(ThreadingHTTPServer):
    endpoint: Endpoint
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away before its answer came is no event."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as providers do
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Requests are counted, not logged."""

    def do_GET(self) -> None:  # the base class's name
        """GET /v1/models."""
        if self.path.rstrip("/").endswith("/models"):
            self._reply(200, self.server.endpoint.models())
        else:
            self._reply(404, _error(f"nothing at {self.path}"))

    def do_POST(self) -> None:  # the base class's name
        """POST /v1/chat/completions and /v1/embeddings."""
        endpoint = self.server.endpoint
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        serve = {"/v1/chat/completions": endpoint.chat, "/v1/embeddings": endpoint.embed}.get(
            self.path.partition("?")[0]
        )
        if serve is None:
            self._reply(404, _error(f"nothing at {self.path}"))
            return
        try:
            body = json.loads(raw)
        except ValueError as error:
            self._reply(400, _error(f"the request is no JSON: {error}"))
            return
        try:
            reply = aio.run(serve(body))
        except PromptTooLong as error:
            # The words and the code by which OpenAI's clients know it.
            message = f"This model's maximum context length is exceeded: {error}"
            self._reply(400, _error(message, code="context_length_exceeded"))
        except MemalignError as error:
            # Retries are ours and were made: with a 429 or 5xx the competitor would begin its own, ten times.
            self._reply(400, _error(str(error)))
        else:
            self._reply(200, reply)

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _error(message: str, *, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}
