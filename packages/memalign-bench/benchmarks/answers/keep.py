"""Keep a model's answers as a study folder without any text: numbers, ids, and hashes of questions.

    python keep.py --data DATA --answers ANSWERS --out results/checks [--part P] [TASK ...]

DATA has tasks.toml and <task>.jsonl, ANSWERS what answers.py wrote: splits.json, q_<task>.json, distil_<task>.json,
m_<part>_<task>.jsonl, and v_<task>.json where verdicts were asked. Items that are not answered yet are left out: run it
again when more are. Only the part that is named is read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from memalign import aio
from memalign.content import sides_of
from memalign.io.atomic import atomic_write
from memalign.judge.features import plain_features
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.types import json_line
from memalign_bench.data.folder import load_folder
from memalign_bench.draws.study import FORMAT, Asked, Item, Question, TaskHeader, packed
from memalign_bench.tasks import Case, Task

MODEL = "local:qwen2.5-coder-1.5b"
SIDE = (
    "arg|argument|answer|candidate|comment|completion|option|output|post|reply|response|side|statement|text|version|one"
)
ONE = re.compile(rf"\b(?:{SIDE}) ([AB])\b")
NAMED = re.compile(rf"\b(?:the |The )?({SIDE}) [AB]\b")
WRITTEN = re.compile(r'\{"question":\s*"((?:[^"\\]|\\.)*)",\s*"answer":\s*"(yes|no)', re.IGNORECASE)
ABOUT_PEOPLE = re.compile(r"\b(expert|comment)('s)?\b", re.IGNORECASE)


def checks_of(row: dict[str, Any], *, pair: bool) -> list[tuple[str, Asked]]:
    """The usable questions of one distilled row; of pairs without the name of a side, and for the side that is better."""
    found: dict[str, Asked] = {}
    for question, answer in WRITTEN.findall(row["out"].partition('"checks"')[2])[:3]:
        words, yes = question.strip(), answer.lower() == "yes"
        if ABOUT_PEOPLE.search(words):
            continue
        if pair:
            named = set(ONE.findall(words))
            if len(named) == 2:
                continue
            if named and named != {row["value"]}:
                yes = not yes
            words = NAMED.sub(r"the \1", words)
        if 3 <= len(words.split()) <= 30 and words.endswith("?"):
            value = None if pair else row["value"]
            found.setdefault(words, Asked(item=row["id"], answer="yes" if yes else "no", value=value))
    return list(found.items())


def header_of(task: Task, answers: Path, sides: tuple[str, ...]) -> TaskHeader:
    """The task's header, its questions in the order in which they were asked."""
    asked: dict[str, list[Asked]] = {}
    for row in json.loads((answers / f"distil_{task.name}.json").read_text("utf-8")):
        for words, one in checks_of(row, pair=bool(sides)):
            asked.setdefault(words, []).append(one)
    order = json.loads((answers / f"q_{task.name}.json").read_text("utf-8"))
    vectors = aio.run(resolve_embedding(None).embed(order))
    questions = [
        Question(
            hash=hashlib.sha256(words.encode()).hexdigest()[:12],
            rows=tuple(asked[words]),
            near=tuple(round(max(float(near), 0.0) ** 2, 4) for near in vectors @ vector),
        )
        for words, vector in zip(order, vectors, strict=True)
    ]
    return TaskHeader(
        format=FORMAT,
        name=task.name,
        values=task.values,
        model=MODEL,
        sides=sides,
        licence=task.licence,
        questions=tuple(questions),
    )


def margins_of(path: Path, case: str, sides: tuple[str, ...], answered: dict[str, list[float]], n: int) -> Any:
    """The item's margins, a row a side; None where they are not all there. Raises SystemExit for too few in a line."""
    units = [f"{case}#{side}" for side in sides] or [case]
    if any(unit not in answered for unit in units):
        return None
    if any(len(answered[unit]) < n for unit in units):
        raise SystemExit(f"{path}: {case} has fewer answers than the {n} questions")
    return tuple(tuple(answered[unit][:n]) for unit in units)


async def items_of(task: Task, header: TaskHeader, answers: Path, part: str) -> list[Item]:
    """The part's items that every question was answered for."""
    split = json.loads((answers / "splits.json").read_text("utf-8")).get(task.name)
    by_id = {case.id: case for case in task.cases}
    wanted = list(by_id) if split is None and part == "P" else (split or {}).get(part, [])
    path = answers / f"m_{part}_{task.name}.jsonl"
    lines = [
        line for line in path.read_text("utf-8").split("\n")[:-1] if line
    ]  # a line that is being written has no end
    answered = {row["u"]: row["m"] for row in map(json.loads, lines)}
    verdicts: dict[str, list[float]] = {}
    if (said := answers / f"v_{task.name}.json").exists():
        kept = set(wanted)
        verdicts = {row["id"]: row["lp"] for row in json.loads(said.read_text("utf-8")) if row["id"] in kept}
    found: list[tuple[Case, Any]] = []
    for name in dict.fromkeys(wanted):
        margins = margins_of(path, name, header.sides, answered, len(header.questions))
        if margins is not None and name in by_id:
            found.append((by_id[name], margins))
    if not found:
        return []
    model = resolve_embedding(None)
    examples = [case.example for case, _ in found]
    plain = await plain_features(examples, task.value_type, model)
    vectors = await model.embed([embedding_text(each) for each in examples])
    return [
        Item(
            id=case.id,
            group=case.group,
            label=case.label,
            margins=margins,
            plain=(round(float(two[0]), 4), round(float(two[1]), 4)),
            verdict=tuple(round(p, 4) for p in verdicts[case.id]) if case.id in verdicts else None,
            vector=packed(vector),
        )
        for (case, margins), two, vector in zip(found, plain, vectors, strict=True)
    ]


def keep(task: Task, answers: Path, out: Path, part: str) -> str:
    """Write one task; what was written, in words."""
    choices = task.value_type.choices
    sided = {tuple(sides_of(case.example.content, choices)) for case in task.cases}
    sides = tuple(label for label in choices if all(label in each for each in sided))
    header = header_of(task, answers, sides if len(sides) == 2 else ())
    items = aio.run(items_of(task, header, answers, part))
    if not items:
        return f"{task.name} {part}: nothing is answered yet"
    folder = out / task.name
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "task.json") as file:
        file.write(json_line(header))
    with atomic_write(folder / f"{part}.jsonl") as file:
        file.writelines(map(json_line, items))
    judged = sum(item.verdict is not None for item in items)
    return f"{task.name} {part}: {len(items)} items, {judged} with a verdict, {len(header.questions)} questions"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=("P", "S"), default="P")
    parser.add_argument("tasks", nargs="*")
    given = parser.parse_args()
    there = [path.stem.removeprefix(f"m_{given.part}_") for path in given.answers.glob(f"m_{given.part}_*.jsonl")]
    for task in load_folder(given.data, tuple(given.tasks or sorted(there))):
        print(keep(task, given.answers, given.out, given.part), flush=True)


if __name__ == "__main__":
    main()
