"""Judging many items: in order, resumed, within a spend limit, and however many there are."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign import Example, Guideline, Judge, Judgment, Usage
from memalign.errors import (
    ConfigurationError,
    InputError,
    InvalidOutput,
    InvalidRows,
    ModelRejected,
    ModelUnavailable,
)
from memalign.io import read_judgments
from memalign.memory import Memory
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.prompts import rendering
from tests.support.rows import RawRow

INSTRUCTIONS = "Is the reply good?\nReply: {{ outputs }}"


class Model:
    """Answers with the number of the item, remembers only how often each was asked, and
    costs what it is told."""

    name = "counting"
    limits = Limits(concurrency=8)

    def __init__(
        self,
        *,
        cost: float | None = 0.0,
        pause: Callable[[], float] = lambda: 0.0,
        fails: Any = lambda _: None,
    ) -> None:
        self.cost = cost
        self.pause = pause
        self.fails = fails
        self.asked: Counter[int] = Counter()
        self.in_flight = self.most = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        number = int(request.user.split('outputs: "a')[1].split("-")[0])
        self.asked[number] += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.pause())
        finally:
            self.in_flight -= 1
        if (error := self.fails(number)) is not None:
            raise error
        data = {"rationale": str(number), "value": number % 2 == 0}
        return ChatReply(data=data, text="", usage=Usage(calls=1, cost=self.cost))


def items(count: int, *, changed: Collection[int] = ()) -> list[RawRow]:
    rows = []
    for n in range(count):
        mark = "!" if n in changed else ""
        rows.append({"id": f"i-{n}", "outputs": f"a{n}-{mark}"})
    return rows


def names(count: int) -> list[str]:
    return [f"i-{n}" for n in range(count)]


def numbers(judgments: Iterable[Judgment]) -> list[str]:
    """What the model answered: the number of each item."""
    return [str(judgment.rationale) for judgment in judgments]


def errors(judgments: Iterable[Judgment]) -> list[str]:
    return [judgment.error for judgment in judgments if judgment.error]


def judge(model: Model) -> Judge:
    return Judge(
        name="good", instructions=INSTRUCTIONS, feedback_value_type=bool, model=model
    )


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()]


@settings(max_examples=15)
@given(st.integers(0, 25), st.integers(1, 12), st.integers(0, 2**32))
def test_judgments_are_written_in_the_order_of_items(
    tmp_path_factory: pytest.TempPathFactory, count: int, concurrency: int, seed: int
) -> None:
    rng = random.Random(seed)
    model = Model(pause=lambda: rng.choice((0, 0, 0.0005)))
    out = tmp_path_factory.mktemp("run") / "out.jsonl"
    written = list[str]()
    steps = list[tuple[str, int, int]]()

    def check(name: str, _: Judgment) -> None:
        written.append(name)
        assert ids(out) == written, "a killed run has lost none of those that it made"

    judgments = judge(model).judge_many(
        items(count),
        concurrency=concurrency,
        out=out,
        on_judgment=check,
        progress=lambda *step: steps.append(step),
    )
    assert steps == [("judge", n, count) for n in range(1, count + 1)]
    assert numbers(judgments) == list(map(str, range(count)))
    assert ids(out) == names(count)
    assert sorted(written) == sorted(ids(out))
    assert model.most <= concurrency


def test_all_rows_are_checked_before_the_first_call(tmp_path: Path) -> None:
    model = Model()
    for bad in (
        [*items(50), {"id": "i-3", "outputs": "b3-"}],
        iter([*items(50), {"id": "x"}]),
    ):
        with pytest.raises(InvalidRows, match="line 51"):
            judge(model).judge_many(bad, out=tmp_path / "out.jsonl")
    assert not model.asked
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Example(id="i-1", outputs="a1-"), "for one example, call judge"),
        (items(1)[0], "for one example, call judge"),
        (7, "examples must be a path, a DataFrame or an iterable of rows"),
        (None, "examples must be a path, a DataFrame or an iterable of rows"),
    ],
)
def test_what_is_no_list_of_items_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        judge(Model()).judge_many(given)


@pytest.mark.parametrize("count", [0, -1, "4", 2.5, True])
def test_what_is_no_number_of_calls_at_once_is_refused(count: Any) -> None:
    with pytest.raises(InputError, match="concurrency must be 1 or more, a whole"):
        judge(Model()).judge_many([], concurrency=count)


@pytest.mark.parametrize("limit", [0, -1, math.nan, math.inf, "1", True])
def test_what_is_no_limit_is_refused(limit: Any) -> None:
    with pytest.raises(InputError, match="max_cost"):
        judge(Model()).judge_many([], max_cost=limit)


@settings(max_examples=15)
@given(st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)), st.booleans())
def test_only_failed_changed_or_new_items_are_judged(
    tmp_path_factory: pytest.TempPathFactory,
    failing: set[int],
    changed: set[int],
    cut: bool,
) -> None:
    out = tmp_path_factory.mktemp("run") / "out.jsonl"
    first = Model(fails=dict.fromkeys(failing, InvalidOutput("odd")).get)
    judge(first).judge_many(items(25), out=out, concurrency=4)
    expected = failing | changed | set(range(25, 30))
    if cut:
        out.write_bytes(out.read_bytes()[:-20])
        expected.add(24)
    again = items(30, changed=changed)
    told = list[str]()
    second = Model()
    judgments = judge(second).judge_many(
        again, out=out, concurrency=4, on_judgment=lambda key, _: told.append(key)
    )
    assert set(second.asked) == expected
    assert set(told) == {f"i-{n}" for n in expected}
    assert ids(out) == names(30)
    assert numbers(judgments) == list(map(str, range(30)))
    assert errors(read_judgments(out).judgments.values()) == []


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_spend_limit_stops_only_the_current_run(
    tmp_path: Path, concurrency: int
) -> None:
    out = tmp_path / "out.jsonl"
    model = Model(cost=0.01)
    judgments = judge(model).judge_many(
        items(40), out=out, max_cost=0.15, concurrency=concurrency
    )
    left = [judgment for judgment in judgments if judgment.error is not None]
    assert 14 <= len(ids(out)) == 40 - len(left) <= 15
    assert (judgments.usage.cost or 0) <= 0.15
    why = (
        r"NotJudged: one more call would pass the limit of \$0\.15 \(\$0\.1.* to resume"
    )
    for judgment in left:
        assert re.match(why, str(judgment.error))
        assert judgment.usage == Usage()
    rest = judge(model).judge_many(items(40), out=out, max_cost=10)
    assert numbers(rest) == list(map(str, range(40)))
    assert set(model.asked.values()) == {1}


REJECTED = ModelRejected("prompt too long")
DOWN = ModelUnavailable("no answer")
PAID = InvalidOutput("odd", usage=Usage(calls=2, cost=0.01))


@pytest.mark.parametrize(
    ("fails", "limit", "concurrency", "least"),
    [
        (lambda n: REJECTED if n < 3 else None, 0.02, 16, 0.02),
        (lambda n: DOWN if n < 3 else None, 0.02, 16, 0.02),
        # Nor does a free failure make the next call seem cheap.
        (lambda n: REJECTED if n % 4 else None, 0.1, 4, 0.06),
        (lambda n: None if n else PAID, 0.05, 8, 0.04),
    ],
)
def test_failures_tell_of_a_calls_cost_what_they_cost(
    fails: Any, limit: float, concurrency: int, least: float
) -> None:
    model = Model(cost=0.01, pause=lambda: 0.01, fails=fails)
    judgments = judge(model).judge_many(
        items(200), max_cost=limit, concurrency=concurrency
    )
    paid = 0.0
    for judgment in judgments:
        paid += judgment.usage.cost or 0
        if judgment.error == "InvalidOutput: odd":
            assert judgment.usage == PAID.usage
    assert least <= round(paid, 6) <= limit
    why = f"NotJudged: one more call would pass the limit of ${limit}"
    assert str(judgments[-1].error).startswith(why)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Model(cost=None), "what a call of counting costs is not known"),
        (
            Model(fails=lambda _: ConfigurationError("no key: set OPENAI_API_KEY")),
            "set OPENAI_API_KEY",
        ),
    ],
)
def test_a_setup_error_stops_the_run_as_itself(model: Model, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        judge(model).judge_many(items(40), max_cost=1)
    assert model.asked.total() == 1


def test_a_silent_server_is_not_asked_everything(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    model = Model(fails=lambda _: ModelUnavailable("down"))
    judgments = judge(model).judge_many(items(500), out=out, concurrency=4)
    assert 32 <= model.asked.total() <= 36
    assert judgments[0].error == "ModelUnavailable: down"
    why = (
        "NotJudged: 32 examples in a row failed, the last with ModelUnavailable: down;"
    )
    assert str(judgments[-1].error).startswith(why)
    limited = Model(fails=model.fails)
    judgments = judge(limited).judge_many(items(500), concurrency=64, max_cost=1)
    assert limited.asked.total() == 32, (
        "until it is known what a call costs there is one at a time"
    )
    model.fails = lambda _: None
    assert errors(judge(model).judge_many(items(500), out=out)) == []


def test_items_that_always_fail_block_no_later_items(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    model = Model(fails=lambda n: REJECTED if 10 <= n < 60 else None)
    first = judge(model).judge_many(items(60), out=out, concurrency=1)
    assert len(errors(first)) == 50
    again = judge(model).judge_many(items(80), out=out, concurrency=1)
    assert len(errors(again)) == 50, "those that came after them were judged"
    model.fails = lambda _: ModelUnavailable("down")
    later = judge(model).judge_many(items(80), out=out, concurrency=1)
    # A server is down as ever.
    assert str(later[59].error).startswith("NotJudged: 32 examples in a row failed")


@pytest.fixture
def wording(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[str], None]]:
    """Changes a word of a prompt file, as another release of memalign does."""
    copy = tmp_path / "prompts"
    shutil.copytree(Path(rendering.__file__).parent, copy)
    monkeypatch.setattr(rendering, "resources", SimpleNamespace(files=lambda _: copy))

    def change(name: str) -> None:
        template = copy / f"{name}.jinja"
        text = template.read_text("utf-8")
        template.write_text(text.replace(" the ", " that ", 1), "utf-8")
        rendering.judging_prompts_hash.cache_clear()

    yield change
    rendering.judging_prompts_hash.cache_clear()


def test_a_reworded_distillation_leaves_judged_files_resumable(
    tmp_path: Path, wording: Callable[[str], None]
) -> None:
    model = Model()
    out = tmp_path / "out.jsonl"
    judge(model).judge_many(items(5), out=out)
    for part in ("system", "more_system", "user", "merge_system"):
        wording(f"distil_{part}")
    judge(model).judge_many(items(5), out=out)
    assert model.asked.total() == 5, "nothing is asked again"


@pytest.mark.parametrize("name", ["judge_system", "judge_user", "decide_verdict"])
def test_a_reworded_judging_prompt_makes_other_judgments(
    name: str, tmp_path: Path, wording: Callable[[str], None]
) -> None:
    one = judge(Model())
    out = tmp_path / "out.jsonl"
    one.judge_many(items(2), out=out)
    wording(name)
    why = "which differs in the wording of memalign's prompts; name another output file"
    with pytest.raises(InputError, match=why):
        one.judge_many(items(2), out=out)


def test_another_judges_file_is_left_alone_and_it_is_said_what_differs(
    tmp_path: Path,
) -> None:
    one = judge(Model())
    out = tmp_path / "out.jsonl"
    one.judge_many(items(2), out=out)
    before = out.read_bytes()
    memory = Memory(guidelines=(Guideline(id="G1", text="Be kind."),))
    settings = "its instructions, value type, model or parameters"
    for changes, what in (
        ({"parameters": {"seed": 1}}, settings),
        ({"instructions": "{{ outputs }}?"}, settings),
        ({"name": "other"}, "its name"),
        ({"memory": memory}, "what it has learned"),
        (
            {"memory": memory, "parameters": {"seed": 1}},
            f"{settings} and what it has learned",
        ),
    ):
        why = f"which differs in {what}; name another output file"
        with pytest.raises(InputError, match=why):
            one.replace(**changes).judge_many(items(12), out=out)
        assert out.read_bytes() == before
