"""Signing in by a provider: whom it vouches for gets in where they are on the list, and nobody
else does."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from fastapi.testclient import TestClient
from joserfc import jwt
from joserfc.jwk import RSAKey
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memalign_server import OpenIdProvider
from memalign_server.store.tables import sessions
from server_support import world
from server_support.reviewing import expect

CLIENT = "memalign"
SECRET = "between the two of us"


@dataclass
class Provider:
    """Everybody who comes is the same person; a test changes `claims` or the key. `asked` has
    the questions by code."""

    issuer: str = ""
    key: RSAKey = field(
        default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"})
    )
    signs_with: RSAKey | None = None
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "7", "name": "Zoe"})
    asked: dict[str, dict[str, str]] = field(default_factory=dict)

    def question(self, query: str) -> str:
        """Where a browser goes from here: back at once, with a code."""
        question = dict(parse_qsl(query))
        code = f"code-{len(self.asked)}"
        self.asked[code] = question
        return f"{question['redirect_uri']}?{urlencode({'code': code, 'state': question['state']})}"

    async def token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        question = self.asked.pop(form["code"], None)  # a code is good once
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        proof = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        is_ours = request.headers.get("authorization") == f"Basic {basic}"
        if question is None or not is_ours or question["code_challenge"] != challenge:
            return JSONResponse({"error": "invalid_grant"}, 400)
        at = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": at,
            "exp": at + 60,
            "nonce": question["nonce"],
        }
        header = {"alg": "RS256", "kid": "one"}
        signed = jwt.encode(header, claims | self.claims, self.signs_with or self.key)
        token = {"access_token": "x", "token_type": "Bearer", "id_token": signed}
        return JSONResponse(token)

    def description(self, _request: Request) -> Response:
        described = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return JSONResponse(described)

    def keys(self, _request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})


@pytest.fixture
def openid() -> Iterator[Provider]:
    """A provider on loopback."""
    provider = Provider()
    app = Starlette()
    app.add_route("/.well-known/openid-configuration", provider.description)
    app.add_route("/jwks", provider.keys)
    app.add_route("/token", provider.token, methods=["POST"])
    with world.listening(app) as provider.issuer:
        yield provider


def known(openid: Provider, **listed: Any) -> OpenIdProvider:
    listed = listed or {
        "reviewers": frozenset(("zoe@example.org", "@trusted.example")),
        "owners": frozenset(("9",)),
    }
    return OpenIdProvider(
        issuer=openid.issuer, client_id=CLIENT, client_secret=SECRET, **listed
    )


@pytest.fixture
def site(place: str, openid: Provider) -> Iterator[world.Shared]:
    openid.claims |= {"email": "Zoe@Example.org", "email_verified": True}
    with world.shared_server(place, openid=known(openid)) as made:
        yield made


def round_trip(browser: TestClient, openid: Provider, **query: str) -> Any:
    """To the provider and back; what the server says then."""
    sent = browser.get("/openid/start", params=query, follow_redirects=False)
    assert sent.status_code in (302, 303), sent.text
    back = openid.question(urlsplit(sent.headers["location"]).query)
    return browser.get(back.removeprefix(world.ADDRESS), follow_redirects=False)


def test_a_listed_person_signs_in_and_returns(
    site: world.Shared, openid: Provider
) -> None:
    browser = site.browser()
    back = round_trip(browser, openid, back="/account")
    assert back.headers["location"] == "/account"
    assert ">Zoe</span>" in browser.get("/account").text
    # Then the list is asked again.
    ((until,),) = world.stored(browser, select(sessions.c.expires_at))
    left = datetime.fromisoformat(until) - datetime.now(UTC)
    assert left < timedelta(hours=12)
    elsewhere = round_trip(site.browser(), openid, back="//evil.example")
    assert elsewhere.headers["location"] == "/"
    assert "Zoe" in site.signed_in("owner").get("/judges/tone/setup?open=experts").text


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"email": "ANY@Trusted.example"}, "reviewer"),
        ({"sub": "9"}, "owner"),
        ({"sub": "9", "email_verified": False}, "owner"),
    ],
    ids=str,
)
def test_who_is_on_the_list_gets_in(
    site: world.Shared, openid: Provider, claims: dict[str, Any], role: str
) -> None:
    openid.claims |= claims
    browser = site.browser()
    expect(round_trip(browser, openid), 303)
    assert browser.get("/api/v1/me").json()["role"] == role


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False},  # it may be anybody's address
        {"email_verified": "true"},
        {"email": "eve@example.org"},
        {"email": "eve@not-trusted.example"},
        {"email": ""},
    ],
    ids=str,
)
def test_who_is_not_on_the_list_stays_out(
    site: world.Shared, openid: Provider, claims: dict[str, Any]
) -> None:
    openid.claims |= claims
    browser = site.browser()
    expect(round_trip(browser, openid), 403)
    expect(browser.get("/api/v1/me"), 401)


def test_two_people_of_one_name_have_two_names(
    site: world.Shared, openid: Provider
) -> None:
    for subject, name in (("7", "Owner 2"), ("8", "Owner 3"), ("7", "Owner 2")):
        openid.claims |= {"name": "Owner", "sub": subject}
        browser = site.browser()
        assert round_trip(browser, openid).status_code == 303
        assert f">{name}</span>" in browser.get("/account").text


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"aud": "another"},
        {"exp": int(time.time()) - 3600},
        {"iss": "https://evil.example"},
        {},
    ],
)
def test_an_answer_to_another_question_or_signed_by_another_is_refused(
    site: world.Shared, openid: Provider, claims: dict[str, Any]
) -> None:
    openid.claims |= claims
    if not claims:
        openid.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    assert round_trip(site.browser(), openid).status_code == 502


def test_an_answer_in_another_browser_is_refused(
    site: world.Shared, openid: Provider
) -> None:
    sent = site.browser().get("/openid/start", follow_redirects=False)
    question = openid.question(urlsplit(sent.headers["location"]).query)
    back = question.removeprefix(world.ADDRESS)
    victim = site.browser()
    for _ in range(2):  # no cookie at all, and then one of another question
        assert victim.get(back, follow_redirects=False).status_code == 502
        victim.get("/openid/start", follow_redirects=False)


def test_a_provider_that_is_down_is_named(place: str) -> None:
    down = known(Provider(issuer="http://127.0.0.1:9"), reviewers=frozenset(("x",)))
    with world.shared_server(place, openid=down) as site:
        expect(site.browser().get("/openid/start"), 502, "OpenID provider")


def test_without_a_provider_there_is_no_door(shared: world.Shared) -> None:
    expect(shared.browser().get("/openid/start"), 404)
    assert "/openid/" not in shared.browser().get("/sign-in").text


def test_a_provider_opens_no_server_to_its_machine(
    place: str, openid: Provider
) -> None:
    with world.site(place, openid=known(openid)) as nobody:
        assert nobody.get("/api/v1/judges").status_code == 401
