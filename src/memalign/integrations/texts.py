"""A judge as plain text for other tools: its instructions and its guidelines in force, without its cases."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.judge import Judge
from memalign.prompts import render_judge_system

if TYPE_CHECKING:
    from memalign.values import ValueType

__all__ = ["FORMATS", "as_text"]

_FIELD = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_INSPECT = {"inputs": "question", "outputs": "answer", "expectations": "criterion"}


def as_text(judge: Judge, form: str) -> str:
    """The judge in one of `FORMATS`: `prompt` is text for any model, the others are Python files for the tool of that name.

    Similar cases are not part of it: no tool knows how to find them. Raises InputError for an unknown format, and for a
    field or a value type that the tool has no place for.
    """
    if form not in FORMATS:
        raise InputError(f"unknown format {form!r}; formats: {', '.join(FORMATS)}")
    return FORMATS[form](judge).rstrip() + "\n"


def _prompt(judge: Judge) -> str:
    system = render_judge_system(
        instructions=judge.instructions,
        fields=judge.fields,
        value_type=judge.value_type,
        guidelines=judge.memory.semantic,
        style="full",
    )
    schema = {"rationale": {"type": "string"}, "value": judge.value_type.json_schema()}
    item = "\n".join(f"{name}: <{name} as JSON>" for name in judge.fields)
    answer = json.dumps({"type": "object", "properties": schema, "required": list(schema)}, ensure_ascii=False)
    return f"# system message\n\n{system}\n\n# user message, for each item\n\n{item}\n\n# JSON schema of the answer\n\n{answer}"


def _mlflow(judge: Judge) -> str:
    return f"""{_head(judge, "an MLflow judge")}
from typing import Literal  # noqa: F401

from mlflow.genai.judges import make_judge

judge = make_judge(
    name={judge.name!r},
    instructions={_literal(_with_guidelines(judge))},
    feedback_value_type={_annotation(judge.value_type)},
    model={_uri(judge)!r},
)
"""


def _dspy(judge: Judge) -> str:
    taken = "\n".join(f"    {name}: str = dspy.InputField()" for name in judge.fields)
    text = _FIELD.sub(lambda match: match[1], _with_guidelines(judge))
    class_name = "".join(part.capitalize() for part in re.findall(r"[A-Za-z0-9]+", judge.name)) or "Judge"
    if class_name[0].isdigit() or keyword.iskeyword(class_name):
        class_name = f"Judge{class_name}"
    return f"""{_head(judge, "a DSPy signature")}
from typing import Literal  # noqa: F401

import dspy


class {class_name}(dspy.Signature):
{taken}
    rationale: str = dspy.OutputField(desc="why, briefly")
    value: {_annotation(judge.value_type)} = dspy.OutputField(desc={judge.value_type.allowed!r})


{class_name} = {class_name}.with_instructions({_literal(text)})
judge = dspy.Predict({class_name})
"""


def _inspect(judge: Judge) -> str:
    if strange := [name for name in judge.fields if name not in _INSPECT]:
        raise InputError(f"Inspect's model_graded_qa has no place for {{{{ {strange[0]} }}}}; export a prompt instead")
    labels = judge.value_type.labels
    if not labels:
        raise InputError(
            f"Inspect grades by labels, and a judge of {judge.value_type.spec} has none; export a prompt instead"
        )
    # Inspect reads C as right and I as wrong.
    grades = ["C", "I"] if judge.value_type.kind == "bool" else [str(label) for label in labels]
    parts = _FIELD.split(_with_guidelines(judge))
    text = "".join(f"the {_INSPECT[part]}" if number % 2 else part for number, part in enumerate(parts))
    doubled = text.replace("{", "{{").replace("}", "}}")
    fields = "\n\n".join(f"[{_INSPECT[name].upper()}]\n{{{_INSPECT[name]}}}" for name in judge.fields)
    meaning = " (C where the answer is true, I where it is false)" if judge.value_type.kind == "bool" else ""
    ask = f"First say briefly why. Then write, on a last line, GRADE: and one of {', '.join(grades)}{meaning}."
    pattern = f"GRADE:\\s*({'|'.join(re.escape(grade) for grade in sorted(grades, key=len, reverse=True))})"
    return f"""{_head(judge, "an Inspect scorer")}
from inspect_ai.scorer import model_graded_qa

scorer = model_graded_qa(
    template={_literal(f"{doubled}{chr(10) * 2}{fields}{chr(10) * 2}{{instructions}}")},
    instructions={_literal(ask)},
    grade_pattern={pattern!r},
    model={_uri(judge, "/")!r},
)
"""


FORMATS: Mapping[str, Callable[[Judge], str]] = {
    "prompt": _prompt,
    "mlflow": _mlflow,
    "dspy": _dspy,
    "inspect": _inspect,
}
"""The formats by name."""


def _head(judge: Judge, what: str) -> str:
    memory = judge.memory
    return (
        f'"""{judge.name.replace(chr(34), chr(39))} as {what}, exported by memalign.\n\n{len(memory.semantic)} guidelines of '
        f'memory {memory.hash}; its {len(memory.cases)} cases are not part of it.\n"""\n'
    ).replace("\\", "\\\\")


def _with_guidelines(judge: Judge) -> str:
    text = judge.instructions.strip()
    if not judge.memory.semantic:
        return text
    # A guideline's own braces are no field of the item.
    listed = (each.text.replace("{{", "{ {").replace("}}", "} }") for each in judge.memory.semantic)
    return f"{text}\n\nGuidelines of experts:\n" + "\n".join(f"- {each}" for each in listed)


def _annotation(value_type: ValueType) -> str:
    match value_type.kind:
        case "choice":
            return f"Literal[{', '.join(map(repr, value_type.choices))}]"
        case "int" if 0 < len(value_type.labels) <= 20:
            return f"Literal[{', '.join(map(repr, value_type.labels))}]"
        case kind:
            return kind


def _uri(judge: Judge, sign: str = ":/") -> str:
    provider, _, model = (judge.model_name or "openai:gpt-4.1-mini").partition(":")
    return f"{provider}{sign}{model.lstrip('/')}"


def _literal(text: str) -> str:
    """Python's spelling of a text: as it stands between three quotes where it can."""
    plain = text.replace("\n", "").isprintable() and "\\" not in text and '"""' not in text and not text.endswith('"')
    if not plain:
        return repr(text)
    return f'"""{text}"""'
