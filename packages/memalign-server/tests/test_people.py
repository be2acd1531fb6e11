"""Links, sessions, the token of programs and requests of other sites, attacked."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, update

from memalign_server.pages.people import inside
from memalign_server.people.access import COOKIE
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


def ages(shared: world.Shared, column: Any, days: int) -> None:
    then = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="microseconds")
    with shared.server.store.write() as connection:
        connection.execute(update(column.table).values({column: then}))


# -- links -------------------------------------------------------------------------------------------------------------


def test_a_link_lets_one_person_in_once(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    assert "Go on as Zoë" in shared.browser().get(path).text  # whoever only looks does not use it up
    browser = entered(shared, path)
    assert name_of(browser) == "Zoë"
    for again in (shared.browser().get(path), shared.browser().post(path)):
        assert (again.status_code, "ask an owner for a new one" in again.text) == (404, True)
    assert browser.get(path).url.path == "/", "who is in already just goes on"


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


def test_a_link_is_good_for_a_week(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    with shared.server.store.read() as connection:
        query = select(people.c.link_until).where(people.c.name == "Zoë")
        until = datetime.fromisoformat(str(connection.execute(query).scalar_one()))
    assert timedelta(days=6) < until - datetime.now(UTC) < timedelta(days=8)
    ages(shared, people.c.link_until, -1)
    assert shared.browser().post(path).status_code == 404


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


@pytest.mark.parametrize("name", ["owner", "OWNER", " owner ", "\uff4fwner", "local", "API", "", "a\nb"])
def test_nobody_takes_a_name_that_looks_the_same(shared: world.Shared, name: str) -> None:
    assert post(shared.signed_in("owner"), EXPERTS, name=name).status_code == 422


@pytest.mark.parametrize("spelled", ["ângela", "ÂNGELA", "a\u0302ngela", "\uff21\u0302ngela"])
def test_a_capital_beyond_english_is_the_same_letter(shared: world.Shared, spelled: str) -> None:
    owner = shared.signed_in("owner")
    assert name_of(entered(shared, invited(owner, "Ângela"))) == "Ângela"
    second = post(owner, EXPERTS, name=spelled)
    assert (second.status_code, "is taken" in second.text) == (422, True)


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_nobody_is_sent_to_the_sign_in_page(shared: world.Shared) -> None:
    sent = shared.browser().get("/judges/tone/review?x=1", follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?back=%2Fjudges%2Ftone%2Freview%3Fx%3D1")


def test_a_session_ends_in_the_database(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    stolen = str(browser.cookies[COOKIE])
    assert name_of(shared.browser(cookies={COOKIE: stolen})) == "reviewer"
    assert post(browser, "/sign-out").status_code == 303
    assert name_of(shared.browser(cookies={COOKIE: stolen})) is None


def test_a_session_lasts_ninety_days(shared: world.Shared) -> None:
    browser = shared.signed_in("owner")
    with shared.server.store.read() as connection:
        until = datetime.fromisoformat(str(connection.execute(select(sessions.c.expires_at)).scalar()))
    assert timedelta(days=89) < until - datetime.now(UTC) < timedelta(days=91)
    ages(shared, sessions.c.expires_at, -1)
    assert browser.get(JUDGES).status_code == 401


def test_a_reviewer_whom_the_command_makes_an_owner_is_one_at_once(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    assert browser.get("/judges/tone/setup").status_code == 403
    added = invoke("serve", "--add-owner", "Reviewer", "--registry", shared.server.registry.url)
    assert added.code == 0
    assert browser.get("/judges/tone/setup").status_code == 200


def test_the_cookie_is_hidden_from_scripts_and_sites(shared: world.Shared) -> None:
    path = invited(shared.signed_in("owner"), "Zoë")
    cookie = shared.browser().post(path, follow_redirects=False).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie  # this request came without TLS


def test_over_tls_the_cookie_stays_there(tmp_path: Path) -> None:
    with world.shared_server(tmp_path, public_url=world.ADDRESS.replace("http", "https")) as site:
        path = world.link(site.server.registry.url, "owner")
        assert "Secure" in site.browser().post(path, follow_redirects=False).headers["set-cookie"]


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


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8322"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_another_site_does_nothing(shared: world.Shared, headers: dict[str, str]) -> None:
    owner, nobody = shared.signed_in("owner"), shared.browser()
    for path in (EXPERTS, f"{JUDGES}/tone/teach"):
        refused = owner.post(path, headers=headers)
        assert (refused.status_code, "another site" in refused.text) == (403, True), path
    assert nobody.post(invited(owner, "Zoë"), headers=headers).status_code == 403  # nor signs anybody in as another
    assert owner.post("/sign-out", headers=headers, follow_redirects=False).status_code == 403
    assert owner.post(f"{JUDGES}/tone/teach", headers={"origin": world.ADDRESS}).status_code == 202


def test_another_site_does_nothing_on_an_open_server(local: TestClient) -> None:
    refused = local.post(f"{JUDGES}/tone/teach", headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    assert local.post(f"{JUDGES}/tone/teach").status_code == 202


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


def test_no_other_token_is_the_servers(tmp_path: Path) -> None:
    token = "0123456789abcdef" * 4
    with world.shared_server(tmp_path, api_token=token) as site:
        for given, status in ((token, 200), (token[:-1], 401), ("", 401)):
            assert site.browser().get(JUDGES, headers={"authorization": f"Bearer {given}"}).status_code == status
        assert site.browser().get(JUDGES, headers={"authorization": f"Basic {token}"}).status_code == 401


def test_a_cookie_helps_no_wrong_token(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    assert owner.get(JUDGES, headers={"authorization": "Bearer memalign_wrong"}).status_code == 401
