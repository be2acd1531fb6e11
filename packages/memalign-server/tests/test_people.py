"""Links, sessions, the token of programs and requests of other sites, attacked."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select, update

from memalign.errors import RegistryError
from memalign_server.pages.people import inside
from memalign_server.people.access import COOKIE
from memalign_server.people.people import owner_link
from memalign_server.store import Store
from memalign_server.store.tables import people, sessions
from server_support import world
from server_support.reviewing import answer, post, put_in
from tests.cli.conftest import invoke

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi.testclient import TestClient

JUDGES = "/api/v1/judges"
EXPERTS = "/judges/tone/experts"
SETUP = "/judges/tone/setup?open=experts"


def name_of(browser: TestClient) -> str | None:
    """Who a browser is for the server, and None for nobody."""
    page = browser.get("/account", headers={"accept": "text/html"}, follow_redirects=False)
    return next(iter(re.findall("<h1>(.*?)</h1>", page.text)), None)


def members(page: Any) -> dict[str, str]:
    """The ids of the people on the page, by name."""
    rows = re.findall(r"<b>([^<]+)</b>(?:(?!<b>).)*?/experts/(\w+)/link", page.text, re.DOTALL)
    return dict(rows)


def link_on(page: Any) -> str:
    (path,) = re.findall(rf"<code>{world.ADDRESS}(/join/[^<]+)</code>", page.text)
    return str(path)


def invited(owner: TestClient, name: str, role: str = "reviewer") -> str:
    return link_on(post(owner, EXPERTS, name=name, role=role))


def entered(shared: world.Shared, path: str) -> TestClient:
    browser = shared.browser()
    assert browser.post(path, follow_redirects=False).headers["location"] == "/"
    return browser


# -- links -------------------------------------------------------------------------------------------------------------


def test_a_link_lets_one_person_in_once(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    assert "Go on as Zoë" in shared.browser().get(path).text  # whoever only looks does not use it up
    browser = entered(shared, path)
    assert name_of(browser) == "Zoë"
    for again in (shared.browser().get(path), shared.browser().post(path)):
        assert (again.status_code, "ask an owner for a new one" in again.text) == (404, True)
    assert browser.get(path).url.path == "/", "who is in already just goes on"


@world.ON_BOTH
def test_a_link_used_twice_at_once_admits_one(shared: world.Shared) -> None:
    path, statuses = invited(shared.signed_in("owner"), "Zoë"), list[int]()
    browsers = [shared.browser() for _ in range(6)]

    def take(browser: TestClient) -> None:
        statuses.append(browser.post(path, follow_redirects=False).status_code)

    threads = [threading.Thread(target=take, args=(browser,)) for browser in browsers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [303] + [404] * 5


def test_a_new_link_takes_the_place_of_the_old_one(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    first = invited(owner, "Zoë")
    second = link_on(post(owner, f"{EXPERTS}/{members(owner.get(SETUP))['Zoë']}/link"))
    assert shared.browser().post(first).status_code == 404
    browser = entered(shared, second)
    third = link_on(post(owner, f"{EXPERTS}/{members(owner.get(SETUP))['Zoë']}/link"))
    assert name_of(entered(shared, third)) == "Zoë"  # on another machine
    assert name_of(browser) == "Zoë"


def test_a_link_is_good_for_a_week_and_a_session_for_ninety_days(shared: world.Shared) -> None:
    browser = shared.signed_in("owner")
    path = invited(browser, "Zoë")
    for column, days in ((people.c.link_until, 7), (sessions.c.expires_at, 90)):
        with shared.server.store.read() as connection:
            ends = [datetime.fromisoformat(text) for text in connection.execute(select(column)).scalars() if text]
        assert {round((end - datetime.now(UTC)) / timedelta(days=1)) for end in ends} == {days}
        with shared.server.store.write() as connection:
            connection.execute(update(column.table).values({column: "2026-01-01T00:00:00.000000+00:00"}))
    assert shared.browser().post(path).status_code == 404
    assert browser.get(JUDGES).status_code == 401


@world.ON_BOTH
def test_who_is_removed_is_out_and_finds_their_answers_again(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    put_in(owner)
    browser = entered(shared, invited(owner, "Zoë"))
    answer(browser, "late", value="false", rationale="Cold.")
    waiting = link_on(post(owner, f"{EXPERTS}/{members(owner.get(SETUP))['Zoë']}/link"))
    post(owner, f"{EXPERTS}/{members(owner.get(SETUP))['Zoë']}/remove")
    assert name_of(browser) is None
    assert shared.browser().post(waiting).status_code == 404
    again = entered(shared, invited(owner, "ZOE\u0308"))
    assert name_of(again) == "Zoë"
    assert "Cold." in again.get("/judges/tone/review?case=late").text


def test_a_team_keeps_an_owner(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    own = members(owner.get(SETUP))["owner"]
    assert post(owner, f"{EXPERTS}/{own}/remove").status_code == 422
    invited(owner, "Zoë", "owner")
    assert post(owner, f"{EXPERTS}/{own}/remove").status_code == 303
    assert name_of(owner) is None


TAKEN = ["owner", "OWNER", " owner ", "\uff4fwner", "local", "API", "", "a\nb"]
TAKEN += ["ângela", "ÂNGELA", "a\u0302ngela", "\uff21\u0302ngela"]  # a capital beyond English is the same letter


def test_nobody_takes_a_name_that_looks_the_same(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    assert name_of(entered(shared, invited(owner, "Ângela"))) == "Ângela"
    assert {name: post(owner, EXPERTS, name=name).status_code for name in TAKEN} == dict.fromkeys(TAKEN, 422)
    assert "is taken" in post(owner, EXPERTS, name="ângela").text


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_nobody_is_sent_to_the_sign_in_page(shared: world.Shared) -> None:
    sent = shared.browser().get("/judges/tone/review?x=1", follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?back=%2Fjudges%2Ftone%2Freview%3Fx%3D1")


@world.ON_BOTH
def test_a_session_ends_in_the_database(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    stolen = str(browser.cookies[COOKIE])
    assert name_of(shared.browser(cookies={COOKIE: stolen})) == "reviewer"
    assert post(browser, "/sign-out").status_code == 303
    assert name_of(shared.browser(cookies={COOKIE: stolen})) is None


def test_a_reviewer_whom_the_command_makes_an_owner_is_one_at_once(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    assert browser.get("/judges/tone/setup").status_code == 403
    added = invoke("serve", "--add-owner", "Reviewer", "--registry", shared.server.registry.url)
    assert added.code == 0
    assert browser.get("/judges/tone/setup").status_code == 200


def test_the_cookie_is_hidden_from_scripts_and_sites(tmp_path: Path) -> None:
    for public_url, is_secure in ((None, False), (world.ADDRESS.replace("http", "https"), True)):
        folder = tmp_path / str(is_secure)
        folder.mkdir()
        with world.shared_server(folder, public_url=public_url) as site:
            path = world.link(site.server.registry.url, "owner")
            cookie = site.browser().post(path, follow_redirects=False).headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=lax"} <= set(cookie)
        assert ("Secure" in cookie) == is_secure, "over TLS it stays there"


def test_a_session_that_was_planted_is_not_kept(shared: world.Shared) -> None:
    # Fixation: an attacker's cookie must not become the victim's, and ends where the victim comes in.
    attacker = shared.signed_in("reviewer")
    planted = str(attacker.cookies[COOKIE])
    victim = shared.browser(cookies={COOKIE: planted})
    victim.post(invited(shared.signed_in("owner"), "Zoë"), follow_redirects=False)
    assert victim.cookies.get(COOKIE, domain="127.0.0.1") != planted
    assert name_of(attacker) is None


def test_a_secret_that_is_shown_once_is_stored_nowhere(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    secrets = [invited(owner, "Zoë").rpartition("/")[2], str(owner.cookies[COOKIE])]
    assert [len(secret) > 40 for secret in secrets] == [True] * 2  # 256 bits
    assert world.tables_with(shared.server.registry.url, *secrets) == set()


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/\\evil.example", "/a\r\nx: y"])
def test_signing_in_leads_to_no_other_site(back: str) -> None:
    assert inside(back) == "/"


# -- requests of other sites -------------------------------------------------------------------------------------------


def test_another_site_does_nothing(shared: world.Shared, tmp_path: Path) -> None:
    owner, nobody, path = shared.signed_in("owner"), shared.browser(), invited(shared.signed_in("owner"), "Zoë")
    (tmp_path / "open").mkdir()
    world.registry(tmp_path / "open")
    with world.client(tmp_path / "open") as local:
        for headers in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:8322"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
        ):
            for place in (EXPERTS, f"{JUDGES}/tone/teach", "/sign-out"):
                refused = owner.post(place, headers=headers, follow_redirects=False)
                assert (refused.status_code, "another site" in refused.text) == (403, True), place
            assert nobody.post(path, headers=headers).status_code == 403  # nor signs anybody in as another
            assert local.post(f"{JUDGES}/tone/teach", headers=headers).status_code == 403, "nor on an open server"
        assert local.post(f"{JUDGES}/tone/teach").status_code == 202
    assert owner.post(f"{JUDGES}/tone/teach", headers={"origin": world.ADDRESS}).status_code == 202


def test_behind_a_proxy_its_own_address_is_no_other_site(tmp_path: Path) -> None:
    with world.shared_server(tmp_path, public_url="https://127.0.0.1") as site:
        origin = {"origin": "https://judges.example"}
        assert site.browser().post("/sign-out", headers=origin, follow_redirects=False).status_code == 403
        assert (
            site.browser()
            .post("/sign-out", headers={"origin": "https://127.0.0.1"}, follow_redirects=False)
            .status_code
            == 303
        )


# -- programs ----------------------------------------------------------------------------------------------------------


def test_the_token_of_programs_opens_the_api_and_no_page(shared: world.Shared) -> None:
    program = shared.program()
    assert program.get(JUDGES).status_code == 200
    for path in ("/account", "/judges/tone/review"):
        assert program.get(path, follow_redirects=False).status_code in (303, 401)
    assert program.post(f"{JUDGES}/tone/teach", headers={"origin": "https://elsewhere.example"}).status_code == 202
    owner = shared.signed_in("owner")
    for value in (f"Bearer {world.TOKEN[:-1]}", "Bearer ", f"Basic {world.TOKEN}"):
        for client in (shared.browser(), owner):  # whose cookie helps no wrong token
            assert client.get(JUDGES, headers={"authorization": value}).status_code == 401


# -- a server without people: open to this machine, and to nobody who pretends to be on it ----------------------------


def test_everything_is_open_on_this_machine_and_safe(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get("/api/v1/judges").json()] == ["tone"]
    assert local.get("/api/v1/judges", headers={"host": "evil.example"}).status_code == 421, "a name that is rebound"
    for path in ("/health", "/api/v1/judges", "/nowhere"):
        headers = local.get(path).headers
        policy = set(headers["content-security-policy"].split("; "))
        assert policy >= {"default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"}
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")


def test_with_its_first_owner_this_machine_is_let_in_no_more(local: TestClient) -> None:
    application: Any = local.app
    with application.state.server.store.write() as connection:
        owner_link(connection, "ana")
    for path in ("/judges/tone/review", JUDGES):
        assert local.get(path, headers={"accept": "application/json"}).status_code == 401


@pytest.mark.parametrize("path", ["/health", "/api/v1/judges", "/judges/tone/review"])
def test_a_database_that_is_down_may_answer_later(
    path: str, local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_store: Store) -> AbstractContextManager[None]:
        raise RegistryError("postgresql://olga@db.internal is down")

    monkeypatch.setattr(Store, "read", down)
    answer = local.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, "the database does not answer just now" in answer.text) == (503, True)
    assert "db.internal" not in answer.text


def test_nobody_is_added_by_a_page_of_an_open_server(local: TestClient) -> None:
    for name, role in (("ana", "reviewer"), ("ana", "owner"), ("local", "owner")):
        refused = local.post("/judges/tone/experts", data={"name": name, "role": role})
        assert (refused.status_code, "memalign serve --add-owner NAME" in refused.text) == (409, True)
    page = local.get("/judges/tone/setup?open=experts").text
    assert "Everybody on this machine can use this server" in page
    assert ("memalign serve --add-owner" in page, "Make a link" in page) == (True, False)


def test_a_proxy_opens_no_server_without_people(local: TestClient) -> None:
    for header in ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"):
        for path in ("/", "/judges/tone/review", "/api/v1/judges"):
            refused = local.get(path, headers={header: "for=203.0.113.7", "host": "127.0.0.1:8321"})
            assert (refused.status_code, "memalign serve --add-owner" in refused.text) == (403, True), path


def test_a_bare_proxy_opens_no_server_without_people(tmp_path: Path) -> None:
    # nginx, unless it is told otherwise, speaks HTTP/1.0, names the server itself, and adds no header.
    world.registry(tmp_path)
    with world.listening(world.server(tmp_path)) as address:
        place = urlsplit(address)
        with socket.create_connection((str(place.hostname), place.port or 80)) as connection:
            connection.sendall(f"GET / HTTP/1.0\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n".encode())
            refused = b"".join(iter(lambda: connection.recv(65536), b""))
    assert refused.split(b"\r\n")[0].endswith(b"403 Forbidden")
    assert b"memalign serve --add-owner" in refused
