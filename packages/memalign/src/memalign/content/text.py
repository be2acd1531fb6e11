"""The texts of a field: what retrieval compares, what a rule was taken from, and what a person reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memalign.content.conversation import Turn, turns_of
from memalign.content.traces import span_tree
from memalign.errors import InputError

__all__ = ["as_read", "judged_texts", "words_of"]

_OTHER_SIDE = frozenset(("user", "human", "customer", "client", "system", "developer"))


def words_of(name: str, value: object) -> Iterator[str]:
    """The texts and numbers of the field `name`, in order.

    Of a conversation what is said, not by whom; of a trace what came in and what went out, the names of its steps and
    what went wrong: ids, times and the repetitions on the way would make all traces alike.
    """
    if name == "trace" and (tree := span_tree(value)) is not None:
        for span in tree.spans:
            if span.parent is None:
                yield from _leaves([span.inputs, span.outputs])
        yield from dict.fromkeys(span.name for span in tree.spans)
        yield from dict.fromkeys(span.message for span in tree.spans if span.message)
    elif turns := _turns(name, value):
        for turn in turns:
            yield from _leaves(turn.content)
            for call in turn.calls:
                yield from _leaves({k: v for k, v in call.items() if k != "id"} if isinstance(call, dict) else call)
    else:
        yield from _leaves(value)


def judged_texts(content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What the judged system itself said, each with its field: its outputs, its turns, the outputs of its trace.

    All of a conversation or a trace that is one text, for nobody can say whose words they are.
    """
    for name in ("outputs", "conversation", "trace"):
        value = content.get(name)
        if name == "trace" and (tree := span_tree(value)) is not None:
            value = [span.outputs for span in tree.spans if span.parent is None]
        elif turns := _turns(name, value):
            own = (turn for turn in turns if (turn.role or "").lower() not in _OTHER_SIDE)
            value = [[turn.content, *turn.calls] for turn in own]
        if text := "\n".join(_leaves(value)):
            yield name, text


def as_read(name: str, value: object) -> str:
    """The field `name` in lines for a reader: `user: …` for a turn, `question: …` for a key, indented as it nests."""
    if isinstance(value, str):
        return value
    if turns := _turns(name, value):
        calls = [{"calls": list(turn.calls)} if turn.calls else {} for turn in turns]
        contents = ["" if turn.content is None else turn.content for turn in turns]
        messages = ({t.role or "-": text} | call for t, text, call in zip(turns, contents, calls, strict=True))
        return "\n".join(line for message in messages for line in _lines(message))
    if name != "trace" or (tree := span_tree(value)) is None:
        return "\n".join(_lines(value))
    lines: list[str] = []
    for span in tree.spans:
        fields = {"inputs": span.inputs, "outputs": span.outputs}
        below = _lines({key: part for key, part in fields.items() if part is not None} or [])
        lines += [f"{'  ' * span.depth}{line}" for line in (span.name, *(f"  {line}" for line in below))]
    return "\n".join(lines)


def _turns(name: str, value: object) -> tuple[Turn, ...]:
    """The turns of a conversation; none of any other field, of a text, or where it is no conversation."""
    try:
        return turns_of(value) or () if name == "conversation" else ()
    except InputError:  # of a memory that somebody put together by hand: whatever it is has words
        return ()


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _lines(value: object) -> Iterator[str]:
    """`name: text` on one line; what has several lines, or parts, below its name."""
    if not isinstance(value, dict | list | tuple):
        names = {None: "null", True: "true", False: "false"}
        yield from (names[value] if value is None or isinstance(value, bool) else str(value)).split("\n")
        return
    named = (
        [(f"{name}:", part) for name, part in value.items()] if isinstance(value, dict) else [("-", v) for v in value]
    )
    for name, part in named:
        lines = list(_lines(part))
        if len(lines) == 1 and not isinstance(part, dict | list | tuple):
            yield f"{name} {lines[0]}".rstrip()
        else:
            yield name
            yield from (f"  {line}" for line in lines)
