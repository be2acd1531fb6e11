"""The embedded model: a GGUF file run in this process by llama.cpp, through xllamacpp.

No network, no key, no cost. One worker thread for each model makes one call at a time: two calls at
once would only share the same cores. llama.cpp keeps the processed prompts of former calls in
memory, so that judging and distilling, whose system messages differ, both find their prefix again
when they take turns.

No answer depends on what was asked before. llama.cpp reads a prompt from where it differs from the
last one, and where a prompt is cut changes how its numbers are rounded, which is enough for another
verdict (decision 16). So the prefix that requests share, a judge's system message, is read by
itself, with a mark behind it.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from memalign.errors import (
    ConfigurationError,
    InvalidOutput,
    ModelRejected,
    ModelUnavailable,
)
from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.catalogue import locate
from memalign.models.provider_errors import PromptTooLong
from memalign.models.providers import whole_number
from memalign.types import Usage

__all__ = ["LocalAnswer", "LocalChatModel"]

_CACHE_MIB = 512
"""Some 18,000 tokens of the 1.5B's prompts."""

_BATCH = 256
"""Tokens between two looks at whether the caller still waits."""

_DEFAULT_CONTEXT = 8192
_DEFAULT_TIMEOUT = 600.0

_STREAMED = {
    "cache_prompt": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,
}

_AFTER_PREFIX = "\u241e"
"""What is read behind a shared prefix: a control picture, which no message begins with."""

_CONTROL = re.compile(
    r"<(?=[|\uff5c])|<(?=/?s>|(?:start|end)_of_turn>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])"
)
"""What chat templates are made of. In judged text these words must stay words: tokenizers read them
as control tokens anywhere, and a judged answer could end its own message and go on as the judge."""

Json = dict[str, Any]

Ask = Callable[[Json], "LocalAnswer"]
"""Asks llama.cpp once."""


class LocalChatModel:
    """A ChatModel over a GGUF file, which is read at the first call; `resolve` gives one a file.

    Its name is `local:` and the catalogue's name, or the path of the file. It is weak and slow: it
    writes no guidelines, and judges one item at a time with a short reason.
    """

    def __init__(self, name: str) -> None:
        """Take the embedded model.

        Its context size is `MEMALIGN_LOCAL_CONTEXT` (8192 tokens), its threads are
        `MEMALIGN_LOCAL_THREADS` (the processors that this process may use, at most 8).

        Args:
            name: A name of the catalogue or the path of a .gguf file, perhaps after `local:`.

        Raises:
            ConfigurationError: The name is unknown, or the file is missing or not whole; it says
                which command pulls it.
        """
        self.name, self.path = locate(name)
        self._context = whole_number("MEMALIGN_LOCAL_CONTEXT") or _DEFAULT_CONTEXT
        self.limits = Limits(
            context_tokens=self._context, concurrency=1, examples=0, writes=False
        )
        self._threads = whole_number("MEMALIGN_LOCAL_THREADS") or min(
            _usable_processors(), 8
        )
        self._server: Any = None  # only touched in the worker thread
        self._prefix_tokens: dict[
            int, int
        ] = {}  # by the system message's hash; 0: it is not kept
        self._worker = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="memalign-local"
        )

    def price_of(self, usage: Usage) -> float | None:  # the protocol's
        """Return 0: nobody is paid."""
        return 0.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer in the worker thread, after the calls that came before.

        A cancelled call stops within 256 tokens.

        Args:
            request: What is asked. Its `timeout` (600 s if it has none) counts from when the model
                starts on it.

        Raises:
            ModelRejected: The prompt is longer than the context.
            InvalidOutput: The answer does not fit, or was cut twice, the second time with twice
                the tokens.
            ModelUnavailable: Time is up.
        """
        given_up = threading.Event()
        timeout = request.timeout or _DEFAULT_TIMEOUT

        def work() -> ChatReply:
            if given_up.is_set():
                raise ModelUnavailable(f"{self.name}: the call was cancelled")
            if self._server is None:
                self._server = load(
                    self.path, context_tokens=self._context, threads=self._threads
                )
            deadline = time.monotonic() + timeout

            def ask(body: Json) -> LocalAnswer:
                return self._ask(
                    body, LocalAnswer(deadline=deadline, given_up=given_up), timeout
                )

            return self._complete(request, ask)

        try:
            return await asyncio.wrap_future(self._worker.submit(work))
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _complete(self, request: ChatRequest, ask: Ask) -> ChatReply:
        usage = Usage()
        for max_tokens in (request.max_tokens, 2 * request.max_tokens):
            before = self._read_prefix(request, ask)
            answer = ask(_chat_body(request, max_tokens))
            used = answer.usage
            self._prefix_tokens[hash(request.system)] = used.cached_tokens
            usage += replace(used, cached_tokens=min(before, used.cached_tokens))
            if not answer.cut:
                return self._reply(request, answer.text, usage)
            if used.input_tokens + used.output_tokens >= self._context:
                raise ModelRejected(
                    f"{self.name}: the prompt of {used.input_tokens:,} tokens leaves no room for "
                    f"the answer in a context of {self._context:,}; shorten it or raise "
                    "MEMALIGN_LOCAL_CONTEXT",
                    usage=usage,
                )
        cuts = (
            f"cut at {request.max_tokens} tokens and again at {2 * request.max_tokens}"
        )
        raise InvalidOutput(f"{self.name}: the answer was {cuts}", usage=usage)

    def _reply(self, request: ChatRequest, text: str, usage: Usage) -> ChatReply:
        """Read an answer: llama.cpp answers freely when it cannot make a grammar of a schema."""
        data, problem = answer_object(text, request.schema, optional=request.optional)
        if data is None or problem:
            fault = f"{self.name} gave no answer that fits the schema: {problem}"
            raise InvalidOutput(fault, usage=usage)
        return ChatReply(data=data, text=text, usage=usage)

    def _read_prefix(self, request: ChatRequest, ask: Ask) -> int:
        """Have the cache hold the request's prefix, and return how much of it was there before."""
        tokens = self._prefix_tokens.get(hash(request.system))
        if tokens == 0:
            return 0  # a model whose prompts cannot be cut
        body = _prefix_body(request.system)
        with suppress(PromptTooLong):  # so is the request, whose error says by how much
            if tokens is not None:
                cached = ask(body).usage.cached_tokens
                if cached >= tokens:
                    return cached
            # All of it, because the rest of a part would be cut somewhere else.
            ask({**body, "cache_prompt": False})
        return 0

    def _ask(self, body: Json, answer: LocalAnswer, timeout: float) -> LocalAnswer:
        self._server.handle_chat_completions(body, answer.receive)
        error = answer.error
        if error.get("type") == "exceed_context_size_error":
            raise PromptTooLong(
                f"{self.name}: the prompt has {error.get('n_prompt_tokens', 0):,} tokens, the "
                f"limit is {self._context:,}; shorten it or raise MEMALIGN_LOCAL_CONTEXT"
            )
        if error:
            raise ModelRejected(f"{self.name}: {error.get('message', error)}")
        if answer.stopped:
            cancelled = answer.given_up.is_set()
            why = (
                "the call was cancelled"
                if cancelled
                else f"no answer after {timeout:g} s"
            )
            raise ModelUnavailable(f"{self.name}: {why}")
        return answer


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- what llama.cpp is asked and answers -----------------------------------------------------------


def load(path: Path, *, context_tokens: int, threads: int) -> Any:
    """Return llama.cpp's server over a file.

    Raises:
        ConfigurationError: llama.cpp cannot read the file.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_batch = _BATCH
    params.n_ubatch = _BATCH
    params.cache_ram_mib = _CACHE_MIB
    params.warmup = False
    params.verbosity = -1
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = threads
    # It always listens on a port of 127.0.0.1. We never use it; a key that nobody knows keeps other
    # users of the machine, and pages in a browser, from it.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.endpoint_slots = False
    params.ui = False
    params.n_threads_http = 1
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"llama.cpp cannot load {path} ({error}); is it a GGUF file, whole, and is there "
            "memory for it? 'memalign models pull' checks the embedded ones and pulls them anew"
        ) from error


@dataclass(kw_only=True)
class LocalAnswer:
    """The pieces of one streamed answer; it stops llama.cpp when nobody waits any more."""

    deadline: float
    given_up: threading.Event
    text: str = ""
    usage: Usage = Usage(calls=1, cost=0.0)
    cut: bool = False
    stopped: bool = False
    error: Json = field(default_factory=dict)

    def receive(self, chunk: Json) -> bool:
        """Take one piece, and return whether to stop; called after each batch of a prompt, too."""
        if "error" in chunk:
            self.error = dict(chunk["error"])
            return False
        for choice in chunk.get("choices", ()):
            self.text += choice.get("delta", {}).get("content") or ""
            self.cut = self.cut or choice.get("finish_reason") == "length"
        if counts := chunk.get("usage"):
            self.usage = Usage(
                calls=1,
                input_tokens=counts["prompt_tokens"],
                cached_tokens=(counts.get("prompt_tokens_details") or {}).get(
                    "cached_tokens", 0
                ),
                output_tokens=counts["completion_tokens"],
                cost=0.0,
            )
            return False  # the last piece: the answer is whole, however late
        self.stopped = self.given_up.is_set() or time.monotonic() > self.deadline
        return self.stopped


def _messages(system: str, user: str) -> list[dict[str, str]]:
    """Return the two messages, with a space inside whatever would be a control token."""
    messages = []
    for role, text in (("system", system), ("user", user)):
        plain = text.encode("utf-8", "replace").decode()
        messages.append({"role": role, "content": _CONTROL.sub(r"\g<0> ", plain)})
    return messages


def _prefix_body(system: str) -> Json:
    """Return the request that only reads what requests share, a judge's system message."""
    return {"messages": _messages(system, _AFTER_PREFIX), "max_tokens": 0, **_STREAMED}


def _chat_body(request: ChatRequest, max_tokens: int) -> Json:
    """Return the request, its answer held to the schema by a grammar."""
    import xllamacpp

    # Compact JSON: white space is a fifth of the tokens of a short answer. "x-guidance" is
    # llguidance's.
    layout = {
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
    }
    body: Json = {
        "messages": _messages(request.system, request.user),
        "grammar": str(
            xllamacpp.json_schema_to_grammar({**request.schema, "x-guidance": layout})
        ),
        "max_tokens": max_tokens,
        **_STREAMED,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    return body
