"""A rule is written in the language of the judge's instructions, whatever the language of the comment."""

from __future__ import annotations

import pytest

from memalign.align.distil_answer import rule_of
from memalign.memory import Annotation, Case
from memalign.prompts.language import language_of
from memalign.prompts.rendering import DistilRecord, render_distil_checks, render_distil_one
from memalign.types import Example
from memalign.values import ValueType

BOOL = ValueType.of(bool)
ENGLISH_COMMENT = DistilRecord(
    label="F1",
    fields=(("outputs", '"Preencha o formulário."'),),
    judge="true",
    judge_rationale=None,
    value="false",
    rationale='"Cold. An apology belongs first."',
)


@pytest.mark.parametrize(
    ("instructions", "asked", "worked_example"),
    [
        (
            "Is the reply acceptable? {{ outputs }}",
            "in the language of the task",
            "the summary does not say who does what",
        ),
        ("A resposta é aceitável? {{ outputs }}", "Write in Portuguese", "o resumo não diz quem faz o quê"),
        ("¿Es aceptable la respuesta? {{ outputs }}", "Write in Spanish", "el resumen no dice quién hace qué"),
        ("{{ outputs }}", "in the language of the task", "the summary does not say who does what"),
    ],
)
def test_examples_are_in_the_language_of_the_instructions(instructions: str, asked: str, worked_example: str) -> None:
    system, user = render_distil_one(instructions=instructions, value_type=BOOL, record=ENGLISH_COMMENT)
    assert asked in system
    assert worked_example in system
    assert system.count("Task: ") == system.count('"when": "') == 3
    assert "An apology belongs first." in user
    system, user = render_distil_checks(instructions=instructions, value_type=BOOL, record=ENGLISH_COMMENT, rule="r")
    assert asked in system
    assert system.count("Task: ") == system.count('"checks": [') == 5
    assert "An apology belongs first." in user


@pytest.mark.parametrize(
    ("when", "because", "rule"),
    [
        ("When a customer waited", "there is no apology", "When a customer waited and there is no apology: false."),
        ("quando o cliente espera", "não há desculpas", "Quando o cliente espera e não há desculpas: false."),
        ("Cuando el cliente espera", "no hay disculpas", "Cuando el cliente espera y no hay disculpas: false."),
        ("", "não há um pedido de desculpas", "Quando não há um pedido de desculpas: false."),
    ],
)
def test_added_words_are_in_the_rules_language(when: str, because: str, rule: str) -> None:
    reply = {"when": when, "because": because}
    annotation = Annotation(id="t", source="ana", value=False, rationale="x")
    case = Case(example=Example(id="t", outputs="x"), annotations=(annotation,))
    assert rule_of(reply, annotation=annotation, case=case, value_type=BOOL)["text"] == rule
    assert language_of(rule) == language_of(f"{when} {because}")
