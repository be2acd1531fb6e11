"""How long do the server's pages take while fifty people review 10,000 cases at once?

    python benchmarks/pages.py [--seconds 30]

`memalign serve` is a process of its own over SQLite, and each case has an answer. Everybody answers
one case after the other over HTTP, thinks two seconds on average, and looks at the other pages now
and then.
"""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape

import httpx
from shared import markdown, parser_of

from memalign import Example, Judge, Judgment, Registry
from memalign_server.people.access import COOKIE
from memalign_server.people.service import Role, add_person, start_session
from memalign_server.store import Store
from memalign_server.store.answers import add_answer, all_answers
from memalign_server.store.cases import add_cases, store_judgments
from memalign_server.store.rows import Answer
from memalign_server.store.tables import now

CASES = 10_000
PEOPLE = 50
THINKING = 2.0  # seconds on average
INSTRUCTIONS = "Is the reply good enough to send?\n{{ inputs }}\n{{ outputs }}"
SENTENCES = (
    "We are sorry for the delay. "
    "Your order left us on Tuesday and arrives within two days. "
)
REASON = (
    "It is polite, says when the order arrives, "
    "and asks for nothing that the customer has said already."
)

Seconds = dict[str, list[float]]


def fill(url: str) -> dict[str, str]:
    """Store judged cases, each answered by one person, and return everybody's cookie."""
    judge = Judge(
        name="tone",
        instructions=INSTRUCTIONS,
        feedback_value_type=bool,
        model="openai:none",
    )
    Registry(url).create(judge)
    examples = []
    judged = []
    answers = []
    for n in range(CASES):
        example = Example(
            id=f"c-{n}",
            inputs=f"Where is order {n}?",
            outputs=f"{SENTENCES * 6}{n}",
        )
        examples.append(example)
        judged.append(
            (example, Judgment(id=example.id, value=n % 5 > 0, rationale=REASON))
        )
        answers.append(answer(n, example))
    cookies = {}
    with Store(url).write() as connection:
        add_cases(connection, "tone", examples)
        store_judgments(
            connection, judge, 1, judged, {example.id: 0.0 for example in examples}
        )
        for given in answers:
            add_answer(connection, given)
        add_person(connection, "owner", Role.OWNER)
        for n in range(PEOPLE):
            person = add_person(connection, name_of(n), Role.REVIEWER)
            cookies[name_of(n)] = start_session(connection, person)
    return cookies


def name_of(n: int) -> str:
    """Return the name of the person who answered a case."""
    return f"person {n % PEOPLE}"


def answer(n: int, example: Example) -> Answer:
    """Return the answer that a case has already."""
    value = n % 4 > 0
    return Answer(
        judge="tone",
        case_id=example.id,
        content_hash=example.content_hash,
        person=name_of(n),
        state="answered",
        value=value,
        blind_value=value,
        rationale="No day.",
        revision=1,
        taught=1,
    )


def review(name: str, client: httpx.Client, until: float) -> Seconds:
    """Answer one case after the other, look at the other pages now and then, and time it."""
    dice = random.Random(name)
    seconds: Seconds = defaultdict(list)

    def ask(kind: str, path: str, **fields: str) -> str:
        started = time.perf_counter()
        response = client.post(path, data=fields) if fields else client.get(path)
        seconds[kind].append(time.perf_counter() - started)
        assert response.status_code < 400, (
            path,
            response.status_code,
            response.text[:300],
        )
        return response.text

    time.sleep(THINKING * dice.random())
    while time.monotonic() < until:
        page = ask("review", "review")
        fields = re.findall(
            r'name="(case|content|form|revision)" value="([^"]*)"', page
        )
        form = {key: unescape(value) for key, value in fields}
        time.sleep(THINKING * dice.uniform(0.5, 1.5))
        if "revision" in form:
            ask("answer", "review", **form, value=dice.choice(("true", "false")))
        else:  # a colleague said otherwise
            ask("keep mine", "review/differ", case=form["case"])
        if dice.random() < 0.2:
            other = dice.choice(("learned", "trust"))
            ask(other, other)
    return seconds


@contextmanager
def served(url: str) -> Iterator[str]:
    """Serve a registry, and yield the address."""
    command = [
        sys.executable,
        "-m",
        "memalign",
        "serve",
        "--registry",
        url,
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        try:
            yield address
        finally:
            process.terminate()


def reviewed(address: str, cookies: Mapping[str, str], seconds: float) -> list[Seconds]:
    """Have everybody review at once, and return their times."""
    until = time.monotonic() + seconds
    work = []
    with ThreadPoolExecutor(len(cookies)) as pool:
        for name, cookie in cookies.items():
            client = httpx.Client(
                base_url=f"{address}/judges/tone/",
                headers={
                    "cookie": f"{COOKIE}={cookie}",
                    "x-part": "true",
                    "accept": "text/html",
                },
                timeout=60,
            )
            work.append(pool.submit(review, name, client, until))
        return [task.result() for task in work]


def table(people: list[Seconds]) -> str:
    """Return how long each kind of request took."""
    by_kind: Seconds = defaultdict(list)
    for seconds in people:
        for kind, times in seconds.items():
            by_kind[kind] += times
    rows = []
    for kind in sorted(by_kind):
        times = sorted(by_kind[kind])
        place = int(0.95 * len(times))
        middle = 1000 * statistics.median(times)
        slow = 1000 * times[place]
        rows.append((kind, len(times), f"{middle:.0f}", f"{slow:.0f}"))
    return markdown((f"{len(people)} reviewers, milliseconds", "n", "p50", "p95"), rows)


def main() -> None:
    """Fill a database, review, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/memalign.db"
        cookies = fill(url)
        began = now()
        with served(url) as address:
            people = reviewed(address, cookies, options.seconds)
        with Store(url).read() as connection:
            answers = all_answers(connection, "tone")
    print(table(people))
    sent = sum(len(seconds["answer"]) for seconds in people)
    kept = sum(one.created_at > began for one in answers)
    print(f"\n{sent} answers were sent, and {kept} are kept.")


if __name__ == "__main__":
    main()
