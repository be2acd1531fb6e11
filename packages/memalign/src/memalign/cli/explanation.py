"""`memalign explain`: what a judgment was made of, and the very prompt, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import STDIN, ColumnMap, Name, judge_with_columns, rows_of
from memalign.cli.output import fact_table, label_text, table, usage_text
from memalign.cli.session import DONE, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.types import Judgment


def explain(
    session: Session,
    name: Name,
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file that `memalign judge -o` wrote."),
    ],
    example_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the example.")
    ],
    *,
    examples: Annotated[
        str,
        typer.Option(
            "--examples",
            metavar="FILE",
            help=f"The file of examples that was judged; {STDIN}",
        ),
    ],
    columns: ColumnMap = None,
) -> int:
    """Show the prompt, guidelines and cost of one judgment.

    The command finds the version that gave the judgment and rebuilds its prompt byte for byte. The
    judge's model is not called, but a provider's embedding model is if the judge has one. The
    terminal shows a mark in place of control characters; --json prints the prompt exactly as it was
    sent.
    """
    from memalign import aio
    from memalign.io import read_examples, read_judgments
    from memalign.judge import task_of
    from memalign.judge.explain import explain as explain_judgment

    file = read_judgments(out)
    judgment = file.judgments.get(example_id)
    if judgment is None:
        among = f"among its {len(file.judgments):,}"
        raise InputError(f"{out} has no judgment for {example_id!r} {among}")
    mapping = judge_with_columns(session, name, None, columns)[1].columns
    rows = read_examples(rows_of(examples, columns, remembered=mapping))
    example = next((row for row in rows if row.id == example_id), None)
    if example is None:
        raise InputError(f"{examples} has no example with the id {example_id!r}")
    if not file.fits(example):
        advice = "use the file as it was, or judge it again"
        raise InputError(
            f"{examples}: {example_id!r} has changed since it was judged; {advice}"
        )
    number, judge = session.registry().judged_by(name, file.judge, judgment.memory_hash)
    explained = aio.run(
        explain_judgment(task_of(judge), judge.memory, example, judgment)
    )
    data = {"judge": name, "version": number, "id": example_id, **explained}
    session.give(data, *_parts(explained["judgment"], data))
    return DONE


def _parts(judgment: Judgment, data: dict[str, Any]) -> list[Any]:
    decided_by = {
        "expert": "the label that experts gave this item; no model was called",
        "rule": "a rule of the experts, by code; no model was called",
    }
    rows = (
        ("value", label_text(judgment.value)),
        ("rationale", judgment.rationale),
        ("confidence", judgment.confidence),
        ("decided by", decided_by.get(judgment.decided_by, "the model")),
        ("version", f"{data['version']}, memory {judgment.memory_hash}"),
        ("model", judgment.model),
        ("answered by", judgment.answered_by),
        ("usage", usage_text(judgment.usage, sum(judgment.usage.seconds.values()))),
        ("notes", "; ".join(judgment.notes)),
    )
    parts: list[Any] = [fact_table((name, value) for name, value in rows if value)]
    for guideline in data["guidelines"]:
        parts.append(f"your rule {guideline['id']}: {guideline['text']}")
        for finding in judgment.findings:
            if finding.guideline == guideline["id"]:
                parts.append(f"  {finding}")
    if data["examples"]:
        cases = [(case["id"], label_text(case["label"])) for case in data["examples"]]
        parts.append(table(("id", "experts' label"), cases, title="Cases"))
    if prompt := data["prompt"]:
        title = (
            "The prompt"
            if data["same_prompt"]
            else "The prompt as it would be now, with other cases"
        )
        parts.append(f"{title}\n\n{_as_text(prompt)}")
    return parts


def _as_text(prompt: dict[str, Any]) -> str:
    """Return a prompt's messages, or a decision model's item and questions, one below the other."""
    if "system" in prompt:
        return f"--- system\n{prompt['system']}\n--- user\n{prompt['user']}\n"
    asked = [
        f"--- {question['key']}\n{question['text']}\n"
        for question in prompt["questions"]
    ]
    return "".join([f"--- item\n{prompt['item']}\n", *asked])
