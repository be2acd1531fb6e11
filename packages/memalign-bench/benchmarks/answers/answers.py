"""Ask a model every question about every item, for a study.

    python -m benchmarks.answers.answers STEP --data DATA --answers ANSWERS TASK ...

Steps, in this order: `distil` writes questions from the comments of the pool (distil_<task>.json), `ask --part P` answers
them (q_<task>.json, m_P_<task>.jsonl), `verdicts` judges every item without memory (v_<task>.json); `--part S` is for the
items kept for the end. Then keep.py. Stopped at any moment, `ask` and `verdicts` go on where they were; `distil` begins a
task anew. What engine.py needs must be there.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.answers.engine import END, Engine
from benchmarks.answers.keep import MODEL, checks_of

from memalign import Judge, aio
from memalign.content import sides_of
from memalign.errors import InputError
from memalign.models.base import Limits
from memalign.prompts import DistilRecord, encode, render_distil_checks
from memalign_bench.data.folder import load_folder
from memalign_bench.tasks import Case, Task

if TYPE_CHECKING:
    import torch

ITEMS = 100
"""In each part; a task that has too few is all pool."""
QUESTIONS = 24
"""Of a task. A draw may use those of its own rows, and a judgment asks eight."""
COMMENT = 900
"""Characters of an expert's words."""
BATCH = 16
"""Items that are judged together."""
SYSTEM = "Answer the question about the item with yes or no."


class Named:
    """What a judge must know of the model to write its prompt, without the model."""

    name = MODEL
    limits = Limits(context_tokens=8192, shard_size=1, concurrency=1, examples=3, brief=True, probabilities=True)


def parts_of(task: Task, answers: Path) -> dict[str, list[Case]]:
    """The pool P and the items S kept for the end; drawn once, and kept in splits.json."""
    path = answers / "splits.json"
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if task.name not in kept:
        try:
            split = task.split(seed=0, train=ITEMS, test=ITEMS)
            kept[task.name] = {"P": [case.id for case in split.train], "S": [case.id for case in split.test]}
        except InputError:
            kept[task.name] = {"P": [case.id for case in task.cases], "S": []}
        path.write_text(json.dumps(kept), "utf-8")
    by_id = {case.id: case for case in task.cases}
    return {part: [by_id[name] for name in kept[task.name][part]] for part in ("P", "S")}


def fields(case: Case, limit: int, outputs: Any = None) -> str:
    """The item as text; long texts lose their middle."""
    example = case.example
    shown = {"inputs": example.inputs, "outputs": outputs or example.outputs, "expectations": example.expectations}
    return "\n".join(
        f"{name}: {json.dumps(cut(value, limit), ensure_ascii=False)}"
        for name, value in shown.items()
        if value is not None
    )


def cut(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return f"{value[: limit * 2 // 3]} … {value[-(limit // 3) :]}"
    if isinstance(value, list):
        return [cut(each, limit // max(1, len(value)) + 200) for each in value]
    return {name: cut(each, limit) for name, each in value.items()} if isinstance(value, dict) else value


def text_writer(engine: Engine, out: list[int], most: int) -> Callable[[torch.Tensor], int | None]:
    """The likeliest tokens, until the JSON or the room ends."""

    def step(logits: torch.Tensor) -> int | None:
        token = int(logits.argmax())
        ended = engine.tokens.decode(out[-4:]).rstrip().endswith("]}")
        if ended or token == engine.eos or len(out) >= most:
            return None
        out.append(token)
        return token

    return step


def verdict_writer(engine: Engine, labels: list[Any], found: list[float]) -> Callable[[torch.Tensor], int | None]:
    """A rationale of up to 240 characters, then the value; of its first token the log-probability of each label."""
    quoted, words = isinstance(labels[0], str), list[int]()
    forced: list[int] | None = None
    first = [engine.ids(label if quoted else json.dumps(label))[0] for label in labels]

    def step(logits: torch.Tensor) -> int | None:
        nonlocal forced
        if forced is None:
            token = int(logits.argmax())
            said = engine.tokens.decode([*words, token])
            if not ('"' in said or len(said) >= 240 or token == engine.eos or len(words) >= 70):
                words.append(token)
                return token
            forced = engine.ids('","value":"' if quoted else '","value":')
        if forced:
            return forced.pop(0)
        found.extend(logits[first].log_softmax(0).tolist())
        return None

    return step


def distil(engine: Engine, task: Task, answers: Path) -> None:
    """Questions of every comment of the pool, in the prompt of a weak model's checks."""
    rows = [(case, row) for case in parts_of(task, answers)["P"] for row in case.feedback if row.rationale]
    if not rows:
        return
    prompts = [
        render_distil_checks(
            instructions=task.criterion,
            value_type=task.value_type,
            record=DistilRecord(
                label="F1",
                fields=(),
                judge=None,
                judge_rationale=None,
                value=None if row.value is None else encode(row.value),
                rationale=encode((row.rationale or "")[:COMMENT]),
            ),
            rule="",
        )
        for _, row in rows
    ]
    start = '{"checks": ['
    out: list[list[int]] = [[] for _ in rows]
    users = [f"{user}{END}{start}" for _, user in prompts]
    engine.write(prompts[0][0], users, [text_writer(engine, each, 110) for each in out], batch=32)
    written = [
        {"id": case.id, "value": row.value, "out": start + engine.tokens.decode(tokens)}
        for (case, row), tokens in zip(rows, out, strict=True)
    ]
    (answers / f"distil_{task.name}.json").write_text(json.dumps(written, ensure_ascii=False, indent=1), "utf-8")


def ask(engine: Engine, task: Task, answers: Path, part: str) -> None:
    """Every question about every item of the part; of pairs about each side alone."""
    items, choices = parts_of(task, answers), task.value_type.choices
    pair = all(len(sides_of(case.example.content, choices)) == 2 for case in task.cases)
    distilled = json.loads((answers / f"distil_{task.name}.json").read_text("utf-8"))
    random.Random(f"q-{task.name}").shuffle(distilled)
    written = [[words for words, _ in checks_of(row, pair=pair)] for row in distilled]
    # First one question of every row, then the others: so many rows have one.
    order = [words for place in range(3) for row in written for words in row[place : place + 1]]
    asked = list(dict.fromkeys(order))[:QUESTIONS]
    (answers / f"q_{task.name}.json").write_text(json.dumps(asked, ensure_ascii=False, indent=1), "utf-8")
    path = answers / f"m_{part}_{task.name}.jsonl"
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        done = {json.loads(line)["u"] for line in file}
        for case in items[part]:
            for unit, side in [(f"{case.id}#{side}", side) for side in choices if pair] or [(case.id, "")]:
                if unit in done:
                    continue
                text = fields(case, 4000, case.example.outputs[side] if side else None)
                margins = engine.margins(SYSTEM, f"<<<\n{text}\n>>>\n", asked)
                file.write(json.dumps({"u": unit, "m": [round(each, 3) for each in margins]}) + "\n")
                file.flush()


def verdicts(engine: Engine, task: Task, answers: Path, part: str) -> None:
    """The zero-shot judge's verdict on every item of the part, in memalign's own prompt."""
    path = answers / f"v_{task.name}.json"
    said = json.loads(path.read_text("utf-8")) if path.exists() else []
    done = {row["id"] for row in said}
    cases = [case for case in parts_of(task, answers)[part] if case.id not in done]
    judge = Judge(name=task.name, feedback_value_type=task.values, model=Named(), instructions=task.instructions)  # type: ignore[arg-type]
    for start in range(0, len(cases), BATCH):
        some = cases[start : start + BATCH]
        requests = [aio.run(judge.prepare(case.example)).request for case in some]
        users = [f'{request.user[:7000]}{END}{{"rationale":"' for request in requests]
        found: list[list[float]] = [[] for _ in some]
        writers = [verdict_writer(engine, list(task.value_type.labels), each) for each in found]
        engine.write(requests[0].system, users, writers)
        said += [{"id": case.id, "lp": chances} for case, chances in zip(some, found, strict=True)]
        path.write_text(json.dumps(said), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("distil", "ask", "verdicts"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--part", choices=("P", "S"), default="P")
    parser.add_argument("tasks", nargs="+")
    given = parser.parse_args()
    given.answers.mkdir(parents=True, exist_ok=True)
    engine = Engine(MODEL)
    for task in load_folder(given.data, tuple(given.tasks)):
        match given.step:
            case "distil":
                distil(engine, task, given.answers)
            case "ask":
                ask(engine, task, given.answers, given.part)
            case "verdicts":
                verdicts(engine, task, given.answers, given.part)
        print(task.name, given.step, "done", flush=True)


if __name__ == "__main__":
    main()
