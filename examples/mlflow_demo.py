"""MLflow's MemAlign demo with one import changed; mlflow_demo.ipynb is this file, executed (notebook.py)."""

# %% [markdown]
# # MLflow's MemAlign demo, with one import changed
#
# Traces with an expert's feedback, align, judge, unalign, register, load, evaluate: MLflow's own workflow, with
# memalign behind it. What only memalign has is marked (memalign).
#
#     MEMALIGN_MODEL=openai:/gpt-4.1-mini python examples/mlflow_demo.py
#
# Without a model and a key it runs on the embedded model for several minutes. MLflow reads `MLFLOW_TRACKING_URI`;
# without it, all is in `./mlflow.db`. The outputs in the notebook are those of a scripted model, which learns at once.

# %%
import os
import warnings

import mlflow
from mlflow.entities import AssessmentSource
from mlflow.genai.judges import make_judge
from mlflow.genai.scorers import delete_scorer, get_scorer, list_scorers

# was: from mlflow.genai.judges.optimizers import MemAlignOptimizer
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.models import default_model_name

warnings.filterwarnings("ignore", module="mlflow")
mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"))
mlflow.set_experiment("memalign demo")
# MLflow writes the names of models with a slash.
MODEL = (default_model_name() or "local:qwen2.5-coder-1.5b").replace(":", ":/", 1)
print("model:", MODEL)

# %% [markdown]
# ## A judge
#
# It reads the inputs and outputs of a trace's root span.

# %%
judge = make_judge(
    name="send",
    instructions="Is this reply to a customer good enough to send?\n\nCustomer: {{ inputs }}\nReply: {{ outputs }}",
    model=MODEL,
    feedback_value_type=bool,
)

# %% [markdown]
# ## Traces, and what an expert says of them

# %%
REVIEWED = [  # what a customer wrote, the reply, whether the expert would send it, and why
    ("My parcel came in pieces and the party is tonight!", "Returns are free within 30 days.", False,
     "Correct, but cold: to an upset customer say sorry first, then act."),
    ("I am in tears, the ring is lost.", "The depot looks for it. Case 4711.", False,
     "To an upset customer say sorry first, then act."),
    ("I was charged twice, this is the third time!",
     "I am sorry for the trouble. The second charge is reversed today.", True, "Says sorry and says what happens."),
    ("Where do I change my address?", "Under Settings, Address.", True, "A calm question needs no sympathy."),
]  # fmt: skip
expert = AssessmentSource(source_type="HUMAN", source_id="ana@example.org")


def traced(customer: str, reply: str) -> str:
    """A trace of an app that answered a customer; its id."""
    with mlflow.start_span("support") as span:
        span.set_inputs({"message": customer})
        span.set_outputs(reply)
    mlflow.flush_trace_async_logging()
    return str(span.trace_id)


ids = [traced(customer, reply) for customer, reply, _, _ in REVIEWED]
for trace_id, (_, _, send, why) in zip(ids, REVIEWED, strict=True):
    mlflow.log_feedback(
        trace_id=trace_id, name="send", value=send, rationale=why, source=expert
    )
traces = [mlflow.get_trace(trace_id) for trace_id in ids]

# %% [markdown]
# ## Before: what the judge says of new replies

# %%
NEW = [
    ("The lamp arrived broken, I am furious!", "Please fill in form R-2."),
    ("Which sizes are there?", "S to XXL."),
]
new = [mlflow.get_trace(traced(*texts)) for texts in NEW]
# MLflow asks no model in this process; the aligned judge does.
for trace in [] if MODEL.startswith("local:") else new:
    feedback = judge(trace=trace)
    print("before:", feedback.value, "-", feedback.rationale)

# %% [markdown]
# ## Align

# %%
aligned = judge.align(traces=traces, optimizer=MemAlignOptimizer())
print("aligned:", aligned.alignment.summary)  # (memalign) what was learned, its cost
print(aligned.instructions)

# %% [markdown]
# ## After

# %%
for trace in new:
    feedback = aligned(trace=trace)
    print("after:", feedback.value, "-", feedback.rationale)
print(
    f"semantic memory {len(aligned._semantic_memory)}, episodic memory {len(aligned._episodic_memory)}"
)

# %% [markdown]
# ## Forget the first trace's feedback, and the guideline that came of it

# %%
less = aligned.unalign(traces=traces[:1])
print(
    f"semantic memory {len(less._semantic_memory)}, episodic memory {len(less._episodic_memory)}"
)

# %% [markdown]
# ## Register, load, judge again
#
# Plain MLflow loads a judge with the guidelines in its instructions; `load` gives the whole memory back.

# %%
less.register()
print("registered:", [scorer.name for scorer in list_scorers()])
print("in plain MLflow:", type(get_scorer(name="send")).__name__)
loaded = load("send")  # (memalign)
print("loaded:", loaded(trace=new[0]).value)
before = less.memalign_judge.memory.hash  # (memalign)
print("the same memory:", loaded.memalign_judge.memory.hash == before)  # (memalign)

# %% [markdown]
# ## Evaluate

# %%
rows = [{"inputs": {"message": customer}, "outputs": reply} for customer, reply in NEW]
result = mlflow.genai.evaluate(data=rows, scorers=[loaded])
print(f"evaluated {len(result.result_df)} rows:", result.metrics)

# %%
delete_scorer(name="send", version="all")
print("registered:", [scorer.name for scorer in list_scorers()])
