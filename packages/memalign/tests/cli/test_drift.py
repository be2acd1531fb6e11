"""`memalign drift`: what an alarm looks like, and what it asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, jsonl
from tests.support.endpoint import Answer, Endpoint, user_of


@pytest.fixture
def runs(memalign: Run, tmp_path: Path) -> tuple[Path, Path]:
    """Judgments of two days; on the second, every other reply is bad, and before that one of ten was."""

    def answer(body: dict[str, Any]) -> Answer:
        return {"rationale": "", "value": "bad" not in user_of(body)}

    files = []
    with Endpoint(answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        settings = ("--instructions", "Good? {{ outputs }}", "--value-type", "bool", "--model", "openai:test")
        assert memalign("create", "tone", *settings).code == 0
        for day, of in (("monday", 10), ("tuesday", 2)):
            rows = [{"id": f"{day}-{n}", "outputs": f"{'bad' if n % of == 0 else 'fine'} {n}"} for n in range(60)]
            out = tmp_path / f"{day}.judged.jsonl"
            assert memalign("judge", "tone", jsonl(tmp_path / f"{day}.jsonl", rows), "-o", out).code == 0
            files.append(out)
    return files[0], files[1]


def test_an_alarm_is_exit_1_and_names_cases(memalign: Run, runs: tuple[Path, Path]) -> None:
    ran = memalign("drift", "tone", *runs, "-n", "2")
    assert ran.code == 1
    assert "labels that changed share" in ran.out
    assert "alarm; of runs that do not differ, 5% raise one; label these next: tuesday-0, tuesday-10" in ran.out
    found = memalign("drift", "tone", *runs, "--json").json
    assert found["alarm"] is True
    assert found["label_shares"]["true"] == [0.9, 0.5]


def test_wrong_use_is_said(memalign: Run, runs: tuple[Path, Path]) -> None:
    same = memalign("drift", "tone", runs[0], runs[0])
    assert (same.code, "60 items are in both runs" in same.err) == (2, True)
    once = memalign("drift", "tone", *runs, "--examples", "monday.jsonl")
    assert (once.code, "give --examples twice" in once.err) == (2, True)
    missing = memalign("drift", "tone", runs[0], "nowhere.jsonl")
    assert (missing.code, "no such file" in missing.err) == (2, True)
