"""`memalign.Client`: made from the description, typed, and safe to try again."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
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
from memalign.client.operation import Operation
from server_support import world
from test_jobs import FEEDBACK, SOON

MAKER = Path(__file__).parent.parent / "make_client.py"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ma.Client]:
    world.registry(tmp_path)
    with world.listening(world.server(tmp_path)) as address, ma.Client(address) as found:
        yield found


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_client", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_client_is_made_from_todays_description() -> None:
    made_now = maker()
    assert Path(made.__file__).read_text("utf-8") == made_now.written(made_now.description()), (
        f"run: python {MAKER.name}"
    )


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


def test_events_tell_a_job_until_its_end(client: ma.Client) -> None:
    told = list(client.events(client.align_judge("tone", feedback=FEEDBACK)))
    assert told[-1]["state"] == "done"
    assert told[-1]["result"]["version"] == 2
    assert len({each["id"] for each in told}) == 1
    with pytest.raises(ServerRefused, match="no job"):
        next(client.events({**told[-1], "id": "none"}))


def test_events_go_on_after_a_lost_line() -> None:
    job = {"id": "j", "judge": "tone", "state": "running", "done": 0}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            ended = len(asked) > 1
            event = {**job, "done": len(asked), "state": "done" if ended else "running"}
            self.wfile.write(f": still here\n\nevent: x\ndata: {json.dumps(event)}\n\n".encode())
            self.close_connection = True

        def log_message(self, *_given: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with ma.Client(f"http://127.0.0.1:{server.server_port}") as client:
            told = [(each["done"], each["state"]) for each in client.events(job)]  # type: ignore[arg-type]  # part of one
        server.shutdown()
        thread.join()
    assert told == [(1, "running"), (2, "done")]
    assert asked == ["/api/v1/judges/tone/jobs/j/events"] * 2


async def test_the_async_client_is_its_twin(tmp_path: Path) -> None:
    world.registry(tmp_path)
    with world.listening(world.server(tmp_path)) as address:
        async with ma.AsyncClient(address) as client:
            job = await client.align_judge("tone", feedback=FEEDBACK)
            told = [each async for each in client.events(job)]
            assert (await client.wait(job, timeout=SOON))["result"] == told[-1]["result"]
            numbers = [each["number"] async for each in client.each(client.list_versions, "tone", limit=1)]
            assert numbers == [2, 1]
            judged, shown = await asyncio.gather(
                client.judge_one("tone", inputs="Hello?", outputs="Hi!"), client.show_judge("tone")
            )
            assert (judged["value"], shown["version"]) == (True, 2)
            with pytest.raises(ServerRefused, match="no judge 'nobody'"):
                await client.show_judge("nobody")
    async with ma.AsyncClient("http://127.0.0.1:9") as client:
        with pytest.raises(ServerUnreachable, match="memalign serve"):
            await client.show_me()


def test_both_clients_have_every_operation(client: ma.Client) -> None:
    described = maker().description()["paths"].values()
    names = {each["operationId"] for methods in described for each in methods.values()} - {"watch_job"}  # `events`
    operations = {name for name, each in vars(made.Operations).items() if isinstance(each, Operation)}
    assert operations == names
    assert str(inspect.signature(client.lock_case)) == "(judge: 'str', case: 'str') -> 'LocksShown'"
    assert "Lock a case" in (client.lock_case.__doc__ or "")
    with pytest.raises(TypeError, match=r"lock_case\(\): got an unexpected keyword"):
        client.lock_case("tone", "t-1", nothing=1)  # type: ignore[call-arg]  # as the type says


def test_a_case_is_reviewed_through_the_client(client: ma.Client) -> None:
    cases = [{"id": "a-1", "inputs": "Late?", "outputs": "It is in transit."}]
    client.wait(client.add_review_cases("tone", cases=cases), timeout=SOON)
    (asked,) = client.next_review_cases("tone", n=3)
    assert (asked["hidden"], asked["judgment"]) == (True, None)
    shown = client.answer_case("tone", "a-1", value=False, rationale="Cold.")
    assert (shown["hidden"], shown["agree"]) == (False, False)
    with pytest.raises(ServerRefused, match="has changed elsewhere") as refused:
        client.answer_case("tone", "a-1", value=True)
    assert refused.value.fields["mine"]["revision"] == 1
