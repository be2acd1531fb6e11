"""MLflow's judges that can be aligned, the judge of ours that each becomes, and labels of both."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin

import memalign
from memalign.integrations.mlflow.errors import invalid, translated
from memalign.integrations.mlflow.routes import (
    JUDGE_PARAMETERS,
    inference_of,
    judge_model,
)
from memalign.values import ValueType

_logger = logging.getLogger(__name__)

# The variables of MLflow's own prompts, by our names of fields.
_FIELDS = {
    **dict.fromkeys(("input", "inputs"), "inputs"),
    **dict.fromkeys(("output", "outputs"), "outputs"),
    **dict.fromkeys(
        ("ground_truth", "expected_output", "expectations"), "expectations"
    ),
}
_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def base_of(judge: Any) -> Any:
    """Return MLflow's judge of instructions that stands for `judge`.

    It is itself, what MLflow's own optimizer aligned, or one with a built-in judge's criterion.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for any other judge.
    """
    from mlflow.genai.judges.instructions_judge import InstructionsJudge
    from mlflow.genai.scorers.builtin_scorers import BuiltInScorer

    if isinstance(judge, InstructionsJudge):
        return judge
    kind = type(judge).__name__
    if kind == "MemoryAugmentedJudge":  # to import its class would need DSPy
        _logger.warning(
            "judge %s: MLflow's memory stays there; "
            "guidelines are distilled again from these traces",
            judge.name,
        )
        return base_of(judge._base_judge)
    base = None
    if isinstance(judge, BuiltInScorer):
        # Neither judges of code nor several judges together have instructions.
        with suppress(AttributeError, NotImplementedError):
            made = getattr(judge, "_create_judge", None)
            base = _of_criterion(judge) if made is None else made()
    if base is None:
        raise invalid(
            f"{kind} cannot be aligned: it does not judge by instructions alone; make a judge with "
            "mlflow.genai.judges.make_judge"
        )
    base.aggregations = judge.aggregations  # MLflow's constructor took them only later
    return base


def _of_criterion(judge: Any) -> Any:
    """Return a judge with a built-in judge's criterion, or None if it judges more than fields."""
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
    """Return a built-in judge's instructions with our names of fields, or None if it has others."""
    text = str(judge.instructions)
    guidelines = getattr(judge, "guidelines", None)
    if guidelines:
        lines = [guidelines] if isinstance(guidelines, str) else guidelines
        # A guideline's own braces are no field of the item.
        listed = "\n".join(f"- {line}" for line in lines)
        listed = listed.replace("{{", "{ {").replace("}}", "} }")
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
    return text + "".join(
        f"\n{name.capitalize()}: {{{{ {name} }}}}" for name in missing
    )


def core_of(base: Any, value_type: ValueType) -> memalign.Judge:
    """Return our judge, without memory, of MLflow's judge of instructions.

    Raises MlflowException (INVALID_PARAMETER_VALUE) for a name, model or parameter that cannot be.
    """
    level = getattr(base, "session_level", None)
    if level is not None:
        raise invalid(
            f"judge {base.name!r} judges sessions at the level {level!r}, and memalign learns of "
            "whole sessions; make it without session_level, and give traces a session of that level"
        )
    inference = inference_of(base)
    model = judge_model(base)
    with translated():
        return memalign.Judge(
            name=core_name(base.name),
            instructions=base.instructions,
            feedback_value_type=value_type,
            model=model,
            parameters={
                name: inference[name] for name in JUDGE_PARAMETERS if name in inference
            },
        )


def core_name(name: str) -> str:
    """Return our judge's name for MLflow's, which may be long and hold slashes and line breaks."""
    return re.sub(r"[/\\\x00-\x1f\x7f]", "-", name.strip())[:100].strip()


def value_type_of(annotation: Any, spec: object = None) -> ValueType:
    """Return our value type for MLflow's `feedback_value_type`, whose numbers have no bounds.

    Args:
        annotation: MLflow's.
        spec: One of ours to take in its place.

    Raises:
        MlflowException: It is a list, a dict, an optional value, or whatever else no label can be
            (INVALID_PARAMETER_VALUE).
    """
    with translated():
        if spec is not None:
            return ValueType.of(spec)
        if annotation in (int, float):
            kind: Literal["int", "float"] = "int" if annotation is int else "float"
            return ValueType(kind=kind)
        if get_origin(annotation) is Literal:
            return _choices(get_args(annotation))
        if get_origin(annotation) in (list, dict) or type(None) in get_args(annotation):
            raise invalid(
                f"feedback_value_type {annotation} cannot be aligned: a label is one value (bool, "
                "str, int, float or a Literal); make one judge for each value, and name a missing "
                "one, as in Literal['yes', 'no', 'none']"
            )
        return ValueType.of(annotation)


def _choices(choices: tuple[Any, ...]) -> ValueType:
    """Return bool, a scale of whole numbers without gaps, or choices as texts."""
    kinds = {type(choice) for choice in choices}
    if kinds == {bool} and len(choices) == 2:
        return ValueType.of(bool)
    if kinds == {int}:
        low = min(choices)
        high = max(choices)
        if high > low and sorted(choices) == list(range(low, high + 1)):
            return ValueType(kind="int", low=float(low), high=float(high))
    return ValueType.of(Literal[tuple(str(choice) for choice in choices)])


def core_label(value_type: ValueType, value: Any) -> Any:
    """Return MLflow's label as ours, in which a number of Literal[1, 3, 9] is a text."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or value_type.kind != "choice":
        return value
    whole = value == value // 1
    return str(int(value) if whole else value)  # a tracking server sends 3 as 3.0


def mlflow_label(annotation: Any, value: Any) -> Any:
    """Return our label as MLflow's judge of that `feedback_value_type` gives it."""
    return next(
        (choice for choice in get_args(annotation) if str(choice) == value), value
    )
