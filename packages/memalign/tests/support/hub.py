"""A hub of files on loopback that misbehaves on request: breaks off, or lacks the file."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Hub(ThreadingHTTPServer):
    """The server; a context manager. `files` are the bytes at each path."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files or {}
        self.hang_up_after: list[int] = []
        """Bytes to send before hanging up, one entry a request."""
        self.asked: list[tuple[str, str | None]] = []
        """The path of each request, and the range that it wants."""
        self.address = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path in self.server.files else 404)
        self.end_headers()

    def do_GET(self) -> None:
        hub = self.server
        wanted = self.headers.get("Range")
        hub.asked.append((self.path, wanted))
        body = hub.files.get(self.path)
        start = int(re.sub(r"\D", "", wanted)) if wanted else 0
        if body is None or start >= len(body):
            self.send_error(404 if body is None else 416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}"
            )
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        sent = hub.hang_up_after.pop(0) if hub.hang_up_after else None
        self.wfile.write(body[start:][:sent])

    def log_message(self, *_: object) -> None:
        pass
