"""A judge: what it is made of, what it asks, and what it says when things go wrong."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import hashlib
import json
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le

from memalign import Example, Judge, aio
from memalign.errors import (
    ConfigurationError,
    InputError,
    InvalidInstructions,
    InvalidOutput,
    InvalidRows,
    InvalidValueType,
    ModelUnavailable,
)
from memalign.judge.prompt import prompt_of, retrieve
from memalign.judge.spec import base_fingerprint_of, without_memory
from memalign.memory import Annotation, Case, Memory, PreAlignmentVerdict
from memalign.memory.retrieval import Retrieved
from memalign.models.base import ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.models.judge_models import open_model
from memalign.models.resolve import resolve_embedding
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.types import CONTENT_FIELDS, Guideline, Usage, canonical_json
from tests.support.keys import keys
from tests.support.learning import bare, learn, row


def judge(
    answer: Answer | Callable[[ChatRequest], Any] | None = None, *, limits: Limits | None = None, **changes: Any
) -> tuple[Judge, ScriptedChatModel]:
    given_answer = answer if answer is not None else {"rationale": "It helps.", "value": True}
    script = given_answer if callable(given_answer) else (lambda _: given_answer)
    model = ScriptedChatModel(script, limits=limits)
    settings_: dict[str, Any] = {
        "name": "helpfulness",
        "instructions": "Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
        "feedback_value_type": bool,
        "model": model,
        "embedding_model": HashEmbedding(dim=8),
    }
    return Judge(**settings_ | changes), model


def texts(*names: str) -> Memory:
    return Memory(guidelines=tuple(Guideline(id=f"G{n}", text=text) for n, text in enumerate(names, 1)))


class TestValueTypes:
    @pytest.mark.parametrize(
        ("annotation", "raw", "value"),
        [
            (bool, True, True),
            (bool, "true", True),
            ("bool", False, False),
            (Literal["A", "B", "tie"], "B", "B"),
            ("A|B|tie", "TIE", "tie"),
            (Annotated[int, Ge(1), Le(5)], 4, 4),
            ("int:1..5", 4.0, 4),
            (Annotated[float, Ge(-1), Le(1)], -0.25, -0.25),
            ("float:-1..1", 1, 1.0),
            (str, "a word or two", "a word or two"),
        ],
    )
    def test_a_verdict_is_of_the_judges_type(self, annotation: object, raw: object, value: object) -> None:
        one, model = judge({"rationale": "r", "value": raw}, feedback_value_type=annotation)
        verdict = one(inputs="q", outputs="a").value
        assert verdict == value
        assert type(verdict) is type(value)
        assert list(model.requests[0].schema["properties"]) == ["rationale", "value"], "the reason comes first"

    def test_equal_judges_are_equal_in_any_type_spelling(self) -> None:
        spelled, _ = judge(feedback_value_type="int:1..5")
        annotated = spelled.replace(feedback_value_type=Annotated[int, Ge(1), Le(5)])
        assert spelled == annotated
        assert spelled.fingerprint == annotated.fingerprint

    @pytest.mark.parametrize(
        ("annotation", "raw"),
        [(bool, "maybe"), ("A|B", "C"), ("int:1..5", 6), ("float:0..1", "x"), (str, ""), (bool, None)],
    )
    def test_an_answer_outside_the_type_is_not_repeated(self, annotation: object, raw: object) -> None:
        one, _ = judge({"rationale": "r", "value": raw}, feedback_value_type=annotation)
        with pytest.raises(InvalidOutput, match="outside the value type; allowed: ") as caught:
            one(inputs="q", outputs="a")
        assert caught.value.usage is not None
        assert caught.value.usage.calls == 1

    def test_an_unknown_type_is_refused_at_once(self) -> None:
        with pytest.raises(InvalidValueType):
            judge(feedback_value_type=list)


class TestInstructions:
    @pytest.mark.parametrize(
        ("instructions", "fields"),
        [
            ("{{ outputs }}", ("outputs",)),
            ("{{outputs}} {{inputs}}", ("inputs", "outputs")),
            ("{{\noutputs\n}} and {{ outputs }}", ("outputs",)),
            ("{{ trace }} { % raw % } { # note # }", ("trace",)),
            ("{{ inputs.question }} and {{ outputs[0].text }}", ("inputs", "outputs")),
            ('Answer like {"a": {"b": 1}} about {{ outputs }}', ("outputs",)),
            ("{{ outputs }} }} { {", ("outputs",)),
            (" ".join(f"{{{{ {name} }}}}" for name in reversed(CONTENT_FIELDS)), CONTENT_FIELDS),
        ],
    )
    def test_fields_are_read_and_the_text_is_unchanged(self, instructions: str, fields: tuple[str, ...]) -> None:
        one, model = judge(instructions=instructions)
        assert one.fields == fields
        assert one.instructions == instructions
        whole: dict[str, Any] = {"inputs": {"question": "x"}, "outputs": [{"text": "x"}]}
        one(**{name: whole.get(name, "x") for name in fields})
        assert instructions in model.requests[0].system

    @pytest.mark.parametrize(
        ("instructions", "why"),
        [
            ("Is it good?", "name no field"),
            ("", "name no field"),
            ("Is { outputs } good?", "name no field"),
            ("Is {{ outputs good?", "name no field"),
            ("Is {{ output }} good?", "{{ output }}, which is not a field"),
            ("{{ outputs }} of {{ question.inputs }}", "{{ question.inputs }}, which is not a field"),
            ("{{ outputs | upper }}", "The instructions are not a template"),
            ("{{ inputs.question() }}", "such as {{ inputs.question }} or {{ outputs[0].text }}"),
            ("{{ outputs[x] }}", "which is not a field"),
            ("{{ outputs. }}", "which is not a field"),
            ("{{ Outputs }}", "which is not a field"),
            ("{{}} {{ outputs }}", "which is not a field"),
            ("{{{ outputs }}}", "which is not a field"),
            ("{{ meta }}", "{{ meta }}, which is not a field"),
            ("{{ outputs }} \ud83d", "surrogate"),
            (None, "must be a text"),
        ],
    )
    def test_instructions_without_known_fields_are_refused(self, instructions: Any, why: str) -> None:
        with pytest.raises(InvalidInstructions) as caught:
            judge(instructions=instructions)
        assert why in str(caught.value)

    @pytest.mark.parametrize("template", ["{{ 7*7 }}", "{{ ''.__class__ }}", "{% for x in y %}", "{{ inputs }}"])
    def test_no_text_of_an_item_is_ever_rendered(self, template: str) -> None:
        one, model = judge()
        one(inputs=template, outputs=template)
        assert model.requests[0].user.count(json.dumps(template)) == 2

    @pytest.mark.parametrize(
        "name", ["", " a", "a/b", "a\\b", "a\nb", "a" * 101, "a\udcff", "a\rb", "a\x00", "\x1b[2J", 5]
    )
    def test_a_name_is_one_short_line(self, name: Any) -> None:
        with pytest.raises(InputError, match="name"):
            judge(name=name)

    def test_parameters_reach_the_model_unchanged(self) -> None:
        mine = {"temperature": 0.5, "max_tokens": 77, "seed": 3, "timeout": 9}
        one, model = judge(parameters=mine)
        mine["temperature"] = 2
        one(inputs="q", outputs="a")
        asked = model.requests[0]
        assert (asked.temperature, asked.max_tokens, asked.seed, asked.timeout) == (0.5, 77, 3, 9)


class TestOneItem:
    def test_only_the_fields_that_are_named_are_shown(self) -> None:
        one, model = judge(instructions="Is {{ outputs }} good?")
        one(inputs="the question", outputs="the answer", expectations="the reference")
        assert "the answer" in model.requests[0].user
        assert "the question" not in model.requests[0].user
        assert "the reference" not in model.requests[0].user

    @pytest.mark.parametrize("value", [{"a": [1, None, "x"]}, [1, 2], 0, False, "", "text"])
    def test_a_field_holds_any_json_value(self, value: object) -> None:
        one, model = judge(instructions="{{ outputs }}")
        one(outputs=value)
        line = next(line for line in model.requests[0].user.splitlines() if line.startswith("outputs: "))
        assert json.loads(line.removeprefix("outputs: ")) == value

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({"inputs": "q"}, "name {{ outputs }}, and the item has none"),
            ({"inputs": "q", "outputs": None}, "name {{ outputs }}"),
            ({}, "no content"),
            ({"inputs": "q", "outputs": float("nan")}, "not a JSON value"),
            ({"inputs": "q", "outputs": object()}, "not a JSON value"),
        ],
    )
    def test_an_item_that_cannot_be_judged_costs_nothing(self, fields: dict[str, Any], why: str) -> None:
        one, model = judge()
        with pytest.raises(InputError) as caught:
            one(**fields)
        assert why in str(caught.value)
        assert not model.requests

    def test_an_example_or_fields_but_not_both(self) -> None:
        one, _ = judge()
        assert one(Example(id="t", inputs="q", outputs="a")).value is True
        with pytest.raises(TypeError, match=r"judge\(…\) takes an Example or the fields inputs, .* but not foo"):
            one(foo=1)  # type: ignore[call-arg]
        with pytest.raises(InputError, match="not both"):
            one(Example(id="t", inputs="q", outputs="a"), outputs="b")

    def test_a_judgment_says_what_it_was_made_with(self) -> None:
        aligned = learn(bare()[0], [row(1, "ana", "add", value=True), row(2, "ben", "add", value=True)]).judge
        judgment = aligned(inputs="question about it", outputs="the answer")
        assert judgment.guideline_ids == (), "those that the model's findings name"
        assert sorted(judgment.example_ids) == ["t-1", "t-2"]
        assert judgment.memory_hash == aligned.memory.hash
        assert judgment.model == "scripted"
        assert judgment.usage.calls == 1
        assert set(judgment.usage.seconds) == {"retrieve", "assemble", "model"}
        assert judgment.error is None

    async def test_both_calls_work_in_a_running_loop(self) -> None:
        one, _ = judge()
        assert one(inputs="q", outputs="a").value is True
        assert (await one.ajudge(inputs="q", outputs="a")).value is True
        assert [j.value for j in one.judge_many([{"id": "1", "inputs": "q", "outputs": "a"}])] == [True]

    def test_several_threads_may_use_one_judge(self) -> None:
        one = learn(bare()[0], [row(n, "ana", "add") for n in range(3)]).judge
        with ThreadPoolExecutor(8) as pool:
            judgments = list(pool.map(lambda n: one(inputs=f"q{n}", outputs="a"), range(24)))
        assert all(judgment.value is not None for judgment in judgments)

    def test_without_examples_to_show_nothing_is_embedded(self) -> None:
        embedding = HashEmbedding(dim=16)
        aligned = learn(bare(embedding_model=embedding)[0], [row(1, "ana", "add")]).judge.replace(retrieval_k=0)
        embedding.texts.clear()
        judgment = aligned(inputs="q", outputs="a")
        assert judgment.example_ids == ()
        assert not embedding.texts

    def test_an_identical_case_is_shown_whatever_its_comment(self) -> None:
        weak = Limits(context_tokens=8192, brief=True, shard_size=1, examples=3)
        for words in (
            "The reply must name the date. " * 70,
            "Ответ должен назвать дату. " * 40,
            "回答必须说明退款日期。" * 80,
        ):
            model = ScriptedChatModel(
                lambda _: {"rationale": "x", "value": True, "when": "", "because": ""}, limits=weak
            )
            judge = bare(model=model)[0]
            item = {"inputs": words[:600], "outputs": words[:600]}
            aligned = learn(judge, [{"id": "t-1", **item, "rationale": words}]).judge
            judgment = aligned(**item)
            assert judgment.example_ids == ("t-1",)
            assert any("the comment truncated from" in note for note in judgment.notes)
            near = aligned(**item | {"outputs": item["outputs"][:590]})
            assert near.example_ids == (), "comments alone say nothing of another item"

    def test_an_identical_case_is_shown_despite_its_size(self) -> None:
        words = "The reply must name the date. " * 200
        small = ScriptedChatModel(lambda _: {"rationale": "x", "value": True}, limits=Limits(context_tokens=4096))
        item = {"inputs": words, "outputs": words}
        other = {"inputs": words, "outputs": words[:5950]}
        rows: list[dict[str, Any]] = [
            {"id": "t-1", **other, "value": False, "rationale": words},
            {"id": "t-2", **item, "rationale": words},
            {"id": "t-3", "inputs": words, "outputs": f"{words[:5950]} Or not.", "value": True, "rationale": words},
        ]
        aligned = learn(bare()[0], rows).judge.replace(model=small)
        same = aligned(**item)
        assert same.example_ids == ("t-2",)
        assert any(note.startswith("case t-1 was left out because similar cases") for note in same.notes)
        near = aligned(inputs=words, outputs=words[:5900])
        assert len(near.example_ids) == 1
        assert any("was left out because similar cases" in note for note in near.notes)

    def test_the_model_decides_how_many_examples_by_default(self) -> None:
        rows = [row(n, "ana", "add", value=True) for n in range(9)]
        assert len(learn(bare()[0], rows).judge(inputs="q", outputs="a").example_ids) == 5
        weak = ScriptedChatModel(lambda _: {"rationale": "r", "value": True}, limits=Limits(examples=0))
        aligned = learn(bare()[0], rows).judge.replace(model=weak)
        assert aligned(inputs="q", outputs="a").example_ids == ()


class TestMany:
    items = [{"id": f"i-{n}", "inputs": f"q{n}", "outputs": f"a{n}"} for n in range(12)]

    @staticmethod
    def echo(request: ChatRequest) -> dict[str, Any]:
        number = int(request.user.split('outputs: "a')[1].split('"')[0])
        return {"rationale": str(number), "value": number % 2 == 0}

    @pytest.mark.parametrize("concurrency", [1, 3, 64])
    def test_judgments_keep_the_order_of_their_items(self, concurrency: int) -> None:
        running = most = 0

        async def slow(request: ChatRequest) -> dict[str, Any]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001 * (hash(request.user) % 3))
            running -= 1
            return self.echo(request)

        judgments = judge(slow)[0].judge_many(self.items, concurrency=concurrency)
        assert [judgment.rationale for judgment in judgments] == [str(n) for n in range(12)]
        assert most == min(concurrency, 12)

    def test_one_items_error_stays_in_its_judgment(self) -> None:
        def sometimes(request: ChatRequest) -> Answer:
            answer = self.echo(request)
            if answer["rationale"] == "3":
                return ModelUnavailable("down", usage=Usage(calls=2, cost=0.5))
            return {"rationale": "", "value": "?"} if answer["rationale"] == "5" else answer

        judgments = judge(sometimes)[0].judge_many([*self.items, {"id": "x", "inputs": "only a question"}])
        errors = {n: judgment.error for n, judgment in enumerate(judgments) if judgment.error}
        assert errors == {
            3: "ModelUnavailable: down",
            5: "InvalidOutput: scripted answered outside the value type; allowed: true or false",
            12: "InputError: x: the instructions name {{ outputs }}, and the item has none",
        }
        assert all((judgment.value is None) == (judgment.error is not None) for judgment in judgments)
        assert judgments[3].usage == Usage(calls=2, cost=0.5)

    def test_a_setup_error_stops_the_run_as_itself(self) -> None:
        one, model = judge(lambda _: ConfigurationError("no key: set OPENAI_API_KEY"))
        with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
            one.judge_many(self.items, concurrency=2)
        assert len(model.requests) <= 2

    def test_progress_counts_every_item(self) -> None:
        steps: list[tuple[str, int, int]] = []
        judge(self.echo)[0].judge_many(self.items, progress=lambda *step: steps.append(step))
        assert steps == [("judge", n, 12) for n in range(1, 13)]

    def test_empty_input_is_fine_and_bad_items_named(self) -> None:
        assert judge()[0].judge_many([]) == []
        with pytest.raises(InvalidRows, match="line 2"):
            judge()[0].judge_many([self.items[0], {"id": "y"}])

    def test_another_judges_file_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        out = tmp_path / "judged.jsonl"
        one, model = judge(self.echo)
        one.judge_many(self.items[:2], out=out)
        before = out.read_bytes()
        for other in (
            one.replace(parameters={"seed": 1}),
            one.replace(memory=texts("Be kind.")),
            one.replace(instructions="Good? {{ outputs }}"),
        ):
            with pytest.raises(InputError, match="name another output file"):
                other.judge_many(self.items, out=out)
        assert out.read_bytes() == before
        assert len(model.requests) == 2

    def test_a_cancelled_run_leaves_the_judge_working(self, tmp_path: Path) -> None:
        started, hanging = threading.Event(), True

        async def slow(request: ChatRequest) -> dict[str, Any]:
            if hanging and len(model.requests) > 3:
                started.set()
                await asyncio.sleep(30)
            return self.echo(request)

        one, model = judge(slow)
        out = tmp_path / "judged.jsonl"

        async def cancel() -> None:
            run = asyncio.ensure_future(one.ajudge_many(self.items, concurrency=2, out=out))
            while not started.is_set():
                await asyncio.sleep(0.001)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

        asyncio.run(cancel())
        assert 0 < len(out.read_text("utf-8").splitlines()) < 12
        hanging = False
        assert len(one.judge_many(self.items, out=out)) == 12


class TestMisuse:
    @pytest.mark.parametrize("item", [{"inputs": "a", "outputs": "b"}, "a text", 7])
    def test_an_item_that_is_no_example_is_refused(self, item: Any) -> None:
        one, model = judge()
        with pytest.raises(InputError, match=r"by name, judge\(inputs=…\), or an Example, not a"):
            one(item)
        assert model.requests == []


def similar(one: Judge, example: Example) -> tuple[Retrieved, ...]:
    return aio.run(retrieve(one, example, open_model(one).limits, Calls()))[0]


class TestRetrieve:
    def test_retrieval_gives_the_most_useful_case_first(self) -> None:
        aligned = learn(bare()[0], [row(n, "ana", "add", value=True) for n in range(1, 8)]).judge.replace(retrieval_k=3)
        example = Example(id="new", inputs="question 3", outputs="answer 3")
        found = similar(aligned, example)
        assert len(found) == 3
        assert tuple(each.case.id for each in reversed(found)) == aligned(example).example_ids

    def test_retrieval_needs_no_model_and_no_named_field(self) -> None:
        aligned = learn(bare()[0], [row(1, "ana", "add", value=True)]).judge
        model = ScriptedChatModel([])
        (found,) = similar(
            aligned.replace(model=model), Example(id="new", conversation=[{"role": "user", "content": "hi"}])
        )
        assert (found.case.id, found.identical) == ("t-1", False)
        assert model.requests == []
        assert similar(bare()[0], Example(id="new", inputs="hi")) == ()


class TestReplace:
    def test_a_changed_judge_keeps_memory_and_is_another(self) -> None:
        aligned = learn(bare(brief=True)[0], [row(1, "ana", "add"), row(2, "ana", "add")]).judge
        for changes in (
            {"instructions": "Good? {{ outputs }}"},
            {"model": "openai:other"},
            {"parameters": {"seed": 1}},
        ):
            other = aligned.replace(**changes)
            assert other.memory is aligned.memory
            assert other.fingerprint != aligned.fingerprint
        assert aligned.replace(name="other").fingerprint == aligned.fingerprint

    def test_another_embedding_model_makes_another_judge(self) -> None:
        aligned = learn(bare(brief=True)[0], [row(1, "ana", "add")]).judge
        other = aligned.replace(embedding_model=HashEmbedding(dim=24))
        assert other.fingerprint != aligned.fingerprint
        assert without_memory(other).fingerprint == without_memory(aligned).fingerprint

    @pytest.mark.parametrize("usual", ["wordllama", "local:wordllama", resolve_embedding()])
    def test_the_default_embedding_model_equals_its_name(self, usual: Any) -> None:
        memory = texts("Be kind.")
        plain = judge(memory=memory, embedding_model=None)[0]
        assert judge(memory=memory, embedding_model=usual)[0].fingerprint == plain.fingerprint
        parts: dict[str, Any] = {
            "instructions": plain.instructions,
            "value_type": "bool",
            "model": "openai:m",
            "retrieval_k": None,
            "parameters": {},
            "memory": memory.hash,
        }
        told = hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]
        assert plain.replace(model="openai:m").fingerprint == told, "the usual embedding model is no part of it"
        spelled = [plain.replace(embedding_model=f"openai{mark}e@512").fingerprint for mark in (":", "/", ":/")]
        assert len({*spelled, plain.fingerprint}) == 2

    def test_the_unaligned_judge_is_the_same_without_memory(self) -> None:
        one, _ = bare()
        aligned = learn(one, [row(1, "ana", "add")]).judge
        assert without_memory(aligned).fingerprint == one.fingerprint == base_fingerprint_of(aligned)

    def test_a_judges_parameters_cannot_be_changed_in_place(self) -> None:
        mine = {"seed": 7}
        one, _ = judge(parameters=mine)
        mine["seed"] = 8
        with pytest.raises(TypeError):
            one.parameters["seed"] = 1  # type: ignore[index]  # what must not work
        assert dict(one.parameters) == {"seed": 7}

    def test_equal_judges_have_equal_hashes(self) -> None:
        model = ScriptedChatModel([])
        one = judge(model=model, embedding_model="wordllama", parameters={"temperature": 0}, memory=texts("Be kind."))[
            0
        ]
        same = one.replace(parameters={"temperature": 0.0}, memory=texts("Be kind."))
        assert (one, hash(one)) == (same, hash(same))
        assert one != one.replace(memory=texts("Be brief."))
        assert one != one.replace(parameters={"temperature": 1})
        assert len({one, same, one.replace(name="other")}) == 2

    def test_a_judge_can_be_pickled_and_copied(self) -> None:
        one, _ = judge(
            model="openai:m",
            embedding_model=None,
            feedback_value_type=Annotated[int, Ge(1), Le(5)],
            parameters={"seed": 7},
            memory=texts("Be kind."),
        )
        for made in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one), one.replace()):
            assert (made, hash(made), made.fingerprint) == (one, hash(one), one.fingerprint)
            with pytest.raises(TypeError):
                made.parameters["seed"] = 1  # type: ignore[index]  # as above

    def test_a_judge_cannot_be_changed_in_place(self) -> None:
        one, _ = judge()
        with pytest.raises(AttributeError):
            one.instructions = "Other {{ outputs }}"  # type: ignore[misc]
        with pytest.raises(TypeError):
            one.replace(colour="red")


class TestBudget:
    def test_a_huge_field_is_cut_with_a_note(self) -> None:
        one, model = judge(limits=Limits(context_tokens=8000))
        aligned = one.align([{"id": "t", "inputs": "q", "outputs": "é" * 100_000, "value": True}]).judge
        judgment = aligned(inputs="short question", outputs="début " + "<|>\n" * 1_250_000 + " fin")
        asked = model.requests[-1]
        assert len((asked.system + asked.user).encode()) / 3 < 8000
        assert "short question" in asked.user
        assert "début" in asked.user
        assert " fin" in asked.user
        assert any(note.startswith("outputs truncated from 5,000,010 to ") for note in judgment.notes), judgment.notes
        assert "characters left out" in asked.user

    def test_what_fits_is_not_touched(self) -> None:
        one, model = judge(limits=Limits(context_tokens=8000))
        judgment = one(inputs="q" * 3000, outputs="a" * 3000)
        assert not judgment.notes
        assert "q" * 3000 in model.requests[0].user

    def test_guidelines_over_the_budget_go_unless_pinned(self) -> None:
        memory = Memory(
            guidelines=tuple(
                Guideline(
                    id=f"G{n}",
                    text=f"Rule {n} " + "word " * 40,
                    pinned_by="dora" if n == 40 else None,
                    supported_by=keys("t@a") * (n == 30),
                )
                for n in range(1, 41)
            )
        )
        one, model = judge(limits=Limits(context_tokens=4096, brief=True), memory=memory)
        judgment = one(inputs="q", outputs="a")
        assert 3 < len(judgment.guideline_ids) < 40
        assert {"G40", "G30", "G1"} <= set(judgment.guideline_ids)
        assert list(judgment.guideline_ids) == sorted(judgment.guideline_ids, key=lambda g: int(g[1:]))
        left_out = [note for note in judgment.notes if "was left out because the prompt would be too long" in note]
        assert len(left_out) == 40 - len(judgment.guideline_ids)
        assert "Rule 40 " in model.requests[0].system

    def test_who_asks_first_decides_no_prompt(self) -> None:
        """Two judges over one memory: each sends what it would send alone."""
        first = judge(limits=Limits(context_tokens=4096))[0]
        second = first.replace(parameters={"temperature": 0.3})
        rules = tuple(
            Guideline(id=f"G{n}", text=f"Rule {n} " + "word " * 40, supported_by=keys(f"t-{n}@a")) for n in range(1, 41)
        )
        cases = tuple(
            Case(
                example=Example(id=f"t-{n}", inputs="q", outputs=f"answer {n}"),
                annotations=(Annotation(id=f"t-{n}", source="a", value=True),),
                pre_alignment=PreAlignmentVerdict(value=n < 30, judge=base_fingerprint_of(first)),
            )
            for n in range(10, 41)
        )

        def systems(*judges: Judge) -> list[str]:
            memory = Memory(cases=cases, guidelines=rules)
            return [
                aio.run(
                    prompt_of(
                        each.replace(memory=memory),
                        Example(id="i", inputs="q", outputs="a"),
                        open_model(first),
                        Calls(),
                    )
                ).request.system
                for each in judges
            ]

        assert systems(first, second) == systems(second, first)[::-1]
        assert systems(first, second) == systems(first) + systems(second)

    def test_a_weak_model_gets_few_and_short_examples(self) -> None:
        one, model = judge(limits=Limits(context_tokens=4096, brief=True))
        rows = [
            {"id": f"t-{n}", "inputs": "q", "outputs": f"{n} " + "long " * 400, "value": True} for n in range(7)
        ]  # too few for a trial
        aligned = one.align(rows).judge
        judgment = aligned(inputs="q", outputs="long answer")
        assert 0 < len(judgment.example_ids) < 5
        assert len(model.requests[-1].user) < 600 * 4
        assert any("only 600 tokens" in note for note in judgment.notes)


class TestSurface:
    def test_a_judge_has_fifteen_names_beside_its_settings(self) -> None:
        settings = {setting.name for setting in dataclasses.fields(Judge)}
        assert settings == {
            *("name", "instructions", "feedback_value_type", "model", "check_model", "embedding_model"),
            *("retrieval_k", "parameters", "columns", "memory"),
        }
        assert {name for name in dir(Judge) if not name.startswith("_")} - settings == {
            *("ajudge", "judge_many", "ajudge_many", "predict_batch", "apredict_batch"),
            *("align", "aalign", "unalign", "aunalign", "replace", "without_case"),
            *("value_type", "fields", "model_name", "fingerprint"),
        }

    async def test_learning_and_forgetting_are_awaited_too(self) -> None:
        one, _ = bare()
        result = await one.aalign([row(1, "ana", "add")])
        assert [each.supported_by for each in result.judge.memory.semantic] == [keys("t-1@ana")]
        assert not (await result.judge.aunalign("t-1")).judge.memory

    def test_a_memory_lists_its_guidelines_as_people_read_them(self) -> None:
        memory = learn(bare()[0], [row(1, "ana", "add")]).judge.memory
        assert str(memory.semantic[0]).startswith("G1: ")
