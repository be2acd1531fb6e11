"""Learning from feedback, and changing guidelines by hand."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    EmbeddingModel,
    JsonOutput,
    Name,
    RegistryUrl,
    RetrievalK,
    head_of,
    interruptible,
    loaded,
    open_registry,
    read_input,
)
from memalign.cli.output import Output, facts, guideline_rows, table, usage_text
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.align import AlignResult, MemAlign
    from memalign.judge import Judge
    from memalign.records import Guideline
    from memalign.registry import Registry

_SHOWN_ROWS = 30

ReflectionModel = Annotated[
    str | None,
    typer.Option("--reflection-model", metavar="M", help="Writes the guidelines; the default is the judge's model."),
]
ShardSize = Annotated[
    int | None,
    typer.Option(
        "--shard-size", metavar="N", min=1, help="Pieces of feedback a call; the default is what the model can take."
    ),
]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", metavar="", help="Learn the good rows of a file that has bad ones.")
]
AllowErased = Annotated[
    bool, typer.Option("--allow-erased", metavar="", help="Learn also what was erased here before.")
]


def align(
    name: Name,
    feedback: Annotated[
        str | None,
        typer.Argument(metavar="FEEDBACK", help="JSONL, CSV or JSON; - reads JSON lines; none: only what is pending."),
    ] = None,
    *,
    reflection_model: ReflectionModel = None,
    embedding_model: EmbeddingModel = None,
    retrieval_k: RetrievalK = None,
    shard_size: ShardSize = None,
    skip_invalid: SkipInvalid = False,
    allow_erased: AllowErased = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Learn from experts' feedback: a new version of the judge.

    Rows need an id, a value or a rationale (or both), and the fields that were judged; source says who. A row of a
    known id and source replaces what was said before. Without a file, what is pending is tried again.
    """
    optimizer = _optimizer(reflection_model, embedding_model, retrieval_k, shard_size)
    options = {"skip_invalid": skip_invalid, "allow_erased": allow_erased}
    return _learn(name, feedback, optimizer, url=registry, out=Output(json=json_output), **options)


def overwrite(
    name: Name,
    feedback: Annotated[
        str,
        typer.Argument(metavar="FEEDBACK", help="As for align; every id and source must be known.", show_default=False),
    ],
    *,
    reflection_model: ReflectionModel = None,
    embedding_model: EmbeddingModel = None,
    retrieval_k: RetrievalK = None,
    shard_size: ShardSize = None,
    skip_invalid: SkipInvalid = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Replace feedback that the judge has learned: as align, but every key must exist.

    What the old words taught is forgotten first.
    """
    optimizer = _optimizer(reflection_model, embedding_model, retrieval_k, shard_size)
    options = {"skip_invalid": skip_invalid, "must_exist": True}
    return _learn(name, feedback, optimizer, url=registry, out=Output(json=json_output), **options)


def guideline(
    name: Name,
    guideline_id: Annotated[
        str | None, typer.Argument(metavar="GID", help="Such as G2; none: all guidelines.", show_default=False)
    ] = None,
    *,
    text: Annotated[str | None, typer.Option(metavar="T", help="Give it another text.")] = None,
    add: Annotated[str | None, typer.Option(metavar="T", help="Write a new guideline.")] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", metavar="", help="Pinned ones are never left out.")
    ] = None,
    retire: Annotated[
        bool | None, typer.Option("--retire/--restore", metavar="", help="Take it out of force, or back.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="WHO", help="Who changes it; the default is your user name.")
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Show guidelines with the feedback they come from, or change one by hand."""
    from memalign.align import edit_guideline, write_guideline

    opened, out = open_registry(registry), Output(json=json_output)
    if add is not None:
        if guideline_id is not None or text is not None or retire is not None:
            raise InputError("--add writes a new guideline: give no GID, --text or --retire with it")

        def change(judge: Judge) -> Judge:
            return write_guideline(judge, add, by=by or _user(), pinned=bool(pin))

    elif text is None and pin is None and retire is None:
        number, judge = loaded(opened, name, None)
        chosen = judge.memory.guidelines if guideline_id is None else (judge.memory.guideline(guideline_id),)
        data = {"judge": name, "version": number, "guidelines": chosen}
        one = guideline_id is not None
        out.give(data, _card(judge, chosen[0]) if one else _all(chosen))
        return DONE
    else:
        if guideline_id is None:
            raise InputError("which guideline? memalign guideline NAME lists them")
        gid = guideline_id

        def change(judge: Judge) -> Judge:
            return edit_guideline(judge, gid, by=by or _user(), text=text, pinned=pin, retired=retire)

    judge = opened.update(name, change, "edit")
    changed = judge.memory.guidelines[-1] if guideline_id is None else judge.memory.guideline(guideline_id)
    number = head_of(opened, name)
    data = {"judge": name, "version": number, "guidelines": [changed]}
    out.give(data, _card(judge, changed), f"{name} is version {number} now")
    return DONE


# -- one run, and its report ----------------------------------------------------------------------------------------


def _optimizer(
    reflection_model: str | None, embedding_model: str | None, retrieval_k: int | None, shard_size: int | None
) -> MemAlign:
    from memalign.align import MemAlign

    return MemAlign(
        reflection_model=reflection_model,
        embedding_model=embedding_model,
        retrieval_k=retrieval_k,
        shard_size=shard_size,
    )


def _learn(name: str, feedback: str | None, optimizer: MemAlign, *, url: str, out: Output, **options: bool) -> int:
    opened = open_registry(url)
    before = head_of(opened, name)
    given = () if feedback is None else read_input(feedback)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        result = opened.align(name, given, optimizer=optimizer, progress=progress, **options)
    return report(result, out, version=head_of(opened, name), before=before)


def report(result: AlignResult, out: Output, *, version: int, before: int) -> int:
    """Print what an align or unalign did, `str(result)` last; 1 when something is pending or was left out."""
    name = result.judge.name
    parts: list[Any] = []
    if result.rows:
        parts.append(_row_counts(result))
    news = [row for row in result.rows if row.status != "unchanged"]
    if news:
        rows = [(row.line, row.key, row.status, row.state, row.reason) for row in news[:_SHOWN_ROWS]]
        title = f"Feedback ({len(rows)} of {len(news)}; --json has all)" if len(news) > len(rows) else "Feedback"
        parts.append(table(("line", "key", "row", "state", "reason"), rows, title=title))
    if not result.rows and not result.removed and not result.usage.calls:
        parts.append("nothing was given and nothing is pending: name a file of FEEDBACK to learn from")
    if result.removed:
        parts.append(f"withdrawn: {', '.join(result.removed)}")
    columns = ("id", "", "guideline", "from")
    if result.forgotten:
        parts.append(table(columns, guideline_rows(result.forgotten), title="Forgotten guidelines"))
    if result.guidelines:
        parts.append(table(columns, guideline_rows(result.guidelines), title="New guidelines"))
    for conflict in result.conflicts:
        said = ", ".join(f"{key}: {_word(value)}" for key, value in conflict.voices.items())
        parts.append(f"conflict on {', '.join(conflict.ids)}: {said}; {_word(conflict.label)} counts")
    parts.append(usage_text(result.usage, result.seconds))
    parts.append(f"{name} is version {version} now" if version != before else f"{name} is still version {version}")
    parts.append(str(result))
    out.give({"version": version, **result.to_dict()}, *parts)
    return FAILURES if result.pending or any(row.status == "invalid" for row in result.rows) else DONE


def left_behind(opened: Registry, name: str, before: int) -> str:
    """What an interrupted command left in the registry; looked up, because Ctrl-C may come after the commit."""
    now = head_of(opened, name)
    if now == before:
        return f"nothing was committed, {name} is still version {now}"
    return f"{name} is version {now} now: `memalign diff {name} {before} {now}` shows what was committed"


def _row_counts(result: AlignResult) -> Any:
    from collections import Counter

    counts = Counter((row.status, row.state or "-") for row in result.rows)
    rows = [(status, state, count) for (status, state), count in sorted(counts.items())]
    return table(("row", "state", "count"), rows)


def _all(guidelines: tuple[Guideline, ...]) -> Any:
    if not guidelines:
        return "no guidelines yet: memalign align learns them from feedback"
    return table(("id", "", "guideline", "from"), guideline_rows(guidelines))


def _card(judge: Judge, chosen: Guideline) -> Any:
    status = chosen.status + (f", {chosen.shown_by} says the same" if chosen.shown_by else "")
    return facts(
        [
            ("id", chosen.id),
            ("text", chosen.text),
            ("status", status + (", pinned" if chosen.pinned else "")),
            ("origin", chosen.origin),
            ("from", ", ".join(judge.memory.sources_of(chosen)) or "no feedback"),
            ("exposed to", ", ".join(chosen.exposed_to) or "no feedback"),
        ],
    )


def _word(value: Any) -> str:
    from memalign.evaluation.result import value_text

    return value_text(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user name in the environment, and none in the system
        return "unknown"
