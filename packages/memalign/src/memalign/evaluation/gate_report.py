"""What a gate decided, for machines and for the page of a build: JUnit XML, and Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from memalign.evaluation.gate_criteria import Criterion, GateResult

__all__ = ["junit_xml", "markdown", "markdown_cell"]

_LISTED = 20
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {"pass": "✅ pass", "regression": "❌ regression", "inconclusive": "❔ inconclusive"}


def junit_xml(found: GateResult, *, inconclusive: str = "skipped") -> bytes:
    """The gate as JUnit XML: a test case a criterion. What is `inconclusive` is "skipped", a "failure", or passes ("pass")."""
    failed = [each for each in found.criteria if _fails(each, inconclusive)]
    skipped = [each for each in found.criteria if each.outcome == "inconclusive" and inconclusive == "skipped"]
    counts = {"tests": len(found.criteria), "failures": len(failed), "errors": 0, "skipped": len(skipped)}
    named = {key: str(count) for key, count in counts.items()}
    suite = ET.Element("testsuite", {"name": f"memalign gate {found.judge}", **named})
    for each in found.criteria:
        case = ET.SubElement(suite, "testcase", classname=f"memalign.gate.{found.judge}", name=_plain(each.demand))
        if each in failed:
            ET.SubElement(case, "failure", message=_plain(each.why), type=each.outcome)
        elif each in skipped:
            ET.SubElement(case, "skipped", message=_plain(each.why))
    ET.SubElement(suite, "system-out").text = _plain(str(found))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _fails(criterion: Criterion, inconclusive: str) -> bool:
    return criterion.outcome == "regression" or (criterion.outcome == "inconclusive" and inconclusive == "failure")


def _plain(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def markdown(found: GateResult) -> str:
    """The gate as a section of Markdown, as the page of a build shows it."""
    lines = [f"### memalign gate: {markdown_cell(found.judge)}: {_MARKS[found.outcome]}", ""]
    lines += ["| | demand | found |", "|---|---|---|"]
    lines += [
        f"| {_MARKS[each.outcome]} | {markdown_cell(each.demand)} | {markdown_cell(each.why)} |"
        for each in found.criteria
    ]
    left_out = f" {found.taught} more are in memory and do not count." if found.taught else ""
    lines += ["", f"{found.evaluation.n} unseen cases, model {markdown_cell(found.evaluation.model)}.{left_out}"]
    if found.comparison is not None:
        for name, ids in (("Fixed", found.comparison.fixed), ("Broken", found.comparison.broken)):
            if ids:
                more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
                lines += ["", f"{name}: {', '.join(markdown_cell(each) for each in ids[:_LISTED])}{more}"]
    return "\n".join(lines) + "\n"


def markdown_cell(text: str) -> str:
    """Text that is nobody's markup: ids come from data."""
    escaped = re.sub(r"([\\`*_{}\[\]<>|#!~])", r"\\\1", text)
    return " ".join(escaped.split())
