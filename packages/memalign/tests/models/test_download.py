"""A download goes on from what is there, is tried again while that may help, and keeps what came."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign.models.download import BUSY, DownloadFailed, Timing, locked, receive, sha256_of
from tests.support.hub import Hub

BYTES = hashlib.shake_128(b"a file").digest(300_000)
FAST = Timing(silence=2.0, pause=0.0, tries=3)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub({"/file": BYTES}) as hub:
        yield hub


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    return tmp_path / "file.partial"


def fetch(hub: Hub, partial: Path, path: str = "/file", **more: Any) -> bytes:
    receive(f"{hub.address}{path}", partial, **{"timing": FAST, "progress": lambda *_: None, **more})
    return partial.read_bytes()


@pytest.mark.parametrize("size", [None, len(BYTES)])
def test_a_broken_connection_goes_on_from_where_it_was(hub: Hub, partial: Path, size: int | None) -> None:
    hub.hang_up_after = [100_000, 50_000]
    told: list[tuple[int, int]] = []
    said: list[str] = []
    assert fetch(hub, partial, size=size, progress=lambda *at: told.append(at), log=said.append) == BYTES
    assert hub.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert told[-1] == (len(BYTES), len(BYTES))
    assert len(said) == 2


def test_what_is_there_already_is_not_asked_for(hub: Hub, partial: Path) -> None:
    partial.write_bytes(BYTES)
    assert fetch(hub, partial, size=len(BYTES)) == BYTES
    assert hub.asked == []


def test_a_server_that_knows_no_ranges_sends_all_again(hub: Hub, partial: Path) -> None:
    hub.ranges_known, hub.hang_up_after = False, [100_000]
    assert fetch(hub, partial) == BYTES


def test_a_server_that_sends_another_range_is_asked_for_all_again(hub: Hub, partial: Path) -> None:
    hub.wrong_ranges, hub.hang_up_after = True, [100_000]
    assert fetch(hub, partial) == BYTES
    assert hub.ranges == [None, "bytes=100000-", None]


def test_a_leftover_longer_than_the_file_is_thrown_away(hub: Hub, partial: Path) -> None:
    partial.write_bytes(BYTES + b"and more")
    assert fetch(hub, partial) == BYTES


def test_a_connection_that_keeps_breaking_is_given_up(hub: Hub, partial: Path) -> None:
    hub.hang_up_after = [100_000, 0, 0, 0, 0]
    with pytest.raises(DownloadFailed, match="ended at 100,000 of 300,000 bytes"):
        fetch(hub, partial)
    assert len(hub.asked) == 4  # the one that moved, and three tries that did not
    assert partial.stat().st_size == 100_000


def test_a_busy_server_is_tried_again_where_that_is_wanted(hub: Hub, partial: Path) -> None:
    hub.faults = [503]
    with pytest.raises(DownloadFailed, match="503") as refused:
        fetch(hub, partial)
    assert refused.value.status == 503
    hub.faults = [500, 429]
    assert fetch(hub, partial, again=BUSY) == BYTES
    hub.faults = [503] * 10
    with pytest.raises(DownloadFailed, match="503"):
        fetch(hub, partial.with_name("other"), again=BUSY)
    assert len(hub.faults) == 10 - FAST.tries


def test_a_file_that_is_not_there_is_said_at_once(hub: Hub, partial: Path) -> None:
    with pytest.raises(DownloadFailed, match="404 Not Found"):
        fetch(hub, partial, "/gone", again=BUSY)
    assert len(hub.asked) == 1


def test_a_file_of_another_size_is_not_even_fetched(hub: Hub, partial: Path) -> None:
    with pytest.raises(DownloadFailed, match="300,000 bytes, expected 299,999"):
        fetch(hub, partial, size=len(BYTES) - 1)
    assert not partial.exists()


def test_a_server_that_never_answers_is_not_waited_for(partial: Path) -> None:
    with Hub() as hub:
        pass
    with pytest.raises(DownloadFailed, match="not reachable"):
        fetch(hub, partial, timing=Timing(silence=1.0, pause=60.0, tries=5))


def test_headers_go_to_the_address_and_not_to_where_it_redirects(hub: Hub, partial: Path) -> None:
    with Hub({"/file": BYTES}) as store:
        hub.redirect_to = store.address
        assert fetch(hub, partial, headers={"Authorization": "Bearer hf_secret"}) == BYTES
    assert hub.asked[0].authorization == "Bearer hf_secret"
    assert store.asked[0].authorization is None


def test_a_full_disk_is_no_broken_connection(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fetch(hub, tmp_path / "no folder" / "file.partial")
    assert len(hub.asked) == 1


def test_a_hash_is_counted_out_loud(partial: Path) -> None:
    partial.write_bytes(BYTES)
    told: list[tuple[int, int]] = []
    assert sha256_of(partial, lambda *at: told.append(at)) == hashlib.sha256(BYTES).hexdigest()
    assert told[-1] == (len(BYTES), len(BYTES))


def test_two_who_want_the_same_file_wait_for_one_another(tmp_path: Path) -> None:
    waits = threading.Event()
    order: list[str] = []

    def second() -> None:
        with locked(tmp_path / "lock", waiting=waits.set):
            order.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(5)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
