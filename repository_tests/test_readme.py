"""The first page keeps its promises: what it prints is what it says, and its figures
are those of the pages it names."""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path
from types import FrameType

import pytest
from checkout import PROGRAM, ROOT

import memalign
from memalign import Example
from memalign.memory import Annotation, Case, Memory
from memalign.types import CodeTest, Guideline
from tests.cli.conftest import invoke
from tests.support.endpoint import Endpoint

README = (ROOT / "README.md").read_text("utf-8")


def test_the_program_prints_what_the_page_shows(
    provider: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    ((program, output),) = PROGRAM.findall(README)
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    assert len(README.splitlines()) <= 110, "the page is read in one go"


def test_the_demo_prints_the_results_that_the_page_shows() -> None:
    section = README.partition("\n## Ten seconds, no key\n")[2].partition("\n## ")[0]
    (shown,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    printed = invoke("demo", code=0).out
    assert [line for line in shown.splitlines() if line not in printed] == []


def rows_below(heading: str) -> list[list[str]]:
    """The cells of each row of the table below a heading, without its head."""
    table = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        line.strip("|").split("|")
        for line in table.splitlines()
        if line.startswith("| ")
    ]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def missing_figures(told: str, page: str) -> list[str]:
    """The figures of a text that a page does not have."""
    figures = re.findall(r"[+\u2212]?\d[\d,.]*\d|[+\u2212]?\d", told)
    assert figures
    return [
        figure
        for figure in figures
        if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d.,]*\d)", page)
    ]


FIGURED = [
    *rows_below("Why not MLflow's MemAlign?"),
    *rows_below("Results: five questions that a buyer asks"),
]


@pytest.mark.parametrize(
    "row",
    [row for row in FIGURED if re.search(r"\d\d", " ".join(row))],
    ids=lambda row: row[0],
)
def test_each_figure_is_on_a_page_that_its_row_links_to(row: list[str]) -> None:
    told = " ".join(row[1:])
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", told)
    pages = " ".join((ROOT / link).read_text("utf-8") for link in links)
    assert links
    assert missing_figures(re.sub(r"\]\([^)]*\)", "]", told), pages) == []


def test_the_tables_of_the_first_page_have_five_rows() -> None:
    assert len(rows_below("Why not MLflow's MemAlign?")) == 5
    assert len(rows_below("Results: five questions that a buyer asks")) == 5


def test_one_word_stands_for_the_missing_address() -> None:
    """With an address, one replacement of REPOSITORY-URL fills every hole; until then
    nothing pretends to have one."""
    packages = [ROOT / "packages" / name for name in ("memalign", "memalign-server")]
    assert all(
        "REPOSITORY-URL" in (package / "pyproject.toml").read_text("utf-8")
        for package in packages
    )
    for page in (
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
        *packages,
    ):
        text = (page / "README.md" if page.is_dir() else page).read_text("utf-8")
        assert not re.search(
            r"git\+(?!REPOSITORY-URL)|<(?:repository|your)[^>]*url>", text
        )


# -- CONTRIBUTING: the way through the files -------------------------------------------

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
SOURCE = Path(memalign.__file__).parent


def way(heading: str) -> list[tuple[str, str]]:
    """The files and functions of a table of CONTRIBUTING, from top to bottom."""
    section = CONTRIBUTING.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", section, re.MULTILINE)


def test_contributing_names_files_and_functions_that_exist() -> None:
    for heading in ("How a judge learns", "How a judgment is made"):
        steps = way(heading)
        assert len(steps) > 8
        assert [
            step
            for step in steps
            if f"def {step[1]}(" not in (SOURCE / step[0]).read_text("utf-8")
        ] == []
    places = [SOURCE, SOURCE.parent, ROOT, ROOT / "packages/memalign-server/tests"]
    files = set(re.findall(r"`([\w/-]+\.(?:py|toml|jinja))`", CONTRIBUTING))
    assert len(files) > 15
    missing = {
        name for name in files if not any((place / name).exists() for place in places)
    }
    server = ROOT / "packages/memalign-server/src"
    assert {name for name in missing if not any(server.rglob(name))} == set()


def test_a_judgment_goes_the_way_of_the_table() -> None:
    taught = Example(id="t-1", outputs="Sorry.")
    said = Annotation(id="t-1", source="ana", value=False)
    rule = Guideline(
        id="G1", text="Say sorry.", tests=(CodeTest(kind="word", text="sorry"),)
    )
    judge = memalign.Judge(
        name="tone",
        instructions="Polite? {{ outputs }}",
        feedback_value_type=bool,
        memory=Memory(
            cases=(Case(example=taught, annotations=(said,)),), guidelines=(rule,)
        ),
    )
    steps: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(SOURCE):
            name = file.relative_to(SOURCE).as_posix()
            steps.setdefault((name, frame.f_code.co_name))

    async def judged(model: str) -> None:
        sys.setprofile(note)
        try:
            await judge.replace(model=model).ajudge(outputs="It is on its way.")
        finally:
            sys.setprofile(None)

    with Endpoint() as endpoint:
        memalign.aio.run(judged(f"openai:m@{endpoint.base_url}"))
    told = way("How a judgment is made")
    assert [step for step in steps if step in told] == told


def test_every_room_is_on_the_map_from_top_to_bottom() -> None:
    order = rooms_by_layer()
    section = CONTRIBUTING.partition("\n## The rooms\n")[2].partition("\n## ")[0]
    named: list[str] = []
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        named.extend(re.findall(r"`(\w+)`", row))
    levels = [
        next(level for level, names in enumerate(order) if name in names)
        for name in named
    ]
    assert levels == sorted(levels)
    folders = {
        path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()
    }
    assert folders <= set(named)
    picture = (ROOT / "docs/images/rooms.svg").read_text("utf-8")
    drawn = re.findall(r'font-weight="600">(\w+)<', picture)
    assert drawn == [*chain(*order)], "the picture has the same rooms"


def rooms_by_layer() -> list[list[str]]:
    """Return the rooms of each layer that the import contracts name, from top to bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]
    for contract in settings["contracts"]:
        if contract["containers"] == ["memalign"]:
            return [re.findall(r"\w+", layer) for layer in contract["layers"]]
    raise AssertionError("no contract is about the library's rooms")
