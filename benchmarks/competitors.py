"""MLflow's MemAlign and DSPy's MIPROv2, SIMBA and GEPA for scale.py and competence.py, in an environment of their own.

    python -m venv .competitors
    .competitors/bin/pip install mlflow==3.17.2 dspy==3.4.1 gepa==0.1.4 optuna==5.0.0

One JSON line in, one JSON line out: the first sets up a method with its rows, those after it name what to do. Each is
used as its documentation shows, with its defaults (`light` where there is a choice). DSPy's learn from the label and
the expert's comment as outputs of an example; the metric is agreement with the label, and GEPA's feedback the comment.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, Literal

import dspy

Row = dict[str, Any]
WARM = {"inputs": "Case 9. I need it this week.", "outputs": "Thank you for writing to us."}


class MemAlign:
    """MLflow's; the rows are logged as traces with people's assessments before any clock."""

    def __init__(self, setup: Row) -> None:
        from mlflow.genai.judges import make_judge
        from mlflow.genai.judges.optimizers import MemAlignOptimizer

        model, instructions = f"openai:/{setup['model']}", setup["instructions"]
        facts = {"instructions": instructions, "feedback_value_type": type_of(setup)}
        self.judge = make_judge(name="house", model=model, **facts)
        self.optimizer = MemAlignOptimizer(
            reflection_lm=model, embedding_model="openai:/text-embedding-3-small"
        )
        self.traces = [_trace(row) for row in setup["rows"]]
        if "values" not in setup:
            self.judge.align(self.traces[:2], self.optimizer)(**WARM)

    def align(self, first: int, end: int) -> None:
        """Learn some of the traces."""
        self.judge = self.judge.align(self.traces[first:end], self.optimizer)

    def withdraw(self, place: int) -> None:
        """Forget one."""
        self.judge = self.judge.unalign([self.traces[place]])

    def __call__(self, item: Row) -> Any:
        """Its verdict."""
        if "expectations" in item:
            item = item | {"expectations": {"expected_response": item["expectations"]}}
        feedback = self.judge(**item)
        return None if feedback.error is not None else feedback.value


class Optimized:
    """A program of DSPy that one of its optimizers has compiled."""

    def __init__(self, setup: Row) -> None:
        import gepa  # noqa: F401  # what is loaded once is loaded before any clock
        import optuna  # noqa: F401

        self.name, self.threads = setup["method"], setup["threads"]
        dspy.configure(
            lm=dspy.LM(f"openai/{setup['model']}", temperature=0.0), num_threads=self.threads
        )
        names = [name for name in ("inputs", "outputs", "expectations") if name in setup["rows"][0]]
        fields: Row = {name: (str, dspy.InputField()) for name in names}
        fields |= {
            "rationale": (str, dspy.OutputField()),
            "result": (type_of(setup), dspy.OutputField()),
        }
        self.program = dspy.Predict(dspy.Signature(fields, setup["instructions"]))
        self.examples = []
        for row in setup["rows"]:
            texts = {name: row[name] or "" for name in (*names, "rationale")}
            self.examples.append(dspy.Example(**texts, result=row["value"]).with_inputs(*names))
        if "values" not in setup:
            self(WARM)

    def align(self, first: int, end: int) -> None:
        """Optimize on the examples."""
        examples, threads = self.examples[first:end], self.threads
        if self.name == "MIPROv2":
            optimizer = dspy.MIPROv2(metric=agrees, auto="light", num_threads=threads)
        elif self.name == "SIMBA":
            optimizer = dspy.SIMBA(metric=agrees, bsize=min(32, len(examples)), num_threads=threads)
        else:
            lm = dspy.LM(dspy.settings.lm.model, temperature=1.0)
            optimizer = dspy.GEPA(
                metric=commented, auto="light", reflection_lm=lm, num_threads=threads
            )
        self.program = optimizer.compile(self.program, trainset=examples)

    def __call__(self, item: Row) -> Any:
        """Its verdict."""
        return self.program(**item).result


def type_of(setup: Row) -> Any:
    """The type of a verdict: of a flag such as `bool`, `int:1..5` or `A|B|tie`."""
    values = setup.get("values", "bool")
    return Literal[tuple(values.split("|"))] if "|" in values else bool if values == "bool" else int


def agrees(example: Any, prediction: Any, trace: object = None) -> bool:
    """The metric: the label is the expert's."""
    return prediction is not None and prediction.result == example.result


def commented(
    gold: Any, pred: Any, trace: object = None, pred_name: object = None, pred_trace: object = None
) -> Any:
    """The metric as GEPA wants it, with the expert's comment."""
    return dspy.Prediction(score=float(agrees(gold, pred)), feedback=gold.rationale)


def _trace(row: Row) -> Any:
    import mlflow
    from mlflow.entities import AssessmentSource

    with mlflow.start_span(name="case") as span:
        span.set_inputs(row["inputs"])
        span.set_outputs(row["outputs"])
    trace, source = span.trace_id, AssessmentSource(source_type="HUMAN", source_id=row["source"])
    if "expectations" in row:
        mlflow.log_expectation(
            trace_id=trace, source=source, name="expected_response", value=row["expectations"]
        )
    words = {"value": row["value"], "rationale": row["rationale"]}
    mlflow.log_feedback(trace_id=trace, name="house", source=source, **words)
    return mlflow.get_trace(trace)


def tried(method: Any, item: Row) -> Any:
    """A method's verdict on an item, or None where it fails, which is no reason to end."""
    try:
        return method(item)
    except Exception as error:  # noqa: BLE001  # whatever a provider or a parser of theirs raises
        print(error, file=sys.stderr)
        return None


def main() -> None:
    """Serve until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    dspy.configure_cache(
        enable_disk_cache=False
    )  # in one run a repeated request is answered from memory
    setup = json.loads(sys.stdin.readline())
    method: Any = (MemAlign if setup["method"].startswith("MLflow") else Optimized)(setup)
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        request, started = json.loads(line), time.perf_counter()
        if "align" in request:
            method.align(*request["align"])
        elif "withdraw" in request:
            method.withdraw(request["withdraw"])
        items = request.get("items", ())
        verdicts = [
            tried(method, item) for item in items[:1]
        ]  # alone: on first use it builds its memory
        with ThreadPoolExecutor(setup["threads"]) as pool:
            verdicts += pool.map(tried, repeat(method), items[1:])
        print(
            json.dumps({"seconds": time.perf_counter() - started, "values": verdicts}),
            file=replies,
            flush=True,
        )
    os._exit(0)  # some libraries leave threads behind that wait for ever


if __name__ == "__main__":
    main()
