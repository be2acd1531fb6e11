"""Images, audio, video and files in a case are refused: a judge reads text, and base64 is a megabyte of none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from memalign.content.conversation import turns_of
from memalign.content.traces import span_tree
from memalign.errors import InputError

__all__ = ["Medium", "check_field", "check_fields", "media_in"]

Kind = Literal["image", "audio", "video", "file"]

_NAMES: dict[Kind, str] = {"image": "an image", "audio": "audio", "video": "a video", "file": "a file"}
_REMEDIES: dict[Kind, str] = {
    "image": "images cannot be judged; describe in words what it shows",
    "audio": "audio cannot be judged; use its transcript",
    "video": "videos cannot be judged; describe in words what it shows",
    "file": "files cannot be judged; use the text that it contains",
}
# Content parts by their "type": those that can be nothing else, and those that are media only with a payload, for
# {"type": "file", "path": …} is a line of a directory and {"type": "image", "alt": …} a block of a page: texts.
_PARTS: dict[object, Kind] = {
    **dict.fromkeys(("image_url", "input_image", "image_file"), "image"),
    **dict.fromkeys(("input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("input_video", "video_url"), "video"),
    **dict.fromkeys(("input_file", "file_url"), "file"),
}
_WITH_PAYLOAD: dict[object, Kind] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
    "document": "file",
}
_PAYLOADS = frozenset(
    ("data", "blob", "bytes", "base64", "file", "file_data", "fileData", "file_uri", "fileUri", "file_id", "image_url")
)
_MIME_KEYS = ("mime_type", "media_type", "mimeType", "mediaType")
_FILES = r"application/(?:pdf|octet-stream|msword|vnd\.|zip)"
_MIME = re.compile(rf"(?:(image|audio|video)/|{_FILES})", re.IGNORECASE)
_DATA_URL = re.compile(rf"\s*data:(?:image/|(?:audio/|video/|{_FILES})[\w.+-]*(?:;[\w.=-]+)*;base64,)", re.IGNORECASE)
_DATA_URL_INSIDE = re.compile(
    rf"data:((?:image|audio|video)/|{_FILES})[\w.+-]*(?:;[\w.=-]+)*;base64,[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE
)


class Medium(NamedTuple):
    """What in a field is no text: where it is (`[2].content[1]`), of what kind, and by what that was seen."""

    place: str
    kind: Kind
    words: str

    def __str__(self) -> str:
        """Place and thing, `[2].content[1] is an image (image_url)`."""
        return f"{self.place} is {self.words}"


def media_in(value: object) -> Medium | None:
    """The first image, sound, video or file in `value`; None where all of it is text.

    Found are the content parts of the usual message formats, data: URLs (inside a longer text from a thousand
    characters on: a tiny icon in a page's source is text), and bytes.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        place, part = waiting.pop()
        if isinstance(part, bytes | bytearray | memoryview):
            return Medium(place, "image", "bytes, such as those of an image")
        if isinstance(part, str) and (url := _DATA_URL.match(part)):
            kind = _mime_kind(part[url.start() :].lstrip()[5:])
            return Medium(place, kind or "file", f"{_NAMES[kind or 'file']} (a data: URL)")
        if isinstance(part, str) and "data:" in part and (url := _DATA_URL_INSIDE.search(part)):
            kind = _mime_kind(url[1]) or "file"
            return Medium(place, kind, f"a text with {_NAMES[kind]} in it (a data: URL)")
        if isinstance(part, Mapping):
            if (medium := _part(part)) is not None:
                return Medium(place, medium[0], f"{_NAMES[medium[0]]} ({medium[1]})")
            waiting.extend((f"{place}.{name}", below) for name, below in reversed(list(part.items())))
        elif isinstance(part, list | tuple):
            waiting.extend((f"{place}[{number}]", part[number]) for number in reversed(range(len(part))))
    return None


def _part(part: Mapping[str, object]) -> tuple[Kind, str] | None:
    """The kind of a content part, and the key or type that tells it."""
    name = part.get("type")
    if isinstance(name, str) and name in _PARTS:
        return _PARTS[name], name
    for key in _MIME_KEYS:
        if (kind := _mime_kind(str(part.get(key) or ""))) is not None and not _PAYLOADS.isdisjoint(part):
            return kind, "its media type"
    if isinstance(name, str) and name in _WITH_PAYLOAD and _has_payload(part, name):
        return _WITH_PAYLOAD[name], name
    if isinstance(url := part.get("image_url"), Mapping) and "url" in url:
        return "image", "image_url"
    for key in ("audio", "input_audio"):  # a model's spoken answer, with its transcript or without
        if isinstance(sound := part.get(key), Mapping) and "data" in sound:
            return "audio", key
    return None


def _has_payload(part: Mapping[str, object], name: str) -> bool:
    """Whether a part of a type that says little holds, or points to, something that is no text."""
    source, content = part.get("source"), part.get(name)
    if isinstance(source, Mapping):  # Anthropic's; a source of type text is a text
        return source.get("type") in ("base64", "url", "file")
    if isinstance(content, Mapping):
        return not (_PAYLOADS | {"url", "source"}).isdisjoint(content)
    if name == "image" and (len(part) == 1 or "url" in part):
        return True
    return (name in ("audio", "video") and isinstance(content, str)) or not _PAYLOADS.isdisjoint(part)


def _mime_kind(mime: str) -> Kind | None:
    match = _MIME.match(mime)
    kinds: dict[str | None, Kind] = {"image": "image", "audio": "audio", "video": "video"}
    return None if match is None else kinds.get(match[1] and match[1].lower(), "file")


def check_field(name: str, value: object) -> None:
    """Check a field of a case before any model is asked about it.

    Raises:
        InputError: It holds an image, audio, video or a file, or is no conversation; it says where, and what to do.
    """
    medium, where = media_in(value), ""
    if medium is None and name == "trace" and (tree := span_tree(value)) is not None:
        # Many tracers keep what a span was given as JSON inside a text: only the tree shows what is in it.
        for span in tree.spans:
            for part in ("inputs", "outputs"):
                if medium is None and (medium := media_in(getattr(span, part))) is not None:
                    where = f", span {span.name!r}, {part}"
    if medium is not None:
        raise InputError(f"{name}{where}{medium}: {_REMEDIES[medium.kind]}, or leave it out of {name}")
    if name == "conversation":
        turns_of(value)


def check_fields(example_id: str, content: Mapping[str, object]) -> None:
    """Check every field of a case; the message of an InputError begins with the case's id."""
    for name, value in content.items():
        try:
            check_field(name, value)
        except InputError as error:
            raise InputError(f"{example_id}: {error}") from None
