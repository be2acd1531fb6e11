"""All routes of the pages, and their files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from memalign_server.pages import (
    changed,
    data,
    forgetting,
    home,
    memory,
    people,
    pulling,
    review,
    trust,
)
from memalign_server.pages.errors import install_error_pages

__all__ = ["ROUTERS", "install_pages"]

ROUTERS: list[APIRouter] = [
    people.router,
    home.router,
    review.router,
    changed.router,
    memory.router,
    forgetting.router,
    trust.router,
    data.router,
    pulling.router,
]


def install_pages(app: FastAPI) -> None:
    """Serve the pages' own files, and errors as pages."""
    app.mount("/static", StaticFiles(directory=Path(__file__).parent.parent / "static"), name="static")
    install_error_pages(app)
