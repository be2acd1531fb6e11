"""Whether the server answers, for whatever watches it."""

from __future__ import annotations

from memalign_server.routing import guarded_router
from memalign_server.server import Here

__all__ = ["router"]

router = guarded_router(tags=["health"])


@router.get("/health", include_in_schema=False)
def health(server: Here) -> dict[str, str]:
    """`ok`, when the database answers."""
    with server.store.read():
        return {"status": "ok"}
