"""`memalign replay`: another model, looked at before it is taken."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint, bad_request


def test_it_compares_and_adopts_only_when_told(memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint) -> None:
    looked = memalign("replay", aligned, held_out, "--model", "openai:other", "--json")
    assert looked.code == 0, looked.err
    assert looked.json["adopted"] is None
    assert looked.json["n"] == 3
    assert looked.json["same"]["value"] == 1.0
    version = memalign("history", aligned, "--json").json["versions"]
    adopted = memalign("replay", aligned, held_out, "--model", "openai:other", "--adopt")
    assert adopted.code == 0, adopted.err
    assert "on openai:other" in adopted.out
    assert len(memalign("history", aligned, "--json").json["versions"]) > len(version)
    assert "openai:other" in memalign("show", aligned).out
    assert {request["model"] for request in endpoint.requests} == {"test", "other"}


def test_a_missing_verdict_prevents_adoption(memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint) -> None:
    endpoint.faults = [bad_request("no such thing")]
    ran = memalign("replay", aligned, held_out, "--model", "openai:other", "--adopt")
    assert ran.code == 1
    assert "nothing was adopted" in ran.err
    assert "openai:other" not in memalign("show", aligned).out


def test_wrong_use_is_said(memalign: Run, aligned: str, held_out: Path) -> None:
    same = memalign("replay", aligned, held_out, "--model", "openai:test")
    assert same.code == 2
    assert "name another model" in same.err
    both = memalign("replay", aligned, held_out, "--model", "openai:other", "--adopt", "--version", "1")
    assert both.code == 2
    assert "leave --version out" in both.err
