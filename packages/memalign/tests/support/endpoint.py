"""A real OpenAI-compatible server on loopback, that misbehaves on request.

    with Endpoint(answer={"rationale": "Polite.", "value": True}) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        ...
        assert len(endpoint.requests) == 1

`answer` is what the model says: an object (sent as JSON text), a text (sent as it is), a Fault,
or a function of the request's body that gives one of these. `faults` come first, one for each
request; None in their place is a good answer.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.patience import PATIENCE

DIMENSIONS = 32


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to misbehave; the names below are the usual ones."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: object = None
    """What is sent instead of an answer, with any status; a text is sent as it is."""
    content: str | None = None
    reasoning: str | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    silence: float | None = None
    """Seconds after which the connection ends without an answer."""


HANG = Fault(silence=PATIENCE)
CLOSED = Fault(silence=0)
REFUSAL = Fault(refusal="I can't help with that.")
CONTENT_FILTER = Fault(content="", finish_reason="content_filter")


def bad_request(
    message: str, code: str = "invalid_request_error", *, status: int = 400
) -> Fault:
    return Fault(
        status=status,
        body={"error": {"message": message, "type": code, "code": code, "param": None}},
    )


def rate_limited(
    retry_after: str | float | None = None, *, code: str = "rate_limit_exceeded"
) -> Fault:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return replace(bad_request("Rate limit reached", code, status=429), headers=headers)


def server_error(status: int = 500) -> Fault:
    return bad_request("The server had an error", "server_error", status=status)


def cut(text: str = '{"rationale": "It is pol') -> Fault:
    return Fault(content=text, finish_reason="length")


def says(text: str) -> Fault:
    return Fault(content=text)


Body = dict[str, Any]
Answer = Body | str | Fault


class Endpoint(ThreadingHTTPServer):
    """The server; a context manager. `latency` is in seconds for each answer.

    Requests to /v1/systemone and /v1/decisions are answered with the object that `answer`
    gives, as it is (decision_servers.py).
    """

    request_queue_size = 128

    def __init__(
        self,
        answer: Answer | Callable[[Body], Answer] | None = None,
        *,
        faults: Iterable[Fault | None] = (),
        latency: float = 0.0,
    ) -> None:
        usual = {"rationale": "Because.", "value": True}
        self.answer = usual if answer is None else answer
        self.faults = list(faults)
        self.latency = latency
        self.requests: list[Body] = []
        """Bodies of the chat requests, in the order in which they came."""
        self.embedding_requests: list[Body] = []
        self.paths: list[str] = []
        """Paths of the POST requests, with their queries."""
        self.bodies: list[Body] = []
        """Bodies of the POST requests."""
        self.headers: list[dict[str, str]] = []
        """Headers of all requests, names in lower case."""
        self.times: list[float] = []
        """When each request came, in seconds of a monotonic clock."""
        self.max_in_flight = 0
        self.in_flight = 0
        self._prompts: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is part of the tests, not worth a traceback."""

    def _take(self, body: Body) -> Answer:
        with self._lock:
            fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            return fault
        return self.answer(body) if callable(self.answer) else self.answer

    def _cached(self, prompt: str) -> int:
        """Tokens of a prompt that came before."""
        cached = len(prompt) // 4 if prompt in self._prompts else 0
        self._prompts.add(prompt)
        return cached


def system_of(body: Body) -> str:
    return _said_by(body, "system", "developer")


def user_of(body: Body) -> str:
    return _said_by(body, "user")


def _said_by(body: Body, *roles: str) -> str:
    messages = body.get("messages", ())
    return "\n".join(_content(each) for each in messages if each["role"] in roles)


def _content(message: Body) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def vector_of(text: str) -> list[float]:
    """A deterministic vector of any length but one: callers must normalise it themselves."""
    digest = hashlib.shake_256(text.encode()).digest(4 * DIMENSIONS)
    return [number / 2**31 - 1 for number in struct.unpack(f"<{DIMENSIONS}I", digest)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as providers do
    # Else an answer waits 40 ms for the client's acknowledgement.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Endpoint

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        pass

    def do_POST(self) -> None:
        endpoint = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        embedding = self.path.partition("?")[0].endswith("/embeddings")
        self._note(body, embedding=embedding)
        try:
            answer = endpoint._take(body)
            endpoint._stopped.wait(endpoint.latency)
            if isinstance(answer, Fault) and answer.silence is not None:
                self._be_silent(answer.silence)
                return
            status, headers, reply = self._reply(body, answer, embedding=embedding)
        finally:
            # Before the answer goes out: its reader may send the next request at once.
            with endpoint._lock:
                endpoint.in_flight -= 1
        data = (reply if isinstance(reply, str) else json.dumps(reply)).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json"} | headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _note(self, body: Body, *, embedding: bool) -> None:
        endpoint = self.server
        with endpoint._lock:
            endpoint.in_flight += 1
            endpoint.max_in_flight = max(endpoint.max_in_flight, endpoint.in_flight)
            endpoint.times.append(time.monotonic())
            endpoint.paths.append(self.path)
            endpoint.bodies.append(body)
            endpoint.headers.append(
                {name.lower(): value for name, value in self.headers.items()}
            )
            asked = endpoint.embedding_requests if embedding else endpoint.requests
            asked.append(body)

    def _be_silent(self, seconds: float) -> None:
        self.server._stopped.wait(seconds)
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _reply(
        self, body: Body, answer: Any, *, embedding: bool
    ) -> tuple[int, dict[str, str], Any]:
        """Return the status, the headers and the body of a response."""
        fault = answer if isinstance(answer, Fault) else Fault()
        if fault.status >= 400 or fault.body is not None:
            return fault.status, fault.headers, fault.body
        if embedding:
            return 200, {}, _embeddings(body)
        if self.path.endswith(("/systemone", "/decisions")):
            return 200, {}, answer
        return 200, {}, _completion(self.server, body, answer)


def _completion(endpoint: Endpoint, body: Body, answer: Answer) -> Body:
    if isinstance(answer, dict):
        answer = json.dumps(answer)
    fault = says(answer) if isinstance(answer, str) else answer
    content = fault.content
    message: Body = {"role": "assistant", "content": content, "refusal": fault.refusal}
    if fault.reasoning is not None:
        message["reasoning_content"] = fault.reasoning
    prompt = "\n".join(
        _content(each) for each in body["messages"] if each.get("content")
    )
    read = len(prompt) // 4
    written = len(content or "") // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [
            {"index": 0, "message": message, "finish_reason": fault.finish_reason}
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": endpoint._cached(prompt)},
        },
    }


def _embeddings(body: Body) -> Body:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data: list[Body] = []
    tokens = 0
    for n, text in enumerate(texts):
        vector = vector_of(text)
        data.append({"object": "embedding", "index": n, "embedding": vector})
        tokens += len(text) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}
