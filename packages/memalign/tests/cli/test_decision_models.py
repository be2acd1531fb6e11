"""A judge whose model decides and writes nothing, or that has such a model beside its own; checks as people see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import INSTRUCTIONS, Run, answer
from tests.support.decision_servers import system_one
from tests.support.endpoint import Endpoint

NEW = ("create", "tone", "--value-type", "bool", "--instructions", INSTRUCTIONS)
CHAT = ("--model", "openai:m@http://127.0.0.1:1/v1")
SORRY = "Does the reply show sympathy?"


@pytest.fixture
def deciding() -> Iterator[Endpoint]:
    with system_one(lambda *_: 0.8) as server:
        yield server


def with_checks(body: dict[str, Any]) -> dict[str, Any]:
    said: Any = answer(body)
    for change in said.get("changes", ()):
        change["checks"] = [{"question": SORRY, "answer": "no"}, {"question": "Cold.", "answer": "yes"}]
    return {**said}


def test_a_check_model_is_stored_with_its_price(memalign: Run, deciding: Endpoint) -> None:
    name = f"system-one:m@{deciding.base_url}"
    memalign(*NEW, *CHAT, "--check-model", name, "--for", "check", "--price", "input=0.042,output=0", code=0)
    shown = memalign("show", "tone", "--json").json
    assert shown["check_model"] == name
    assert shown["parameters"] == {"models": {name: {"prices": {"input": 0.042, "output": 0.0}}}}
    assert f"check model {name}" in " ".join(memalign("show", "tone").out.split())
    memalign("edit", "tone", "--check-model", "", code=0)
    assert memalign("show", "tone", "--json").json["check_model"] is None
    memalign("edit", "tone", "--model", name, "--price", "input=0.042,output=0", code=0)
    assert memalign("show", "tone", "--json").json["model"] == name, "a judge's own model may be one that decides"
    assert deciding.requests == []


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (("--model", "typesafe:jev-latest"), "TYPESAFE_API_KEY"),
        (("--model", "system-one:m"), "@http"),
        ((*CHAT, "--check-model", "openai:gpt-4.1-mini"), "not a decision model"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_stored(
    memalign: Run, options: tuple[str, ...], missing: str
) -> None:
    memalign(*NEW, *options, code=2, says=missing)
    assert memalign("list", "--json").json == {"judges": []}


def test_checks_are_learned_shown_and_dropped(
    memalign: Run, deciding: Endpoint, endpoint: Endpoint, feedback: Path
) -> None:
    endpoint.answer = with_checks
    memalign(*NEW, "--model", "openai:test", code=0)
    assert SORRY not in memalign("align", "tone", feedback).out, "a chat model alone is asked no questions"
    memalign("delete", "tone", "--yes", code=0)
    memalign(*NEW, "--model", "openai:test", "--check-model", f"system-one:m@{deciding.base_url}", code=0)
    learned = memalign("align", "tone", feedback, code=0)
    # ana said of t-1 (false) and of t-2 (true) that the answer is no.
    for name, label in (("G1", "false"), ("G2", "true")):
        for shown in (learned, memalign("guideline", "tone", name), memalign("show", "tone")):
            assert f"{SORRY}  [no for {label}]" in shown.out
    checks = memalign("show", "tone", "--json").json["guidelines"][0]["checks"]
    assert checks == [{"question": SORRY, "answer": "no", "value": False, "test": None}]
    memalign("guideline", "tone", "G1", "--text", "Be kind.", says=f"    - {SORRY}  [no for false]")  # the old checks
