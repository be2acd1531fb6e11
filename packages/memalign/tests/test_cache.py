"""What is derived from a value is made once, shared by all who ask, and goes with the value."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

from memalign import cache
from memalign.cache import kept


class Owner:
    pass


def test_each_owner_and_key_makes_a_value_once() -> None:
    one, other = Owner(), Owner()
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name

    assert [kept(one, "a", lambda: make("1a")) for _ in range(2)] == ["1a", "1a"]
    assert kept(one, "b", lambda: make("1b")) == "1b"
    assert kept(other, "a", lambda: make("2a")) == "2a"
    assert made == ["1a", "1b", "2a"]


def test_it_goes_with_its_owner() -> None:
    class Large:
        pass

    owner = Owner()
    large = weakref.ref(kept(owner, "a", Large))
    assert large() is not None
    del owner
    gc.collect()
    assert large() is None


def test_the_oldest_goes_when_there_are_too_many() -> None:
    owner = Owner()
    for n in range(5):
        kept(owner, n, lambda n=n: n, most=3)  # type: ignore[misc]  # mypy takes no defaults of lambdas for T
    made: list[int] = []
    for n in (4, 3, 2, 0):
        kept(owner, n, lambda n=n: made.append(n))  # type: ignore[misc]  # as above
    assert made == [0]


def test_many_threads_and_dying_owners_leave_nothing_behind() -> None:
    def work() -> None:
        for n in range(200):
            owner = Owner()
            assert kept(owner, "a", lambda n=n: n) == n  # type: ignore[misc]  # as above

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = len(cache._cache.by_owner)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert len(cache._cache.by_owner) <= before


def test_values_that_outlive_the_module_end_in_silence() -> None:
    script = "import sys; from memalign import Example; sys.kept = Example(id='a', inputs='b'); sys.kept.content_hash"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
