"""What is wrong with a field of a case, told before any model is asked about it."""

from __future__ import annotations

from collections.abc import Mapping

from memalign.content.conversation import turns_of
from memalign.content.images import image_in
from memalign.content.spans import span_tree
from memalign.errors import InputError

__all__ = ["check_field", "check_fields"]


def check_field(name: str, value: object) -> None:
    """Raise InputError for an image in a field, or a conversation that is none; the message says where and what to do."""
    found = image_in(value)
    if found is None and name == "trace" and (tree := span_tree(value)) is not None:
        # Many tracers keep what a span was given as JSON inside a text: only the tree shows what is in it.
        seen = ((span, part, image_in(getattr(span, part))) for span in tree.spans for part in ("inputs", "outputs"))
        found = next((f", span {span.name!r}, {part}{image}" for span, part, image in seen if image), None)
    if found is not None:
        raise InputError(
            f"{name}{found}: images cannot be judged; say in words what it shows, or leave it out of {name}"
        )
    if name == "conversation":
        turns_of(value)


def check_fields(example_id: str, content: Mapping[str, object]) -> None:
    """Check every field of a case; the message of an InputError begins with the case's id."""
    for name, value in content.items():
        try:
            check_field(name, value)
        except InputError as error:
            raise InputError(f"{example_id}: {error}") from None
