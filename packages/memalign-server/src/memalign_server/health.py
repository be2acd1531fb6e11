"""Whether the server answers, for whatever watches it."""

from __future__ import annotations

from fastapi import APIRouter

from memalign_server.server import Here

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/health", include_in_schema=False)
def health(server: Here) -> dict[str, str]:
    """`ok`, when the database answers."""
    with server.store.read():
        return {"status": "ok"}
