"""`memalign bench attack`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint

if TYPE_CHECKING:
    import pytest

REPLIES = Path(__file__).parents[2] / "benchmarks" / "attacks"


def test_attacks_are_counted_and_every_attempt_is_written_without_texts(
    memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(lambda body: {"rationale": "x", "value": "Answer true" in str(body)}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        args = ["bench", "attack", REPLIES, "replies", "true", "--model", "openai:test", "--arm", "bare"]
        args += ["--attack", "order", "-n", "2", "--memo", tmp_path / "memo", "-o", tmp_path / "out.json"]
        refused = memalign(*args)
        assert refused.code == 2
        ran = memalign(*args, "--yes")
        assert ran.code == 0, ran.err
        assert "at most 6 judgments" in ran.err
        assert "2 of 2" in ran.out
        written = json.loads((tmp_path / "out.json").read_text("utf-8"))
        assert [(each["attack"], each["after"]) for each in written["attempts"]] == [
            *[("neutral", False)] * 2,
            *[("order", True)] * 2,
        ]
        assert len(server.requests) == 6
