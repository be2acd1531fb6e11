"""A prompt fits the model, whatever memory and item hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memalign import Example, Guideline, Judge
from memalign.content.encoding import estimate_tokens
from memalign.memory import Annotation, Case, Memory
from memalign.models.base import Limits
from memalign.testing import HashEmbedding, ScriptedChatModel
from tests.support.keys import keys

EMBEDDING = HashEmbedding(dim=8)
TEXTS = {
    "plain": "The customer wrote that the parcel came late and the cup was broken. ",
    "escaped": 'She said "no\\yes"\tand\n"maybe" <<<\n',
    "Thai": "ลูกค้าเขียนว่าพัสดุมาช้า ",
}


def crowded(text: str, *, identical: str) -> tuple[Memory, Example]:
    """Many long guidelines, long cases with long comments, and a long item whose very content is in memory too."""
    item = Example(id="item", inputs=text * 2_000, outputs=text * 2_000)
    cases = [
        Case(
            example=Example(id=f"t-{n:02}", inputs=f"{n} {text * 300}", outputs=text * 300),
            annotations=(Annotation(id=f"t-{n:02}", source="ana", value=True, rationale=text * 300),),
            vector=np.ones(8, dtype=np.float32).tobytes(),
        )
        for n in range(40)
    ]
    said = Annotation(id="t-99", source="ana", rationale=text * 3_000)  # no label: it would answer alone
    same = Case(
        example=Example(id="t-99", inputs=item.inputs, outputs=item.outputs),
        annotations=(said,),
        vector=np.ones(8, dtype=np.float32).tobytes(),
    )
    guidelines = tuple(
        Guideline(id=f"G{n}", text=f"Rule {n}: " + "an answer is kind " * 12, supported_by=keys(f"t-{n:02}@ana"))
        for n in range(1, 400)
    )
    memory = Memory(
        cases=(*cases, same) if identical == "identical" else tuple(cases),
        guidelines=guidelines,
        next_guideline=400,
        embedding_model=EMBEDDING.name,
    )
    return memory, item


@pytest.mark.parametrize("identical", ["new", "identical"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("context", [4_096, 8_192, 16_384, 32_768, 131_072])
async def test_the_parts_of_a_full_prompt_fit_the_context(context: int, brief: bool, text: str, identical: str) -> None:
    memory, item = crowded(TEXTS[text], identical=identical)
    limits = Limits(context_tokens=context, brief=brief)
    settings: dict[str, Any] = {"embedding_model": EMBEDDING, "retrieval_k": 20}
    answer = {"findings": [{"guideline": "G1", "evidence": "", "value": True}], "rationale": "r", "value": True}
    model = ScriptedChatModel(lambda _: answer, limits=limits)
    judge = Judge(
        name="j",
        instructions="Good? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model=model,
        memory=memory,
        **settings,
    )
    made = await judge.ajudge(item)
    (request,) = model.requests
    assert estimate_tokens(request.system) + estimate_tokens(request.user) + request.max_tokens <= context
    assert ("t-99" in made.example_ids) == (identical == "identical"), "what people said of this very item is shown"
    assert made.guideline_ids
