"""Explaining a judgment: what it was made of, and the very prompt, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import DONE, Name, Session, Version
from memalign.cli.output import facts, label_text, table, usage_text
from memalign.cli.rows_given import ColumnMap, remembering, rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.types import Example, Finding, Judgment


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
    """Show the prompt, the guidelines and the cost of one judgment.

    The prompt is shown byte for byte. The command finds the version that judged by its fingerprint. It asks no judge model. Where the judge finds similar cases by
    a provider's embedding model, it asks that one. A terminal gets escapes for control characters; --json has the
    prompt as it was sent.
    """
    from memalign import aio
    from memalign.io import read_judgments
    from memalign.judge.explain import explain as explained
    from memalign.registry import judged_by

    found = read_judgments(out)
    judgment = found.judgments.get(example_id)
    if judgment is None:
        raise InputError(f"{out} has no judgment of {example_id!r}; it has {len(found.judgments):,} others")
    example = _example(examples, example_id, columns, remembering(session, name, version, columns)[1].columns)
    if found.contents.get(example_id) not in ("", None, example.content_hash):
        raise InputError(
            f"{examples}: {example_id!r} is not what was judged, it has changed since; give the file as it was"
        )
    number, judge = judged_by(session.registry(), name, found.judge, version, written=str(out))
    told = aio.run(explained(judge, example, judgment))
    data = {"judge": name, "version": number, "id": example_id, **told}
    session.give(data, *_parts(judge, told["judgment"], data))
    return DONE


def _example(file: str, example_id: str, columns: list[str] | None, remembered: Mapping[str, str]) -> Example:
    from memalign.io import read_examples

    items = read_examples(rows_given(file, columns, remembered=remembered))
    example = next((item for item in items if item.id == example_id), None)
    if example is None:
        raise InputError(f"{file} has no example {example_id!r}")
    return example


def _parts(judge: Judge, judgment: Judgment, data: dict[str, Any]) -> list[Any]:
    verdict: list[tuple[object, object]] = [("value", label_text(judgment.value))]
    verdict += [("rationale", judgment.rationale)] if judgment.rationale else []
    verdict += [("confidence", f"{judgment.confidence:.2f}")] if judgment.confidence is not None else []
    if judgment.decided_by == "expert":
        verdict += [("decided by", "the label that experts gave this very item; no model was asked")]
    if judgment.decided_by == "calibrator":
        verdict += [("decided by", "the calibrator"), ("model's own verdict", label_text(judgment.own_value))]
    seconds = ", ".join(f"{phase} {took:.3f} s" for phase, took in judgment.usage.seconds.items())
    verdict += [
        ("version", f"{data['version']}, memory {judgment.memory_hash}"),
        ("model", judgment.model),
        ("usage", usage_text(judgment.usage)),
        ("seconds", seconds or "unknown"),
        *(("note", note) for note in judgment.notes),
    ]
    parts: list[Any] = [facts(verdict)]
    texts = {each["id"]: each["text"] for each in data["guidelines"]}
    if applying := [finding for finding in judgment.findings if finding.guideline and not finding.check]:
        parts.append(_applying(applying, texts))
    if answered := [finding for finding in judgment.findings if finding.check]:
        parts.append(_answers(answered))
    if named := {name: text for name, text in texts.items() if all(name != finding.guideline for finding in applying)}:
        parts.append(table(("id", "guideline"), list(named.items()), title="Guidelines"))
    if data["examples"]:
        rows = [(each["id"], label_text(each["label"])) for each in data["examples"]]
        parts.append(table(("id", "experts' label"), rows, title="Cases in the prompt" if data["prompt"] else "Cases"))
    if data["prompt"] is None:
        return parts
    samples = judge.parameters.get("samples", 1)
    times = f", asked {samples} times" if samples > 1 else ""
    heading = (
        f"The prompt{times}" if data["same_prompt"] else "The first prompt (the judge then read more of the trace)"
    )
    parts.append(f"{heading}\n\n{_messages(data['prompt'])}")
    if "swapped_prompt" in data:
        parts.append(f"\nWith the sides swapped{times}\n\n{_messages(data['swapped_prompt'])}")
    return parts


def _applying(findings: Sequence[Finding], texts: Mapping[str, str]) -> Any:
    """Your rule, and where the item has what it speaks of."""
    rows = [
        (
            finding.guideline,
            texts.get(finding.guideline or "", ""),
            "" if finding.evidence is None else f'"{finding.evidence}"',
            "" if finding.value is None else label_text(finding.value),
            ", ".join(map(str, finding.taught_by)),
        )
        for finding in findings
    ]
    return table(("id", "your rule", "here", "means", "taught by"), rows, title="Guidelines that apply")


def _answers(findings: Sequence[Finding]) -> Any:
    """What checks and tests say of the item, and what each contributes where a calibrator weighs them."""
    rows = [
        (
            "" if finding.contribution is None else f"{finding.contribution:+.2f}",
            finding.guideline or "nobody taught it",
            ", ".join(map(str, finding.taught_by)),
            finding.answer or "",
            finding.check,
        )
        for finding in findings
    ]
    weighed = any(finding.contribution is not None for finding in findings)
    title = "Checks: what speaks for the verdict, in log-odds or points" if weighed else "Checks"
    return table(("counts", "guideline", "taught by", "answer", "check"), rows, title=title)


def _messages(prompt: dict[str, Any]) -> str:
    return f"--- system\n{prompt['system']}\n--- user\n{prompt['user']}"
