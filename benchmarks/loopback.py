"""A server on this machine that stands for a provider: chat, embeddings and decisions, after a fixed latency.

It answers with what functions of the request say, counts tokens as providers bill them, and nothing leaves the machine.
A token is four bytes of UTF-8, over the response format and all messages. Cached are, as OpenAI bills it, the longest
beginnings in steps of 128 tokens, from 1,024 up, that an answered request had as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["Body", "Loopback", "text_of"]

Body = dict[str, Any]

BYTES_PER_TOKEN = 4
STEP = 128 * BYTES_PER_TOKEN
SMALLEST = 1024 * BYTES_PER_TOKEN


class Loopback:
    """The server, a context manager; it has a thread of its own.

    Args:
        chat: From the body of a chat request to the object that is answered.
        decide: From the body of a System One request to its answers by name.
        latency: Seconds of a chat call or a decision.
        embed_latency: Seconds of a call for embeddings.
    """

    def __init__(
        self,
        chat: Callable[[Body], Body],
        decide: Callable[[Body], Body] | None = None,
        *,
        latency: float = 0.0,
        embed_latency: float = 0.0,
    ) -> None:
        self.chat, self.decide = chat, decide
        self.latency, self.embed_latency = latency, embed_latency
        self._lock = threading.Lock()
        self._cache: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self._server = _Server(self)

    @property
    def base_url(self) -> str:
        """What clients take as the address, `http://127.0.0.1:…/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, *, forget: bool = False) -> Counter[str]:
        """What was asked since the last time; with `forget`, nothing is in the cache from here on.

        Returns:
            Counts of calls, tokens_in, cached, tokens_out, decisions, decision_tokens, texts and embed_tokens.
        """
        with self._lock:
            counts, self._counts = self._counts, Counter()
            if forget:
                self._cache.clear()
        return counts

    def reply(self, path: str, body: Body) -> Body | None:
        """The answer to a POST request, after the latency; None for an unknown path."""
        started = time.perf_counter()
        latency = self.latency
        if path.endswith("/chat/completions"):
            answer, counts, digests = self._completion(body)
        elif path.endswith("/systemone") and self.decide is not None:
            answer, counts, digests = self._decision(self.decide, body)
        elif path.endswith("/embeddings"):
            answer, counts, digests = _embeddings(body)
            latency = self.embed_latency
        else:
            return None
        time.sleep(max(0.0, latency - (time.perf_counter() - started)))
        with self._lock:
            self._cache.update(digests)
            self._counts.update(counts)
        return answer

    def _completion(self, body: Body) -> tuple[Body, Body, list[bytes]]:
        parts = [json.dumps(body.get("response_format") or ""), *map(text_of, body["messages"])]
        prompt = "\n".join(parts).encode("utf-8", "surrogatepass")
        digests = _beginnings(prompt)
        with self._lock:
            steps = next((n for n, digest in enumerate(digests) if digest not in self._cache), len(digests))
        cached = steps * STEP // BYTES_PER_TOKEN if steps * STEP >= SMALLEST else 0
        content = json.dumps(self.chat(body), ensure_ascii=False)
        used = {"prompt_tokens": _tokens(prompt), "completion_tokens": _tokens(content.encode())}
        counts = {
            "calls": 1,
            "tokens_in": used["prompt_tokens"],
            "cached": cached,
            "tokens_out": used["completion_tokens"],
        }
        message = {"role": "assistant", "content": content, "refusal": None}
        usage = {**used, "total_tokens": sum(used.values()), "prompt_tokens_details": {"cached_tokens": cached}}
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": usage,
        }
        return answer, counts, digests

    def _decision(self, decide: Callable[[Body], Body], body: Body) -> tuple[Body, Body, list[bytes]]:
        tokens = _tokens(json.dumps([body["state"], body["questions"]], ensure_ascii=False).encode())
        usage = {"input_tokens": tokens, "output_tokens": len(body["questions"])}
        answer = {"model": body["model"], "answers": decide(body), "usage": usage}
        return answer, {"decisions": 1, "questions": len(body["questions"]), "decision_tokens": tokens}, []


def text_of(message: Body) -> str:
    """A message's text, whether it came whole or in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _tokens(text: bytes) -> int:
    return -(-len(text) // BYTES_PER_TOKEN)


def _beginnings(prompt: bytes) -> list[bytes]:
    """Digests of the prompt's beginnings, a step longer each time."""
    digest, digests = hashlib.sha256(), []
    for end in range(STEP, len(prompt) + 1, STEP):
        digest.update(prompt[end - STEP : end])
        digests.append(digest.digest()[:12])
    return digests


def _embeddings(body: Body) -> tuple[Body, Body, list[bytes]]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    packed = body.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        numbers = _vector(text, body.get("dimensions") or 512)
        embedding = base64.b64encode(numbers.tobytes()).decode() if packed else list(numbers)
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    used = sum(_tokens(text.encode("utf-8", "surrogatepass")) for text in texts)
    usage = {"prompt_tokens": used, "total_tokens": used}
    answer = {"object": "list", "model": body["model"], "data": data, "usage": usage}
    return answer, {"texts": len(texts), "embed_tokens": used}, []


def _vector(text: str, size: int) -> array[float]:
    """Hashed words: texts that share words are near each other."""
    numbers = array("f", bytes(4 * size))
    for word in re.findall(r"\w+", text.lower()):
        draw = zlib.crc32(word.encode())
        for _ in range(4):
            draw = (draw * 1_103_515_245 + 12_345) & 0x7FFFFFFF
            numbers[draw % size] += 1.0 if draw & 0x10000 else -1.0
    length = sum(number * number for number in numbers) ** 0.5 or 1.0
    return array("f", (number / length for number in numbers))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, loopback: Loopback) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.loopback = loopback

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away before its answer came is no event."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer waits 40 ms for the client's acknowledgement
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        """Requests are counted, not logged."""

    def do_POST(self) -> None:  # the base class's name
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        status, reply = 200, self.server.loopback.reply(self.path, body)
        if reply is None:
            status, reply = 404, {"error": {"message": f"nothing at {self.path}", "type": "not_found"}}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
