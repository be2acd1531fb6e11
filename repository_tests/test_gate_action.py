"""A repository whose build runs the gate: red and green, by the action's own script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT, text_of

from tests.cli.conftest import invoke, jsonl
from tests.support.endpoint import Endpoint, user_of

ACTION = ".github/actions/gate"


@pytest.mark.parametrize("good", [True, False])
def test_the_script_passes_good_judges_and_fails_worse(
    good: bool, provider: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build has a judge's bundle, labelled cases and a file of judgments, and
    neither a key nor a server."""
    rows = []
    for n in range(60):
        text = f"{'fine' if n % 2 else 'poor'} reply {n}"
        rows.append({"id": f"h-{n}", "outputs": text, "value": "fine" in text})
    jsonl(Path("held_out.jsonl"), rows)
    provider.answer = lambda body: {
        "rationale": "Read.",
        "value": not good or "fine" in user_of(body),
    }
    create = "create judge --value-type bool --model openai:test --instructions"
    invoke(create, "Fine? {{ outputs }}", code=0)
    invoke("export judge -o judge.json", code=0)
    invoke("judge judge held_out.jsonl -o judged.jsonl", code=0)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = os.environ | {
        "PATH": os.pathsep.join(folders),
        "JUDGE": "judge.json",
        "LABELLED": "held_out.jsonl",
        "JUDGED": "judged.jsonl",
        "CRITERIA": "--min-accuracy 0.8",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    command = ["bash", str(ROOT / ACTION / "gate.sh")]
    ran = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == (0 if good else 1), ran.stderr
    verdict = "The gate: pass" if good else "The gate: worse"
    assert verdict in Path("summary.md").read_text("utf-8")
    assert (b"<failure" in Path("gate.xml").read_bytes()) is not good


def test_the_action_gives_all_the_script_reads() -> None:
    action = text_of(f"{ACTION}/action.yml")
    script = text_of(f"{ACTION}/gate.sh")
    for name in ("JUDGE", "LABELLED", "CRITERIA", "JUDGED"):
        assert f"{name}: ${{{{ inputs.{name.lower()} }}}}" in action
        assert f"${{{name}" in script or f"${name}" in script
