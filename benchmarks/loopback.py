"""A server on this machine that stands for a provider: chat, embeddings and decisions.

It answers after a fixed latency with what functions of the request say, counts tokens as providers
bill them, and nothing leaves the machine. A token is four bytes of UTF-8, over the response format
and all messages; none is counted as cached.
"""

from __future__ import annotations

import base64
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np

Body = dict[str, Any]
Counts = dict[str, int]
Reply = tuple[Body, Counts]
"""An answer, and what it adds to the counts."""

DIMENSIONS = 512


class Loopback(ThreadingHTTPServer):
    """The server, a context manager; it has a thread of its own.

    Args:
        chat: From the body of a chat request to the object or the text that is answered.
        decide: From the body of a System One request to its answers by name.
        latency: Seconds of a chat call or a decision; a call for embeddings takes a tenth.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        chat: Callable[[Body], Body | str],
        decide: Callable[[Body], Body] | None = None,
        *,
        latency: float = 0.0,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chat = chat
        self.decide = decide
        self.latency = latency
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away before its answer came."""

    def take(self) -> Counter[str]:
        """Return what was asked since the last time, by kind."""
        with self._lock:
            counts = self._counts
            self._counts = Counter()
        return counts

    def reply(self, path: str, body: Body) -> Body:
        """Return the answer to a POST request, after the latency."""
        started = time.perf_counter()
        seconds = self.latency
        if path.endswith("/embeddings"):
            seconds /= 10
            answer, counts = _embeddings(body)
        elif path.endswith("/chat/completions"):
            answer, counts = self._completion(body)
        else:
            answer, counts = self._decision(body)
        waited = time.perf_counter() - started
        time.sleep(max(0.0, seconds - waited))
        with self._lock:
            self._counts.update(counts)
        return answer

    def _completion(self, body: Body) -> Reply:
        form = body.get("response_format") or ""
        texts = [json.dumps(form)]
        for message in body["messages"]:
            texts.append(text_of(message))
        content = self.chat(body)
        if not isinstance(content, str):
            content = json.dumps(content, ensure_ascii=False)
        read = _tokens("\n".join(texts))
        written = _tokens(content)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [choice],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
            },
        }
        return answer, {"calls": 1, "tokens_in": read, "tokens_out": written}

    def _decision(self, body: Body) -> Reply:
        assert self.decide is not None
        asked = [body["state"], body["questions"]]
        text = json.dumps(asked, ensure_ascii=False)
        tokens = _tokens(text)
        answer = {
            "model": body["model"],
            "answers": self.decide(body),
            "usage": {"input_tokens": tokens, "output_tokens": len(body["questions"])},
        }
        return answer, {"decisions": 1, "decision_tokens": tokens}


def text_of(message: Body) -> str:
    """Return a message's text, whether it came whole or in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    texts = [part.get("text", "") for part in content]
    return "".join(texts)


def _tokens(text: str) -> int:
    size = len(text.encode("utf-8", "surrogatepass"))
    return -(-size // 4)


def _embeddings(body: Body) -> Reply:
    texts = body["input"]
    if isinstance(texts, str):
        texts = [texts]
    data = []
    used = 0
    for index, text in enumerate(texts):
        used += _tokens(text)
        vector = _vector(text)
        embedding: Any = vector.tolist()
        if body.get("encoding_format") == "base64":
            embedding = base64.b64encode(vector.tobytes()).decode()
        entry = {"object": "embedding", "index": index, "embedding": embedding}
        data.append(entry)
    answer = {
        "object": "list",
        "model": body["model"],
        "data": data,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }
    return answer, {"embed_tokens": used}


def _vector(text: str) -> Any:
    """Return the sum of a text's words, so that texts with the same words are near each other."""
    vector = np.full(DIMENSIONS, 1e-6, "float32")
    for word in re.findall(r"\w+", text.lower()):
        vector += _direction(word)
    return vector / np.linalg.norm(vector)


@cache
def _direction(word: str) -> Any:
    rng = random.Random(word)
    signs = rng.choices((-1.0, 1.0), k=DIMENSIONS)
    return np.array(signs, "float32")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Otherwise an answer waits 40 ms for the client's acknowledgement."""
    wbufsize = -1
    server: Loopback

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        """Log nothing: requests are counted."""

    def do_POST(self) -> None:  # the base class's name
        size = self.headers.get("Content-Length", 0)
        sent = self.rfile.read(int(size))
        body = json.loads(sent or b"{}")
        reply = self.server.reply(self.path, body)
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
