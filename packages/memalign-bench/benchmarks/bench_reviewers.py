"""Fifty reviewers at once on one server over 10,000 cases: how long they wait, and that no answer is lost.

    python benchmarks/bench_reviewers.py --json results/server.json          both databases, about six minutes
    python benchmarks/bench_reviewers.py --databases postgresql --servers 2  two servers side by side
    python benchmarks/bench_reviewers.py --pause 0                           as fast as the server can

Each reviewer has a browser of their own, signed in. They read the next case, think for `--pause` seconds on average, answer,
skip every tenth case and take back every twentieth answer. Three of them teach the judge, five times in all.
The model is a server of its own that answers after 0.2 s. In the middle the (first) server is killed (SIGKILL) and started again a
second later; whoever waits sends the same form again, with two servers to the other one.
At the end every acknowledged answer must be in the database once, as it was said, and what was taught in memory.
Seconds that a request waited for the killed server are told apart. Exits with 1 where anything failed or was lost.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from server_world import (  # type: ignore[import-not-found]  # beside this file
    NAME,
    Browser,
    Serving,
    card,
    databases,
    fill,
)
from sqlalchemy import select

import memalign as ma
from memalign.types import FeedbackKey
from memalign_server.store import Store
from memalign_server.store.columns import from_json
from memalign_server.store.review_tables import reviews

HERE = f"/judges/{NAME}"
TEACHERS, LESSONS = 3, 5
AWAY = 1.0  # seconds between the kill and the new start
PATIENCE = 60.0  # seconds after which a reviewer gives up


@dataclass
class Said:
    """What a reviewer knows of one case: the state that the server acknowledged last, and how often it was told."""

    state: str
    value: bool | None = None
    rationale: str | None = None
    revision: int = 1
    undone_twice: bool = False


@dataclass
class Reviewer:
    """One person at one browser."""

    name: str
    addresses: list[str]
    pause: float
    teaches: bool = False
    said: dict[str, Said] = field(default_factory=dict)
    took: list[tuple[str, float, bool]] = field(default_factory=list)
    """What was asked, the seconds, and whether it was sent again."""
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.name)
        self.browser = Browser(self.addresses[0])
        self.browser.sign_in(self.name)

    def work(self, until: float, lessons: threading.Semaphore) -> None:
        """Review until that time, and teach the judge as long as there are `lessons`."""
        try:
            given = card(self._ask("the review page", "GET", f"{HERE}/review")[1])
            while given and time.monotonic() < until:
                time.sleep(self.pause * self.rng.uniform(0.5, 1.5))
                self._say(given)
                if self.teaches and self.rng.random() < 0.1 and lessons.acquire(blocking=False):
                    self._ask("to teach", "POST", f"{HERE}/teach")
                given = card(self._ask("the next case", "GET", f"{HERE}/review/next?without={quote(given['case'])}")[1])
        except (OSError, http.client.HTTPException, KeyError, RuntimeError) as error:
            self.problems.append(f"{self.name} stopped: {type(error).__name__}: {error}")

    def _say(self, given: dict[str, str]) -> None:
        case, draw = given["case"], self.rng.random()
        before = int(given["revision"])
        if draw < 0.1:
            if self._ask("to skip", "POST", f"{HERE}/review", {"state": "skipped", **given})[0] == 200:
                self.said[case] = Said(state="skipped", revision=before + 1)
            return
        value = self.rng.random() < 0.6
        words = f"{self.name} misses the date of {case}." if draw < 0.4 else None
        fields = {"value": str(value).lower(), "rationale": words or "", **given}
        if self._ask("to answer", "POST", f"{HERE}/review", fields)[0] != 200:
            return
        self.said[case] = Said(state="answered", value=value, rationale=words, revision=before + 1)
        if draw > 0.95:
            status, _ = self._ask("to undo", "POST", f"{HERE}/review/undo", {"case": case}, allowed=(200, 422))
            if status == 200:  # 422: the judge has learned it meanwhile
                again = self.took[-1][2]
                self.said[case] = Said(state="undone", revision=before + 2, undone_twice=again)

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        fields: dict[str, str] | None = None,
        *,
        allowed: Sequence[int] = (200, 303),
    ) -> tuple[int, str]:
        """One request, sent again as it is while no answer comes. A status that is not allowed is a problem."""
        started, again = time.monotonic(), False
        answer: tuple[int, str] | None = None
        while answer is None:
            try:
                answer = self.browser.get(path) if method == "GET" else self.browser.post(path, **(fields or {}))
            except (OSError, http.client.HTTPException):
                if time.monotonic() - started > PATIENCE:
                    raise
                again = True
                self.addresses.append(self.addresses.pop(0))
                self.browser.visit(self.addresses[0])
                time.sleep(0.1)
        status, body = answer
        self.took.append((what, time.monotonic() - started, again))
        if status not in allowed:
            self.problems.append(f"{self.name}, {what}: {status} {body[:200]}")
        return status, body


def compare(url: str, people: Sequence[Reviewer]) -> dict[str, Any]:
    """What the database holds beside what was acknowledged: `lost` and `changed` answers, `unknown` rows, `untaught` ones."""
    known = {each.name: each for each in people}
    memory = ma.Registry(url).load(NAME).memory
    with Store(url).read() as connection:
        rows = connection.execute(select(reviews).where(reviews.c.person.in_(known))).all()
    there = {(row.person, row.case_id): row for row in rows}
    lost, changed, unlearned = [], [], []
    for person in people:
        for case, said in person.said.items():
            row = there.pop((person.name, case), None)
            if row is None:
                lost.append(f"{person.name} on {case}")
                continue
            now = Said(row.state, from_json(row.value), row.rationale, row.revision, said.undone_twice)
            if said.undone_twice:
                now.revision = said.revision
            if now != said:
                changed.append(f"{person.name} on {case}: {now} and not {said}")
    taught = {FeedbackKey(row.case_id, row.person): row for row in rows if row.taught}
    for key, row in taught.items():
        annotation = memory.annotation(key)
        if annotation is None or (annotation.value, annotation.rationale) != (from_json(row.value), row.rationale):
            unlearned.append(str(key))
    held = Counter(str(each.key) for each in memory.annotations() if each.source in known)
    unlearned += [f"{key}, {n} times" for key, n in held.items() if n > 1]
    return {
        "rows": len(rows),
        "taught": len(taught),
        "in_memory": len(held),
        "lost": lost,
        "changed": changed,
        "unknown": [f"{person} on {case}" for person, case in there],
        "unlearned": unlearned,
    }


@contextmanager
def model(latency: float = 0.2) -> Iterator[str]:
    """A provider on this machine; its address."""
    script = Path(__file__).with_name("scale_endpoint.py")
    command = [sys.executable, str(script), "--latency", str(latency), "--embed-latency", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield next(iter(process.stdout or ())).strip()
        finally:
            process.terminate()


def load(
    url: str, *, reviewers: int, seconds: float, pause: float, servers: int = 1, kill: bool = True
) -> dict[str, Any]:
    """Let them review over a registry that `fill` made, and compare."""
    with ExitStack() as stack:
        address = stack.enter_context(model())
        running = [Serving(url, model=address) for _ in range(servers)]
        stack.callback(lambda: [each.stop() for each in running if each.process.poll() is None])
        addresses = [each.address for each in running]
        people = [
            Reviewer(name, [addresses[place % servers], *addresses[place % servers + 1 :], *addresses[: place % servers]],
                     pause, teaches=place < TEACHERS)
            for place, name in enumerate(names(reviewers))
        ]  # fmt: skip
        begun = time.monotonic()
        lessons = threading.Semaphore(LESSONS)
        threads = [threading.Thread(target=each.work, args=(begun + seconds, lessons)) for each in people]
        for thread in threads:
            thread.start()
        if kill:
            time.sleep(seconds / 2)
            running[0].kill()
            time.sleep(AWAY)
            port = int(running[0].address.rpartition(":")[2])
            running[0] = Serving(url, port=port, model=address)
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
        ended = _wait_for_jobs(people[0])
        logs = [each.stop() for each in running]
    problems = [problem for each in people for problem in each.problems] + [log for log in logs if log.strip()]
    problems += [] if ended else ["a job never ended"]
    return {
        "reviewers": reviewers,
        "servers": servers,
        "pause": pause,
        "killed": kill,
        "seconds": round(took, 1),
        "requests_a_second": round(sum(len(each.took) for each in people) / took, 1),
        "waits": _waits(people),
        "sent_again": sum(again for each in people for _, _, again in each.took),
        "longest_again": round(max((s for each in people for _, s, again in each.took if again), default=0.0), 1),
        "acknowledged": dict(Counter(said.state for each in people for said in each.said.values())),
        "problems": problems,
        **compare(url, people),
    }


def names(count: int) -> list[str]:
    """What reviewers are called."""
    return [f"r{number:02}" for number in range(count)]


def _wait_for_jobs(person: Reviewer) -> bool:
    for _ in range(600):
        if not json.loads(person.browser.get(f"/api/v1{HERE}/jobs?active=true")[1])["items"]:
            return True
        time.sleep(0.2)
    return False


def _waits(people: Sequence[Reviewer]) -> dict[str, dict[str, float]]:
    """Milliseconds by what was asked, of requests that were sent once."""
    walls: dict[str, list[float]] = {}
    for each in people:
        for what, seconds, again in each.took:
            if not again:
                walls.setdefault("all", []).append(seconds)
                walls.setdefault(what, []).append(seconds)
    found = {}
    for what, took in sorted(walls.items()):
        cuts = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else took * 99
        found[what] = {
            "n": len(took),
            "p50": round(cuts[49] * 1e3, 1),
            "p95": round(cuts[94] * 1e3, 1),
            "p99": round(cuts[98] * 1e3, 1),
            "most": round(max(took) * 1e3, 1),
        }
    return found


def main() -> int:
    """Fill, load, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reviewers", type=int, default=50)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--feedback", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds that a reviewer thinks, on average")
    parser.add_argument("--servers", type=int, default=1, help="servers side by side; PostgreSQL only")
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = []
    with databases(args.databases.split(",")) as made:
        for name, (url, _) in made.items():
            fill(url, cases=args.cases, feedback=args.feedback, reviewers=names(args.reviewers))
            measured = load(url, reviewers=args.reviewers, seconds=args.seconds, pause=args.pause, servers=args.servers)
            found.append({"database": name, "cases": args.cases, **measured})
            print(json.dumps(found[-1], indent=1), flush=True)
    if args.json:
        kept = json.loads(args.json.read_text("utf-8")) if args.json.exists() else {}
        kept.setdefault("reviewers", []).extend(found)
        args.json.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    wrong = ("problems", "lost", "changed", "unknown", "unlearned")
    return int(any(each[name] for each in found for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
