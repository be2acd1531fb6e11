"""One judge before and after alignment on a real data set: `docs/results/first-run.md` was made with this.

    python benchmarks/first_run.py DATA.jsonl OUT_FOLDER [--model local:qwen2.5-coder-1.5b] [-k N] [--tag NAME]

50 rows teach, 100 others test, drawn with a fixed seed and split by `group`. Stopped, it resumes from OUT_FOLDER.
The folder also holds a memo of model calls, so that a changed stage repeats no other; it is not for publication.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import memalign as ma
from memalign.models import resolve
from memalign_bench.memo import Memo

INSTRUCTIONS = "Given only the evidence (question-answer pairs), is the claim supported?\nEvidence: {{ inputs }}\nClaim: {{ outputs }}"
VALUES = "Supported|Refuted|Not Enough Evidence|Conflicting Evidence/Cherrypicking"


def main() -> None:
    """Split, judge, align, judge again, compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("-k", type=int, help="similar cases shown; the default is the model's own")
    parser.add_argument("--tag", default="run", help="names what an alignment is kept under")
    parser.add_argument("--train", type=int, default=50)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    train, test = split(args.data, args.train, args.test, args.seed)

    model = Memo(resolve(args.model), args.out / "memo")
    judge = ma.Judge(name="averitec", instructions=INSTRUCTIONS, feedback_value_type=VALUES, model=model)
    bare = ma.evaluate(judge, test, out=args.out / "bare.jsonl", progress=show)
    report("bare", bare, args.out)

    registry = ma.Registry(f"sqlite:///{args.out / args.tag}.db")
    if "averitec" not in {summary.name for summary in registry.list()}:
        result = judge.align(train, progress=show)
        registry.save(result.judge)
        (args.out / f"align-{args.tag}.json").write_text(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
        print(f"\n{result}", flush=True)
    aligned = registry.load("averitec").replace(model=model, retrieval_k=args.k)
    name = f"aligned-{args.tag}" + (f"-k{args.k}" if args.k is not None else "")
    after = ma.evaluate(aligned, test, out=args.out / f"{name}.jsonl", progress=show)
    report(name, after, args.out)
    comparison = ma.compare(bare, after)
    print(f"\n{comparison}")


def split(path: Path, train: int, test: int, seed: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Rows to learn from and rows to be tested on; a group is on one side only."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    groups = sorted({row["group"] for row in rows})
    random.Random(seed).shuffle(groups)  # a split, not a secret
    rank = {group: position for position, group in enumerate(groups)}
    rows.sort(key=lambda row: (rank[row["group"]], row["id"]))
    cut = next(n for n in range(train, len(rows)) if rows[n]["group"] != rows[n - 1]["group"])
    return rows[:cut][:train], rows[cut : cut + test]


def report(name: str, evaluation: ma.Evaluation, out: Path) -> None:
    """Print an evaluation, and keep its figures."""
    print(f"\n== {name}\n{evaluation}", flush=True)
    (out / f"{name}.json").write_text(json.dumps(evaluation.to_dict(), indent=1, ensure_ascii=False))


def show(phase: str, done: int, total: int) -> None:
    """Progress on stderr, with the time of day."""
    print(f"\r{time.strftime('%H:%M:%S')} {phase} {done}/{total}   ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
