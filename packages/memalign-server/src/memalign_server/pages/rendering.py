"""Pages from templates, in the reader's language; every value in them is escaped."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memalign_server.pages.languages import LANGUAGES, Language, language_of
from memalign_server.pages.texts import visible
from memalign_server.people.people import Person
from memalign_server.problems import Problem, Refused

__all__ = ["LANGUAGE_COOKIE", "MEASURING", "error_text", "in_english", "link", "render", "speaking"]

LANGUAGE_COOKIE = "memalign_language"
MEASURING = "memalign_measuring"
"""The cookie of a person who reviews so that the judge is measured."""
_CLASS = re.compile(r"^([A-Z][a-z]+){2,}: ")  # of an error, before what it says
_HERE = Path(__file__).parent.parent


def link(judge: str, page: str, **query: object) -> str:
    """The address of a page of a judge."""
    parts = urlencode({name: value for name, value in query.items() if value is not None})
    return f"/judges/{quote(judge, safe='')}/{page}{f'?{parts}' if parts else ''}"


def speaking(request: Request) -> Language:
    """The language of whoever asks."""
    return language_of(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language"))


def in_english(language: Language, text: str) -> str:
    """A text of the library's, which has no other language; marked as English for whoever hears the page."""
    return text if language.code == "en" else Markup('<span lang="en">{}</span>').format(text)


def error_text(request: Request, error: Exception) -> str:
    """What an error says, in the reader's language where the server itself says it."""
    language = speaking(request)
    if isinstance(error, Problem | Refused):
        return language.say(error.english, **error.parts)
    return in_english(language, str(error))


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page or a part of one."""
    language = speaking(request)
    person: Person | None = getattr(request.state, "person", None)
    page = _templates().get_template(template)
    html = page.render(
        _=language.say,
        n_=language.count,
        lang=language,
        english=lambda text: in_english(language, visible(_CLASS.sub("", text))),
        languages=LANGUAGES,
        title="memalign",
        person=person,
        owner=person is not None and person.owner,
        path=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        **{"judge": None, "page": "", **context},
    )
    return HTMLResponse(html, status, {"vary": "Accept-Language, Cookie"})


@lru_cache(maxsize=1)
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["link"] = link
    environment.filters["visible"] = visible
    return environment
