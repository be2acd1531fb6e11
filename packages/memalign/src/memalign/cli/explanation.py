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
    from memalign.judge import Judge
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
    number, judge = session.registry().judged_by(name, file.judge, judgment.memory_hash)
    explained = aio.run(explain_judgment(judge, example, judgment))
    data = {"judge": name, "version": number, "id": example_id, **explained}
    session.give(data, *_parts(judge, explained["judgment"], data))
    return DONE


def _example(file: str, example_id: str, columns: list[str] | None, remembered: Mapping[str, str]) -> Example:
    from memalign.io import read_examples

    for example in read_examples(rows_of(file, columns, remembered=remembered)):
        if example.id == example_id:
            return example
    raise InputError(f"{file} has no example with the id {example_id!r}")


def _parts(judge: Judge, judgment: Judgment, data: dict[str, Any]) -> list[Any]:
    texts = {guideline["id"]: guideline["text"] for guideline in data["guidelines"]}
    applying = [finding for finding in judgment.findings if finding.guideline and not finding.check]
    answers = [finding for finding in judgment.findings if finding.check]
    silent = [(name, text) for name, text in texts.items() if name not in {f.guideline for f in applying}]
    cases = [(case["id"], label_text(case["label"])) for case in data["examples"]]
    tables = (
        (_applying(applying, texts), ("id", "your rule", "here", "means", "taught by"), "Guidelines that apply"),
        (_answers(answers), ("counts", "guideline", "taught by", "answer", "check"), "Checks (log-odds or points)"),
        (silent, ("id", "guideline"), "Guidelines"),
        (cases, ("id", "experts' label"), "Cases in the prompt" if data["prompt"] else "Cases"),
    )
    parts: list[Any] = [facts(_verdict(judgment, data["version"]))]
    parts += [table(columns, rows, title=title) for rows, columns, title in tables if rows]
    times = f", asked {samples} times" if (samples := judge.parameters.get("samples", 1)) > 1 else ""
    if prompt := data["prompt"]:
        title = "The prompt" if data["same_prompt"] else "The prompt as it would be now, with other cases"
        parts.append(f"{title}{times}\n\n--- system\n{prompt['system']}\n--- user\n{prompt['user']}\n")
    return parts


def _verdict(judgment: Judgment, version: int) -> list[tuple[object, object]]:
    decided_by = {
        "expert": "the label that experts gave this item; no model was called",
        "calibrator": f"the calibrator; the model's own verdict is {label_text(judgment.own_value)}",
    }
    rows = (
        ("value", label_text(judgment.value)),
        ("rationale", judgment.rationale),
        ("confidence", None if judgment.confidence is None else f"{judgment.confidence:.2f}"),
        ("decided by", decided_by.get(judgment.decided_by)),
        ("version", f"{version}, memory {judgment.memory_hash}"),
        ("model", judgment.model),
        ("usage", usage_text(judgment.usage)),
        ("seconds", ", ".join(f"{phase} {took:.3f} s" for phase, took in judgment.usage.seconds.items()) or "unknown"),
        *(("note", note) for note in judgment.notes),
    )
    return [(name, value) for name, value in rows if value]


def _applying(findings: Sequence[Finding], texts: Mapping[str, str]) -> list[tuple[object, ...]]:
    """The guidelines that apply, with the words of the item that they are about."""
    return [
        (
            finding.guideline,
            texts.get(finding.guideline or "", ""),
            None if finding.evidence is None else f'"{finding.evidence}"',
            None if finding.value is None else label_text(finding.value),
            listed(finding.taught_by),
        )
        for finding in findings
    ]


def _answers(findings: Sequence[Finding]) -> list[tuple[object, ...]]:
    """What checks and tests say of the item, and what each contributes where a calibrator weighs them."""
    return [
        (
            None if finding.contribution is None else f"{finding.contribution:+.2f}",
            finding.guideline or "nobody taught it",
            listed(finding.taught_by),
            finding.answer,
            finding.check,
        )
        for finding in findings
    ]
