"""What the stable prefix is worth: consecutive judgments of one memory on llama.cpp, with its prompt cache and without.

    python benchmarks/bench_cache.py                                            30 judgments of each kind
    python benchmarks/bench_cache.py --model local:qwen2.5-coder-1.5b -n 100 --json results/cache.json

The judge has twelve guidelines and 100 cases, of which the model's budget lets nine and two in; items are new to it. `zero-shot` is the same judge without
its memory. `MLflow's order` is that of MLflow's MemAlign (similar cases before guidelines), with the same words. `no cache`
begins each system message with another number, so that no prefix is ever met again. Only the verdict is asked for (a few tokens), so
that the time is that of reading the prompt. Medians a judgment, by the clock and of processor: only the second compares where other work
takes more or less of the machine. Fails nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from bench_memory import INSTRUCTIONS, NAME, made, rows  # type: ignore[import-not-found]  # beside this file

import memalign as ma
from memalign.models import resolve
from memalign.models.base import ChatModel, ChatReply, ChatRequest, Limits

ORDERS = ("zero-shot", "memalign", "MLflow's order", "no cache")
CASES = 100


class Reordered:
    """A model that is asked the same words in another order."""

    def __init__(self, model: ChatModel, order: str) -> None:
        self._model, self._order, self._numbers = model, order, count()

    @property
    def name(self) -> str:
        """The model's own."""
        return self._model.name

    @property
    def limits(self) -> Limits:
        """The model's own; one that is shown similar cases."""
        return msgspec.structs.replace(self._model.limits, examples=3)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Ask the model, with the prompt in this order."""
        system, user = request.system, request.user
        if self._order == "no cache":
            system = f"{next(self._numbers):06}\n{system}"
        elif self._order == "MLflow's order":
            head, mark, guidelines = system.partition("# Guidelines from experts")
            cases, now, item = user.partition("Now judge this item:")
            system, user = f"{head}{cases}{mark}{guidelines}", f"{now}{item}"
        return await self._model.complete(msgspec.structs.replace(request, system=system, user=user))


def measure(model: ChatModel, order: str, n: int) -> dict[str, Any]:
    """Medians and sums over `n` consecutive judgments."""
    base = ma.Judge(
        name=NAME,
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model=Reordered(model, order),
        parameters={"verdict": "direct"},
    )
    judge = base if order == "zero-shot" else made(base, rows(CASES))
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(n + 1, start=2 * 10**6)]
    used, processor = [], []
    for item in items:
        started = time.process_time()
        used.append(asyncio.run(judge.ajudge(**item)).usage)
        processor.append(time.process_time() - started)
    used, processor = used[1:], processor[1:]  # the first reads the prefix
    return {
        "order": order,
        "n": n,
        "input_tokens": round(statistics.median(each.input_tokens for each in used)),
        "cached_share": sum(each.cached_tokens for each in used) / sum(each.input_tokens for each in used),
        "seconds": round(statistics.median(each.seconds["model"] for each in used), 2),
        "processor": round(statistics.median(processor), 2),
    }


def main() -> None:
    """Measure every kind and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:qwen2.5-coder-0.5b")
    parser.add_argument("-n", type=int, default=30)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    model = resolve(args.model)
    found = []
    print("| kind | n | prompt tokens | from cache | seconds | of processor |\n|---|---:|---:|---:|---:|---:|")
    for order in ORDERS:
        found.append(each := measure(model, order, args.n))
        share, seconds = f"{each['cached_share']:.0%}", f"{each['seconds']:.1f} | {each['processor']:.1f}"
        print(f"| {order} | {each['n']} | {each['input_tokens']:,} | {share} | {seconds} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"model": args.model, "orders": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
