"""Webhooks: who is told when work ends, and what waits to be told.

What a webhook says is written in the transaction in which the work ends, so that neither is there without the other.
It names the judge and the job, and holds no word of a case: who wants more asks the API.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Row, delete, insert, select, update

from memalign_server.people.identity import team_of
from memalign_server.store import Store
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.work_tables import deliveries, webhooks

__all__ = [
    "ALL",
    "Due",
    "Webhook",
    "add_webhook",
    "claim_due",
    "deliveries_of",
    "remove_webhook",
    "settle",
    "tell",
    "webhooks_of",
]

ALL = "*"
"""An event that stands for every one."""
_PAUSES = (10, 60, 300, 1800, 7200, 21600, 43200)
"""Seconds before each next try; after the last one a delivery has failed."""
_HELD = 60  # seconds that a delivery under way is nobody else's


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An address that is told of events: `align.done`, `erase.failed` and so on, or `*` for all."""

    id: str
    url: str
    events: list[str]
    created_at: str


@dataclass(frozen=True, kw_only=True)
class Due:
    """A delivery to be made now."""

    id: str
    url: str
    secret: str
    body: str
    tries: int


def add_webhook(connection: Connection, team: str, url: str, events: Collection[str]) -> tuple[Webhook, str]:
    """A new webhook of a team, and the secret that signs what it is sent."""
    secret = f"whsec_{secrets.token_urlsafe(32)}"
    made = Webhook(id=new_id(), url=url, events=sorted(set(events)), created_at=now())
    row = {"id": made.id, "url": url, "events": to_json(made.events), "created_at": made.created_at}
    connection.execute(insert(webhooks).values(**row, team=team, secret=secret))
    return made, secret


def webhooks_of(connection: Connection, team: str) -> list[Webhook]:
    """A team's webhooks, the oldest first."""
    found = connection.execute(select(webhooks).where(webhooks.c.team == team).order_by(webhooks.c.created_at))
    return [Webhook(id=r.id, url=r.url, events=from_json(r.events), created_at=r.created_at) for r in found]


def remove_webhook(connection: Connection, team: str, webhook: str) -> bool:
    """Take a webhook away with what waits for it; whether there was one."""
    mine = connection.execute(select(webhooks.c.id).where(webhooks.c.id == webhook, webhooks.c.team == team)).first()
    if mine is None:
        return False
    connection.execute(delete(deliveries).where(deliveries.c.webhook == webhook))
    connection.execute(delete(webhooks).where(webhooks.c.id == webhook))
    return True


def tell(connection: Connection, *, kind: str, state: str, judge: str, job: str) -> None:
    """Write what is to be told of work that has ended, to whoever asked for it."""
    event = f"{kind}.{state}"
    found = connection.execute(select(webhooks).where(webhooks.c.team == team_of(connection, judge))).all()
    for webhook in found:
        if not {ALL, event} & set(from_json(webhook.events)):
            continue
        body = json.dumps({"type": event, "timestamp": now(), "data": {"judge": judge, "job": job, "state": state}})
        row = {"id": new_id(), "webhook": webhook.id, "event": event, "judge": judge, "body": body}
        connection.execute(insert(deliveries).values(**row, state="waiting", next_at=time.time(), created_at=now()))


def deliveries_of(connection: Connection, webhook: str, limit: int = 50) -> list[Row[tuple[object, ...]]]:
    """What a webhook was told or is still to be told, the newest first."""
    query = select(deliveries).where(deliveries.c.webhook == webhook).order_by(deliveries.c.created_at.desc())
    return list(connection.execute(query.limit(limit)))


def claim_due(store: Store, limit: int = 10) -> list[Due]:
    """Deliveries whose time has come, held so that no other server makes them at the same time."""
    at = time.time()
    waiting = deliveries.c.state == "waiting"
    query = select(deliveries, webhooks.c.url, webhooks.c.secret).join(webhooks, webhooks.c.id == deliveries.c.webhook)
    due = query.where(waiting, deliveries.c.next_at <= at).order_by(deliveries.c.next_at).limit(limit)
    with store.read() as connection:
        if connection.execute(due).first() is None:
            return []
    claimed = []
    with store.write() as connection:
        for row in connection.execute(due).all():
            mine = update(deliveries).where(deliveries.c.id == row.id, waiting, deliveries.c.next_at == row.next_at)
            if connection.execute(mine.values(next_at=at + _HELD)).rowcount == 1:
                claimed.append(Due(id=row.id, url=row.url, secret=row.secret, body=row.body, tries=row.tries))
    return claimed


def settle(store: Store, due: Due, answer: str, *, delivered: bool) -> None:
    """Write what came of a delivery: done, to be tried again later, or failed."""
    tries = due.tries + 1
    values: dict[str, object] = {"tries": tries, "answer": answer[:500]}
    if delivered:
        values["state"] = "delivered"
    elif tries > len(_PAUSES):
        values["state"] = "failed"
    else:
        values["next_at"] = time.time() + _PAUSES[tries - 1]
    with store.write() as connection:
        connection.execute(update(deliveries).where(deliveries.c.id == due.id).values(values))
