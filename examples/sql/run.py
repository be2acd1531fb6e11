"""SQL by house rules: certified view, no cancelled orders, currencies converted."""

from __future__ import annotations

import sys
from pathlib import Path

import memalign as ma

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from common import agreement, chosen_model, heading, line, progress  # noqa: E402  # it lies beside this folder


def main() -> None:
    """Judge, learn, judge again, forget."""
    judge = ma.Judge(
        name="sql",
        instructions=(
            "Does this query give the right answer to the question?\nQuestion: {{ inputs }}\nSQL: {{ outputs }}"
        ),
        feedback_value_type=bool,
        model=chosen_model(),
    )
    held_out = HERE / "held_out.jsonl"

    heading(
        "The judge before it has learned anything, on cases that it will never learn from"
    )
    before = ma.evaluate(judge, held_out, progress=progress)
    for miss in before.disagreements:
        print(
            f"{miss.id}: judge {miss.value}, experts {miss.label}. The judge says: {miss.rationale}"
        )

    heading("It learns from the experts")
    result = judge.align(HERE / "feedback.jsonl", progress=progress)
    print(result)
    for guideline in result.judge.memory.semantic:
        print(line(result.judge, guideline))

    heading("The same cases again")
    after = ma.evaluate(result.judge, held_out, progress=progress)
    print(
        f"Agreement with the experts: {agreement(before)} before, {agreement(after)} after"
    )
    print(ma.compare(before, after))

    heading(
        "q-3 is withdrawn: the case, mei's words, and every guideline written with them in the prompt"
    )
    forgotten = result.judge.unalign("q-3", progress=progress)
    print(forgotten)
    for guideline in forgotten.forgotten:
        print(f"forgotten: {line(result.judge, guideline)}")
    for guideline in forgotten.guidelines:
        print(f"learned again without it: {line(forgotten.judge, guideline)}")


if __name__ == "__main__":
    main()
