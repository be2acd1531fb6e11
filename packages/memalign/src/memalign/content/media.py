"""Images, audio, video and files in a case are refused: a judge reads text, and base64 is a megabyte of none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from memalign.content.conversation import turns_of
from memalign.content.json_values import MEDIA, Fault
from memalign.content.paths import Part, parts_in
from memalign.errors import InputError

__all__ = ["check_field", "check_fields"]

# Types of content parts. They are media only with a payload or with what points to one: {"type":
# "file", "path": …} is a line of a directory, {"type": "image", "alt": …} a block of a page, and
# {"type": "image_url"} alone a form.
_TYPE = re.compile(r"(input_)?(image|audio|video|file|document)(_url)?")
_PAYLOADS = frozenset(
    ("data", "blob", "base64", "file", "file_data", "file_uri", "fileUri", "file_id")
)
_MIME = r"(?:(image|audio|video)/|application/(?:pdf|octet-stream|msword|vnd\.|zip))"
_DATA_URL = rf"data:{_MIME}[\w.+-]*(?:;[\w.=-]+)*,"
_BASE64 = {"iVBORw0KGgo": "image", "/9j/": "image", "R0lGOD": "image", "UklGR": "image", "JVBERi0": "file",
           "UEsDB": "file", "SUQz": "audio", "T2dnUw": "audio"}  # fmt: skip
_BARE = re.compile(rf"({'|'.join(_BASE64)})[A-Za-z0-9+/\r\n]{{200,}}={{0,2}}\s*")
_ATTACHED = re.compile(
    r"\s*mlflow-attachment://[^\s?]*(?:\?\S*?content_type=(image|audio|video)?\S*|\S*)\s*"
)
_WHOLE = re.compile(rf"\s*{_DATA_URL}", re.IGNORECASE)
_LONGEST_PLACE = 300  # characters: of a deep place the beginning says enough
_INSIDE = re.compile(rf"{_DATA_URL}[A-Za-z0-9+/\s]{{1000}}", re.IGNORECASE)


def _medium_in(value: object, name: str) -> tuple[str, str, str] | None:
    """Return place, kind and sign of the first picture, sound, video or file in `value`.

    A tiny icon in a page's source is text.
    """
    waiting: list[tuple[str, object]] = [(name, value)]
    walked = dict[int, object]()  # a value that holds itself has no end
    while waiting:
        place, part = waiting.pop()
        if id(part) in walked:
            continue
        walked[id(part)] = part
        found = None
        below: list[tuple[str, object]] = []
        if isinstance(part, str):
            found = _in_text(part)
        elif isinstance(part, Mapping):
            found = _part(part)
            below = [(f".{str(key)[:40]}", inner) for key, inner in part.items()]
        elif isinstance(part, list | tuple):
            below = [(f"[{number}]", inner) for number, inner in enumerate(part)]
        if found is not None:
            return place, *found
        for step, inner in reversed(below):
            waiting.append(((place + step)[:_LONGEST_PLACE], inner))
    return None


def _in_text(text: str) -> tuple[str, str] | None:
    """Return the kind and the sign of a picture or a file that is written as a text."""
    url = (_WHOLE.match(text) or _INSIDE.search(text)) if "data:" in text else None
    if url:
        return (url[1] or "file").lower(), "a data: URL"
    attached = _ATTACHED.fullmatch(text) if "mlflow-attachment:" in text else None
    if attached:
        return attached[1] or "file", "an attachment of MLflow"
    bare = _BARE.fullmatch(text)
    return (_BASE64[bare[1]], "base64") if bare else None


def _part(part: Mapping[str, object]) -> tuple[str, str] | None:
    """The kind of a content part, and the type or key that tells it."""
    name = part.get("type")
    typed = _TYPE.fullmatch(name) if isinstance(name, str) else None
    if typed and (
        ((typed[1] or typed[3]) and _points(part, typed[0])) or _has_payload(part, typed[2])
    ):
        return "file" if typed[2] == "document" else typed[2], typed[0]
    mime = next((part[key] for key in ("mime_type", "media_type", "mimeType") if part.get(key)), "")
    kind = re.match(_MIME, str(mime), re.IGNORECASE)
    return (
        (kind[1] or "file", "its media type") if kind and not _PAYLOADS.isdisjoint(part) else None
    )


def _points(part: Mapping[str, object], name: str) -> bool:
    """Return whether a part of type `name` holds something, or says where it is."""
    wanted = _PAYLOADS | {name, name.removeprefix("input_"), "url", "image_url", "source"}
    return any(part.get(key) for key in wanted)


def _has_payload(part: Mapping[str, object], name: str) -> bool:
    """Whether a part of a type that says little holds, or points to, something that is no text."""
    source, content = part.get("source"), part.get(name)
    if isinstance(source, Mapping):  # Anthropic's; a source of type text is a text
        return source.get("type") in ("base64", "url", "file")
    return not _PAYLOADS.isdisjoint(content if isinstance(content, Mapping) else part)


def check_field(name: str, value: object) -> None:
    """Check a field, or a part of one, that a judge reads.

    Args:
        name: Its written name, such as `inputs.question`.
        value: What it holds.

    Raises:
        InputError: It holds an image, audio, video or a file, or is no conversation; with where,
            and what to do.
    """
    if (medium := _medium_in(value, name)) is not None:
        place, kind, sign = medium
        what, advice = MEDIA[kind]
        raise InputError(
            f"{place} is {what} ({sign}): {advice}, or leave it out of {Part.parse(name).field}"
        )
    if name == "conversation":
        turns_of(value)


class _Case(Protocol):
    @property
    def content(self) -> Mapping[str, Any]: ...

    @property
    def faults(self) -> Iterable[Fault]: ...


def check_fields(case: _Case, parts: Iterable[str]) -> None:
    """Check what a judge reads of a case, and nothing else.

    Args:
        case: An Example or Feedback.
        parts: The written names of fields, or of parts of them, as instructions name them.

    Raises:
        InputError: As for `check_field`, and for what was left out of a part because JSON cannot
            hold it.
    """
    faults = case.faults
    for name, value in parts_in(case.content, parts).items():
        for fault in faults:
            part = Part.parse(name)
            if _touches(fault, part):
                raise InputError(f"{fault}, or leave it out of {part.field}")
        if value is not None:
            check_field(name, value)


def _touches(fault: Fault, part: Part) -> bool:
    """Return whether a fault lies in a part, or the part in what is at fault."""
    wanted = (part.field, *map(str, part.steps))
    both = zip(wanted, fault.steps, strict=False)
    return all(
        one == other or one.startswith("-") for one, other in both
    )  # a place from the end may be any
