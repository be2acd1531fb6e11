"""A tracing tool on loopback: recorded answers by path, in pages, and faults on request.

    with ToolServer({"GET /api/things": {"data": [1]}}) as server:
        ...
        assert server.asked[0].path == "/api/things"

An answer is JSON, a function of the request that gives JSON, or a tuple of either: pages, given one after another.
`faults` come first, one a request: a status, or a status with headers and body.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that came in; `query` has the last value of each name."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer that is none."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "no"}'


def cut() -> Fault:
    return Fault(body=b'{"data": [{"id": "t-')


class ToolServer:
    """The server; it listens while the block lasts."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[Asked] = []
        self.faults: list[Fault | None] = []
        self._given: dict[str, int] = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                owner._serve(self)

            do_GET = do_POST = do_PATCH = _serve  # noqa: N815  # the names that http.server calls

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def of(self, path: str) -> list[Asked]:
        """The requests to a path."""
        return [each for each in self.asked if each.path == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        raw = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        asked = Asked(
            method=handler.command,
            path=url.path,
            query={name: values[-1] for name, values in parse_qs(url.query).items()},
            headers={name.lower(): value for name, value in handler.headers.items()},
            body=json.loads(raw) if raw else None,
        )
        self.asked.append(asked)
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            fault = self._answer(asked)
        handler.send_response(fault.status)
        for name, value in fault.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(fault.body)))
        handler.end_headers()
        handler.wfile.write(fault.body)

    def _answer(self, asked: Asked) -> Fault:
        name = f"{asked.method} {asked.path}"
        if name not in self.answers:
            return Fault(status=404, body=b'{"detail": "Not Found"}')
        answer: Any = self.answers[name]
        if isinstance(answer, tuple):
            place = self._given.get(name, 0)
            self._given[name] = place + 1
            answer = answer[min(place, len(answer) - 1)]
        if callable(answer):
            answer = answer(asked)
        return answer if isinstance(answer, Fault) else Fault(body=json.dumps(answer).encode())
