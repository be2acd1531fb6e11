"""Traces and people's feedback out of tracing and labelling tools, and a judge's verdicts back into them.

One module a tool, over its documented HTTP interface or export file. Each gives `Record`s and takes `Verdict`s.
"""

from memalign.integrations.tracing.gathering import Gathered, gathered
from memalign.integrations.tracing.records import Record, Said, Tool, Verdict, Wanted
from memalign.integrations.tracing.tools import TOOLS, open_tool, verdicts_of

__all__ = [
    "TOOLS",
    "Gathered",
    "Record",
    "Said",
    "Tool",
    "Verdict",
    "Wanted",
    "gathered",
    "open_tool",
    "verdicts_of",
]
