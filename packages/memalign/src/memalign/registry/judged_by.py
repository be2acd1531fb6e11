"""Which version of a judge gave a judgment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign.errors import ConfigurationError, InputError
from memalign.judge import Judge, signature_of

if TYPE_CHECKING:
    from memalign.registry.registry import Registry

__all__ = ["judged_by"]


def judged_by(
    registry: Registry,
    name: str,
    signature: str,
    version: int | None = None,
    *,
    memory_hash: str = "",
    written: str = "this",
) -> tuple[int, Judge]:
    """Find the version that gave judgments of this signature: the newest such one.

    Args:
        registry: Where versions are.
        name: The judge's name.
        signature: Whose the judgments are, as their file has it.
        version: The only version that may be it.
        memory_hash: The memory that was used; only versions with it are loaded, and those that an erasure changed.
        written: What errors call the judgments.

    Raises:
        InputError: No version judges so.
    """
    if version is not None:
        numbers = [version]
    else:
        newest_first = reversed(registry.history(name))
        numbers = [info.number for info in newest_first if not memory_hash or info.memory_hash in ("", memory_hash)]
    for number in numbers:
        judge = registry.load(name, number)
        try:
            ours = signature_of(judge)
        except ConfigurationError:
            if version is not None:
                raise
            continue  # a version whose model cannot be opened here is not the one that judged
        if ours == signature:
            return number, judge
        if ours.rpartition("-")[0] == signature.rpartition("-")[0]:
            raise InputError(
                f"{written} was written with other prompts than this memalign has; explain it with the memalign that "
                "wrote it, or judge again into another file"
            )
    which = (
        f"version {version} of {name!r}" if version is not None else f"any version of {name!r} that the registry has"
    )
    raise InputError(
        f"{written} was written by judge {signature}, which is not {which}; its memory may have been erased from "
        "since, or MEMALIGN_MODEL and the settings differ"
    )
