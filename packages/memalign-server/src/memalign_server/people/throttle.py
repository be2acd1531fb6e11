"""A limit on failed sign-ins: by name and address together, by address, and by name."""

from __future__ import annotations

import hashlib
import time

from sqlalchemy import delete, insert, select, update

from memalign_server.people.accounts import name_key
from memalign_server.problems import Problem
from memalign_server.store import Store
from memalign_server.store.people_tables import attempts

__all__ = ["WINDOW", "begin_attempt", "forget_attempts"]

WINDOW = 900.0
"""Seconds after which failures count no longer."""
_LIMITS = {"both": 5, "address": 30, "name": 50}


def begin_attempt(store: Store, name: str, address: str) -> None:
    """Count an attempt before the password is looked at, so that many at once are no way around.

    Raises Problem 429 with the seconds to wait.
    """
    at = time.time()
    with store.write() as connection:
        connection.execute(delete(attempts).where(attempts.c.since < at - WINDOW))
        for kind, key in _keys(name, address).items():
            row = connection.execute(select(attempts).where(attempts.c.key == key)).first()
            if row is not None and row.failures >= _LIMITS[kind]:
                wait = int(row.since + WINDOW - at) + 1
                raise Problem(
                    429,
                    "too many attempts to sign in; wait {n} minutes",
                    parts={"n": wait // 60 + 1},
                    headers={"retry-after": str(wait)},
                )
            if row is None:
                connection.execute(insert(attempts).values(key=key, failures=1, since=at))
            else:
                again = update(attempts).where(attempts.c.key == key)
                connection.execute(again.values(failures=attempts.c.failures + 1))


def forget_attempts(store: Store, name: str, address: str) -> None:
    """A sign-in that succeeded does not count against its name at its address."""
    keys = _keys(name, address)
    with store.write() as connection:
        connection.execute(delete(attempts).where(attempts.c.key == keys["both"]))
        for kind in ("address", "name"):
            one = update(attempts).where(attempts.c.key == keys[kind], attempts.c.failures > 0)
            connection.execute(one.values(failures=attempts.c.failures - 1))


def _keys(name: str, address: str) -> dict[str, str]:
    spelled = name_key(name)
    wanted = {"both": f"{spelled}\n{address}", "address": f"\n{address}", "name": f"{spelled}\n"}
    return {kind: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for kind, text in wanted.items()}
