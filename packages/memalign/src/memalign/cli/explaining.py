"""Explaining a judgment: what it was made of, and the very prompt, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import DONE, Name, Session, Version
from memalign.cli.output import facts, label_text, table, usage_text
from memalign.cli.rows_given import ColumnMap, rows_given
from memalign.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from memalign.judge import Judge, Prepared
    from memalign.registry import Registry
    from memalign.types import Example, Judgment


def explain(
    session: Session,
    name: Name,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Judgments that `memalign judge -o` wrote.")],
    example_id: Annotated[str, typer.Argument(metavar="ID", help="The example whose judgment to explain.")],
    *,
    examples: Annotated[
        str, typer.Option("--examples", metavar="FILE", help="The file that was judged; - reads JSON lines.")
    ],
    columns: ColumnMap = None,
    version: Version = None,
) -> int:
    """Show the very prompt of one judgment, byte for byte, its guidelines and its cost.

    It finds the version that judged by its fingerprint. It asks no judge model. Where the judge finds similar cases by
    a provider's embedding model, it asks that one. A terminal gets escapes for control characters; --json has the
    prompt as it was sent.
    """
    import msgspec

    from memalign import aio
    from memalign.io import read_judgments
    from memalign.judge.trace_reading import with_tool_calls
    from memalign.judge.trace_tools import tool_calls_of
    from memalign.judge.verdict import swapped, swapped_names

    found = read_judgments(out)
    judgment = found.judgments.get(example_id)
    if judgment is None:
        raise InputError(f"{out} has no judgment of {example_id!r}; it has {len(found.judgments):,} others")
    example = _example(examples, example_id, columns, session.judge(name)[1].columns)
    if found.contents.get(example_id) not in ("", None, example.content_hash):
        raise InputError(
            f"{examples}: {example_id!r} is not what was judged, it has changed since; give the file as it was"
        )
    number, judge = judge_of(session.registry(), name, found.judge, version, out)
    if judgment.error is not None:
        raise InputError(f"{example_id!r} was not judged: {judgment.error}")
    # The tool calls that read a long trace show the same again.
    calls = tool_calls_of(judgment)
    judgment = msgspec.structs.replace(judgment, trace_tool_calls=calls)
    prepared = aio.run(judge.prepare(example))
    prompts = [with_tool_calls(judge, example, prepared, [call for call in calls if not call.swapped])]
    if judge.parameters.get("swap"):
        turned = swapped(example, swapped_names(judge, example))
        prepared = aio.run(judge.prepare(turned))
        prompts.append(with_tool_calls(judge, turned, prepared, [call for call in calls if call.swapped]))
    data = _data(name, number, example_id, judge, judgment, prompts)
    session.give(data, *_parts(judge, judgment, data))
    return DONE


def _example(file: str, example_id: str, columns: list[str] | None, remembered: Mapping[str, str]) -> Example:
    from memalign.io import check_examples

    items = check_examples(rows_given(file, columns, remembered=remembered))
    example = next((item for item in items if item.id == example_id), None)
    if example is None:
        raise InputError(f"{file} has no example {example_id!r}")
    return example


def judge_of(registry: Registry, name: str, signature: str, version: int | None, out: Path) -> tuple[int, Judge]:
    """The version that wrote `out`: the newest of the same fingerprint. Raises InputError when there is none."""
    from memalign.judge import signature_of

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
                f"{out} was written with other prompts than this memalign has; explain it with the memalign that wrote it, "
                "or judge again into another file"
            )
    which = (
        f"version {version} of {name!r}" if version is not None else f"any version of {name!r} that the registry has"
    )
    raise InputError(
        f"{out} was written by judge {signature}, which is not {which}; its memory may have been erased from since, or "
        "MEMALIGN_MODEL and the settings differ"
    )


def _data(
    name: str, number: int, example_id: str, judge: Judge, judgment: Judgment, prompts: Sequence[Prepared]
) -> dict[str, Any]:
    memory = judge.memory
    texts = {guideline.id: guideline.text for guideline in memory.guidelines}
    cases = {key: memory.case(key) for key in judgment.example_ids}
    guideline_ids = tuple(dict.fromkeys(key for each in prompts for key in each.guideline_ids))
    example_ids = tuple(dict.fromkeys(key for each in prompts for key in each.example_ids))
    return {
        "judge": name,
        "version": number,
        "id": example_id,
        "judgment": judgment,
        "guidelines": [{"id": each, "text": texts.get(each, "")} for each in judgment.guideline_ids],
        "examples": [{"id": key, "label": memory.label(case) if case else None} for key, case in cases.items()],
        "same_prompt": (guideline_ids, example_ids) == (judgment.guideline_ids, judgment.example_ids),
        "prompt": _prompt(prompts[0]),
    } | ({"swapped_prompt": _prompt(prompts[1])} if prompts[1:] else {})


def _prompt(prepared: Prepared) -> dict[str, Any]:
    request = prepared.request
    return {"system": request.system, "user": request.user, "schema": request.schema}


def _parts(judge: Judge, judgment: Judgment, data: dict[str, Any]) -> list[Any]:
    from memalign.prompts import tool_call_text

    verdict: list[tuple[object, object]] = [("value", label_text(judgment.value))]
    verdict += [("rationale", judgment.rationale)] if judgment.rationale else []
    verdict += [("confidence", f"{judgment.confidence:.2f}")] if judgment.confidence is not None else []
    if judgment.calibrated_value is not None:
        verdict += [
            ("decided by", "the calibrator" if judgment.decided_by == "calibrator" else "the model's own verdict"),
            ("model's own verdict", label_text(judgment.own_value)),
            ("calibrator's verdict", label_text(judgment.calibrated_value)),
        ]
    verdict += [("abstained", "yes: less sure than abstain_below asks")] if judgment.abstained else []
    seconds = ", ".join(f"{phase} {took:.3f} s" for phase, took in judgment.usage.seconds.items())
    verdict += [
        ("version", f"{data['version']}, memory {judgment.memory_hash}"),
        ("model", judgment.model),
        ("usage", usage_text(judgment.usage)),
        ("seconds", seconds or "unknown"),
        *(("tool call, swapped" if c.swapped else "tool call", tool_call_text(c)) for c in judgment.trace_tool_calls),
        *(("note", note) for note in judgment.notes),
    ]
    parts: list[Any] = [facts(verdict)]
    if judgment.findings:
        parts.append(_findings(judgment))
    if data["guidelines"]:
        rows = [(each["id"], each["text"]) for each in data["guidelines"]]
        parts.append(table(("id", "guideline"), rows, title="Guidelines in the prompt"))
    if data["examples"]:
        rows = [(each["id"], label_text(each["label"])) for each in data["examples"]]
        parts.append(table(("id", "experts' label"), rows, title="Cases in the prompt"))
    samples = judge.parameters.get("samples", 1)
    times = f", asked {samples} times" if samples > 1 else ""
    heading = (
        f"The prompt{times}" if data["same_prompt"] else "The first prompt (the judge then read more of the trace)"
    )
    parts.append(f"{heading}\n\n{_messages(data['prompt'])}")
    if "swapped_prompt" in data:
        parts.append(f"\nWith the sides swapped{times}\n\n{_messages(data['swapped_prompt'])}")
    return parts


def _findings(judgment: Judgment) -> Any:
    rows = (
        (
            "" if found.contribution is None else f"{found.contribution:+.2f}",
            found.guideline or "nobody taught it",
            ", ".join(map(str, found.taught_by)),
            found.answer or "",
            found.check,
        )
        for found in judgment.findings
    )
    weighed = judgment.calibrated_value is not None
    what = f": what speaks for {label_text(judgment.calibrated_value)}, in log-odds or points" if weighed else ""
    return table(("counts", "guideline", "taught by", "answer", "check"), rows, title=f"Findings{what}")


def _messages(prompt: dict[str, Any]) -> str:
    return f"--- system\n{prompt['system']}\n--- user\n{prompt['user']}"
