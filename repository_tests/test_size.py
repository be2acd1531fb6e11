"""The house stays small enough to read in a week, and calm: each room has a budget of syntax nodes,
and at most eight of them on a line.

Nodes of the syntax tree are counted, not lines: air, names and docstrings are free, and packing
wins nothing. Many rooms weigh more than their budget by now. Until they have come down to it, a
number beside it says how much they may weigh; it only falls, and a room that meets it asks for
something that can leave.
"""

from __future__ import annotations

import ast
import tokenize
from functools import cache
from io import StringIO

import pytest
from checkout import ROOT, text_of, tracked_files


def rooms() -> dict[str, int]:
    """Return each place in the repository, and the syntax nodes that it may have by now."""
    rooms = {}
    for line in text_of("repository_tests/budgets.tsv").splitlines():
        if line and not line.startswith("#"):
            place, most, _, _ = line.split("\t")
            rooms[place] = int(most)
    return rooms


def belongs(name: str, place: str) -> bool:
    """Return whether a file is of a place: `tests`, `folder/*.py` for the folder
    itself, `folder` for all below it."""
    is_test = (
        "/tests/" in name
        or name.startswith("repository_tests")
        or "typing_tests" in name
    )
    if place == "tests" or is_test:
        return place == "tests" and is_test
    folder = place.removesuffix("*.py").rstrip("/") + "/"
    below = name.removeprefix(folder)
    return name.startswith(folder) and not (place.endswith("*.py") and "/" in below)


@cache
def weights() -> dict[str, int]:
    """Return how many syntax nodes each tracked Python file has, by its path."""
    weights = {}
    for path in tracked_files():
        if path.suffix == ".py":
            name = path.relative_to(ROOT).as_posix()
            weights[name] = len([*ast.walk(ast.parse(text_of(name)))])
    return weights


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def code_lines(text: str) -> int:
    """Return how many lines hold code: no blank ones, no comments and no docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            words = node.body[0]
            lines.difference_update(range(words.lineno, (words.end_lineno or 0) + 1))
    return len(lines)


def is_packed(node: ast.AST) -> bool:
    """Return whether an assignment puts several values in several names; a swap is none."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple):
        return False
    names = {ast.unparse(name) for name in target.elts}
    return names != {ast.unparse(value) for value in node.value.elts}


@pytest.mark.parametrize("place", rooms())
def test_a_line_holds_one_thought(place: str) -> None:
    lines = 0
    kinds = {"node": 0, "comprehension": 0, "packed": 0}
    for name in weights():
        if belongs(name, place):
            text = text_of(name)
            lines += code_lines(text)
            for node in ast.walk(ast.parse(text)):
                kinds["node"] += 1
                kinds["comprehension"] += isinstance(node, COMPREHENSIONS)
                kinds["packed"] += is_packed(node)
    assert kinds["node"] / lines < 8.05
    assert kinds["comprehension"] / lines <= 35 / 1000
    assert kinds["packed"] == 0


@pytest.mark.parametrize(("place", "most"), rooms().items())
def test_a_room_grows_no_more(place: str, most: int) -> None:
    mine = [nodes for name, nodes in weights().items() if belongs(name, place)]
    assert 0 < sum(mine) <= most


def test_every_file_of_the_product_has_exactly_one_room() -> None:
    for name in weights():
        if name.startswith(("packages/", "benchmarks/")):
            homes = [place for place in rooms() if belongs(name, place)]
            assert len(homes) == 1, name
