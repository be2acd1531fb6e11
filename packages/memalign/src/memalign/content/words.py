"""The words of a field: what it says, without keys, marks and numbers that only hold it together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memalign.content.conversation import turns_of
from memalign.content.spans import SpanTree, span_tree
from memalign.errors import InputError

__all__ = ["judged_texts", "words_of"]


_OTHER_SIDE = frozenset({"user", "human", "customer", "client", "system", "developer"})


def judged_texts(content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What the judged system itself said, each with its field: its outputs, its turns, the outputs of its trace.

    All of a conversation or a trace that is one text, for nobody can say whose words they are.
    """
    for name in ("outputs", "conversation", "trace"):
        value = content.get(name)
        if name == "trace" and (tree := span_tree(value)) is not None:
            value = [span.outputs for span in tree.spans if span.parent is None]
        elif name == "conversation" and isinstance(value, list | tuple | Mapping):
            try:
                turns = turns_of(value) or ()
            except InputError:  # see _of_conversation
                turns = ()
            value = [[turn.content, *turn.calls] for turn in turns if (turn.role or "").lower() not in _OTHER_SIDE]
        if text := "\n".join(_leaves(value)):
            yield name, text


def words_of(name: str, value: object) -> Iterator[str]:
    """The texts and numbers of the field `name`, in order.

    Of a conversation what is said, not by whom; of a trace what came in and what went out, the names of its steps and
    what went wrong: ids, times and the repetitions on the way would make all traces alike.
    """
    if name == "trace" and (tree := span_tree(value)) is not None:
        yield from _of_trace(tree)
    elif name == "conversation" and not isinstance(value, str):
        yield from _of_conversation(value)
    else:
        yield from _leaves(value)


def _of_trace(tree: SpanTree) -> Iterator[str]:
    for span in tree.spans:
        if span.parent is None:
            yield from _leaves(span.inputs)
            yield from _leaves(span.outputs)
    yield from dict.fromkeys(span.name for span in tree.spans)
    yield from dict.fromkeys(span.message for span in tree.spans if span.message)


def _of_conversation(value: object) -> Iterator[str]:
    try:
        turns = turns_of(value) or ()
    except InputError:  # stored by an older version: whatever it is has words
        yield from _leaves(value)
        return
    for turn in turns:
        yield from _leaves(turn.content)
        for call in turn.calls:
            yield from _leaves({k: v for k, v in call.items() if k != "id"} if isinstance(call, dict) else call)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
