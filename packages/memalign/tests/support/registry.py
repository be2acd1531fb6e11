"""Judges for tests of the registry: built by hand, drawn at random, or aligned by a
scripted model."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from sqlalchemy import event

from memalign import Judge, MemAlign, Registry
from memalign.memory import (
    Annotation,
    Case,
    FeedbackConflict,
    Memory,
    Outcome,
    PreAlignmentVerdict,
    Tombstone,
)
from memalign.models.base import ChatRequest, Limits
from memalign.registry import Receipt
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import CodeTest, Example, FeedbackKey, Guideline
from tests.support.learning import changes_of
from tests.support.rows import RawRow

INSTRUCTIONS = "Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}"


def judge(memory: Memory | None = None, **changes: Any) -> Judge:
    settings: dict[str, Any] = {
        "name": "helpfulness",
        "instructions": INSTRUCTIONS,
        "feedback_value_type": bool,
    }
    return Judge(**settings | changes, memory=Memory() if memory is None else memory)


def case(name: str, *sources: str, says: str = "", **fields: Any) -> Case:
    """A case on which each of `sources` left a comment of its own."""
    annotations = []
    for source in sorted(sources):
        comment = f"{says or 'comment'} {name} {source}"
        annotations.append(
            Annotation(id=name, source=source, value=False, rationale=comment)
        )
    length = len(name)
    return Case(
        example=Example(id=name, inputs=f"question {name}", outputs=f"answer {name}"),
        annotations=tuple(annotations),
        vector=struct.pack("<4f", *range(length, length + 4)),
        **fields,
    )


def memory_of(*cases: Case, size: int = 2) -> Memory:
    """A memory in which every `size` pieces of feedback share a guideline."""
    ordered = tuple(sorted(cases, key=lambda c: c.id))
    guidelines = []
    for n, some in enumerate(keys_by(size, ordered), 1):
        rule = f"rule number {n}"
        guidelines.append(
            Guideline(id=f"G{n}", text=rule, supported_by=some, exposed_to=some)
        )
    return Memory(
        cases=ordered,
        guidelines=tuple(guidelines),
        next_guideline=len(guidelines) + 1,
        embedding_model="hash:4",
    )


def keys_by(size: int, cases: Iterable[Case]) -> list[tuple[FeedbackKey, ...]]:
    """The keys of all feedback on these cases, `size` at a time."""
    found: list[FeedbackKey] = []
    for one in cases:
        found.extend(annotation.key for annotation in one.annotations)
    return [tuple(found[start : start + size]) for start in range(0, len(found), size)]


# -- a scripted expert system ----------------------------------------------------------


def _answer(request: ChatRequest) -> dict[str, Any]:
    if request.schema_name == "judgment":
        return {"rationale": "it answers the question", "value": True}
    # Recognisable by the record's own comment and free of its words.
    return changes_of(
        request.user,
        lambda _, comment: f"Follow house rule {sum(comment.encode()) % 997}.",
    )


def models() -> tuple[ScriptedChatModel, HashEmbedding]:
    return ScriptedChatModel(_answer, limits=Limits(shard_size=1)), HashEmbedding(dim=8)


def optimizer(chat: ScriptedChatModel, embedding: HashEmbedding) -> MemAlign:
    return MemAlign(reflection_model=chat, embedding_model=embedding, shard_size=1)


def row(name: str, source: str, rationale: str, **fields: Any) -> RawRow:
    usual = {
        "id": name,
        "source": source,
        "value": False,
        "rationale": rationale,
        "inputs": f"question {name}",
        "outputs": f"answer {name}",
    }
    return usual | fields


# -- strategies ------------------------------------------------------------------------

# Halves of surrogate pairs and NUL included.
text = st.text(st.characters(exclude_categories=()), max_size=30)
_letters = st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"))
names = st.text(_letters, min_size=1, max_size=8).filter(str.strip)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3)
    ),
    max_leaves=6,
)
outcomes: st.SearchStrategy[Outcome | None] = st.none() | st.builds(
    Outcome,
    kind=st.sampled_from(["learned", "rejected", "pending", "taught"]),
    reason=st.sampled_from(["", "timed out", "G1 already says it"]),
)

tests = st.builds(
    CodeTest,
    kind=st.sampled_from(["word", "contains"]),
    text=st.sampled_from(["sorry", "perdón"]),
    holds=st.booleans(),
    value=st.none() | st.booleans(),
)


people = st.none() | st.just("dora")
pre_alignments = st.builds(
    PreAlignmentVerdict,
    value=st.booleans(),
    judge=st.just("0123"),
    rationale=st.none() | text,
)


@st.composite
def drawn_cases(draw: st.DrawFn) -> tuple[Case, ...]:
    cases = []
    for name in sorted(draw(st.sets(names, max_size=4))):
        annotations = []
        for source in sorted(draw(st.sets(names, min_size=1, max_size=3))):
            annotation = st.builds(
                Annotation,
                id=st.just(name),
                source=st.just(source),
                value=st.none() | st.booleans(),
                rationale=st.none() | text.filter(bool),
                meta=st.dictionaries(text, json_values, max_size=2),
                outcome=outcomes,
            )
            annotations.append(draw(annotation))
        inputs = draw(json_values.filter(lambda value: value is not None))
        case = Case(
            example=Example(id=name, inputs=inputs, outputs=draw(json_values)),
            annotations=tuple(annotations),
            pre_alignment=draw(st.none() | pre_alignments),
            vector=draw(st.none() | st.binary(min_size=8, max_size=8)),
        )
        cases.append(case)
    return tuple(cases)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Any memory that the pipeline could leave behind: cases by id, annotations by
    source, guidelines by number."""
    cases = draw(drawn_cases())
    shared = keys_by(draw(st.integers(1, 3)), cases)
    guidelines = []
    for number, some in enumerate(draw(st.permutations(shared)), 1):
        guideline = Guideline(
            id=f"G{number}",
            text=f"rule number {number}",
            tests=tuple(draw(st.lists(tests, max_size=2))),
            supported_by=some[:1],
            exposed_to=some,
            pinned_by=draw(people),
            retired_by=draw(people),
        )
        guidelines.append(guideline)
    keys = tuple(chain.from_iterable(shared))
    about = draw(st.none() | st.sampled_from(["", "the tone"]))
    conflicts = []
    if about is not None and len(keys) > 1:
        conflict = FeedbackConflict(feedback=keys[:2], about=about, exposed_to=keys)
        conflicts.append(conflict)
    gone = {FeedbackKey(name, "gone") for name in draw(st.sets(names, max_size=2))}
    return Memory(
        cases=cases,
        guidelines=tuple(guidelines),
        conflicts=tuple(conflicts),
        tombstones=tuple(Tombstone(key=key) for key in sorted(gone.difference(keys))),
        next_guideline=len(guidelines) + 1,
        authority=tuple(draw(st.lists(names, max_size=2))),
        embedding_model=draw(st.none() | st.just("hash:2")),
    )


# -- erasing ---------------------------------------------------------------------------


def erase(registry: Registry, *selectors: str | FeedbackKey, **how: Any) -> Receipt:
    """Erase from the judge `helpfulness`, and ask no model to learn again from what is left."""
    selection: dict[str, Any] = {"selectors": selectors, **how}
    return registry.erase("helpfulness", **selection, rederive=False)


# -- looking inside --------------------------------------------------------------------


class Stopped(BaseException):
    """The process ends here."""


@contextmanager
def stopping(registry: Registry, statement: int) -> Iterator[None]:
    """Stop the registry before its n-th statement from now on (1 is the first); a
    commit counts as one."""
    count = 0

    def tick(*_: object) -> None:
        nonlocal count
        count += 1
        if count == statement:
            raise Stopped

    with ExitStack() as stack:
        for name in ("before_cursor_execute", "commit"):
            event.listen(registry._database.engine, name, tick)
            stack.callback(event.remove, registry._database.engine, name, tick)
        yield


def all_versions(registry: Registry, name: str = "helpfulness") -> dict[int, Judge]:
    return {
        version.number: registry.load(name, version.number)
        for version in registry.history(name)
    }


def intact(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("PRAGMA integrity_check").fetchone()
        foreign = connection.execute("PRAGMA foreign_key_check").fetchall()
    return bool(found[0] == "ok" and not foreign)


def bytes_of(path: Path) -> bytes:
    """The bytes of the file and of whatever lies beside it."""
    files = sorted(path.parent.glob(f"{path.name}*"))
    return b"".join(map(Path.read_bytes, files))


def keys_of(one: Judge | Memory) -> set[str]:
    memory = one.memory if isinstance(one, Judge) else one
    return {str(annotation.key) for annotation in memory.annotations()}
