"""Does a similar case say anything of an item's label? Without a language model: the evidence for the relevance floor.

    python benchmarks/bench_relevance.py FOLDER [--tasks a,b] [--memory 50] [--splits 8]

FOLDER is in the format of `memalign bench run --data`. For each task, `--memory` cases are drawn as taught, and up to 200
others look up their five nearest by the in-process embedder. Printed by cosine: how often the two labels agree, in points
above the agreement of two cases drawn blindly, and the number of pairs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

from memalign import aio
from memalign.bench.data.folder import load_folder
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding

EDGES = (-1.0, 0.3, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.01)
NEAREST, ITEMS, CASES = 5, 200, 600


def agreement(folder: Path, task: str, *, memory: int, splits: int) -> tuple[np.ndarray, float]:
    """Pairs of (cosine, whether the labels agree), of shape (pairs, 2), and the chance that two cases agree."""
    cases = load_folder(folder, (task,))[0].cases[:CASES]
    labels = np.array([str(case.label) for case in cases])
    vectors = aio.run(resolve_embedding(None).embed([embedding_text(case.example) for case in cases]))
    chance = sum((count / len(labels)) ** 2 for count in Counter(labels).values())
    rng, pairs = np.random.default_rng(0), []
    for _ in range(splits):
        drawn = rng.permutation(len(cases))
        taught = drawn[:memory]
        for item in drawn[memory : memory + ITEMS]:
            cosines = vectors[taught] @ vectors[item]
            nearest = np.argsort(-cosines)[:NEAREST]
            pairs += [(cosines[n], labels[taught[n]] == labels[item]) for n in nearest]
    return np.array(pairs, dtype=float).reshape(-1, 2), chance


def main() -> None:
    """Print one line a task, and all tasks together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", default="ukp_convincing,averitec,financebench,hotpotqa,saf,hhh,shepherd_justified")
    parser.add_argument("--memory", type=int, default=50)
    parser.add_argument("--splits", type=int, default=8)
    args = parser.parse_args()
    pooled: list[np.ndarray] = []
    print("| task | " + " | ".join(f"from {low:g}" for low in EDGES[:-1]) + " |\n|---|" + "---:|" * (len(EDGES) - 1))
    for task in args.tasks.split(","):
        pairs, chance = agreement(args.folder, task, memory=args.memory, splits=args.splits)
        pairs[:, 1] -= chance
        pooled.append(pairs)
        print(_line(task, pairs))
    print(_line("together", np.concatenate(pooled)))


def _line(name: str, pairs: np.ndarray) -> str:
    cells = []
    for low, high in pairwise(EDGES):
        inside = pairs[(pairs[:, 0] >= low) & (pairs[:, 0] < high), 1]
        cells.append(f"{100 * inside.mean():+.0f} ({len(inside):,})" if len(inside) >= 40 else "")
    return f"| {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
