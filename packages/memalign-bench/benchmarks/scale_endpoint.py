"""An OpenAI-compatible server on this machine that answers memalign and MLflow's MemAlign after a fixed latency.

    python benchmarks/scale_endpoint.py --latency 1 --embed-latency 0.1

Its first line of output is its base URL. Calls wait side by side, each in a thread, so concurrency pays. What it answers
depends on the request alone: a judge gets a rationale and a verdict; whoever distils gets one guideline for every five
pieces of feedback, so that both sides learn as much from the same rows. Standard library only.

Counting is the same for everybody: a token is four bytes of UTF-8, over the response format and all messages (providers
count the schema too). Cached are, as OpenAI bills it, the longest beginnings in steps of 128 tokens, from 1,024 up,
that an answered request had as well. POST /take gives the counts and begins anew; `{"forget": true}` empties the cache.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import threading
import time
import zlib
from array import array
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BYTES_PER_TOKEN = 4
STEP = 128 * BYTES_PER_TOKEN
SMALLEST = 1024 * BYTES_PER_TOKEN
FEEDBACK_PER_GUIDELINE = 5
DIMENSIONS = 512

TOPICS = [
    "a refund",
    "a late parcel",
    "a broken device",
    "a lost password",
    "a double charge",
    "an address change",
    "a cancelled plan",
    "a missing part",
    "an export of data",
    "a privacy question",
    "a wrong size",
    "an expired voucher",
    "a warranty claim",
    "a locked account",
    "a price increase",
    "a delivery slot",
    "an invoice",
    "a software update",
    "a trial period",
    "a complaint",
]
DEMANDS = [
    "name the next step and who takes it",
    "say when the customer hears from us again",
    "apologise before explaining",
    "answer the question that was asked first",
    "give the exact amount or date",
    "link the form that is needed",
    "promise nothing that depends on others",
    "explain the reason in one plain sentence",
    "offer a choice between two ways",
    "confirm what was understood",
    "avoid words from our own systems",
    "leave out what the customer knows already",
]
EXCEPTIONS = [
    "the customer has asked for a call",
    "the case is already closed",
    "the amount is below one euro",
    "a colleague answered before",
    "the law fixes the wording",
    "the customer writes for somebody else",
    "the order was never paid",
    "it is the second reply",
]


class Answers:
    """What a chat model would say, by the form that the request asks for."""

    def to(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to `body`. Raises ValueError for a form that neither side is known to ask for."""
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        names = set(schema.get("properties", {}))
        prompt = "\n".join(text_of(message) for message in body["messages"])
        if "changes" in names:
            item = schema["properties"]["changes"]["items"]["properties"]
            return {"changes": self._changes(item["feedback"]["items"]["enum"], prompt)}
        if "guidelines" in names:
            asked = prompt.partition("user judgement examples:")[2]
            numbers = [int(number) for number in re.findall(r'^  "id": (\d+),', asked, re.MULTILINE)]
            return {"guidelines": self._guidelines(numbers, prompt)}
        verdict = next((name for name in ("value", "result") if name in names), None)
        if verdict is None:
            raise ValueError(f"no answer is written for properties {sorted(names)}")
        draw = zlib.crc32(text_of(body["messages"][-1]).encode())
        why = f"The reply has to {DEMANDS[draw % len(DEMANDS)]}, and how it does that decides; its tone is fitting."
        answer: dict[str, Any] = {"rationale": why, verdict: draw % 10 < 6}
        if "checks" in names:
            asked = schema["properties"]["checks"]["properties"]
            answer["checks"] = {name: ("yes", "no", "n/a")[(draw >> place) % 3] for place, name in enumerate(asked)}
        return {name: answer[name] for name in schema["properties"] if name in answer}

    def _changes(self, labels: list[str], prompt: str) -> list[dict[str, Any]]:
        return [
            {
                "action": "ADD",
                "feedback": group,
                "text": rule(prompt, number),
                "guideline": "",
                "checks": [{"question": question, "answer": "yes"} for question in checks(prompt, number)],
            }
            for number, group in enumerate(_groups(labels))
        ]

    def _guidelines(self, numbers: list[int], prompt: str) -> list[dict[str, Any]]:
        return [
            {"guideline_text": rule(prompt, number), "source_trace_ids": group}
            for number, group in enumerate(_groups(numbers))
        ]


def _groups(items: list[Any]) -> list[list[Any]]:
    size = FEEDBACK_PER_GUIDELINE
    return [items[start : start + size] for start in range(0, len(items), size)]


def rule(prompt: str, number: int) -> str:
    """A guideline of about 25 words, the same for the same prompt and number, and rarely the same for others."""
    draw = zlib.crc32(f"{number}\0{prompt}".encode())
    topic = TOPICS[draw % 20]
    demand, other = DEMANDS[draw // 20 % 12], DEMANDS[draw // 240 % 12]
    exception = EXCEPTIONS[draw // 2880 % 8]
    return f"When the query is about {topic}, a helpful reply must {demand} and {other}, unless {exception}."


def checks(prompt: str, number: int) -> list[str]:
    """Two questions that the guideline rests on."""
    draw = zlib.crc32(f"{number}\0{prompt}".encode())
    return [f"Is the query about {TOPICS[draw % 20]}?", f"Does the reply {DEMANDS[draw // 20 % 12]}?"]


def text_of(message: dict[str, Any]) -> str:
    """A message's text, whether it came whole or in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def tokens(text: bytes) -> int:
    """How many tokens `text` counts as."""
    return -(-len(text) // BYTES_PER_TOKEN)


def vector(text: str, size: int) -> array[float]:
    """Hashed words: texts that share words are near each other."""
    numbers = array("f", bytes(4 * size))
    for word in re.findall(r"\w+", text.lower()):
        draw = zlib.crc32(word.encode())
        for _ in range(4):
            draw = (draw * 1_103_515_245 + 12_345) & 0x7FFFFFFF
            numbers[draw % size] += 1.0 if draw & 0x10000 else -1.0
    length = sum(number * number for number in numbers) ** 0.5 or 1.0
    return array("f", (number / length for number in numbers))


class Meter:
    """Counts what was asked since the last time somebody looked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[bytes] = set()
        self._in_flight = 0
        self._counts = dict.fromkeys(
            ("calls", "tokens_in", "cached", "tokens_out", "embed_calls", "texts", "embed_tokens", "in_flight"), 0
        )

    def add(self, **counts: int) -> None:
        """Add to the counts of these names."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def take(self, *, forget: bool) -> dict[str, int]:
        """The counts, which begin anew; with `forget`, nothing is in the cache any more."""
        with self._lock:
            counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
            if forget:
                self._seen.clear()
        return counts

    def enter(self) -> None:
        """A chat call began."""
        with self._lock:
            self._in_flight += 1
            self._counts["in_flight"] = max(self._counts["in_flight"], self._in_flight)

    def leave(self) -> None:
        """A chat call was answered."""
        with self._lock:
            self._in_flight -= 1

    def cached(self, digests: list[bytes]) -> int:
        """Tokens that come from the cache, for a prompt whose beginnings have these digests."""
        with self._lock:
            steps = next((n for n, digest in enumerate(digests) if digest not in self._seen), len(digests))
        size = steps * STEP
        return size // BYTES_PER_TOKEN if size >= SMALLEST else 0

    def remember(self, digests: list[bytes]) -> None:
        """From now on prompts with these beginnings are served from the cache."""
        with self._lock:
            self._seen.update(digests)


def beginnings(prompt: bytes) -> list[bytes]:
    """Digests of the prompt's beginnings, a step longer each."""
    digest, found = hashlib.sha256(), []
    for end in range(STEP, len(prompt) + 1, STEP):
        digest.update(prompt[end - STEP : end])
        found.append(digest.digest()[:12])
    return found


class Server(ThreadingHTTPServer):
    """The server; latencies are in seconds a call."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, *, latency: float, embed_latency: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.latency = latency
        self.embed_latency = embed_latency
        self.meter = Meter()
        self.answers = Answers()

    @property
    def base_url(self) -> str:
        """What clients take as their OpenAI base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a chat request, after the latency."""
        started = time.perf_counter()
        self.meter.enter()
        try:
            parts = [json.dumps(body.get("response_format") or ""), *(text_of(each) for each in body["messages"])]
            prompt = "\n".join(parts).encode("utf-8", "surrogatepass")
            digests = beginnings(prompt)
            cached = self.meter.cached(digests)
            content = json.dumps(self.answers.to(body), ensure_ascii=False)
            used = {"prompt_tokens": tokens(prompt), "completion_tokens": tokens(content.encode())}
            time.sleep(max(0.0, self.latency - (time.perf_counter() - started)))
            self.meter.remember(digests)
        finally:
            self.meter.leave()
        self.meter.add(calls=1, tokens_in=used["prompt_tokens"], cached=cached, tokens_out=used["completion_tokens"])
        message = {"role": "assistant", "content": content, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": {
                **used,
                "total_tokens": sum(used.values()),
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Vectors of the texts, after the latency."""
        started = time.perf_counter()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        packed = body.get("encoding_format") == "base64"
        data = []
        for index, text in enumerate(texts):
            numbers = vector(text, body.get("dimensions") or DIMENSIONS)
            embedding = base64.b64encode(numbers.tobytes()).decode() if packed else list(numbers)
            data.append({"object": "embedding", "index": index, "embedding": embedding})
        used = sum(tokens(text.encode("utf-8", "surrogatepass")) for text in texts)
        time.sleep(max(0.0, self.embed_latency - (time.perf_counter() - started)))
        self.meter.add(embed_calls=1, texts=len(texts), embed_tokens=used)
        usage = {"prompt_tokens": used, "total_tokens": used}
        return {"object": "list", "model": body["model"], "data": data, "usage": usage}

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away before its answer came is no event."""


class Handler(BaseHTTPRequestHandler):
    """HTTP, with connections that stay open as providers' do."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else an answer waits 40 ms for the client's acknowledgement
    wbufsize = -1
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Requests are counted, not logged."""

    def do_POST(self) -> None:  # the base class's name
        """POST chat/completions, embeddings, take."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        try:
            if self.path.endswith("/chat/completions"):
                self._reply(200, self.server.chat(body))
            elif self.path.endswith("/embeddings"):
                self._reply(200, self.server.embed(body))
            elif self.path.endswith("/take"):
                self._reply(200, self.server.meter.take(forget=bool(body.get("forget"))))
            else:
                self._reply(404, _error(f"nothing at {self.path}"))
        except ValueError as error:
            self._reply(400, _error(str(error)))

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None, "param": None}}


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of a chat call")
    parser.add_argument("--embed-latency", type=float, default=0.1, help="seconds of an embeddings call")
    args = parser.parse_args()
    server = Server(latency=args.latency, embed_latency=args.embed_latency)
    print(server.base_url, flush=True)
    server.serve_forever(0.1)


if __name__ == "__main__":
    main()
