"""Synchronous calls share one loop: inside notebooks, from threads, after Ctrl-C, in
forked children."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from memalign import aio
from memalign.errors import ModelUnavailable
from tests.support.patience import PATIENCE


async def loop_of() -> int:
    return id(asyncio.get_running_loop())


async def test_a_synchronous_call_works_inside_a_running_loop():
    assert aio.run(loop_of()) != id(asyncio.get_running_loop())


def test_all_calls_from_all_threads_share_one_loop():
    async def fail() -> None:
        raise ModelUnavailable("down")

    with pytest.raises(ModelUnavailable, match="down"):
        aio.run(fail())
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda _: aio.run(loop_of()), range(32)))
    assert loops == {aio.run(loop_of())}


def test_an_error_of_a_synchronous_call_shows_the_call_and_not_the_way_through_the_loop(
    caplog,
):
    async def afails() -> None:
        try:
            raise OSError("refused")
        except OSError as error:
            raise ModelUnavailable("down") from error

    caplog.set_level("DEBUG", "memalign")
    with pytest.raises(ModelUnavailable, match="down") as caught:
        aio.blocking(afails)()
    assert len(traceback.format_exception(caught.value)) < 8
    assert "refused" in caplog.text, "the log has the whole way"
    with pytest.raises(
        TypeError, match=r"<locals>\.fails\(\) got an unexpected keyword"
    ):
        aio.blocking(afails)(speed=1)  # type: ignore[call-arg]


async def test_a_call_inside_our_own_loop_raises():
    async def inner() -> None:
        aio.run(loop_of())

    with pytest.raises(RuntimeError, match="use await"):
        aio.run(inner())


def test_an_interrupt_waits_until_everything_has_cleaned_up():
    events: list[str] = []
    started = threading.Semaphore(0)

    async def child() -> None:
        started.release()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            await asyncio.sleep(0.05)
            events.append("child cleaned up")

    async def work() -> None:
        try:
            await aio.together([child(), child()])
        finally:
            events.append("closed")

    def interrupt() -> None:
        for _ in range(2):
            assert started.acquire(timeout=PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        aio.run(work())
    assert events == ["child cleaned up", "child cleaned up", "closed"]
    assert aio.run(loop_of())


async def test_together_keeps_order_and_raises_the_first_error():
    ended: list[int] = []

    async def wait(number: int) -> int:
        try:
            await asyncio.sleep(0.001 * (5 - number))
        finally:
            ended.append(number)
        return number

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ModelUnavailable("down")

    assert await aio.together(wait(n) for n in range(5)) == [0, 1, 2, 3, 4]
    ended.clear()
    with pytest.raises(ModelUnavailable):
        await aio.together([wait(0), fail(), wait(1)])
    assert sorted(ended) == [0, 1], "the others have ended when the error arrives"
    assert await aio.together([]) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own_loop():
    # In a process of its own: forking a test run with its threads is nobody's use.
    script = textwrap.dedent("""
        import asyncio, os, warnings
        from memalign import aio
        warnings.simplefilter("ignore")
        async def one(): return 1
        aio.run(one())
        child = os.fork()
        if not child:
            os._exit(aio.run(one()) + 6)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert (
        subprocess.run(
            [sys.executable, "-c", script], timeout=PATIENCE, check=False
        ).returncode
        == 7
    )
