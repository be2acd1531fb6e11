"""The page on file formats lists the fields of the values that are written and read, no
more and no fewer."""

from __future__ import annotations

import re

import pytest
from checkout import text_of

from memalign.types import Feedback, Finding, Judgment

PAGE = text_of("docs/reference/formats.md")
BESIDE = {
    Judgment: {"judge", "content_hash", "ask"},  # the file's own
    Finding: set[str](),
    Feedback: {"group", "system"},  # columns that `evaluate` reads
}
UNSAID: dict[type, set[str]] = {Feedback: {"meta"}}  # where any other column goes
TABLES = {
    Judgment: ("## Judgments\n", "| field | content |\n"),
    Finding: ("A finding is an object:\n", "| field | content |\n"),
    Feedback: ("## Feedback and examples\n", "| column | needed | content |\n"),
}


def listed(after: str, head: str) -> set[str]:
    """The names in the first column of the first table with this head after a line of the page."""
    table = PAGE.partition(after)[2].partition(head)[2].partition("\n\n")[0]
    names = set[str]()
    for row in table.splitlines()[1:]:
        names.update(re.findall(r"`([^`]+)`", row.split("|")[1]))
    return names


@pytest.mark.parametrize("value", TABLES, ids=lambda value: value.__name__)
def test_a_field_that_a_file_has_is_on_the_page(
    value: type[Judgment | Finding | Feedback],
) -> None:
    fields = set(value.__struct_fields__) - UNSAID.get(value, set())
    assert listed(*TABLES[value]) == fields | BESIDE[value]
