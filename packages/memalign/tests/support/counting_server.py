"""A chat server on loopback that keeps up with many workers, and counts how often each reply was asked about."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from typing import Self

REPLY = re.compile(rb"reply \d+")


class CountingServer:
    """Judges `reply 7` to be good, with its words as the reason; a context manager."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.base_url = ""
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()
        self._loop.close()

    def _stop(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: self._loop.stop())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                reply = REPLY.findall(await reader.readexactly(int(length.partition(b":")[2])))[-1].decode()
                self.asked[reply] += 1
                body = completion(reply)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):  # the client or the test ended
            pass
        finally:
            writer.close()


def completion(reply: str) -> bytes:
    content = json.dumps({"rationale": reply, "value": True})
    message = {"role": "assistant", "content": content, "refusal": None}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "test",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
    return json.dumps(answer).encode()
