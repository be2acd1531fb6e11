"""Sessions, forms, sign-ins and invitations, attacked."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import MetaData, func, select, update

from memalign_server.people.sessions import COOKIE
from memalign_server.people.throttle import WINDOW
from memalign_server.store.people_tables import attempts, sessions, tokens, users
from server_support import world

API = "/api/v1/judges"
WRONG = "four other words 9"


def cookie_of(browser: world.Browser) -> str:
    found = browser.cookies.get(COOKIE)
    assert found
    return str(found)


# -- sessions ------------------------------------------------------------------------------------------------------


def test_nobody_is_sent_to_the_sign_in_page(shared: world.Shared) -> None:
    answer = shared.browser().get("/judges/tone/review?x=1", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?back=%2Fjudges%2Ftone%2Freview%3Fx%3D1"


def test_signing_in_and_out(shared: world.Shared) -> None:
    browser = shared.signed_in("reviewer")
    assert browser.get("/api/v1/me").json()["name"] == "reviewer"
    stolen = cookie_of(browser)
    assert browser.fill("/sign-out", "/account").status_code == 303
    assert shared.browser(cookies={COOKIE: stolen}).get(API).status_code == 401


def test_the_cookie_is_hidden_from_scripts_and_sites(shared: world.Shared) -> None:
    browser = shared.browser()
    set_cookie = browser.sign_in("owner", shared.passwords["owner"]).headers["set-cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=lax" in set_cookie
    assert "Secure" not in set_cookie  # this request came without TLS


def test_the_database_holds_no_secret(shared: world.Shared) -> None:
    browser, token = shared.signed_in("owner"), shared.token("owner")
    with shared.server.store.read() as connection:
        kept = [*connection.execute(select(sessions.c.digest)).scalars()]
        kept += [*connection.execute(select(tokens.c.digest)).scalars()]
        passwords = [*connection.execute(select(users.c.password)).scalars()]
    assert not {cookie_of(browser), token} & set(kept)
    assert all(each.startswith("$argon2id$") for each in passwords)


def test_a_session_that_was_planted_is_not_kept(shared: world.Shared) -> None:
    # Fixation: an attacker's cookie, with or without a session behind it, must not become the victim's.
    attacker = shared.signed_in("viewer")
    victim = shared.browser(cookies={COOKIE: cookie_of(attacker)})
    planted = cookie_of(attacker)
    victim.fill("/sign-in", "/account", name="owner", password=shared.passwords["owner"])
    assert victim.cookies.get(COOKIE, domain="127.0.0.1") != planted
    assert attacker.get(API).status_code == 401


@pytest.mark.parametrize(("column", "days"), [("expires_at", -1), ("seen_at", -4)])
def test_an_old_session_has_ended(shared: world.Shared, column: str, days: int) -> None:
    browser = shared.signed_in("owner")
    then = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="microseconds")
    with shared.server.store.write() as connection:
        connection.execute(update(sessions).values({column: then}))
    assert browser.get(API).status_code == 401


def test_a_disabled_account_is_out_at_once(shared: world.Shared) -> None:
    browser, program = shared.signed_in("owner"), shared.by_token("owner")
    with shared.server.store.write() as connection:
        connection.execute(update(users).where(users.c.name == "owner").values(disabled_at="2026"))
    assert [each.get(API).status_code for each in (browser, program)] == [401, 401]
    assert shared.browser().sign_in("owner", shared.passwords["owner"]).status_code == 401


def test_another_password_ends_other_sessions(shared: world.Shared) -> None:
    here, elsewhere = shared.signed_in("owner"), shared.signed_in("owner")
    changed = here.fill("/account/password", "/account", old=shared.passwords["owner"], new="four quite new words")
    assert changed.status_code == 303
    assert here.get(API).status_code == 200
    assert elsewhere.get(API).status_code == 401


def test_a_changed_role_counts_at_once(shared: world.Shared) -> None:
    owner, viewer = shared.signed_in("owner"), shared.signed_in("viewer")
    to = f"/teams/main/members/{shared.users['viewer']}"
    for role, status in (("viewer", 403), ("reviewer", 200), ("none", 404)):
        assert owner.fill(to, "/account", role=role).status_code == 303
        assert viewer.get("/judges/tone/review").status_code == status


def test_a_team_keeps_an_owner(shared: world.Shared) -> None:
    to = f"/teams/main/members/{shared.users['owner']}"
    for role in ("viewer", "none"):
        assert shared.signed_in("owner").fill(to, "/account", role=role).status_code == 422


# -- forms of other sites ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "0" * 64, "é"])
def test_a_form_without_its_token_does_nothing(shared: world.Shared, token: str | None) -> None:
    browser = shared.signed_in("owner")
    fields = {"role": "owner"} | ({} if token is None else {"csrf": token})
    assert browser.post("/teams/main/invitations", data=fields).status_code == 403


def test_a_token_of_another_session_does_nothing(shared: world.Shared) -> None:
    foreign = shared.signed_in("viewer").csrf("/account")
    browser = shared.signed_in("owner")
    assert browser.post("/teams/main/invitations", data={"role": "owner", "csrf": foreign}).status_code == 403


def test_a_cookie_alone_moves_nothing_in_the_api(shared: world.Shared) -> None:
    browser = shared.signed_in("owner")
    assert browser.post(f"{API}/tone/teach").status_code == 403
    sent = browser.post(f"{API}/tone/teach", headers={"x-csrf-token": browser.csrf("/account")})
    assert sent.status_code == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_does_nothing(shared: world.Shared, headers: dict[str, str]) -> None:
    browser = shared.signed_in("owner")
    token = browser.csrf("/account")
    answer = browser.post("/account/tokens", data={"csrf": token, "name": "x", "role": "owner"}, headers=headers)
    assert answer.status_code == 403


def test_another_site_does_nothing_on_an_open_server(local: world.Browser) -> None:
    refused = local.post(f"{API}/tone/teach", headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    assert local.post(f"{API}/tone/teach").status_code == 202


def test_a_sign_in_cannot_be_forged(shared: world.Shared) -> None:
    # Otherwise a victim works, without knowing, in the attacker's account.
    browser = shared.browser()
    browser.get("/sign-in")
    fields = {"name": "viewer", "password": shared.passwords["viewer"]}
    assert browser.post("/sign-in", data=fields).status_code == 403


@pytest.mark.parametrize("back", ["https://evil.example", "//evil.example", "/\\evil.example", "/a\r\nx: y"])
def test_signing_in_leads_to_no_other_site(shared: world.Shared, back: str) -> None:
    answer = shared.browser().sign_in("owner", shared.passwords["owner"], back=back)
    assert answer.headers["location"] == "/"


# -- guessing ------------------------------------------------------------------------------------------------------


def test_guessing_is_stopped_for_a_while(shared: world.Shared) -> None:
    browser = shared.browser()
    statuses = [browser.sign_in("owner", WRONG).status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    refused = browser.sign_in("owner", shared.passwords["owner"])  # not even the right one now
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= WINDOW + 1
    with shared.server.store.write() as connection:
        connection.execute(update(attempts).values(since=0.0))
    assert browser.sign_in("owner", shared.passwords["owner"]).status_code == 303


def test_guesses_at_once_are_counted_one_by_one(shared: world.Shared) -> None:
    statuses: list[int] = []
    browsers = [shared.browser() for _ in range(8)]
    tokens_ = [browser.csrf() for browser in browsers]

    def guess(browser: world.Browser, token: str) -> None:
        fields = {"csrf": token, "name": "owner", "password": WRONG}
        statuses.append(browser.post("/sign-in", data=fields).status_code)

    threads = [threading.Thread(target=guess, args=pair) for pair in zip(browsers, tokens_, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [401] * 5 + [429] * 3


def test_another_spelling_is_no_new_name(shared: world.Shared) -> None:
    browser = shared.browser()
    for name in ("owner", "Owner", "OWNER", "owneR", "oWner"):
        assert browser.sign_in(name, WRONG).status_code == 401
    assert browser.sign_in("ownER", WRONG).status_code == 429


def test_one_address_cannot_try_many_names(shared: world.Shared) -> None:
    browser = shared.browser()
    assert browser.sign_in("name1", WRONG).status_code == 401
    with shared.server.store.write() as connection:
        connection.execute(update(attempts).values(failures=29))
    assert [browser.sign_in(name, WRONG).status_code for name in ("name2", "name3")] == [401, 429]


def test_an_unknown_name_reads_like_a_wrong_password(shared: world.Shared) -> None:
    pages = [shared.browser().sign_in(name, WRONG).text for name in ("owner", "nobody")]
    one, other = (re.sub(r'value="[^"]*"|content="\w{64}"', "", page) for page in pages)
    assert one == other


# -- invitations ---------------------------------------------------------------------------------------------------


def invited(shared: world.Shared, role: str = "reviewer") -> str:
    page = shared.signed_in("owner").fill("/teams/main/invitations", "/account", role=role).text
    return str(re.findall(rf"<code>{world.ADDRESS}(/join/[^<]+)</code>", page)[0])


def test_an_invitation_makes_one_account(shared: world.Shared) -> None:
    path, browser = invited(shared), shared.browser()
    joined = browser.fill(path, path, name="Zoë", password="four words of Zoë")
    assert joined.status_code == 422  # the name is in the password
    joined = browser.fill(path, path, name="Zoë", password="four plain words z")
    assert joined.status_code == 303
    assert browser.get("/api/v1/me").json() == {
        "name": "Zoë",
        "by": "session",
        "teams": [{"id": "main", "name": "main", "role": "reviewer"}],
    }
    assert shared.browser().get(path).status_code == 404  # it is used


def test_an_invitation_used_twice_at_once_admits_one(shared: world.Shared) -> None:
    path = invited(shared)
    browsers = [shared.browser() for _ in range(4)]
    tokens_ = [browser.csrf(path) for browser in browsers]
    statuses: list[int] = []

    def take(number: int) -> None:
        fields = {"csrf": tokens_[number], "name": f"new{number}", "password": "four plain words"}
        statuses.append(browsers[number].post(path, data=fields, follow_redirects=False).status_code)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) in ([303, 404, 404, 404], [303, 404, 404, 422], [303, 404, 422, 422], [303, 422, 422, 422])
    with shared.server.store.read() as connection:
        assert connection.execute(select(func.count()).select_from(users)).scalar() == 5


def test_nobody_takes_a_name_that_looks_the_same(shared: world.Shared) -> None:
    path = invited(shared)
    for name in ("owner", "OWNER", " owner ", ""):
        assert shared.browser().fill(path, path, name=name, password="four plain words").status_code == 422


def test_a_name_with_a_capital_beyond_english_signs_in_again(shared: world.Shared) -> None:
    path, browser = invited(shared), shared.browser()
    assert browser.fill(path, path, name="Ângela", password="four plain words").status_code == 303
    assert browser.fill("/sign-out", "/account").status_code == 303
    for spelled in ("Ângela", "ângela", "A\u0302NGELA", " Ângela "):
        other = shared.browser()
        assert other.sign_in(spelled, "four plain words").status_code == 303, spelled
        assert other.get("/api/v1/me").json()["name"] == "Ângela"
    again = shared.browser()
    assert again.sign_in("Ângela", "four plain words").status_code == 303
    changed = again.fill("/account/password", "/account", old="four plain words", new="five plain words more")
    assert changed.status_code == 303
    path = invited(shared)
    for taken in ("ângela", "ÂNGELA", "a\u0302ngela", "\uff21\u0302ngela"):
        second = shared.browser().fill(path, path, name=taken, password="four plain words")
        assert second.status_code == 422, taken
        assert "is taken" in second.text


def test_a_secret_that_is_shown_once_is_stored_nowhere(shared: world.Shared) -> None:
    page = shared.signed_in("owner").fill("/account/tokens", "/account", name="script", role="owner")
    token = re.search(r"<code>([^<]+)</code>", page.text)
    secrets = [token[1] if token else "", invited(shared).rpartition("/")[2]]
    assert all(len(each) > 20 for each in secrets), secrets
    metadata = MetaData()
    with shared.server.store.read() as connection:
        metadata.reflect(connection)
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)):
                assert not any(secret in str(value) for secret in secrets for value in row), table.name


def test_an_invitation_can_be_taken_back(shared: world.Shared) -> None:
    path, owner = invited(shared), shared.signed_in("owner")
    (withdrawal,) = re.findall(r'action="(/teams/main/invitations/\w+/withdraw)"', owner.get("/teams/main").text)
    assert owner.fill(withdrawal, "/account").status_code == 303
    assert shared.browser().get(path).status_code == 404


# -- tokens --------------------------------------------------------------------------------------------------------


def test_a_revoked_token_opens_nothing(shared: world.Shared) -> None:
    program, browser = shared.by_token("owner"), shared.signed_in("owner")
    (revocation,) = re.findall(r'action="(/account/tokens/\w+/revoke)"', browser.get("/account").text)
    assert browser.fill(revocation, "/account").status_code == 303
    assert program.get(API).status_code == 401


def test_a_token_makes_no_token(shared: world.Shared) -> None:
    more = {"name": "more", "role": "owner"}
    assert shared.by_token("owner").post("/account/tokens", data=more).status_code == 403


def test_a_cookie_helps_no_wrong_token(shared: world.Shared) -> None:
    browser = shared.signed_in("owner")
    assert browser.get(API, headers={"authorization": "Bearer memalign_wrong"}).status_code == 401


def test_nobody_revokes_anothers_token(shared: world.Shared) -> None:
    program, owner, viewer = shared.by_token("owner"), shared.signed_in("owner"), shared.signed_in("viewer")
    (revocation,) = re.findall(r'action="(/account/tokens/\w+/revoke)"', owner.get("/account").text)
    viewer.fill(revocation, "/account")
    assert program.get(API).status_code == 200
