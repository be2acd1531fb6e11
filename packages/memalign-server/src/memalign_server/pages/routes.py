"""All routes of the pages, and their files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from memalign_server.pages import erasing, home, learned, people, question, review, setup, trust
from memalign_server.pages.errors import install_errors

__all__ = ["ROUTERS", "install_pages"]

_PAGES = (people, home, review, learned, trust, question, setup, erasing)
ROUTERS: list[APIRouter] = [*(page.router for page in _PAGES), people.experts]


def install_pages(app: FastAPI) -> None:
    """Serve the pages' own files, and answer errors.

    Args:
        app: The application.
    """
    app.mount("/static", StaticFiles(directory=Path(__file__).parent.parent / "static"), name="static")
    install_errors(app)
