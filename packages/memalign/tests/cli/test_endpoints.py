"""A judge on an own server and a strong model elsewhere that writes its guidelines, with headers and prices of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memalign import Judge, Registry
from memalign.errors import MemalignError
from memalign.models.judge_models import open_model, open_reflection_model
from memalign.registry.bundle import bundle_of, load_bundle
from memalign.types import canonical_json
from tests.cli.conftest import INSTRUCTIONS, Run, answer
from tests.support.endpoint import Endpoint, bad_request

SECRETS = ("own-secret-123", "strong-secret-456")


@pytest.fixture
def own() -> Iterator[Endpoint]:
    with Endpoint(answer) as server:
        yield server


@pytest.fixture
def strong() -> Iterator[Endpoint]:
    with Endpoint(answer) as server:
        yield server


@pytest.fixture
def tone(memalign: Run, own: Endpoint, strong: Endpoint, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MEMALIGN_HEADER_OWN", SECRETS[0])
    monkeypatch.setenv("MEMALIGN_HEADER_STRONG", SECRETS[1])
    monkeypatch.setenv("MEMALIGN_HEADER_SERVERS", f"{own.base_url}, {strong.base_url}")
    own_server = ("--model", f"openai:qwen2.5:7b@{own.base_url}", "--header", "X-Api-Key: $MEMALIGN_HEADER_OWN")
    paid = ("--price", "input=0.1,output=0.2")
    distiller = (
        *("--reflection-model", f"openai:big@{strong.base_url}"),
        *("--for", "reflection", "--price", "input=10,output=40,cached=1"),
        *("--header", "Authorization: Bearer $MEMALIGN_HEADER_STRONG", "--header", "X-Team: support"),
    )
    kind = ("--value-type", "bool", "--instructions", INSTRUCTIONS)
    for words in (("create", "tone", *kind, *own_server, *paid), ("edit", "tone", *distiller)):
        done = memalign(*words)
        assert done.code == 0, done.err
    return "tone"


def learned(memalign: Run, feedback: Path) -> None:
    ran = memalign("align", "tone", feedback, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["usage"]["cost"] > 0


def distils(body: dict[str, object]) -> bool:
    return "changes" in str(body["response_format"])


def test_each_model_gets_its_own_address_and_headers(
    memalign: Run, tone: str, own: Endpoint, strong: Endpoint, feedback: Path, held_out: Path
) -> None:
    learned(memalign, feedback)
    assert memalign("judge", tone, held_out).code == 0
    assert strong.requests
    assert all(distils(body) and body["model"] == "big" for body in strong.requests)
    assert all(each["authorization"] == "Bearer strong-secret-456" for each in strong.headers)
    assert all(each["x-team"] == "support" for each in strong.headers)
    assert own.requests
    assert not any(distils(body) for body in own.requests)
    assert all(each["x-api-key"] == "own-secret-123" for each in own.headers)
    assert "strong-secret" not in str(own.headers)


def test_no_secret_is_stored_or_shown(memalign: Run, tone: str, feedback: Path, tmp_path: Path) -> None:
    learned(memalign, feedback)
    assert memalign("export", tone, "-o", tmp_path / "tone.json").code == 0
    shown = memalign("show", tone)
    assert '"X-Api-Key": "$MEMALIGN_HEADER_OWN"' in shown.out
    assert '"input": 0.1' in shown.out
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in SECRETS:
        assert secret.encode() not in kept
        assert secret not in shown.out + memalign("show", tone, "--json").out


def test_each_model_has_its_context(memalign: Run, tone: str, own: Endpoint, tmp_path: Path) -> None:
    assert memalign("edit", tone, "--context", "16384").code == 0
    assert memalign("edit", tone, "--for", "reflection", "--context", "200000").code == 0
    judge = Registry(f"sqlite:///{tmp_path / 'memalign.db'}").load(tone)
    assert open_model(judge).limits.context_tokens == 16_384
    assert open_reflection_model(judge).limits.context_tokens == 200_000
    assert memalign("edit", tone, "--context", "0").code == 0
    assert "context" not in memalign("show", tone, "--json").json["parameters"]["models"][judge.model_name]
    refused = memalign("edit", tone, "--context", "512")
    assert (refused.code, "context (1,024 tokens or more)" in " ".join(refused.err.split())) == (2, True)


def test_another_address_takes_no_header_along(memalign: Run, tone: str, own: Endpoint, held_out: Path) -> None:
    with Endpoint(answer) as other:
        moved = memalign("edit", tone, "--model", f"openai:qwen2.5:7b@{other.base_url}")
        assert moved.code == 0
        assert "- parameters: " in moved.out, "what it lost is shown"
        assert memalign("judge", tone, held_out).code == 0
    assert "own-secret" not in str(other.headers)
    assert other.requests[0]["model"] == "qwen2.5:7b"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--header", "Authorization: Bearer abc123secret"), "a secret would be stored"),
        (
            ("--header", "Authorization: Bearer $AWS_SECRET_ACCESS_KEY"),
            "whose name begins with MEMALIGN_HEADER_ (no other is sent)",
        ),
        (("--header", "nonsense"), "a header is written 'NAME: VALUE'"),
        (("--price", "0.4"), "dollars per million tokens"),
        (("--price", "input=cheap,output=1"), "dollars per million tokens"),
        (("--model", "openai:m@http://me:abc123secret@h/v1"), "holds no user, password or query"),
        (("--model", "anthropic:m@http://h/v1"), "an address needs an OpenAI-compatible server"),
        (("--param", "models=x"), "parameter models"),
        (("--for", "check", "--price", "input=1,output=1"), "to set one: --check-model"),
    ],
)
def test_wrong_flags_are_refused_and_change_nothing(
    memalign: Run, tone: str, flags: tuple[str, ...], said: str
) -> None:
    refused = memalign("edit", tone, *flags)
    assert refused.code == 2
    assert said in refused.err
    assert "abc123secret" not in refused.err
    assert len(memalign("history", tone, "--json").json["versions"]) == 2


def test_an_own_servers_wrong_key_names_the_remedy(
    memalign: Run, own: Endpoint, held_out: Path, tmp_path: Path
) -> None:
    own.answer = bad_request("No key.", status=401)
    made = memalign(
        *("create", "bare", "--value-type", "bool", "--instructions", INSTRUCTIONS),
        *("--model", f"openai:m@{own.base_url}"),
    )
    assert made.code == 0, made.err
    refused = memalign("judge", "bare", held_out)
    assert refused.code == 2
    assert (
        "the server's key (memalign edit bare --header 'Authorization: Bearer $MEMALIGN_HEADER_KEY'): missing"
        in refused.err
    )


# -- what a judge of somebody else's sends ------------------------------------------------------------------------------

CANARY = "canary-value-9f3e"


def write_bundle_that_names(path: Path, server: Endpoint, variable: str) -> None:
    """A bundle, its checksum right, whose model is at `server` and whose header names `variable`."""
    judge = Judge(name="gift", instructions=INSTRUCTIONS, feedback_value_type=bool, model=f"openai:m@{server.base_url}")
    document = bundle_of(judge)
    del document["checksum"]
    headers = {"X-Anything": f"${{{variable}}}"}
    document["judge"]["parameters"] = {"models": {judge.model_name: {"headers": headers}}}
    document["checksum"] = hashlib.sha256(canonical_json(document).encode()).hexdigest()
    path.write_text(json.dumps(document), "utf-8")


@pytest.mark.parametrize("variable", ["CANARY", "OPENAI_API_KEY", "MEMALIGN_MODEL", "MEMALIGN_HEADER_GATEWAY"])
def test_an_imported_judge_sends_no_variable_anywhere(
    memalign: Run, own: Endpoint, held_out: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, CANARY)
    gift = held_out.with_name("gift.json")
    write_bundle_that_names(gift, own, variable)
    memalign("import", gift)
    memalign("judge", "gift", held_out)
    memalign("check", held_out, "gift")
    with pytest.raises(MemalignError, match="header X-Anything"):
        load_bundle(gift)(inputs="Hello?", outputs="Hi!")
    assert CANARY not in str(own.headers) + str(own.requests)


def test_a_registry_of_others_fills_no_variable(
    memalign: Run, tone: str, own: Endpoint, held_out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMALIGN_HEADER_SERVERS")
    own.headers.clear()
    refused = memalign("judge", tone, held_out)
    assert refused.code == 2
    assert f"may not go to {own.base_url}: MEMALIGN_HEADER_SERVERS does not name that address" in refused.err
    assert not own.headers
    monkeypatch.setenv("MEMALIGN_HEADER_SERVERS", f"https://elsewhere.example {own.base_url.upper()}/")
    assert memalign("judge", tone, held_out).code == 0
    assert all(each["x-api-key"] == SECRETS[0] for each in own.headers)
