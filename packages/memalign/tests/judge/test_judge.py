"""A judge: what it is made of, what it asks, and what it says when things go wrong."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Le

from memalign import Example, Judge
from memalign.errors import (
    InputError,
    InvalidInstructions,
    InvalidOutput,
)
from memalign.memory import Memory
from memalign.models.base import Limits
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import CONTENT_FIELDS, Guideline
from tests.support.learning import INSTRUCTIONS, bare, learn, row
from tests.support.scripted import scripted

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def judge(answer: Any = None, **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    return scripted(
        answer, **{"name": "helpfulness", "instructions": INSTRUCTIONS} | changes
    )


def knowing(text: str) -> Memory:
    return Memory(guidelines=(Guideline(id="G1", text=text),))


class TestValueTypes:
    @pytest.mark.parametrize(
        ("annotation", "raw"),
        [
            (bool, "maybe"),
            ("A|B", "C"),
            ("int:1..5", 6),
            ("float:0..1", "x"),
            (str, ""),
            (bool, None),
        ],
    )
    def test_an_answer_outside_the_type_is_not_repeated(
        self, annotation: object, raw: object
    ) -> None:
        one, _ = judge({"rationale": "r", "value": raw}, feedback_value_type=annotation)
        reason = "outside the value type; allowed: "
        with pytest.raises(InvalidOutput, match=reason) as caught:
            one(inputs="q", outputs="a")
        assert caught.value.usage is not None
        assert caught.value.usage.calls == 1


PARTS: dict[str, Any] = {"inputs": {"question": "x"}, "outputs": [{"text": "x"}]}
BAD_NAMES = (
    "..",
    " a",
    "a/b",
    "a\\b",
    "a\nb",
    "a" * 101,
    "a\udcff",
    "a\rb",
    "a\0",
    "\x1b[J",
)
EXAMPLE = Example(id="t", inputs="q", outputs="a")
UNNAMED = r"by name, judge\(inputs=…\), or an Example, not a"


class TestInstructions:
    @pytest.mark.parametrize(
        ("instructions", "fields"),
        [
            ("{{ outputs }}", ("outputs",)),
            ("{{outputs}} {{inputs}}", ("inputs", "outputs")),
            ("{{ trace }} { % raw % } { # note # }", ("trace",)),
            ("{{ inputs.question }} and {{ outputs[0].text }}", ("inputs", "outputs")),
            ('Answer like {"a": {"b": 1}} about {{ outputs }}', ("outputs",)),
            (
                " ".join(f"{{{{ {name} }}}}" for name in reversed(CONTENT_FIELDS)),
                CONTENT_FIELDS,
            ),
        ],
    )
    def test_fields_are_read_and_the_text_is_unchanged(
        self, instructions: str, fields: tuple[str, ...]
    ) -> None:
        one, model = judge(instructions=instructions)
        assert one.fields == fields
        assert one.instructions == instructions
        one(**dict.fromkeys(CONTENT_FIELDS, "x") | PARTS)
        assert instructions in model.requests[0].system

    @pytest.mark.parametrize(
        ("instructions", "why"),
        [
            ("Is it good?", "name no field"),
            ("", "name no field"),
            ("Is { outputs } good?", "name no field"),
            ("Is {{ outputs good?", "name no field"),
            ("Is {{ output }} good?", "{{ output }}, which is not a field"),
            (
                "{{ outputs }} of {{ question.inputs }}",
                "{{ question.inputs }}, which is not a field",
            ),
            ("{{ outputs | upper }}", "and a part of one, such as"),
            ("{{}} {{ outputs }}", "which is not a field"),
            ("{{ meta }}", "{{ meta }}, which is not a field"),
            ("{{ outputs }} \ud83d", "surrogate"),
            (None, "must be a text"),
        ],
    )
    def test_instructions_without_known_fields_are_refused(
        self, instructions: Any, why: str
    ) -> None:
        with pytest.raises(InvalidInstructions) as caught:
            judge(instructions=instructions)
        assert why in str(caught.value)

    @pytest.mark.parametrize("name", [*BAD_NAMES, 5, ""])
    def test_a_name_is_one_short_line(self, name: Any) -> None:
        with pytest.raises(InputError, match="name"):
            judge(name=name)


class TestOneItem:
    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"inputs": "q"}, "name {{ outputs }}, and the item has none"),
            ({"inputs": "q", "outputs": None}, "name {{ outputs }}"),
            ({}, "no content"),
            ({"inputs": "q", "outputs": float("nan")}, "name {{ outputs }}"),
            ({"inputs": "q", "outputs": object()}, "not a JSON value"),
            ({"inputs": "q", "outputs": ENDLESS}, "nested more than 200 levels deep"),
        ],
    )
    def test_an_item_that_cannot_be_judged_costs_nothing(
        self, fields: dict[str, Any], why: str
    ) -> None:
        one, model = judge()
        with pytest.raises(InputError) as caught:
            one(**fields)
        assert why in str(caught.value)
        assert not model.requests

    @pytest.mark.parametrize(
        ("args", "fields", "error", "why"),
        [
            ([], {"foo": 1}, TypeError, "unexpected keyword argument 'foo'"),
            ([EXAMPLE], {"outputs": "b"}, InputError, "not both"),
            ([{"inputs": "a", "outputs": "b"}], {}, InputError, UNNAMED),
            (["a text"], {}, InputError, UNNAMED),
            ([7], {}, InputError, UNNAMED),
        ],
    )
    def test_an_example_or_fields_but_not_both(
        self, args: Any, fields: dict[str, Any], error: type[Exception], why: str
    ) -> None:
        one, _ = judge()
        assert one(EXAMPLE).value is True
        with pytest.raises(error, match=why):
            one(*args, **fields)

    def test_a_judgment_says_what_it_was_made_with(self) -> None:
        embedding = HashEmbedding(dim=16)
        rows = [row(1, "ana", "add", value=True), row(2, "ben", "add", value=True)]
        aligned = learn(bare(embedding_model=embedding)[0], rows).judge
        made = aligned(inputs="question about it", outputs="the answer")
        assert (made.guideline_ids, sorted(made.example_ids)) == ((), ["t-1", "t-2"])
        assert made.memory_hash == aligned.memory.hash
        assert (made.model, made.error) == ("scripted", None)
        assert (made.usage.calls, set(made.usage.seconds)) == (1, {"model"})
        embedding.texts.clear()
        assert aligned.replace(retrieval_k=0)(inputs="q", outputs="a").example_ids == ()
        assert not embedding.texts, "without examples to show nothing is embedded"


class TestReplace:
    def test_a_changed_judge_keeps_memory_and_is_another(self) -> None:
        rows = [row(1, "ana", "add"), row(2, "ana", "add")]
        aligned = learn(bare(weak=True)[0], rows).judge
        for changes in (
            {"instructions": "Good? {{ outputs }}"},
            {"model": "openai:other"},
            {"parameters": {"seed": 1}},
            {"embedding_model": HashEmbedding(dim=24)},
        ):
            changed = aligned.replace(**changes)
            assert changed.memory is aligned.memory
            assert changed.fingerprint != aligned.fingerprint
        assert aligned.replace(name="other").fingerprint == aligned.fingerprint
        unaligned = aligned.replace(memory=Memory())
        other = unaligned.replace(embedding_model=HashEmbedding(dim=24))
        assert other.fingerprint == unaligned.fingerprint, "it embeds what it remembers"

    def test_a_judge_cannot_be_changed_in_place(self) -> None:
        mine = {"temperature": 0.5, "max_tokens": 77, "seed": 3, "timeout": 9}
        one, model = judge(parameters=mine)
        mine["temperature"] = 2
        with pytest.raises(TypeError):
            one.parameters["seed"] = 1  # type: ignore[index]  # what must not work
        with pytest.raises(AttributeError):
            one.instructions = "Other {{ outputs }}"  # type: ignore[misc]
        with pytest.raises(TypeError):
            one.replace(colour="red")
        one(inputs="q", outputs="a")
        asked = model.requests[0]
        assert (asked.temperature, asked.max_tokens) == (0.5, 77)
        assert (asked.seed, asked.timeout) == (3, 9)

    def test_equal_judges_have_equal_hashes(self) -> None:
        one, _ = judge(
            feedback_value_type="int:1..5",
            parameters={"temperature": 0},
            memory=knowing("Be kind."),
        )
        same = one.replace(
            feedback_value_type=Annotated[int, Ge(1), Le(5)],
            parameters={"temperature": 0.0},
        )
        assert (one, hash(one)) == (same, hash(same))
        for changes in (
            {"memory": knowing("Be brief.")},
            {"parameters": {"temperature": 1}},
            {"name": "other"},
        ):
            assert one != one.replace(**changes)

    def test_a_judge_can_be_pickled_and_copied(self) -> None:
        settings = {
            "model": "openai:m",
            "embedding_model": None,
            "parameters": {"seed": 7},
            "memory": knowing("Be kind."),
        }
        one, _ = judge(feedback_value_type=Annotated[int, Ge(1), Le(5)], **settings)
        for made in (
            pickle.loads(pickle.dumps(one)),
            copy.copy(one),
            copy.deepcopy(one),
            one.replace(),
        ):
            assert (made, hash(made)) == (one, hash(one))
            assert made.fingerprint == one.fingerprint
            with pytest.raises(TypeError):
                made.parameters["seed"] = 1  # type: ignore[index]  # as above


def test_a_huge_field_is_cut_with_a_note() -> None:
    one, model = judge(limits=Limits(context_tokens=8000))
    long = "début " + "<|>\n" * 1_250_000 + " fin"
    (note,) = one(inputs="short question", outputs=long).notes
    asked = model.requests[-1]
    assert len((asked.system + asked.user).encode()) / 3 < 8000
    for part in ("short question", "début", " fin", "characters left out"):
        assert part in asked.user
    assert note.startswith("outputs truncated from 5,000,010 to ")
    made = one(inputs="q" * 3000, outputs="a" * 3000)
    assert not made.notes, "what fits is not touched"


SETTINGS = """
    name instructions feedback_value_type model embedding_model retrieval_k parameters
    columns memory
"""
NAMES = """
    ajudge judge_many ajudge_many predict_batch apredict_batch align aalign unalign
    aunalign replace prompt aprompt without_case value_type fields model_name fingerprint
"""


def test_a_judge_has_seventeen_names_beside_its_settings() -> None:
    settings = [setting.name for setting in dataclasses.fields(Judge)]
    assert settings == SETTINGS.split()
    public = {name for name in dir(Judge) if not name.startswith("_")}
    assert public.difference(settings) == set(NAMES.split())
