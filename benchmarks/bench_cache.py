"""What the stable prefix is worth: consecutive judgments of one memory on llama.cpp, with its prompt cache and without.

    python benchmarks/bench_cache.py                                            100 judgments, and 20 without the cache
    python benchmarks/bench_cache.py --model local:qwen2.5-coder-1.5b -n 30 --json docs/results/cache.json

The judge has forty guidelines and 200 cases; items are new to it. Without the cache means that each system message
begins with another number, so that no prefix is ever met again: a few tokens more, nothing else differs. `varying first`
is the order in which MLflow's MemAlign writes its prompt (similar cases before guidelines), with the same words.
Medians a judgment. Fails nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from bench_memory import INSTRUCTIONS, NAME, made, rows  # type: ignore[import-not-found]  # beside this file

import memalign as ma
from memalign.models import resolve
from memalign.models.base import ChatModel, ChatReply, ChatRequest, Limits

ORDERS = ("memalign", "varying first", "no cache")


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
        elif self._order == "varying first":
            head, mark, guidelines = system.partition("# Guidelines from experts")
            cases, now, item = user.partition("Now judge this item:")
            system, user = f"{head}{cases}{mark}{guidelines}", f"{now}{item}"
        return await self._model.complete(msgspec.structs.replace(request, system=system, user=user))


def measure(model: ChatModel, order: str, n: int) -> dict[str, Any]:
    """Medians and sums over `n` consecutive judgments."""
    base = ma.Judge(name=NAME, instructions=INSTRUCTIONS, feedback_value_type=bool, model=Reordered(model, order))
    judge = made(base, rows(200))
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(n + 1, start=2 * 10**6)]
    used = [asyncio.run(judge.ajudge(**item)).usage for item in items][1:]  # the first reads the prefix
    return {
        "order": order,
        "n": n,
        "input_tokens": round(statistics.median(each.input_tokens for each in used)),
        "cached_share": sum(each.cached_tokens for each in used) / sum(each.input_tokens for each in used),
        "seconds": round(statistics.median(each.seconds["model"] for each in used), 2),
    }


def main() -> None:
    """Measure the three orders and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:qwen2.5-coder-0.5b")
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    model = resolve(args.model)
    found = [measure(model, order, max(args.n // (1 if order == "memalign" else 5), 1)) for order in ORDERS]
    print("| order | n | prompt tokens | from cache | seconds |\n|---|---:|---:|---:|---:|")
    for each in found:
        share, seconds = f"{each['cached_share']:.0%}", f"{each['seconds']:.1f}"
        print(f"| {each['order']} | {each['n']} | {each['input_tokens']:,} | {share} | {seconds} |")
    if args.json:
        args.json.write_text(json.dumps({"model": args.model, "orders": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
