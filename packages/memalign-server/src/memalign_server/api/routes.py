"""All routes of the API, and its description."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from memalign_server.api import (
    changes,
    explaining,
    jobs,
    judges,
    judging,
    learning,
    memory,
    people,
    review,
)
from memalign_server.routing import guarded_router

__all__ = ["PREFIX", "ROUTERS"]

PREFIX = "/api/v1"

_description: APIRouter = guarded_router(tags=["description"])


@_description.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request) -> dict[str, Any]:
    """The API's description, OpenAPI 3.1."""
    found: dict[str, Any] = request.app.openapi()
    return found


ROUTERS: list[APIRouter] = [
    _description,
    judges.router,
    judging.router,
    learning.router,
    explaining.router,
    memory.router,
    review.router,
    changes.router,
    jobs.router,
    people.router,
]
"""In the order of the description."""
