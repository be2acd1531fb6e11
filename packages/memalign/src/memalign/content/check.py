"""What is wrong with a field of a case, told before any model is asked about it."""

from __future__ import annotations

from collections.abc import Mapping

from memalign.content.conversation import turns_of
from memalign.content.media import media_in
from memalign.content.spans import span_tree
from memalign.errors import InputError

__all__ = ["check_field", "check_fields"]


_INSTEAD = {
    "image": "images cannot be judged; say in words what it shows",
    "audio": "audio cannot be judged; give its transcript as text",
    "video": "videos cannot be judged; say in words what it shows",
    "file": "files cannot be judged; give what it says as text",
}


def check_field(name: str, value: object) -> None:
    """Raise InputError for a field with an image, audio, video or a file in it, or a conversation that is none.

    The message says where it is and what to do.
    """
    found, at = media_in(value), ""
    if found is None and name == "trace" and (tree := span_tree(value)) is not None:
        # Many tracers keep what a span was given as JSON inside a text: only the tree shows what is in it.
        seen = ((span, part, media_in(getattr(span, part))) for span in tree.spans for part in ("inputs", "outputs"))
        found, at = next(
            ((medium, f", span {span.name!r}, {part}") for span, part, medium in seen if medium), (None, "")
        )
    if found is not None:
        raise InputError(f"{name}{at}{found}: {_INSTEAD[found.kind]}, or leave it out of {name}")
    if name == "conversation":
        turns_of(value)


def check_fields(example_id: str, content: Mapping[str, object]) -> None:
    """Check every field of a case; the message of an InputError begins with the case's id."""
    for name, value in content.items():
        try:
            check_field(name, value)
        except InputError as error:
            raise InputError(f"{example_id}: {error}") from None
