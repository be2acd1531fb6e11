"""Images, audio, video and files in a case are refused: a judge reads text, and base64 is a megabyte of none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from memalign.content.conversation import turns_of
from memalign.content.traces import span_tree
from memalign.errors import InputError

__all__ = ["check_field", "check_fields"]

Kind = Literal["image", "audio", "video", "file"]

_WORDS: dict[Kind, tuple[str, str]] = {
    "image": ("an image", "images cannot be judged; describe in words what it shows"),
    "audio": ("audio", "audio cannot be judged; use its transcript"),
    "video": ("a video", "videos cannot be judged; describe in words what it shows"),
    "file": ("a file", "files cannot be judged; use the text that it contains"),
}
# Types of content parts. `image_url` and `input_file` can be nothing else; `image` and `file` are media only with a
# payload, for {"type": "file", "path": …} is a line of a directory and {"type": "image", "alt": …} a block of a page.
_TYPE = re.compile(r"(input_)?(image|audio|video|file|document)(_url|_file)?")
_PAYLOADS = frozenset(
    ("data", "blob", "bytes", "base64", "file", "file_data", "fileData", "file_uri", "fileUri", "file_id", "image_url")
)
_MIME_KEYS = ("mime_type", "media_type", "mimeType", "mediaType")
_MIME = r"(?:(image|audio|video)/|application/(?:pdf|octet-stream|msword|vnd\.|zip))"
_DATA_URL = rf"data:{_MIME}[\w.+-]*(?:;[\w.=-]+)*,"
_WHOLE = re.compile(rf"\s*{_DATA_URL}", re.IGNORECASE)
_INSIDE = re.compile(rf"{_DATA_URL}[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE)


class Medium(NamedTuple):
    """What in a field is no text: where it is (`[2].content[1]`), of what kind, and in words."""

    place: str
    kind: Kind
    words: str


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
        if isinstance(part, str) and "data:" in part and (url := _WHOLE.match(part) or _INSIDE.search(part)):
            kind = _kind(url[1])
            inside = "" if _WHOLE.match(part) else "a text with "
            return Medium(place, kind, f"{inside}{_WORDS[kind][0]} (a data: URL)")
        if isinstance(part, Mapping):
            if (medium := _part(part)) is not None:
                return Medium(place, medium[0], f"{_WORDS[medium[0]][0]} ({medium[1]})")
            waiting.extend((f"{place}.{name}", below) for name, below in reversed(list(part.items())))
        elif isinstance(part, list | tuple):
            waiting.extend((f"{place}[{number}]", part[number]) for number in reversed(range(len(part))))
    return None


def _kind(word: str | None) -> Kind:
    kinds: dict[str, Kind] = {"image": "image", "audio": "audio", "video": "video"}
    return kinds.get((word or "").lower(), "file")


def _part(part: Mapping[str, object]) -> tuple[Kind, str] | None:
    """The kind of a content part, and the key or type that tells it."""
    name = part.get("type")
    typed = _TYPE.fullmatch(name) if isinstance(name, str) else None
    if typed and (typed[1] or typed[3] or _has_payload(part, typed[2])):
        return _kind(typed[2]), typed[0]
    for key in _MIME_KEYS:
        mime = re.match(_MIME, str(part.get(key) or ""), re.IGNORECASE)
        if mime is not None and not _PAYLOADS.isdisjoint(part):
            return _kind(mime[1]), "its media type"
    if isinstance(url := part.get("image_url"), Mapping) and "url" in url:
        return "image", "image_url"
    # A model's spoken answer has its sound beside its transcript.
    return ("audio", "audio") if isinstance(sound := part.get("audio"), Mapping) and "data" in sound else None


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
        what = f"{name}{where}{medium.place} is {medium.words}"
        raise InputError(f"{what}: {_WORDS[medium.kind][1]}, or leave it out of {name}")
    if name == "conversation":
        turns_of(value)


def check_fields(example_id: str, content: Mapping[str, object]) -> None:
    """Check every field of a case; the message of an InputError begins with the case's id."""
    for name, value in content.items():
        try:
            check_field(name, value)
        except InputError as error:
            raise InputError(f"{example_id}: {error}") from None
