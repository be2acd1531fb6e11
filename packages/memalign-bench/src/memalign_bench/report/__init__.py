"""The benchmark's report: what the raw judgments show, with intervals, and what they do not."""

from memalign_bench.report.facts import FACTS_FILE, Facts, TaskFacts, engine_notes, read_facts, write_facts
from memalign_bench.report.page import write_report

__all__ = ["FACTS_FILE", "Facts", "TaskFacts", "engine_notes", "read_facts", "write_facts", "write_report"]
