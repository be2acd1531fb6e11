"""MLflow's MemAlign and DSPy's GEPA for scale.py.

They run in an environment of their own:

    python -m venv .competitors
    .competitors/bin/pip install mlflow==3.17.2 dspy==3.4.1 gepa==0.1.4

A JSON line in gets a JSON line out: the first sets up a method with its rows, those after it name
what to do. Each is used as its documentation shows, with its defaults (`light` where there is a
choice). GEPA learns from the label and the expert's comment as outputs of an example; its metric is
agreement with the label, and its feedback is the comment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import dspy

Row = dict[str, Any]
WARM = {
    "inputs": "Case 9. I need it this week.",
    "outputs": "Thank you for writing to us.",
}


class MemAlign:
    """MLflow's; the rows are logged as traces with people's assessments before any clock."""

    def __init__(self, setup: Row) -> None:
        from mlflow.genai.judges import make_judge
        from mlflow.genai.judges.optimizers import MemAlignOptimizer

        model = f"openai:/{setup['model']}"
        self.judge = make_judge(
            name="house",
            model=model,
            instructions=setup["instructions"],
            feedback_value_type=bool,
        )
        self.optimizer = MemAlignOptimizer(
            reflection_lm=model, embedding_model="openai:/text-embedding-3-small"
        )
        self.traces = [_trace(row) for row in setup["rows"]]
        warmed = self.judge.align(self.traces[:2], self.optimizer)
        warmed(**WARM)

    def align(self, first: int, end: int) -> None:
        """Learn some of the traces."""
        traces = self.traces[first:end]
        self.judge = self.judge.align(traces, self.optimizer)

    def withdraw(self, place: int) -> None:
        """Forget one."""
        trace = self.traces[place]
        self.judge = self.judge.unalign([trace])

    def __call__(self, item: Row) -> Any:
        """Return the verdict; None if there is none."""
        feedback = self.judge(**item)
        if feedback.error is not None:
            return None
        return feedback.value


def _trace(row: Row) -> Any:
    import mlflow
    from mlflow.entities import AssessmentSource

    with mlflow.start_span(name="case") as span:
        span.set_inputs(row["inputs"])
        span.set_outputs(row["outputs"])
    mlflow.log_feedback(
        trace_id=span.trace_id,
        name="house",
        source=AssessmentSource(source_type="HUMAN", source_id=row["source"]),
        value=row["value"],
        rationale=row["rationale"],
    )
    return mlflow.get_trace(span.trace_id)


class Gepa:
    """A program of DSPy that GEPA has compiled."""

    def __init__(self, setup: Row) -> None:
        import gepa  # noqa: F401  # what is loaded once is loaded before any clock

        self.threads = setup["threads"]
        self.name = f"openai/{setup['model']}"
        model = dspy.LM(self.name, temperature=0.0)
        dspy.configure(lm=model, num_threads=self.threads)
        fields: Row = {
            "inputs": (str, dspy.InputField()),
            "outputs": (str, dspy.InputField()),
            "rationale": (str, dspy.OutputField()),
            "result": (bool, dspy.OutputField()),
        }
        signature = dspy.Signature(fields, setup["instructions"])
        self.program = dspy.Predict(signature)
        self.examples = [_example(row) for row in setup["rows"]]
        self(WARM)

    def align(self, first: int, end: int) -> None:
        """Optimize on some of the examples."""
        optimizer = dspy.GEPA(
            metric=_scored,
            auto="light",
            reflection_lm=dspy.LM(self.name, temperature=1.0),
            num_threads=self.threads,
        )
        examples = self.examples[first:end]
        self.program = optimizer.compile(self.program, trainset=examples)

    def __call__(self, item: Row) -> Any:
        """Return the verdict."""
        return self.program(**item).result


def _example(row: Row) -> Any:
    example = dspy.Example(
        inputs=row["inputs"],
        outputs=row["outputs"],
        rationale=row["rationale"],
        result=row["value"],
    )
    return example.with_inputs("inputs", "outputs")


def _scored(
    gold: Any,
    pred: Any,
    trace: object = None,
    pred_name: object = None,
    pred_trace: object = None,
) -> Any:
    """Return the metric: whether the verdict is the expert's label, and their comment."""
    agrees = pred is not None and pred.result == gold.result
    return dspy.Prediction(score=float(agrees), feedback=gold.rationale)


def tried(method: Any, item: Row) -> Any:
    """Return a method's verdict on an item, or None if it fails, which is no reason to end."""
    try:
        return method(item)
    except Exception as error:  # noqa: BLE001  # whatever a provider or a parser of theirs raises
        print(error, file=sys.stderr)
        return None


def answered(method: Any, request: Row, threads: int) -> Row:
    """Do what a request asks, and return the seconds that it took and the verdicts."""
    started = time.perf_counter()
    if "align" in request:
        method.align(*request["align"])
    elif "withdraw" in request:
        method.withdraw(request["withdraw"])
    items = request.get("items", [])
    first = items[:1]  # alone, because it builds its memory
    verdicts = [tried(method, item) for item in first]
    with ThreadPoolExecutor(threads) as pool:
        verdicts += pool.map(tried, repeat(method), items[1:])
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "values": verdicts}


def main() -> None:
    """Serve until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    # In one run a repeated request is answered from memory.
    dspy.configure_cache(enable_disk_cache=False)
    setup = json.loads(sys.stdin.readline())
    chosen = Gepa if setup["method"] == "GEPA" else MemAlign
    method = chosen(setup)
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        reply = answered(method, request, setup["threads"])
        print(json.dumps(reply), file=replies, flush=True)
    os._exit(0)  # some libraries leave threads behind that wait for ever


if __name__ == "__main__":
    main()
