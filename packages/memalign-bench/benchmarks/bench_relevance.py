"""What past cases say of an item's label, without a language model: the evidence for how neighbours are chosen.

    python benchmarks/bench_relevance.py FOLDER [--tasks a,b] [--memory 50] [--splits 8] [--json FILE]

FOLDER is in the format of `memalign bench run --data`. In every split `--memory` cases of each task are drawn as taught, and
up to 200 others (of other groups, where the task has groups enough) look up their nearest. First, by cosine of the in-process
embedder: how often the labels of an item and one of its five nearest agree, in points above two cases drawn blindly, and
the number of pairs. Then, by way of choosing: how often the majority of the k chosen (ties: the first chosen) has the item's
label, plain cosine in per cent and the others in points beside it, with 95 % intervals from resampling groups (else cases);
all tasks together count alike. Embeds each case once; a minute or two.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from memalign import aio
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign_bench.data.folder import load_folder
from memalign_bench.tasks import Case, Task

EDGES = (-1.0, 0.3, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.01)
NEAREST, ITEMS, CASES = 5, 200, 600
KS = (1, 3, 5)
RESAMPLED = 2_000


# -- ways to choose: each gives the order in which taught cases are taken, of shape (items, memory or KS[-1]) --------------


def by_score(scores: np.ndarray) -> np.ndarray:
    """The best score first."""
    return np.argsort(-scores, axis=1, kind="stable")


def bm25(items: np.ndarray, taught: np.ndarray, k1: float = 1.2, b: float = 0.75) -> np.ndarray:
    """Okapi BM25 of every item (its words, each once) and every taught case, from counts of words; (items, memory)."""
    held = (taught > 0).sum(axis=0)
    idf = np.log(1 + (len(taught) - held + 0.5) / (held + 0.5))
    length = taught.sum(axis=1, keepdims=True)
    weights = idf * taught * (k1 + 1) / (taught + k1 * (1 - b + b * length / length.mean()))
    scores: np.ndarray = (items > 0).astype(np.float32) @ weights.T
    return scores


def fused(*scores: np.ndarray) -> np.ndarray:
    """Reciprocal rank fusion (Cormack et al. 2009) of several scores."""
    ranks = [np.argsort(by_score(each), axis=1) for each in scores]
    return by_score(sum((1 / (60 + 1 + rank) for rank in ranks), np.zeros(scores[0].shape)))


def diverse(cosines: np.ndarray, among: np.ndarray, weight: float) -> np.ndarray:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): near the item, and unlike what was chosen before."""
    chosen = np.empty((len(cosines), KS[-1]), dtype=int)
    for row, near in enumerate(cosines):
        worth, likeness = near.copy(), np.zeros(len(near))
        for place in range(KS[-1]):
            best = chosen[row, place] = int(np.argmax(worth))
            likeness = among[best] if place == 0 else np.maximum(likeness, among[best])
            worth = weight * near - (1 - weight) * likeness
            worth[chosen[row, : place + 1]] = -np.inf
    return chosen


def ways(cosines: np.ndarray, among: np.ndarray, words: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Every way to choose, by name; the first is what the others are held against."""
    yield "cosine", by_score(cosines)
    yield "BM25", by_score(words)
    yield "BM25 and cosine", fused(cosines, words)
    yield "MMR 0.7", diverse(cosines, among, 0.7)
    yield "MMR 0.5", diverse(cosines, among, 0.5)


# -- measuring ------------------------------------------------------------------------------------------------------------


class Measured:
    """One task: pairs (cosine, agreement above chance), and by way and k who was told the right label."""

    def __init__(self, task: Task, *, memory: int, splits: int) -> None:
        cases = task.cases[:CASES]
        texts = [embedding_text(case.example) for case in cases]
        self._labels = np.array([str(case.label) for case in cases])
        self._vectors = aio.run(resolve_embedding(None).embed(texts))
        self._counts = _counts(texts)
        self._chance = sum((count / len(cases)) ** 2 for count in Counter(self._labels.tolist()).values())
        self.pairs = np.empty((0, 2))
        self.right: dict[tuple[str, int], list[tuple[str, bool]]] = {}
        rng = np.random.default_rng(0)
        for _ in range(splits):
            self._measure(*_split(rng, cases, memory, by_row=task.by_row), [_of(case, task) for case in cases])

    def _measure(self, taught: np.ndarray, items: np.ndarray, clusters: list[str]) -> None:
        labels, vectors = self._labels, self._vectors
        cosines, among = vectors[items] @ vectors[taught].T, vectors[taught] @ vectors[taught].T
        for name, order in ways(cosines, among, bm25(self._counts[items], self._counts[taught])):
            if name == "cosine":
                near = order[:, :NEAREST]
                agree = (labels[taught][near] == labels[items][:, None]) - self._chance
                both = np.stack([np.take_along_axis(cosines, near, axis=1), agree], axis=-1)
                self.pairs = np.concatenate([self.pairs, both.reshape(-1, 2)])
            for k in KS:
                told = (_majority(labels[taught[chosen[:k]]].tolist()) for chosen in order)
                right = [(clusters[item], said == labels[item]) for item, said in zip(items, told, strict=True)]
                self.right.setdefault((name, k), []).extend(right)

    def shares(self, name: str, k: int, rng: np.random.Generator) -> np.ndarray:
        """The share told right by cosine (first) and the gain of `name`, as measured and RESAMPLED times; (2, 1 + times)."""
        base, other = self.right["cosine", k], self.right[name, k]
        places = {cluster: place for place, cluster in enumerate(dict.fromkeys(cluster for cluster, _ in base))}
        sums = np.zeros((3, len(places)))
        for (cluster, one), (_, two) in zip(base, other, strict=True):
            sums[:, places[cluster]] += (1, one, float(two) - one)
        drawn = rng.multinomial(len(places), np.full(len(places), 1 / len(places)), size=RESAMPLED)
        total, right, gain = sums @ np.concatenate([np.ones((1, len(places))), drawn]).T
        shares: np.ndarray = np.stack([right, gain]) / total
        return shares


def _counts(texts: list[str]) -> np.ndarray:
    words = [Counter(re.findall(r"\w+", text.casefold())) for text in texts]
    places = {word: place for place, word in enumerate(dict.fromkeys(word for each in words for word in each))}
    counts = np.zeros((len(texts), len(places)), dtype=np.float32)
    for row, each in enumerate(words):
        for word, count in each.items():
            counts[row, places[word]] = count
    return counts


def _split(
    rng: np.random.Generator, cases: tuple[Case, ...], memory: int, *, by_row: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the taught cases and of the items, no group on both sides unless the task is split by row."""
    drawn = rng.permutation(len(cases))
    if by_row:
        return drawn[:memory], drawn[memory : memory + ITEMS]
    turn = {group: place for place, group in enumerate(dict.fromkeys(cases[n].group for n in drawn))}
    drawn = np.array(sorted(drawn, key=lambda n: turn[cases[n].group]))
    seen = {cases[n].group for n in drawn[:memory]}
    return drawn[:memory], np.array([n for n in drawn[memory:] if cases[n].group not in seen][:ITEMS])


def _of(case: Case, task: Task) -> str:
    return case.id if task.by_row else case.group


def _majority(labels: list[str]) -> str:
    counts = Counter(labels)
    return max(counts, key=lambda label: counts[label])  # of equally many the first chosen


# -- printing -------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Print both tables, one line a task and all tasks together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", default="ukp_convincing,averitec,financebench,hotpotqa,saf,hhh,shepherd_justified")
    parser.add_argument("--memory", type=int, default=50)
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tasks = load_folder(args.folder, tuple(args.tasks.split(",")))
    found = {task.name: Measured(task, memory=args.memory, splits=args.splits) for task in tasks}
    print("| task | " + " | ".join(f"from {low:g}" for low in EDGES[:-1]) + " |\n|---|" + "---:|" * (len(EDGES) - 1))
    for name, each in found.items():
        print(_relevance(name, each.pairs))
    print(_relevance("together", np.concatenate([each.pairs for each in found.values()])))
    names = list(dict.fromkeys(name for name, _ in next(iter(found.values())).right))
    table = [line for k in KS for line in _compared(found, k, names)]
    print("\n| k | task | n | " + " | ".join(names) + " |\n|---:|---|---:|" + "---:|" * len(names))
    for line in table:
        cells = (
            f"{100 * line[name][0]:.1f} %"
            if name == "cosine"
            else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * part for part in line[name]))
            for name in names
        )
        print(f"| {line['k']} | {line['task']} | {line['n']:,} | " + " | ".join(cells) + " |")
    if args.json:
        settings = {"memory": args.memory, "splits": args.splits}
        args.json.write_text(json.dumps(settings | {"ways": table}, indent=1) + "\n", "utf-8")


def _compared(found: Mapping[str, Measured], k: int, names: list[str]) -> Iterator[dict[str, Any]]:
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in names}
    n = {task: len(each.right["cosine", k]) for task, each in found.items()}
    for task, each in found.items():
        for name in names:
            # The same draws for every way, so that their intervals are of one sample.
            shares = each.shares(name, k, np.random.default_rng(1))
            drawn[name].append(shares[0 if name == "cosine" else 1])
        yield {"k": k, "task": task, "n": n[task], **{name: _interval(drawn[name][-1]) for name in names}}
    together = {name: _interval(np.mean(each, axis=0)) for name, each in drawn.items()}
    yield {"k": k, "task": "together", "n": sum(n.values()), **together}


def _interval(drawn: np.ndarray) -> list[float]:
    low, high = np.quantile(drawn[1:], [0.025, 0.975])
    return [round(float(part), 4) for part in (drawn[0], low, high)]


def _relevance(name: str, pairs: np.ndarray) -> str:
    cells = []
    for low, high in pairwise(EDGES):
        inside = pairs[(pairs[:, 0] >= low) & (pairs[:, 0] < high), 1]
        cells.append(f"{100 * inside.mean():+.0f} ({len(inside):,})" if len(inside) >= 40 else "")
    return f"| {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
