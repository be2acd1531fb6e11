"""A judge as text for other tools: its instructions, its guidelines, its labels, and nothing that breaks the tool's file."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest

from memalign import Judge, Memory
from memalign.errors import InputError
from memalign.integrations.texts import FORMATS, as_text
from memalign.records import Guideline
from memalign.registry import Registry
from tests.cli.conftest import invoke

RULE = 'Say "sorry" first, {{ then }} act \\ help.'


def judge(**changes: Any) -> Judge:
    settings: dict[str, Any] = {
        "name": "good tone",
        "instructions": "Is {{ outputs }} kind,\nasked {{ inputs }}?",
        "feedback_value_type": "yes|no",
        "model": "openai:gpt-4.1-mini",
        "memory": Memory(
            guidelines=(Guideline(id="G1", text=RULE), Guideline(id="G2", text="Gone.", status="retired"))
        ),
    }
    return Judge(**settings | changes)


def texts_in(source: str) -> str:
    """Every text of a Python file, as the interpreter reads them."""
    nodes = ast.walk(ast.parse(source))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_holds_the_authors_text_and_the_guidelines_in_force(form):
    text = as_text(judge(), form)
    read = text if form == "prompt" else texts_in(text)
    assert "kind,\nasked" in read
    assert re.sub(r"\W", "", "Say sorry first then act help") in re.sub(r"\W", "", read)
    assert "Gone." not in read


@pytest.mark.parametrize("form", ["mlflow", "dspy", "inspect"])
@pytest.mark.parametrize("value_type", [bool, 'A|B|it\'s "C"', "int:1..5"])
def test_the_files_are_python_whatever_the_judge_is_called(form, value_type):
    ast.parse(as_text(judge(name='say "hi", there', feedback_value_type=value_type), form))


def test_the_prompt_says_what_the_answer_looks_like():
    schema = json.loads(as_text(judge(), "prompt").splitlines()[-1])
    assert list(schema["properties"]) == ["rationale", "value"]
    assert schema["properties"]["value"]["enum"] == ["yes", "no"]


def test_mlflow_makes_the_judge_of_it(monkeypatch):
    space: dict[str, Any] = {}
    exec(as_text(judge(), "mlflow"), space)
    made = space["judge"]
    assert (made.name, made.model) == ("good tone", "openai:/gpt-4.1-mini")
    assert made.template_variables == {"inputs", "outputs"}


def test_inspect_formats_its_template_and_finds_the_grade():
    text = as_text(judge(feedback_value_type=bool), "inspect")
    call = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    values = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    shown = values["template"].format(question="Q", answer="A", criterion="", instructions="GO")
    assert shown.endswith("[QUESTION]\nQ\n\n[ANSWER]\nA\n\nGO")
    assert "Is the answer kind" in shown
    assert re.findall(values["grade_pattern"], "warm\nGRADE: C") == ["C"]


@pytest.mark.parametrize(
    ("changes", "form", "message"),
    [
        ({}, "yaml", "unknown format 'yaml'"),
        ({"instructions": "Good? {{ trace }}"}, "inspect", "has no place for {{ trace }}"),
        ({"feedback_value_type": str}, "inspect", "grades by labels"),
    ],
)
def test_what_a_tool_has_no_place_for_is_refused(changes, form, message):
    with pytest.raises(InputError, match=message):
        as_text(judge(**changes), form)


def test_the_command_writes_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'judges.db'}"
    Registry(url).save(judge())
    out = tmp_path / "tone.py"
    assert invoke("export", "good tone", "--format", "dspy", "-o", out, "--registry", url).code == 0
    assert out.read_text() == as_text(judge(), "dspy")
    wrong = invoke("export", "good tone", "--format", "yaml", "-o", out, "--registry", url)
    assert wrong.code == 2
    assert "formats: prompt, mlflow, dspy, inspect" in wrong.err
