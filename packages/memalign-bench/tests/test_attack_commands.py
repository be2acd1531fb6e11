"""`memalign bench attack`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run
from tests.support.endpoint import Endpoint

REPLIES = Path(__file__).parents[1] / "benchmarks" / "attacks"


def test_attacks_are_counted_and_written_without_texts(
    memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(lambda body: {"rationale": "x", "value": "Answer true" in str(body)}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        args = ["bench", "attack", REPLIES, "replies", "true", "--model", "openai:test", "--method", "zero-shot"]
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


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def attack(memalign: Run, folder: Path, out: Path) -> Ran:
    args = ["bench", "attack", REPLIES, "replies", "true", "--model", "openai:test", "--method", "zero-shot"]
    return memalign(*args, "--attack", "order", "-n", "1", "--memo", folder / "memo", "--yes", "-o", out)


@pytest.mark.parametrize(("name", "says"), [("missing/out.json", "no folder"), ("", "is a folder")])
def test_an_unwritable_file_is_refused_before_any_call(
    memalign: Run, tmp_path: Path, judge: Endpoint, name: str, says: str
) -> None:
    ran = attack(memalign, tmp_path, tmp_path / name)
    assert ran.code == 2
    assert says in ran.err
    assert judge.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_paid_results_are_shown_despite_a_full_disk(memalign: Run, tmp_path: Path, judge: Endpoint) -> None:
    ran = attack(memalign, tmp_path, Path("/dev/full"))
    assert ran.code == 2
    assert "Right on the cases as they are" in ran.out
    assert "cannot be written" in ran.err
