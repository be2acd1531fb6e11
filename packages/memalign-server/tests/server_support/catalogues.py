"""How Babel finds the sentences of the library that pages show: babel.cfg names this extractor and the files."""

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
