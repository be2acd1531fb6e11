"""How long the server's pages take at 10,000 cases and answers, and what fifty reviewers lose when it is killed.

    python benchmarks/pages.py [--seconds 30] [--cases 10000] [--people 50] [--think 2]

`memalign serve` is a process of its own over SQLite. First one person opens each page thirty times. Then all review at
once over HTTP, each thinking `--think` seconds on average; in the middle the server is killed (SIGKILL) and started
again, and whoever waits sends the same form again. Exits with 1 if an acknowledged answer is lost or changed.
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
from html import unescape
from urllib.parse import urlencode

from sqlalchemy import insert, select

from memalign import Example, Judge, Judgment, Registry
from memalign_server.people.access import COOKIE
from memalign_server.people.people import Role, add_person, start_session
from memalign_server.review.cases import add_cases, store_judgments
from memalign_server.store import Store
from memalign_server.store.columns import from_json, now
from memalign_server.store.tables import reviews

PAGES = ("review", "learned", "trust")
REPLY = "We are sorry for the delay. Your order left us on Tuesday and arrives within two days. " * 6
REASON = "It is polite, says when the order arrives, and asks for nothing that the customer has said already."


def fill(url: str, cases: int, people: int) -> dict[str, str]:
    """A queue of judged cases, each answered by one person; gives everybody's cookie."""
    instructions = "Is the reply good enough to send?\n{{ inputs }}\n{{ outputs }}"
    judge = Judge(name="tone", instructions=instructions, feedback_value_type=bool, model="openai:none")
    Registry(url).create(judge)
    examples = [Example(id=f"c-{n}", inputs=f"Where is order {n}?", outputs=f"{REPLY}{n}") for n in range(cases)]
    judged = [(case, Judgment(id=case.id, value=n % 5 > 0, rationale=REASON), 0.3) for n, case in enumerate(examples)]
    rows = []
    for n in range(cases):
        value = "true" if n % 4 else "false"
        row = {"judge": "tone", "case_id": f"c-{n}", "person": f"person {n % people}", "form": "", "taught": 1}
        row |= {"state": "answered", "value": value, "blind_value": value, "revision": 1}
        rows.append(row | {"created_at": now(), "updated_at": now(), "rationale": "It names no day."})
    with Store(url).write() as connection:
        add_cases(connection, "tone", examples)
        store_judgments(connection, judge, 1, judged)
        connection.execute(insert(reviews), rows)
        add_person(connection, "owner", Role.OWNER)
        ids = {f"person {n}": add_person(connection, f"person {n}", Role.REVIEWER) for n in range(people)}
        return {name: start_session(connection, person) for name, person in ids.items()}


def serve(url: str, port: str = "0") -> tuple[subprocess.Popen[str], str]:
    """The server once it answers, and its port."""
    command = [sys.executable, "-m", "memalign", "serve", "--registry", url, "--port", port]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    return process, re.findall(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())[0]


class Browser:
    """One person's browser: it sends again what no answer came to, and notes the seconds of every other request."""

    def __init__(self, port: str, name: str, cookie: str) -> None:
        self.name, self.repeats, self.seconds = name, 0, defaultdict[str, list[float]](list)
        self.headers = {"cookie": f"{COOKIE}={cookie}", "hx-request": "true", "accept": "text/html"}
        self.answers: dict[str, bool] = {}
        self.line = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)

    def ask(self, kind: str, path: str, **fields: str) -> str:
        """What a page, or the answer to a form, says."""
        form = {"content-type": "application/x-www-form-urlencoded"} if fields else {}
        for attempt in range(1_000):
            started = time.perf_counter()
            try:
                self.line.request("POST" if fields else "GET", path, urlencode(fields) or None, self.headers | form)
                response = self.line.getresponse()
                text = response.read().decode()
            except (OSError, http.client.HTTPException):
                self.line.close()
                self.repeats += attempt == 0
                time.sleep(0.2)
                continue
            if attempt == 0:
                self.seconds[kind].append(time.perf_counter() - started)
            assert response.status < 400, (path, response.status, text[:300])
            return text
        raise AssertionError("the server did not come back")

    def review(self, until: float, think: float) -> None:
        """Answer one case after the other, and look at the other pages now and then."""
        dice = random.Random(self.name)
        time.sleep(think * dice.random())
        while time.monotonic() < until:
            page = self.ask("review", "/judges/tone/review")
            fields = re.findall(r'name="(case|form|revision)" value="([^"]*)"', page)
            form = {name: unescape(value) for name, value in fields}
            time.sleep(think * dice.uniform(0.5, 1.5))
            if "revision" not in form:  # a colleague said otherwise
                self.ask("keep mine", "/judges/tone/review/differ", case=form["case"])
                continue
            value = dice.random() < 0.8
            self.ask("answer", "/judges/tone/review", **form, value=str(value).lower())
            self.answers[form["case"]] = value
            if dice.random() < 0.2:
                other = dice.choice(PAGES[1:])
                self.ask(other, f"/judges/tone/{other}")


def print_times(title: str, browsers: list[Browser]) -> None:
    """A table of the milliseconds of each kind of request."""
    print(f"\n| {title} | n | p50 | p95 |\n|---|--:|--:|--:|")
    for kind in sorted({kind for browser in browsers for kind in browser.seconds}):
        times = sorted(1000 * second for browser in browsers for second in browser.seconds[kind])
        print(f"| {kind} | {len(times)} | {statistics.median(times):.0f} | {times[int(0.95 * len(times))]:.0f} |")


def main() -> int:
    """Fill a database, measure, and compare what was acknowledged with what is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("seconds", 30), ("cases", 10_000), ("people", 50), ("think", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/memalign.db"
        cookies = fill(url, options.cases, options.people)
        process, port = serve(url)
        browsers = [Browser(port, name, cookie) for name, cookie in cookies.items()]
        for page in PAGES * 30:
            browsers[0].ask(page, f"/judges/tone/{page}")
        print_times("one person", browsers[:1])
        browsers[0].seconds.clear()
        until = time.monotonic() + options.seconds
        threads = [threading.Thread(target=browser.review, args=(until, options.think)) for browser in browsers]
        for thread in threads:
            thread.start()
        time.sleep(options.seconds / 2)
        process.kill()
        process.wait()
        process, _ = serve(url, port)
        for thread in threads:
            thread.join()
        process.terminate()
        process.wait()
        print_times(f"{options.people} reviewers", browsers)
        with Store(url).read() as connection:
            rows = {(row.person, row.case_id): row for row in connection.execute(select(reviews)).all()}
    answers = {(browser.name, case): value for browser in browsers for case, value in browser.answers.items()}
    lost = [key for key, value in answers.items() if key not in rows or from_json(rows[key].value) is not value]
    repeats = sum(browser.repeats for browser in browsers)
    print(f"\n{len(answers)} answers, {repeats} requests sent again: {len(lost)} lost or changed")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
