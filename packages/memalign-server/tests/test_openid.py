"""Signing in by a provider: whom it vouches for gets in where they are on the list, and nobody else does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from joserfc.jwk import RSAKey
from sqlalchemy import select

from memalign_server import OpenIdProvider
from memalign_server.store.tables import sessions
from server_support import world
from server_support.openid_provider import CLIENT, SECRET, Provider, back_from, provider


@pytest.fixture
def openid() -> Iterator[Provider]:
    with provider() as made:
        yield made


def known(openid: Provider, **listed: Any) -> OpenIdProvider:
    listed = listed or {"reviewers": frozenset(("zoe@example.org", "@trusted.example")), "owners": frozenset(("9",))}
    return OpenIdProvider(issuer=openid.issuer, client_id=CLIENT, client_secret=SECRET, **listed)


@pytest.fixture
def site(tmp_path: Path, openid: Provider) -> Iterator[world.Shared]:
    openid.claims |= {"email": "Zoe@Example.org", "email_verified": True}
    with world.shared_server(tmp_path, openid=known(openid)) as made:
        yield made


def round_trip(browser: TestClient, openid: Provider, **query: str) -> Any:
    """To the provider and back; what the server says then."""
    sent = browser.get("/openid/start", params=query, follow_redirects=False)
    assert sent.status_code in (302, 303), sent.text
    back = back_from(openid, sent.headers["location"])
    return browser.get(back.removeprefix(world.ADDRESS), follow_redirects=False)


def test_a_listed_person_signs_in_and_returns(site: world.Shared, openid: Provider) -> None:
    browser = site.browser()
    assert round_trip(browser, openid, back="/account").headers["location"] == "/account"
    assert ">Zoe</a>" in browser.get("/account").text
    with site.server.store.read() as connection:
        until = datetime.fromisoformat(str(connection.execute(select(sessions.c.expires_at)).scalar_one()))
    assert until - datetime.now(UTC) < timedelta(hours=12), "then the list is asked again"
    assert round_trip(site.browser(), openid, back="//evil.example").headers["location"] == "/"
    assert "Zoe" in site.signed_in("owner").get("/judges/tone/setup?open=experts").text


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"email": "ANY@Trusted.example"}, "reviewer"),
        ({"sub": "9"}, "owner"),
        ({"sub": "9", "email_verified": False}, "owner"),
        ({"email_verified": False}, None),  # it may be anybody's address
        ({"email_verified": "true"}, None),
        ({"email": "eve@example.org"}, None),
        ({"email": "eve@not-trusted.example"}, None),
        ({"email": ""}, None),
    ],
    ids=str,
)
def test_the_list_says_who_gets_in(site: world.Shared, openid: Provider, claims: dict[str, Any], role: Any) -> None:
    openid.claims |= claims
    browser = site.browser()
    assert round_trip(browser, openid).status_code == (403 if role is None else 303)
    me = browser.get("/api/v1/me")
    assert (me.status_code, me.json().get("role")) == ((401, None) if role is None else (200, role))


def test_a_provider_opens_no_server_to_its_machine(tmp_path: Path, openid: Provider) -> None:
    world.registry(tmp_path)
    app = world.server(tmp_path, openid=known(openid))
    with TestClient(app, base_url=world.ADDRESS) as nobody:
        assert nobody.get("/api/v1/judges").status_code == 401


def test_two_people_of_one_name_have_two_names(site: world.Shared, openid: Provider) -> None:
    for subject, name in (("7", "Owner 2"), ("8", "Owner 3"), ("7", "Owner 2")):
        openid.claims |= {"name": "Owner", "sub": subject}
        browser = site.browser()
        assert round_trip(browser, openid).status_code == 303
        assert f">{name}</a>" in browser.get("/account").text


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "another"}, {"aud": "another"}, {"exp": int(time.time()) - 3600}, {"iss": "https://evil.example"}],
)
def test_an_answer_to_another_question_is_refused(site: world.Shared, openid: Provider, claims: dict[str, Any]) -> None:
    openid.claims |= claims
    assert round_trip(site.browser(), openid).status_code == 502


def test_a_signature_of_somebody_else_is_refused(site: world.Shared, openid: Provider) -> None:
    openid.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    assert round_trip(site.browser(), openid).status_code == 502


def test_an_answer_in_another_browser_is_refused(site: world.Shared, openid: Provider) -> None:
    sent = site.browser().get("/openid/start", follow_redirects=False)
    back = back_from(openid, sent.headers["location"]).removeprefix(world.ADDRESS)
    victim = site.browser()
    assert victim.get(back, follow_redirects=False).status_code == 502  # no cookie at all
    victim.get("/openid/start", follow_redirects=False)
    assert victim.get(back, follow_redirects=False).status_code == 502  # and one of another question


def test_a_provider_that_is_down_is_named(tmp_path: Path) -> None:
    down = OpenIdProvider(
        issuer="http://127.0.0.1:9", client_id=CLIENT, client_secret=SECRET, reviewers=frozenset(("x",))
    )
    with world.shared_server(tmp_path, openid=down) as site:
        answer = site.browser().get("/openid/start", follow_redirects=False)
        assert answer.status_code == 502
        assert "OpenID provider" in answer.text


def test_without_a_provider_there_is_no_door(shared: world.Shared) -> None:
    assert shared.browser().get("/openid/start", follow_redirects=False).status_code == 404
    assert "/openid/" not in shared.browser().get("/sign-in").text
