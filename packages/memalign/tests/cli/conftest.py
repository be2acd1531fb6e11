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

LATE: RawRow = {
    "id": "t-1",
    "inputs": "My order is late.",
    "outputs": "It is in transit.",
    "value": False,
}
THANKS: RawRow = {
    "id": "t-2",
    "inputs": "Thanks!",
    "outputs": "Any time, enjoy your day!",
    "value": True,
}
FEEDBACK: list[RawRow] = [
    LATE | {"rationale": "Correct but cold.", "source": "ana"},
    THANKS | {"rationale": "Warm.", "source": "ana"},
    {
        "id": "t-3",
        "inputs": "Where is the invoice?",
        "outputs": "In your account.",
        "value": True,
        "source": "ben",
    },
]
HELD_OUT: list[RawRow] = [
    {
        "id": "h-1",
        "inputs": "I was charged twice!",
        "outputs": "One charge will be reversed.",
        "value": True,
    },
    {
        "id": "h-2",
        "inputs": "Lovely shop.",
        "outputs": "Thank you so much!",
        "value": False,
    },
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
        shown = properties["findings"]["items"]["properties"]["guideline"]["enum"]
        return {
            "findings": [
                {"guideline": name, "evidence": "", "value": True} for name in shown
            ]
        } | verdict
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
        url = f"sqlite:///{folder / 'memalign.db'}"
        settings = (
            "--instructions",
            INSTRUCTIONS,
            "--value-type",
            "bool",
            "--model",
            "openai:test",
        )
        made = invoke("create", "tone", *settings, "--registry", url)
        assert made.code == 0, made.err
        shutil.copy(folder / "memalign.db", folder / "tone.db")
        learned = invoke(
            "align",
            "tone",
            jsonl(folder / "feedback.jsonl", FEEDBACK),
            "--registry",
            url,
        )
        assert learned.code == 0, learned.err
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
