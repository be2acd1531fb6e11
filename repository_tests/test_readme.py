"""The first page keeps its promises: what it prints is what it says, and its figures
are those of the pages it names."""

from __future__ import annotations

import re
import sys
from itertools import chain
from pathlib import Path
from types import FrameType

import pytest
from checkout import PROGRAM, ROOT, missing, rows_of, section_of, text_of, toml_of

import memalign
from memalign import Example
from memalign.memory import Annotation, Case, Memory
from memalign.types import CodeTest, Guideline
from tests.cli.conftest import invoke
from tests.support.endpoint import Endpoint

README = text_of("README.md")


def test_the_program_prints_what_the_page_shows(
    provider: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    ((program, output),) = PROGRAM.findall(README)
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output
    assert len(re.findall(r"^.*\S", program, re.MULTILINE)) <= 15
    assert len(README.splitlines()) <= 110, "the page is read in one go"


def test_the_demo_prints_the_results_that_the_page_shows() -> None:
    section = section_of(README, "Ten seconds, no key")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert missing(invoke("demo", code=0).out, shown.splitlines()) == set()


FIGURE = re.compile(r"[+\u2212]?\d[\d,.]*\d|[+\u2212]?\d")
COMPARED = rows_of(section_of(README, "Why not MLflow's MemAlign?"))[2:]
RESULTS = rows_of(section_of(README, "Results: five questions that a buyer asks"))[2:]
ROWS = [*COMPARED, *RESULTS]


def test_the_tables_of_the_first_page_have_five_rows() -> None:
    assert len(COMPARED) == len(RESULTS) == 5


@pytest.mark.parametrize(
    "row", [row for row in ROWS if re.search(r"\d\d", " ".join(row))]
)
def test_each_figure_is_on_a_page_that_its_row_links_to(row: list[str]) -> None:
    told = " ".join(row[1:])
    pages = ""
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", told):
        pages += text_of(link)
    figures = FIGURE.findall(re.sub(r"\]\([^)]*\)", "]", told))
    assert figures
    for figure in figures:
        alone = rf"(?<![\d.,]){re.escape(figure)}(?![\d.,]*\d)"
        assert re.search(alone, pages), figure


def test_one_word_stands_for_the_missing_address() -> None:
    """With an address, one replacement of REPOSITORY-URL fills every hole; until then
    nothing pretends to have one."""
    pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md"]
    for package in ("packages/memalign", "packages/memalign-server"):
        assert "REPOSITORY-URL" in text_of(f"{package}/pyproject.toml")
        pages.append(f"{package}/README.md")
    pretended = r"git\+(?!REPOSITORY-URL)|<(?:repository|your)[^>]*url>"
    for page in pages:
        assert not re.search(pretended, text_of(page)), page


# -- CONTRIBUTING: the way through the files -------------------------------------------

CONTRIBUTING = text_of("CONTRIBUTING.md")
SOURCE = Path(memalign.__file__).parent


def way(heading: str) -> list[tuple[str, str]]:
    """The files and functions of a table of CONTRIBUTING, from top to bottom."""
    step = re.compile(r"^\| `([\w/]+\.py)` \| `(\w+)` \|", re.MULTILINE)
    return step.findall(section_of(CONTRIBUTING, heading))


def test_contributing_names_files_and_functions_that_exist() -> None:
    for heading in ("How a judge learns", "How a judgment is made"):
        steps = way(heading)
        assert len(steps) > 8
        for file, function in steps:
            assert f"def {function}(" in (SOURCE / file).read_text("utf-8")
    files = set(re.findall(r"`([\w/-]+\.(?:py|toml|jinja))`", CONTRIBUTING))
    assert len(files) > 15
    for name in files:
        there = (ROOT / name).exists() or (SOURCE / name).exists()
        assert there or any((ROOT / "packages").rglob(name)), name


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
    layers = rooms_by_layer()
    named = list[str]()
    for row in rows_of(section_of(CONTRIBUTING, "The rooms"))[2:]:
        named += re.findall(r"`(\w+)`", row[0])
    levels = list[int]()
    for name in named:
        levels += [level for level, rooms in enumerate(layers) if name in rooms]
    assert levels == sorted(levels)
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} <= {*named}
    picture = text_of("docs/images/rooms.svg")
    drawn = re.findall(r'font-weight="600">(\w+)<', picture)
    assert drawn == [*chain(*layers)], "the picture has the same rooms"


def rooms_by_layer() -> list[list[str]]:
    """Return the rooms of each layer that the import contracts name, from top to bottom."""
    settings = toml_of("pyproject.toml")["tool"]["importlinter"]
    for contract in settings["contracts"]:
        if contract["containers"] == ["memalign"]:
            return [re.findall(r"\w+", layer) for layer in contract["layers"]]
    raise AssertionError("no contract is about the library's rooms")
