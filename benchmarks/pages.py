"""How long do the server's pages take while fifty people review at once, with 10,000 cases and answers there?

    python benchmarks/pages.py [--seconds 30] [--cases 10000] [--people 50] [--think 2]

`memalign serve` is a process of its own over SQLite. Everybody answers one case after the other over HTTP, thinks
`--think` seconds on average, and looks at the other pages now and then.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import httpx
import shared
from sqlalchemy import insert

from memalign import Example, Judge, Judgment, Registry
from memalign_server.people.access import COOKIE
from memalign_server.people.service import Role, add_person, start_session
from memalign_server.store import Store
from memalign_server.store.cases import add_cases, store_judgments
from memalign_server.store.tables import now, reviews

REPLY = (
    "We are sorry for the delay. Your order left us on Tuesday and arrives within two days. " * 6
)
REASON = "It is polite, says when the order arrives, and asks for nothing that the customer has said already."


def fill(url: str, cases: int, people: int) -> dict[str, str]:
    """A queue of judged cases, each answered by one person; gives everybody's cookie."""
    instructions = "Is the reply good enough to send?\n{{ inputs }}\n{{ outputs }}"
    judge = Judge(
        name="tone", instructions=instructions, feedback_value_type=bool, model="openai:none"
    )
    Registry(url).create(judge)
    examples = [
        Example(id=f"c-{n}", inputs=f"Where is order {n}?", outputs=f"{REPLY}{n}")
        for n in range(cases)
    ]
    judged = [
        (case, Judgment(id=case.id, value=n % 5 > 0, rationale=REASON))
        for n, case in enumerate(examples)
    ]
    row = {
        "judge": "tone",
        "form": "",
        "taught": 1,
        "state": "answered",
        "revision": 1,
        "rationale": "No day.",
    }
    row |= dict.fromkeys(("created_at", "updated_at"), now())
    cells = [(f"c-{n}", f"person {n % people}", n % 4 > 0) for n in range(cases)]
    rows = [
        row | {"case_id": case, "person": name, "value": v, "blind_value": v}
        for case, name, v in cells
    ]
    with Store(url).write() as connection:
        add_cases(connection, "tone", examples)
        store_judgments(connection, judge, 1, judged, {case.id: 0.0 for case in examples})
        connection.execute(insert(reviews), rows)
        add_person(connection, "owner", Role.OWNER)
        ids = {
            f"person {n}": add_person(connection, f"person {n}", Role.REVIEWER)
            for n in range(people)
        }
        return {name: start_session(connection, person) for name, person in ids.items()}


def review(name: str, client: httpx.Client, until: float, think: float) -> dict[str, list[float]]:
    """Answer one case after the other, and look at the other pages now and then; gives the seconds of each request."""
    dice, seconds = random.Random(name), defaultdict[str, list[float]](list)

    def ask(kind: str, path: str, **fields: str) -> str:
        started = time.perf_counter()
        response = client.post(path, data=fields) if fields else client.get(path)
        seconds[kind].append(time.perf_counter() - started)
        assert response.status_code < 400, (path, response.status_code, response.text[:300])
        return response.text

    time.sleep(think * dice.random())
    while time.monotonic() < until:
        fields = re.findall(r'name="(case|form|revision)" value="([^"]*)"', ask("review", "review"))
        form = {name: unescape(value) for name, value in fields}
        time.sleep(think * dice.uniform(0.5, 1.5))
        if "revision" in form:
            ask("answer", "review", **form, value=dice.choice(("true", "false")))
        else:  # a colleague said otherwise
            ask("keep mine", "review/differ", case=form["case"])
        if dice.random() < 0.2:
            ask(other := dice.choice(("learned", "trust")), other)
    return seconds


def main() -> None:
    """Fill a database, review, and print how long each kind of request took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("seconds", 30), ("cases", 10_000), ("people", 50), ("think", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.people) as pool:
        url = f"sqlite:///{folder}/memalign.db"
        cookies = fill(url, options.cases, options.people)
        command = [sys.executable, "-m", "memalign", "serve", "--registry", url, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            (address,) = re.findall(
                r"http://127\.0\.0\.1:\d+", process.stderr.readline() if process.stderr else ""
            )
            until = time.monotonic() + options.seconds
            work = []
            for name, cookie in cookies.items():
                headers = {
                    "cookie": f"{COOKIE}={cookie}",
                    "hx-request": "true",
                    "accept": "text/html",
                }
                client = httpx.Client(
                    base_url=f"{address}/judges/tone/", headers=headers, timeout=60
                )
                work.append(pool.submit(review, name, client, until, options.think))
            try:
                people = [task.result() for task in work]
            finally:
                process.terminate()
    rows = []
    for kind in sorted({kind for person in people for kind in person}):
        times = sorted(1000 * second for person in people for second in person.get(kind, ()))
        rows.append(
            (
                kind,
                len(times),
                f"{statistics.median(times):.0f}",
                f"{times[int(0.95 * len(times))]:.0f}",
            )
        )
    print(shared.markdown((f"{options.people} reviewers, milliseconds", "n", "p50", "p95"), rows))


if __name__ == "__main__":
    main()
