"""Through any door an aligned judge comes with its memory, or the door says where that is."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.genai.scorers import get_scorer, list_scorers

import memalign as ma
from memalign.errors import InputError
from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from memalign.registry.bundle import load_bundle, write_bundle
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import (
    INSTRUCTIONS,
    fetched,
    lesson,
    refused,
    taught,
    tone_judge,
)

HEADING = "Distilled Guidelines ("


def learned(judge: Any) -> tuple[int, int, int]:
    """How many guidelines, cases, and blocks of guidelines a judge has."""
    return (
        len(judge._semantic_memory),
        len(judge._episodic_trace_ids),
        judge.instructions.count(HEADING),
    )


def registered(aligned: MemAlignJudge, _: object = None) -> Any:
    aligned.register()
    return get_scorer(name="tone")


def an_earlier_version(aligned: MemAlignJudge, _: object) -> Any:
    aligned.register()
    aligned.register()
    return get_scorer(name="tone", version=1)


def bundled(aligned: MemAlignJudge, tmp_path: Path) -> MemAlignJudge:
    write_bundle(aligned.memalign_judge, tmp_path / "judge.json")
    core = load_bundle(json.loads((tmp_path / "judge.json").read_text()))
    return MemAlignJudge(
        base=aligned.base_judge,
        core=core.replace(model="openai:small"),
        optimizer=MemAlignOptimizer(),
    )


DOORS: dict[str, Callable[[MemAlignJudge, Path], Any]] = {
    "the judge itself": lambda aligned, _: aligned,
    "register": lambda aligned, _: aligned.register(),
    "load": lambda aligned, _: (aligned.register(), load("tone"))[1],
    "get_scorer": registered,
    "list_scorers": lambda aligned, _: (aligned.register(), list_scorers()[0])[1],
    "a copy of get_scorer's": lambda aligned, _: registered(aligned).model_copy(),
    "pasted instructions under the same name": lambda aligned, _: tone_judge(
        instructions=registered(aligned).instructions
    ),
    "an earlier version": an_earlier_version,
    "copy": lambda aligned, _: copy.copy(aligned),
    "deepcopy": lambda aligned, _: copy.deepcopy(aligned),
    "model_copy": lambda aligned, _: aligned.model_copy(deep=True),
    "a bundle": bundled,
}


@pytest.mark.parametrize("door", DOORS)
def test_more_is_learned_beside_the_memory_and_all_of_it_is_forgotten(
    door: str, aligned: MemAlignJudge, tmp_path: Path
) -> None:
    judge = DOORS[door](aligned, tmp_path)
    more = judge.align(fetched(lesson(3)), MemAlignOptimizer())
    assert learned(more) == (3, 3, 1)
    left = more.unalign(more._episodic_trace_ids)
    assert learned(left) == (0, 0, 0)
    assert left.instructions == INSTRUCTIONS
    left.register()
    assert "is unkind" not in json.dumps(load("tone").model_dump())
    assert "is unkind" not in get_scorer(name="tone").instructions


@pytest.mark.usefixtures("aligned")
@pytest.mark.parametrize(
    "text",
    [
        f"{INSTRUCTIONS}\n\nDistilled Guidelines (1):\n  - case 1 is unkind\n",
        f"Distilled Guidelines (1):\n  - case 1 is unkind\n\n{INSTRUCTIONS}",
        f"{INSTRUCTIONS}\r\n\r\nDISTILLED  GUIDELINES ( 1 ) :\r\n  - case 1 is unkind",
        f"{INSTRUCTIONS} Distilled Guidelines (12): - case 1 is unkind",
    ],
)
def test_pasted_guidelines_without_a_memory_are_refused_before_any_call(
    endpoint: Endpoint, text: str
) -> None:
    before = len(endpoint.requests)
    judge = tone_judge(name="other", instructions=text)
    traces = fetched(lesson(3, name="other"))
    for act in (
        lambda: judge.align(traces, MemAlignOptimizer()),
        lambda: MemAlignOptimizer().unalign(judge, traces),
        lambda: MemAlignJudge(
            base=judge, core=ma.Judge.__new__(ma.Judge), optimizer=MemAlignOptimizer()
        ),
    ):
        with refused(r"Distilled Guidelines.*load\('other'\)"):
            act()
    assert len(endpoint.requests) == before


def test_the_refusal_names_the_judge_whose_guidelines_were_pasted(
    aligned: MemAlignJudge,
) -> None:
    aligned.register()
    pasted = f"Be strict.\n{aligned.instructions}\nSay why."
    with refused(r"load\('tone'\)"):
        taught(lesson(3, name="other"), name="other", instructions=pasted)


def test_a_changed_model_is_no_registered_judge(aligned: MemAlignJudge) -> None:
    instructions = registered(aligned).instructions
    with refused(r"load\('tone'\)"):
        taught(lesson(3), instructions=instructions, model="openai:/another")


def test_in_another_experiment_the_memory_is_found_where_the_judge_came_from(
    aligned: MemAlignJudge,
) -> None:
    judge = registered(aligned)
    mlflow.set_experiment("elsewhere")
    more = judge.align(fetched(lesson(3)), MemAlignOptimizer())
    assert learned(more) == (3, 3, 1)


def test_nothing_is_learned_beside_pasted_guidelines_outside_of_mlflow_either(
    aligned: MemAlignJudge,
) -> None:
    judge = ma.Judge(
        name="tone",
        instructions=aligned.instructions,
        feedback_value_type=bool,
        model="openai:small",
    )
    with pytest.raises(InputError, match="Distilled Guidelines"):
        judge.align([{"inputs": "q", "outputs": "a", "value": False}])
