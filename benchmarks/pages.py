"""How long the server's pages take with 10,000 cases and answers, and what fifty reviewers lose when it is killed.

    python benchmarks/pages.py [--seconds 30] [--cases 10000] [--people 50] [--think 2]

`memalign serve` runs in a process of its own over SQLite, and people come over real HTTP on loopback. First one person
opens each page thirty times; then all of them review at once, each thinking `--think` seconds on average before an
answer. In the middle the server is killed (SIGKILL) and started again, and whoever waits sends the same form again. At
the end every acknowledged answer must be in the database once, as it was given. Exits with 1 if one is not.
"""

from __future__ import annotations

import argparse
import http.client
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import insert, select

from memalign import Example, Judge, Registry
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import Judgment
from memalign_server.people.access import COOKIE
from memalign_server.people.people import Role, add_person, start_session
from memalign_server.review.cases import add_cases, store_judgments
from memalign_server.store import Store
from memalign_server.store.columns import from_json, now
from memalign_server.store.tables import reviews

PAGES = ("review", "learned", "trust")
TEXT = "We are sorry for the delay. Your order left us on Tuesday and arrives within two days. " * 6


def fill(url: str, cases: int, people: int) -> list[tuple[str, str]]:
    """A judge with judged cases, each answered by one person and some by two; who may come in, with their cookies."""
    registry = Registry(url, models=[ScriptedChatModel(lambda _: {}, name="scripted"), HashEmbedding()])
    instructions = "Is the reply good enough to send?\n{{ inputs }}\n{{ outputs }}"
    embedding = HashEmbedding().name
    judge = Judge(
        name="tone", instructions=instructions, feedback_value_type=bool, model="scripted", embedding_model=embedding
    )
    registry.create(judge)
    examples = [Example(id=f"c-{n}", inputs=f"Where is order {n}?", outputs=f"{TEXT}{n}") for n in range(cases)]
    reason = "It is polite, says when the order arrives, and asks for nothing that the customer has said already."
    with Store(url).write() as connection:
        names = [f"person {n}" for n in range(people)]
        ids = [add_person(connection, name, Role.REVIEWER if n else Role.OWNER) for n, name in enumerate(names)]
        add_cases(connection, "tone", examples)
        verdicts = [Judgment(id=one.id, value=n % 5 > 0, rationale=reason) for n, one in enumerate(examples)]
        store_judgments(
            connection, judge, 1, [(one, verdict, 0.3) for one, verdict in zip(examples, verdicts, strict=True)]
        )
        rows = []
        for n in range(cases):
            for again in (0, 1) if n % 20 == 0 else (0,):  # of those with two answers one in ten is disputed
                value = "false" if n % 4 == 0 or (again and n % 200 == 0) else "true"
                row = {"judge": "tone", "case_id": f"c-{n}", "person": names[(n + again) % people], "state": "answered"}
                row |= {"value": value, "blind_value": value, "revision": 1, "form": "", "created_at": now()}
                rows.append(row | {"updated_at": now(), "rationale": "It names no day." if n % 3 == 0 else None})
        connection.execute(insert(reviews), rows)
        return [(name, start_session(connection, person)) for name, person in zip(names, ids, strict=True)]


class Serving:
    """The server, which may be killed and started again on its port."""

    def __init__(self, url: str) -> None:
        self.url, self.port = url, "0"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "memalign", "serve", "--registry", self.url, "--port", self.port]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.port = re.findall(r"http://127\.0\.0\.1:(\d+)", line)[0]


class Browser:
    """One person's browser: it sends again what no answer came to, and notes how long each page took."""

    def __init__(self, serving: Serving, name: str, cookie: str) -> None:
        self.serving, self.name, self.again = serving, name, 0
        self.headers = {"cookie": f"{COOKIE}={cookie}", "hx-request": "true", "accept": "text/html"}
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.answers: dict[str, bool] = {}
        self.line = http.client.HTTPConnection("127.0.0.1", int(serving.port), timeout=60)

    def ask(self, kind: str, path: str, fields: dict[str, str] | None = None) -> str:
        """A page's text, or an answer's."""
        body, sent_again = (None if fields is None else urlencode(fields)), False
        headers = self.headers | ({} if fields is None else {"content-type": "application/x-www-form-urlencoded"})
        while True:
            started = time.perf_counter()
            try:
                self.line.request("GET" if fields is None else "POST", f"/judges/tone/{path}", body, headers)
                response = self.line.getresponse()
                text = response.read().decode()
                break
            except (OSError, http.client.HTTPException):
                self.line.close()
                sent_again = True
                time.sleep(0.2)
        self.again += sent_again
        if not sent_again:
            self.seconds[kind].append(time.perf_counter() - started)
        assert response.status < 400, (path, response.status, text[:500])
        return text

    def review(self, until: float, think: float) -> None:
        """Answer one case after the other."""
        dice = random.Random(self.name)
        time.sleep(think * dice.random())
        while time.monotonic() < until:
            form = dict(re.findall(r'name="(case|form|revision)" value="([^"]*)"', self.ask("review", "review")))
            time.sleep(think * dice.uniform(0.5, 1.5))
            if "form" not in form:  # a colleague differs
                self.ask("keep", "review/differ", {"case": unescape(form["case"])})
                continue
            value = dice.random() < 0.7
            self.ask("answer", "review", {**form, "value": str(value).lower()})
            self.answers[unescape(form["case"])] = value
            if dice.random() < 0.2:
                page = dice.choice(PAGES[1:3])
                self.ask(page, page)


def table(browsers: list[Browser]) -> Iterator[str]:
    """Milliseconds by kind of page: how many, the median, and that under which 95 of 100 stay."""
    for kind in sorted({kind for browser in browsers for kind in browser.seconds}):
        took = sorted(1000 * second for browser in browsers for second in browser.seconds[kind])
        p95 = took[min(len(took) - 1, int(0.95 * len(took)))]
        yield f"| {kind} | {len(took)} | {statistics.median(took):.0f} | {p95:.0f} |"


def main() -> int:
    """Fill a database, measure, and compare what was acknowledged with what is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seconds", 30), ("cases", 10_000), ("people", 50), ("think", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'memalign.db'}"
        team = fill(url, options.cases, options.people)
        serving = Serving(url)
        alone = Browser(serving, *team[0])
        for _ in range(30):
            for page in PAGES:
                alone.ask(page, page)
        print("One person, milliseconds\n| page | n | p50 | p95 |\n|---|--:|--:|--:|", *table([alone]), sep="\n")
        browsers, until = [Browser(serving, *one) for one in team], time.monotonic() + options.seconds
        threads = [threading.Thread(target=one.review, args=(until, options.think)) for one in browsers]
        for thread in threads:
            thread.start()
        time.sleep(options.seconds / 2)
        serving.process.kill()
        serving.process.wait()
        serving.start()
        for thread in threads:
            thread.join()
        serving.process.terminate()
        serving.process.wait()
        print(f"\n{options.people} reviewers\n| page | n | p50 | p95 |\n|---|--:|--:|--:|", *table(browsers), sep="\n")
        with Store(url).read() as connection:
            query = select(reviews.c.person, reviews.c.case_id, reviews.c.value, reviews.c.revision)
            rows = {(row.person, row.case_id): row for row in connection.execute(query)}
    answers = {(one.name, case): value for one in browsers for case, value in one.answers.items()}
    lost = sum(key not in rows for key in answers)
    changed = sum(key in rows and from_json(rows[key].value) is not value for key, value in answers.items())
    twice = sum(key in rows and rows[key].revision != 1 for key in answers)
    again = sum(browser.again for browser in browsers)
    print(f"\n{len(answers)} answers, {again} requests sent again: {lost} lost, {changed} changed, {twice} twice")
    return int(bool(lost or changed or twice))


if __name__ == "__main__":
    sys.exit(main())
