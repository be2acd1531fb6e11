"""How well a model says what two guidelines are to each other: 24 pairs of our own, eight of each verdict.

    python benchmarks/bench_relations.py local:qwen2.5-coder-1.5b

Prints every answer, the share that is right, and seconds a pair. Chance is one in three. A model that calls unrelated
rules the same hides lessons, which is worse than showing one twice; so `false same` is counted apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from memalign import Judge, aio
from memalign.align.consolidate import relations_request, verdicts_of
from memalign.models import resolve
from memalign.types import Guideline

PAIRS = {
    "same": (
        (
            "When a customer is angry and the reply starts with rules: false.",
            "When the customer is upset and the reply opens with policy instead of reassurance: false.",
        ),
        (
            "When a refund is asked for, the reply must name the date on which the money arrives.",
            "When somebody wants their money back and the reply does not say when it comes: false.",
        ),
        ("When the reply is longer than the question needs: false.", "When an answer is needlessly long: false."),
        (
            "When SQL reads a table that the question does not mention: false.",
            "When the query uses tables other than those asked about: false.",
        ),
        (
            "When a summary leaves out who does what until when: false.",
            "When the minutes name no person and no deadline for a task: false.",
        ),
        (
            "When medical advice is given without telling the person to see a doctor: false.",
            "When a reply on a health problem does not point to a physician: false.",
        ),
        (
            "When the answer repeats the question before it answers: false.",
            "When a reply begins by saying again what was asked: false.",
        ),
        (
            "When the code is right and has a comment that says why: true.",
            "When correct code explains its reason in a comment: true.",
        ),
    ),
    "contradicts": (
        (
            "When the customer is angry, an apology comes first: true.",
            "When the customer is angry and the reply begins with an apology: false.",
        ),
        ("When the answer cites no source: false.", "When the answer cites no source but is right: true."),
        (
            "When the reply is short and direct: true.",
            "When the reply is short and direct: false, it lacks warmth.",
        ),
        (
            "When a minor asks for doses of a medicine and the reply gives them: false.",
            "When a minor asks for doses of a medicine and the reply gives them with a warning: true.",
        ),
        (
            "When the query selects every column: false.",
            "When the query selects every column of a small table: true.",
        ),
        (
            "When a translation keeps the sentence order of the original: true.",
            "When a translation keeps the original's order of sentences: false.",
        ),
        (
            "When the reply addresses the customer by first name: true.",
            "When a reply uses the customer's first name: false, it is too familiar.",
        ),
        (
            "When the plan has no budget: false.",
            "When a plan has no budget because none was asked for: true.",
        ),
    ),
    "unrelated": (
        (
            "When a customer is angry and the reply starts with rules: false.",
            "When a customer is angry and asks for a manager, the reply must give a name.",
        ),
        (
            "When SQL reads a table that the question does not mention: false.",
            "When SQL selects every column though one was asked for: false.",
        ),
        (
            "When a refund is asked for, the reply must name the date on which the money arrives.",
            "When a refund is asked for after 30 days, the reply must say that it is too late.",
        ),
        (
            "When the reply is longer than the question needs: false.",
            "When the reply uses technical terms without explaining them: false.",
        ),
        (
            "When a summary leaves out who does what until when: false.",
            "When a summary adds what was not said in the meeting: false.",
        ),
        (
            "When medical advice is given without telling the person to see a doctor: false.",
            "When medical advice names a brand: false.",
        ),
        (
            "When a debate is about school uniforms: the preferred argument gives facts.",
            "When a debate is about school uniforms: the preferred argument stays polite.",
        ),
        (
            "When the code has no test: false.",
            "When the code has a test that cannot fail: false.",
        ),
    ),
}


def main() -> None:
    """Ask, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    model = resolve(args.model)
    judge = Judge(name="pairs", instructions="Is the reply good?\n{{ outputs }}", feedback_value_type=bool, model=model)
    found: list[tuple[str, str, float]] = []

    async def ask() -> None:
        for wanted, pairs in PAIRS.items():
            for texts in pairs:
                pair = (Guideline(id="G1", text=texts[0]), Guideline(id="G2", text=texts[1]))
                started = time.perf_counter()
                reply = await model.complete(relations_request(judge, [pair]))
                said = verdicts_of(reply.data, [pair]).get(("G1", "G2"), "no verdict")
                found.append((wanted, said, time.perf_counter() - started))
                if not args.json:
                    print(f"{wanted:12} {said:12} {texts[0]}  |  {texts[1]}", flush=True)

    aio.run(ask())
    right = sum(wanted == said for wanted, said, _ in found)
    false_same = sum(said == "same" and wanted != "same" for wanted, said, _ in found)
    facts = {
        "model": model.name,
        "pairs": len(found),
        "right": right,
        "false_same": false_same,
        "seconds_a_pair": round(statistics.median(seconds for *_, seconds in found), 2),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
