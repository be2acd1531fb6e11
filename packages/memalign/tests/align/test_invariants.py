"""What holds of every alignment, however badly the model behaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Judge
from memalign.align import lock
from memalign.errors import ModelRejected
from memalign.judge import signature_of
from memalign.models.base import ChatRequest
from memalign.testing import ScriptedAnswer
from tests.support.invariants import (
    check_whole,
    no_verdict_outlives_its_source,
    what_was_taken_back_is_nowhere,
)
from tests.support.learning import (
    FAULTS,
    SETTINGS,
    TAKEN,
    Imp,
    bare,
    batches,
    divide,
    in_state,
    key_of,
    learn,
    own_words,
    prompts_of,
    row,
    states,
    taught,
    text_of,
    without,
    words_in,
)
from tests.support.lists import texts
from tests.support.rows import RawRow

MODELS = [
    (20, False, bool),
    (3, False, str),
    (1, False, bool),
    (50, False, bool),
    (1, True, bool),
]
"""How many records a call of distillation holds, whether the model is a weak one, and
what the verdict is."""
KINDS = ("judgment", "changes")
WAYS: list[dict[str, Any]] = [
    {"shard_size": size, "weak": weak} for size, weak in SETTINGS
]
ways = st.sampled_from(WAYS)
some = settings(max_examples=20)


choices = st.lists(st.booleans(), min_size=15, max_size=15)


def labelled_in_words(rows: list[RawRow]) -> list[RawRow]:
    found = []
    for n, each in enumerate(rows):
        label = {"value": f"label{n}"} if "value" in each else {}
        found.append(each | label)
    return found


def taught_twice(
    judge: Judge, first: list[RawRow], later: list[RawRow], *, revised: bool
) -> tuple[Judge, list[RawRow]]:
    """A judge that learned in two steps, and the feedback that stands then.

    The second batch says one of the earlier rows anew, and comes with the verdicts of
    the judge before it.
    """
    aligned = judge.align(first).judge
    items = {}
    for each in later:
        content = {"inputs": each["inputs"], "outputs": each["outputs"]}
        items[each["id"]] = Example(id=each["id"], **content)
    verdicts = dict(zip(items, aligned.judge_many(list(items.values())), strict=True))
    standing = first + later
    if first and revised:
        changed = first[0] | {"rationale": "word99990 do:add"}
        standing = [changed, *first[1:], *later]
        later = [changed, *later]
    return aligned.align(later, own_verdicts=verdicts).judge, standing


def withdrawn(judge: Judge, keys: set[str]) -> Judge:
    """The judge without this feedback; its memory is whole and says what was withdrawn."""
    result = judge.unalign(*keys)
    check_whole(result.judge.memory)
    no_verdict_outlives_its_source(result.judge.memory)
    assert in_state(result.judge, "withdrawn") == keys == {*map(str, result.removed)}
    return result.judge


class TestLearning:
    @some
    @given(batches(orders=TAKEN), ways)
    def test_aligning_twice_is_aligning_once_and_asks_nothing(self, rows, way):
        judge, model = bare(**way)
        once = learn(judge, rows)
        assert once.changed
        assert not once.pending
        asked = len(model.requests)
        twice = learn(once.judge, rows)
        assert twice.judge == once.judge
        assert not twice.changed
        for report in twice.rows:
            assert report.status == "unchanged"
        assert len(model.requests) == asked

    @some
    @given(
        batches(faults=True),
        ways,
        st.randoms(use_true_random=False),
        st.permutations([0.0, 0.002, 0.004, 0.006]),
    )
    def test_neither_row_order_nor_which_call_finishes_first_matters(
        self, rows, way, shuffler, delays
    ):
        expected = taught(rows, **way).memory
        slow, _ = bare(Imp(delays=dict(enumerate(delays))), **way)
        mixed = learn(slow, shuffler.sample(rows, len(rows))).judge.memory
        single, _ = bare(concurrency=1, **way)
        for memory in (mixed, learn(single, rows).judge.memory):
            assert memory == expected
            assert text_of(memory) == text_of(expected)


class TestForgetting:
    @settings(max_examples=60, deadline=None)
    @given(
        batches(faults=True),
        choices,
        choices,
        st.sampled_from(MODELS),
        st.sampled_from([None, *FAULTS]),
        st.booleans(),
    )
    def test_withdrawn_or_changed_feedback_leaves_no_word_and_no_key(
        self, rows, early, chosen, way, fault, revised: bool
    ):
        imp = Imp()
        size, weak, value_type = way
        judge, chat = bare(
            imp, shard_size=size, weak=weak, feedback_value_type=value_type
        )
        if value_type is str:  # a judge of free text answers in words, and they leak
            rows = labelled_in_words(rows)
        first, later = divide(rows, early)
        second, standing = taught_twice(judge, first, later, revised=revised)
        changed = own_words(first, standing)
        assert changed.isdisjoint(words_in(text_of(second.memory)))

        gone, others = divide(standing, chosen)
        if not gone:
            return
        secret = own_words(gone, others)
        imp.storm = {} if fault is None else dict.fromkeys(KINDS, FAULTS[fault])
        requests = len(chat.requests)
        left = withdrawn(second, {*map(key_of, gone)})
        imp.healed = True
        imp.storm = {}
        final = left.align([]).judge
        final(inputs="question about it", outputs="another answer, to judge")
        for remembered in (left.memory, final.memory):
            what_was_taken_back_is_nowhere(remembered)
            said = text_of(remembered, tombstones=False)
            assert secret.isdisjoint(words_in(said))
        assert secret.isdisjoint(words_in(prompts_of(chat, requests)))

    @some
    @given(batches(), ways)
    def test_forgetting_all_feedback_leaves_the_unaligned_judge(self, rows, way):
        judge, model = bare(**way)
        empty = learn(judge, rows).judge.unalign(*map(key_of, rows)).judge
        assert not empty.memory
        assert not empty.memory.conflicts
        assert empty.fingerprint == judge.fingerprint
        assert signature_of(empty) == signature_of(judge)
        judge(inputs="q", outputs="a")
        empty(inputs="q", outputs="a")
        assert model.requests[-1] == model.requests[-2]

    def test_a_disputed_annotation_forgets_what_overrode_it(self):
        judge, _ = bare(feedback_value_type=str)
        rows = [
            row(1, "ana", "add", value="label1", created_at="2026-01-01"),
            row(1, "ben", "add", value="label2", created_at="2026-01-02"),
            row(1, "cleo", "add", value="label3", created_at="2026-01-03"),
        ]
        left = learn(judge, rows).judge.unalign("t-1@cleo").judge
        assert states(left) == {
            "t-1@ana": "disputed",
            "t-1@ben": "learned",
            "t-1@cleo": "withdrawn",
        }
        assert "label3" not in text_of(left.memory)


class TestPrompts:
    @some
    @given(batches(orders=("add",)), ways)
    def test_a_longer_version_begins_as_the_one_before(self, rows, way):
        judge, model = bare(**way)
        first = learn(judge, [row(90, "dora", "add", value=True)]).judge
        second = learn(first, rows).judge
        first(inputs="q", outputs="a")
        second(inputs="q", outputs="a")
        assert len(second.memory.semantic) >= len(first.memory.semantic) == 1
        before = model.requests[-2].system
        assert model.requests[-1].system.startswith(before)
        assert before.endswith(first.memory.semantic[0].text)


@pytest.mark.parametrize("size", [1, 3, 20])
def test_the_scripted_model_really_leaks_what_it_sees(size):
    """Or the search above would prove nothing."""
    rows = [
        row(1, "ana", "add", value=False),
        row(2, "ben", "add", value=True),
        row(3, "cleo", None, value=True),
    ]
    memory = taught(rows, shard_size=size).memory
    written = " ".join(texts(memory.guidelines))
    assert {"case1", "case2"} <= {*words_in(written)}
    assert "word" in written


@pytest.mark.parametrize("step", ["distil", "unalign", "lock"])
def test_an_error_that_quotes_the_prompt_keeps_no_withdrawn_word(step):
    class Server(Imp):
        """Some servers send back what they refuse."""

        quoting = step == "distil"

        async def __call__(self, request: ChatRequest) -> ScriptedAnswer:
            asked = "judgment" if step == "lock" else "changes"
            if self.quoting and request.schema_name == asked:
                return ModelRejected(f"blocked: {request.system} {request.user}")
            return await super().__call__(request)

    rows = [row(n, who, "add", value=True) for n, who in enumerate("abc", 1)]
    server = Server()
    judge, _ = bare(server, shard_size=3)
    gone = rows[1]
    if step == "lock":
        judge = lock(learn(judge, rows[:1]).judge, "t-1")
        server.quoting = True
        judge = learn(judge, rows[1:]).held or judge
        gone = rows[0]
    else:
        judge = learn(judge, rows).judge
    if step == "unalign":
        server.quoting = True
        judge = judge.unalign("t-1").judge
    assert in_state(judge, "pending"), "or the test is about nothing"
    left = without(judge.memory, gone["id"])
    assert own_words([gone]).isdisjoint(words_in(text_of(left)))
