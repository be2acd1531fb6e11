"""A server on loopback that speaks the live and the batch endpoints of OpenAI and of Anthropic, and misbehaves on request.

`answer` is what the model says of a request's body. `faults` are given by a part of the request line, such as
"POST /v1/batches", and come first, one a request: a status, "lost" (it is done, and the connection closes before the
answer) or "cut" (half of the answer). `refuses` and `expires` say of a body whether the batch rejects it or lets it
expire. `polls` is how often a batch is looked at before it ends.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

__all__ = ["BatchServer"]

Body = dict[str, Any]


class BatchServer:
    def __init__(self, answer: Callable[[Body], Body] | None = None) -> None:
        self.answer = answer or (lambda _: {"rationale": "Fine.", "value": True})
        self.faults: defaultdict[str, list[int | str]] = defaultdict(list)
        self.headers: dict[str, str] = {}
        self.refuses: Callable[[Body], bool] = lambda _: False
        self.expires: Callable[[Body], bool] = lambda _: False
        self.fails: list[str] = []
        """Codes with which the next batches fail as a whole."""
        self.polls = 1
        self.live: list[Body] = []
        """Bodies of live requests."""
        self.batches: dict[str, Body] = {}
        self.files: dict[str, bytes] = {}
        self.paths: list[str] = []
        self.betas: list[str] = []
        self.lock = threading.Lock()
        self.submitted = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.world = self  # type: ignore[attr-defined]
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def batched(self) -> list[Body]:
        """Bodies of all requests that came in batches."""
        return [body for batch in self.batches.values() for _, body in batch["requests"]]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # -- what both do -------------------------------------------------------------------------------------------------

    def submit(self, kind: str, requests: list[tuple[str, Body]], **more: Any) -> Body:
        assert len({key for key, _ in requests}) == len(requests), "custom_id must be unique"
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", key) for key, _ in requests)
        name = f"{kind}_{len(self.batches)}"
        failed = self.fails.pop(0) if self.fails else None
        self.batches[name] = {"id": name, "requests": requests, "polls": 0, "at": time.time(), "failed": failed, **more}
        self.submitted.set()
        return self.batches[name]

    def ended(self, batch: Body) -> bool:
        batch["polls"] += 1
        return bool(batch["polls"] > self.polls)

    def fate(self, body: Body) -> str:
        return "expired" if self.expires(body) else "errored" if self.refuses(body) else "succeeded"


def _openai_says(server: BatchServer, body: Body) -> Body:
    message = {"role": "assistant", "content": json.dumps(server.answer(body))}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }


def _anthropic_says(server: BatchServer, body: Body) -> Body:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": json.dumps(server.answer(body))}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    }


def _lines(rows: list[Body]) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def world(self) -> BatchServer:
        found: BatchServer = self.server.world  # type: ignore[attr-defined]
        return found

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self._serve("POST", data)

    def do_GET(self) -> None:
        self._serve("GET", b"")

    def _serve(self, method: str, data: bytes) -> None:
        line = f"{method} {self.path}"
        with self.world.lock:
            self.world.paths.append(line)
            self.world.betas.append(self.headers.get("anthropic-beta", ""))
            name = next((name for name in self.world.faults if re.search(name, line) and self.world.faults[name]), None)
            fault = self.world.faults[name].pop(0) if name else None
            if isinstance(fault, int):
                body = {"error": {"message": "not now", "type": "rate_limit_error", "code": None}, "type": "error"}
                self._send(fault, json.dumps(body).encode(), self.world.headers)
                return
            found = self._found(method, self.path.partition("?")[0], data)
            if fault == "lost":
                self.close_connection = True
                self.connection.close()
                return
            text = found if isinstance(found, bytes) else json.dumps(found).encode()
            self._send(200, text[: len(text) // 2] if fault == "cut" else text, {})

    def _send(self, status: int, text: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _found(self, method: str, path: str, data: bytes) -> Body | bytes:
        world = self.world
        last = path.rpartition("/")[2]
        match method, re.sub(r"(oai|file|ant)_[\w]+", "*", path):
            case "POST", "/v1/chat/completions":
                world.live.append(json.loads(data))
                return _openai_says(world, world.live[-1])
            case "POST", "/v1/files":
                boundary = re.search(r"boundary=(\S+)", self.headers["Content-Type"])
                assert boundary
                (file,) = [part for part in data.split(b"--" + boundary[1].encode()) if b'name="file"' in part]
                name = f"file_{len(world.files)}"
                world.files[name] = file.partition(b"\r\n\r\n")[2].rstrip(b"\r\n")
                return {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch"}
            case "GET", "/v1/files/*/content":
                return world.files[path.split("/")[3]]
            case "POST", "/v1/batches":
                asked = json.loads(data)
                assert asked["completion_window"] == "24h"
                rows = [json.loads(line) for line in world.files[asked["input_file_id"]].splitlines()]
                assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
                requests = [(row["custom_id"], row["body"]) for row in rows]
                return self._openai(world.submit("oai", requests, metadata=asked.get("metadata")))
            case "GET", "/v1/batches":
                found = [self._openai(batch) for batch in reversed(world.batches.values())]
                return {"object": "list", "data": found, "has_more": False}
            case "GET", "/v1/batches/*":
                return self._openai(world.batches[last], look=True)
            case "POST", "/v1/messages":
                world.live.append(json.loads(data))
                return _anthropic_says(world, world.live[-1])
            case "POST", "/v1/messages/batches":
                requests = [(row["custom_id"], row["params"]) for row in json.loads(data)["requests"]]
                return self._anthropic(world.submit("ant", requests))
            case "GET", "/v1/messages/batches":
                found = [self._anthropic(batch) for batch in reversed(world.batches.values())]
                return {"data": found, "has_more": False, "first_id": None, "last_id": None}
            case "GET", "/v1/messages/batches/*":
                return self._anthropic(world.batches[last], look=True)
            case "GET", "/v1/messages/batches/*/results":
                return _lines(
                    [self._anthropic_row(key, body) for key, body in world.batches[path.split("/")[4]]["requests"]]
                )
        raise AssertionError(f"{method} {path}")

    # -- OpenAI ---------------------------------------------------------------------------------------------------------

    def _openai(self, batch: Body, *, look: bool = False) -> Body:
        world, requests = self.world, batch["requests"]
        made: Body = {
            "id": batch["id"],
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": int(batch["at"]),
            "input_file_id": "file_0",
            "metadata": batch["metadata"],
            "status": "in_progress",
            "request_counts": {"total": len(requests), "completed": 0, "failed": 0},
        }
        if batch["failed"]:
            errors = {"object": "list", "data": [{"code": batch["failed"], "message": f"failed: {batch['failed']}"}]}
            return made | {"status": "failed", "errors": errors}
        if not look or not world.ended(batch):
            return made
        fates = [(key, body, world.fate(body)) for key, body in requests]
        good = [(key, body) for key, body, fate in fates if fate == "succeeded"]
        bad = [(key, fate) for key, _, fate in fates if fate != "succeeded"]
        out, refused = f"file_out_{batch['id']}", f"file_err_{batch['id']}"
        world.files[out] = _lines(
            [
                {"custom_id": key, "response": {"status_code": 200, "body": _openai_says(world, body)}, "error": None}
                for key, body in reversed(good)
            ]
        )
        world.files[refused] = _lines([self._openai_error(key, fate) for key, fate in bad])
        counts = {"total": len(requests), "completed": len(good), "failed": len(bad)}
        status = "expired" if any(fate == "expired" for _, fate in bad) else "completed"
        return made | {
            "status": status,
            "request_counts": counts,
            "output_file_id": out if good else None,
            "error_file_id": refused if bad else None,
        }

    def _openai_error(self, key: str, fate: str) -> Body:
        if fate == "expired":
            return {"custom_id": key, "response": None, "error": {"code": "batch_expired", "message": "late"}}
        body = {"error": {"message": "bad", "type": "invalid_request_error", "code": None}}
        return {"custom_id": key, "response": {"status_code": 400, "body": body}, "error": None}

    # -- Anthropic ------------------------------------------------------------------------------------------------------

    def _anthropic(self, batch: Body, *, look: bool = False) -> Body:
        world, requests = self.world, batch["requests"]
        ended = look and world.ended(batch)
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for _, body in requests:
            counts[world.fate(body) if ended else "processing"] += 1
        at = datetime.fromtimestamp(batch["at"], UTC)
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": at.isoformat(),
            "expires_at": (at + timedelta(days=1)).isoformat(),
            "ended_at": at.isoformat() if ended else None,
            "cancel_initiated_at": None,
            "archived_at": None,
            "results_url": f"{world.address}/v1/messages/batches/{batch['id']}/results"
            if ended or batch["polls"]
            else None,
        }

    def _anthropic_row(self, key: str, body: Body) -> Body:
        fate = self.world.fate(body)
        result: Body = {"type": fate}
        if fate == "succeeded":
            result["message"] = _anthropic_says(self.world, body)
        elif fate == "errored":
            result["error"] = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}
        return {"custom_id": key, "result": result}
