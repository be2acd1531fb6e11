"""Feedback on long cases, and a model of little context: every prompt fits, and the expert's words are in it."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from memalign.content.encoding import encode, estimate_tokens
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedChatModel
from tests.support.learning import bare, learn
from tests.support.scripted import by_kind, change, records_in

RULE_FOR_EACH = by_kind(
    rule={"when": "", "because": "it is cold"},
    changes=lambda request: {"changes": [change("ADD", name, text=f"Mind {name}.") for name in records_in(request)]},
)


def long_row(number: int, length: int, words: int) -> dict[str, Any]:
    comment = f"comment {number}: " + "so " * words
    return {"id": f"t-{number}", "inputs": "q" * length, "outputs": "ä" * length, "rationale": comment + "end"}


def taught(context: int, length: int, count: int, words: int, *, brief: bool = False) -> tuple[Any, list[ChatRequest]]:
    limits = Limits(context_tokens=context, shard_size=1 if brief else 20, brief=brief)
    model = ScriptedChatModel(RULE_FOR_EACH, limits=limits)
    judge, _ = bare(model=model)
    first = learn(judge, [long_row(n, length, words) for n in range(count)]).judge
    # And again in the same shards, beside what they have taught.
    rows = [long_row(n, length, words) for n in range(count, count + 3)]
    return learn(first, rows), list(model.requests)


def tokens(request: ChatRequest) -> int:
    return estimate_tokens(request.system) + estimate_tokens(request.user) + request.max_tokens


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    context=st.sampled_from([2_000, 3_000, 4_096, 8_192, 32_768, 200_000]),
    length=st.sampled_from([0, 50, 1_000, 30_000]),
    count=st.integers(1, 20),
    words=st.sampled_from([0, 20, 400, 3_000]),
    brief=st.booleans(),
)
def test_a_full_prompt_still_holds_the_experts_words(
    context: int, length: int, count: int, words: int, brief: bool
) -> None:
    result, requests = taught(context, length, count, words, brief=brief)
    assert not result.pending
    asked = [request for request in requests if request.schema_name in ("changes", "rule")]
    assert all(tokens(request) <= context for request in asked)
    shown = "".join(request.user for request in asked)
    for number in range(count + 3):
        comment = encode(long_row(number, length, words)["rationale"])
        fits = (
            max(map(estimate_tokens, (request.system for request in asked))) + estimate_tokens(comment) + 900 <= context
        )
        assert comment in shown or not fits
        assert f"comment {number}: " in shown or context < 2_500
