"""An OpenID Connect provider on loopback: everybody who comes is the same person, and it misbehaves on request."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

__all__ = ["CLIENT", "SECRET", "Provider", "back_from", "provider"]

CLIENT, SECRET = "memalign", "between the two of us"


@dataclass
class Provider:
    """`claims` and `key` may be changed by a test; `asked` has the questions by their codes."""

    issuer: str
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    signs_with: RSAKey | None = None
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "7", "name": "Zoe"})
    asked: dict[str, dict[str, str]] = field(default_factory=dict)

    def question(self, given: dict[str, str]) -> str:
        """Where a browser goes from here: back, with a code."""
        code = f"code-{len(self.asked)}"
        self.asked[code] = given
        return f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}"

    def token(self, given: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        question = self.asked.pop(given["code"], None)  # a code is good once
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        proof = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        if question is None or authorization != f"Basic {basic}" or question["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        at = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": at,
            "exp": at + 60,
            "nonce": question["nonce"],
            **self.claims,
        }
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signs_with or self.key)
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": signed}


@contextmanager
def provider() -> Iterator[Provider]:
    made = Provider(issuer="")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/authorize":
                self.send_response(302)
                self.send_header("location", made.question({name: each[0] for name, each in parse_qs(query).items()}))
                self.end_headers()
                return
            ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
            pages: dict[str, dict[str, Any]] = {
                "/.well-known/openid-configuration": {
                    "issuer": made.issuer,
                    **{name: f"{made.issuer}/{page}" for name, page in ends.items()},
                    "id_token_signing_alg_values_supported": ["RS256"],
                },
                "/jwks": {"keys": [made.key.as_dict(private=False)]},
            }
            self.answer(200 if path in pages else 404, pages.get(path, {}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            given = {name: each[0] for name, each in parse_qs(body).items()}
            self.answer(*made.token(given, self.headers.get("authorization", "")))

        def answer(self, status: int, value: dict[str, Any]) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_given: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def back_from(made: Provider, location: str) -> str:
    """What a browser does at the provider: it is sent back at once."""
    given = {name: each[0] for name, each in parse_qs(urlsplit(location).query).items()}
    return made.question(given)
