"""The embedded model: a GGUF file run in this process by llama.cpp, through xllamacpp. No network, no key, no cost.

One worker thread a model makes one call at a time: two calls at once would only share the same cores. llama.cpp keeps
the processed prompts of former calls in memory, so that judging and distilling, whose system messages differ, both find
their prefix again when they take turns.

No answer hangs on what was asked before. llama.cpp reads a prompt from where it parts from the last one, and where a
prompt is cut changes how its numbers are rounded, which is enough for another verdict (decision 16). So the prefix that
requests share, a judge's system message, is read by itself, with a mark behind it.
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

from memalign.errors import ConfigurationError, InvalidOutput, ModelRejected, ModelUnavailable
from memalign.models.answers import answer_object
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.catalogue import locate
from memalign.models.provider_errors import PromptTooLong
from memalign.models.providers import whole_number
from memalign.types import Usage

__all__ = ["LocalAnswer", "LocalChatModel"]

_CACHE_MIB = 512  # some 18,000 tokens of the 1.5B's prompts
_BATCH = 256  # tokens between two looks at whether the caller still waits

_STREAMED = {
    "cache_prompt": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,
}

# What is read behind a shared prefix: a control picture, which no message begins with.
_AFTER_PREFIX = "\u241e"

# What chat templates are made of. In judged text these words must stay words: tokenizers read them as control tokens
# wherever they stand, and a judged answer could end its own message and go on as the judge.
_CONTROL = re.compile(
    r"<(?=[|\uff5c])|<(?=/?s>|(?:start|end)_of_turn>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])"
)

Ask = Callable[[dict[str, Any]], "LocalAnswer"]  # asks llama.cpp once

_DEFAULT_CONTEXT = 8192
_DEFAULT_TIMEOUT = 600.0


class LocalChatModel:
    """A ChatModel over a GGUF file, which is read at the first call; `resolve` gives one a file.

    Its name is `local:` and the catalogue's name, or the path of the file. It is weak and slow: it writes no
    guidelines, and judges one item at a time with a short reason.
    """

    def __init__(self, name: str) -> None:
        """Take the embedded model `name`: a name of the catalogue or the path of a .gguf file, perhaps after `local:`.

        Raises ConfigurationError for an unknown name, and for a file that is not there or not whole, with the command
        that pulls it. Context size is `MEMALIGN_LOCAL_CONTEXT` (8192 tokens), threads `MEMALIGN_LOCAL_THREADS` (the
        processors that this process may use, at most 8).
        """
        self.name, self.path = locate(name)
        self._context = whole_number("MEMALIGN_LOCAL_CONTEXT") or _DEFAULT_CONTEXT
        self.limits = Limits(context_tokens=self._context, concurrency=1, examples=0, writes=False)
        usable = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        self._threads = whole_number("MEMALIGN_LOCAL_THREADS") or min(usable, 8)
        self._server: Any = None  # only touched in the worker thread
        self._prefix_tokens: dict[
            int, int
        ] = {}  # by the hash of the system message; 0: it is not kept
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memalign-local")

    def price_of(self, usage: Usage) -> float | None:  # the protocol's
        """Nobody is paid."""
        return 0.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer in the worker thread, after the calls that came before.

        `request.timeout` (600 s without one) counts from when the model starts on it. A cancelled call stops within 256
        tokens. Raises ModelRejected when the prompt is longer than the context, InvalidOutput when the answer was cut
        twice (the second time with twice the tokens) or does not fit, ModelUnavailable when time is up.
        """
        given_up = threading.Event()
        timeout = request.timeout or _DEFAULT_TIMEOUT

        def work() -> ChatReply:
            if given_up.is_set():
                raise ModelUnavailable(f"{self.name}: the call was cancelled")
            if self._server is None:
                self._server = load(self.path, context_tokens=self._context, threads=self._threads)
            return self._complete(request, lambda body: self._ask(body, timeout, given_up))

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
            cached = answer.usage.cached_tokens
            self._prefix_tokens[hash(request.system)] = cached
            usage += replace(answer.usage, cached_tokens=min(before, cached))
            if not answer.cut:
                # llama.cpp answers freely, without a word, when it cannot make a grammar of a schema.
                data, problem = answer_object(
                    answer.text, request.schema, optional=request.optional
                )
                if data is not None and not problem:
                    return ChatReply(data=data, text=answer.text, usage=usage)
                raise InvalidOutput(
                    f"{self.name} gave no answer that fits the schema: {problem}", usage=usage
                )
            if answer.usage.input_tokens + answer.usage.output_tokens >= self._context:
                raise ModelRejected(
                    f"{self.name}: the prompt of {answer.usage.input_tokens:,} tokens leaves no room for the answer "
                    f"in a context of {self._context:,}; shorten it or raise MEMALIGN_LOCAL_CONTEXT",
                    usage=usage,
                )
        cuts = f"cut at {request.max_tokens} tokens and again at {2 * request.max_tokens}"
        raise InvalidOutput(f"{self.name}: the answer was {cuts}", usage=usage)

    def _read_prefix(self, request: ChatRequest, ask: Ask) -> int:
        """Have the cache hold the shared prefix of `request`; the tokens of it that were in the cache already."""
        tokens = self._prefix_tokens.get(hash(request.system))
        if tokens == 0:
            return 0  # a model whose prompts cannot be cut
        body = _prefix_body(request.system)
        with suppress(PromptTooLong):  # so is the request, whose error says by how much
            if tokens is not None and (cached := ask(body).usage.cached_tokens) >= tokens:
                return cached
            ask(
                {**body, "cache_prompt": False}
            )  # all of it: the rest of a part would be cut somewhere else
        return 0

    def _ask(self, body: dict[str, Any], timeout: float, given_up: threading.Event) -> LocalAnswer:
        answer = LocalAnswer(deadline=time.monotonic() + timeout, given_up=given_up)
        self._server.handle_chat_completions(body, answer.receive)
        if answer.error.get("type") == "exceed_context_size_error":
            raise PromptTooLong(
                f"{self.name}: the prompt has {answer.error.get('n_prompt_tokens', 0):,} tokens, the limit is "
                f"{self._context:,}; shorten it or raise MEMALIGN_LOCAL_CONTEXT"
            )
        if answer.error:
            raise ModelRejected(f"{self.name}: {answer.error.get('message', answer.error)}")
        if answer.stopped:
            why = (
                "the call was cancelled" if given_up.is_set() else f"no answer after {timeout:g} s"
            )
            raise ModelUnavailable(f"{self.name}: {why}")
        return answer


# -- what llama.cpp is asked and answers -------------------------------------------------------------------------------


def load(path: Path, *, context_tokens: int, threads: int) -> Any:
    """llama.cpp's server over the file. Raises ConfigurationError for one that it cannot read."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _BATCH
    params.cache_ram_mib = _CACHE_MIB
    params.warmup = False
    params.verbosity = -1
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = threads
    # It always listens on a port of 127.0.0.1. We never use it; a key that nobody knows keeps other users of the
    # machine, and pages in a browser, from it.
    params.api_keys = [secrets.token_urlsafe(32)]
    params.endpoint_slots = False
    params.ui = False
    params.n_threads_http = 1
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"llama.cpp cannot load {path} ({error}); is it a GGUF file, whole, and is there memory for it? "
            "'memalign models pull' checks the embedded ones and pulls them anew"
        ) from error


@dataclass(kw_only=True)
class LocalAnswer:
    """Collects the pieces of one streamed answer; tells llama.cpp to stop when nobody waits for it any more."""

    deadline: float
    given_up: threading.Event
    text: str = ""
    usage: Usage = Usage(calls=1, cost=0.0)
    cut: bool = False
    stopped: bool = False
    error: dict[str, Any] = field(default_factory=dict)

    def receive(self, chunk: dict[str, Any]) -> bool:
        """Take one piece; True stops the call. Called while the prompt is read, too, after each batch."""
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
                cached_tokens=(counts.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
                output_tokens=counts["completion_tokens"],
                cost=0.0,
            )
            return False  # the last piece: the answer is whole, however late
        self.stopped = self.given_up.is_set() or time.monotonic() > self.deadline
        return self.stopped


def _messages(system: str, user: str) -> list[dict[str, str]]:
    """The two messages, in which nothing is a control token: a space stands inside what would be one."""
    texts = {"system": system, "user": user}
    plain = {role: text.encode("utf-8", "replace").decode() for role, text in texts.items()}
    return [
        {"role": role, "content": _CONTROL.sub(r"\g<0> ", text)} for role, text in plain.items()
    ]


def _prefix_body(system: str) -> dict[str, Any]:
    """Return the request that only reads what requests share, the system message of a judge."""
    return {"messages": _messages(system, _AFTER_PREFIX), "max_tokens": 0, **_STREAMED}


def _chat_body(request: ChatRequest, max_tokens: int) -> dict[str, Any]:
    """The request, its answer held to the schema by a grammar."""
    import xllamacpp

    # Compact JSON: white space is a fifth of the tokens of a short answer. Keys between "x-" are llguidance's.
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    body: dict[str, Any] = {
        "messages": _messages(request.system, request.user),
        "grammar": str(xllamacpp.json_schema_to_grammar({**request.schema, "x-guidance": layout})),
        "max_tokens": max_tokens,
        **_STREAMED,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    return body
