"""Keys of feedback in commands: id@source, e-mail addresses as sources, quoted ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import FEEDBACK, Run, jsonl

MAIL: dict[str, Any] = {**FEEDBACK[0], "source": "ben@example.org", "rationale": "Cold, start with sympathy."}
QUOTED: dict[str, Any] = {**FEEDBACK[1], "id": "mail@x", "inputs": "Thanks a lot!"}


@pytest.fixture
def mailed(memalign: Run, tone: str, tmp_path: Path) -> str:
    memalign("align", tone, jsonl(tmp_path / "mail.jsonl", [FEEDBACK[0], MAIL, QUOTED]), code=0)
    return tone


def keys(memalign: Run, name: str) -> list[str]:
    entries = memalign("show", name, "--ledger", "--json").json["ledger"]["entries"]
    return [each["key"] for each in entries if each["state"] != "withdrawn"]


@pytest.mark.parametrize(
    ("key", "rest"),
    [
        ("t-1@ben@example.org", ['"mail@x"@ana', "t-1@ana"]),
        ("t-1", ['"mail@x"@ana']),
        ('"mail@x"@ana', ["t-1@ana", "t-1@ben@example.org"]),
        ('"mail@x"', ["t-1@ana", "t-1@ben@example.org"]),
    ],
)
def test_a_written_key_names_what_is_withdrawn(memalign: Run, mailed: str, key: str, rest: list[str]) -> None:
    memalign("unalign", mailed, key, "--dry-run", code=0)
    memalign("unalign", mailed, key, code=0)
    assert keys(memalign, mailed) == rest


def test_the_advice_of_an_error_has_the_judges_name(memalign: Run, mailed: str) -> None:
    refused = memalign("unalign", mailed, "t-404", code=2, says=f"memalign show {mailed} --ledger")
    assert "NAME" not in refused.err
