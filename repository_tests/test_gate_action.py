"""A repository whose build runs the gate: red and green, by the action's own script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from tests.support.endpoint import Endpoint, user_of

ACTION = ROOT / ".github" / "actions" / "gate"


def memalign(folder: Path, *words: str, **environment: str) -> str:
    settings = {**os.environ, "MEMALIGN_REGISTRY": f"sqlite:///{folder / 'memalign.db'}", **environment}
    command = [sys.executable, "-m", "memalign", *words]
    ended = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module", params=[True, False], ids=["good", "worse"])
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    """A judge's bundle, labelled cases and a file of judgments; and whether the judge is good."""
    folder = tmp_path_factory.mktemp("gate")
    texts = [f"{'fine' if n % 2 else 'poor'} reply {n}" for n in range(60)]
    rows = [{"id": f"h-{n}", "outputs": text, "value": "fine" in text} for n, text in enumerate(texts)]
    (folder / "held_out.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    with Endpoint(lambda body: {"rationale": "Read.", "value": not request.param or "fine" in user_of(body)}) as server:
        there = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        settings = ("--instructions", "Fine? {{ outputs }}", "--value-type", "bool", "--model", "openai:test")
        memalign(folder, "create", "judge", *settings, **there)
        memalign(folder, "export", "judge", "-o", "judge.json")
        memalign(folder, "judge", "judge", "held_out.jsonl", "-o", "judged.jsonl", **there)
    return folder, request.param


def without_a_key(folder: Path) -> dict[str, str]:
    """The environment of a build: no key, no server, and `memalign` on the path."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "MEMALIGN"))}
    path = f"{folder / 'bin'}{os.pathsep}{settings['PATH']}"
    program = folder / "bin" / "memalign"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memalign "$@"\n', "utf-8")
    program.chmod(0o755)
    return {**settings, "PATH": path}


def test_the_script_passes_good_judges_and_fails_worse(repository: tuple[Path, bool]) -> None:
    folder, is_good = repository
    inputs = {"JUDGE": "judge.json", "LABELLED": "held_out.jsonl", "JUDGED": "judged.jsonl"}
    inputs |= {"CRITERIA": "--min-accuracy 0.8", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    environment = without_a_key(folder) | inputs
    command = ["bash", str(ACTION / "gate.sh")]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == (0 if is_good else 1), ran.stderr
    assert ("The gate: pass" if is_good else "The gate: worse") in (folder / "summary.md").read_text("utf-8")
    assert (b"<failure" in (folder / "gate.xml").read_bytes()) is not is_good


def test_the_action_gives_all_the_script_reads() -> None:
    action, script = ((ACTION / name).read_text("utf-8") for name in ("action.yml", "gate.sh"))
    for name in ("JUDGE", "LABELLED", "CRITERIA", "JUDGED"):
        assert f"{name}: ${{{{ inputs.{name.lower()} }}}}" in action
        assert f"${{{name}" in script or f"${name}" in script
