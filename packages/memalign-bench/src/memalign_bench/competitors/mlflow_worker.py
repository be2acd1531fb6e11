"""MLflow's own MemAlign, used as its documentation shows: traces with people's assessments, `judge.align`, `judge(…)`.

Its defaults are kept. Set are only: the model's temperature where it judges, so that all methods judge at the same one; and
the model's context window where the price list it looks into does not know the model, since it packs its distillation
prompts by that and would send prompts of 128,000 tokens to a model of 8,192.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, Literal

FIELDS = ("inputs", "outputs", "expectations")

Judge = Callable[[dict[str, Any]], dict[str, Any]]


def learn(request: dict[str, Any]) -> tuple[dict[str, Any], Judge]:
    """Align on the request's rows; facts about the result, and the aligned judge."""
    # The checker does not see the other environment.
    import dspy  # type: ignore[import-not-found,unused-ignore]
    import mlflow  # type: ignore[import-not-found,unused-ignore]
    from mlflow.genai.judges import make_judge  # type: ignore[import-not-found,unused-ignore]
    from mlflow.genai.judges.optimizers import MemAlignOptimizer  # type: ignore[import-not-found,unused-ignore]

    # Its disk cache of embeddings has a key without the number of dimensions, and its cache of answers would hide calls
    # from the count: neither may answer here.
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    _tell_context(request["model"], request["context_tokens"])
    model = f"openai:/{request['model']}"
    base = make_judge(
        name=request["name"],
        instructions=request["instructions"],
        model=model,
        feedback_value_type=value_type(request["values"]),
        inference_params={"temperature": 0.0},
    )
    rows = [row for row in request["rows"] if row.get("value") is not None]  # an assessment there has a value
    judge: Any = base
    traces = traces_of(mlflow, request["name"], rows)
    started = time.perf_counter()
    if traces:
        optimizer = MemAlignOptimizer(reflection_lm=model, retrieval_k=5, embedding_model="openai:/embedding")
        judge = base.align(traces, optimizer)
    seconds = time.perf_counter() - started
    guidelines = [each.guideline_text for each in getattr(judge, "_semantic_memory", [])]
    examples = len(getattr(judge, "_episodic_memory", []))
    state = [mlflow.__version__, request["instructions"], request["values"], model, guidelines, rows]
    facts = {
        "fingerprint": hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16],
        "counts": {
            "guidelines": len(guidelines),
            "examples": examples,
            "without_value": len(request["rows"]) - len(rows),
        },
        "seconds": seconds,
    }
    named = [field for field in FIELDS if field in {each.name for each in base.get_input_fields()}]

    def ask(fields: dict[str, Any]) -> dict[str, Any]:
        given = {name: fields[name] for name in named if name in fields}
        if "expectations" in given:
            given["expectations"] = expectations(given["expectations"])
        feedback = judge(**given)
        if feedback.error is not None:
            return {"error": f"{feedback.error.error_code}: {feedback.error.error_message}"[:600]}
        return {"value": feedback.value, "rationale": feedback.rationale}

    return facts, ask


def value_type(values: dict[str, Any]) -> Any:
    """The annotation that MLflow constrains its judge with."""
    kind = values["kind"]
    if kind == "bool":
        return bool
    if kind in ("choice", "int") and values["labels"]:
        return Literal[tuple(values["labels"])]
    if kind in ("int", "float"):
        return int if kind == "int" else float
    raise ValueError(f"values of kind {kind!r} cannot be compared with an expert's: give choices or numbers")


def expectations(value: Any) -> dict[str, Any]:
    """What MLflow takes: a dictionary; a plain reference goes under the name that its own documentation uses."""
    return value if isinstance(value, dict) else {"expected_response": value}


def _tell_context(model: str, tokens: int) -> None:
    import litellm  # type: ignore[import-not-found,unused-ignore]

    try:
        known = litellm.get_model_info(f"openai/{model}")
    except Exception:  # noqa: BLE001  # it raises a plain Exception for a model that it does not know
        known = None
    if not known:
        entry = {"max_input_tokens": tokens, "max_tokens": tokens, "litellm_provider": "openai", "mode": "chat"}
        litellm.register_model({f"openai/{model}": entry})


def traces_of(mlflow: Any, name: str, rows: list[dict[str, Any]]) -> list[Any]:
    """The rows as people's assessments on logged traces, one trace a case."""
    from mlflow.entities import AssessmentSource  # type: ignore[import-not-found,unused-ignore]

    ids: dict[str, str] = {}
    for row in rows:
        if row["id"] not in ids:
            with mlflow.start_span(name="case") as span:
                span.set_inputs(row.get("inputs"))
                span.set_outputs(row.get("outputs"))
            ids[row["id"]] = trace_id = span.trace_id
            person = AssessmentSource(source_type="HUMAN", source_id=row["source"])
            for key, value in expectations(row["expectations"]).items() if row.get("expectations") is not None else ():
                mlflow.log_expectation(trace_id=trace_id, name=key, value=value, source=person)
        mlflow.log_feedback(
            trace_id=ids[row["id"]],
            name=name,
            value=row["value"],
            rationale=row.get("rationale"),
            source=AssessmentSource(source_type="HUMAN", source_id=row["source"]),
        )
    return [mlflow.get_trace(trace_id) for trace_id in ids.values()]
