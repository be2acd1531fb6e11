"""The embedded model: a GGUF file run in this process by llama.cpp, through xllamacpp. No network, no key, no cost.

One worker thread a model makes one call at a time: two calls at once would only share the same cores. llama.cpp keeps
the processed prompts of former calls in memory (`cache_ram_mib`), so that judging and distilling, whose system messages
differ, both find their prefix again when they take turns. Measured with the 0.5B on two cores, two prefixes of 290 and
430 tokens in turn: 2.7 and 4.0 s a call without, 0.4 and 0.6 s with it; two slots instead do the same for two prefixes
and lose both when a third comes.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from memalign.errors import ConfigurationError, InvalidOutput, ModelError, ModelRejected, ModelUnavailable
from memalign.models.answers import parse_answer
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.gguf import closed, locate, physical_cores, whole_number, words_only
from memalign.models.probabilities import ALTERNATIVES, label_probabilities, read_tokens
from memalign.models.provider_errors import PromptTooLong
from memalign.models.shared_prefix import MARK, SharedPrefixes
from memalign.types import Usage

__all__ = ["LocalChatModel"]

_DEFAULT_CONTEXT = 8192
_DEFAULT_TIMEOUT = 600.0
_RAW_TIMEOUT = 3600.0  # a raw answer may be as long as the context
_CACHE_MIB = 512  # some 18,000 tokens of the 1.5B's prompts
_BATCH = 256  # tokens between two looks at whether the caller still waits

_STREAMED = {
    "cache_prompt": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_progress": True,
}
_SAMPLING = ("temperature", "top_p", "seed", "stop", "frequency_penalty", "presence_penalty")


class LocalChatModel:
    """A ChatModel over a GGUF file. Use `LocalChatModel.open`, which gives one object a file.

    The file is read at the first call. Answers are constrained by a grammar of the request's schema, written without
    needless white space. Usage counts tokens and cached tokens; cost is 0.0, for nobody is paid.
    """

    _open: ClassVar[dict[Path, LocalChatModel]] = {}
    _open_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str, path: Path, *, context_tokens: int, threads: int) -> None:
        self._name = name
        self._path = path
        self._context = context_tokens
        self._threads = threads
        self._server: Any = None  # only touched in the worker thread, as what is known of its cache
        self._prefixes = SharedPrefixes()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memalign-local")

    @classmethod
    def open(cls, name: str) -> LocalChatModel:
        """The embedded model `name` (a name of the catalogue or the path of a .gguf file; `local:` may stand before).

        Raises ConfigurationError for an unknown name, and for a file that is not there or not whole, with the command
        that pulls it. Context size is `MEMALIGN_LOCAL_CONTEXT` (8192 tokens), threads `MEMALIGN_LOCAL_THREADS` (the
        physical cores that this process may use, at most 8); both are read when a model is first opened.
        """
        full_name, path = locate(name, engine="local")
        with cls._open_lock:
            model = cls._open.get(path)
            if model is None:
                context = whole_number("MEMALIGN_LOCAL_CONTEXT", _DEFAULT_CONTEXT, least=256)
                threads = whole_number("MEMALIGN_LOCAL_THREADS", min(physical_cores(), 8), least=1)
                model = cls._open[path] = cls(full_name, path, context_tokens=context, threads=threads)
            return model

    @property
    def name(self) -> str:
        """`local:` and the catalogue's name, or the path of the file."""
        return self._name

    @property
    def limits(self) -> Limits:
        """Its context, and that it is weak and slow: one record a distillation, one call at a time, brief answers."""
        return Limits(
            context_tokens=self._context, shard_size=1, concurrency=1, examples=3, brief=True, probabilities=True
        )

    @property
    def engine(self) -> str:
        """What computes its answers: the version, the instructions compiled for, how prompts are cut.

        Two may differ in a verdict.

        Raises ConfigurationError without xllamacpp.
        """
        llama = _llama()
        found = (
            part.split("=")[0].rpartition(":")[2].strip()
            for part in llama.get_system_info().split("|")
            if "= 1" in part
        )
        return f"xllamacpp {llama.__version__} ({', '.join(found)}), head apart"

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer in the worker thread, after the calls that came before.

        `request.timeout` (600 s without one) counts from when the model starts on it. A cancelled call stops within
        256 tokens. Raises ModelRejected when the prompt is longer than the context, InvalidOutput when the answer was
        cut twice (the second time with twice the tokens) or does not fit, ModelUnavailable when time is up.
        """
        given_up = threading.Event()
        future = self._worker.submit(self._complete, request, given_up)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            given_up.set()
            raise

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """An OpenAI chat completion: the request's `body` in, the response out, in turn with the other calls.

        Several messages, free text, `response_format`, `n`, `stop`, `seed` and sampling are taken; tools and streams are
        not. `seconds` in the response is the model's own time. Errors are those of `complete`; an answer that was cut
        comes back with the finish reason "length".
        """
        given_up = threading.Event()
        future = self._worker.submit(self._raw, body, given_up)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            given_up.set()
            raise

    def close(self) -> None:
        """Wait for the call in flight and free the memory; the next call loads the file again.

        The next `open` of the file gives another object, with the settings of then.
        """
        self._worker.submit(self._unload).result()
        with self._open_lock:
            if self._open.get(self._path) is self:
                del self._open[self._path]

    def _unload(self) -> None:
        self._server = None
        self._prefixes = SharedPrefixes()

    def _ready(self, given_up: threading.Event) -> None:
        if given_up.is_set():
            raise ModelUnavailable(f"{self._name}: the call was cancelled")
        if self._server is None:
            self._server = _load(self._path, context_tokens=self._context, threads=self._threads)

    def _complete(self, request: ChatRequest, given_up: threading.Event) -> ChatReply:
        self._ready(given_up)
        usage = Usage()
        started = time.monotonic()
        cached = self._read_prefix(request, started, given_up)
        for max_tokens in (request.max_tokens, 2 * request.max_tokens):
            answer = self._ask(_body(request, max_tokens), request.timeout, given_up, started)
            self._prefixes.read(request, answer.usage, prefix_apart=cached is not None)
            known = answer.usage.cached_tokens if cached is None else min(cached, answer.usage.cached_tokens)
            usage += replace(answer.usage, cached_tokens=known)
            started, cached = time.monotonic(), None
            if not answer.cut:
                return ChatReply(
                    data=self._data(answer.text, request, usage),
                    text=answer.text,
                    usage=usage,
                    probabilities=answer.probabilities(request.labels),
                )
            if answer.usage.input_tokens + answer.usage.output_tokens >= self._context:
                raise ModelRejected(
                    f"{self._name}: the prompt of {answer.usage.input_tokens:,} tokens leaves no room for the answer in "
                    f"a context of {self._context:,}; shorten it or raise MEMALIGN_LOCAL_CONTEXT",
                    usage=usage,
                )
        raise InvalidOutput(
            f"{self._name}: the answer was cut at {request.max_tokens} tokens and again at {2 * request.max_tokens}",
            usage=usage,
        )

    def _read_prefix(self, request: ChatRequest, started: float, given_up: threading.Event) -> int | None:
        """Have the cache hold the head of `request`, see `prefix`; how much of it was there, None where that is no use."""
        goes_on, look = self._prefixes.goes_on(request), self._prefixes.may_be_cached(request)
        self._prefixes.lose()
        if goes_on or self._prefixes.never_kept(request):
            return None
        body = {"messages": [_system(request), {"role": "user", "content": MARK}], "max_tokens": 0, **_STREAMED}
        try:
            if look:
                found = self._ask(body, request.timeout, given_up, started).usage.cached_tokens
                if self._prefixes.is_whole(request, found):
                    return found
            self._ask({**body, "cache_prompt": False}, request.timeout, given_up, started)
        except PromptTooLong:
            pass  # so is the request, whose error says by how much
        return 0

    def _raw(self, body: dict[str, Any], given_up: threading.Event) -> dict[str, Any]:
        self._ready(given_up)
        self._prefixes.lose()
        started = time.perf_counter()
        answers = []
        for number in range(body.get("n") or 1):
            asked = _raw_body(body)
            if "seed" in asked:
                asked["seed"] += number  # else every choice would be the same
            answers.append(self._ask(asked, _RAW_TIMEOUT, given_up, time.monotonic()))
        usage = sum((answer.usage for answer in answers), Usage())
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", self._name),
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": answer.text},
                    "finish_reason": "length" if answer.cut else "stop",
                }
                for index, answer in enumerate(answers)
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
            },
            "seconds": time.perf_counter() - started,
        }

    def _ask(self, body: dict[str, Any], timeout: float | None, given_up: threading.Event, started: float) -> _Answer:
        timeout = _DEFAULT_TIMEOUT if timeout is None else timeout
        answer = _Answer(deadline=started + timeout, given_up=given_up)
        self._server.handle_chat_completions(body, answer.receive)
        if answer.error:
            raise self._rejection(answer.error)
        if answer.stopped:
            why = "the call was cancelled" if given_up.is_set() else f"no answer after {timeout:g} s"
            raise ModelUnavailable(f"{self._name}: {why}")
        return answer

    def _rejection(self, error: dict[str, Any]) -> ModelError:
        if error.get("type") == "exceed_context_size_error":
            return PromptTooLong(
                f"{self._name}: the prompt has {error.get('n_prompt_tokens', 0):,} tokens, the limit is "
                f"{error.get('n_ctx', self._context):,}; shorten it or raise MEMALIGN_LOCAL_CONTEXT"
            )
        message = f"{self._name}: {error.get('message', error)}"
        return ModelRejected(message) if error.get("code") == 400 else ModelUnavailable(message)

    def _data(self, text: str, request: ChatRequest, usage: Usage) -> dict[str, Any]:
        # llama.cpp answers freely, without a word, when it cannot make a grammar of a schema.
        try:
            return parse_answer(text, request.schema)
        except InvalidOutput as error:
            raise InvalidOutput(f"{self._name}: {error}", usage=usage) from error


class _Answer:
    """Collects the pieces of one streamed answer; tells llama.cpp to stop when nobody waits for it any more."""

    def __init__(self, *, deadline: float, given_up: threading.Event) -> None:
        self._deadline = deadline
        self._given_up = given_up
        self._pieces: list[str] = []
        self._weighed: list[dict[str, Any]] = []
        self.usage = Usage(calls=1)
        self.cut = False
        self.stopped = False
        self.error: dict[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def probabilities(self, labels: tuple[str, ...]) -> dict[str, float] | None:
        return label_probabilities(read_tokens(self._weighed), labels) if labels and self._weighed else None

    def receive(self, chunk: dict[str, Any]) -> bool:
        """Take one piece; True stops the call. Called while the prompt is read, too, after each batch."""
        if "error" in chunk:
            self.error = dict(chunk["error"])
            return False
        for choice in chunk.get("choices", ()):
            self._pieces.append(choice.get("delta", {}).get("content") or "")
            self._weighed += (choice.get("logprobs") or {}).get("content") or ()
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


def _system(request: ChatRequest) -> dict[str, str]:
    return {"role": "system", "content": words_only(request.system)}


def _body(request: ChatRequest, max_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [_system(request), {"role": "user", "content": words_only(request.user)}],
        "grammar": _grammar(request.schema),
        "max_tokens": max_tokens,
        **_STREAMED,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.seed is not None:
        body["seed"] = request.seed
    if request.labels:
        body |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
    return body


def _raw_body(body: dict[str, Any]) -> dict[str, Any]:
    """What llama.cpp is asked for an OpenAI request: only the fields that we know, and no control token in a text."""
    if body.get("tools") or body.get("stream"):
        raise ModelRejected(f"the embedded model serves no {'tools' if body.get('tools') else 'streams'} here")
    asked = {name: body[name] for name in _SAMPLING if body.get(name) is not None}
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    asked |= _STREAMED | ({"max_tokens": limit} if limit else {})
    asked["messages"] = [{**each, "content": _content_words(each.get("content"))} for each in body["messages"]]
    shape = body.get("response_format") or {}
    if shape.get("type") == "json_schema":
        asked["grammar"] = _grammar(shape["json_schema"]["schema"])
    elif shape.get("type") == "json_object":
        asked["grammar"] = _grammar({"type": "object"})
    return asked


def _content_words(content: Any) -> Any:
    if isinstance(content, list):
        return "".join(words_only(part.get("text", "")) for part in content)
    return words_only(content or "")


def _grammar(schema: dict[str, Any]) -> str:
    import xllamacpp

    # Compact JSON: white space is a fifth of the tokens of a short answer. Keys between "x-" are llguidance's.
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return str(xllamacpp.json_schema_to_grammar({**closed(schema), "x-guidance": layout}))


def _llama() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise ConfigurationError(
            f"the embedded model needs xllamacpp ({error}): pip install xllamacpp, or name a provider's model"
        ) from error
    return xllamacpp


def _load(path: Path, *, context_tokens: int, threads: int) -> Any:
    xllamacpp = _llama()
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
