r"""memalign: LLM judges that learn from experts' feedback, in words, without touching weights.

    import memalign as ma

    judge = ma.Judge(
        name="helpfulness", feedback_value_type=bool, model="openai:/gpt-4.1-mini", instructions="Is
        the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
    ) aligned = judge.align("feedback.jsonl").judge aligned(inputs="I was charged twice!",
    outputs="One charge will be reversed.").value

Names are loaded when they are first used, so that `import memalign` stays fast and pulls in no
provider's library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memalign.align import AlignResult, MemAlign
    from memalign.errors import MemalignError
    from memalign.evaluation import (
        Comparison,
        Evaluation,
        GateResult,
        NextCase,
        NextCases,
        compare,
        evaluate,
        gate,
        next_cases,
    )
    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.models import ChatModel, EmbeddingModel
    from memalign.registry import Receipt, Registry, load_bundle, write_bundle
    from memalign.types import (
        CodeTest,
        Example,
        Feedback,
        FeedbackKey,
        Finding,
        Guideline,
        Judgment,
        Usage,
    )
    from memalign.values import ValueType

__all__ = [
    "AlignResult",
    "ChatModel",
    "CodeTest",
    "Comparison",
    "EmbeddingModel",
    "Evaluation",
    "Example",
    "Feedback",
    "FeedbackKey",
    "Finding",
    "GateResult",
    "Guideline",
    "Judge",
    "Judgment",
    "MemAlign",
    "MemalignError",
    "Memory",
    "NextCase",
    "NextCases",
    "Receipt",
    "Registry",
    "Usage",
    "ValueType",
    "compare",
    "evaluate",
    "gate",
    "load_bundle",
    "next_cases",
    "write_bundle",
]

_ROOMS = {
    "align": "AlignResult MemAlign",
    "errors": "MemalignError",
    "evaluation": (
        "Comparison Evaluation GateResult NextCase NextCases compare evaluate gate next_cases"
    ),
    "judge": "Judge",
    "memory": "Memory",
    "models": "ChatModel EmbeddingModel",
    "registry": "Receipt Registry load_bundle write_bundle",
    "types": "CodeTest Example Feedback FeedbackKey Finding Guideline Judgment Usage",
    "values": "ValueType",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__version__":
        # Not at import: `importlib.metadata` alone would take nine tenths of its time.
        return import_module("importlib.metadata").version("memalign")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'memalign' has no attribute {name!r}")
    value = getattr(import_module(f"memalign.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
