"""An OpenAI-compatible server that answers after a latency and may refuse what is too much: for benchmarks.

    python benchmarks/throughput_endpoint.py --latency 1
    python benchmarks/throughput_endpoint.py --latency 0.2 --in-flight 24
    python benchmarks/throughput_endpoint.py --latency 0.2 --per-second 40

Prints its base URL; a GET of anything gives what it counted since it was last asked. One loop and no library, so that it
takes little of a machine that it shares with what is measured. Beyond `--in-flight` calls at once, or `--per-second`
calls in any second, it answers 429 with Retry-After, in whole seconds as most providers do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from typing import cast

ANSWER = json.dumps({"rationale": "It says what happened and what comes next, and is polite.", "value": True})


class Limits:
    """What is let through, and what was counted."""

    def __init__(self, *, latency: float, in_flight: int | None, per_second: int | None) -> None:
        self.latency = latency
        self._in_flight = in_flight
        self._per_second = per_second
        self._recent: deque[float] = deque()
        self.running = 0
        self._counts = {"answered": 0, "refused": 0, "most": 0}

    def enter(self) -> float | None:
        """None for a call that is let through, else the seconds after which it may come again."""
        now = time.monotonic()
        while self._recent and self._recent[0] <= now - 1:
            self._recent.popleft()
        wait = None
        if self._in_flight is not None and self.running >= self._in_flight:
            wait = self.latency
        if self._per_second is not None and len(self._recent) >= self._per_second:
            wait = max(wait or 0.0, self._recent[0] + 1 - now)
        if wait is not None:
            self._counts["refused"] += 1
            return wait
        self._recent.append(now)
        self.running += 1
        self._counts["most"] = max(self._counts["most"], self.running)
        return None

    def leave(self) -> None:
        """A call was answered."""
        self.running -= 1
        self._counts["answered"] += 1

    def take(self) -> dict[str, int]:
        """The counts, which begin anew."""
        counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        return counts


class Connection(asyncio.Protocol):
    """One client's connection, which stays open; requests come one after the other."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer when a request is complete."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        if head.startswith(b"get "):
            self._buffer.clear()
            self._send(200, self._limits.take())
            return
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) < end + 4 + length:
            return
        words = length // 4
        self._buffer.clear()
        wait = self._limits.enter()
        if wait is not None:
            error = {"message": "Rate limit reached", "type": "rate_limit_exceeded", "code": "rate_limit_exceeded"}
            self._send(429, {"error": error}, f"Retry-After: {max(math.ceil(wait), 1)}\r\n")
            return
        asyncio.get_running_loop().call_later(self._limits.latency, self._answer, words)

    def _answer(self, tokens: int) -> None:
        self._limits.leave()
        message = {"role": "assistant", "content": ANSWER, "refusal": None}
        usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "bench"}
        self._send(200, {**body, "choices": [choice], "usage": usage})

    def _send(self, status: int, body: Mapping[str, object], more: str = "") -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        self._transport.write(head.encode() + data)


async def serve(limits: Limits) -> None:
    """Serve until ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(limits), "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of a call")
    parser.add_argument("--in-flight", type=int, help="calls at once that are let through")
    parser.add_argument("--per-second", type=int, help="calls in any second that are let through")
    args = parser.parse_args()
    asyncio.run(serve(Limits(latency=args.latency, in_flight=args.in_flight, per_second=args.per_second)))


if __name__ == "__main__":
    main()
