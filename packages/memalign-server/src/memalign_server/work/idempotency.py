"""Requests that are sent twice and done once: the first answer is kept for a day by the key that came with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from memalign_server.problems import Problem
from memalign_server.store import Store
from memalign_server.store.columns import from_json, later, now, to_json
from memalign_server.store.work_tables import idempotency

__all__ = ["HEADER", "Kept", "Once"]

HEADER = "idempotency-key"
_KEPT = 86400  # seconds that an answer is kept
_LOST = 60  # seconds after which a request without an answer was lost with its server, and is done again
_LONGEST = 200


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The answer to the first request."""

    status: int
    headers: Mapping[str, str]
    body: str


class Once:
    """One request with a key: begun once, and then kept or given up."""

    def __init__(self, store: Store, *, who: str, key: str, method: str, path: str, body: bytes) -> None:
        if not 0 < len(key) <= _LONGEST or not key.isprintable():
            raise Problem(400, f"an idempotency key has 1 to {_LONGEST} printable characters, such as a random UUID")
        self._store = store
        self._key = _digest(who, key)
        self._request = _digest(method, path, hashlib.sha256(body).hexdigest())

    @property
    def id(self) -> str:
        """An id for what the request makes, the same for every copy of it."""
        return _digest(self._key, self._request)[:32]

    def begin(self) -> Kept | None:
        """The answer that is kept; None where the request is to be done now.

        Raises Problem: 422 for a key that came with another request, 409 while the first one is under way.
        """
        mine = idempotency.c.key == self._key
        with self._store.write() as connection:
            connection.execute(delete(idempotency).where(idempotency.c.created_at < later(-_KEPT)))
            row = connection.execute(select(idempotency).where(mine)).first()
            if row is None:
                connection.execute(insert(idempotency).values(key=self._key, request=self._request, created_at=now()))
                return None
            if row.request != self._request:
                raise Problem(422, "this idempotency key came with another request before; take a new one")
            if row.status is None and row.created_at >= later(-_LOST):
                raise Problem(409, "the first request with this key is under way", headers={"retry-after": "2"})
            if row.status is None:
                connection.execute(update(idempotency).where(mine).values(created_at=now()))
                return None
        return Kept(status=row.status, headers=from_json(row.headers), body=row.body)

    def keep(self, kept: Kept) -> None:
        """Keep the answer."""
        values = {"status": kept.status, "headers": to_json(dict(kept.headers)), "body": kept.body}
        with self._store.write() as connection:
            connection.execute(update(idempotency).where(idempotency.c.key == self._key).values(values))

    def give_up(self) -> None:
        """The request failed: it may be sent again."""
        with self._store.write() as connection:
            connection.execute(delete(idempotency).where(idempotency.c.key == self._key))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
