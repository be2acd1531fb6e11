"""What the fields of a case may hold: turns of a conversation, the spans of a trace, and nothing but text."""

from memalign.content.check import check_field, check_fields
from memalign.content.conversation import Turn, turns_of
from memalign.content.media import Medium, media_in
from memalign.content.reading import as_read
from memalign.content.sides import sides_of
from memalign.content.spans import Span, SpanTree, span_tree
from memalign.content.words import judged_texts, words_of

__all__ = [
    "Medium",
    "Span",
    "SpanTree",
    "Turn",
    "as_read",
    "check_field",
    "check_fields",
    "judged_texts",
    "media_in",
    "sides_of",
    "span_tree",
    "turns_of",
    "words_of",
]
