"""Signing in by a provider: whom it vouches for gets in where somebody invited them, and nobody else does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey
from sqlalchemy import update

from memalign_server import OpenIdProvider
from memalign_server.store.people_tables import users
from server_support import world
from server_support.openid_provider import CLIENT, SECRET, Provider, back_from, provider
from test_sessions import invited


@pytest.fixture
def openid() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def site(people: Path, tmp_path: Path, openid: Provider) -> Iterator[world.Shared]:
    known = OpenIdProvider(issuer=openid.issuer, client_id=CLIENT, client_secret=SECRET)
    with world.shared_server(people, tmp_path, openid=known) as made:
        yield made


def round_trip(browser: world.Browser, openid: Provider, **query: str) -> Any:
    """To the provider and back; what the server says then."""
    sent = browser.get("/openid/start", params=query, follow_redirects=False)
    assert sent.status_code in (302, 303), sent.text
    back = back_from(openid, sent.headers["location"])
    return browser.get(back.removeprefix(world.ADDRESS), follow_redirects=False)


def join(site: world.Shared, openid: Provider) -> world.Browser:
    browser = site.browser()
    answer = round_trip(browser, openid, invitation=invited(site).removeprefix("/join/"))
    assert answer.status_code == 303, answer.text
    return browser


def test_an_invited_person_joins_and_returns(site: world.Shared, openid: Provider) -> None:
    assert join(site, openid).get("/api/v1/me").json()["name"] == "Zoe"
    again = site.browser()
    assert round_trip(again, openid, back="/account").headers["location"] == "/account"
    assert again.get("/api/v1/me").json()["teams"][0]["role"] == "reviewer"


def test_nobody_gets_in_without_an_invitation(site: world.Shared, openid: Provider) -> None:
    browser = site.browser()
    assert round_trip(browser, openid).status_code == 403
    assert browser.get("/api/v1/me").status_code == 401


def test_a_name_that_is_taken_gives_no_account(site: world.Shared, openid: Provider) -> None:
    openid.claims["name"] = "Owner"
    browser = join(site, openid)
    assert browser.get("/api/v1/me").json()["name"] == "Owner 2"


def test_another_subject_is_another_person(site: world.Shared, openid: Provider) -> None:
    join(site, openid)
    openid.claims["sub"] = "8"
    assert round_trip(site.browser(), openid).status_code == 403


def test_a_disabled_account_stays_out(site: world.Shared, openid: Provider) -> None:
    join(site, openid)
    with site.server.store.write() as connection:
        connection.execute(update(users).where(users.c.name == "Zoe").values(disabled_at="2026"))
    assert round_trip(site.browser(), openid).status_code == 403


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "another"}, {"aud": "another"}, {"exp": int(time.time()) - 3600}, {"iss": "https://evil.example"}],
)
def test_an_answer_to_another_question_is_refused(site: world.Shared, openid: Provider, claims: dict[str, Any]) -> None:
    join(site, openid)
    openid.claims |= claims
    assert round_trip(site.browser(), openid).status_code == 400


def test_a_signature_of_somebody_else_is_refused(site: world.Shared, openid: Provider) -> None:
    join(site, openid)
    openid.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    assert round_trip(site.browser(), openid).status_code == 400


def test_an_answer_in_another_browser_is_refused(site: world.Shared, openid: Provider) -> None:
    join(site, openid)
    sent = site.browser().get("/openid/start", follow_redirects=False)
    back = back_from(openid, sent.headers["location"]).removeprefix(world.ADDRESS)
    victim = site.browser()
    assert victim.get(back, follow_redirects=False).status_code == 400  # no cookie at all
    victim.get("/openid/start", follow_redirects=False)
    assert victim.get(back, follow_redirects=False).status_code == 400  # and one of another question


def test_a_changed_cookie_is_refused(site: world.Shared, openid: Provider) -> None:
    browser = site.browser()
    sent = browser.get("/openid/start", follow_redirects=False)
    text, _, mac = str(browser.cookies.get("memalign_openid")).partition(".")
    other = site.browser(cookies={"memalign_openid": f"{text[:-2]}AA.{mac}"})
    back = back_from(openid, sent.headers["location"]).removeprefix(world.ADDRESS)
    assert other.get(back, follow_redirects=False).status_code == 400


def test_the_question_has_its_proofs(site: world.Shared) -> None:
    sent = site.browser().get("/openid/start", follow_redirects=False)
    asked = {name: each[0] for name, each in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{world.ADDRESS}/openid/callback"
    assert len(asked["state"]) > 20
    assert len(asked["nonce"]) > 15


def test_a_provider_that_is_down_is_named(people: Path, tmp_path: Path) -> None:
    known = OpenIdProvider(issuer="http://127.0.0.1:9", client_id=CLIENT, client_secret=SECRET)
    with world.shared_server(people, tmp_path, openid=known) as site:
        answer = site.browser().get("/openid/start", follow_redirects=False)
        assert answer.status_code == 502
        assert "OpenID provider" in answer.text


def test_without_a_provider_there_is_no_door(shared: world.Shared) -> None:
    assert shared.browser().get("/openid/start", follow_redirects=False).status_code == 404
    assert "/openid/" not in shared.browser().get("/sign-in").text
