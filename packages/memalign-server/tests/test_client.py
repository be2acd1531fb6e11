"""`memalign.Client`: made from the description, typed, and safe to try again."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign.client import ServerRefused, ServerUnreachable
from memalign.client import operations as made
from server_support import world
from test_jobs import FEEDBACK, SOON

MAKER = Path(__file__).parent.parent / "make_client.py"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ma.Client]:
    world.registry(tmp_path)
    with world.listening(world.server(tmp_path)) as address, ma.Client(address) as found:
        yield found


def test_the_client_is_made_from_todays_description() -> None:
    spec = importlib.util.spec_from_file_location("make_client", MAKER)
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert Path(made.__file__).read_text("utf-8") == maker.written(maker.description()), f"run: python {MAKER.name}"


def test_a_judge_learns_through_the_client(client: ma.Client) -> None:
    job = client.wait(client.align_judge("tone", feedback=FEEDBACK), timeout=SOON)
    assert job["result"]["version"] == 2
    assert client.show_judge("tone")["feedback"] == 2
    assert client.judge_one("tone", inputs="Hello?", outputs="Hi!")["value"] is True
    assert [each["number"] for each in client.each(client.list_versions, "tone", limit=1)] == [2, 1]


def test_a_name_is_one_part_of_the_path(client: ma.Client) -> None:
    with pytest.raises(ServerRefused) as refused:
        client.show_judge("../me")
    assert refused.value.status == 404


def test_a_problem_is_an_error_with_its_fields(client: ma.Client) -> None:
    with pytest.raises(ServerRefused, match="no judge 'nobody'") as refused:
        client.align_judge("nobody", feedback=FEEDBACK)
    assert (refused.value.status, refused.value.fields["error"]) == (404, "JudgeNotFound")


def test_a_job_that_fails_is_an_error(client: ma.Client) -> None:
    job = client.align_judge("tone", feedback=[{"id": "x", "outputs": "y", "value": "maybe"}])
    with pytest.raises(ServerRefused, match="line 1"):
        client.wait(job, timeout=SOON)


def test_a_token_signs_in(people: Path, tmp_path: Path) -> None:
    with world.shared_server(people, tmp_path) as site:
        token = site.token("reviewer")
    with world.listening(world.server(tmp_path, host="0.0.0.0")) as address:
        with ma.Client(address, token=token) as reviewer:
            assert reviewer.show_me()["name"] == "reviewer"
        with ma.Client(address) as nobody, pytest.raises(ServerRefused, match="401"):
            nobody.show_me()


def test_a_lost_answer_is_asked_again_once() -> None:
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            keys.append(self.headers["idempotency-key"])
            if len(keys) == 1:
                self.close_connection = True  # the request arrived, and its answer is lost
                return
            self.send_response(503 if len(keys) == 2 else 200)
            self.send_header("content-type", "application/json")
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(json.dumps({"id": "G1"}).encode())

        def log_message(self, *_given: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with ma.Client(f"http://127.0.0.1:{server.server_port}") as client:
            assert client.add_guideline("tone", text="A reply names a day.") == {"id": "G1"}
        server.shutdown()
        thread.join()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_server_that_is_not_there_is_named() -> None:
    with ma.Client("http://127.0.0.1:9") as client, pytest.raises(ServerUnreachable, match="memalign serve"):
        client.show_me()
