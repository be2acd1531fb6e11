"""How Babel finds the sentences of the library that pages show: babel.cfg names these
extractors and the files."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import IO, Any


def constants(
    file: IO[bytes], keywords: Any, tags: Collection[str], options: Any
) -> Iterator[tuple[int, None, str, list[str]]]:
    """Yield every text of a file's public constants, with its line, as Babel wants it."""
    for statement in ast.parse(file.read()).body:
        if not isinstance(statement, ast.Assign):
            continue
        (name, *_) = statement.targets
        if not isinstance(name, ast.Name) or not name.id.isupper():
            continue
        for part in ast.walk(statement.value):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, None, part.value, []


def nouns(
    file: IO[bytes], keywords: Any, tags: Collection[str], options: Any
) -> Iterator[tuple[int, str, tuple[str, str], list[str]]]:
    """Yield what experts call one and several of each kind of memory."""
    for node in ast.walk(ast.parse(file.read())):
        if isinstance(node, ast.keyword) and node.arg == "experts":
            singular, plural = ast.literal_eval(node.value)
            yield node.value.lineno, "ngettext", (singular, plural), []
