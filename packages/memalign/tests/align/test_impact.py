"""The impact of an align: taught cases judged again, before and after, only where it is
asked for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memalign import MemAlign
from memalign.align import AlignResult
from memalign.errors import InputError, ModelUnavailable
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedChatModel
from tests.support.lists import kinds, table
from tests.support.rows import RawRow
from tests.support.scripted import by_kind, change, records_in, scripted

RULE = "Without a day a reply is bad."


def judged(request: ChatRequest) -> Any:
    """Passes everything, but with the rule in view what names no day; it then names the rule."""
    item = request.user.rpartition("outputs:")[2]
    if "down" in item:
        return ModelUnavailable("down")
    value = RULE not in request.system or " May" in item
    known = re.findall(r"^(G\d+):", request.system, re.MULTILINE)
    findings = [{"guideline": name, "evidence": "", "value": value} for name in known]
    return {"findings": findings, "rationale": "r", "value": value}


def distilled(request: ChatRequest) -> Any:
    return {"changes": [change("ADD", *records_in(request), text=RULE)]}


def row(number: int, outputs: str, *, value: bool, words: str | None = None) -> RawRow:
    said = {"value": value, "rationale": words, "source": "ana"}
    return {"id": f"t-{number}", "outputs": outputs} | said


ROWS = [
    row(1, "On 3 May.", value=True, words="Names the day."),
    row(2, "Soon.", value=False, words="Which day?"),
    row(3, "Very soon.", value=False, words="Which day?"),
    row(4, "We do not deliver there.", value=True, words="Clear."),
]


def learn(rows: list[RawRow], **knobs: Any) -> tuple[AlignResult, ScriptedChatModel]:
    judge, model = scripted(by_kind(judgment=judged, changes=distilled), retrieval_k=0)
    return judge.align(rows, optimizer=MemAlign(**knobs)), model


@pytest.mark.parametrize(("count", "checked"), [(None, 0), (2, 2), (10, 4)])
def test_as_many_taught_cases_are_judged_as_asked_for(count, checked):
    result, model = learn(ROWS, impact=count)
    assert (result.impact.checked if result.impact else 0) == checked
    assert kinds(model).count("judgment") == 2 * checked


def test_as_many_as_none_are_refused():
    with pytest.raises(InputError, match="impact"):
        MemAlign(impact=0)


def test_it_says_what_was_fixed_and_broken_and_by_which_guideline():
    result, _ = learn(ROWS, impact=10)
    found = result.impact
    assert found is not None
    assert found.checked == 4
    assert found.fixed == 2
    assert found.broken == 1
    changes = table(found.changes, "id", "effect", "before", "after", "guideline_ids")
    assert sorted(changes) == [
        ("t-2", "fixed", True, False, ("G1",)),
        ("t-3", "fixed", True, False, ("G1",)),
        ("t-4", "broken", True, False, ("G1",)),
    ]
    assert "impact" in result.usage.seconds


def test_the_case_is_hidden_from_both():
    copy = row(5, "On 3 May.", value=True)
    _, model = learn([*ROWS, copy], impact=10, retrieval_k=5)
    assert kinds(model).count("judgment") == 8, "the copy is judged with its case"
    shown = 0
    for request in model.requests:
        if request.schema_name == "judgment":
            before, _, item = request.user.rpartition("outputs:")
            assert item not in before, "as a case, or a copy of it"
            shown += "Expert:" in request.user
    assert shown == 4, "after learning, other cases are shown"


def test_a_judgment_that_fails_is_named_and_the_others_count():
    result, _ = learn([*ROWS, row(5, "It is down.", value=False)], impact=10)
    assert result.impact is not None
    assert result.impact.checked == 4
    assert "judgments for the impact failed" in "\n".join(result.notes)
