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
    without,
    words_in,
)
from tests.support.rows import RawRow
from tests.support.scripted import Teacher, change

RULE = "Be kind to whoever has waited."


def taught(*changes: list[dict[str, Any]], rows: list[RawRow]) -> Judge:
    """A judge that learned `rows` one by one, in as many calls as there are changes."""
    judge = bare(Teacher(*changes), shard_size=10)[0]
    for one in rows:
        judge = learn(judge, [one]).judge
    return judge


class TestWhatIsSaid:
    @pytest.mark.parametrize("value", [True, False])
    def test_a_label_alone_is_a_record_of_the_one_call(self, value: bool) -> None:
        missed = taught(
            [change("ADD", "F1", text=RULE)], rows=[row(1, "ana", None, value=value)]
        )
        assert [guideline.text for guideline in missed.memory.semantic] == [RULE]
        judge, model = bare(
            Teacher([change("ADD", "F1", text=RULE), change("NOOP", "F2")])
        )
        result = learn(judge, [row(1, "ana", "add"), row(2, "ana", None, value=value)])
        assert states(result.judge) == {"t-1@ana": "learned", "t-2@ana": "learned"}
        assert "kept as an example: the model drew no rule" in reason(
            result.judge, "t-2@ana"
        )
        assert [asked.schema_name for asked in model.requests] == ["changes"], (
            "and needs no verdict of the judge"
        )
        assert f"expert: {str(value).lower()}" in model.requests[0].user

    @pytest.mark.parametrize("weak", [True, False])
    def test_a_label_alone_is_an_example_where_a_call_holds_one_record(
        self, weak: bool
    ) -> None:
        judge, model = bare(shard_size=1, weak=weak)
        result = learn(judge, [row(1, "ana", None, value=True)])
        assert states(result.judge) == {"t-1@ana": "learned"}
        assert "kept as an example: there were no words" in reason(
            result.judge, "t-1@ana"
        )
        assert not model.requests

    def test_a_model_that_thinks_first_gets_the_room_that_the_judge_gives_it(
        self,
    ) -> None:
        judge, model = bare(parameters={"max_tokens": 4_000})
        learn(judge, [row(1, "ana", "add")])
        assert model.requests[-1].max_tokens == 4_000, (
            "as the message about a cut answer advises"
        )

    @pytest.mark.parametrize("order", ORDERS)
    def test_the_models_answer_decides_about_the_lesson(self, order: str) -> None:
        judge, model = bare(shard_size=3)
        judge = learn(judge, [row(1, "ana", order)]).judge
        expected = (
            "pending"
            if order in LEFT
            else "rejected"
            if order in REFUSED
            else "learned"
        )
        assert states(judge)["t-1@ana"] == expected
        assert bool(judge.memory.semantic) == (
            order in TAKEN and order not in ("noop", "junk")
        )
        assert order in TAKEN or reason(judge, "t-1@ana")
        if order in REFUSED:
            assert "its rule was refused: it" in reason(judge, "t-1@ana")
            assert (learn(judge).changed, len(model.requests)) == (False, 1), (
                "nobody is asked again"
            )
        assert judge(**_content(row(1, "ana", order))).example_ids == ("t-1",), (
            "its example is of use all the same"
        )

    def test_a_new_comment_replaces_the_old_lesson(self) -> None:
        first = row(1, "ana", "add")
        second = row(1, "ana", "add") | {"rationale": "word555 do:add"}
        judge, _ = bare()
        result = learn(learn(judge, [first]).judge, [second])
        assert [report.status for report in result.rows] == ["changed"]
        assert [guideline.id for guideline in result.forgotten] == ["G1"]
        assert [guideline.id for guideline in result.guidelines] == ["G2"], (
            "numbers are never used again"
        )
        assert len(result.judge.memory) == 1

    def test_feedback_on_a_known_case_needs_no_content(self) -> None:
        judge = learn(bare()[0], [row(1, "ana", "add")]).judge
        result = learn(
            judge, [{"id": "t-1", "source": "ben", "rationale": "word777 do:add"}]
        )
        assert states(result.judge) == {"t-1@ana": "learned", "t-1@ben": "learned"}
        with pytest.raises(InvalidRows, match="no content"):
            learn(judge, [{"id": "t-9", "source": "ben", "rationale": "x"}])


class TestSeveralPeople:
    rows = [
        row(1, source, None, value=source != "cleo")
        for source in ("ana", "ben", "cleo")
    ]

    def test_the_majority_decides_and_others_are_disputed(self) -> None:
        commented = learn(bare()[0], [row(1, "dora", "add"), *self.rows]).judge
        assert states(commented)["t-1@dora"] in ("learned", "merged"), (
            "a comment without a label is never disputed"
        )
        result = learn(bare()[0], self.rows)
        # Both were missed for the same reason: two rules of the same text, one behind the other.
        assert states(result.judge) == {
            "t-1@ana": "learned",
            "t-1@ben": "merged",
            "t-1@cleo": "disputed",
        }
        (conflict,) = result.conflicts
        assert (conflict.ids, conflict.label) == (("t-1",), True)
        labels = {str(key): value for key, value in conflict.annotations.items()}
        assert labels == {"t-1@ana": True, "t-1@ben": True, "t-1@cleo": False}

    def test_a_bare_name_as_authority_is_refused(self) -> None:
        judge, _ = bare()
        for refused in (
            lambda: MemAlign(authority="ana"),  # type: ignore[arg-type]
            lambda: set_policy(judge, authority="ana"),
        ):
            with pytest.raises(InputError, match=r"list of sources.*\('ana',\)"):
                refused()
        assert MemAlign(authority=["ana", "ana"]).authority == ("ana",)  # type: ignore[arg-type]  # a list will do

    def test_authority_outweighs_a_majority(self) -> None:
        result = learn(bare()[0], self.rows, authority=("cleo",))
        assert states(result.judge) == {
            "t-1@ana": "disputed",
            "t-1@ben": "disputed",
            "t-1@cleo": "learned",
        }
        # And an authority named later settles the case anew.
        anew = learn(result.judge, authority=("ben",))
        assert states(anew.judge)["t-1@cleo"] == "disputed"
        assert (anew.changed, anew.judge.memory.authority) == (True, ("ben",))

    def test_identical_content_under_two_ids_is_one_case(self) -> None:
        first = row(1, "ana", None, value=True, created_at="2026-01-01")
        duplicate = row(1, "ben", None, value=False, created_at="2026-02-01") | {
            "id": "t-2"
        }
        judge, _ = bare()
        result = learn(judge, [first, duplicate])
        assert states(result.judge) == {"t-1@ana": "disputed", "t-2@ben": "learned"}
        assert result.conflicts[0].ids == ("t-1", "t-2")
        judgment = result.judge(inputs=first["inputs"], outputs=first["outputs"])
        assert (judgment.value, judgment.decided_by, judgment.example_ids) == (
            False,
            "expert",
            ("t-1", "t-2"),
        )


class TestSupportAndRevise:
    rows = [row(1, "ana", "add"), row(2, "ben", "add")]

    def test_a_supporter_takes_over_when_the_original_goes(self) -> None:
        judge = taught(
            [change("ADD", "F1", text=RULE)],
            [change("SUPPORT", "F1", guideline="G1")],
            [change("ADD", "F1", text="Be kind to ben.")],
            rows=self.rows,
        )
        assert states(judge) == {"t-1@ana": "learned", "t-2@ben": "merged"}
        assert judge.memory.semantic[0].supported_by == keys("t-1@ana", "t-2@ben")
        forgot = judge.unalign("t-1").judge
        assert [(g.text, g.supported_by) for g in forgot.memory.semantic] == [
            ("Be kind to ben.", keys("t-2@ben"))
        ]
        other = judge.unalign("t-2").judge
        assert [(g.id, g.supported_by) for g in other.memory.semantic] == [
            ("G1", keys("t-1@ana"))
        ]

    def test_a_withdrawn_revision_restores_the_older_text(self) -> None:
        judge = taught(
            [change("ADD", "F1", text=RULE)],
            [
                change(
                    "REVISE", "F1", text="Be kind, unless they shout.", guideline="G1"
                )
            ],
            rows=self.rows,
        )
        assert [(g.id, g.supported_by) for g in judge.memory.semantic] == [
            ("G2", keys("t-1@ana", "t-2@ben"))
        ]
        assert judge.memory.status(judge.memory.guideline("G1")) == "superseded"
        forgot = judge.unalign("t-2").judge
        assert [(g.id, g.text) for g in forgot.memory.semantic] == [("G1", RULE)]
        assert without(judge.memory, "t-2").semantic == forgot.memory.semantic

    def test_only_one_of_two_revisions_is_taken(self) -> None:
        judge = bare(
            Teacher(
                [change("ADD", "F1", text=RULE)],
                [
                    change("REVISE", "F1", text="Be kind twice.", guideline="G1"),
                    change("REVISE", "F2", text="Be kind thrice.", guideline="G1"),
                ],
            ),
            shard_size=10,
        )[0]
        judge = learn(judge, [row(1, "ana", "add")]).judge
        judge = learn(judge, [row(2, "ben", "add"), row(3, "cleo", "add")]).judge
        assert [g.text for g in judge.memory.semantic] == ["Be kind twice."]
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
        self, orders: tuple[str, ...], size: int
    ) -> None:
        judge = bare(Imp(healed=True), shard_size=size)[0]
        judge = learn(judge, [row(1, "ana", "add")]).judge
        rows = [row(n, "ben", order) for n, order in enumerate(orders, 2)]
        result = learn(judge, rows)
        assert not result.pending
        (revision,) = result.judge.memory.semantic
        assert revision.supported_by == keys("t-1@ana", *map(key_of, rows))
        check_memory(result.judge)
        # Without the revision, the older guideline is in force again, with its supporters.
        others = [
            one for one, order in zip(rows, orders, strict=True) if order == "support"
        ]
        alone = learn(judge, others).judge.memory
        left = result.judge.unalign(f"t-{orders.index('revise') + 2}").judge.memory
        said = [(each.text, each.supported_by) for each in left.semantic]
        assert said == [(each.text, each.supported_by) for each in alone.semantic]


class TestByHand:
    def aligned(self, *orders: str, size: int = 1) -> Judge:
        rows = [row(n, "ana", order) for n, order in enumerate(orders, 1)]
        return learn(bare(shard_size=size)[0], rows).judge

    @pytest.mark.parametrize("action", ["REVISE", "SUPPORT"])
    @pytest.mark.parametrize(
        "changes", [{"text": "Be kind; Dora insists."}, {"retired": True}]
    )
    def test_learning_never_overwrites_a_persons_word(
        self, action: str, changes: dict[str, Any]
    ) -> None:
        judge = taught(
            [change("ADD", "F1", text=RULE)],
            [change(action, "F1", text="Forget kindness.", guideline="G1")],
            rows=[row(1, "ana", "add")],
        )
        edited = edit_guideline(judge, "G1", by="dora", **changes)
        later = learn(edited, [row(2, "ben", "add")]).judge
        unseen = (
            "retired" in changes and action == "REVISE"
        )  # of what it was not shown the model writes something new
        news = ["Forget kindness."] if unseen else []
        assert [g.text for g in later.memory.semantic] == [
            *(g.text for g in edited.memory.semantic),
            *news,
        ]
        if not unseen and (action == "REVISE" or "retired" in changes):
            assert states(later)["t-2@ben"] == "pending"
        assert judge.memory.guideline("G1").text == RULE

    def test_a_confirmed_wording_stays_without_the_models_tests(self) -> None:
        judge = self.aligned("add")
        rule = judge.memory.guideline("G1")
        tested = msgspec.structs.replace(
            rule, tests=(CodeTest(kind="word", text="kind"),), pinned_by="dora"
        )
        memory = judge.memory.with_guidelines([tested])
        (guideline,) = (
            judge.replace(memory=memory).unalign("t-1").judge.memory.guidelines
        )
        assert (guideline.pinned_by, guideline.tests) == ("dora", ())

    def test_a_person_may_keep_their_wording_without_the_words_behind_it(self) -> None:
        judge = edit_guideline(
            self.aligned("add", "add"), "G1", text="Ana's words.", by="ana"
        )
        forgot = aio.run(
            MemAlign().unalign(judge, source="ana", keep=["G1", "G2"])
        ).judge
        (guideline,) = forgot.memory.guidelines
        assert (guideline.text, guideline.exposed_to) == ("Ana's words.", ()), (
            "G2 is the model's, which nobody keeps"
        )
        for keep, stay in {
            "G1": 1,
            "G12": 0,
        }.items():  # an id that stands alone is one, and not its letters
            assert (
                len(
                    aio.run(
                        MemAlign().unalign(judge, source="ana", keep=keep)
                    ).judge.memory.guidelines
                )
                == stay
            )

    def test_an_unnamed_author_or_unknown_guideline_is_refused(self) -> None:
        judge = self.aligned("add")
        for by in ("", " ", "distilled"):
            with pytest.raises(InputError, match="who"):
                write_guideline(judge, "Be kind.", by=by)
        with pytest.raises(UnknownKey, match="no guideline 'G7'; guidelines: G1"):
            edit_guideline(judge, "G7", pinned=True, by="dora")
        with pytest.raises(InputError, match="nothing to change"):
            edit_guideline(judge, "G1", by="dora")


class TestWhatGoesWrong:
    @pytest.mark.parametrize(
        ("selectors", "source", "words"),
        [
            *(
                ((selector,), None, f"no feedback '{selector}")
                for selector in ("t-9", "t-9@ana", "ana", "t-1@")
            ),
            (("t-1",), "ben", "no feedback 't-1' of source 'ben'"),
            *(
                ((), "ben", "no feedback of source 'ben'"),
                ((), None, "name feedback by id"),
            ),
        ],
    )
    def test_an_unknown_key_is_named_with_a_remedy(
        self, selectors: Any, source: str | None, words: str
    ) -> None:
        with pytest.raises(UnknownKey, match=words):
            learn(bare()[0], [row(1, "ana", "add")]).judge.unalign(
                *selectors, source=source
            )


class TestModels:
    def test_reflection_model_distils_and_judge_model_judges(self) -> None:
        judge, own = bare()
        strong = ScriptedChatModel(Imp(), name="strong", limits=Limits(shard_size=20))
        learn(
            judge,
            [row(1, "ana", "add"), row(5, "ana", None, value=True)],
            reflection_model=strong,
        )
        assert ([asked.schema_name for asked in strong.requests], own.requests) == (
            ["changes"],
            [],
        )

    def test_another_embedding_model_only_embeds_anew(self) -> None:
        judge, model = bare()
        aligned = learn(judge, [row(n, "ana", "add") for n in range(3)]).judge
        asked = len(model.requests)
        other = HashEmbedding(dim=8)
        moved = learn(aligned, embedding_model=other)
        assert moved.changed
        assert len(other.texts) == 3
        assert moved.judge.memory.matrix.shape == (3, 8)
        assert len(model.requests) == asked

    def test_vectors_of_two_models_are_never_compared(self) -> None:
        class Namesake(HashEmbedding):
            name = "other:16"

        judge, _ = bare()
        aligned = learn(judge, [row(1, "ana", "add"), row(2, "ana", "add")]).judge
        judgment = aligned.replace(embedding_model=Namesake(dim=16))(
            **_content(row(1, "ana", "add"))
        )
        assert judgment.example_ids == ("t-1",), "an identical case needs no vector"
        assert "vectors of hash:16, not of other:16" in str(judgment.notes)


def _content(one: RawRow) -> dict[str, Any]:
    return {name: one[name] for name in ("inputs", "outputs")}


def test_another_process_learns_the_same() -> None:
    # Sets of text are ordered differently in every process; nothing may depend on it.
    script = (
        "from tests.support.learning import bare, learn, row, text_of\n"
        "rows = [row(n, s, o) for n, o in enumerate(('add', 'same', 'revise', 'same', 'copy')) for s in ('ana', 'ben')]\n"
        "print(text_of(learn(bare(shard_size=3)[0], rows).judge.memory))"
    )
    command = [sys.executable, "-c", script]
    root = Path(__file__).parents[2]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "12"]
    first, second = (
        subprocess.check_output(command, cwd=root, env=variables)
        for variables in environments
    )
    assert first == second
    assert len(first) > 1000


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
def test_forgetting_needs_no_model_and_no_key(
    changes: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rows = [row(n, "ana", "add") for n in range(3)]
    result = learn(bare(shard_size=3)[0], rows).judge.replace(**changes).unalign("t-1")
    assert states(result.judge) == {
        "t-0@ana": "pending",
        "t-1@ana": "withdrawn",
        "t-2@ana": "pending",
    }
    assert not any(
        ("t-1", "ana") in guideline.exposed_to
        for guideline in result.judge.memory.guidelines
    )
    assert all(why in reason for _, reason in result.pending)
    assert not own_words(rows[1:2], [rows[0], rows[2]]) & set(
        words_in(str(result.judge.memory))
    )


@pytest.mark.parametrize(
    ("changes", "rows", "exposures"),
    [
        ({"embedding_model": Down()}, 70, 0),
        ({"embedding_model": Down()}, 12, 11 * 11),
        ({"model": "openai:gpt-4.1-mini"}, 70, 0),
    ],
)
def test_what_waits_after_forgetting_without_a_model_keeps_few_keys(
    changes: dict[str, Any], rows: int, exposures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    taught = [row(n, "ana", "add") for n in range(rows)]
    judge = learn(bare(shard_size=rows)[0], taught).judge.replace(**changes)
    result = judge.unalign("t-1")
    waiting = result.judge.memory.pending
    assert len(waiting) == rows - 1
    outcomes = [each.outcome for each in waiting if each.outcome is not None]
    assert len(outcomes) == len(waiting)
    assert sum(len(outcome.exposed_to) for outcome in outcomes) == exposures
    assert any("what other feedback lost waits" in note for note in result.notes)


# -- rules that may not enter a prompt, and several rules in one comment ---------------

COPY = "The answer to case1 is a long text of more than eight words."
COPIED = "it copies eight words of what was judged (outputs)"


def add(text: str) -> dict[str, Any]:
    return change("ADD", "F1", text=text)


@pytest.mark.parametrize("weak", [False, True])
def test_a_sentence_that_the_expert_demands_is_learned(weak: bool) -> None:
    demanded = "Past results do not tell future results of any fund."
    rule = f"A reply ends with the sentence: {demanded}"

    def teacher(request: ChatRequest) -> ScriptedAnswer:
        return {"changes": [add(rule)]}

    judge, _ = bare(teacher, weak=weak)
    said = {
        "value": True,
        "rationale": f"Right, it ends with what law demands: {demanded}",
    }
    learned = learn(
        judge, [row(1, "ana", "add") | {"outputs": f"Buy it now. {demanded}"} | said]
    )
    assert states(learned.judge) == {"t-1@ana": "learned"}
    (guideline,) = learned.judge.memory.semantic
    assert demanded[:-1].casefold() in guideline.text.casefold()


@pytest.mark.parametrize(
    ("changes", "texts", "why"),
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
def test_every_rule_of_one_comment_counts(
    changes: list[Any], texts: list[str], why: str
) -> None:
    judge, model = bare(Teacher(changes))
    learned = learn(judge, [row(1, "ana", "add")]).judge
    assert [g.text for g in learned.memory.semantic] == texts
    assert (states(learned), reason(learned, "t-1@ana")) == (
        {"t-1@ana": "learned"},
        why,
    )
    assert len(model.requests) == 1
    check_memory(learned)
    assert not learned.unalign("t-1").judge.memory.guidelines


def test_a_comment_that_supports_and_adds_goes_whole() -> None:
    second = [change("SUPPORT", "F1", guideline="G1"), add("Name the day.")]
    judge = taught(
        [add(RULE)],
        second,
        [add("Both.")],
        rows=[row(1, "ana", "add"), row(2, "ben", "add")],
    )
    assert [g.text for g in judge.memory.semantic] == [RULE, "Name the day."]
    check_memory(judge)
    left = judge.unalign("t-1").judge
    assert [g.text for g in left.memory.semantic] == ["Both."], (
        "all that ben said is asked for again"
    )
