"""Which cases are the first: those that a run judges first, in whatever order their lines came to lie."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks import bench_later

from bench_support.runs import cell, go, lines_of, plan_of
from memalign_bench.report.facts import write_facts

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.support.endpoint import Endpoint


def parts(config: Path, capsys: pytest.CaptureFixture[str], first: int) -> dict[str, dict[str, Any]]:
    bench_later.main_(config, None, "memalign", {0: first})
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["cases"]: line for line in said if line["against"] == "zero-shot"}


def test_line_order_does_not_change_the_split(
    config: Path, endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    go(config, methods=("zero-shot", "memalign"))
    plan = plan_of(config)
    raw = config.parent / "raw"
    write_facts(raw, plan.tasks.values(), models=["openai:test"])
    found = parts(config, capsys, 2)

    order = [case.id for case in plan.splits["tone", 0].test]
    right = {line.id: line.value == line.label for line in lines_of(config, "memalign", 8)}
    assert (found["first"]["n"], found["later"]["n"]) == (2, 4)
    assert found["first"]["right"] == sum(right[case] for case in order[:2])
    assert found["later"]["right"] == sum(right[case] for case in order[2:])

    for method, stage in (("zero-shot", 0), ("memalign", 8)):
        file = raw / cell(method, stage).path
        file.write_bytes(b"".join(sorted(file.read_bytes().splitlines(keepends=True), reverse=True)))
    assert parts(config, capsys, 2) == found
    assert list(parts(config, capsys, 0)) == ["later"]
