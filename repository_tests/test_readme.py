"""The first page keeps its promises: what it prints is what it says, and its figures are those of the pages it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
HOLE = "REPOSITORY-URL"
"""What stands for the repository's address, while it has none."""

PROGRAM = re.compile(r"^<!-- test -->\n+```python\n(.*?)^```\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Endpoint(attentive) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield server


def test_the_program_prints_what_the_page_shows(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    ((program, output),) = PROGRAM.findall(README)
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output
    assert len([line for line in program.splitlines() if line.strip()]) <= 15


def test_the_page_is_read_in_one_go() -> None:
    assert len(README.splitlines()) <= 120


def results() -> list[list[str]]:
    """The cells of each row of the table of results."""
    table = README.partition("\n## Results\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@pytest.mark.parametrize("row", results(), ids=lambda row: row[0])
def test_each_result_is_on_the_page_it_links_to(row: list[str]) -> None:
    _, answer, repeat = row
    (link,) = re.findall(r"\[[^\]]+\]\(([^)#]+)[^)]*\)", answer)
    page = (ROOT / link).read_text("utf-8")
    figures = re.findall(r"[+\u2212]?\d[\d,.]*\d|[+\u2212]?\d", re.sub(r"\]\([^)]*\)", "]", answer))
    assert figures
    missing = [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", page)]
    assert not missing, f"{link} does not have {missing}"
    for script in re.findall(r"`python (\S+)", repeat):
        assert (ROOT / script).is_file()


def test_the_page_names_no_strangers_packages() -> None:
    from memalign.models.catalogue import CATALOGUE

    named = {word for model in CATALOGUE.values() for word in re.findall(r"[\w-]+-part", model.packages)}
    assert named
    assert not [name for name in named if name in README]


def test_one_word_stands_for_the_missing_address() -> None:
    """With an address, one replacement fills every hole; until then nothing pretends to have one."""
    pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md", *(f"packages/{name}/README.md" for name in PACKAGES)]
    for page in pages:
        text = (ROOT / page).read_text("utf-8")
        assert not re.search(r"git\+(?!REPOSITORY-URL)", text), page
        assert not re.search(r"<(?:repository|your)[^>]*url>", text, re.IGNORECASE), page
    for name in PACKAGES:
        assert HOLE in (ROOT / "packages" / name / "pyproject.toml").read_text("utf-8")


PACKAGES = ("memalign", "memalign-server")


def test_badges_say_what_the_packages_say() -> None:
    projects = [
        tomllib.loads((ROOT / f"packages/{name}/pyproject.toml").read_text("utf-8"))["project"] for name in PACKAGES
    ]
    for project in projects:
        versions = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
        assert f"{versions[0]} to {versions[-1]}" in (ROOT / "docs/images/python.svg").read_text("utf-8")
        assert project["requires-python"] == f">={versions[0]}"
        assert project["license"] in (ROOT / "docs/images/licence.svg").read_text("utf-8")
