"""A model whose answers follow from the guidelines in its prompt, as a test lays down.

Experts say their rule in so many words (`say: Be brief.`), and the model writes just that rule.
Verdicts are a function of the rules in the prompt and of the item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from memalign import Judge
from memalign.errors import ModelUnavailable
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedAnswer, ScriptedChatModel
from tests.support.learning import RECORD, bare
from tests.support.rows import RawRow, given_in
from tests.support.scripted import change

Verdict = Callable[[frozenset[str], str], bool]
"""The rules in the prompt and the number of the item's case, as text, to a verdict."""

_RULE = re.compile(r"^(?:-|(G\d+):) (.*)$", re.MULTILINE)
_ACTIONS = {"say": "ADD", "revise": "REVISE", "support": "SUPPORT", "pass": "NOOP"}
_ITEM = re.compile(r'outputs: "answer (\w+)"')
_COMMENT = re.compile(r"^expert's comment: \"(\w+): (.*?)\"$", re.MULTILINE)


class World:
    """The model. What is in `down` (names of schemas, or words of a prompt) gets no answer."""

    def __init__(self, verdict: Verdict = lambda _rules, _item: True) -> None:
        self.verdict = verdict
        self.down: set[str] = set()

    def __call__(self, request: ChatRequest) -> ScriptedAnswer:
        for name in self.down:
            if name == request.schema_name or name in request.user:
                return ModelUnavailable("down: HTTP 503")
        match request.schema_name:
            case "judgment":
                value = self.verdict(rules_in(request), _ITEM.findall(request.user)[-1])
                findings = []
                for name, _ in _RULE.findall(request.system):
                    if name:
                        findings.append(
                            {"guideline": name, "evidence": "", "value": value}
                        )
                return {"findings": findings, "rationale": "so it is", "value": value}
            case "merged":
                return {"guidelines": []}
            case _:
                return {"changes": list(_changes(request.user))}


def _changes(user: str) -> Iterable[dict[str, Any]]:
    old, _, new = user.rpartition("New feedback:")
    known = re.findall(r"^(G\d+): ", old, re.MULTILINE)
    for label, _, comment in RECORD.findall(new):
        words = _COMMENT.search(comment)
        order, text = words.groups() if words else ("pass", "")
        action = _ACTIONS[order]
        target = known[-1] if known and action in ("REVISE", "SUPPORT") else ""
        yield change(action, label, text=text, guideline=target)


def rules_in(request: ChatRequest) -> frozenset[str]:
    """The guidelines that a judge's prompt shows."""
    shown = _RULE.findall(f"{request.system}\n{request.user}")
    return frozenset(text for _, text in shown)


def said(
    case: int | str,
    rule: str | None,
    *,
    by: str = "ana",
    value: bool | None = False,
    order: str = "say",
) -> RawRow:
    """One row: an expert says the rule that is to be learned from the case, or gives a
    label alone."""
    row = {
        "id": f"t-{case}",
        "source": by,
        "inputs": f"question {case}",
        "outputs": f"answer {case}",
        "value": value,
        "rationale": rule and f"{order}: {rule}",
    }
    return given_in(row)


def labelled(cases: Iterable[int | str], value: bool) -> list[RawRow]:
    """Rows of cases with a label and no words: where the judge agrees there is nothing
    to learn but the example."""
    return [said(case, None, value=value) for case in cases]


def judge_in(
    world: World, *, shard_size: int = 1, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    """An unaligned judge with that model, one piece of feedback a call."""
    return bare(world, shard_size=shard_size, **{"retrieval_k": 0, **changes})
