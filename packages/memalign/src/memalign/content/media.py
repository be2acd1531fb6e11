"""Images, audio, video and files in a case are found and refused: a judge reads text, and base64 is a megabyte of none."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

__all__ = ["Medium", "media_in"]

Kind = Literal["image", "audio", "video", "file"]

_A: dict[Kind, str] = {"image": "an image", "audio": "audio", "video": "a video", "file": "a file"}

# Content parts that can be nothing else, by their "type".
_PARTS: dict[object, Kind] = {
    **dict.fromkeys(("image_url", "input_image", "image_file"), "image"),
    **dict.fromkeys(("input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("input_video", "video_url"), "video"),
    **dict.fromkeys(("input_file", "file_url"), "file"),
}
# Bedrock's name what they are by the name of what they hold.
_CONVERSE: tuple[tuple[str, Kind], ...] = (
    ("image", "image"),
    ("audio", "audio"),
    ("video", "video"),
    ("document", "file"),
)
# What stands beside "type": "image" where a picture is meant; a block of text about one ({"type": "image", "alt": …}) is text.
_PICTURE = frozenset(
    (
        *("image", "image_url", "source", "url", "data", "path", "file", "file_id", "base64", "bytes"),
        *("mime_type", "media_type", "mimeType", "mediaType"),
    )
)
# The others say less by their type: {"type": "file", "path": …} is a line of a directory, and so a text.
_KINDS: dict[object, Kind] = {"audio": "audio", "video": "video", "file": "file", "document": "file", "media": "file"}
_PAYLOADS = frozenset({"data", "blob", "bytes", "base64", "file_data", "fileData", "file_uri", "fileUri", "file_id"})
_MIME = ("mime_type", "media_type", "mimeType", "mediaType")
_MIMES: tuple[tuple[str, Kind], ...] = (
    ("image/", "image"),
    ("audio/", "audio"),
    ("video/", "video"),
    ("application/pdf", "file"),
    ("application/octet-stream", "file"),
    ("application/msword", "file"),
    ("application/vnd.", "file"),
    ("application/zip", "file"),
)
_MEDIA = r"data:(image/|audio/|video/|application/(?:pdf|octet-stream|msword|vnd\.|zip))"
_DATA_URL = re.compile(rf"\s*(?:data:(image/)|{_MEDIA}[\w.+-]*(?:;[\w.=-]+)*;base64,)", re.IGNORECASE)
_INSIDE = re.compile(rf"{_MEDIA}[\w.+-]*(?:;[\w.=-]+)*;base64,[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE)
# How the base64 of a PNG, a JPEG and a GIF begins; of a PDF; of an MP3 and an Ogg; of RIFF: WebP or WAV.
_BARE = re.compile(
    r"\s*(?:(iVBORw0KGgo|/9j/[24]|R0lGODlh|R0lGODdh)|(JVBERi0)|(SUQz[AB]|T2dnU)|UklGR)[A-Za-z0-9+/\r\n]{400}"
)


class Medium(msgspec.Struct, frozen=True, kw_only=True):
    """What in a field is no text: where it stands (`[2].content[1]`), of what kind it is and by what that was seen."""

    at: str
    kind: Kind
    words: str

    def __str__(self) -> str:
        """Place and thing, `[2].content[1] is an image (image_url)`."""
        return f"{self.at} is {self.words}"


def media_in(value: object) -> Medium | None:
    """The first image, sound, video or file in `value`; None where all of it is text.

    Found are the content parts of the usual message formats, data: URLs (inside a longer text from a thousand characters
    on: a tiny icon in a page's source is text), bare base64 of the usual formats, bytes, and Pillow's objects.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        at, part = waiting.pop()
        if (found := _medium(part)) is not None:
            kind, words = found
            return Medium(at=at, kind=kind, words=words)
        if isinstance(part, dict):
            waiting.extend((f"{at}.{name}", each) for name, each in reversed(list(part.items())))
        elif isinstance(part, list | tuple):
            waiting.extend((f"{at}[{place}]", part[place]) for place in range(len(part) - 1, -1, -1))
    return None


def _medium(value: object) -> tuple[Kind, str] | None:
    if isinstance(value, str):
        return _in_text(value)
    if isinstance(value, dict):
        found = _part(value)
        return found and (found[0], f"{_A[found[0]]} ({found[1]})")
    if isinstance(value, bytes | bytearray | memoryview):
        return "image", "bytes, such as those of an image"
    if type(value).__module__.partition(".")[0] == "PIL":
        return "image", "an image (Pillow)"
    return None


def _in_text(text: str) -> tuple[Kind, str] | None:
    if (found := _DATA_URL.match(text)) is not None:
        kind = _of_mime(found[1] or found[2])
        return kind and (kind, f"{_A[kind]} (a data: URL)")
    if "data:" in text and (found := _INSIDE.search(text)) is not None:
        kind = _of_mime(found[1])
        return kind and (kind, f"a text with {_A[kind]} in it (a data: URL)")
    if len(text) > 400 and (found := _BARE.match(text)) is not None:
        kind = "image" if found[1] else "file" if found[2] else "audio" if found[3] else _riff(text)
        return kind, f"{_A[kind]} (base64)"
    return None


def _riff(text: str) -> Kind:
    head = "".join(text.lstrip()[:200].split())[:16]
    return "audio" if base64.b64decode(head[: len(head) // 4 * 4])[8:12] == b"WAVE" else "image"


def _of_mime(mime: str) -> Kind | None:
    return next((kind for start, kind in _MIMES if mime.lower().startswith(start)), None)


def _part(part: Mapping[str, object]) -> tuple[Kind, str] | None:
    given = part.get("type")
    named = given if isinstance(given, str) else ""
    if named in _PARTS:
        return _PARTS[named], named
    if named == "image" and (len(part) == 1 or not _PICTURE.isdisjoint(part)):
        return "image", "image"
    for name in _MIME:
        kind = _of_mime(str(part.get(name) or ""))
        if kind is not None and not _PAYLOADS.isdisjoint(part):
            return kind, "its media type"
    if named in _KINDS and _is_held(part, named):
        return _KINDS[named], named
    return _wrapped(part)


def _is_held(part: Mapping[str, object], named: str) -> bool:
    """Whether a part of a type that says little holds, or points to, something that is no text."""
    held, source = part.get(named), part.get("source")
    if isinstance(source, dict):  # Anthropic's; a source of type text is a text
        return source.get("type") in ("base64", "url", "file")
    if isinstance(held, dict):
        return not (_PAYLOADS | {"url", "source"}).isdisjoint(held)
    return (named in ("audio", "video") and isinstance(held, str)) or not {"base64", "file_id", "file_data"}.isdisjoint(
        part
    )


def _wrapped(part: Mapping[str, object]) -> tuple[Kind, str] | None:
    """Parts without a type: what they are is the name of what they hold."""
    held = part.get("image_url")
    if isinstance(held, dict) and "url" in held:
        return "image", "image_url"
    for name, kind in _CONVERSE:
        held = part.get(name)
        if isinstance(held, dict) and "format" in held and not {"source", "bytes", "data"}.isdisjoint(held):
            return kind, "format and source"
    for name in ("audio", "input_audio"):  # a model's spoken answer, with its transcript or without
        held = part.get(name)
        if isinstance(held, dict) and "data" in held and not {"format", "transcript", "expires_at"}.isdisjoint(held):
            return "audio", name
    return None
