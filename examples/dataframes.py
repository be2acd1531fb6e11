"""From a DataFrame to an aligned judge to a DataFrame; dataframes.ipynb is this file, executed (notebook.py)."""

# %% [markdown]
# # From a DataFrame to an aligned judge, and back
#
# An airline's support team has replies in a table, and experts who say which ones they would not send. We make a judge,
# let it learn what they say, measure it on cases that it has not seen, and join its verdicts to the table.
#
#     pip install ./packages/memalign pandas
#     export OPENAI_API_KEY=…        # or any other provider's key
#
# Without a key it runs on the embedded model (`memalign models pull`), a weak and slow judge: several minutes.

# %%
import pandas as pd

import memalign as ma
from memalign.models import default_model_name

pd.set_option("display.max_colwidth", 60)
MODEL = default_model_name() or "local:qwen2.5-coder-1.5b"
print("model:", MODEL)

# %% [markdown]
# ## What the experts said
#
# A row is what one person said of one reply: a label (`value`), their words (`rationale`), or both. The columns may
# have any names: `Judge(columns={"outputs": "answer"})` says which is which.

# %%
feedback = pd.read_json("empathy/feedback.jsonl", lines=True)
held_out = pd.read_json("empathy/held_out.jsonl", lines=True)
feedback[["id", "source", "value", "inputs", "outputs", "rationale"]]

# %% [markdown]
# ## A judge
#
# The instructions name the columns that the model is shown.

# %%
judge = ma.Judge(
    name="send",
    instructions="Is this support reply good enough to send?\n\nCustomer: {{ inputs }}\nReply: {{ outputs }}",
    feedback_value_type=bool,
    model=MODEL,
)
judge

# %% [markdown]
# How well does it do what the experts would do, before it has learned anything? `held_out` has labels that the judge
# will never be taught.

# %%
before = ma.evaluate(judge, held_out)
before

# %% [markdown]
# ## It learns
#
# `align` takes the table as it is. Each guideline keeps the feedback that it comes from.

# %%
result = judge.align(feedback)
result

# %%
aligned = result.judge
aligned.memory.semantic

# %% [markdown]
# ## Is it better?
#
# Eight cases show how it works, not how well. The comparison says so.

# %%
after = ma.evaluate(aligned, held_out)
print(ma.compare(before, after))

# %%
cases = pd.DataFrame(
    {
        "label": [case.label for case in after.cases],
        "value": [case.value for case in after.cases],
    }
)
pd.crosstab(cases["label"], cases["value"], rownames=["people"], colnames=["judge"])

# %% [markdown]
# ## New replies, judged
#
# `judge_many` takes the table and keeps its order. With `out="judged.jsonl"` a stopped run goes on where it was.

# %%
new = held_out[["id", "inputs", "outputs"]]
judgments = aligned.judge_many(new)
judgments[0]

# %% [markdown]
# Each judgment has the id of its row, so the verdicts join the table.

# %%
verdicts = judgments.to_frame(["id", "value", "rationale", "guideline_ids", "cost"])
judged = new.merge(verdicts, on="id")
judged

# %% [markdown]
# ## What became of every piece of feedback

# %%
pd.DataFrame(
    [(str(entry.key), entry.state, entry.reason) for entry in aligned.memory.ledger()]
)

# %% [markdown]
# ## Ana changes her mind
#
# What came from that piece of feedback goes with it.

# %%
without = aligned.unalign("t-1@ana")
print(without)

# %% [markdown]
# ## Keep it

# %%
registry = ma.Registry("sqlite:///judges.db")
saved = registry.save(without.judge)
pd.DataFrame(
    [
        (version.number, version.action, version.summary)
        for version in registry.history("send")
    ]
)
