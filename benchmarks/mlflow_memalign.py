"""MLflow's MemAlign for price.py, in an environment of its own: one JSON line in, one JSON line out.

    python -m venv .mlflow && .mlflow/bin/pip install mlflow==3.17.2 dspy==3.4.1 litellm==1.106.2

    {"op": "traces", "rows": […], …}       log the rows as traces with people's assessments; no clock
    {"op": "align", "first": A, "end": B}  align the judge on these traces, a new one where A is 0
    {"op": "judge", "fields": {…}}

It is used as its documentation shows, with its defaults; only its caches are off. Replies have `seconds`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


class Side:
    """What stays between requests."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.base: Any = None
        self.judge: Any = None
        self.optimizer: Any = None

    def do_traces(self, request: dict[str, Any]) -> dict[str, Any]:
        """Log the rows, and make the judge."""
        import dspy
        import mlflow
        from mlflow.genai.judges import make_judge
        from mlflow.genai.judges.optimizers import MemAlignOptimizer

        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)  # every align from nothing
        model = f"openai:/{request['model']}"
        self.base = make_judge(
            name=request["name"],
            instructions=request["instructions"],
            model=model,
            feedback_value_type=bool,
            inference_params={"temperature": 0.0},
        )
        self.optimizer = MemAlignOptimizer(reflection_lm=model, embedding_model=f"openai:/{request['embedding']}")
        self.traces = [_trace(mlflow, request["name"], row) for row in request["rows"]]
        return {"version": mlflow.__version__}

    def do_align(self, request: dict[str, Any]) -> dict[str, Any]:
        """Learn some of the traces."""
        base = self.judge if request["first"] else self.base
        self.judge = base.align(self.traces[request["first"] : request["end"]], self.optimizer)
        return {"guidelines": len(self.judge._semantic_memory)}

    def do_judge(self, request: dict[str, Any]) -> dict[str, Any]:
        """One judgment."""
        feedback = self.judge(**request["fields"])
        return {"error": feedback.error.error_message} if feedback.error is not None else {"value": feedback.value}


def _trace(mlflow: Any, name: str, row: dict[str, Any]) -> Any:
    from mlflow.entities import AssessmentSource

    with mlflow.start_span(name="case") as span:
        span.set_inputs(row["inputs"])
        span.set_outputs(row["outputs"])
    mlflow.log_feedback(
        trace_id=span.trace_id,
        name=name,
        value=row["value"],
        rationale=row["rationale"],
        source=AssessmentSource(source_type="HUMAN", source_id=row["source"]),
    )
    return mlflow.get_trace(span.trace_id)


def main() -> None:
    """Serve until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    side = Side()
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        try:
            reply = getattr(side, f"do_{request['op']}")(request)
        except Exception as error:  # noqa: BLE001  # whatever goes wrong in there is an answer about it
            reply = {"error": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps({"seconds": time.perf_counter() - started, **reply}), file=replies, flush=True)
    os._exit(0)  # it leaves threads behind, some of which wait for ever


if __name__ == "__main__":
    main()
