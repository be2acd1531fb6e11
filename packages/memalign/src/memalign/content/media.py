"""Images, audio, video and files in a case are refused: a judge reads text, and base64 is a megabyte of none."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memalign.content.conversation import turns_of
from memalign.errors import InputError

__all__ = ["check_field", "check_fields"]

_WORDS = {
    "image": ("an image", "images cannot be judged; describe in words what it shows"),
    "audio": ("audio", "audio cannot be judged; use its transcript"),
    "video": ("a video", "videos cannot be judged; describe in words what it shows"),
    "file": ("a file", "files cannot be judged; use the text that it contains"),
}
# Types of content parts. `image_url` and `input_file` can be nothing else; `image` and `file` are media only with a
# payload, for {"type": "file", "path": …} is a line of a directory and {"type": "image", "alt": …} a block of a page.
_TYPE = re.compile(r"(input_)?(image|audio|video|file|document)(_url)?")
_PAYLOADS = frozenset(("data", "blob", "base64", "file", "file_data", "file_uri", "fileUri", "file_id"))
_MIME = r"(?:(image|audio|video)/|application/(?:pdf|octet-stream|msword|vnd\.|zip))"
_DATA_URL = rf"data:{_MIME}[\w.+-]*(?:;[\w.=-]+)*,"
_WHOLE = re.compile(rf"\s*{_DATA_URL}", re.IGNORECASE)
_INSIDE = re.compile(rf"{_DATA_URL}[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE)


def _medium_in(value: object, place: str) -> tuple[str, str, str] | None:
    """The first image, sound, video or file in `value`: place, kind, sign. A tiny icon in a page's source is text."""
    waiting: list[tuple[str, object]] = [(place, value)]
    walked = dict[int, object]()  # a value that holds itself has no end
    while waiting:
        place, part = waiting.pop()
        if id(part) in walked:
            continue
        walked[id(part)] = part
        if isinstance(part, bytes | bytearray | memoryview):
            return place, "image", "bytes"
        if isinstance(part, str) and "data:" in part and (url := _WHOLE.match(part) or _INSIDE.search(part)):
            return place, (url[1] or "file").lower(), "a data: URL"
        if isinstance(part, Mapping):
            if (medium := _part(part)) is not None:
                return place, *medium
            waiting.extend((f"{place}.{name}", below) for name, below in reversed(list(part.items())))
        elif isinstance(part, list | tuple):
            waiting.extend((f"{place}[{number}]", part[number]) for number in reversed(range(len(part))))
    return None


def _part(part: Mapping[str, object]) -> tuple[str, str] | None:
    """The kind of a content part, and the type or key that tells it."""
    name = part.get("type")
    typed = _TYPE.fullmatch(name) if isinstance(name, str) else None
    if typed and (typed[1] or typed[3] or _has_payload(part, typed[2])):
        return "file" if typed[2] == "document" else typed[2], typed[0]
    mime = next((part[key] for key in ("mime_type", "media_type", "mimeType") if part.get(key)), "")
    kind = re.match(_MIME, str(mime), re.IGNORECASE)
    return (kind[1] or "file", "its media type") if kind and not _PAYLOADS.isdisjoint(part) else None


def _has_payload(part: Mapping[str, object], name: str) -> bool:
    """Whether a part of a type that says little holds, or points to, something that is no text."""
    source, content = part.get("source"), part.get(name)
    if isinstance(source, Mapping):  # Anthropic's; a source of type text is a text
        return source.get("type") in ("base64", "url", "file")
    return not _PAYLOADS.isdisjoint(content if isinstance(content, Mapping) else part)


def check_field(name: str, value: object) -> None:
    """Raise InputError for an image, audio, video, a file, or what is no conversation, with where and what to do."""
    if (medium := _medium_in(value, name)) is not None:
        place, kind, sign = medium
        what, advice = _WORDS[kind]
        raise InputError(f"{place} is {what} ({sign}): {advice}, or leave it out of {name}")
    if name == "conversation":
        turns_of(value)


def check_fields(example_id: str, content: Mapping[str, object]) -> None:
    """Check every field of a case; the message of an InputError begins with the case's id."""
    for name, value in content.items():
        try:
            check_field(name, value)
        except InputError as error:
            raise InputError(f"{example_id}: {error}") from None
