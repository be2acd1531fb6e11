"""MLflow's MemAlign for `bench_scale.py`: one JSON line in, one JSON line out, in the competitors' environment.

    python -I benchmarks/scale_competitor.py src/memalign_bench/competitors/mlflow_worker.py

The traces, the judge and the optimizer are made as the benchmark's method makes them (that file). Here its steps can be
timed one by one, and one row can be added to what was learned:

    {"op": "traces", …the method's learn request}     log the rows as traces with assessments, and fetch them; no clock
    {"op": "align", "n": N}                        a new judge from the first N traces
    {"op": "more", "n": N}                         the judge of the last align, aligned on trace N (from 0) as well
    {"op": "judge", "fields": {…}}
    {"op": "close"}

Replies have `seconds` (wall) and `cpu` (this process, all threads).
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Competitor:
    """What is kept between requests."""

    def __init__(self, method: Path) -> None:
        spec = importlib.util.spec_from_file_location(method.stem, method)
        if spec is None or spec.loader is None:
            raise SystemExit(f"{method} is no Python file")
        self.method: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.method)
        self.traces: list[Any] = []
        self.base: Any = None
        self.judge: Any = None
        self.optimizer: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the request asks for, timed."""
        wall, cpu = time.perf_counter(), time.process_time()
        facts = getattr(self, f"do_{request['op']}")(request)
        return {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, **facts}

    def do_traces(self, request: dict[str, Any]) -> dict[str, Any]:
        """Log the rows; make the judge."""
        import dspy  # type: ignore[import-not-found,unused-ignore]
        import mlflow  # type: ignore[import-not-found,unused-ignore]
        from mlflow.genai.judges import make_judge  # type: ignore[import-not-found,unused-ignore]
        from mlflow.genai.judges.optimizers import MemAlignOptimizer  # type: ignore[import-not-found,unused-ignore]

        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)  # every align from nothing
        model = f"openai:/{request['model']}"
        self.base = self.judge = make_judge(
            name=request["name"],
            instructions=request["instructions"],
            model=model,
            feedback_value_type=self.method.value_type(request["values"]),
            inference_params={"temperature": 0.0},
        )
        self.optimizer = MemAlignOptimizer(reflection_lm=model, embedding_model=request["embedding"])
        imported = time.perf_counter()
        self.traces = self.method.traces_of(mlflow, request["name"], request["rows"])
        return {"logging": time.perf_counter() - imported, "version": mlflow.__version__}

    def do_align(self, request: dict[str, Any]) -> dict[str, Any]:
        """From nothing."""
        self.judge = self.base.align(self.traces[: request["n"]], self.optimizer)
        return self._learned()

    def do_more(self, request: dict[str, Any]) -> dict[str, Any]:
        """One trace more."""
        self.judge = self.judge.align([self.traces[request["n"]]], self.optimizer)
        return self._learned()

    def do_judge(self, request: dict[str, Any]) -> dict[str, Any]:
        """One judgment."""
        feedback = self.judge(**request["fields"])
        if feedback.error is not None:
            raise RuntimeError(feedback.error.error_message)
        return {"value": feedback.value}

    def do_close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Nothing is left to do."""
        del request
        return {}

    def _learned(self) -> dict[str, Any]:
        return {"guidelines": len(self.judge._semantic_memory), "examples": len(self.judge._episodic_memory)}  # noqa: SLF001


def main() -> None:
    """Serve until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    sys.stdout = sys.stderr
    competitor = Competitor(Path(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = competitor.answer(request)
        except Exception as error:  # noqa: BLE001  # whatever goes wrong inside a competitor is an answer about the competitor
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps(reply), file=replies, flush=True)
        if request["op"] == "close":
            break
    os._exit(0)  # competitors leave threads behind, some of which wait for ever


if __name__ == "__main__":
    main()
