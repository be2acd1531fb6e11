"""A file of OpenTelemetry's spans where a command takes examples."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.support.spans import Step, otlp

TRACE = "5b8efff798038103d269b633813fc60c"
STEPS = [Step(parent=None, name="support", inputs="Thanks!", outputs="Any time, enjoy your day!")]


def test_judge_takes_a_file_of_spans_as_examples(memalign: Run, tone: str, tmp_path: Path) -> None:
    (tmp_path / "spans.json").write_text(json.dumps(otlp(STEPS)), "utf-8")
    ran = memalign("judge", tone, tmp_path / "spans.json", "-o", "judged.jsonl")
    assert ran.code == 0, ran.err
    (judgment,) = (json.loads(line) for line in Path("judged.jsonl").read_text("utf-8").splitlines()[-1:])
    assert judgment["id"] == TRACE
    assert isinstance(judgment["value"], bool)
