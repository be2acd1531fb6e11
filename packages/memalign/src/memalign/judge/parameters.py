"""The parameters of a judge: what may be set, and to what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memalign.errors import InputError
from memalign.judge.open_model import checked_models
from memalign.models.resolve import canonical_name
from memalign.values import ValueType

__all__ = ["OF_MODELS", "SAID_BESIDE", "SAMPLING_TEMPERATURE", "checked_parameters"]

SAMPLING_TEMPERATURE = 0.7
"""At which samples are drawn unless the judge says otherwise: at 0 they would all be the same."""

_KNOWN = {  # whether it is a whole number, the least, the most
    "temperature": (False, 0, 2),
    "max_tokens": (True, 1, 10**6),
    "seed": (True, -(2**63), 2**63),
    "timeout": (False, 0, 10**6),
    "samples": (True, 1, 100),
    "trace_tool_calls": (True, 0, 100),
}
_SAYS = {
    "swap": (True, False),
    "calibrate": (True, False),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh"),
}

SAID_BESIDE = frozenset({"calibrate"})
"""Parameters that change nothing of the verdict itself: a pre-alignment verdict made without them is as good."""


OF_MODELS = frozenset({"models", "reflection_model"})
"""Parameters that change no verdict: how the models are reached, what they cost, and who writes the guidelines."""


def checked_parameters(parameters: Mapping[str, Any], value_type: ValueType) -> dict[str, Any]:
    """`parameters`, checked; a copy, since the caller's own may change later. Raises InputError with what is allowed."""
    if not isinstance(parameters, Mapping):
        raise InputError(f"parameters={parameters!r}: they are a mapping such as {{'seed': 7}}")
    parameters = dict(parameters)
    if "models" in parameters:
        parameters["models"] = checked_models(parameters["models"])
    for key, value in parameters.items():
        if key == "reflection_model":
            if not isinstance(value, str):
                raise InputError(f"parameter reflection_model={value!r}: it is the name of a model")
            parameters = {**parameters, key: canonical_name(value)}
        elif key == "models":
            continue
        elif key in _SAYS:
            if value not in _SAYS[key] or isinstance(value, bool) != isinstance(_SAYS[key][0], bool):
                allowed = " or ".join(str(one).lower() for one in _SAYS[key])
                raise InputError(f"parameter {key}={value!r}: it is {allowed}")
        elif key not in _KNOWN:
            raise InputError(
                f"parameter {key}={value!r}: parameters are {', '.join((*_KNOWN, *_SAYS, *sorted(OF_MODELS)))}"
            )
        else:
            whole, least, most = _KNOWN[key]
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else int | float)
                or not least <= value <= most
            ):
                what = "a whole number" if whole else "a number"
                raise InputError(f"parameter {key}={value!r}: it is {what} from {least} to {most}")
    if parameters.get("swap") and value_type.kind != "choice":
        raise InputError("parameter swap=True: only a judge that chooses between two sides, such as A|B, can swap them")
    if parameters.get("calibrate") and not value_type.closed:
        raise InputError("parameter calibrate=True: free text has no labels that a calibrator could be fitted on")
    if parameters.get("samples", 1) > 1 and parameters.get("temperature") == 0:
        raise InputError("parameter samples: at temperature 0 all samples are the same; leave temperature out")
    return parameters
