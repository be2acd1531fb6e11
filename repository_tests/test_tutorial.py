"""The engineers' tutorial: its files are written, its commands run in order, and they print what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke
from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial" / "first-judge.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PREPARING = ("models", "--version")
"""Words after `memalign` of commands that download, or say only what is installed."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    with Endpoint(attentive) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield server


def plain(text: str) -> str:
    """Text on one line; how long something took is left out."""
    return " ".join(re.sub(r"\b[\d.]+ s\b", "N s", text).split())


def commands(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["memalign"] and words[1] not in PREPARING:
            yield words[1:]


def test_the_tutorial_prints_what_it_shows(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text("utf-8")
    printed, compared = "", 0
    for fence in FENCE.finditer(text):
        language, block = fence[1], fence[2]
        if language == "json":
            name = re.findall(r"as `([\w.]+)`", text[: fence.start()])[-1]
            Path(name).write_text(block, "utf-8")
        elif language == "sh":
            ran = [invoke(*words) for words in commands(block)]
            assert [done.code for done in ran] == [0] * len(ran), [done.err for done in ran]
            printed = plain(" ".join(done.out for done in ran)) if ran else printed
        elif language == "text":
            place = 0
            for part in filter(None, map(plain, block.split("…\n"))):
                assert part in printed[place:], f"the page shows {part!r}, and it printed {printed!r}"
                place = printed.index(part, place) + len(part)
            compared += 1
        else:
            exec(compile(block, PAGE.name, "exec"), {"__name__": "__main__"})
            shown = capsys.readouterr().out
            assert "G1 t-1@ana Never promise a day" in shown
            assert 'False Against G1: the reply says "on Monday".' in shown
    assert compared > 5


def test_the_experts_tutorial_names_what_the_page_shows() -> None:
    """Each button, tab and link that the page names in bold or italics is a text of the server."""
    text = re.sub(r"!\[.*?\]\(.*?\)", "", (PAGE.parent / "first-review.md").read_text("utf-8"))
    named = set(re.findall(r"\*\*([^*\n]+)\*\*", text)) | set(re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text))
    server = PAGE.parents[2] / "packages" / "memalign-server" / "src" / "memalign_server"
    sources = [path for path in server.rglob("*") if path.suffix in (".html", ".py", ".js")]
    shown = " ".join(" ".join(path.read_text("utf-8").split()) for path in sources)
    assert len(named) > 10
    assert {name for name in named if name not in shown} == set()
