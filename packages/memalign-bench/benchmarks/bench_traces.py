"""Does a judge find in a long trace what its outline does not show? Right verdicts with tool calls and without, and their cost.

Each trace is a support agent's run of some eighty spans: the customer asks for a sum back in the root span, and one span
among them, `payments.refund`, pays a sum. In half of the traces it is another sum. The outline names that span and not
what it holds, so a judge that may not look can only guess.

    python benchmarks/bench_traces.py --model local:qwen2.5-coder-1.5b -n 8

A small MEMALIGN_LOCAL_CONTEXT (4096) makes the outline short and the run on two cores bearable.
"""

from __future__ import annotations

import argparse
import random
import re
from typing import Any

import memalign as ma

INSTRUCTIONS = (
    "A support agent's run is in {{ trace }}. The customer asks for a sum back in the root span; the span payments.refund pays. "
    "Did the agent pay exactly the sum that the customer asked for?"
)
STEPS = ("crm.lookup", "orders.search", "policy.retrieve", "llm.plan", "tickets.note", "mail.draft")


def trace(number: int, *, spans: int) -> tuple[list[dict[str, Any]], bool]:
    """A run of `spans` steps below a root, and whether the sum paid is the sum asked for. The same number, the same run."""
    dice = random.Random(number)
    asked, paid_right = dice.randrange(20, 400), number % 2 == 0
    paid = asked if paid_right else asked + dice.choice((-15, 9, 30))
    at = dice.randrange(spans // 4, spans - 5)
    run: list[dict[str, Any]] = [
        {"span_id": "root", "name": "support.agent", "inputs": f"Please pay me back {asked} euros for order {1000 + number}.",
         "outputs": "Your refund is on its way."}
    ]  # fmt: skip
    for step in range(spans):
        name = "payments.refund" if step == at else dice.choice(STEPS)
        held = (
            ({"order": 1000 + number, "euros": paid}, {"status": "paid"})
            if step == at
            else ({"query": f"order {dice.randrange(1000, 1100)} step {step}"}, {"found": dice.randrange(9)})
        )
        run.append({"span_id": f"s{step}", "parent_id": "root", "name": name, "inputs": held[0], "outputs": held[1]})
    return run, paid_right


def main() -> None:
    """Judge every trace with tool calls and with its outline alone, and print both beside each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="for example local:qwen2.5-coder-1.5b")
    parser.add_argument("-n", type=int, default=8, help="traces (8); half of them pay what was asked")
    parser.add_argument("--spans", type=int, default=80, help="spans of each (80)")
    parser.add_argument("--tool-calls", type=int, default=4, help="tool calls allowed (4)")
    options = parser.parse_args()
    judge = ma.Judge(name="refund", feedback_value_type=bool, model=options.model, instructions=INSTRUCTIONS)
    for tool_calls in (0, options.tool_calls):
        right = yes = taken = found = tokens = failed = 0
        seconds = 0.0
        for number in range(options.n):
            spans, label = trace(number, spans=options.spans)
            [judgment] = judge.replace(parameters={"trace_tool_calls": tool_calls}).judge_many(
                [ma.Example(id=f"t{number}", trace=spans)], concurrency=1
            )
            notes = [note for note in judgment.notes if note.startswith("tool call ")]
            # In prompts the spans are S1, S2, … in their order.
            at = 1 + next(place for place, span in enumerate(spans) if span["name"] == "payments.refund")
            right, yes = right + (judgment.value is label), yes + (judgment.value is True)
            taken, failed = taken + len(notes), failed + (judgment.error is not None)
            found += any(re.search(rf"\bS{at}\b", note) or "refund" in note for note in notes)
            tokens += judgment.usage.input_tokens
            seconds += judgment.usage.seconds.get("model", 0.0) + judgment.usage.seconds.get("trace_tools", 0.0)
            print(
                f"  tool_calls={tool_calls} trace {number}: {judgment.value} (right: {label}) {notes} {judgment.error or ''}",
                flush=True,
            )
        n = options.n
        print(
            f"tool_calls={tool_calls}: {right} of {n} right, {yes} yes, {failed} failed; {taken / n:.1f} tool calls, that span read in {found}; "
            f"{tokens / n:,.0f} prompt tokens and {seconds / n:.1f} s a judgment",
            flush=True,
        )


if __name__ == "__main__":
    main()
