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
from server_support.reviewing import answer, ended, expect, post, put_in, wait
from tests.cli.conftest import invoke

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

JUDGES = "/api/v1/judges"
EXPERTS = "/judges/tone/experts"
SETUP = "/judges/tone/setup?open=experts"


def name_of(browser: TestClient) -> str | None:
    """Who a browser is for the server, and None for nobody."""
    page = browser.get(
        "/account", headers={"accept": "text/html"}, follow_redirects=False
    )
    return next(iter(re.findall("<h1>(.*?)</h1>", page.text)), None)


def path_of(owner: TestClient, name: str) -> str:
    """Where an owner's page changes somebody who is on it."""
    (path,) = re.findall(
        rf"<b>{name}</b>(?:(?!<b>).)*?({EXPERTS}/\w+)/link",
        owner.get(SETUP).text,
        re.DOTALL,
    )
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
    shared: world.Shared, name: str, status: int
) -> None:
    owner = shared.signed_in("owner")
    added = owner.post(EXPERTS, data={"name": name, "role": "reviewer"})
    assert added.status_code == status
    assert (name in owner.get(EXPERTS).text) == (status == 200)


def test_a_link_lets_one_person_in_once(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    assert (
        "Go on as Zoë" in shared.browser().get(path).text
    )  # whoever only looks does not use it up
    browser = entered(shared, path)
    assert name_of(browser) == "Zoë"
    for again in (shared.browser().get(path), shared.browser().post(path)):
        expect(again, 404, "ask an owner for a new one")
    assert browser.get(path).url.path == "/", "who is in already just goes on"


@world.ON_BOTH
def test_a_link_used_twice_at_once_admits_one(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    browsers = [shared.browser() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        statuses = pool.map(
            lambda browser: browser.post(path, follow_redirects=False).status_code,
            browsers,
        )
    assert sorted(statuses) == [303] + [404] * 5


def test_a_new_link_takes_the_place_of_the_old_one(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    first = invited(owner, "Zoë")
    second = link_on(post(owner, f"{path_of(owner, 'Zoë')}/link"))
    assert shared.browser().post(first).status_code == 404
    browser = entered(shared, second)
    third = link_on(post(owner, f"{path_of(owner, 'Zoë')}/link"))
    assert name_of(entered(shared, third)) == "Zoë"  # on another machine
    assert name_of(browser) == "Zoë"


def test_a_link_is_good_for_a_week_and_a_session_for_ninety_days(
    shared: world.Shared,
) -> None:
    browser = shared.signed_in("owner")
    path = invited(browser, "Zoë")
    for column, days in ((people.c.link_until, 7), (sessions.c.expires_at, 90)):
        ends = [
            datetime.fromisoformat(text)
            for (text,) in world.stored(browser, select(column))
            if text
        ]
        assert {
            round((end - datetime.now(UTC)) / timedelta(days=1)) for end in ends
        } == {days}
        world.change(
            browser,
            update(column.table).values({column: "2026-01-01T00:00:00.000000+00:00"}),
        )
    assert shared.browser().post(path).status_code == 404
    assert browser.get(JUDGES).status_code == 401


@world.ON_BOTH
def test_who_is_removed_is_out_and_finds_their_answers_again(
    shared: world.Shared,
) -> None:
    owner = shared.signed_in("owner")
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


def test_a_team_keeps_an_owner(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    own = f"{path_of(owner, 'owner')}/remove"
    assert post(owner, own).status_code == 422
    invited(owner, "Zoë", "owner")
    assert post(owner, own).status_code == 303
    assert name_of(owner) is None


TAKEN = ["owner", "OWNER", " owner ", "\uff4fwner", "local", "API", "", "a\nb"]
TAKEN += [
    "ângela",
    "ÂNGELA",
    "a\u0302ngela",
    "\uff21\u0302ngela",
    "Ân\u00adgela",
    "Ângela\u200b",
]  # a capital beyond English is the same letter


def test_nobody_takes_a_name_that_looks_the_same(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    assert name_of(entered(shared, invited(owner, "Ângela"))) == "Ângela"
    assert {
        name: post(owner, EXPERTS, name=name).status_code for name in TAKEN
    } == dict.fromkeys(TAKEN, 422)
    assert "is taken" in post(owner, EXPERTS, name="ângela").text


def test_nobody_is_sent_to_the_sign_in_page(shared: world.Shared) -> None:
    sent = shared.browser().get("/judges/tone/review?x=1", follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (
        303,
        "/sign-in?back=%2Fjudges%2Ftone%2Freview%3Fx%3D1",
    )


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
    invoke(
        "serve",
        "--add-owner",
        "Reviewer",
        "--registry",
        shared.server.registry.url,
        code=0,
    )
    assert browser.get("/judges/tone/setup").status_code == 200


@pytest.mark.parametrize(
    ("public_url", "is_secure"),
    [(None, False), (world.ADDRESS.replace("http", "https"), True)],
)
def test_the_cookie_is_hidden_from_scripts_and_sites(
    place: str, public_url: str | None, is_secure: bool
) -> None:
    with world.shared_server(place, public_url=public_url) as site:
        entering = site.browser().post(
            world.link(place, "owner"), follow_redirects=False
        )
    cookie = set(entering.headers["set-cookie"].split("; "))
    assert cookie >= {"HttpOnly", "SameSite=lax"}
    assert ("Secure" in cookie) == is_secure, "over TLS it stays there"


def test_a_session_that_was_planted_is_not_kept(shared: world.Shared) -> None:
    # Fixation: an attacker's cookie must not become the victim's, and ends where the victim
    # comes in.
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


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\evil.example", "/a\r\nx: y"]
)
def test_signing_in_leads_to_no_other_site(back: str) -> None:
    assert inside(back) == "/"


OTHER_SITES = [
    *(
        {"origin": origin}
        for origin in ("https://evil.example", "null", "http://127.0.0.1:8322")
    ),
    *({"sec-fetch-site": site} for site in ("cross-site", "same-site")),
]


def test_another_site_does_nothing(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    path = invited(shared.signed_in("owner"), "Zoë")
    for headers in OTHER_SITES:
        for place in (EXPERTS, f"{JUDGES}/tone/align", "/sign-out"):
            expect(
                owner.post(place, headers=headers, follow_redirects=False),
                403,
                "another site",
            )
        assert (
            shared.browser().post(path, headers=headers).status_code == 403
        )  # nor signs anybody in as another
    assert (
        owner.post(
            f"{JUDGES}/tone/align", json={}, headers={"origin": world.ADDRESS}
        ).status_code
        == 202
    )


def test_another_site_does_nothing_on_an_open_server(local: TestClient) -> None:
    for headers in OTHER_SITES:
        assert (
            local.post(f"{JUDGES}/tone/align", json={}, headers=headers).status_code
            == 403
        )
    assert local.post(f"{JUDGES}/tone/align", json={}).status_code == 202


def test_behind_a_proxy_its_own_address_is_no_other_site(place: str) -> None:
    with world.shared_server(place, public_url="https://127.0.0.1") as site:
        for origin, status in (
            ("https://judges.example", 403),
            ("https://127.0.0.1", 303),
        ):
            sent = site.browser().post(
                "/sign-out", headers={"origin": origin}, follow_redirects=False
            )
            assert sent.status_code == status


def test_the_token_of_programs_is_good_from_anywhere_and_no_other_is(
    shared: world.Shared,
) -> None:
    elsewhere = {"origin": "https://elsewhere.example"}
    assert (
        shared.program()
        .post(f"{JUDGES}/tone/align", json={}, headers=elsewhere)
        .status_code
        == 202
    )
    owner = shared.signed_in("owner")
    for value in (f"Bearer {world.TOKEN[:-1]}", "Bearer ", f"Basic {world.TOKEN}"):
        for client in (shared.browser(), owner):  # whose cookie helps no wrong token
            assert (
                client.get(JUDGES, headers={"authorization": value}).status_code == 401
            )


def test_everything_is_open_on_this_machine_and_safe(local: TestClient) -> None:
    assert local.get("/health").json() == {"status": "ok"}
    assert [judge["name"] for judge in local.get("/api/v1/judges").json()] == ["tone"]
    assert (
        local.get("/api/v1/judges", headers={"host": "evil.example"}).status_code == 421
    ), "a name that is rebound"
    for path in ("/health", "/api/v1/judges", "/nowhere"):
        headers = local.get(path).headers
        policy = set(headers["content-security-policy"].split("; "))
        assert policy >= {
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        }
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == (
            "nosniff",
            "DENY",
        )
        assert (headers["cache-control"], headers["referrer-policy"]) == (
            "no-store",
            "same-origin",
        )


def test_with_its_first_owner_this_machine_is_let_in_no_more(local: TestClient) -> None:
    with world.server_of(local).store.write() as connection:
        owner_link(connection, "ana")
    for path in ("/judges/tone/review", JUDGES):
        assert (
            local.get(path, headers={"accept": "application/json"}).status_code == 401
        )


@pytest.mark.parametrize("path", ["/health", "/api/v1/judges", "/judges/tone/review"])
def test_a_database_that_is_down_may_answer_later(
    path: str, local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_store: Store) -> AbstractContextManager[None]:
        raise RegistryError("postgresql://olga@db.internal is down")

    monkeypatch.setattr(Store, "read", down)
    page = expect(
        local.get(path, headers={"accept": "text/html"}),
        503,
        "the database does not answer just now",
    )
    assert "db.internal" not in page


def test_nobody_is_added_by_a_page_of_an_open_server(local: TestClient) -> None:
    for name, role in (("ana", "reviewer"), ("ana", "owner"), ("local", "owner")):
        expect(
            post(local, EXPERTS, name=name, role=role),
            409,
            "memalign serve --add-owner NAME",
        )
    words = (
        "Everybody on this machine can use this server",
        "memalign serve --add-owner",
    )
    assert "Make a link" not in expect(local.get(SETUP), 200, *words)


def test_a_proxy_opens_no_server_without_people(local: TestClient) -> None:
    for header in (
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
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
            connection.sendall(
                f"GET / HTTP/1.0\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
            )
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
def test_what_a_person_withdraws_goes_however_they_are_spelled(
    spelling: str, shared: world.Shared
) -> None:
    owner = shared.signed_in("owner")
    program = shared.program()
    jose = entered(shared, invited(owner, "José"))
    put_in(owner)
    answer(jose, "late", value="false", rationale="It shows no sympathy.")
    post(owner, "/judges/tone/teach")
    wait(owner)
    begun = program.post(f"{JUDGES}/tone/unalign", json={"source": spelling})
    assert ended(program, begun.json())["state"] == "done"
    assert world.answer_row(owner, "late", "José").state == "undone"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_person_is_erased_from_the_servers_tables_in_every_spelling(
    spelling: str, shared: world.Shared
) -> None:
    owner = shared.signed_in("owner")
    jose = entered(shared, invited(owner, "José"))
    put_in(owner)
    answer(jose, "late", value="false", rationale="It shows no sympathy.")
    post(jose, "/judges/tone/teach")
    wait(owner)
    page = post(owner, "/judges/tone/find", matching=spelling).text
    begun = post(
        owner,
        "/judges/tone/erase",
        matching=spelling,
        tick=re.findall(r'value="([^"]+)"\s+checked', page),
    )
    wait(owner)
    assert "Erased for good" in owner.get(begun.headers["location"]).text
    assert world.tables_with(shared.server.registry.url, "José", "no sympathy") == set()
