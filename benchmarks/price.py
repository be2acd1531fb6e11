"""What learning and judging cost, memalign beside MLflow's MemAlign in one run at a fixed latency.

    python benchmarks/price.py --mlflow .mlflow/bin/python     (mlflow_memalign.py says how to make that environment)

A server on this machine stands for the provider: a second a chat call, a tenth a call for embeddings. It answers both
alike, one guideline for every five pieces of feedback. Dollars are list prices of gpt-4.1-mini and of its embeddings,
and of TypeSafe's Jev for decisions, for the tokens that the server counts. Quality is not measured: no real model
answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from loopback import Body, Loopback, text_of

import memalign as ma

MODEL, EMBEDDING = "gpt-4.1-mini", "text-embedding-3-small"
INSTRUCTIONS = "Is the reply helpful to the customer?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
DOLLARS = {"tokens_in": 0.40, "cached": 0.10 - 0.40, "tokens_out": 1.60, "embed_tokens": 0.02, "decision_tokens": 0.042}
"""For a million: cached tokens are among those in, and cost less. Decisions: Jev, whose answers are free."""
JUDGED = 6  # the first, and five later ones
PER_GUIDELINE = 5

Step = dict[str, Any]


# -- the rows, and what the server answers ---------------------------------------------------------------------------

THINGS = ("parcel", "kettle", "invoice", "lamp", "subscription", "jacket", "router", "voucher", "bicycle", "printer")
TROUBLES = ("has not come", "is broken", "was charged twice", "has the wrong size", "stopped after two days")
OPENINGS = ("Thank you for writing", "We are sorry to hear that", "Please note our terms", "Hello")
STEPS = (
    *("a colleague calls you tomorrow before noon", "you will find the form on our page"),
    *("the amount is back on your card in three days", "such cases take their time"),
    *("our warehouse sends a new one today", "nothing can be done from here"),
)
REASONS = (
    "It names the next step and when it comes, so the customer need not ask again.",
    "It hides behind the terms and does not answer what was asked.",
    "An apology alone helps nobody; who does what by when is missing.",
    "Short, warm and complete: this is how we want to write.",
    "The customer has to find the form alone; we always give the link.",
    "It promises a date that only the carrier could promise.",
)
DEMANDS = (
    *("name the next step and who takes it", "say when the customer hears from us again"),
    *("apologise before explaining", "answer the question that was asked first", "give the exact amount or date"),
    *("link the form that is needed", "explain the reason in one plain sentence", "offer a choice between two ways"),
    *("confirm what was understood", "avoid words from our own systems", "leave out what the customer knows already"),
)
EXCEPTIONS = (
    "the customer has asked for a call",
    "the case is closed",
    "the law fixes the wording",
    "it is a second reply",
)


def rows(count: int) -> list[dict[str, Any]]:
    """Short support replies with an expert's label and comment; the same every time, no two alike."""
    rng = random.Random(0)
    made = []
    for number in range(count):
        thing, step = rng.choice(THINGS), rng.randrange(len(STEPS))
        order = f"order {10_000 + 7 * number}"
        made.append(
            {
                "id": f"t-{number:04}",
                "inputs": f"My {thing} ({order}) {rng.choice(TROUBLES)}. Who can help me?",
                "outputs": f"{rng.choice(OPENINGS)}. About {order}: {STEPS[step]}. The {thing} stays on our list.",
                "value": step % 2 == 0,
                "rationale": f"{rng.choice(REASONS)} This was about a {thing}.",
                "source": rng.choice(("ana", "ben", "chloe")),
            }
        )
    return made


def chat(body: Body) -> Body:
    """What a chat model would say, by the form that either side asks for."""
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    properties = schema.get("properties", {})
    prompt = "\n".join(text_of(message) for message in body["messages"])
    if "changes" in properties:
        item = properties["changes"]["items"]["properties"]
        labels = item["feedback"]["items"].get("enum") or re.findall(r"^(F\d+) <<<", prompt, re.MULTILINE)
        changes = [_change(item, prompt, number, group) for number, group in enumerate(_groups(labels))]
        return {"changes": changes, **({"conflicts": []} if "conflicts" in properties else {})}
    parts = properties.get("guidelines", {}).get("items", {}).get("properties", {})
    if "from" in parts:  # our merge of what several calls wrote
        ids = parts["from"]["items"]["enum"]
        return {"guidelines": [{"text": _rule(prompt, n), "from": group} for n, group in enumerate(_groups(ids))]}
    if "guidelines" in properties:
        records = prompt.partition("user judgement examples:")[2]
        numbers = [int(number) for number in re.findall(r'^  "id": (\d+),', records, re.MULTILINE)]
        return {
            "guidelines": [
                {"guideline_text": _rule(prompt, number), "source_trace_ids": group}
                for number, group in enumerate(_groups(numbers))
            ]
        }
    draw = zlib.crc32(text_of(body["messages"][-1]).encode())
    why = f"The reply has to {DEMANDS[draw % len(DEMANDS)]}, and how it does that decides; its tone is fitting."
    value = draw % 10 < 6
    guidelines = re.findall(r"^(G\d+): ", prompt, re.MULTILINE)[draw % 7 :: 7][:2]
    findings = [{"guideline": name, "evidence": "stays on our list", "value": value} for name in guidelines]
    answer = {"findings": findings, "rationale": why, "value": value, "result": value}
    return {name: answer[name] for name in properties if name in answer}


def _change(item: Body, prompt: str, number: int, group: Sequence[str]) -> Body:
    rule = _rule(prompt, number)
    questions = [{"question": f"Does the reply {demand}?", "answer": "yes"} for demand in DEMANDS if demand in rule]
    change = {"action": "ADD", "feedback": group, "text": rule, "guideline": "", "checks": questions, "tests": []}
    return {name: change.get(name, "true" if name == "value" else []) for name in item}


def _groups(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + PER_GUIDELINE] for start in range(0, len(items), PER_GUIDELINE)]


def _rule(prompt: str, number: int) -> str:
    """A guideline of about 25 words, the same for the same prompt and number, and rarely the same for others."""
    draw = zlib.crc32(f"{number}\0{prompt}".encode())
    demand, other = DEMANDS[draw // 20 % len(DEMANDS)], DEMANDS[draw // 240 % len(DEMANDS)]
    about, exception = THINGS[draw % len(THINGS)], EXCEPTIONS[draw // 2880 % len(EXCEPTIONS)]
    return f"When the query is about a {about}, a helpful reply must {demand} and {other}, unless {exception}."


def decide(body: Body) -> Body:
    """What a decision model would answer."""
    answers = {}
    for name, question in body["questions"].items():
        options = list(question.get("criteria") or ("yes", "no"))
        draw = zlib.crc32(f"{body['state']}\0{question['instructions']}".encode())
        sure = 0.55 + draw % 40 / 100
        chosen = options[draw % 2]
        shares = {option: (1 - sure) / (len(options) - 1) for option in options} | {chosen: sure}
        answers[name] = {"type": "choice", "choice": chosen, "confidence": sure, "probabilities": shares}
    return answers


# -- the two sides ---------------------------------------------------------------------------------------------------


class Side(Protocol):
    """One of those that are compared; each step gives its `seconds`, and facts about the result."""

    name: str

    def align(self, first: int, end: int) -> Step:
        """Learn these rows, from nothing where `first` is 0."""
        ...

    def judge(self, fields: dict[str, Any]) -> Step:
        """Judge one item."""
        ...


class Memalign:
    """memalign, through its provider adapters, in this process; `decision` judges beside the chat model."""

    def __init__(
        self, feedback: Sequence[dict[str, Any]], *, name: str = "memalign", decision: str | None = None
    ) -> None:
        self.name = name
        self._feedback = feedback
        self._base = self._judge = ma.Judge(
            name="helpfulness",
            instructions=INSTRUCTIONS,
            feedback_value_type=bool,
            model=decision or f"openai:{MODEL}",
            parameters={"reflection_model": f"openai:{MODEL}"} if decision else {},
        )

    def align(self, first: int, end: int) -> Step:
        """Learn these rows."""
        judge = self._judge if first else self._base
        started = time.perf_counter()
        result = judge.align(self._feedback[first:end])
        seconds = time.perf_counter() - started
        unlearned = [row for row in result.rows if row.state not in ("learned", "merged")]
        if unlearned:
            reason = unlearned[0].reason
            raise RuntimeError(f"{self.name}: {len(unlearned)} rows were not learned, the first because {reason}")
        self._judge = result.judge
        return {"seconds": seconds, "guidelines": len(result.judge.memory.guidelines)}

    def judge(self, fields: dict[str, Any]) -> Step:
        """Judge one item."""
        started = time.perf_counter()
        judgment = self._judge(**fields)
        if judgment.error is not None:
            raise RuntimeError(judgment.error)
        return {"seconds": time.perf_counter() - started}


class MLflow:
    """MLflow's MemAlign, in a process of its environment; its traces are logged before any clock starts."""

    name = "MLflow's MemAlign"

    def __init__(self, feedback: Sequence[dict[str, Any]], *, python: Path, base_url: str, home: Path) -> None:
        plain = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = {
            **plain,
            **{name: str(home) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "DSPY_CACHEDIR", "MPLCONFIGDIR")},
            **{"OPENAI_API_KEY": "not-needed", "OPENAI_API_BASE": base_url, "OPENAI_BASE_URL": base_url},
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for a price list
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [str(python.absolute()), "-I", str(Path(__file__).with_name("mlflow_memalign.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(home / "mlflow.log").open("wb"),
            text=True,
            cwd=home,
            env=environment,
        )
        facts = {"name": "helpfulness", "instructions": INSTRUCTIONS, "model": MODEL, "embedding": EMBEDDING}
        self.version = self._ask({"op": "traces", "rows": list(feedback), **facts})["version"]

    def align(self, first: int, end: int) -> Step:
        """Learn these traces."""
        return self._ask({"op": "align", "first": first, "end": end})

    def judge(self, fields: dict[str, Any]) -> Step:
        """Judge one item."""
        return self._ask({"op": "judge", "fields": fields})

    def close(self) -> None:
        """End its process."""
        self._process.communicate(timeout=60)

    def _ask(self, request: Step) -> Step:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        reply: Step = json.loads(self._process.stdout.readline() or '{"error": "its process ended"}')
        if "error" in reply:
            raise RuntimeError(f"{self.name}: {request['op']}: {reply['error']}")
        return reply


# -- measuring -------------------------------------------------------------------------------------------------------


def measured(side: Side, server: Loopback, items: Sequence[dict[str, Any]], *, many: int) -> Iterator[Step]:
    """One round: 50 from nothing, a judgment, five more, all of them from nothing, a judgment."""

    def step(name: str, do: Callable[[], Step]) -> Step:
        taken = do()
        counts = server.take()
        cost = sum(counts[kind] * dollars / 1e6 for kind, dollars in DOLLARS.items())
        return {"side": side.name, "step": name, "cost": cost, **counts, **taken}

    for size, more in ((50, 55), (many, None)):
        server.take(forget=True)
        yield step(f"align of {size:,}", lambda size=size: side.align(0, size))  # type: ignore[misc]
        for number, item in enumerate(items):
            name = f"{'first' if number == 0 else 'later'} judgment after {size:,}"
            yield step(name, lambda item=item: side.judge(item))  # type: ignore[misc]
        if more is not None:
            yield step("five more", lambda more=more: side.align(50, more))  # type: ignore[misc]


@contextmanager
def sides(server: Loopback, feedback: Sequence[dict[str, Any]], python: Path | None) -> Iterator[list[Side]]:
    """One with a chat model and one with a decision model, and MLflow's MemAlign where there is a Python for it."""
    os.environ["OPENAI_BASE_URL"] = server.base_url
    with ExitStack() as stack:
        decision = f"system-one:jev@{server.base_url}"
        made: list[Side] = [Memalign(feedback), Memalign(feedback, name="memalign, decision model", decision=decision)]
        if python is not None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            mlflow = MLflow(feedback, python=python, base_url=server.base_url, home=home)
            stack.callback(mlflow.close)
            made.append(mlflow)
        yield made


def table(steps: Sequence[Step]) -> str:
    """Medians over the rounds."""
    lines = ["| step | side | seconds | calls | decisions | tokens in | cached | out | dollars |", "|---" * 9 + "|"]
    keys = dict.fromkeys((step["step"], step["side"]) for step in sorted(steps, key=lambda step: _order(step["step"])))
    for name, side in keys:
        group = [step for step in steps if (step["step"], step["side"]) == (name, side)]

        def middle(what: str, group: Sequence[Step] = group) -> float:
            return float(statistics.median(step.get(what, 0) for step in group))

        counts = ("calls", "decisions", "tokens_in", "cached", "tokens_out")
        tokens = " | ".join(f"{middle(what):,.0f}" for what in counts)
        lines.append(f"| {name} | {side} | {middle('seconds'):.2f} | {tokens} | {middle('cost'):.5f} |")
    return "\n".join(lines)


def _order(name: str) -> tuple[bool, bool]:
    return "judgment" in name, "more" in name


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlflow", type=Path, help="a Python with MLflow, DSPy and LiteLLM; without, memalign alone")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of a chat call")
    parser.add_argument("--many", type=int, default=1_000, help="the largest align")
    parser.add_argument("--out", type=Path, help="keep the raw steps, JSONL")
    arguments = parser.parse_args()
    feedback = rows(arguments.many + 5)
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(arguments.many + 5 + JUDGED)[-JUDGED:]]
    server = Loopback(chat, decide, latency=arguments.latency, embed_latency=arguments.latency / 10)
    steps: list[Step] = []
    with server, sides(server, feedback, arguments.mlflow) as made:
        for side in made:  # imports and connections, before any clock
            side.align(0, 2)
            side.judge(items[0])
        for turn in range(arguments.runs):
            for side in made if turn % 2 == 0 else reversed(made):
                for step in measured(side, server, items, many=arguments.many):
                    steps.append(step)
                    print(f"{side.name}: {step['step']}: {step['seconds']:.2f} s", file=sys.stderr)
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(step) + "\n" for step in steps), "utf-8")
    print(table(steps))


if __name__ == "__main__":
    main()
