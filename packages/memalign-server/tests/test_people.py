"""Links, sessions, the token of programs and requests of other sites, attacked."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update

from memalign.errors import RegistryError
from memalign_server.people.access import COOKIE
from memalign_server.people.routes import inside
from memalign_server.people.service import owner_link
from memalign_server.store import Store
from memalign_server.store.tables import people, sessions
from server_support import world
from server_support.reviewing import answer, call, ended, expect, post, put_in, work
from tests.cli.conftest import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi.testclient import TestClient

JUDGES = "/api/v1/judges"
ALIGN = f"{JUDGES}/tone/align"
EXPERTS = "/judges/tone/experts"
SETUP = "/judges/tone/setup?open=experts"


def name_of(browser: TestClient) -> str | None:
    """Who a browser is for the server, and None for nobody."""
    headers = {"accept": "text/html"}
    page = browser.get("/account", headers=headers, follow_redirects=False)
    found = re.search("<h1>(.*?)</h1>", page.text)
    return found[1] if found else None


def path_of(owner: TestClient, name: str) -> str:
    """Where an owner's page changes somebody who is on it."""
    own = rf"<b>{name}</b>(?:(?!<b>).)*?({EXPERTS}/\w+)/link"
    (path,) = re.findall(own, owner.get(SETUP).text, re.DOTALL)
    return str(path)


def link_on(page: Any) -> str:
    (path,) = re.findall(rf"<code[^>]*>{world.ADDRESS}(/join/[^<]+)</code>", page.text)
    return str(path)


def invited(owner: TestClient, name: str, role: str = "reviewer") -> str:
    return link_on(post(owner, EXPERTS, name=name, role=role))


def entered(shared: world.Shared, path: str) -> TestClient:
    browser = shared.browser()
    assert browser.post(path, follow_redirects=False).headers["location"] == "/"
    return browser


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("\u0639\u0644\u06cc\u200c\u0631\u0636", 200),  # a joiner inside a Persian name
        ("李\u3000明", 200),
        ("Ana\u00a0Lima", 200),
        ("Ana\nLima", 422),
        ("Ana\u202eamiL", 422),
        ("\x1b[2J", 422),
    ],
)
def test_a_name_is_one_line_of_any_writing(
    owner: TestClient, name: str, status: int
) -> None:
    added = owner.post(EXPERTS, data={"name": name, "role": "reviewer"})
    assert added.status_code == status
    assert (name in owner.get(EXPERTS).text) == (status == 200)


def test_a_link_lets_one_person_in_once(
    shared: world.Shared, owner: TestClient
) -> None:
    path = invited(owner, "Zoë")
    # Whoever only looks does not use it up.
    expect(shared.browser().get(path), 200, "Go on as Zoë")
    browser = entered(shared, path)
    assert name_of(browser) == "Zoë"
    for again in (shared.browser().get(path), shared.browser().post(path)):
        expect(again, 404, "ask an owner for a new one")
    assert browser.get(path).url.path == "/", "who is in already just goes on"


@world.ON_BOTH
def test_a_link_used_twice_at_once_admits_one(
    shared: world.Shared, owner: TestClient
) -> None:
    path = invited(owner, "Zoë")
    browsers = [shared.browser() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        entered = pool.map(lambda browser: post(browser, path), browsers)
    assert sorted(page.status_code for page in entered) == [303] + [404] * 5


def test_a_new_link_takes_the_place_of_the_old_one(
    shared: world.Shared, owner: TestClient
) -> None:
    first = invited(owner, "Zoë")
    second = link_on(post(owner, f"{path_of(owner, 'Zoë')}/link"))
    assert shared.browser().post(first).status_code == 404
    browser = entered(shared, second)
    third = link_on(post(owner, f"{path_of(owner, 'Zoë')}/link"))
    assert name_of(entered(shared, third)) == "Zoë"  # on another machine
    assert name_of(browser) == "Zoë"


def test_a_link_is_good_for_a_week_and_a_session_for_ninety_days(
    shared: world.Shared, owner: TestClient
) -> None:
    path = invited(owner, "Zoë")
    for column, days in ((people.c.link_until, 7), (sessions.c.expires_at, 90)):
        for (end,) in world.stored(owner, select(column).where(column.is_not(None))):
            left = datetime.fromisoformat(end) - datetime.now(UTC)
            assert round(left / timedelta(days=1)) == days
        past = {column: "2026-01-01T00:00:00.000000+00:00"}
        world.change(owner, update(column.table).values(past))
    assert shared.browser().post(path).status_code == 404
    assert owner.get(JUDGES).status_code == 401


@world.ON_BOTH
def test_who_is_removed_is_out_and_finds_their_answers_again(
    shared: world.Shared,
    owner: TestClient,
) -> None:
    put_in(owner)
    browser = entered(shared, invited(owner, "Zoë"))
    answer(browser, "late", value="false", rationale="Cold.")
    assert "1 answer, last " in owner.get(SETUP).text
    assert "Zoë answered for you." in owner.get("/judges/tone/setup").text
    waiting = link_on(post(owner, f"{path_of(owner, 'Zoë')}/link"))
    post(owner, f"{path_of(owner, 'Zoë')}/remove")
    assert name_of(browser) is None
    assert shared.browser().post(waiting).status_code == 404
    again = entered(shared, invited(owner, "ZOE\u0308"))
    assert name_of(again) == "Zoë"
    assert "Cold." in again.get("/judges/tone/review?case=late").text


def test_a_team_keeps_an_owner(owner: TestClient) -> None:
    own = f"{path_of(owner, 'owner')}/remove"
    assert post(owner, own).status_code == 422
    invited(owner, "Zoë", "owner")
    assert post(owner, own).status_code == 303
    assert name_of(owner) is None


TAKEN = [
    "owner",
    "OWNER",
    " owner ",
    "\uff4fwner",
    "local",
    "API",
    "",
    "a\nb",
    "ângela",
    "ÂNGELA",
    "a\u0302ngela",
    "\uff21\u0302ngela",
    "Ân\u00adgela",
    "Ângela\u200b",
]


def test_nobody_takes_a_name_that_looks_the_same(
    shared: world.Shared, owner: TestClient
) -> None:
    assert name_of(entered(shared, invited(owner, "Ângela"))) == "Ângela"
    for name in TAKEN:
        expect(post(owner, EXPERTS, name=name), 422)
    assert "is taken" in post(owner, EXPERTS, name="ângela").text


def test_nobody_is_sent_to_the_sign_in_page(shared: world.Shared) -> None:
    sent = shared.browser().get("/judges/tone/review?x=1", follow_redirects=False)
    expect(sent, 303)
    back = "%2Fjudges%2Ftone%2Freview%3Fx%3D1"
    assert sent.headers["location"] == f"/sign-in?back={back}"


@world.ON_BOTH
def test_a_session_ends_in_the_database(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    stolen = str(browser.cookies[COOKIE])
    assert name_of(shared.browser(cookies={COOKIE: stolen})) == "reviewer"
    assert post(browser, "/sign-out").status_code == 303
    assert name_of(shared.browser(cookies={COOKIE: stolen})) is None


def test_a_reviewer_whom_the_command_makes_an_owner_is_one_at_once(
    shared: world.Shared,
) -> None:
    browser = shared.signed_in("reviewer")
    assert browser.get("/judges/tone/setup").status_code == 403
    url = shared.server.registry.url
    invoke("serve --add-owner Reviewer --registry", url, code=0)
    assert browser.get("/judges/tone/setup").status_code == 200


@pytest.mark.parametrize(
    ("public_url", "is_secure"),
    [(None, False), (world.ADDRESS.replace("http", "https"), True)],
)
def test_the_cookie_is_hidden_from_scripts_and_sites(
    place: str, public_url: str | None, is_secure: bool
) -> None:
    with world.shared_server(place, public_url=public_url) as site:
        entering = post(site.browser(), world.link(place, "owner"))
    cookie = set(entering.headers["set-cookie"].split("; "))
    assert cookie >= {"HttpOnly", "SameSite=lax"}
    assert ("Secure" in cookie) == is_secure, "over TLS it stays there"


def test_a_session_that_was_planted_is_not_kept(
    shared: world.Shared, owner: TestClient
) -> None:
    # Fixation: an attacker's cookie must not become the victim's, and ends where the victim
    # comes in.
    attacker = shared.signed_in("reviewer")
    planted = str(attacker.cookies[COOKIE])
    victim = shared.browser(cookies={COOKIE: planted})
    post(victim, invited(owner, "Zoë"))
    assert victim.cookies.get(COOKIE, domain="127.0.0.1") != planted
    assert name_of(attacker) is None


def test_a_secret_that_is_shown_once_is_stored_nowhere(
    shared: world.Shared, owner: TestClient
) -> None:
    secrets = [invited(owner, "Zoë").rpartition("/")[2], str(owner.cookies[COOKIE])]
    assert min(map(len, secrets)) > 40  # 256 bits
    assert world.tables_with(shared.server.registry.url, *secrets) == set()


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\evil.example", "/a\r\nx: y"]
)
def test_signing_in_leads_to_no_other_site(back: str) -> None:
    assert inside(back) == "/"


OTHER_SITES = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:8322"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


def test_another_site_does_nothing(
    shared: world.Shared, owner: TestClient, tmp_path: Path
) -> None:
    path = invited(owner, "Zoë")
    for headers in OTHER_SITES:
        for place in (EXPERTS, ALIGN, "/sign-out"):
            expect(owner.post(place, headers=headers), 403, "another site")
        # Nor does it sign anybody in as another.
        expect(shared.browser().post(path, headers=headers), 403)
    expect(owner.post(ALIGN, json={}, headers={"origin": world.ADDRESS}), 202)
    (tmp_path / "open").mkdir()
    with world.site(tmp_path / "open") as local:  # nor on a server without people
        for headers in OTHER_SITES:
            expect(local.post(ALIGN, json={}, headers=headers), 403)
        expect(local.post(ALIGN, json={}), 202)


def test_behind_a_proxy_its_own_address_is_no_other_site(place: str) -> None:
    with world.shared_server(place, public_url="https://127.0.0.1") as site:
        browser = site.browser(follow_redirects=False)
        other = browser.post("/sign-out", headers={"origin": "https://judges.example"})
        own = browser.post("/sign-out", headers={"origin": "https://127.0.0.1"})
    assert (other.status_code, own.status_code) == (403, 303)


def test_the_token_of_programs_is_good_from_anywhere_and_no_other_is(
    shared: world.Shared,
    owner: TestClient,
) -> None:
    elsewhere = {"origin": "https://elsewhere.example"}
    expect(shared.program().post(ALIGN, json={}, headers=elsewhere), 202)
    for value in (f"Bearer {world.TOKEN[:-1]}", "Bearer ", f"Basic {world.TOKEN}"):
        for client in (shared.browser(), owner):  # whose cookie helps no wrong token
            expect(client.get(JUDGES, headers={"authorization": value}), 401)


SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
}


def test_everything_is_open_on_this_machine_and_safe(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get(JUDGES).json()] == ["tone"]
    # A name that is rebound.
    expect(local.get(JUDGES, headers={"host": "evil.example"}), 421)
    for path in ("/health", JUDGES, "/nowhere"):
        headers = local.get(path).headers
        assert SAFE.items() <= headers.items()
        policy = headers["content-security-policy"].split("; ")
        assert {
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        } <= {*policy}


def test_with_its_first_owner_this_machine_is_let_in_no_more(local: TestClient) -> None:
    with world.server_of(local).store.write() as connection:
        owner_link(connection, "ana")
    for path in ("/judges/tone/review", JUDGES):
        expect(local.get(path, headers={"accept": "application/json"}), 401)


@pytest.mark.parametrize("path", ["/health", "/api/v1/judges", "/judges/tone/review"])
def test_a_database_that_is_down_may_answer_later(
    path: str, local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_store: Store) -> AbstractContextManager[None]:
        raise RegistryError("postgresql://olga@db.internal is down")

    monkeypatch.setattr(Store, "read", down)
    answer = local.get(path, headers={"accept": "text/html"})
    page = expect(answer, 503, "the database does not answer just now")
    assert "db.internal" not in page


def test_nobody_is_added_by_a_page_of_an_open_server(local: TestClient) -> None:
    for name, role in (("ana", "reviewer"), ("ana", "owner"), ("local", "owner")):
        added = post(local, EXPERTS, name=name, role=role)
        expect(added, 409, "memalign serve --add-owner NAME")
    open_to = "Everybody on this machine can use this server"
    page = expect(local.get(SETUP), 200, open_to, "memalign serve --add-owner")
    assert "Make a link" not in page


def test_a_proxy_opens_no_server_without_people(local: TestClient) -> None:
    for header in (
        "forwarded",
        *map("x-forwarded-{}".format, ("for", "host", "proto")),
    ):
        for path in ("/", "/judges/tone/review", "/api/v1/judges"):
            headers = {header: "for=203.0.113.7", "host": "127.0.0.1:8321"}
            expect(local.get(path, headers=headers), 403, "memalign serve --add-owner")


def test_a_bare_proxy_opens_no_server_without_people(place: str) -> None:
    # nginx, unless it is told otherwise, speaks HTTP/1.0, names the server itself, and adds
    # no header.
    with world.listening(world.server(place)) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            lines = ("GET / HTTP/1.0", f"Host: {host}:{port}", "Connection: close")
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            refused = b"".join(iter(lambda: connection.recv(65536), b""))
    assert refused.split(b"\r\n")[0].endswith(b"403 Forbidden")
    assert b"memalign serve --add-owner" in refused


SPELLINGS = [
    "José",
    "Jose\u0301",
    " JOSÉ",
    "\uff2a\uff4f\uff53\uff45\u0301",
    "jo\u00ads\u00e9",
    "José\u200b",
]
"""Of one name: composed, decomposed, capitals, wide letters, a hidden hyphen, a blank without
width."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_a_person_withdraws_or_erases_goes_however_they_are_spelled(
    spelling: str, shared: world.Shared, owner: TestClient
) -> None:
    program = shared.program()
    jose = entered(shared, invited(owner, "José"))
    put_in(owner)
    answer(jose, "late", value="false", rationale="It shows no sympathy.")
    work(owner, "teach")
    begun = call(program, "unalign", source=spelling)
    assert ended(program, begun.json())["state"] == "done"
    assert world.answer_row(owner, "late", "José").state == "undone"
    answer(jose, "late", value="false", rationale="It shows no sympathy.")
    work(owner, "teach")
    page = post(owner, "/judges/tone/find", matching=spelling).text
    tick = re.findall(r'value="([^"]+)"\s+checked', page)
    receipt = work(owner, "erase", matching=spelling, tick=tick)
    assert "Erased for good" in receipt
    assert world.tables_with(shared.server.registry.url, "José", "no sympathy") == set()
