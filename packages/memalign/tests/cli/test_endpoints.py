"""A judge on an own server and a strong model elsewhere that writes its guidelines, with keys and prices of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memalign import Judge, Registry
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
    monkeypatch.setenv("MEMALIGN_SERVER_KEYS", f"{own.base_url}/={SECRETS[0]} {strong.base_url}={SECRETS[1]}")
    kind = ("--value-type", "bool", "--instructions", INSTRUCTIONS)
    paid = ("--model", f"openai:qwen2.5:7b@{own.base_url}", "--price", "input=0.1,output=0.2")
    memalign("create", "tone", *kind, *paid, code=0)
    distiller = ("--reflection-model", f"openai:big@{strong.base_url}", "--for", "reflection")
    memalign("edit", "tone", *distiller, "--price", "input=10,output=40,cached=1", code=0)
    return "tone"


def learned(memalign: Run, feedback: Path) -> None:
    ran = memalign("align", "tone", feedback, "--json", code=0)
    assert ran.json["usage"]["cost"] > 0


def distils(body: dict[str, object]) -> bool:
    return "changes" in str(body["response_format"])


def test_each_model_gets_its_own_address_and_key(
    memalign: Run, tone: str, own: Endpoint, strong: Endpoint, feedback: Path, held_out: Path
) -> None:
    learned(memalign, feedback)
    memalign("judge", tone, held_out, code=0)
    assert strong.requests
    assert all(distils(body) and body["model"] == "big" for body in strong.requests)
    assert all(each["authorization"] == "Bearer strong-secret-456" for each in strong.headers)
    assert own.requests
    assert not any(distils(body) for body in own.requests)
    assert all(each["authorization"] == "Bearer own-secret-123" for each in own.headers)


def test_no_secret_is_stored_or_shown(memalign: Run, tone: str, feedback: Path, tmp_path: Path) -> None:
    learned(memalign, feedback)
    memalign("export", tone, "-o", tmp_path / "tone.json", code=0)
    shown = memalign("show", tone, says='"input": 0.1')
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in SECRETS:
        assert secret.encode() not in kept
        assert secret not in shown.out + memalign("show", tone, "--json").out


def test_each_model_has_its_context(memalign: Run, tone: str, own: Endpoint, tmp_path: Path) -> None:
    memalign("edit", tone, "--context", "16384", code=0)
    memalign("edit", tone, "--for", "reflection", "--context", "200000", code=0)
    judge = Registry(f"sqlite:///{tmp_path / 'memalign.db'}").load(tone)
    assert open_model(judge).limits.context_tokens == 16_384
    assert open_reflection_model(judge).limits.context_tokens == 200_000
    memalign("edit", tone, "--context", "0", code=0)
    assert "context" not in memalign("show", tone, "--json").json["parameters"]["models"][judge.model_name]
    memalign("edit", tone, "--context", "512", code=2, says="context (1,024 tokens or more)")


def test_another_address_gets_no_key(memalign: Run, tone: str, own: Endpoint, held_out: Path) -> None:
    with Endpoint(answer) as other:
        name = f"openai:qwen2.5:7b@{other.base_url}"
        memalign("edit", tone, "--model", name, code=0, says="- parameters: ")  # what it lost is shown
        memalign("judge", tone, held_out, code=0)
    assert "own-secret" not in str(other.headers)
    assert other.requests[0]["model"] == "qwen2.5:7b"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
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
    refused = memalign("edit", tone, *flags, code=2, says=said)
    assert "abc123secret" not in refused.err
    assert len(memalign("history", tone, "--json").json["versions"]) == 2


def test_an_own_servers_wrong_key_names_the_remedy(
    memalign: Run, own: Endpoint, held_out: Path, tmp_path: Path
) -> None:
    own.answer = bad_request("No key.", status=401)
    new = ("create", "bare", "--value-type", "bool", "--instructions", INSTRUCTIONS)
    memalign(*new, "--model", f"openai:m@{own.base_url}", code=0)
    memalign("judge", "bare", held_out, code=2, says="the server's key (MEMALIGN_SERVER_KEYS=ADDRESS=KEY): missing")


CANARY = "canary-value-9f3e"


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "MEMALIGN_SERVER_KEYS"])
def test_an_imported_judge_sends_no_key_to_an_address_of_its_own(
    memalign: Run, own: Endpoint, held_out: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f"https://elsewhere.example/v1={CANARY}")
    gift = held_out.with_name("gift.json")
    judge = Judge(name="gift", instructions=INSTRUCTIONS, feedback_value_type=bool, model=f"openai:m@{own.base_url}")
    gift.write_text(json.dumps(bundle_of(judge)), "utf-8")
    memalign("import", gift, code=0)
    memalign("judge", "gift", held_out, code=0)
    assert load_bundle(gift)(inputs="Hello?", outputs="Hi!").value is not None
    assert own.headers
    assert CANARY not in str(own.headers) + str(own.requests)


def test_a_bundles_header_is_refused(memalign: Run, own: Endpoint, held_out: Path) -> None:
    judge = Judge(name="gift", instructions=INSTRUCTIONS, feedback_value_type=bool, model=f"openai:m@{own.base_url}")
    document = bundle_of(judge)
    del document["checksum"]
    document["judge"]["parameters"] = {"models": {judge.model_name: {"headers": {"X-Key": "$OPENAI_API_KEY"}}}}
    document["checksum"] = hashlib.sha256(canonical_json(document).encode()).hexdigest()
    gift = held_out.with_name("gift.json")
    gift.write_text(json.dumps(document), "utf-8")
    memalign("import", gift, code=2, says="parameter models")
