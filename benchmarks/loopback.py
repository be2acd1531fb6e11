"""A server on this machine that stands for a provider: chat, embeddings and decisions, after a fixed latency.

It answers with what functions of the request say, counts tokens as providers bill them, and nothing leaves the machine.
A token is four bytes of UTF-8, over the response format and all messages; none is counted as cached.
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

DIMENSIONS = 512


class Loopback(ThreadingHTTPServer):
    """The server, a context manager; it has a thread of its own.

    Args:
        chat: From the body of a chat request to the object or the text that is answered.
        decide: From the body of a System One request to its answers by name.
        latency: Seconds of a chat call or a decision; a call for embeddings takes a tenth.
        room: How many calls are answered at a time; others are refused with 429.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        chat: Callable[[Body], Body | str],
        decide: Callable[[Body], Body] | None = None,
        *,
        latency: float = 0.0,
        room: int = 1_000_000,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chat, self.decide, self.latency = chat, decide, latency
        self.room, self._lock = threading.BoundedSemaphore(room), threading.Lock()
        self._counts: Counter[str] = Counter()
        self.base_url = f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away before its answer came is no event."""

    def take(self) -> Counter[str]:
        """What was asked since the last time, by kind."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts

    def reply(self, path: str, body: Body) -> tuple[int, Body]:
        """The status and the answer of a POST request, after the latency."""
        started, embeds = time.perf_counter(), path.endswith("/embeddings")
        if not self.room.acquire(blocking=False):
            with self._lock:
                self._counts["refused"] += 1
            return 429, {"error": {"message": "Too many requests", "code": "rate_limit"}}
        chats = path.endswith("/chat/completions")
        answer, counts = (_embeddings if embeds else self._completion if chats else self._decision)(
            body
        )
        time.sleep(max(0.0, self.latency / (10 if embeds else 1) - (time.perf_counter() - started)))
        self.room.release()
        with self._lock:
            self._counts.update(counts)
        return 200, answer

    def _completion(self, body: Body) -> tuple[Body, Body]:
        prompt = "\n".join(
            [json.dumps(body.get("response_format") or ""), *map(text_of, body["messages"])]
        )
        reply = self.chat(body)
        content = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        read, written = _tokens(prompt), _tokens(content)
        message = {"role": "assistant", "content": content, "refusal": None}
        answer = {
            **{
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1_700_000_000,
                "model": body["model"],
            },
            "choices": [
                {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            ],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
            },
        }
        return answer, {"calls": 1, "tokens_in": read, "tokens_out": written}

    def _decision(self, body: Body) -> tuple[Body, Body]:
        assert self.decide is not None
        tokens = _tokens(json.dumps([body["state"], body["questions"]], ensure_ascii=False))
        usage = {"input_tokens": tokens, "output_tokens": len(body["questions"])}
        answer = {"model": body["model"], "answers": self.decide(body), "usage": usage}
        return answer, {"decisions": 1, "decision_tokens": tokens}


def text_of(message: Body) -> str:
    """A message's text, whether it came whole or in parts."""
    content = message.get("content") or ""
    return (
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    )


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def _embeddings(body: Body) -> tuple[Body, Body]:
    """A text is the sum of its words, each a fixed direction: texts that share words are near each other."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = []
    for index, text in enumerate(texts):
        vector = sum(
            map(_direction, re.findall(r"\w+", text.lower())), np.full(DIMENSIONS, 1e-6, "float32")
        )
        vector /= np.linalg.norm(vector)
        packed = base64.b64encode(vector.tobytes()).decode()
        embedding = packed if body.get("encoding_format") == "base64" else vector.tolist()
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    used = sum(map(_tokens, texts))
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}, {
        "embed_tokens": used
    }


@cache
def _direction(word: str) -> Any:
    return np.array(random.Random(word).choices((-1.0, 1.0), k=DIMENSIONS), "float32")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer waits 40 ms for the client's acknowledgement
    wbufsize = -1
    server: Loopback

    def log_message(self, format: str, *args: object) -> None:  # the base class's name
        """Requests are counted, not logged."""

    def do_POST(self) -> None:  # the base class's name
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        status, reply = self.server.reply(self.path, body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status != 200:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(data)
