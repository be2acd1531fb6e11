"""DSPy's optimizers of prompts, used as their documentation shows: MIPROv2 and GEPA with `auto="light"`, and SIMBA.

The judge is a chain of thought over the case's fields that ends in a value; the metric is agreement with the expert,
and GEPA gets the expert's words with it. SIMBA has no "light": its defaults hold, with a batch of as many cases as there
are when they are fewer than its 32.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, Literal

FIELDS = {
    "inputs": "What was given.",
    "outputs": "What is judged.",
    "expectations": "The reference.",
    "conversation": "The conversation.",
    "trace": "The trace.",
}

Judge = Callable[[dict[str, Any]], dict[str, Any]]


def learn(request: dict[str, Any]) -> tuple[dict[str, Any], Judge]:
    """Optimize the judge on the request's rows; facts about the result, and the judge."""
    # The checker does not see the other environment.
    import dspy  # type: ignore[import-not-found,unused-ignore]

    # Answers from its own caches would be missing in the count of calls.
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    # The key is the endpoint's, which asks for none.
    access = {"api_base": request["base_url"], "api_key": "not-needed", "cache": False}
    model = f"openai/{request['model']}"
    dspy.configure(lm=dspy.LM(model, temperature=0.0, **access))
    reflection = dspy.LM(model, temperature=1.0, **access)  # as GEPA's documentation has it

    examples = _examples(dspy, request["rows"])
    names = [name for name in FIELDS if f"{{{{ {name} }}}}" in request["instructions"]]
    program = dspy.ChainOfThought(_signature(dspy, request, names))
    started = time.perf_counter()
    if examples:
        train = [example.with_inputs(*names) for example in examples]
        program = _optimize(dspy, request, program, train, reflection)
    seconds = time.perf_counter() - started

    state = program.dump_state()
    predictor = program.predictors()[0]
    facts = {
        "fingerprint": hashlib.sha256(
            json.dumps([dspy.__version__, model, state], sort_keys=True, default=str).encode()
        ).hexdigest()[:16],
        "counts": {
            "examples": len(predictor.demos),
            "instruction_words": len(predictor.signature.instructions.split()),
        },
        "seconds": seconds,
    }

    def ask(fields: dict[str, Any]) -> dict[str, Any]:
        answer = program(**{name: _text(fields.get(name)) for name in names})
        return {"value": answer.value, "rationale": answer.reasoning}

    return facts, ask


def _optimize(dspy: Any, request: dict[str, Any], program: Any, train: list[Any], reflection: Any) -> Any:
    threads, seed = request["workers"], request["seed"]
    match request["method"]:
        case "miprov2":
            optimizer = dspy.MIPROv2(metric=_agrees, auto="light", num_threads=threads, seed=seed)
            return optimizer.compile(program, trainset=train)  # it splits a validation set off by itself
        case "simba":
            optimizer = dspy.SIMBA(metric=_agrees, bsize=min(32, len(train)), num_threads=threads)
            return optimizer.compile(program, trainset=train, seed=seed)
        case "gepa":

            def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
                del trace, pred_name, pred_trace
                return dspy.Prediction(score=_agrees(gold, pred), feedback=_feedback(gold, pred))

            optimizer = dspy.GEPA(metric=metric, auto="light", reflection_lm=reflection, num_threads=threads, seed=seed)
            # "Provide separate trainset and valset"; its tutorials halve. Too few to halve serve as both.
            half = len(train) // 2
            if half < 5:
                return optimizer.compile(program, trainset=train)
            return optimizer.compile(program, trainset=train[:half], valset=train[half:])
        case other:
            raise ValueError(f"no optimizer {other!r}: miprov2, simba, gepa")


def _agrees(gold: Any, answer: Any, _trace: Any = None) -> float:
    return float(getattr(answer, "value", None) == gold.value)


def _feedback(gold: Any, answer: Any) -> str:
    verdict = "right" if _agrees(gold, answer) else f"wrong: the expert says {gold.value}"
    return f"The value is {verdict}. The expert's reason: {gold.said}" if gold.said else f"The value is {verdict}."


def _examples(dspy: Any, rows: list[dict[str, Any]]) -> list[Any]:
    """An example a case, with the label that its annotations agreed on and all their words."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["id"], []).append(row)
    return [
        dspy.Example(
            **{name: _text(said[0].get(name)) for name in FIELDS if said[0].get(name) is not None},
            value=said[0]["label"],
            said=" ".join(row["rationale"] for row in said if row.get("rationale")),
        )
        for said in cases.values()
    ]


def _signature(dspy: Any, request: dict[str, Any], names: list[str]) -> Any:
    values = request["values"]
    kind = values["kind"]
    if kind == "bool":
        annotation: Any = bool
    elif kind in ("choice", "int") and values["labels"]:
        annotation = Literal[tuple(values["labels"])]
    elif kind in ("int", "float"):
        annotation = int if kind == "int" else float
    else:
        raise ValueError(f"values of kind {kind!r} cannot be compared with an expert's: give choices or numbers")
    fields: dict[str, Any] = {name: (str, dspy.InputField(desc=FIELDS[name])) for name in names}
    fields["value"] = (annotation, dspy.OutputField(desc="The verdict."))
    return dspy.make_signature(fields, request["instructions"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
