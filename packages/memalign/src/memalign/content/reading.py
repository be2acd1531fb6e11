"""A field as a person reads it: texts as they are, turns and objects without brackets and quotes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memalign.content.conversation import turns_of
from memalign.content.spans import span_tree
from memalign.errors import InputError

__all__ = ["as_read"]


def as_read(name: str, value: object) -> str:
    """The field `name` in lines for a reader: `user: …` for a turn, `question: …` for a key, indented below its parent."""
    if isinstance(value, str):
        return value
    if name == "conversation":
        try:
            turns = turns_of(value) or ()
        except InputError:  # stored by an older version
            turns = ()
        if turns:
            said = (
                {
                    turn.role or "-": "" if turn.content is None else turn.content,
                    **({"calls": list(turn.calls)} if turn.calls else {}),
                }
                for turn in turns
            )
            return "\n".join(line for turn in said for line in _lines(turn))
    if name == "trace" and (tree := span_tree(value)) is not None:
        return "\n".join(
            f"{'  ' * span.depth}{line}"
            for span in tree.spans
            for line in (
                " ".join(filter(None, (span.name, span.message))),
                *(f"  {each}" for each in _lines({"inputs": span.inputs} if span.inputs is not None else {})),
                *(f"  {each}" for each in _lines({"outputs": span.outputs} if span.outputs is not None else {})),
            )
        )
    return "\n".join(_lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _named(f"{name}:", part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _named("-", part)
    else:
        yield from _scalar(value).split("\n")


def _named(name: str, part: object) -> Iterator[str]:
    """`name: text` on one line, what has several lines below it."""
    lines = list(_lines(part))
    if len(lines) == 1 and not isinstance(part, Mapping | list | tuple):
        yield f"{name} {lines[0]}".rstrip()
        return
    yield name
    for line in lines:
        yield f"  {line}"


def _scalar(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
