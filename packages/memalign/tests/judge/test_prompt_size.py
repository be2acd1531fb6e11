"""A prompt fits the model, whatever memory and item hold."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from memalign import Example, Guideline
from memalign.content.encoding import estimate_tokens
from memalign.memory import Memory
from memalign.models.base import Limits
from tests.support.keys import keys
from tests.support.scripted import case, scripted

ONES = [1.0] * 8
TEXTS = {
    "plain": "The customer wrote that the parcel came late and the cup was broken. ",
    "escaped": 'She said "no\\yes"\tand\n"maybe" <<<\n',
    "Thai": "ลูกค้าเขียนว่าพัสดุมาช้า ",
}


@cache
def crowded(text: str, *, identical: str) -> tuple[Memory, Example]:
    """A long item, long cases, many guidelines; "identical": memory has this very item."""
    item = Example(id="item", inputs=text * 2_000, outputs=text * 2_000)
    long = text * 300
    cases = []
    for n in range(40):
        past: dict[str, Any] = {"inputs": f"{n} {long}", "outputs": long}
        cases.append(case(f"t-{n:02}", rationale=long, vector=ONES, **past))
    if identical == "identical":
        # Without a label, which would answer alone.
        same = case("t-99", None, rationale=long * 10, vector=ONES, **item.content)
        cases.append(same)
    guidelines = []
    for n in range(1, 400):
        rule = f"Rule {n}: " + "an answer is kind " * 12
        said = keys(f"t-{n:02}@ana")
        guidelines.append(Guideline(id=f"G{n}", text=rule, supported_by=said))
    memory = Memory(
        cases=tuple(cases),
        guidelines=tuple(guidelines),
        next_guideline=400,
        embedding_model="hash:8",
    )
    return memory, item


@pytest.mark.parametrize("identical", ["new", "identical"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("context", [4_096, 131_072])
async def test_the_parts_of_a_full_prompt_fit_the_context(
    context: int, writes: bool, text: str, identical: str
) -> None:
    memory, item = crowded(TEXTS[text], identical=identical)
    limits = Limits(context_tokens=context, writes=writes)
    answer = {
        "findings": [{"guideline": "G1", "evidence": "", "value": True}],
        "rationale": "r",
        "value": True,
    }
    task = "Good? {{ inputs }} {{ outputs }}"
    judge, model = scripted(
        answer, limits=limits, instructions=task, memory=memory, retrieval_k=20
    )
    made = await judge.ajudge(item)
    (request,) = model.requests
    tokens = estimate_tokens(request.system) + estimate_tokens(request.user)
    assert tokens + request.max_tokens <= context
    notes = "\n".join(made.notes)
    assert "was left out because similar cases" in notes
    assert made.guideline_ids
    # What people said of this very item is shown.
    assert ("t-99" in made.example_ids) == (identical == "identical")
    if identical == "identical":
        assert "the comment truncated from" in notes
