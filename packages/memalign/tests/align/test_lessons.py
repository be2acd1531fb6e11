"""What becomes of a lesson: several people, duplicates, revisions, and what a person
writes by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import CodeTest, Judge, MemAlign, aio
from memalign.align import edit_guideline, set_policy, write_guideline
from memalign.errors import InputError, InvalidRows, ModelUnavailable, UnknownKey
from memalign.models.base import ChatRequest, Limits
from memalign.testing import HashEmbedding, ScriptedAnswer, ScriptedChatModel
from tests.support.invariants import check_memory
from tests.support.keys import keys
from tests.support.learning import (
    LEFT,
    ORDERS,
    REFUSED,
    TAKEN,
    Imp,
    bare,
    key_of,
    learn,
    own_words,
    reason,
    row,
    states,
    taught,
    words_in,
)
from tests.support.lists import ids, kinds, rules, table
from tests.support.rows import RawRow
from tests.support.scripted import Teacher, change

RULE = "Be kind to whoever has waited."


def add(text: str) -> dict[str, Any]:
    return change("ADD", "F1", text=text)


LEARNED = [add(RULE)]


def stepwise(*changes: list[dict[str, Any]], rows: list[RawRow]) -> Judge:
    """A judge that learned `rows` one by one, in as many calls as there are changes."""
    judge = bare(Teacher(*changes), shard_size=10)[0]
    for one in rows:
        judge = learn(judge, [one]).judge
    return judge


def added(*orders: str) -> list[RawRow]:
    """Rows of Ana's, one of each order, on the cases 1, 2 and so on."""
    return [row(n, "ana", order) for n, order in enumerate(orders, 1)]


def in_force(judge: Judge, *names: str) -> list[tuple[Any, ...]]:
    """What the guidelines in force have under these names."""
    return table(judge.memory.semantic, *names)


ENDS = {
    **dict.fromkeys(TAKEN, "learned"),
    **dict.fromkeys(LEFT, "pending"),
    **dict.fromkeys(REFUSED, "rejected"),
}
"""The state of feedback by its order."""


class TestWhatIsSaid:
    @pytest.mark.parametrize("value", [True, False])
    def test_a_label_alone_is_a_record_of_the_one_call(self, value):
        alone = row(2, "ana", None, value=value)
        missed = stepwise(LEARNED, rows=[alone])
        assert rules(missed) == [RULE]
        answer = [*LEARNED, change("NOOP", "F2")]
        judge, model = bare(Teacher(answer))
        judge = learn(judge, [row(1, "ana", "add"), alone]).judge
        assert states(judge) == {"t-1@ana": "learned", "t-2@ana": "learned"}
        assert "as an example: the model drew no rule" in reason(judge, "t-2@ana")
        assert kinds(model) == ["changes"], "and needs no verdict of the judge"
        assert f"expert: {str(value).lower()}" in model.requests[0].user

    @pytest.mark.parametrize("weak", [True, False])
    def test_a_label_alone_is_an_example_where_a_call_holds_one_record(self, weak):
        judge, model = bare(shard_size=1, weak=weak)
        judge = learn(judge, [row(1, "ana", None, value=True)]).judge
        assert states(judge) == {"t-1@ana": "learned"}
        assert "as an example: there were no words" in reason(judge, "t-1@ana")
        assert not model.requests

    def test_a_model_that_thinks_first_gets_the_room_that_the_judge_gives_it(
        self,
    ):
        """As the message about a cut answer advises."""
        judge, model = bare(parameters={"max_tokens": 4_000})
        learn(judge, added("add"))
        assert model.requests[-1].max_tokens == 4_000

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_models_answer_decides_about_the_lesson(self, order):
        judge, model = bare(shard_size=3)
        judge = learn(judge, added(order)).judge
        assert states(judge)["t-1@ana"] == ENDS[order]
        wrote = order in TAKEN and order not in ("noop", "junk")
        assert bool(rules(judge)) == wrote
        assert order in TAKEN or reason(judge, "t-1@ana")
        if order in REFUSED:
            assert "its rule was refused: it" in reason(judge, "t-1@ana")
            assert not learn(judge).changed
            assert len(model.requests) == 1, "nobody is asked again"
        judgment = judge(**_content(row(1, "ana", order)))
        assert judgment.example_ids == ("t-1",), "its example is of use all the same"

    def test_a_new_comment_replaces_the_old_lesson(self):
        (first,) = added("add")
        second = first | {"rationale": "word555 do:add"}
        result = learn(taught([first]), [second])
        assert result.rows[0].status == "changed"
        assert ids(result.forgotten) == ["G1"]
        assert ids(result.guidelines) == ["G2"], "numbers are never used again"
        assert len(result.judge.memory) == 1

    def test_feedback_on_a_known_case_needs_no_content(self):
        judge = taught(added("add"))
        said = {"id": "t-1", "source": "ben", "rationale": "word777 do:add"}
        later = learn(judge, [said]).judge
        assert states(later) == {"t-1@ana": "learned", "t-1@ben": "learned"}
        with pytest.raises(InvalidRows, match="no content"):
            learn(judge, [said | {"id": "t-9"}])


class TestSeveralPeople:
    rows = [
        row(1, "ana", None, value=True),
        row(1, "ben", None, value=True),
        row(1, "cleo", None, value=False),
    ]

    def test_the_majority_decides_and_others_are_disputed(self):
        result = learn(bare()[0], self.rows)
        # Both were missed for the same reason: two rules of the same text, one behind the other.
        assert states(result.judge) == {
            "t-1@ana": "learned",
            "t-1@ben": "merged",
            "t-1@cleo": "disputed",
        }
        (conflict,) = result.conflicts
        assert conflict.ids == ("t-1",)
        assert conflict.label is True
        labels = {str(key): value for key, value in conflict.annotations.items()}
        assert labels == {"t-1@ana": True, "t-1@ben": True, "t-1@cleo": False}

    def test_a_comment_without_a_label_is_never_disputed(self):
        judge = taught([row(1, "dora", "add"), *self.rows])
        assert states(judge)["t-1@dora"] in ("learned", "merged")

    def test_a_bare_name_as_authority_is_refused(self):
        message = r"list of sources.*\('ana',\)"
        with pytest.raises(InputError, match=message):
            MemAlign(authority="ana")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=message):
            set_policy(bare()[0], authority="ana")
        listed: Any = ["ana", "ana"]
        assert MemAlign(authority=listed).authority == ("ana",)

    def test_authority_outweighs_a_majority(self):
        result = learn(bare()[0], self.rows, authority=("cleo",))
        assert states(result.judge) == {
            "t-1@ana": "disputed",
            "t-1@ben": "disputed",
            "t-1@cleo": "learned",
        }
        # And an authority named later settles the case anew.
        anew = learn(result.judge, authority=("ben",))
        assert states(anew.judge)["t-1@cleo"] == "disputed"
        assert anew.changed
        assert anew.judge.memory.authority == ("ben",)

    def test_identical_content_under_two_ids_is_one_case(self):
        first = row(1, "ana", None, value=True, created_at="2026-01-01")
        second = row(1, "ben", None, value=False, created_at="2026-02-01")
        result = learn(bare()[0], [first, second | {"id": "t-2"}])
        assert states(result.judge) == {"t-1@ana": "disputed", "t-2@ben": "learned"}
        assert result.conflicts[0].ids == ("t-1", "t-2")
        judgment = result.judge(**_content(first))
        assert judgment.value is False
        assert judgment.decided_by == "expert"
        assert judgment.example_ids == ("t-1", "t-2")


class TestSupportAndRevise:
    rows = [row(1, "ana", "add"), row(2, "ben", "add")]

    def test_a_supporter_takes_over_when_the_original_goes(self):
        judge = stepwise(
            LEARNED,
            [change("SUPPORT", "F1", guideline="G1")],
            [change("ADD", "F1", text="Be kind to ben.")],
            rows=self.rows,
        )
        assert states(judge) == {"t-1@ana": "learned", "t-2@ben": "merged"}
        assert judge.memory.semantic[0].supported_by == keys("t-1@ana", "t-2@ben")
        forgot = judge.unalign("t-1").judge
        bens = ("Be kind to ben.", keys("t-2@ben"))
        assert in_force(forgot, "text", "supported_by") == [bens]
        other = judge.unalign("t-2").judge
        assert in_force(other, "id", "supported_by") == [("G1", keys("t-1@ana"))]

    def test_only_one_of_two_revisions_is_taken(self):
        revisions = [
            change("REVISE", "F1", text="Be kind twice.", guideline="G1"),
            change("REVISE", "F2", text="Be kind thrice.", guideline="G1"),
        ]
        judge = stepwise(LEARNED, revisions, rows=[row(1, "ana", "add")])
        judge = learn(judge, [row(2, "ben", "add"), row(3, "cleo", "add")]).judge
        assert rules(judge) == ["Be kind twice."]
        assert states(judge)["t-3@cleo"] == "pending"
        assert "no longer stands" in reason(judge, "t-3@cleo")

    @pytest.mark.parametrize("size", [1, 10])
    @pytest.mark.parametrize(
        "orders",
        [
            ("support", "revise"),
            ("revise", "support"),
            ("support", "revise", "support"),
        ],
    )
    def test_support_for_a_guideline_that_is_revised_meanwhile_counts(
        self, orders, size
    ):
        judge = bare(Imp(healed=True), shard_size=size)[0]
        judge = learn(judge, [row(1, "ana", "add")]).judge
        rows = [row(n, "ben", order) for n, order in enumerate(orders, 2)]
        result = learn(judge, rows)
        assert not result.pending
        (revision,) = result.judge.memory.semantic
        assert revision.supported_by == keys("t-1@ana", *map(key_of, rows))
        check_memory(result.judge)
        # Without the revision, the older guideline is in force again, with its supporters.
        revising = rows.pop(orders.index("revise"))
        alone = learn(judge, rows).judge
        left = result.judge.unalign(revising["id"]).judge
        kept = in_force(left, "text", "supported_by")
        assert kept == in_force(alone, "text", "supported_by")


class TestByHand:
    def aligned(self, *orders: str) -> Judge:
        return taught(added(*orders), shard_size=1)

    @pytest.mark.parametrize(
        ("action", "changes", "news", "waits"),
        [
            ("REVISE", {"text": "Be kind; Dora insists."}, [], True),
            ("SUPPORT", {"text": "Be kind; Dora insists."}, [], False),
            # Of what it was not shown the model writes something new.
            ("REVISE", {"retired": True}, ["Forget kindness."], False),
            ("SUPPORT", {"retired": True}, [], True),
        ],
    )
    def test_learning_never_overwrites_a_persons_word(
        self, action, changes, news, waits
    ):
        judge = stepwise(
            LEARNED,
            [change(action, "F1", text="Forget kindness.", guideline="G1")],
            rows=[row(1, "ana", "add")],
        )
        edited = edit_guideline(judge, "G1", by="dora", **changes)
        before = rules(edited)
        later = learn(edited, [row(2, "ben", "add")]).judge
        assert rules(later) == before + news
        assert (states(later)["t-2@ben"] == "pending") == waits
        assert judge.memory.guideline("G1").text == RULE

    def test_a_confirmed_wording_stays_without_the_models_tests(self):
        judge = self.aligned("add")
        rule = judge.memory.guideline("G1")
        tests = (CodeTest(kind="word", text="kind"),)
        tested = msgspec.structs.replace(rule, tests=tests, pinned_by="dora")
        judge = judge.replace(memory=judge.memory.with_guidelines([tested]))
        forgot = judge.unalign("t-1").judge
        kept = table(forgot.memory.guidelines, "pinned_by", "tests")
        assert kept == [("dora", ())]

    @pytest.mark.parametrize(
        ("keep", "kept"),
        [
            # G2 is the model's, which nobody keeps.
            (["G1", "G2"], [("Ana's words.", ())]),
            # An id that stands alone is one, and not its letters.
            ("G1", [("Ana's words.", ())]),
            ("G12", []),
        ],
    )
    def test_a_person_may_keep_their_wording_without_the_words_behind_it(
        self, keep, kept
    ):
        judge = self.aligned("add", "add")
        judge = edit_guideline(judge, "G1", text="Ana's words.", by="ana")
        forgetting = MemAlign().unalign(judge, source="ana", keep=keep)
        forgot = aio.run(forgetting).judge
        assert table(forgot.memory.guidelines, "text", "exposed_to") == kept

    def test_an_unnamed_author_or_unknown_guideline_is_refused(self):
        judge = self.aligned("add")
        for by in ("", " ", "distilled"):
            with pytest.raises(InputError, match="who"):
                write_guideline(judge, "Be kind.", by=by)
        with pytest.raises(UnknownKey, match="no guideline 'G7'; guidelines: G1"):
            edit_guideline(judge, "G7", pinned=True, by="dora")
        with pytest.raises(InputError, match="nothing to change"):
            edit_guideline(judge, "G1", by="dora")


@pytest.mark.parametrize(
    ("selectors", "source", "words"),
    [
        (["t-9"], None, "no feedback 't-9"),
        (["t-9@ana"], None, "no feedback 't-9@ana"),
        (["ana"], None, "no feedback 'ana"),
        (["t-1@"], None, "no feedback 't-1@"),
        (["t-1"], "ben", "no feedback 't-1' of source 'ben'"),
        ([], "ben", "no feedback of source 'ben'"),
        ([], None, "name feedback by id"),
    ],
)
def test_an_unknown_key_is_named_with_a_remedy(selectors, source, words):
    judge = taught(added("add"))
    with pytest.raises(UnknownKey, match=words):
        judge.unalign(*selectors, source=source)


class TestModels:
    def test_reflection_model_distils_and_judge_model_judges(self):
        judge, own = bare()
        strong = ScriptedChatModel(Imp(), name="strong", limits=Limits(shard_size=20))
        rows = [row(1, "ana", "add"), row(5, "ana", None, value=True)]
        learn(judge, rows, reflection_model=strong)
        assert kinds(strong) == ["changes"]
        assert own.requests == []

    def test_another_embedding_model_only_embeds_anew(self):
        judge, model = bare()
        aligned = learn(judge, added("add", "add", "add")).judge
        asked = len(model.requests)
        other = HashEmbedding(dim=8)
        moved = learn(aligned, embedding_model=other)
        assert moved.changed
        assert len(other.texts) == 3
        assert moved.judge.memory.matrix.shape == (3, 8)
        assert len(model.requests) == asked

    def test_vectors_of_two_models_are_never_compared(self):
        class Namesake(HashEmbedding):
            name = "other:16"

        rows = added("add", "add")
        aligned = taught(rows)
        other = aligned.replace(embedding_model=Namesake(dim=16))
        judgment = other(**_content(rows[0]))
        assert judgment.example_ids == ("t-1",), "an identical case needs no vector"
        assert "vectors of hash:16, not of other:16" in str(judgment.notes)


def _content(one: RawRow) -> dict[str, Any]:
    return {"inputs": one["inputs"], "outputs": one["outputs"]}


ANOTHER_PROCESS = """
from tests.support.learning import row, taught, text_of
rows = []
for number, order in enumerate(("add", "same", "revise", "same", "copy")):
    rows += [row(number, "ana", order), row(number, "ben", order)]
print(text_of(taught(rows, shard_size=3).memory))
"""


def test_another_process_learns_the_same():
    """Sets of text are ordered differently in every process; nothing may depend on it."""
    learned = []
    for seed in "12":
        variables = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", ANOTHER_PROCESS]
        root = Path(__file__).parents[2]
        learned.append(subprocess.check_output(command, cwd=root, env=variables))
    assert learned[0] == learned[1]
    assert len(learned[0]) > 1000


class Down(HashEmbedding):
    name = "other:16"

    async def embed(self, texts: Any) -> Any:
        raise ModelUnavailable("other:16: HTTP 503")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"embedding_model": Down()}, "HTTP 503"),
        ({"model": "openai:gpt-4.1-mini"}, "OPENAI_API_KEY"),
    ],
)
def test_forgetting_needs_no_model_and_no_key(changes, why):
    rows = added("add", "add", "add")
    judge = taught(rows, shard_size=3).replace(**changes)
    result = judge.unalign("t-2")
    left = result.judge
    assert states(left) == {
        "t-1@ana": "pending",
        "t-2@ana": "withdrawn",
        "t-3@ana": "pending",
    }
    for _, said in result.pending:
        assert why in said
    gone = own_words(rows[1:2], [rows[0], rows[2]])
    assert gone.isdisjoint(words_in(str(left.memory)))
    check_memory(left)


@pytest.mark.parametrize(
    ("changes", "rows", "exposures"),
    [
        ({"embedding_model": Down()}, 70, 0),
        ({"embedding_model": Down()}, 12, 11 * 11),
        ({"model": "openai:gpt-4.1-mini"}, 70, 0),
    ],
)
def test_what_waits_after_forgetting_without_a_model_keeps_few_keys(
    changes, rows, exposures
):
    judge = taught(added(*["add"] * rows), shard_size=rows)
    result = judge.replace(**changes).unalign("t-1")
    waiting = result.judge.memory.pending
    assert len(waiting) == rows - 1
    seen = 0
    for annotation in waiting:
        assert annotation.outcome is not None
        seen += len(annotation.outcome.exposed_to)
    assert seen == exposures
    assert "what other feedback lost waits" in "\n".join(result.notes)


# -- rules that may not enter a prompt, and several rules in one comment ---------------

COPY = "The answer to case1 is a long text of more than eight words."
COPIED = "it copies eight words of what was judged (outputs)"


@pytest.mark.parametrize("weak", [False, True])
def test_a_sentence_that_the_expert_demands_is_learned(weak):
    demanded = "Past results do not tell future results of any fund."

    def teacher(request: ChatRequest) -> ScriptedAnswer:
        return {"changes": [add(f"A reply ends with the sentence: {demanded}")]}

    said = row(1, "ana", "add", value=True) | {
        "outputs": f"Buy it now. {demanded}",
        "rationale": f"Right, it ends with what law demands: {demanded}",
    }
    learned = taught([said], teacher, weak=weak)
    assert states(learned) == {"t-1@ana": "learned"}
    (guideline,) = learned.memory.semantic
    assert demanded[:-1].casefold() in guideline.text.casefold()


@pytest.mark.parametrize(
    ("changes", "learned", "why"),
    [
        ([add(RULE), add("Name the day.")], [RULE, "Name the day."], ""),
        (
            [add(RULE), add(COPY)],
            [RULE],
            f"learned without one more rule from it: {COPIED}",
        ),
        ([add(RULE), change("NOOP", "F1")], [RULE], ""),
        ([change("NOOP", "F1"), add(RULE)], [RULE], ""),
    ],
)
def test_every_rule_of_one_comment_counts(changes, learned, why):
    judge, model = bare(Teacher(changes))
    judge = learn(judge, added("add")).judge
    assert rules(judge) == learned
    assert states(judge) == {"t-1@ana": "learned"}
    assert reason(judge, "t-1@ana") == why
    assert len(model.requests) == 1
    check_memory(judge)
    assert not judge.unalign("t-1").judge.memory.guidelines


def test_a_comment_that_supports_and_adds_goes_whole():
    judge = stepwise(
        LEARNED,
        [change("SUPPORT", "F1", guideline="G1"), add("Name the day.")],
        [add("Both.")],
        rows=[row(1, "ana", "add"), row(2, "ben", "add")],
    )
    assert rules(judge) == [RULE, "Name the day."]
    check_memory(judge)
    left = judge.unalign("t-1").judge
    assert rules(left) == ["Both."], "all ben said is asked for again"
