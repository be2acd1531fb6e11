"""Why a row of a file cannot be used, in the reader's language if the reason is a usual one."""

from __future__ import annotations

import re

from memalign.errors import RowError
from memalign_server.pages.languages import Language
from memalign_server.pages.rendering import in_english
from memalign_server.pages.texts import visible

__all__ = ["reason_of"]

_CELLS = re.compile(r"the row has (?P<n>\d+) cells and the header (?P<columns>\d+)")
_EMPTY = re.compile(r"nothing is in (?P<names>.+)")
_OTHER_CONTENT = re.compile(
    r"its content differs from '(?P<id>.+)' on line (?P<line>\d+)"
)


def reason_of(row: RowError, language: Language) -> str:
    """Return why a row cannot be used.

    An unusual reason stays in English and is marked as such.
    """
    reason = row.reason
    if found := _CELLS.match(reason):
        return language.say(
            "the row has {n} cells, and there are {columns} columns",
            **found.groupdict(),
        )
    if found := _EMPTY.match(reason):
        return language.say("nothing is in {names}", names=visible(found["names"]))
    if found := _OTHER_CONTENT.match(reason):
        return language.say(
            "its id, {id}, is that of line {line}, which holds something else",
            id=visible(found["id"]),
            line=found["line"],
        )
    if reason.startswith("id is missing"):
        return language.say("it has no id, and other rows have one")
    if reason.startswith("a row is a JSON object"):
        return language.say("it is no JSON object")
    if reason.startswith("broken JSON"):
        return language.say("its JSON is broken")
    if reason.startswith("broken CSV"):
        return language.say("a quotation mark opens a cell and is never closed")
    return in_english(language, visible(reason))
