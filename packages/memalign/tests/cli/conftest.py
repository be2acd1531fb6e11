"""A command line to call, a model behind it, and files to give it."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from memalign.cli.app import app
from memalign.cli.session import Session
from tests.support.endpoint import Answer, Body, Endpoint, user_of
from tests.support.learning import changes_of
from tests.support.rows import RawRow

INSTRUCTIONS = (
    "Is the reply warm and helpful?\nQuestion: {{ inputs }}\nReply: {{ outputs }}"
)
RULE = "When a customer is disappointed, the reply must show sympathy before facts."


def labelled(name: str, question: str, reply: str, value: object) -> RawRow:
    return {"id": name, "inputs": question, "outputs": reply, "value": value}


LATE = labelled("t-1", "My order is late.", "It is in transit.", False)
THANKS = labelled("t-2", "Thanks!", "Any time, enjoy your day!", True)
INVOICE = labelled("t-3", "Where is the invoice?", "In your account.", True)
FEEDBACK: list[RawRow] = [
    LATE | {"rationale": "Correct but cold.", "source": "ana"},
    THANKS | {"rationale": "Warm.", "source": "ana"},
    INVOICE | {"source": "ben"},
]
HELD_OUT: list[RawRow] = [
    labelled("h-1", "I was charged twice!", "One charge will be reversed.", True),
    labelled("h-2", "Lovely shop.", "Thank you so much!", False),
    THANKS,
]


def answer(body: Body) -> Answer:
    """A model that always passes the reply, and finds one rule in each piece of
    feedback that has words."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "changes" not in properties:
        verdict = {"rationale": "It answers the question.", "value": True}
        if "findings" not in properties:
            return verdict
        findings = []
        for name in properties["findings"]["items"]["properties"]["guideline"]["enum"]:
            findings.append({"guideline": name, "evidence": "", "value": True})
        return {"findings": findings} | verdict
    return changes_of(user_of(body), lambda label, _: f"{RULE[:-1]} ({label}).")


@dataclass(frozen=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def missing(text: str, *parts: str) -> list[str]:
    """The parts that are not in a text."""
    return [part for part in parts if part not in text]


def session(*, json: bool = False) -> Session:
    """A run of a command, outside of the command line."""
    context = Session(get_command(app))
    context.json = json
    return context


def invoke(
    command: str,
    *arguments: object,
    stdin: str | bytes | None = None,
    code: int | None = None,
    says: str = "",
) -> Ran:
    """A run, which is to end with this exit code and to print this among other things.

    A command is written as one types it; what holds blanks follows, a word each.
    """
    words = [*shlex.split(command), *map(str, arguments)]
    result = CliRunner().invoke(app, words, input=stdin, prog_name="memalign")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert code in (None, result.exit_code), result.output
    assert says in result.output
    return Ran(code=result.exit_code, out=result.stdout, err=result.stderr)


@pytest.fixture
def memalign(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line inside this process: `memalign("list --json")`."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return invoke


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A server that speaks chat completions; `openai:test` is on it."""
    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def jsonl(path: Path, rows: list[RawRow]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def read_jsonl(path: Path | str) -> list[RawRow]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def latest(name: str = "tone") -> int:
    """The number of a judge's latest version."""
    return int(invoke(f"show {name} --json").json["version"])


def creating(
    name: str,
    *more: str,
    instructions: str = INSTRUCTIONS,
    value_type: str = "bool",
    model: str = "openai:test",
) -> list[str]:
    """The words of a command that creates a judge."""
    words = ["create", name, "--instructions", instructions]
    return [*words, "--value-type", value_type, "--model", model, *more]


@pytest.fixture
def feedback(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "feedback.jsonl", FEEDBACK)


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "held_out.jsonl", HELD_OUT)


@pytest.fixture(scope="session")
def _registries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Registries made once and copied for each test: `tone.db` has the judge unaligned,
    `aligned.db` after it learned."""
    folder = tmp_path_factory.mktemp("registries")
    with pytest.MonkeyPatch.context() as patch, Endpoint(answer) as server:
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        registry = ("--registry", f"sqlite:///{folder / 'memalign.db'}")
        invoke(*creating("tone"), *registry, code=0)
        shutil.copy(folder / "memalign.db", folder / "tone.db")
        rows = jsonl(folder / "feedback.jsonl", FEEDBACK)
        invoke("align tone", rows, *registry, code=0)
        shutil.move(folder / "memalign.db", folder / "aligned.db")
    return folder


@pytest.fixture
def tone(_registries: Path, endpoint: Endpoint, tmp_path: Path) -> str:
    """A judge in the registry, unaligned: version 1."""
    shutil.copy(_registries / "tone.db", tmp_path / "memalign.db")
    return "tone"


@pytest.fixture
def aligned(
    _registries: Path, endpoint: Endpoint, tmp_path: Path, feedback: Path
) -> str:
    """The same judge after it learned from `feedback`: version 2."""
    shutil.copy(_registries / "aligned.db", tmp_path / "memalign.db")
    return "tone"
