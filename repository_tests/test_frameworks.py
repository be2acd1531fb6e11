"""The lines that other-frameworks.md and pytest.md in docs/how-to show run inside the
frameworks that are installed."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkout import python, python_after, text_of

import memalign as ma
from tests.support.endpoint import Body, Endpoint, system_of, user_of

PAGE = text_of("docs/how-to/other-frameworks.md") + text_of("docs/how-to/pytest.md")
(SETUP,) = python_after("test framework", PAGE)
PARTS = dict(
    re.findall(
        r"^<!-- test framework (\w+) -->\n+```python\n(.*?)^```$",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
)
MOST_LINES = 10
REPLY = "Thank you for asking. It left today."


def pydantic_evals(page: dict[str, Any], _: Path) -> tuple[Any, Any]:
    (case,) = page["report"].cases
    (result,) = case.assertions.values()
    return result.value, result.reason


def inspect_ai(page: dict[str, Any], folder: Path) -> tuple[Any, Any]:
    from inspect_ai import eval as run
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    said = ModelOutput.from_content("mockllm", REPLY)
    # Else it asks the network how to count.
    said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=[said])
    (log,) = run(page["task"], model=model, log_dir=str(folder), display="none")
    assert log.status == "success", log.error
    (score,) = log.samples[0].scores.values()
    return {"C": True, "I": False}[score.value], score.explanation


def deepeval(page: dict[str, Any], _: Path) -> tuple[Any, Any]:
    from deepeval.test_case import LLMTestCase

    metric = page["Tone"]()
    case = LLMTestCase(input="Where is my order?", actual_output=REPLY)
    assert metric.measure(case) == 1.0
    return metric.is_successful(), metric.reason


def langsmith(page: dict[str, Any], _: Path) -> tuple[Any, Any]:
    from langsmith import evaluate
    from langsmith.schemas import Example

    example = Example(
        id="6f1f5c9e-6a3c-4f0b-9a41-0d5e9f3c2b11",
        inputs={"query": "Where is my order?"},
        outputs={},
    )
    rows = [
        *evaluate(
            lambda _: {"reply": REPLY},
            data=[example],
            evaluators=[page["tone"]],
            upload_results=False,
        )
    ]
    (result,) = rows[0]["evaluation_results"]["results"]
    return result.score, result.comment


def phoenix(page: dict[str, Any], _: Path) -> tuple[Any, Any]:
    from phoenix.client.resources.experiments.evaluators import create_evaluator

    evaluator = create_evaluator(name="tone")(page["tone"])
    result = evaluator.evaluate(input={"query": "Where is my order?"}, output=REPLY)
    return result["label"] == "True", result["explanation"]


def promptfoo(page: dict[str, Any], _: Path) -> tuple[Any, Any]:
    context = {"vars": {"query": "Where is my order?"}}
    answer = page["call_api"](REPLY, {}, context)
    assert answer == {"output": {"value": True, "reason": "Because."}}
    found = page["get_assert"](REPLY, context)
    return found["pass"], found["reason"]


INSIDE: dict[str, Callable[[dict[str, Any], Path], tuple[Any, Any]]] = {
    each.__name__: each
    for each in (pydantic_evals, inspect_ai, deepeval, langsmith, phoenix, promptfoo)
}


def answer(body: Body) -> Body:
    if body["response_format"]["json_schema"]["name"] == "changes":
        return {"changes": [], "conflicts": []}
    return {"findings": [], "rationale": "Because.", "value": True}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INSIDE)
def test_a_framework_has_the_judges_verdict_and_reason(
    name: str, endpoint: Endpoint, tmp_path: Path
) -> None:
    if name != "promptfoo":
        pytest.importorskip("phoenix.client" if name == "phoenix" else name)
    module = SimpleNamespace(__name__="page")
    sys.modules["page"] = module  # type: ignore[assignment]  # dataclasses look their module up
    page = vars(module)
    exec(compile(SETUP + PARTS[name], "other-frameworks.md", "exec"), page)
    assert INSIDE[name](page, tmp_path) == (True, "Because.")
    assert len(endpoint.requests) >= 2


def test_pytest_runs_the_lines_of_the_page(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "test_tone.py").write_text(SETUP + PARTS["pytest"], "utf-8")
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tone.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("name", PARTS)
def test_ten_lines_are_enough(name: str) -> None:
    assert len(re.findall(r"^.*\S", PARTS[name], re.MULTILINE)) <= MOST_LINES


def test_every_part_of_the_page_is_tried() -> None:
    assert PARTS.keys() == {*INSIDE, "pytest"}


# -- optimizers of prompts: docs/how-to/optimize-prompts.md ----------------------------

QUERIES = [
    "Where is it?",
    "I am furious, where is it?",
    "Can I return it?",
    "I am furious: it broke.",
]
RULE = "say sorry first"


def obedient(body: Body) -> Any:
    """Do what the prompt says, and propose what the feedback asks for, as a good model does."""
    kind = kind_of(body)
    text = system_of(body) + user_of(body)
    if kind == "changes":
        change = {
            "action": "ADD",
            "feedback": ["F1"],
            "text": f"If the customer is upset, {RULE}.",
            "guideline": "",
        }
        return {"changes": [change], "conflicts": []}
    if kind == "judgment":
        return verdict_on(user_of(body).rpartition("Now judge this item:")[2])
    in_json = bool(body.get("response_format"))
    if kind == "proposal":
        new = "Answer briefly."
        if RULE in text:
            new = f"Answer the query. If the customer is upset, {RULE}."
        return json.dumps({"new_instruction": new}) if in_json else f"```\n{new}\n```"
    reply = "It left today."
    if RULE in text and "furious" in user_of(body):
        reply = f"I am sorry. {reply}"
    plain = f"[[ ## reply ## ]]\n{reply}\n\n[[ ## completed ## ]]"
    return json.dumps({"reply": reply}) if in_json else plain


def kind_of(body: Body) -> str:
    """What a request is for: changes, a judgment, the optimizer's proposal, or a reply."""
    format_ = body.get("response_format") or {}
    name = str((format_.get("json_schema") or {}).get("name"))
    if name in ("changes", "judgment"):
        return name
    text = system_of(body) + user_of(body)
    proposes = "instruction" in text and "feedback" in text.lower()
    return "proposal" if proposes else "reply"


def verdict_on(item: str) -> Body:
    good = "furious" not in item or "sorry" in item
    rationale = "Fine." if good else f"Upset, so {RULE}."
    return {"findings": [], "rationale": rationale, "value": good}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_optimizer_of_prompts_follows_the_judges_words(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DSPY_CACHEDIR", str(tmp_path))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    pytest.importorskip("dspy")
    endpoint.answer = obedient
    judge = ma.Judge(
        name="send",
        instructions="Send it? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
    )
    taught = {
        "id": "t",
        "inputs": "I am furious.",
        "outputs": "No.",
        "value": False,
        "rationale": RULE,
        "source": "ana",
    }
    judge = judge.replace(model="openai:gpt-4.1-mini").align([taught]).judge
    page: dict[str, Any] = {"judge": judge, "QUERIES": QUERIES}
    (code,) = python_after("test gepa", text_of("docs/how-to/optimize-prompts.md"))
    start = len(endpoint.requests)
    exec(compile(code, "optimize-prompts.md", "exec"), page)
    asked = Counter(map(kind_of, endpoint.requests[start:]))
    assert asked["judgment"] <= 60 + 2 * len(QUERIES), (
        "GEPA ends the round in which its limit is reached"
    )
    assert asked["proposal"] == 1
    assert RULE in page["better"].signature.instructions
    good = {}
    for name in ("program", "better"):
        replies = {query: page[name](query=query).reply for query in QUERIES}
        verdicts = [judge(inputs=q, outputs=said).value for q, said in replies.items()]
        good[name] = verdicts.count(True)
    assert good == {"program": 2, "better": 4}, "scores before and after"
