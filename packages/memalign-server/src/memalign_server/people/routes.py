"""The doors: personal links, OpenID and signing out; then the first page, the account, experts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import AfterValidator

from memalign_server.pages.languages import LANGUAGE_COOKIE, LANGUAGES
from memalign_server.pages.rendering import link, render
from memalign_server.pages.verdicts import question_of
from memalign_server.people.access import COOKIE, HAND, OWNER, Asking
from memalign_server.people.openid import person_of, send_away, take_back
from memalign_server.people.service import (
    OPENID_SECONDS,
    SESSION_SECONDS,
    Role,
    add_person,
    digest,
    make_link,
    person_of_link,
    remove_person,
    start_session,
    take_link,
)
from memalign_server.problems import Problem, Refused
from memalign_server.server import JUDGE, Here, Server
from memalign_server.settings import OpenIdProvider, Settings
from memalign_server.setup.routes import Screen, Setup
from memalign_server.store import team
from memalign_server.store.cases import progress_of

__all__ = ["doors", "experts", "inside", "link_address", "router"]

doors = APIRouter()
router = APIRouter()
experts = APIRouter(prefix="/judges/{judge}/experts", dependencies=[JUDGE, OWNER])

_YEAR = 365 * 24 * 3600


def inside(back: str) -> str:
    """Return where to go after signing in: a page of this server, and of no other."""
    path = back.startswith("/") and not back.startswith(("//", "/\\"))
    return back if path and back.isprintable() else "/"


Secret = Annotated[str, Path(max_length=100)]
PersonId = Annotated[str, Path(max_length=32)]
Back = Annotated[str, AfterValidator(inside), Query(max_length=2000)]
BackOfForm = Annotated[str, AfterValidator(inside), Form()]


def link_address(settings: Settings, base: str, secret: str) -> str:
    """Return the address of a personal link.

    Args:
        settings: The server's settings; their public URL comes first.
        base: The server's own address, if no public URL is set.
        secret: The link's secret.
    """
    return f"{(settings.public_url or base).rstrip('/')}/join/{secret}"


# -- in and out ------------------------------------------------------------------------------------


@doors.get("/sign-in")
def sign_in_page(request: Request, server: Here, back: Back = "/") -> Response:
    """Show how to get in."""
    return render(
        request,
        "sign_in.html",
        page="sign-in",
        back=back,
        openid=server.settings.openid,
    )


@doors.get("/join/{secret}")
def join_page(request: Request, server: Here, secret: Secret) -> Response:
    """Show whose link this is, and the button that uses it up.

    Programs that look at links in messages open this page, and must not use the link up.
    """
    with server.store.read() as connection:
        person = person_of_link(connection, secret)
    if person is None and request.state.person is not None:
        # Their own link, opened again.
        return RedirectResponse("/", 303)
    if person is None:
        raise _used()
    return render(request, "join.html", page="join", secret=secret, guest=person)


@doors.post("/join/{secret}")
def join(request: Request, server: Here, secret: Secret) -> Response:
    """Use a personal link up, and replace the browser's session by one of ninety days."""
    with server.store.write() as connection:
        session = take_link(connection, secret)
    if session is None:
        raise _used()
    return _enter(request, server, session, "/")


@doors.post("/sign-out")
def sign_out(request: Request, server: Here) -> Response:
    """End the session here and in the database."""
    _end(request, server)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _used() -> Problem:
    return Problem(
        404, "this link was used, replaced or is too old; ask an owner for a new one"
    )


def _provider(server: Here) -> OpenIdProvider:
    if server.settings.openid is None:
        raise Problem(404, "this server knows no OpenID provider")
    return server.settings.openid


Provider = Annotated[OpenIdProvider, Depends(_provider)]


@doors.get("/openid/start")
async def openid_start(
    request: Request, server: Here, provider: Provider, back: Back = "/"
) -> Response:
    """Send the browser to the provider."""
    base = server.settings.public_url or str(request.base_url)
    request.session["back"] = back
    return await send_away(provider, request, f"{base.rstrip('/')}/openid/callback")


async def _claims(request: Request, provider: Provider) -> dict[str, Any]:
    return await take_back(provider, request)


@doors.get("/openid/callback")
def openid_callback(
    request: Request,
    server: Here,
    provider: Provider,
    claims: Annotated[dict[str, Any], Depends(_claims)],
) -> Response:
    """Take back whom the provider vouches for, and sign them in if they are on the list."""
    back = str(request.session.get("back", "/"))
    request.session.clear()
    with server.store.write() as connection:
        person = person_of(provider, connection, claims)
        session = start_session(connection, person, seconds=OPENID_SECONDS)
    return _enter(request, server, session, back)


def _enter(request: Request, server: Server, session: str, back: str) -> Response:
    _end(request, server)
    answer = RedirectResponse(back, 303)
    secure = request.url.scheme == "https" or server.settings.secure
    answer.set_cookie(
        COOKIE,
        session,
        max_age=SESSION_SECONDS,
        httponly=True,
        secure=secure,
        samesite="lax",
    )
    return answer


def _end(request: Request, server: Server) -> None:
    if session := request.cookies.get(COOKIE):
        with server.store.write() as connection:
            team.delete_session(connection, digest(session))


# -- the first page, and the account ---------------------------------------------------------------


@router.get("/")
def home_page(request: Request, server: Here, person: Asking) -> Response:
    """Lead to the one judge's Review, or show the list if there are several or none."""
    names = [judge.name for judge in server.registry.list()]
    if len(names) == 1:
        return RedirectResponse(link(names[0], "review"), 303)
    return judges_page(request, server, person)


@router.get("/judges")
def judges_page(request: Request, server: Here, person: Asking) -> Response:
    """Show all judges by their questions, and to owners how to add one."""
    judges = [
        server.judges.latest(judge.name).judge for judge in server.registry.list()
    ]
    with server.store.read() as connection:
        rows = [
            (
                judge.name,
                question_of(judge),
                progress_of(connection, judge.name, person.name),
            )
            for judge in judges
        ]
    return render(request, "home.html", page="home", judges=rows)


@router.get("/account")
def account_page(request: Request) -> Response:
    """Show who is signed in, the language, and how to sign out."""
    return render(request, "account.html", page="account")


@router.post("/language")
def choose_language(
    language: Annotated[str, Form()], back: BackOfForm = "/"
) -> Response:
    """Keep the language that a person chose, and go back to where they were."""
    if language not in LANGUAGES:
        raise Refused(
            "'{given}' is none of {allowed}",
            given=language,
            allowed=", ".join(LANGUAGES),
        )
    answer = RedirectResponse(back, 303)
    answer.set_cookie(
        LANGUAGE_COOKIE, language, max_age=_YEAR, httponly=True, samesite="lax"
    )
    return answer


# -- the experts, in a block of Set up -------------------------------------------------------------


@experts.post("", dependencies=[HAND])
def invite(
    setup: Screen,
    name: Annotated[str, Form(max_length=1000)],
    role: Annotated[Role, Form()] = Role.REVIEWER,
) -> Response:
    """Add somebody; the page shows the link that lets them in, this once."""
    if setup.person.by == "open":
        raise Problem(
            409,
            "this server is open to its machine: "
            "the first owner is added by `memalign serve --add-owner NAME`",
        )
    with setup.write() as connection:
        secret = make_link(connection, add_person(connection, name, role))
    return _show_link(setup, secret)


@experts.post("/{member}/link", dependencies=[HAND])
def renew_link(setup: Screen, member: PersonId) -> Response:
    """Make a new link for somebody whose browser forgot them; the link before it is void."""
    with setup.write() as connection:
        secret = make_link(connection, member)
    return _show_link(setup, secret)


@experts.post("/{member}/remove", dependencies=[HAND])
def remove(setup: Screen, member: PersonId) -> Response:
    """Take somebody out of the team; their link and their sessions open nothing from now on."""
    with setup.write() as connection:
        remove_person(connection, member)
    return setup.go("setup", open="experts")


def _show_link(setup: Setup, secret: str) -> Response:
    with setup.read() as connection:
        guest = person_of_link(connection, secret)
    address = link_address(setup.server.settings, str(setup.request.base_url), secret)
    return setup.show("experts", guest=guest, personal_link=address)
