"""Content of cases: text, JSON, conversations, traces; normal forms of words; the JSON walker."""

from memalign.content.conversation import Turn, turns_of
from memalign.content.media import check_field, check_fields, check_parts
from memalign.content.normal import column_form, printable, search_letters
from memalign.content.paths import Part, first_lacking, part_in, parts_in, sides_of
from memalign.content.text import as_read, judged_texts, words_of
from memalign.content.traces import (
    Span,
    SpanTree,
    exported_spans,
    shown_spans,
    span_tree,
    trace_of,
)
from memalign.content.walk import rebuilt, texts_in, values_in

__all__ = [
    "Part",
    "Span",
    "SpanTree",
    "Turn",
    "as_read",
    "check_field",
    "check_fields",
    "check_parts",
    "column_form",
    "exported_spans",
    "first_lacking",
    "judged_texts",
    "part_in",
    "parts_in",
    "printable",
    "rebuilt",
    "search_letters",
    "shown_spans",
    "sides_of",
    "span_tree",
    "texts_in",
    "trace_of",
    "turns_of",
    "values_in",
    "words_of",
]
