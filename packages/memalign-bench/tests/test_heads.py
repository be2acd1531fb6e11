"""What the head makes of a run's recorded verdicts: no test case fits it, and no call is made twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks import bench_heads

from bench_support.runs import go
from bench_support.world import CONFIG
from memalign import aio

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.endpoint import Endpoint


def lines(config: Path, capsys: pytest.CaptureFixture[str], skip: int = 0) -> list[dict[str, Any]]:
    aio.run(bench_heads.main_(config, None, config.parent / "memo", skip))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_judge_that_says_yes_to_everything_is_set_right_by_what_its_taught_cases_tell(
    config: Path, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        CONFIG.replace("stages = [0, 4, 8]", "stages = [0, 32]")
        .replace("train = 8", "train = 32")
        .replace('arms = ["majority", "bare", "nearest", "memalign"]', 'arms = ["bare", "memalign"]'),
        "utf-8",
    )
    go(config)
    asked = len(endpoint.requests)
    one, together = lines(config, capsys)
    assert len(endpoint.requests) == asked, "the run had asked about the taught cases already"
    assert (one["task"], one["taught"]["n"], one["taught"]["clear"]) == ("tone", 32, True)
    assert one["taught"]["right"] < one["taught"]["head"]
    for arm in ("memalign", "bare"):
        assert one[arm]["n"] == 6
        assert one[arm]["right"] < one[arm]["head"] == 6
        assert one[arm]["head"] - one[arm]["right"] == one[arm]["fixed"] - one[arm]["broken"]
        assert together[arm] == one[arm]
    against = together["memalign's head against bare"]
    assert (against["n"], against["right"], against["head"]) == (6, one["bare"]["right"], one["memalign"]["head"])
    assert "memalign's head against regression-features" not in together, "that arm was not run"

    *_, later = lines(config, capsys, skip=2)
    assert {arm: later[arm]["n"] for arm in later if arm != "task"} == dict.fromkeys(together.keys() - {"task"}, 4)


def test_where_too_few_cases_taught_there_is_no_head_and_it_says_so(
    config: Path, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    go(config, arms=("bare", "memalign"))
    *each, together = lines(config, capsys)
    assert [(line["taught"], line["memalign"], line["bare"]) for line in each] == [(None, None, None)] * 2
    assert together == {"task": "all"}
