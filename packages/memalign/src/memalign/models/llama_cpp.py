"""What llama.cpp is asked and answers: loading a file, requests, grammars, and the pieces of a streamed answer."""

from __future__ import annotations

import math
import re
import secrets
import threading
import time
from pathlib import Path
from typing import Any

from memalign.errors import ConfigurationError
from memalign.models.base import ChatRequest
from memalign.types import Usage

__all__ = ["Answer", "chat_body", "library", "load", "prefix_body", "question_body"]

_CACHE_MIB = 512  # some 18,000 tokens of the 1.5B's prompts
_BATCH = 256  # tokens between two looks at whether the caller still waits
_SPELLINGS = 100  # alternatives among which every spelling of yes and no is looked for
_MOST_MARGIN = 15.0

_STREAMED = {"cache_prompt": True, "stream": True, "stream_options": {"include_usage": True}, "return_progress": True}

# What is read behind a shared prefix: a control picture, which no message begins with.
_AFTER_PREFIX = "\u241e"

# What chat templates are made of. In judged text these words must stay words: tokenizers read them as control tokens
# wherever they stand, and a judged answer could end its own message and go on as the judge.
_CONTROL = re.compile(r"<(?=[|\uff5c])|<(?=/?s>|(?:start|end)_of_turn>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])")


def library() -> Any:
    """The module xllamacpp. Raises ConfigurationError where it is not installed."""
    try:
        import xllamacpp
    except ImportError as error:
        raise ConfigurationError(
            f"the embedded model needs xllamacpp ({error}): pip install xllamacpp, or name a provider's model"
        ) from error
    return xllamacpp


def load(path: Path, *, context_tokens: int, threads: int) -> Any:
    """llama.cpp's server over the file. Raises ConfigurationError for one that it cannot read."""
    xllamacpp = library()
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


class Answer:
    """Collects the pieces of one streamed answer; tells llama.cpp to stop when nobody waits for it any more."""

    def __init__(self, *, deadline: float, given_up: threading.Event) -> None:
        self._deadline = deadline
        self._given_up = given_up
        self._pieces: list[str] = []
        self._tokens: list[dict[str, Any]] = []
        self.usage = Usage(calls=1)
        self.cut = False
        self.stopped = False
        self.error: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """What has come of it."""
        return "".join(self._pieces)

    def margin(self) -> float:
        """Log p(yes)/p(no) of its first token, in nats, in [-15, 15]: all spellings of each added up.

        A side without a spelling among the alternatives is as probable as the least of them, which bounds it from
        above.
        """
        token: dict[str, Any] = self._tokens[0] if self._tokens else {"token": "", "logprob": 0.0}
        logs = {str(each["token"]): float(each["logprob"]) for each in (*(token.get("top_logprobs") or ()), token)}
        spellings = [(text.strip(" \t\r\n\"'`*_.,:;!").lower(), math.exp(p)) for text, p in logs.items() if p > -100]
        least = min((p for _, p in spellings), default=1.0)
        yes, no = (sum(p for text, p in spellings if text == word) or least for word in ("yes", "no"))
        return max(-_MOST_MARGIN, min(_MOST_MARGIN, math.log(yes / no)))

    def receive(self, chunk: dict[str, Any]) -> bool:
        """Take one piece; True stops the call. Called while the prompt is read, too, after each batch."""
        if "error" in chunk:
            self.error = dict(chunk["error"])
            return False
        for choice in chunk.get("choices", ()):
            self._pieces.append(choice.get("delta", {}).get("content") or "")
            self._tokens += (choice.get("logprobs") or {}).get("content") or ()
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
        self.stopped = self._given_up.is_set() or time.monotonic() > self._deadline
        return self.stopped


def _messages(system: str, user: str) -> list[dict[str, str]]:
    """The two messages, in which nothing is a control token: a space stands inside what would be one."""
    texts = (
        _CONTROL.sub(lambda match: f"{match[0]} ", text.encode("utf-8", "replace").decode()) for text in (system, user)
    )
    return [{"role": role, "content": text} for role, text in zip(("system", "user"), texts, strict=True)]


def prefix_body(system: str, item: str = "") -> dict[str, Any]:
    """Nothing but reading what requests share: the system message of a judge, or with it the item of all questions."""
    user = f"{item}\n{_AFTER_PREFIX}" if item else _AFTER_PREFIX
    return {"messages": _messages(system, user), "max_tokens": 0, **_STREAMED}


def question_body(system: str, item: str, question: str) -> dict[str, Any]:
    """One question about an item, answered by one token whose alternatives are told."""
    return {
        "messages": _messages(system, f"{item}\n{question}"),
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": _SPELLINGS,
        **_STREAMED,
    }


def chat_body(request: ChatRequest, max_tokens: int) -> dict[str, Any]:
    """The request, its answer held to the schema by a grammar."""
    # Compact JSON: white space is a fifth of the tokens of a short answer. Keys between "x-" are llguidance's.
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    body: dict[str, Any] = {
        "messages": _messages(request.system, request.user),
        "grammar": str(library().json_schema_to_grammar({**request.schema, "x-guidance": layout})),
        "max_tokens": max_tokens,
        **_STREAMED,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    return body
