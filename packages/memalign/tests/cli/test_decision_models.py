"""A judge whose model decides and writes nothing, or that has such a model beside its own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import INSTRUCTIONS, Run
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint

NEW = ("create", "tone", "--value-type", "bool", "--instructions", INSTRUCTIONS)
CHAT = ("--model", "openai:m@http://127.0.0.1:1/v1")


@pytest.fixture
def deciding() -> Iterator[Endpoint]:
    with system_one(lambda *_: 0.8) as server:
        yield server


def shown(memalign: Run) -> dict[str, object]:
    data: dict[str, object] = json.loads(memalign("show", "tone", "--json").out)
    return data


def test_a_check_model_is_stored_with_its_price(memalign: Run, deciding: Endpoint) -> None:
    name = f"system-one:m@{deciding.base_url}"
    made = memalign(*NEW, *CHAT, "--check-model", name, "--for", "check", "--price", "input=0.042,output=0")
    assert made.code == 0, made.err
    assert shown(memalign)["check_model"] == name
    assert shown(memalign)["parameters"] == {"models": {name: {"prices": {"input": 0.042, "output": 0.0}}}}
    assert f"check model {name}" in " ".join(memalign("show", "tone").out.split())
    assert memalign("edit", "tone", "--check-model", "").code == 0
    assert shown(memalign)["check_model"] is None
    assert deciding.requests == []


def test_a_chat_model_answers_no_checks(memalign: Run) -> None:
    refused = memalign(*NEW, *CHAT, "--check-model", "openai:gpt-4.1-mini")
    assert refused.code == 2
    assert "not a decision model" in refused.err


def test_a_judges_model_may_be_one_that_decides(memalign: Run, deciding: Endpoint) -> None:
    name = f"system-one:m@{deciding.base_url}"
    made = memalign(*NEW, "--model", name, "--price", "input=0.042,output=0")
    assert made.code == 0, made.err
    assert shown(memalign)["model"] == name


@pytest.mark.parametrize(("name", "missing"), [("typesafe:jev-latest", "TYPESAFE_API_KEY"), ("system-one:m", "@http")])
def test_what_is_missing_is_said_before_anything_is_stored(memalign: Run, name: str, missing: str) -> None:
    refused = memalign(*NEW, "--model", name)
    assert refused.code == 2
    assert missing in refused.err
    assert memalign("list", "--json").out.count("tone") == 0
