"""Learning from feedback, and changing guidelines by hand."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.align_report import report
from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    EmbeddingModel,
    JsonOutput,
    Name,
    RegistryUrl,
    RetrievalK,
    interruptible,
    latest_of,
    loaded,
    open_registry,
    read_input,
)
from memalign.cli.guideline_words import consequences, legend, precedence_words, word
from memalign.cli.output import Output, facts, guideline_rows, table
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.align import MemAlign
    from memalign.judge import Judge
    from memalign.registry import Registry
    from memalign.types import Guideline

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
        typer.Argument(
            metavar="FEEDBACK", help="JSONL, CSV, JSON, Parquet; - reads JSON lines; none: only what is pending."
        ),
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
    from memalign.memory.directive_check import directive_in

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
        out.give(data, *(_card(judge, chosen[0]) if one else _all(judge)))
        return DONE
    else:
        if guideline_id is None:
            raise InputError("which guideline? memalign guideline NAME lists them")
        gid = guideline_id

        def change(judge: Judge) -> Judge:
            return edit_guideline(judge, gid, by=by or _user(), text=text, pinned=pin, retired=retire)

    saved = opened.update(name, change, "edit")
    judge = saved.judge
    changed = judge.memory.guidelines[-1] if guideline_id is None else judge.memory.guideline(guideline_id)
    others, lines = consequences(saved.before, judge, but=changed.id)
    if (add or text) and (order := directive_in(changed.text, judge.value_type)):
        out.say(f"note: {changed.id} is an order rather than a rule: {order}")
    data = {"judge": name, "version": saved.version, "guidelines": [changed], "consequences": others}
    out.give(data, *_card(judge, changed), *lines, f"{name} is version {saved.version} now")
    return DONE


def lock(
    name: Name,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Cases; none: list those that are locked.")
    ] = None,
    *,
    unlock: Annotated[bool, typer.Option("--unlock", metavar="", help="Let later aligns change them again.")] = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Lock cases: no later align may break the experts' label on them.

    Each align judges them again. New guidelines that make the judge wrong there are left out, and the report says which;
    a case that it gets wrong all the same makes the exit code 1. Without an ID it lists the locked cases.
    """
    opened, out = open_registry(registry), Output(json=json_output)
    if not ids and not unlock:
        number, judge = loaded(opened, name, None)
        lines: list[str] = []
        others: dict[str, Any] = {}
    else:
        saved = opened.lock(name, *(ids or ()), unlock=unlock)
        number, judge = saved.version, saved.judge
        others, lines = consequences(saved.before, judge)
        lines.append(f"{name} is version {number} now" if number != saved.parent else f"{name} is so already")
    rows = [(case.id, judge.memory.label(case)) for key in judge.memory.locks if (case := judge.memory.case(key))]
    locked = [{"id": case, "label": label} for case, label in rows]
    shown = table(("locked case", "experts' label"), [(case, word(label)) for case, label in rows])
    none = f"no case is locked: memalign lock {name} ID"
    data = {"judge": name, "version": number, "locks": locked, "consequences": others}
    out.give(data, shown if rows else none, *lines)
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
    before = latest_of(opened, name)
    given = () if feedback is None else read_input(feedback)
    with interruptible(lambda: left_behind(opened, name, before)), out.progress() as progress:
        result = opened.align(name, given, optimizer=optimizer, progress=progress, **options)
    return report(result, out)


def left_behind(opened: Registry, name: str, before: int) -> str:
    """What an interrupted command left in the registry; looked up, because Ctrl-C may come after the commit."""
    now = latest_of(opened, name)
    if now == before:
        return f"nothing was committed, {name} is still version {now}"
    return f"{name} is version {now} now: `memalign diff {name} {before} {now}` shows what was committed"


def _all(judge: Judge) -> list[Any]:
    memory = judge.memory
    if not memory.guidelines:
        return ["no guidelines yet: memalign align learns them from feedback"]
    rows = guideline_rows(memory.guidelines, memory)
    return [table(("id", "", "guideline", "from"), rows), *legend(judge.name, memory.guidelines, memory)]


def _card(judge: Judge, chosen: Guideline) -> list[Any]:
    memory = judge.memory
    card = facts(
        [
            ("id", chosen.id),
            ("text", chosen.text),
            ("status", ", ".join(filter(None, (_force(chosen), precedence_words(chosen, memory))))),
            ("origin", chosen.origin),
            ("from", ", ".join(map(str, memory.sources_of(chosen))) or "no feedback"),
            ("exposed to", ", ".join(map(str, chosen.exposed_to)) or "no feedback"),
        ],
    )
    return [card, *legend(judge.name, [chosen], memory)]


def _force(chosen: Guideline) -> str:
    return "in force" if chosen.status == "active" else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user name in the environment, and none in the system
        return "unknown"
