"""On a server, too, what a model was paid for is kept until the commit; several processes align side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign import Registry
from memalign.errors import RegistryError
from tests.support import paying
from tests.support.endpoint import Endpoint
from tests.support.paying import NAME, OPTIMIZER, create, rows
from tests.support.places import OnPostgreSQL, place_of
from tests.support.postgres import AVAILABLE, Server

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no PostgreSQL here")

ROWS = rows(12)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(paying.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Iterator[OnPostgreSQL]:
    with place_of("postgresql", tmp_path) as place:
        assert isinstance(place, OnPostgreSQL)
        yield place


def texts(endpoint: Endpoint) -> list[str]:
    return [json.dumps(body["messages"]) for body in endpoint.requests]


def aligning(url: str, folder: Path, given: list[dict[str, Any]], name: str = "feedback") -> subprocess.Popen[bytes]:
    """A process of its own that aligns."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(given), "utf-8")
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.support.paying", url, NAME, str(file)]
    return subprocess.Popen(command, cwd=root, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE)


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def stop_after(endpoint: Endpoint, count: int, waiting: threading.Event) -> None:
    """From request number `count` + 1 on, the model answers nobody until it is told to go on."""
    seen, goes_on = iter(range(1_000)), waiting

    def answer(body: dict[str, Any]) -> Any:
        if next(seen) >= count:
            goes_on.wait(60)
        return paying.answer(body)

    endpoint.answer = answer


def test_a_killed_align_pays_for_no_answer_twice(endpoint: Endpoint, place: OnPostgreSQL, tmp_path: Path) -> None:
    alone = create(tmp_path / "alone.db").align(NAME, ROWS, optimizer=OPTIMIZER)
    calls = len(endpoint.requests)
    endpoint.requests.clear()
    registry, waiting = create(place.url), threading.Event()
    stop_after(endpoint, 5, waiting)
    with aligning(place.url, tmp_path, ROWS) as process:
        wait_until(lambda: registry.kept_answers(NAME) >= 5)
        process.send_signal(signal.SIGKILL)
    waiting.set()
    assert len(registry.history(NAME)) == 1
    paid = texts(endpoint)[:5]
    endpoint.requests.clear()
    endpoint.answer = paying.answer
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == 5
    assert len(endpoint.requests) == calls - 5
    assert not set(paid) & set(texts(endpoint)), "what was answered is not asked again"
    assert result.judge.memory == alone.judge.memory
    assert registry.kept_answers(NAME) == 0
    assert place.execute("SELECT count(*) FROM memalign_runs") == [(0,)]


def test_a_killed_server_loses_nothing_paid(endpoint: Endpoint, tmp_path: Path) -> None:
    server = Server()
    try:
        registry, waiting = create(server.url(server.create())), threading.Event()
        stop_after(endpoint, 5, waiting)
        with aligning(registry.url, tmp_path, ROWS) as process:
            wait_until(lambda: registry.kept_answers(NAME) >= 5)
            server.stop(kill=True)
            waiting.set()
            assert process.stderr is not None
            said = process.stderr.read().decode()
            assert process.wait(60) == 1
        assert "cannot keep what was paid for" in said
        assert "Nothing was committed" in said
        server.start()
        assert len(registry.history(NAME)) == 1
        endpoint.answer = paying.answer
        assert registry.align(NAME, ROWS, optimizer=OPTIMIZER).taken_up == 5
        assert len(registry.history(NAME)) == 2
    finally:
        server.remove()


def test_processes_that_align_at_once_lose_nothing(endpoint: Endpoint, place: OnPostgreSQL, tmp_path: Path) -> None:
    registry, people = create(place.url), ("ana", "ben")
    running = [aligning(place.url, tmp_path, rows(3, source=who), who) for who in people]
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    learned = {str(annotation.key) for annotation in registry.load(NAME).memory.annotations()}
    assert learned == {f"{row['id']}@{who}" for who in people for row in rows(3, source=who)}
    assert [info.action for info in registry.history(NAME)] == ["create", "align", "align"]
    distilled = [said for said in texts(endpoint) if "New feedback:" in said]
    assert len(distilled) == len(set(distilled)), "no lesson was paid for twice"
    assert place.execute("SELECT count(*) FROM memalign_runs") == [(0,)]


@pytest.mark.parametrize("step", ["erase", "unalign", "delete"])
def test_forgetting_leaves_no_kept_answer(endpoint: Endpoint, place: OnPostgreSQL, step: str) -> None:
    registry = create(place.url)
    registry.align(NAME, rows(2, source="eve"), optimizer=OPTIMIZER)
    ((number,),) = place.execute("SELECT id FROM memalign_judges")
    left = registry._database.kept_answers(number)
    left.keep("0" * 64, b'"a quote of eve, who said word777"')
    if step == "delete":
        registry.delete(NAME)
    elif step == "erase":
        registry.erase(NAME, ["t-eve-0"], dry_run=True)
        assert registry.kept_answers(NAME) == 1
        registry.erase(NAME, ["t-eve-0"], rederive=False)
        assert b"word777" not in place.bytes()
    else:
        registry.unalign(NAME, "t-eve-0", optimizer=OPTIMIZER)
    left.keep("1" * 64, b'"said after it"')
    assert place.execute("SELECT count(*) FROM memalign_answers") == [(0,)], "a running align keeps nothing more"


def test_what_nobody_took_up_in_a_month_goes(endpoint: Endpoint, place: OnPostgreSQL) -> None:
    registry = create(place.url)
    ((number,),) = place.execute("SELECT id FROM memalign_judges")
    registry._database.kept_answers(number).keep("0" * 64, b'"old"')
    place.execute("UPDATE memalign_runs SET started_at = '2001-01-01T00:00:00+00:00'")
    registry._database.kept_answers(number)
    registry.align(NAME, rows(1), optimizer=OPTIMIZER)
    assert place.execute("SELECT count(*) FROM memalign_answers") == [(0,)]


def test_an_unkept_answer_stops_the_paying(endpoint: Endpoint, place: OnPostgreSQL) -> None:
    registry = create(place.url)
    place.execute("ALTER TABLE memalign_answers ADD CONSTRAINT none_fits CHECK (false)")
    with pytest.raises(RegistryError, match=r"cannot keep what was paid for: .* Nothing was committed"):
        registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert len(registry.history(NAME)) == 1
    assert len(endpoint.requests) <= 4


def test_one_who_waits_for_a_turn_gets_it(place: OnPostgreSQL) -> None:
    create(place.url)
    first, second = Registry(place.url)._database, Registry(place.url)._database
    mine, other, next_one = first.turn(1), second.turn(2), second.turn(1)
    assert mine.take()
    assert other.take(), "another judge's"
    assert not next_one.take()
    mine.leave()
    assert next_one.take()
    next_one.leave()
    other.leave()
