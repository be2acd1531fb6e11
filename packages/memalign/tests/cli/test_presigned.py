"""A presigned URL is a key: whoever has it may read the file. It works, and it is never printed or kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run

pytest.importorskip("aiohttp")

SIGNATURE = "0f6c1d8e77aa"
QUERY = f"X-Amz-Credential=AKIA%2F20261124&X-Amz-Signature={SIGNATURE}"


class _Store(BaseHTTPRequestHandler):
    """Gives files to whoever has the signature; a broken one, and a page instead of a list, too."""

    def _answer(self, *, body: bool) -> None:
        path, _, query = self.path.partition("?")
        data = {
            "/cases/feedback.jsonl": "".join(f"{json.dumps(row)}\n" for row in FEEDBACK).encode(),
            "/cases/broken.jsonl": b'{"id": "t-9"}\n<a href="x">',
            "/cases/notes.docx": b"x",
        }.get(path, b"")
        status = 404 if not data else 200 if SIGNATURE in query else 403
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def store() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Store) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/cases"
        server.shutdown()
        thread.join()


def test_a_presigned_url_is_read_and_not_kept(memalign: Run, tone: str, store: str, tmp_path: Path) -> None:
    url = f"{store}/feedback.jsonl?{QUERY}"
    runs = [
        memalign("check", url, tone),
        memalign("align", tone, url),
        memalign("judge", tone, url, "-o", tmp_path / "judged.jsonl"),
        memalign("show", tone, "--json"),
    ]
    assert [run.code for run in runs] == [0] * 4, runs[0].err + runs[1].err
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert SIGNATURE not in "".join(run.out + run.err for run in runs)
    assert SIGNATURE.encode() not in kept


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"broken.jsonl?{QUERY}", "broken JSON"),
        (f"none.jsonl?{QUERY}", "no such file"),
        (f"notes.docx?{QUERY}", "cannot read files of type '.docx'"),
        ("feedback.jsonl?X-Amz-Signature=other77aa", "cannot be used"),
    ],
)
def test_what_is_wrong_with_a_presigned_url_is_said_without_it(
    memalign: Run, tone: str, store: str, url: str, reason: str
) -> None:
    refused = memalign("align", tone, f"{store}/{url}")
    assert refused.code == 2
    assert f"{store}/{url.partition('?')[0]}" in refused.err
    assert reason in refused.err
    assert "77aa" not in refused.err + refused.out
