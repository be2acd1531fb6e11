"""Each model of a judge on a server of its own, with its key and price: one judges, one
writes guidelines, one decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memalign import Judge, Registry
from memalign.models.judge_models import open_model, open_reflection_model
from memalign.registry.bundle import bundle_of, load_bundle
from tests.cli.conftest import INSTRUCTIONS, Run, answer, creating
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint

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
def tone(
    memalign: Run, own: Endpoint, strong: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> str:
    keys = f"{own.base_url}/={SECRETS[0]} {strong.base_url}={SECRETS[1]}"
    monkeypatch.setenv("MEMALIGN_SERVER_KEYS", keys)
    model = f"openai:qwen2.5:7b@{own.base_url}"
    price = ("--price", "input=0.1,output=0.2")
    memalign(*creating("tone", *price, model=model), code=0)
    memalign(
        f"edit tone --reflection-model openai:big@{strong.base_url} "
        "--for reflection --price input=10,output=40,cached=1",
        code=0,
    )
    return "tone"


def distils(body: dict[str, object]) -> bool:
    return "changes" in str(body["response_format"])


def test_each_model_gets_its_own_address_and_key(
    memalign: Run,
    tone: str,
    own: Endpoint,
    strong: Endpoint,
    feedback: Path,
    held_out: Path,
) -> None:
    aligned = memalign("align tone feedback.jsonl --json", code=0).json
    assert aligned["usage"]["cost"] > 0
    memalign("judge tone held_out.jsonl", code=0)
    for body, headers in zip(strong.requests, strong.headers, strict=True):
        assert distils(body)
        assert body["model"] == "big"
        assert headers["authorization"] == "Bearer strong-secret-456"
    for body, headers in zip(own.requests, own.headers, strict=True):
        assert not distils(body)
        assert headers["authorization"] == "Bearer own-secret-123"
    assert strong.requests
    with Endpoint(answer) as other:
        model = f"openai:m@{other.base_url}"
        # What it lost is shown.
        memalign("edit tone --model", model, says="- parameters: ")
        memalign("judge tone held_out.jsonl", code=0)
    assert other.requests
    assert "secret" not in str(other.headers)


def test_no_secret_is_stored_or_shown(
    memalign: Run, tone: str, feedback: Path, tmp_path: Path
) -> None:
    memalign("align tone feedback.jsonl", code=0)
    memalign("export tone -o", tmp_path / "tone.json", code=0)
    shown = memalign("show tone", says='"input": 0.1')
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in SECRETS:
        assert secret.encode() not in kept
        assert secret not in shown.out + memalign("show tone --json").out


def test_each_model_has_its_context(
    memalign: Run, tone: str, own: Endpoint, tmp_path: Path
) -> None:
    memalign("edit tone --context 16384", code=0)
    memalign("edit tone --for reflection --context 200000", code=0)
    judge = Registry(f"sqlite:///{tmp_path / 'memalign.db'}").load(tone)
    assert open_model(judge).limits.context_tokens == 16_384
    assert open_reflection_model(judge).limits.context_tokens == 200_000
    memalign("edit tone --context 0", code=0)
    models = memalign("show tone --json").json["parameters"]["models"]
    assert "context" not in models[judge.model_name]
    memalign("edit tone --context 512", code=2, says="context (1,024 tokens or more)")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--price 0.4", "dollars per million tokens"),
        ("--price input=cheap,output=1", "dollars per million tokens"),
        (
            "--model openai:m@http://me:abc123secret@h/v1",
            "holds no user, password or query",
        ),
        ("--param models=x", "parameter models"),
    ],
)
def test_wrong_flags_are_refused_and_change_nothing(
    memalign: Run, tone: str, flags: str, said: str
) -> None:
    refused = memalign(f"edit tone {flags}", code=2, says=said)
    assert "abc123secret" not in refused.err
    assert len(memalign("history tone --json").json["versions"]) == 2


CANARY = "canary-value-9f3e"


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "MEMALIGN_SERVER_KEYS"])
def test_an_imported_judge_sends_no_key_to_an_address_of_its_own(
    memalign: Run,
    own: Endpoint,
    held_out: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, f"https://elsewhere.example/v1={CANARY}")
    gift = held_out.with_name("gift.json")
    judge = Judge(
        name="gift",
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model=f"openai:m@{own.base_url}",
    )
    gift.write_text(json.dumps(bundle_of(judge)), "utf-8")
    memalign("import", gift, code=0)
    memalign("judge gift held_out.jsonl", code=0)
    assert load_bundle(gift)(inputs="Hello?", outputs="Hi!").value is not None
    assert own.headers
    assert CANARY not in str(own.headers) + str(own.requests)


# -- a model that decides and writes nothing -------------------------------------------


def test_a_judges_own_model_may_be_one_that_decides(memalign: Run) -> None:
    with system_one(lambda *_: 0.8) as deciding:
        name = f"system-one:m@{deciding.base_url}"
        price = ("--price", "input=0.042,output=0")
        memalign(*creating("tone", *price, model=name), code=0)
        shown = memalign("show tone --json").json
        assert shown["model"] == name
        settings = {name: {"prices": {"input": 0.042, "output": 0.0}}}
        assert shown["parameters"] == {"models": settings}
        assert deciding.requests == []
