"""A judge as one frozen JSON document: everything that it needs to judge offline, and to learn on.

The document carries two digests: `checksum` over all of it, by which a damaged or edited one is refused, and the
memory's own hash, which judgments name.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError
from memalign.io.files import atomic_write
from memalign.judge import Judge
from memalign.judge.code_tests import standing_fault
from memalign.memory import Memory
from memalign.memory.guard import guideline_fault
from memalign.prompts.rendering import prompts_hash
from memalign.registry.judge_rows import judge_from, settings_of
from memalign.types import canonical_json

__all__ = ["FORMAT", "FORMAT_VERSION", "bundle_of", "load_bundle", "read_bundle", "write_bundle"]

FORMAT = "memalign-judge"
FORMAT_VERSION = 1


def bundle_of(judge: Judge) -> dict[str, Any]:
    """The bundle of a judge, as JSON values. Models are named; your own must be given again after loading."""
    memory = judge.memory
    document: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": judge.name,
        "judge": settings_of(judge),
        "prompts_hash": prompts_hash(),
        # Vectors are float32, little-endian, in base64.
        "memory": {"hash": memory.hash} | msgspec.to_builtins(memory),
    }
    # Through JSON once, so that the document is what a reader of the file will see (tuples are lists, keys are text).
    document = json.loads(json.dumps(document, allow_nan=False))
    return document | {"checksum": _checksum(document)}


def write_bundle(source: Judge | Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """Write the bundle of a judge (or a bundle) to a file, whole or not at all; the same judge gives the same bytes."""
    document = bundle_of(source) if isinstance(source, Judge) else dict(source)
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can spell it
        data = (json.dumps(document, indent=1) + "\n").encode()
    path = Path(path)
    try:
        with atomic_write(path) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"cannot write the bundle {path}: {error.strerror}") from None
    return document


def load_bundle(source: str | Path | Mapping[str, Any]) -> Judge:
    """The judge of a bundle (a path, or the document), without any registry or network.

    Warns when the prompts of this memalign are not those that the judge was exported with. Raises InputError for a
    damaged bundle, and for one of a newer format.
    """
    judge, notes = read_bundle(source)
    for note in notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return judge


def read_bundle(source: str | Path | Mapping[str, Any]) -> tuple[Judge, tuple[str, ...]]:
    """The judge of a bundle, and notes on what differs here from where it was made. Raises InputError."""
    where, document = _document(source)
    if document.get("format") != FORMAT:
        raise InputError(f"{where} is not a judge's bundle; `memalign export NAME -o FILE` writes one")
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(
            f"{where} has format version {version}, this memalign reads up to {FORMAT_VERSION}; upgrade memalign"
        )
    unsigned = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != _checksum(unsigned):
        raise InputError(f"{where} is damaged or was edited: its checksum does not match; export the judge again")
    try:
        memory = msgspec.convert(document["memory"], Memory)
        judge = judge_from(document["name"], document["judge"], memory, models={})
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise InputError(f"{where} is damaged: {error}; export the judge again") from None
    for guideline in judge.memory.guidelines:
        # Whoever wrote the file could also sign it: what may enter a system message is checked here as anywhere.
        # What a person retired is checked when a person brings it back.
        if guideline.retired_by is not None:
            continue
        if fault := guideline_fault(guideline.text):
            raise InputError(
                f"{where}: guideline {guideline.id} may not enter a prompt: {fault}; retire or reword it where the "
                "judge was exported, and export it again"
            )
        for check in guideline.checks:
            if fault := standing_fault(check):
                raise InputError(
                    f"{where}: a check of guideline {guideline.id} may not enter a prompt: {fault}; set others where "
                    "the judge was exported (memalign guideline --check), and export it again"
                )
    if document.get("prompts_hash") == prompts_hash():
        return judge, ()
    note = f"judge {judge.name!r} was exported with other prompts than this memalign has; measure it again before use"
    return judge, (note,)


def _document(source: str | Path | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if isinstance(source, Mapping):
        return "the bundle", source
    try:
        document = json.loads(Path(source).read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the bundle {source}: {os.strerror(error.errno or 0)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not a judge's bundle: it is no JSON ({error})") from None
    if not isinstance(document, dict):
        raise InputError(f"{source} is not a judge's bundle: it holds no JSON object")
    return str(source), document


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode("utf-8", "surrogatepass")).hexdigest()
