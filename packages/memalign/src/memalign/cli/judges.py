"""Judges in the registry: create, list, show, edit, delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    EmbeddingModel,
    JsonOutput,
    Name,
    RegistryUrl,
    RetrievalK,
    Version,
    confirmed,
    loaded,
    open_registry,
)
from memalign.cli.guideline_words import consequences
from memalign.cli.output import Output, facts, guideline_rows, table
from memalign.errors import InputError, JudgeNotFound

if TYPE_CHECKING:
    from memalign.judge import Judge

CREATE_EXAMPLE = 'memalign create tone --value-type bool --instructions "Is it polite? Reply: {{ outputs }}"'

_INSTRUCTIONS_HELP = "What the judge is asked, or @FILE with it; {{ inputs }}, {{ outputs }}, … name an item's fields."

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="M", help="Such as openai:gpt-4.1-mini or local:qwen2.5-coder-1.5b."),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="KEY=VALUE",
        help="temperature, max_tokens, seed, timeout (seconds), verdict (reasoned, direct), samples, swap (true), trace_tool_calls, calibrate (true) or abstain_below; may be given several times.",
    ),
]


def create(
    name: Name,
    *,
    instructions: Annotated[str, typer.Option(metavar="TEXT|@FILE", help=_INSTRUCTIONS_HELP, show_default=False)],
    value_type: Annotated[
        str, typer.Option(metavar="TYPE", help="What it answers: bool, A|B|tie, int:1..5, float:0..1, str.")
    ],
    model: Model = None,
    embedding_model: EmbeddingModel = None,
    retrieval_k: RetrievalK = None,
    param: Parameters = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Define a judge and keep it in the registry as version 1.

    Without --model it takes the one that the environment gives (MEMALIGN_MODEL, or a provider whose key is set) and
    stores its name. No model is called.
    """
    from memalign.judge import Judge

    settings = _settings(model or "", embedding_model, retrieval_k, param)
    made = Judge(name=name, instructions=_text_of(instructions), feedback_value_type=value_type, **settings)
    open_registry(registry, create=True).create(made)
    Output(json=json_output).give(
        described(made, version=1), f"created {name} ({made.value_type.spec}) on {made.model_name}, version 1"
    )
    return DONE


def list_(*, registry: RegistryUrl = DEFAULT_REGISTRY, json_output: JsonOutput = False) -> int:
    """List the judges of the registry."""
    none = "no judges yet: `memalign create --help`"
    try:
        found = open_registry(registry).list()
    except JudgeNotFound as error:  # an empty list is the answer, and a mistyped path is still seen
        found, none = (), str(error)
    rows = [
        (each.name, each.latest, each.value_type, each.model, each.feedback, each.guidelines, each.pending)
        for each in found
    ]
    shown = table(("name", "version", "type", "model", "feedback", "guidelines", "pending"), rows)
    Output(json=json_output).give({"judges": [each.to_dict() for each in found]}, shown if rows else none)
    return DONE


def show(
    name: Name,
    *,
    version: Version = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Show a judge: its instructions, its guidelines with the feedback they come from, what is pending."""
    number, judge = loaded(open_registry(registry), name, version)
    settings = [
        ("name", judge.name),
        ("version", number),
        ("answers", f"{judge.value_type.spec} ({judge.value_type.allowed})"),
        ("model", judge.model_name),
        ("embedding model", judge.embedding_model_name or "in this process"),
        ("examples shown", "as many as suit the model" if judge.retrieval_k is None else judge.retrieval_k),
        *judge.parameters.items(),
        ("memory", f"{_counts(judge)}, hash {judge.memory.hash}"),
        ("where people differ", _weighing(judge)),
        ("locked cases", ", ".join(judge.memory.locks) or "none"),
        ("instructions", judge.instructions),
    ]
    parts: list[Any] = [facts(settings)]
    if judge.memory.semantic:
        columns = ("id", "", "guideline", "from")
        rows = guideline_rows(judge.memory.semantic, judge.memory)
        parts.append(table(columns, rows, title="Guidelines in force"))
    if away := len(judge.memory.guidelines) - len(judge.memory.semantic):
        parts.append(f"{away} more not in force: memalign guideline {name} says why")
    waiting = [(entry.key, entry.reason) for entry in judge.memory.ledger() if entry.state == "pending"]
    if waiting:
        parts.append(table(("key", "waits because"), waiting, title="Pending"))
    if stale := judge.stale_pre_alignment():
        parts.append(_stale_line(len(stale)))
    Output(json=json_output).give(described(judge, version=number), *parts)
    return DONE


def edit(
    name: Name,
    *,
    model: Model = None,
    instructions: Annotated[str | None, typer.Option(metavar="TEXT|@FILE", help=_INSTRUCTIONS_HELP)] = None,
    embedding_model: EmbeddingModel = None,
    retrieval_k: RetrievalK = None,
    param: Parameters = None,
    authority: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Whose label decides where people differ: ana,ben; '' for nobody's."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="RULES", help="By what labels are weighed: authority,majority,recency.")
    ] = None,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Change a judge's settings: a new version with the same memory.

    Says how many pre-alignment verdicts (the judge's own verdicts before it learned) were made with the old settings. With another
    --authority or --policy other labels may count where people differ: it says which feedback is disputed now, and
    which is pending until the next align.
    """
    from memalign.align import set_policy

    changes = _settings(model, embedding_model, retrieval_k, param)
    if instructions is not None:
        changes["instructions"] = _text_of(instructions)
    weighed = {"authority": _listed(authority), "policy": _listed(policy)}
    if not changes and authority is None and policy is None:
        raise InputError(
            "nothing to change: give --model, --instructions, --embedding-model, -k, --param, --authority or --policy"
        )
    settings = changes.pop("parameters", {})

    def changed(judge: Judge) -> Judge:
        edited = judge.replace(**changes, parameters={**judge.parameters, **settings})
        return edited if authority is None and policy is None else set_policy(edited, **weighed)

    saved = open_registry(registry).update(name, changed, "edit")
    judge, number = saved.judge, saved.version
    others, lines = consequences(saved.before, judge)
    if authority is not None or policy is not None:
        lines = [f"where people differ: {_weighing(judge)}", *_silent(judge), *lines]
    if stale := len(judge.stale_pre_alignment()):
        lines.append(_stale_line(stale))
    line = f"{name} is version {number} now" if number != saved.parent else f"{name} is so already, version {number}"
    data = {**described(judge, version=number), "consequences": others}
    Output(json=json_output).give(data, *lines, line)
    return DONE


def delete(
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", metavar="", help="Do not ask.")] = False,
    registry: RegistryUrl = DEFAULT_REGISTRY,
    json_output: JsonOutput = False,
) -> int:
    """Delete a judge with all its versions. Asks first."""
    opened = open_registry(registry)
    versions = len(opened.history(name))
    out = Output(json=json_output)
    many = f"{versions} version{'' if versions == 1 else 's'}"
    if not confirmed(f"Delete {name} with {many}, for good?", yes=yes):
        out.give({"deleted": False, "name": name}, "nothing was deleted")
        return DONE
    gone = opened.delete(name)
    out.give({"deleted": True, **gone.to_dict()}, f"deleted {name} with {many}")
    return DONE


def described(judge: Judge, *, version: int) -> dict[str, Any]:
    """A judge as JSON values: settings, counts, guidelines of every status, what is pending."""
    memory = judge.memory
    return {
        "name": judge.name,
        "version": version,
        "instructions": judge.instructions,
        "value_type": judge.value_type.spec,
        "model": judge.model_name,
        "embedding_model": judge.embedding_model_name,
        "retrieval_k": judge.retrieval_k,
        "parameters": dict(judge.parameters),
        "policy": list(memory.policy),
        "authority": list(memory.authority),
        "locks": list(memory.locks),
        "memory_hash": memory.hash,
        "cases": len(memory.cases),
        "feedback": len(memory),
        "guidelines": memory.guidelines,
        "pending": [{"key": e.key, "reason": e.reason} for e in memory.ledger() if e.state == "pending"],
        "stale_pre_alignment": judge.stale_pre_alignment(),
    }


def _counts(judge: Judge) -> str:
    memory = judge.memory
    return f"{len(memory)} feedback on {len(memory.cases)} cases, {len(memory.semantic)} guidelines in force"


def _listed(given: str | None) -> list[Any] | None:
    """The names in `ana,ben`; none in an empty text."""
    return None if given is None else [each.strip() for each in given.split(",") if each.strip()]


def _weighing(judge: Judge) -> str:
    """`authority (ana, then ben), then majority, then recency`."""
    people = ", then ".join(judge.memory.authority)
    rules = [f"authority ({people or 'nobody yet'})" if rule == "authority" else rule for rule in judge.memory.policy]
    return ", then ".join(rules)


def _silent(judge: Judge) -> list[str]:
    """What a person should know who chose a policy that decides nothing."""
    memory = judge.memory
    heard = {annotation.source for annotation in memory.annotations()}
    lines = []
    if memory.authority and "authority" not in memory.policy:
        lines.append("--authority has no effect: the policy does not name authority")
    if unheard := [source for source in memory.authority if source not in heard]:
        lines.append(f"no feedback of {', '.join(unheard)} so far; sources: {', '.join(sorted(heard)) or 'none'}")
    return lines


def _stale_line(count: int) -> str:
    return f"{count} pre-alignment verdict{' is' if count == 1 else 's are'} stale: the judge's own verdict there was made with other settings"


def _settings(
    model: str | None, embedding_model: str | None, retrieval_k: int | None, param: list[str] | None
) -> dict[str, Any]:
    """The settings that were given; an empty `model` is the environment's. Raises ConfigurationError, InputError."""
    from memalign.models import resolve, resolve_embedding

    settings: dict[str, Any] = {}
    if model is not None:
        settings["model"] = resolve(model or None).name
    if embedding_model is not None:
        settings["embedding_model"] = resolve_embedding(embedding_model).name
    if retrieval_k is not None:
        settings["retrieval_k"] = retrieval_k
    if param:
        settings["parameters"] = dict(_parameter(each) for each in param)
    return settings


def _parameter(text: str) -> tuple[str, int | float | bool | str]:
    key, equals, raw = text.partition("=")
    if not equals:
        raise InputError(f"--param {text}: write it as KEY=VALUE, for example temperature=0")
    for number in (int, float):
        try:
            return key.strip(), number(raw)
        except ValueError:
            continue
    words: dict[str, bool | str] = {"true": True, "false": False}
    return key.strip(), words.get(raw.strip().lower(), raw.strip())


def _text_of(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8").strip()
    except OSError as error:
        raise InputError(f"--instructions {given}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"--instructions {given}: the file is not UTF-8") from None
