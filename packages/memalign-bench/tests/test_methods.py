"""Methods: what each is taught, and baselines whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedChatModel
from memalign_bench.data.folder import load_folder
from memalign_bench.methods.base import Setting
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.judges import JUDGES
from memalign_bench.tasks import Task


def says(request: ChatRequest) -> dict[str, object]:
    if "changes" not in request.schema["properties"]:
        return {"rationale": "Reads well.", "value": True}
    labels = request.schema["properties"]["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
    rule = {"text": "When it is short it is cold.", "checks": [{"question": "Is it short?", "answer": "yes"}]}
    return {"changes": [{"action": "ADD", "feedback": labels, "guideline": ""} | rule]}


def setting(task: Task, model: ScriptedChatModel | None = None) -> Setting:
    return Setting(task=task, chat=model or ScriptedChatModel(says), seed=0)


@pytest.fixture
def tone(tasks: Path) -> Task:
    return load_folder(tasks, ("tone",))[0]


@pytest.fixture
def better(tasks: Path) -> Task:
    return load_folder(tasks, ("better",))[0]


async def share_right(name: str, task: Task, taught: int = 20) -> float:
    fitted = await BASELINES[name].learn(setting(task), task.cases[:taught], None)
    verdicts = [await fitted.judge(case, "unseen") for case in task.cases[taught:]]
    right = [verdict.value == case.label for verdict, case in zip(verdicts, task.cases[taught:], strict=True)]
    return sum(right) / len(right)


async def test_the_majority_is_right_as_its_label_occurs(tone: Task) -> None:
    rest = tone.cases[20:]
    assert await share_right("majority", tone) == pytest.approx(sum(case.label is True for case in rest) / len(rest))


@pytest.mark.parametrize("task", ["tone", "better"])
async def test_length_decides_where_length_is_all_there_is(task: str, request: pytest.FixtureRequest) -> None:
    assert await share_right("regression-features", request.getfixturevalue(task)) == 1.0


async def test_embeddings_tell_warm_from_cold(tone: Task) -> None:
    assert await share_right("neighbours-vote", tone) > 0.8
    assert await share_right("regression-embeddings", tone) > 0.8


@pytest.mark.parametrize("name", BASELINES)
async def test_a_baseline_taught_one_label_gives_it(name: str, tone: Task) -> None:
    warm = [case for case in tone.cases if case.label is True][:3]
    fitted = await BASELINES[name].learn(setting(tone), warm, None)
    assert (await fitted.judge(tone.cases[0], "unseen")).value is True


async def test_a_left_out_case_has_no_own_vote(tone: Task) -> None:
    # One cold reply among warm ones: in view it is its own nearest neighbour, left out the warm ones outvote it.
    cold = next(case for case in tone.cases if case.label is False)
    warm = [case for case in tone.cases if case.label is True][:1]
    fitted = await BASELINES["neighbours-vote"].learn(setting(tone), [cold, *warm], None)
    assert (await fitted.judge(cold, "unseen")).value is False
    assert (await fitted.judge(cold, "left-out")).value is True


async def test_a_baseline_left_with_nothing_says_so(tone: Task) -> None:
    case = tone.cases[0]
    for name in BASELINES:
        fitted = await BASELINES[name].learn(setting(tone), [case], None)
        assert (await fitted.judge(case, "left-out")).error == "without this case nothing was taught"


async def test_each_method_is_given_what_its_name_says(tone: Task) -> None:
    train = tone.cases[:12]
    asked: dict[str, tuple[int, bool, bool]] = {}
    for name in ("zero-shot", "static", "nearest", "guidelines", "examples", "memalign", "memalign-all-stages"):
        model = ScriptedChatModel(says)
        fitted = await JUDGES[name].learn(setting(tone, model), () if name == "zero-shot" else train, None)
        learning = len(model.requests)
        await fitted.judge(tone.cases[30], "unseen")
        last = model.requests[-1]
        asked[name] = (learning, "Guidelines from experts" in last.system, "experts have judged" in last.user)
    assert asked["zero-shot"] == (0, False, False)
    assert asked["static"] == (0, False, True)
    assert asked["nearest"] == (0, False, True)
    assert asked["examples"][0] == 0, "comments wait to be distilled, and no label was given alone"
    assert asked["examples"][1:] == (False, True)
    assert asked["guidelines"][1:] == (True, False)
    assert asked["memalign"][1:] == (True, True)
    assert asked["memalign-all-stages"][1:] == (True, True)
    assert asked["memalign"][0] == asked["guidelines"][0] > 0, "nothing is tried"
    assert asked["memalign-all-stages"][0] > asked["memalign"][0] + 12 + 12, "cases are asked about first, and tried"


async def test_only_a_calibrated_method_reasons_and_calibrates(tone: Task) -> None:
    train = tone.cases[:34]
    for name in ("zero-shot-direct", "memalign-direct", "memalign-calibrated"):
        model = ScriptedChatModel(says)
        fitted = await JUDGES[name].learn(setting(tone, model), () if name == "zero-shot-direct" else train, None)
        for case in tone.cases[34:40]:
            verdict = await fitted.judge(case, "unseen")
            assert ("rationale" in model.requests[-1].schema["properties"]) is (name == "memalign-calibrated")
            if name == "memalign-calibrated":
                made = await fitted.judge_.ajudge(case.example)  # type: ignore[attr-defined]
                assert made.calibrated_value is not None
                assert verdict.value == made.calibrated_value


async def test_parts_are_measured_by_the_models_own_verdict(tone: Task) -> None:
    model = ScriptedChatModel(says, limits=Limits(brief=True))
    for name in ("guidelines", "memalign", "memalign-calibrated"):
        fitted = await JUDGES[name].learn(setting(tone, model), tone.cases[:34], None)
        for case in tone.cases[34:40]:
            verdict = await fitted.judge(case, "unseen")
            made = await fitted.judge_.ajudge(case.example)  # type: ignore[attr-defined]
            assert (made.calibrated_value is None) == (name == "guidelines")
            given = {"guidelines": made.own_value, "memalign": made.value, "memalign-calibrated": made.calibrated_value}
            assert verdict.value == given[name]


async def test_static_examples_are_balanced_and_always_equal(tone: Task) -> None:
    model = ScriptedChatModel(says)
    fitted = await JUDGES["static"].learn(setting(tone, model), tone.cases[:12], None)
    for case in tone.cases[30:33]:
        await fitted.judge(case, "unseen")
    shown = [request.user.partition("Now judge")[0] for request in model.requests]
    ids = [sorted(part for part in text.splitlines() if part.startswith("outputs")) for text in shown]
    assert ids[0] == ids[1] == ids[2]
    assert "Expert: true" in shown[0]
    assert "Expert: false" in shown[0]


async def test_labels_alone_and_comments_alone_teach_only_that(tone: Task) -> None:
    for name, absent in (("memalign-labels", "Far too cold"), ("memalign-comments", "Expert: false")):
        model = ScriptedChatModel(says)
        fitted = await JUDGES[name].learn(setting(tone, model), tone.cases[:12], None)
        await fitted.judge(tone.cases[30], "unseen")
        assert all(absent not in request.system + request.user for request in model.requests), name


async def test_nearest_cases_come_by_number_or_without_words(tone: Task) -> None:
    shown = {}
    for name in ("nearest", "nearest-1", "nearest-5", "nearest-labels"):
        model = ScriptedChatModel(says)
        fitted = await JUDGES[name].learn(setting(tone, model), tone.cases[:12], None)
        await fitted.judge(tone.cases[30], "unseen")
        shown[name] = model.requests[-1].user
    assert shown["nearest-1"].count("Expert:") == 1
    assert shown["nearest-5"].count("Expert:") == shown["nearest"].count("Expert:") == 5
    assert "Far too cold" in shown["nearest-5"]
    assert shown["nearest-labels"].count("Expert:") == 5
    assert "Far too cold" not in shown["nearest-labels"]
