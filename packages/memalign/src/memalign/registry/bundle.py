"""A judge as one frozen JSON document: everything that it needs to judge offline, and to learn on.

Its `checksum` shows damage and edits; the memory's own hash is the one that judgments name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memalign.content.json_values import decode_json
from memalign.errors import InputError
from memalign.io.files import atomic_write
from memalign.judge import Judge
from memalign.judge.code_tests import checked
from memalign.memory import Memory
from memalign.memory.guard import guideline_fault
from memalign.registry.judge_rows import DAMAGE, judge_from, settings_of
from memalign.types import Guideline, canonical_json

__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "bundle_bytes",
    "bundle_of",
    "load_bundle",
    "write_bundle",
]

FORMAT = "memalign-judge"
FORMAT_VERSION = 1


def bundle_of(judge: Judge) -> dict[str, Any]:
    """Return the bundle of a judge, as JSON values.

    Models are named; your own must be given again after loading.
    """
    memory = judge.memory
    document: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": judge.name,
        "judge": settings_of(judge),
        # Vectors are float32, little-endian, in base64.
        "memory": {"hash": memory.hash} | msgspec.to_builtins(memory),
    }
    # As a reader of the file will see it.
    document = json.loads(json.dumps(document, allow_nan=False))
    return document | {"checksum": _checksum(document)}


def bundle_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a bundle as a file keeps it. The same judge gives the same bytes."""
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    return text.encode(
        "utf-8", "surrogatepass"
    )  # broken sources have halves of surrogate pairs


def write_bundle(judge: Judge, path: str | Path) -> dict[str, Any]:
    """Write a judge, with its whole memory, to a file, whole or not at all. `load_bundle` reads it.

    Args:
        judge: The judge. Models of your own are kept by name.
        path: The file.

    Returns:
        What the file holds. The same judge gives the same bytes.

    Raises:
        InputError: The file cannot be written.
    """
    document = bundle_of(judge)
    try:
        with atomic_write(Path(path)) as file:
            file.write(bundle_bytes(document))
    except OSError as error:
        raise InputError(f"cannot write the bundle {path}: {error.strerror}") from None
    return document


def load_bundle(source: str | Path | Mapping[str, Any]) -> Judge:
    """Return the judge of a bundle, without any registry or network.

    Args:
        source: The file that `write_bundle` or `memalign export` wrote, or its document.

    Returns:
        The judge, with its memory. Models of your own are named only: give them back with
        `.replace(model=…)`.

    Raises:
        InputError: It is no bundle, is damaged, is of a newer format, or has what may not enter a
            prompt.
    """
    where = "the bundle" if isinstance(source, Mapping) else str(source)
    document = source if isinstance(source, Mapping) else _document(source)
    if document.get("format") != FORMAT:
        raise InputError(
            f"{where} is not a judge's bundle; `memalign export NAME -o FILE` writes one"
        )
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{where} has format version {version}, this memalign reads up to {FORMAT_VERSION}; "
            "upgrade"
        )
    unsigned = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != _checksum(unsigned):
        raise InputError(
            f"{where} is damaged or was edited: its checksum does not match; export the judge again"
        )
    try:
        memory = msgspec.convert(document["memory"], Memory)
        judge = judge_from(document["name"], document["judge"], memory, models={})
    except DAMAGE as error:
        raise InputError(
            f"{where} is damaged: {type(error).__name__}, {error}; export the judge again"
        ) from None
    _check_lessons(where, memory)
    return judge


def _check_lessons(where: str, memory: Memory) -> None:
    """Raise InputError for a guideline, or what is like one, that may not enter a prompt.

    Whoever wrote the file could also sign it.
    """
    for lesson in memory.guidelines:
        faults = [guideline_fault(lesson.text)]
        if isinstance(lesson, Guideline):
            faults.extend(map(checked, lesson.tests))
        fault = next(filter(None, faults), None)
        if fault:
            name = f"{type(lesson).__name__.lower()} {lesson.id}"
            raise InputError(
                f"{where}: {name} may not enter a prompt: {fault}; change it where the judge was "
                "exported, and export it again"
            )


def _document(path: str | Path) -> Mapping[str, Any]:
    try:
        document = decode_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot read the bundle {path}: {os.strerror(error.errno or 0)}"
        ) from None
    except InputError as error:
        raise InputError(
            f"{path} is not a judge's bundle: it is no JSON ({error})"
        ) from None
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a judge's bundle: it holds no JSON object")
    return document


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(
        canonical_json(document).encode("utf-8", "surrogatepass")
    ).hexdigest()
