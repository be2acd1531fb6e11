"""`memalign explain`: what a judgment was made of, and the very prompt, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import STDIN, ColumnMap, Name, judge_with_columns, rows_of
from memalign.cli.output import facts, label_text, listed, table, usage_text
from memalign.cli.session import DONE, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.types import Example, Finding, Judgment


def explain(
    session: Session,
    name: Name,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file that `memalign judge -o` wrote.")],
    example_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the example.")],
    *,
    examples: Annotated[
        str, typer.Option("--examples", metavar="FILE", help=f"The file of examples that was judged; {STDIN}")
    ],
    columns: ColumnMap = None,
) -> int:
    """Show the prompt, guidelines and cost of one judgment.

    The command finds the version that gave the judgment and rebuilds its prompt byte for byte. The judge's model is not
    called, but a provider's embedding model is if the judge has one. The terminal shows a mark in place of control
    characters; --json prints the prompt exactly as it was sent.
    """
    from memalign import aio
    from memalign.io import read_judgments
    from memalign.judge.explain import explain as explain_judgment

    file = read_judgments(out)
    judgment = file.judgments.get(example_id)
    if judgment is None:
        raise InputError(f"{out} has no judgment for {example_id!r} among its {len(file.judgments):,}")
    mapping = judge_with_columns(session, name, None, columns)[1].columns
    example = _example(examples, example_id, columns, mapping)
    if not file.fits(example):
        raise InputError(
            f"{examples}: {example_id!r} has changed since it was judged; use the file as it was, or judge it again"
        )
    number, judge = session.registry().judged_by(name, file.judge, memory_hash=judgment.memory_hash, written=str(out))
    explained = aio.run(explain_judgment(judge, example, judgment))
    data = {"judge": name, "version": number, "id": example_id, **explained}
    session.give(data, *_parts(judge.parameters.get("samples", 1), explained["judgment"], data))
    return DONE


def _example(file: str, example_id: str, columns: list[str] | None, remembered: Mapping[str, str]) -> Example:
    from memalign.io import read_examples

    for example in read_examples(rows_of(file, columns, remembered=remembered)):
        if example.id == example_id:
            return example
    raise InputError(f"{file} has no example with the id {example_id!r}")


def _parts(samples: int, judgment: Judgment, data: dict[str, Any]) -> list[Any]:
    texts = {guideline["id"]: guideline["text"] for guideline in data["guidelines"]}
    applying = [finding for finding in judgment.findings if finding.guideline and not finding.check]
    answers = [finding for finding in judgment.findings if finding.check]
    parts: list[Any] = [facts(_verdict(judgment, data["version"]))]
    if applying:
        parts.append(_guideline_table(applying, texts))
    if answers:
        parts.append(_check_table(answers))
    silent = set(texts) - {finding.guideline for finding in applying}
    if others := [(name, text) for name, text in texts.items() if name in silent]:
        parts.append(table(("id", "guideline"), others, title="Guidelines"))
    if data["examples"]:
        rows = [(case["id"], label_text(case["label"])) for case in data["examples"]]
        parts.append(table(("id", "experts' label"), rows, title="Cases in the prompt" if data["prompt"] else "Cases"))
    if data["prompt"] is not None:
        times = f", asked {samples} times" if samples > 1 else ""
        first = "The first prompt (after it, the judge read more of the trace)"
        parts.append(f"{f'The prompt{times}' if data['same_prompt'] else first}\n\n{_messages(data['prompt'])}")
        if "swapped_prompt" in data:
            parts.append(f"\nWith the sides swapped{times}\n\n{_messages(data['swapped_prompt'])}")
    return parts


def _verdict(judgment: Judgment, version: int) -> list[tuple[object, object]]:
    rows: list[tuple[object, object]] = [("value", label_text(judgment.value))]
    if judgment.rationale:
        rows.append(("rationale", judgment.rationale))
    if judgment.confidence is not None:
        rows.append(("confidence", f"{judgment.confidence:.2f}"))
    if judgment.decided_by == "expert":
        rows.append(("decided by", "the label that experts gave this item; no model was called"))
    if judgment.decided_by == "calibrator":
        rows += [("decided by", "the calibrator"), ("model's own verdict", label_text(judgment.own_value))]
    seconds = ", ".join(f"{phase} {duration:.3f} s" for phase, duration in judgment.usage.seconds.items())
    return [
        *rows,
        ("version", f"{version}, memory {judgment.memory_hash}"),
        ("model", judgment.model),
        ("usage", usage_text(judgment.usage)),
        ("seconds", seconds or "unknown"),
        *(("note", note) for note in judgment.notes),
    ]


def _guideline_table(findings: Sequence[Finding], texts: Mapping[str, str]) -> Any:
    """The guidelines that apply, with the words of the item that they are about."""
    rows = [
        (
            finding.guideline,
            texts.get(finding.guideline or "", ""),
            None if finding.evidence is None else f'"{finding.evidence}"',
            None if finding.value is None else label_text(finding.value),
            listed(finding.taught_by),
        )
        for finding in findings
    ]
    return table(("id", "your rule", "here", "means", "taught by"), rows, title="Guidelines that apply")


def _check_table(findings: Sequence[Finding]) -> Any:
    """What checks and tests say of the item, and what each contributes where a calibrator weighs them."""
    rows = [
        (
            None if finding.contribution is None else f"{finding.contribution:+.2f}",
            finding.guideline or "nobody taught it",
            listed(finding.taught_by),
            finding.answer,
            finding.check,
        )
        for finding in findings
    ]
    weighed = any(finding.contribution is not None for finding in findings)
    title = "Checks: what each adds to the verdict, in log-odds or points" if weighed else "Checks"
    return table(("counts", "guideline", "taught by", "answer", "check"), rows, title=title)


def _messages(prompt: dict[str, Any]) -> str:
    return f"--- system\n{prompt['system']}\n--- user\n{prompt['user']}"
