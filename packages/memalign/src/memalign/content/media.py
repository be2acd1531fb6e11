"""Images, audio, video and files in a case are refused: a judge reads text, and base64 is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from memalign.content.conversation import turns_of
from memalign.content.json_values import MEDIA, Fault
from memalign.content.paths import Part, parts_in
from memalign.content.walk import members
from memalign.errors import InputError

__all__ = ["check_field", "check_fields", "check_parts"]

# Types of content parts. They are media only with a payload or with what points to one:
# {"type": "file", "path": …} is a line of a directory, {"type": "image", "alt": …} a block of a
# page, and {"type": "image_url"} alone a form.
_TYPE = re.compile(r"(input_)?(image|audio|video|file|document)(_url)?")
_PAYLOADS = frozenset(
    ("data", "blob", "base64", "file", "file_data", "file_uri", "fileUri", "file_id")
)
_POINTERS = (*_PAYLOADS, "url", "image_url", "source")
_MIME = r"(?:(image|audio|video)/|application/(?:pdf|octet-stream|msword|vnd\.|zip))"
_DATA_URL = rf"data:{_MIME}[\w.+-]*(?:;[\w.=-]+)*,"
_BASE64 = {
    "iVBORw0KGgo": "image",
    "/9j/": "image",
    "R0lGOD": "image",
    "UklGR": "file",
    "JVBERi0": "file",
    "UEsDB": "file",
    "SUQz": "audio",
    "T2dnUw": "audio",
}
_BARE = re.compile(rf"({'|'.join(_BASE64)})[A-Za-z0-9+/\r\n]{{200,}}={{0,2}}\s*")
_ATTACHED = re.compile(
    r"\s*mlflow-attachment://[^\s?]*(?:\?\S*?content_type=(image|audio|video)?\S*|\S*)\s*"
)
_WHOLE = re.compile(rf"\s*{_DATA_URL}", re.IGNORECASE)
_INSIDE = re.compile(rf"{_DATA_URL}[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE)
"""A file inside a text; a tiny icon in a page's source is text."""

_LONGEST_PLACE = 300  # characters: of a deep place the beginning says enough


class _Medium(NamedTuple):
    """A picture, sound, video or file: its kind, a key of `MEDIA`, and what tells it."""

    kind: str
    sign: str


def _medium_in(value: object, name: str) -> tuple[str, _Medium] | None:
    """Return the first medium in a value, and its place."""
    waiting: list[tuple[str, object]] = [(name, value)]
    while waiting:
        place, part = waiting.pop()
        found = None
        if isinstance(part, str):
            found = _in_text(part)
        elif isinstance(part, Mapping):
            found = _in_object(part)
        if found is not None:
            return place, found
        if isinstance(part, str):
            continue
        below: list[tuple[str, object]] = []
        for step, inner in members(part):
            written = f"{place}[{step}]"
            if isinstance(part, dict):
                written = f"{place}.{str(step)[:40]}"
            below.append((written[:_LONGEST_PLACE], inner))
        waiting.extend(reversed(below))
    return None


def _in_text(text: str) -> _Medium | None:
    """Return the medium that is written as a text."""
    if "data:" in text:
        url = _WHOLE.match(text) or _INSIDE.search(text)
        if url:
            kind = url[1] or "file"
            return _Medium(kind.lower(), "a data: URL")
    if "mlflow-attachment:" in text:
        attached = _ATTACHED.fullmatch(text)
        if attached:
            return _Medium(attached[1] or "file", "an attachment of MLflow")
    bare = _BARE.fullmatch(text)
    if bare:
        return _Medium(_BASE64[bare[1]], "base64")
    return None


def _in_object(part: Mapping[str, Any]) -> _Medium | None:
    """Return the medium that a content part is."""
    typed = _TYPE.fullmatch(str(part.get("type")))
    if typed:
        says_much = typed[1] or typed[3]
        if (says_much and _points(part, typed[0])) or _has_payload(part, typed[2]):
            kind = typed[2]
            if kind == "document":
                kind = "file"
            return _Medium(kind, typed[0])
    if _PAYLOADS.isdisjoint(part):
        return None
    for key in ("mime_type", "media_type", "mimeType", "mediaType"):
        mime = re.match(_MIME, str(part.get(key)), re.IGNORECASE)
        if mime:
            return _Medium(mime[1] or "file", "its media type")
    return None


def _points(part: Mapping[str, Any], name: str) -> bool:
    """Return whether a part of type `name` holds something, or says where it is."""
    places = (*_POINTERS, name, name.removeprefix("input_"))
    return any(map(part.get, places))


def _has_payload(part: Mapping[str, Any], name: str) -> bool:
    """Return whether a part of a type that says little holds something that is no text."""
    source = part.get("source")
    if isinstance(source, Mapping):  # Anthropic's; a source of type text is a text
        return source.get("type") in ("base64", "url", "file")
    content = part.get(name)
    if isinstance(content, Mapping):
        part = content
    return not _PAYLOADS.isdisjoint(part)


def check_field(name: str, value: object) -> None:
    """Check a field, or a part of one, that a judge reads.

    Args:
        name: Its written name, such as `inputs.question`.
        value: What it holds.

    Raises:
        InputError: It holds an image, audio, video or a file, or is no conversation; with where,
            and what to do.
    """
    found = _medium_in(value, name)
    if found is not None:
        place, medium = found
        what, advice = MEDIA[medium.kind]
        field = Part.parse(name).field
        raise InputError(
            f"{place} is {what} ({medium.sign}): {advice}, or leave it out of {field}"
        )
    if name == "conversation":
        turns_of(value)


class _HasFaults(Protocol):
    @property
    def content(self) -> Mapping[str, Any]: ...

    @property
    def faults(self) -> Iterable[Fault]: ...


def check_fields(case: _HasFaults, parts: Iterable[str]) -> None:
    """Check what a judge reads of a case, and nothing else.

    Args:
        case: An Example or Feedback.
        parts: The written names of fields, or of parts of them, as instructions name them.

    Raises:
        InputError: As for `check_field`, and for what was left out of a part because JSON cannot
            hold it.
    """
    check_parts(case, parts_in(case.content, parts))


def check_parts(case: _HasFaults, seen: Mapping[str, object]) -> None:
    """Check the parts of a case that a judge reads, by their names, as `check_fields` does."""
    faults = case.faults
    for name, value in seen.items():
        for fault in faults:
            part = Part.parse(name)
            if _touches(fault, part):
                raise InputError(f"{fault}, or leave it out of {part.field}")
        if value is not None:
            check_field(name, value)


def _touches(fault: Fault, part: Part) -> bool:
    """Return whether a fault lies in a part, or the part in what is at fault."""
    wanted = (part.field, *map(str, part.steps))
    for one, other in zip(wanted, fault.steps, strict=False):
        from_the_end = one.startswith("-")  # which may be any place
        if one != other and not from_the_end:
            return False
    return True
