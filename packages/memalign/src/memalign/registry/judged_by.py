"""Which version of a judge gave a judgment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalign.errors import ConfigurationError, InputError
from memalign.judge import Judge, signature_of

if TYPE_CHECKING:
    from memalign.registry.registry import Registry

__all__ = ["judged_by"]


def judged_by(
    registry: Registry, name: str, signature: str, version: int | None = None, *, written: str = "this"
) -> tuple[int, Judge]:
    """The version that gave judgments of this signature: the newest such one, or `version` if it is one.

    `written` is what errors call the judgments. Raises InputError when there is none.
    """
    numbers = [version] if version is not None else [info.number for info in reversed(registry.history(name))]
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
