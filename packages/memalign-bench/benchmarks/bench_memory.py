"""What a large memory costs: time, processor time, peak memory and bytes of the file, at 1,000 cases and more.

    python benchmarks/bench_memory.py                                            1,000 and 10,000 cases, some minutes
    python benchmarks/bench_memory.py --sizes 1000,10000,100000 --json results/memory.json

Judges are made as a team would make them: feedback of about 150 words a case, in two annotations on every fifth case, learned
with `align`. The model is scripted and answers at once, embeddings are the in-process embedder's, so what is measured is
memalign alone. From 50,000 cases on the memory is put together without `align`, which would take some ten minutes of
processor time; what happens to it then is real at every size. Each size runs in a process of its own, since peak memory never falls. Prints the tables of
`results/memory.md`, which says how to read them; fails nothing: a busy machine is not a regression.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import memalign as ma
from memalign.memory import Annotation, Case, PreAlignmentVerdict, Shard
from memalign.memory.retrieval import embedding_text
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.wordllama import WordLlamaEmbedding
from memalign.testing import Answer, ScriptedChatModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "helpfulness"
INSTRUCTIONS = "Is the reply helpful to the customer?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
SIZES = (1_000, 10_000)
GUIDELINES = 1_000  # the most that the scripted model writes: one for each shard of ten pieces of feedback until then
RUNS = 5
LONG = 15.0  # seconds of processor: what takes longer is measured once
JUDGED = 100
STATUSES = ("active", "demoted", "superseded", "retired")
ANCESTORS = 10  # versions that hold what is erased, at least
HUGE, FEW = 50_000, 2  # from so many cases on, so many versions: each takes a minute

VOCABULARY = (
    "parcel kettle invoice lamp subscription jacket router voucher bicycle account printer ticket warehouse courier "
    "refund charge delivery number address window manual cable battery screen filter handle order customer colleague "
    "manager weekend morning evening tomorrow yesterday already still never always often twice again later early "
    "please thank sorry glad happy annoyed certain unclear broken missing wrong late damaged heavy small large blue "
    "we you they it this that there here another every first second last next new old same other full half "
    "send call write ask answer return replace repair check confirm cancel promise explain find open close wait pay "
    "with without before after until because although when while if then about against between through during and or "
    "but so not only just even quite rather very money card bank account page form link list step reason date price"
)
WORDS = VOCABULARY.split()


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Feedback on cases `start` up to `start + count`: about 150 words each, the same every time, no two alike."""
    made = []
    for number in range(start, start + count):
        rng = random.Random(number)  # so that a row does not depend on how many there are
        case = {
            "id": f"t-{number:06}",
            "inputs": f"Order {10_000 + 7 * number}: {_sentence(rng, 45)}?",
            "outputs": f"About order {10_000 + 7 * number}: {_sentence(rng, 70)}.",
        }
        sources = ("ana", "ben") if number % 5 == 0 else (rng.choice(("ana", "ben", "chloe")),)
        label = rng.random() < 0.5
        made += [
            {**case, "value": label, "rationale": f"{_sentence(rng, 25)}.", "source": source} for source in sources
        ]
    return made


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize()


def _rule(rng: random.Random) -> str:
    return f"When {_sentence(rng, 12).lower()} unless {_sentence(rng, 10).lower()}."


class Model(ScriptedChatModel):
    """Answers at once: verdicts by the item's checksum, one rule for a shard while there are fewer than GUIDELINES."""

    def __init__(self) -> None:
        super().__init__(self._answer_to, name="scripted", limits=Limits())
        self.asked: Counter[str] = Counter()
        self._written = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The answer; prompts are not kept, for their gigabytes would count as memory's."""
        reply = await super().complete(request)
        del self.requests[:-1]
        return reply

    def _answer_to(self, request: ChatRequest) -> Answer:
        self.asked[request.schema_name] += 1
        rng = random.Random(zlib.crc32(request.user.encode()))
        if request.schema_name == "judgment":
            return {"rationale": _sentence(rng, 20), "value": rng.random() < 0.5}
        if request.schema_name != "changes":
            answer: dict[str, Any] = _least(request.schema)
            return answer
        labels = request.schema["properties"]["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
        change = {"action": "NOOP", "feedback": labels, "text": "", "guideline": ""}
        if self._written < GUIDELINES:
            self._written += 1
            change |= {"action": "ADD", "text": _rule(rng)}
        return {"changes": [change]}


def _least(schema: dict[str, Any]) -> Any:
    """The smallest value that a schema allows, for stages that ask something else: the last choice is the mildest."""
    if "enum" in schema:
        return schema["enum"][-1]
    empty: dict[str, Any] = {"array": [], "string": "", "boolean": False, "integer": 0, "number": 0.0}
    if schema.get("type") == "object":
        return {name: _least(part) for name, part in schema.get("properties", {}).items()}
    return empty[schema.get("type", "string")]


class Embedded:
    """Counts the texts that the in-process embedder is given, whoever asks it: guidelines are embedded as well."""

    def __init__(self) -> None:
        self.texts = 0
        embed = WordLlamaEmbedding.embed

        async def counted(model: WordLlamaEmbedding, texts: Sequence[str]) -> NDArray[np.float32]:
            self.texts += len(texts)
            return await embed(model, texts)

        setattr(WordLlamaEmbedding, "embed", counted)  # noqa: B010  # a plain assignment is no method to mypy


class Bench:
    """All steps at one size, in one file; `result` holds every measured run as (wall seconds, processor seconds)."""

    def __init__(self, cases: int, *, folder: Path, runs: int) -> None:
        self.cases, self.runs = cases, runs
        self.path = folder / "memalign.db"
        self.model, self.embedded = Model(), Embedded()
        self.registry = self.opened()
        self.result: dict[str, Any] = {"cases": cases, "times": {}}
        self._next = cases

    def opened(self) -> ma.Registry:
        """The registry, opened anew."""
        return ma.Registry(f"sqlite:///{self.path}", models=[self.model])

    def run(self) -> dict[str, Any]:
        """Every step, in the order in which a judge lives."""
        judge = self._born()
        judge = self._grown(judge)
        self._forgetful(judge)
        self._judging()
        self._starting()
        self._erasing()
        self.result["peak_mb"] = _peak()
        return self.result

    def _born(self) -> ma.Judge:
        base = ma.Judge(
            name=NAME,
            instructions=INSTRUCTIONS,
            feedback_value_type=bool,
            model=self.model,
        )
        feedback = rows(self.cases)
        base.align(rows(2, start=10**6))  # imports, and the embedder's weights
        self.model.asked.clear()
        before = _peak()
        judge: ma.Judge
        if self.cases < HUGE:
            judge = self._timed("align from nothing", lambda: base.align(feedback)).judge
        else:
            judge = self._timed("put together, not aligned", lambda: made(base, feedback), times=1)
        self._timed("registry: create", lambda: self.registry.create(judge), times=1)
        memory = judge.memory
        self.result |= {
            "feedback": len(memory),
            "guidelines": {status: sum(g.status == status for g in memory.guidelines) for status in STATUSES},
            "shards": len(memory.shards),
            "calls": dict(self.model.asked),
            "file_mb": self.path.stat().st_size / 1e6,
            "rows_mb": before,
        }
        return judge

    def _grown(self, judge: ma.Judge) -> ma.Judge:
        """One more row, again and again, until there are ANCESTORS versions."""
        self.result["one more row"] = changes = []
        self._timed("registry: load the head", lambda: self.opened().load(NAME))
        judge = self.registry.load(NAME)
        for turn in range(max(self.runs, ANCESTORS if self.cases < HUGE else FEW)):
            row, self._next = rows(1, start=self._next * 5 + 1), self._next + 1  # never a fifth: one annotation
            self.embedded.texts = 0
            self.model.asked.clear()
            judge = self._timed("align one more row", partial(judge.align, row), times=1).judge
            asked, embedded = dict(self.model.asked), self.embedded.texts
            grew = self._saved(judge, "registry: save one more row", "align")
            changes.append({"embedded": embedded, "calls": asked, **grew})
            if turn == 0:
                self._timed("align what is known already", partial(judge.align, row))
        return judge

    def _forgetful(self, judge: ma.Judge) -> None:
        self.result["unalign one"] = changes = []
        for turn in range(self.runs):
            name = f"t-{self.cases // 2 + 10 * turn + 1:06}"
            judge = self._timed("unalign one", partial(judge.unalign, name), times=1).judge
            changes.append(self._saved(judge, "registry: save the unaligned", "unalign"))

    def _saved(self, judge: ma.Judge, step: str, action: str) -> dict[str, int]:
        size = self.path.stat().st_size
        version = self._timed(step, lambda: self.registry.save(judge, action=action), times=1)
        with contextlib.closing(sqlite3.connect(self.path)) as file:
            written = file.execute(
                "SELECT count(*), sum(length(body)) FROM memalign_rows WHERE since = ?", (version,)
            ).fetchone()
        return {"rows": written[0], "row_bytes": written[1] or 0, "file_bytes": self.path.stat().st_size - size}

    def _judging(self) -> None:
        """Retrieval and prompt of a judgment: on a memory that was just loaded, and then for many items."""
        judge = self.opened().load(NAME)
        items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(JUDGED, start=2 * 10**6)]
        self._timed("first judgment of a loaded judge", lambda: judge(**items[0]), times=1)
        took: list[tuple[float, float]] = []
        for item in items:
            started = time.process_time()
            judgment = judge(**item)
            took.append((judgment.usage.seconds["retrieve"], time.process_time() - started))
        request = self.model.requests[-1]
        self.result["judgment"] = {
            "n": len(took),
            "wall": _percentiles([wall for wall, _ in took]),
            "processor": _percentiles([cpu for _, cpu in took]),  # with the scripted model's, a fraction of it
            "prompt_words": len(request.system.split()) + len(request.user.split()),
        }

    def _starting(self) -> None:
        """From the start of a process to its first prompt."""
        found = []
        for _ in range(self.runs):
            started = time.time()
            command = [sys.executable, __file__, "--first-prompt", str(self.path), "--since", repr(started)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        self.result["start"] = found

    def _erasing(self) -> None:
        self.result["erase one"] = receipts = []
        for turn in range(self.runs):
            name = f"t-{self.cases // 3 + 10 * turn + 1:06}"
            receipt = self._timed("erase one", partial(self.registry.erase, NAME, [name], rederive=False), times=1)
            receipts.append({"versions": len(receipt.versions), "file_mb": self.path.stat().st_size / 1e6})
            if self.result["times"]["erase one"][0][1] > LONG:
                break

    def _timed(self, step: str, work: Callable[[], Any], *, times: int | None = None) -> Any:
        """What `work` gives; its times, of `times` runs (or as many as are worth the wait), are kept under `step`."""
        kept = self.result["times"].setdefault(step, [])
        given = None
        for _ in range(times or self.runs):
            with _clock(kept):
                given = work()
            _say(f"{self.cases:>7} cases  {step:<34} {kept[-1][0]:9.3f} s ({kept[-1][1]:.3f} s of processor)")
            if kept[-1][1] > LONG:
                break
        return given


def made(base: ma.Judge, feedback: Sequence[dict[str, Any]]) -> ma.Judge:
    """`base` as if it had learned `feedback`: pre-alignment verdicts, shards of ten, a guideline each while there are fewer than GUIDELINES."""
    annotations: dict[str, list[Annotation]] = {}
    examples: dict[str, ma.Example] = {}
    for row in feedback:
        examples[row["id"]] = ma.Example(id=row["id"], inputs=row["inputs"], outputs=row["outputs"])
        said = {name: row[name] for name in ("id", "source", "value", "rationale")}
        annotations.setdefault(row["id"], []).append(Annotation(**said, state="learned"))
    model = WordLlamaEmbedding()
    vectors = asyncio.run(model.embed([embedding_text(example) for example in examples.values()]))
    keys = [annotation.key for name in examples for annotation in annotations[name]]
    shards = [tuple(keys[first : first + 10]) for first in range(0, len(keys), 10)]
    rng = random.Random(0)
    memory = ma.Memory(
        cases=tuple(
            Case(
                example=example,
                annotations=tuple(annotations[name]),
                pre_alignment=PreAlignmentVerdict(value=rng.random() < 0.5, judge=base.base_fingerprint),
                vector=vector.tobytes(),
            )
            for (name, example), vector in zip(examples.items(), vectors, strict=True)
        ),
        shards=tuple(Shard(keys=shard) for shard in shards),
        guidelines=tuple(
            ma.Guideline(id=f"G{number}", text=_rule(rng), supported_by=shard, exposed_to=shard)
            for number, shard in enumerate(shards[:GUIDELINES], 1)
        ),
        next_guideline=len(shards[:GUIDELINES]) + 1,
        guideline_tokens=base.budget().guidelines,
        embedding_model=model.name,
    )
    return base.replace(memory=memory.settled())


@contextlib.contextmanager
def _clock(kept: list[tuple[float, float]]) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    kept.append((time.perf_counter() - wall, time.process_time() - cpu))


def first_prompt(path: Path, since: float) -> dict[str, Any]:
    """In a fresh process: from its start to its first prompt, wall and processor seconds, and of what they consist."""
    marks = [(since, 0.0), (time.time(), time.process_time())]

    def mark() -> None:
        marks.append((time.time(), time.process_time()))

    model = Model()
    registry = ma.Registry(f"sqlite:///{path}", models=[model])
    mark()
    judge = registry.load(NAME)
    mark()
    item = rows(1, start=3 * 10**6)[0]
    judge(inputs=item["inputs"], outputs=item["outputs"])
    mark()
    names = ("import", "open", "load", "prompt")
    parts = {
        name: (wall - wall_before, cpu - cpu_before)
        for name, (wall_before, cpu_before), (wall, cpu) in zip(names, marks, marks[1:], strict=False)
    }
    return {**parts, "total": (marks[-1][0] - since, marks[-1][1]), "peak_mb": _peak()}


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    return statistics.median(values), statistics.quantiles(values, n=20, method="inclusive")[-1]


def _peak() -> float:
    """The most memory that this process ever held, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux: its rusage of a new process begins with the peak of the one that started it
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource  # Windows has none

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def measure(cases: int, *, runs: int = RUNS) -> dict[str, Any]:
    """Every step at one size, in this process."""
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        return Bench(cases, folder=Path(folder), runs=runs).run()


def tables(found: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown: medians of processor seconds, wall seconds in brackets."""
    heads = [f"{size['cases']:,} cases" for size in found]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(found)]

    def line(what: str, cell: Callable[[dict[str, Any]], str]) -> None:
        lines.append(f"| {what} | {' | '.join(cell(size) for size in found)} |")

    line("feedback, guidelines (in force)", _contents)
    for step in dict.fromkeys(step for size in found for step in size["times"]):
        line(step, partial(_step, step))
    for part, what in (("total", "start of a process to its first prompt"), ("load", "... of which load")):
        line(what, partial(_started, part))
    line("a judgment: retrieval and prompt, p50, p95, ms", _judged)
    line("words of its prompt", lambda s: f"{s['judgment']['prompt_words']:,}")
    for step in ("one more row", "unalign one"):
        line(f"{step}: rows, their bytes", partial(_change, step, "rows", "row_bytes"))
        line(f"{step}: bytes the file grew by", partial(_change, step, "file_bytes"))
    line("one more row: texts embedded, calls", lambda s: f"{_of(s, 'embedded')}, {_of(s, 'calls')}")
    line("file of version 1, MB", lambda s: f"{s['file_mb']:.1f}")
    line("peak memory: all steps, judging only, MB", lambda s: f"{s['peak_mb']:.0f}, {s['start'][0]['peak_mb']:.0f}")
    return "\n".join(lines)


def _contents(size: dict[str, Any]) -> str:
    return f"{size['feedback']:,}, {sum(size['guidelines'].values()):,} ({size['guidelines']['active']:,})"


def _seconds(times: Sequence[Sequence[float]]) -> str:
    return f"{_median([t[1] for t in times]):.2f} ({_median([t[0] for t in times]):.2f})" if times else "-"


def _started(part: str, size: dict[str, Any]) -> str:
    return _seconds([start[part] for start in size["start"]])


def _judged(size: dict[str, Any]) -> str:
    (p50, p95), (wall50, wall95) = size["judgment"]["processor"], size["judgment"]["wall"]
    return f"{p50 * 1e3:.1f}, {p95 * 1e3:.1f} ({wall50 * 1e3:.1f}, {wall95 * 1e3:.1f})"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


def _step(step: str, size: dict[str, Any]) -> str:
    return _seconds(size["times"].get(step, []))


def _change(step: str, *names_and_size: Any) -> str:
    *names, size = names_and_size
    return ", ".join(f"{_median([change[name] for change in size[step]]):,.0f}" for name in names)


def _of(size: dict[str, Any], name: str) -> str:
    values = [c[name] if isinstance(c[name], int) else sum(c[name].values()) for c in size["one more row"]]
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)}-{max(values)}"


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure every size in a process of its own, print the tables, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="cases, such as 1000,10000")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every run's figures there")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first-prompt", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--since", type=float, default=0.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.first_prompt:
        print(json.dumps(first_prompt(args.first_prompt, args.since)))
        return
    if args.one:
        print(json.dumps(measure(args.one, runs=args.runs)))
        return
    found = []
    for size in map(int, args.sizes.split(",")):
        command = [sys.executable, __file__, "--one", str(size), "--runs", str(args.runs)]
        found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
        if args.json:  # after every size: the next may take an hour
            args.json.write_text(json.dumps({"memalign": ma.__version__, "sizes": found}, indent=1) + "\n")
    print(tables(found))


if __name__ == "__main__":
    main()
