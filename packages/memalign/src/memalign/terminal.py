"""What may be shown on a terminal."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: object) -> str:
    """`text` without characters that a terminal would obey: judged outputs and models' words are anybody's words."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for character in str(text).replace("\r\n", "\n")
    )
