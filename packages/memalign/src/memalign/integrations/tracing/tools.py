"""The tools by the names that commands take, and a judge's verdicts in the form in which they take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

from memalign.errors import InputError
from memalign.integrations.tracing.records import Tool, Verdict
from memalign.judge import Judge
from memalign.types import Judgment
from memalign.values import Value, ValueType, value_text

__all__ = ["TOOLS", "open_tool", "verdicts_of"]

TOOLS = {
    "argilla": "Argilla",
    "braintrust": "Braintrust",
    "label-studio": "LabelStudio",
    "langfuse": "Langfuse",
    "langsmith": "LangSmith",
    "otlp": "Otlp",
    "phoenix": "Phoenix",
}
"""The name of each tool, and its class in the module of that name."""


def open_tool(name: str, place: str | None, **settings: Any) -> Tool:
    """The tool of a name, at a project or file. Raises InputError, and ConfigurationError for a missing key."""
    if name not in TOOLS:
        raise InputError(f"no tool {name!r}; tools: {', '.join(TOOLS)}")
    module = import_module(f"memalign.integrations.tracing.{name.replace('-', '_')}")
    made: Callable[..., Tool] = getattr(module, TOOLS[name])
    return made(place, **settings)


def verdicts_of(
    judgments: Iterable[Judgment], judge: Judge, version: int, *, labels: Mapping[str, str] | None = None
) -> Iterator[Verdict]:
    """The verdicts of judgments that `judge` in that version gave; those with an error have none.

    `labels` says what the tool calls a value, by the value's text.
    """
    kind = judge.value_type
    for judgment in judgments:
        if judgment.value is None:
            continue
        label = value_text(judgment.value)
        yield Verdict(
            id=judgment.id,
            judge=judge.name,
            value=judgment.value,
            label=(labels or {}).get(label, label),
            share=_share(judgment.value, kind),
            confidence=judgment.confidence,
            rationale=judgment.rationale,
            identifier=f"memalign/{judge.name}/v{version}",
            meta={
                "judge": judge.name,
                "judge_version": version,
                "memory_hash": judgment.memory_hash,
                "model": judgment.model,
                **({} if judgment.confidence is None else {"confidence": judgment.confidence}),
                **({"abstained": True} if judgment.abstained else {}),
            },
        )


def _share(value: Value, kind: ValueType) -> float | None:
    if isinstance(value, str) or kind.low is None or kind.high is None or kind.high <= kind.low:
        return float(value) if isinstance(value, bool) else None
    return (value - kind.low) / (kind.high - kind.low)
