"""What the fields of a case may hold: turns of a conversation, the spans of a trace, and no images."""

from memalign.content.check import check_field, check_fields
from memalign.content.conversation import Turn, turns_of
from memalign.content.images import image_in
from memalign.content.spans import Span, SpanTree, span_tree
from memalign.content.words import words_of

__all__ = ["Span", "SpanTree", "Turn", "check_field", "check_fields", "image_in", "span_tree", "turns_of", "words_of"]
