"""A repository whose build runs the gate: red and green, by the action's own script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from tests.cli.conftest import invoke
from tests.support.endpoint import Endpoint, user_of

ACTION = ROOT / ".github" / "actions" / "gate"


@pytest.mark.parametrize("good", [True, False])
def test_the_script_passes_good_judges_and_fails_worse(
    good: bool, provider: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build has a judge's bundle, labelled cases and a file of judgments, and
    neither a key nor a server."""
    texts = [f"{'fine' if n % 2 else 'poor'} reply {n}" for n in range(60)]
    rows = [
        {"id": f"h-{n}", "outputs": text, "value": "fine" in text}
        for n, text in enumerate(texts)
    ]
    Path("held_out.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in rows), "utf-8"
    )
    provider.answer = lambda body: {
        "rationale": "Read.",
        "value": not good or "fine" in user_of(body),
    }
    settings = (
        "--instructions",
        "Fine? {{ outputs }}",
        "--value-type",
        "bool",
        "--model",
        "openai:test",
    )
    invoke("create", "judge", *settings, code=0)
    invoke("export", "judge", "-o", "judge.json", code=0)
    invoke("judge", "judge", "held_out.jsonl", "-o", "judged.jsonl", code=0)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment |= {
        "JUDGE": "judge.json",
        "LABELLED": "held_out.jsonl",
        "JUDGED": "judged.jsonl",
    }
    environment |= {
        "CRITERIA": "--min-accuracy 0.8",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    command = ["bash", str(ACTION / "gate.sh")]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == (0 if good else 1), ran.stderr
    assert ("The gate: pass" if good else "The gate: worse") in Path(
        "summary.md"
    ).read_text("utf-8")
    assert (b"<failure" in Path("gate.xml").read_bytes()) is not good


def test_the_action_gives_all_the_script_reads() -> None:
    action, script = (
        (ACTION / name).read_text("utf-8") for name in ("action.yml", "gate.sh")
    )
    for name in ("JUDGE", "LABELLED", "CRITERIA", "JUDGED"):
        assert f"{name}: ${{{{ inputs.{name.lower()} }}}}" in action
        assert f"${{{name}" in script or f"${name}" in script
