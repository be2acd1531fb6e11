"""MLflow's MemAlign demo with one import changed: traces, feedback, align, unalign, register, evaluate.

    pip install "memalign[mlflow]"
    python examples/mlflow_demo.py --model openai:/gpt-4.1-mini
    python examples/mlflow_demo.py --model local:/qwen2.5-coder-1.5b --tracking-uri http://127.0.0.1:5000

Without --tracking-uri everything is kept in ./mlflow.db. What only memalign has is marked (memalign).
"""

from __future__ import annotations

import argparse
import warnings

import mlflow
from mlflow.entities import AssessmentSource
from mlflow.genai.judges import make_judge
from mlflow.genai.scorers import delete_scorer, get_scorer, list_scorers

from memalign.integrations.mlflow import MemAlignOptimizer  # was: from mlflow.genai.judges.optimizers

INSTRUCTIONS = """Is this reply to a customer good enough to send?

Customer: {{ inputs }}
Reply: {{ outputs }}"""

REVIEWED = [  # what a customer wrote, the reply, whether an expert would send it, and why
    ("My parcel came in pieces and the party is tonight!", "Returns are free within 30 days.", False,
     "Correct, but cold: to an upset customer say sorry first, then act."),
    ("I am in tears, the ring is lost.", "The depot looks for it. Case 4711.", False,
     "To an upset customer say sorry first, then act."),
    ("I was charged twice, this is the third time!", "I am sorry for the trouble. The second charge is reversed today.", True,
     "Says sorry and says what happens."),
    ("Where do I change my address?", "Under Settings, Address.", True, "A calm question needs no sympathy."),
]  # fmt: skip
NEW = [
    ("The lamp arrived broken, I am furious!", "Please fill in form R-2."),
    ("Which sizes are there?", "S to XXL."),
]


def main() -> None:
    """Run the demo, one printed line a step."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="openai:/gpt-4.1-mini")
    parser.add_argument("--tracking-uri", default="sqlite:///mlflow.db")
    parser.add_argument("--base-url", help="of an OpenAI-compatible server")
    parser.add_argument("--rows", type=int, default=2, help="rows of the evaluation")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", module="mlflow")
    mlflow.set_tracking_uri(given.tracking_uri)
    mlflow.set_experiment("memalign demo")

    judge = make_judge(
        name="send",
        instructions=INSTRUCTIONS,
        model=given.model,
        base_url=given.base_url,
        feedback_value_type=bool,
    )
    ids = [traced(customer, reply) for customer, reply, _, _ in REVIEWED]
    for trace_id, (_, _, send, why) in zip(ids, REVIEWED, strict=True):
        expert = AssessmentSource(source_type="HUMAN", source_id="ana@example.org")
        mlflow.log_feedback(trace_id=trace_id, name="send", value=send, rationale=why, source=expert)
    traces = [mlflow.get_trace(trace_id) for trace_id in ids]

    if not given.model.startswith("local:"):  # MLflow itself cannot ask the embedded model
        print("before:", verdicts(judge))
    aligned = judge.align(traces=traces, optimizer=MemAlignOptimizer())
    print("aligned:", aligned.alignment)  # (memalign) what became of every piece of feedback, and what it cost
    print(aligned.instructions)
    print("after:", verdicts(aligned))
    print(f"semantic memory {len(aligned._semantic_memory)}, episodic memory {len(aligned._episodic_memory)}")  # noqa: SLF001

    less = aligned.unalign(traces=traces[:1])
    print(f"without the first trace: {len(less._episodic_memory)} episodes")  # noqa: SLF001

    less.register()
    print("registered:", [scorer.name for scorer in list_scorers()])
    loaded = get_scorer(name="send")
    print("loaded:", verdicts(loaded), "of memory", loaded.memalign_judge.memory.hash)  # (memalign) the whole memory

    rows = [{"inputs": {"message": NEW[n % 2][0]}, "outputs": NEW[n % 2][1]} for n in range(given.rows)]
    result = mlflow.genai.evaluate(data=rows, scorers=[loaded])
    print(f"evaluated {len(result.result_df)} rows:", result.metrics)

    delete_scorer(name="send", version="all")
    print("registered:", [scorer.name for scorer in list_scorers()])


def traced(customer: str, reply: str) -> str:
    """A trace of an app that answered a customer; its id."""
    with mlflow.start_span("support") as span:
        span.set_inputs({"message": customer})
        span.set_outputs(reply)
    mlflow.flush_trace_async_logging()
    return str(span.trace_id)


def verdicts(judge: object) -> list[object]:
    """What a judge says of the new replies, each from its trace."""
    return [judge(trace=mlflow.get_trace(traced(*each))).value for each in NEW]  # type: ignore[operator]


if __name__ == "__main__":
    main()
