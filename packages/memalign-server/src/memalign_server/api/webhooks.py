"""Webhooks: addresses that are told when long work ends."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Here
from memalign_server.work import webhooks
from memalign_server.work.delivering import check_url

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/teams/{team}/webhooks", tags=["webhooks"])

TeamId = Annotated[str, Path(max_length=32, description="A team's id.")]
WebhookId = Annotated[str, Path(max_length=32)]
Event = Annotated[str, Field(pattern=r"^(\*|[a-z]+\.(done|failed|cancelled))$", examples=["align.done", "*"])]


class WebhookGiven(BaseModel):
    """Where to, and of what: `align.done`, `erase.failed` and so on, or `*` for all."""

    model_config = ConfigDict(extra="forbid")

    url: Annotated[str, Field(min_length=1, max_length=2000)]
    events: Annotated[list[Event], Field(min_length=1, max_length=50)] = ["*"]


class WebhookShown(BaseModel):
    """One webhook. `secret` is there once: in the answer that made it."""

    id: str
    url: str
    events: list[str]
    created_at: str
    secret: str | None = None


class DeliveryShown(BaseModel):
    """What a webhook was told, or is still to be told: `state` is waiting, delivered or failed."""

    id: str
    event: str
    judge: str
    state: str
    tries: int
    answer: str | None
    created_at: str


@router.get("")
def list_webhooks(team: TeamId, server: Here) -> list[WebhookShown]:
    """A team's webhooks, the oldest first; never their secrets."""
    with server.store.read() as connection:
        return [WebhookShown(**vars(each)) for each in webhooks.webhooks_of(connection, team)]


@router.post("", status_code=201)
def add_webhook(team: TeamId, given: WebhookGiven, server: Here) -> WebhookShown:
    """Tell an address when work of the team's judges ends. What is sent is signed with the secret."""
    settings = server.settings
    check_url(given.url, private=settings.private_webhooks, proxied=settings.webhook_proxy is not None)
    with server.store.write() as connection:
        made, secret = webhooks.add_webhook(connection, team, given.url, given.events)
    return WebhookShown(**vars(made), secret=secret)


@router.delete("/{webhook}", status_code=204)
def remove_webhook(team: TeamId, webhook: WebhookId, server: Here) -> None:
    """Tell an address nothing more."""
    with server.store.write() as connection:
        if not webhooks.remove_webhook(connection, team, webhook):
            raise Problem(404, f"no webhook {webhook!r} of this team")


@router.get("/{webhook}/deliveries")
def list_deliveries(team: TeamId, webhook: WebhookId, server: Here) -> list[DeliveryShown]:
    """The last fifty things that a webhook was told, or is still to be told."""
    with server.store.read() as connection:
        if webhook not in {each.id for each in webhooks.webhooks_of(connection, team)}:
            raise Problem(404, f"no webhook {webhook!r} of this team")
        found: list[Any] = webhooks.deliveries_of(connection, webhook)
    names = tuple(DeliveryShown.model_fields)
    return [DeliveryShown(**{name: getattr(row, name) for name in names}) for row in found]
