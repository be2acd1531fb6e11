"""Judges of MLflow's that can be aligned, the judge of ours that each becomes, and labels from one to the other."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin

import memalign
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.routes import JUDGE_PARAMETERS, inference_of, judge_model
from memalign.values import UNBOUNDED, ValueType

_logger = logging.getLogger(__name__)

# The variables of MLflow's own prompts, by our names of fields.
_FIELDS = {
    **dict.fromkeys(("input", "inputs"), "inputs"),
    **dict.fromkeys(("output", "outputs"), "outputs"),
    **dict.fromkeys(("ground_truth", "expected_output", "expectations"), "expectations"),
}
_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def base_of(judge: Any) -> Any:
    """The judge of `make_judge` that `judge` is, that MLflow's own optimizer aligned, or with a built-in's criterion.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for any other judge.
    """
    from mlflow.genai.judges.instructions_judge import InstructionsJudge
    from mlflow.genai.scorers.builtin_scorers import BuiltInScorer

    if isinstance(judge, InstructionsJudge):
        return judge
    kind = type(judge).__name__
    if kind == "MemoryAugmentedJudge":  # its class is not imported, which would need DSPy
        text = "judge %s: its memory stays with MLflow's optimizer; guidelines are distilled again from these traces"
        _logger.warning(text, judge.name)
        return base_of(judge._base_judge)
    base = None
    if isinstance(judge, BuiltInScorer):
        with suppress(
            AttributeError, NotImplementedError
        ):  # code judges, and several judges together
            base = (
                judge._create_judge() if hasattr(judge, "_create_judge") else _of_criterion(judge)
            )
    if base is None:
        raise invalid(
            f"{kind} cannot be aligned: it does not judge by instructions alone; make a judge with "
            "mlflow.genai.judges.make_judge"
        )
    base.aggregations = judge.aggregations  # MLflow's constructor took them only later
    return base


def _of_criterion(judge: Any) -> Any:
    """A judge of instructions with a built-in judge's criterion; None where it judges more than fields."""
    from mlflow.genai.judges.instructions_judge import InstructionsJudge

    criterion = _criterion(judge)
    return criterion and InstructionsJudge(
        name=judge.name,
        instructions=criterion,
        description=judge.description,
        model=judge.model,
        feedback_value_type=judge.feedback_value_type,
        inference_params=getattr(judge, "inference_params", None),
        extra_headers=getattr(judge, "extra_headers", None),
    )


def _criterion(judge: Any) -> str | None:
    """The instructions of a built-in judge with our names of fields; None where it judges more than these."""
    text = str(judge.instructions)
    if guidelines := getattr(judge, "guidelines", None):
        listed = "\n".join(
            f"- {line}" for line in ([guidelines] if isinstance(guidelines, str) else guidelines)
        )
        listed = listed.replace("{{", "{ {").replace(
            "}}", "} }"
        )  # a guideline's own braces are no field of the item
        text = re.sub(r"\{\{\s*guidelines\s*\}\}", lambda _: listed, text)
        text = re.sub(r"\{\{\s*guidelines_context\s*\}\}", "", text)
    named = set(_BRACES.findall(text))
    if not named <= _FIELDS.keys():
        return None
    text = _BRACES.sub(lambda match: f"{{{{ {_FIELDS[match[1]]} }}}}", text).strip()
    fields = [field.name for field in judge.get_input_fields()]
    missing = [name for name in fields if name not in {_FIELDS[name] for name in named}]
    if not set(missing) <= set(_FIELDS.values()):
        return None
    return text + "".join(f"\n{name.capitalize()}: {{{{ {name} }}}}" for name in missing)


def core_of(base: Any, value_type: ValueType) -> memalign.Judge:
    """Our judge, without memory, of MLflow's judge of instructions.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a name, a model or a parameter that cannot be.
    """
    level = getattr(base, "session_level", None)
    if level is not None:
        raise invalid(
            f"judge {base.name!r} judges sessions at the level {level!r}, and memalign learns of whole sessions; "
            "make it without session_level, and give traces a session of that level"
        )
    inference = inference_of(base)
    model = judge_model(base)
    with translated():
        return memalign.Judge(
            name=core_name(base.name),
            instructions=base.instructions,
            feedback_value_type=value_type,
            model=model,
            parameters={name: inference[name] for name in JUDGE_PARAMETERS if name in inference},
        )


def core_name(name: str) -> str:
    """The name of our judge for one of MLflow's, whose names may hold slashes and line breaks and be of any length."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", name.strip())[:100].strip()


def value_type_of(annotation: Any, spec: object = None) -> ValueType:
    """Our value type for MLflow's `feedback_value_type`; `spec` is one of ours to take in its place.

    MLflow's numbers have no bounds. Raises MlflowException (INVALID_PARAMETER_VALUE) for lists, dicts, optional values
    and all else that no label can be.
    """
    with translated():
        if spec is not None:
            return ValueType.of(spec)
        if annotation in (int, float):
            kind: Literal["int", "float"] = "int" if annotation is int else "float"
            return ValueType(kind=kind, low=-float(UNBOUNDED), high=float(UNBOUNDED))
        if get_origin(annotation) is Literal:
            return _choices(get_args(annotation))
        if get_origin(annotation) in (list, dict) or type(None) in get_args(annotation):
            raise invalid(
                f"feedback_value_type {annotation} cannot be aligned: a label is one value (bool, str, int, float or a "
                "Literal); make one judge for each value, and name a missing one, as in Literal['yes', 'no', 'none']"
            )
        return ValueType.of(annotation)


def _choices(choices: tuple[Any, ...]) -> ValueType:
    if set(choices) == {True, False} and all(isinstance(choice, bool) for choice in choices):
        return ValueType.of(bool)
    whole = sorted(
        choice for choice in choices if isinstance(choice, int) and not isinstance(choice, bool)
    )
    if len(whole) == len(choices) > 1 and whole == list(range(whole[0], whole[0] + len(whole))):
        return ValueType(kind="int", low=float(whole[0]), high=float(whole[-1]))
    return ValueType.of(Literal[tuple(str(choice) for choice in choices)])


def core_label(value_type: ValueType, value: Any) -> Any:
    """A label of MLflow's as ours: a number that is a choice, such as of Literal[1, 3, 9], is text in ours."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value_type.kind != "choice":
        return value
    return str(int(value) if value == value // 1 else value)  # a tracking server sends 3 as 3.0


def mlflow_label(annotation: Any, value: Any) -> Any:
    """Our label as MLflow's judge of that `feedback_value_type` gives it."""
    return next((choice for choice in get_args(annotation) if str(choice) == value), value)
