"""Images in a case are found and refused: a judge reads text, and a picture in base64 would be read as a megabyte of it."""

from __future__ import annotations

import re

__all__ = ["image_in"]

_PARTS = frozenset({"image_url", "input_image", "image_file"})
# What stands beside "type": "image" where a picture is meant; a block of text about one ({"type": "image", "alt": …}) is text.
_PICTURE = frozenset(
    (
        *("image", "image_url", "source", "url", "data", "path", "file", "file_id", "base64", "bytes"),
        *("mime_type", "media_type", "mimeType", "mediaType"),
    )
)
_MIME = ("mime_type", "media_type", "mimeType", "mediaType")
_DATA_URL = re.compile(r"\s*data:image/", re.IGNORECASE)
_INSIDE = re.compile(r"data:image/[\w.+-]+(?:;[\w=-]+)*;base64,[A-Za-z0-9+/\s]{1000}", re.IGNORECASE)
# How the base64 of a PNG, a JPEG, a GIF, and a WebP picture begins.
_BARE = re.compile(r"\s*(?:iVBORw0KGgo|/9j/[24]|R0lGODlh|R0lGODdh|UklGR)[A-Za-z0-9+/\r\n]{400}")


def image_in(value: object) -> str | None:
    """Where in `value` an image is and what it looks like, `[2].content[1] is an image (image_url)`; None without one.

    Found are the content parts of the usual message formats, data: URLs of images (inside a longer text from a thousand
    characters on: a tiny icon in a page's source is text), bare base64 of a picture, bytes, and Pillow's objects.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        at, part = waiting.pop()
        if (what := _image(part)) is not None:
            return f"{at} is {what}"
        if isinstance(part, dict):
            waiting.extend((f"{at}.{name}", each) for name, each in reversed(list(part.items())))
        elif isinstance(part, list | tuple):
            waiting.extend((f"{at}[{place}]", part[place]) for place in range(len(part) - 1, -1, -1))
    return None


def _image(value: object) -> str | None:
    if isinstance(value, str):
        return _image_text(value)
    if isinstance(value, dict):
        return _image_part(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes, such as those of an image"
    if type(value).__module__.partition(".")[0] == "PIL":
        return "an image (Pillow)"
    return None


def _image_text(text: str) -> str | None:
    if _DATA_URL.match(text):
        return "an image (a data: URL)"
    if "data:image/" in text and _INSIDE.search(text):
        return "a text with an image in it (a data: URL)"
    if len(text) > 400 and _BARE.match(text):
        return "an image (base64)"
    return None


def _image_part(part: dict[str, object]) -> str | None:
    kind = part.get("type")
    if isinstance(kind, str) and (
        kind in _PARTS or (kind == "image" and (len(part) == 1 or not _PICTURE.isdisjoint(part)))
    ):
        return f"an image ({kind})"
    held = part.get("image_url")
    if isinstance(held, dict) and "url" in held:
        return "an image (image_url)"
    held = part.get("image")
    if isinstance(held, dict) and not {"source", "bytes"}.isdisjoint(held) and "format" in held:
        return "an image (format and source)"
    if "data" in part and any(str(part.get(name, "")).lower().startswith("image/") for name in _MIME):
        return "an image (its media type)"
    return None
