"""Pages from templates, in the reader's language, every value escaped; and errors as pages, for programs as JSON."""

from __future__ import annotations

import gettext
import re
from datetime import datetime
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from memalign.errors import MemalignError
from memalign.values import Value, value_text
from memalign_server.pages.texts import visible
from memalign_server.people.access import Json, hand, is_part
from memalign_server.people.service import Person
from memalign_server.problems import Problem, Refused, problem_of
from memalign_server.store.tables import whole

LANGUAGES = {"en": "English", "pt": "Português", "es": "Español"}
_NONE = "\N{EN DASH}"
_CATALOGUES = Path(__file__).parent.parent / "locales"


class Language:
    """One language: `say` a sentence and `count` things; `parts` take the places of `{names}`."""

    def __init__(self, code: str) -> None:
        self.code, self._catalogue = (
            code,
            gettext.translation("messages", _CATALOGUES, [code], fallback=True),
        )

    def say(self, english: str, **parts: object) -> str:
        """The sentence in this language; it is markup if a part is."""
        sentence = self._catalogue.gettext(english)
        if any(isinstance(part, Markup) for part in parts.values()):
            sentence = escape(sentence)
        return sentence.format_map(parts) if parts else sentence

    def count(self, n: int, singular: str, plural: str) -> str:
        """`singular` for 1 and `plural` for other numbers, `{n}` being the number."""
        return self._catalogue.ngettext(singular, plural, n).format(n=self.number(n))

    def number(self, value: float, digits: int = 0) -> str:
        """A number with this language's marks: 1,234.5 in English, 1.234,5 in the others."""
        text = f"{value:,.{digits}f}"
        return text if self.code == "en" else text.translate(str.maketrans(",.", ".,"))

    def percent(self, share: float | None) -> str:
        """A share of 1 as whole percent."""
        return (
            _NONE
            if share is None
            else f"{self.number(100 * share)}{'' if self.code == 'en' else chr(0xA0)}%"
        )

    def time(self, at: str | None) -> str:
        """A time in this language's format; the page's script shows it in the reader's time zone."""
        day = "%b %d, %Y" if self.code == "en" else "%d/%m/%Y"
        text = f"{datetime.fromisoformat(at):{day}, %H:%M} UTC" if at else ""
        return Markup('<time datetime="{}">{}</time>').format(at, text) if at else text

    def verdict(self, value: Value | None) -> str:
        """A label as people read it."""
        if value is None or isinstance(value, bool):
            return _NONE if value is None else self.say("Yes") if value else self.say("No")
        return self.number(value, 2) if isinstance(value, float) else value_text(value)


language = cache(Language)


def language_of(chosen: str | None, accepted: str | None) -> Language:
    """The language that a person chose, else the first that their browser asks for and we have, else English."""
    wanted = [
        part.strip()[:2].lower() for part in (accepted or "").split(",")
    ]  # browsers send the preferred one first
    return language(next((code for code in (chosen, *wanted) if code in LANGUAGES), "en"))


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
        hand=lambda path: hand(request, path),
        path=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        **{"judge": None, "page": "", **context},
    )
    return HTMLResponse(whole(html), status, {"vary": "Accept-Language, Cookie"})


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


def answer_error(request: Request, error: Exception) -> Response:
    """An error that was raised on purpose, for people or for a program."""
    problem = problem_of(error)
    status, headers = problem.status_code, dict(problem.headers or {})
    for_people = is_part(request) or "text/html" in request.headers.get("accept", "text/html")
    if request.url.path.startswith(("/api/", "/health")) or not for_people:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": problem.detail,
        }
        return Json(
            {**body, **problem.more}, status, headers, media_type="application/problem+json"
        )
    if status == 401 and request.method == "GET" and not is_part(request):
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/sign-in?{urlencode({'back': back})}", 303)
    if status == 405 and request.method == "GET" and for_people:
        return RedirectResponse(_page_of(request.url.path), 303)
    answer = _page(request, problem, error)
    answer.headers.update(headers)
    return answer


_BLOCKS = {
    "find": "erase",
    "erase": "erase",
    "receipts": "erase",
    "pull": "cases",
    "experts": "experts",
}
_SCREENS = ("review", "learned", "teach", "setup")


def _page_of(path: str) -> str:
    """Return the page on which the form stands that sends something to a path which has no page of its own."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "judges":
        return "/"
    place, what = parts[3], parts[-1]
    if place in _SCREENS:
        block = what if what in ("question", "cases") else None
        return link(unquote(parts[2]), place, open=block)
    return link(unquote(parts[2]), "setup", open=_BLOCKS.get(place))


def _page(request: Request, problem: Problem, error: Exception) -> Response:
    language = speaking(request)
    say = language.say
    headings = {
        401: say("Sign in first"),
        403: say("You may not do this"),
        404: say("Not here"),
        405: say("Not here"),
        409: say("Somebody was quicker"),
        410: say("This is not there any more"),
        422: say("Something is missing"),
        502: say("The model does not answer"),
        503: say("Not available now"),
    }
    if isinstance(error, Problem | Refused | MemalignError):
        detail = error_text(request, error)
    elif isinstance(error, RequestValidationError):
        detail = in_english(language, problem.detail)
    else:
        detail = ""  # Starlette says nothing beyond the heading
    heading = headings.get(problem.status_code, say("Something went wrong"))
    if request.url.path.startswith("/join/"):
        heading = say("This link does not work any more")
    rows = problem.more.get("rows", [])[:20]
    told = {
        "heading": heading,
        "detail": detail,
        "rows": rows,
        "field": getattr(error, "field", ""),
    }
    return render(request, "error.html", status=problem.status_code, **told)
