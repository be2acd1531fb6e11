"""Work that a team shares: who has which case open.

A case that somebody has open is served to nobody else for ten minutes, unless it wants several
answers. One server works on a database, so what is open is in its memory and in no table; a restart
forgets it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from memalign_server.store.cases import Sharing

__all__ = ["OPEN_SECONDS", "OpenCases"]

OPEN_SECONDS: Final = 600.0


class OpenCases:
    """Who has which case open. Safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.RLock()
        self._until: dict[tuple[str, str, str], float] = {}  # by judge, case and person

    @contextmanager
    def turn(self, judge: str, person: str) -> Iterator[Sharing]:
        """Let one person be served while nobody else is.

        What they are served must be opened before this ends.
        """
        with self._lock:
            self._close_old()
            own = set()
            others = Counter[str]()
            for of, case_id, who in self._until:
                if of != judge:
                    continue
                if who == person:
                    own.add(case_id)
                else:
                    others[case_id] += 1
            yield Sharing(own=frozenset(own), others=others)

    def _close_old(self) -> None:
        """Close the cases that were opened ten minutes ago or earlier."""
        now = self.clock()
        for key, until in list(self._until.items()):
            if until <= now:
                del self._until[key]

    def open(self, judge: str, case_id: str, person: str) -> None:
        """Note that a person has a case open, from now for ten minutes."""
        with self._lock:
            self._until[judge, case_id, person] = self.clock() + OPEN_SECONDS

    def close(self, judge: str, case_id: str, person: str) -> None:
        """Note that a person has a case open no longer: they answered it, or went on."""
        with self._lock:
            self._until.pop((judge, case_id, person), None)
