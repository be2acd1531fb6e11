"""How much of what a server takes is used: calls a second against its ceiling, on a loopback server of this machine.

    python benchmarks/limiter.py [--calls N] [--latency SECONDS]

The server answers so many calls at a time (`room`), refuses those beyond with 429 and `Retry-After: 1`, and others at
random. The ceiling is room / latency. 64 workers ask an installed memalign, so any version's python may be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from memalign.models import ChatModel, ChatRequest, resolve

WORKERS = 64
REQUEST = ChatRequest(system="s", user="u", schema={"type": "object", "properties": {"value": {"type": "boolean"}}})
MESSAGE = {"role": "assistant", "content": '{"value": true}'}
CHOICES = [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]
ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m", "choices": CHOICES}


class Server(ThreadingHTTPServer):
    """Takes `room` calls at a time, and refuses a `share` of them at random."""

    request_queue_size = 256

    def __init__(self, room: int, share: float, latency: float) -> None:
        self.room, self.share, self.latency = threading.BoundedSemaphore(room), share, latency
        self.refused = 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        """Answer after the latency, or refuse at once."""
        self.rfile.read(int(self.headers["Content-Length"]))
        taken = random.random() >= self.server.share and self.server.room.acquire(blocking=False)
        if taken:
            time.sleep(self.server.latency)
            self.server.room.release()
        self.server.refused += not taken
        body = json.dumps(
            ANSWER if taken else {"error": {"message": "Too many requests", "code": "rate_limit"}}
        ).encode()
        self.send_response(200 if taken else 429)
        self.send_header("Content-Type", "application/json")
        if not taken:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


async def ask(model: ChatModel, calls: int) -> float:
    """Seconds that so many calls take, after a first one that loads what calls need."""
    await model.complete(REQUEST)
    waiting, started = iter(range(calls)), time.perf_counter()

    async def work() -> None:
        for _ in waiting:
            await model.complete(REQUEST)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return time.perf_counter() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=6_400, help="of a room of 64; fewer of smaller ones")
    parser.add_argument("--latency", type=float, default=0.5)
    options = parser.parse_args()
    for room, share in ((8, 0.0), (24, 0.0), (24, 0.05), (WORKERS, 0.05), (WORKERS, 0.0)):
        with Server(room, share, options.latency) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            model = resolve(f"openai:m@http://127.0.0.1:{server.server_port}/v1")
            seconds = asyncio.run(ask(model, calls := options.calls * room // WORKERS))
            used = calls * options.latency / room / seconds
            print(
                f"room {room:2}, {share:.0%} at random: {used:.2f} of the ceiling, {server.refused} of {calls} refused"
            )
            server.shutdown()
