"""Pages from templates, in the reader's language, with every value escaped."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memalign.registry import NOUNS
from memalign_server.pages.content import case_text
from memalign_server.pages.languages import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    Language,
    language_of,
)
from memalign_server.pages.texts import visible
from memalign_server.people.access import hand
from memalign_server.people.service import Person
from memalign_server.problems import Problem, Refused
from memalign_server.store.tables import whole

__all__ = [
    "MEASURING",
    "address_of",
    "error_text",
    "in_english",
    "link",
    "render",
    "speaking",
]

MEASURING: Final = "memalign_measuring"
"""The cookie of a person who reviews so that the judge is measured."""
_CLASS: Final = re.compile(r"^([A-Z][a-z]+){2,}: ")
"""An error's class, before what it says."""
_TEMPLATES: Final = Path(__file__).parent.parent / "templates"


def link(judge: str, page: str, **query: object) -> str:
    """Return the address of a page of a judge."""
    given = {name: value for name, value in query.items() if value is not None}
    address = f"/judges/{quote(judge, safe='')}/{page}"
    return f"{address}?{urlencode(given)}" if given else address


def address_of(request: Request) -> str:
    """Return the address that was asked for, without the server's name."""
    url = request.url
    return f"{url.path}?{url.query}" if url.query else url.path


def speaking(request: Request) -> Language:
    """Return the language of whoever asks."""
    return language_of(
        request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language")
    )


def in_english(language: Language, text: str) -> str:
    """Return a text of the library's, marked as English for whoever hears the page."""
    if language.is_english:
        return text
    return Markup('<span lang="en">{}</span>').format(text)


def error_text(request: Request, error: Exception) -> str:
    """Return what an error says, in the reader's language if the server itself says it."""
    language = speaking(request)
    if isinstance(error, Problem | Refused):
        return language.say(error.english, **error.parts)
    return in_english(language, str(error))


def render(
    request: Request, template: str, *, status: int = 200, **context: Any
) -> HTMLResponse:
    """Return a page, or a part of one."""
    language = speaking(request)
    person: Person | None = getattr(request.state, "person", None)
    shown: dict[str, Any] = {
        "_": language.say,
        "n_": language.count,
        "lang": language,
        "english": lambda text: in_english(language, visible(_CLASS.sub("", text))),
        "languages": LANGUAGES,
        "title": "memalign",
        "person": person,
        "owner": person is not None and person.owner,
        "hand": lambda path: hand(request, path),
        "path": address_of(request),
        "judge": None,
        "page": "",
        "has_conflict": lambda: False,
    }
    html = _templates().get_template(template).render(shown | context)
    return HTMLResponse(whole(html), status, {"vary": "Accept-Language, Cookie"})


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["link"] = link
    environment.globals["case_text"] = case_text
    environment.globals["nouns"] = NOUNS
    environment.filters["visible"] = visible
    return environment
