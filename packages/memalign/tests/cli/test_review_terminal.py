"""One case at a time in a terminal: blind first, keyboard only, resumable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memalign.cli.review_terminal import Reviewer
from memalign.io.review import ReviewCase
from memalign.io.review_answers import ReviewAnswers
from memalign.types import Example, Judgment
from memalign.values import ValueType
from tests.cli.conftest import Ran, Run
from tests.support.patience import PATIENCE

pty = pytest.importorskip("pty")

CASES = [
    ReviewCase(example=Example(id=f"c-{n}", outputs=f"reply {n}"), judgment=Judgment(value=True, rationale="Warm."))
    for n in range(3)
]
BOOL = ValueType.of(bool)


def sitting(
    path: Path, *typed: str, source: str = "ana", value_type: ValueType = BOOL, shown: bool = False
) -> tuple[Reviewer, list[str]]:
    """A sitting in which these lines are typed, and then the end of the input; what was said and asked, in order."""
    said: list[str] = []
    lines = iter(typed)

    def ask(question: str) -> str:
        said.append(question)
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    with ReviewAnswers(path, source=source, value_type=value_type) as answers:
        reviewer = Reviewer(
            cases=CASES,
            answers=answers,
            value_type=value_type,
            shown=shown,
            ask=ask,
            say=said.append,
            heading=said.append,
        )
        reviewer.run()
        return reviewer, said


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_judges_verdict_comes_after_ones_own(tmp_path: Path) -> None:
    reviewer, said = sitting(tmp_path / "a.jsonl", "n", "Too cold.", "y", "")
    own = said.index("your verdict (y true, n false; Enter skips, b back, q quit, w words): ")
    revealed = said.index("the judge says true, and you do not: Warm.")
    assert own < revealed < said.index("why, in your words (Enter for none): ")
    assert said.count("the judge says true, as you do: Warm.") == 1
    assert (reviewer.answered, reviewer.left) == (2, 1)
    first, second = rows(tmp_path / "a.jsonl")
    assert {k: first[k] for k in ("id", "outputs", "value", "rationale", "source")} == {
        "id": "c-0",
        "outputs": "reply 0",
        "value": False,
        "rationale": "Too cold.",
        "source": "ana",
    }
    assert (second["value"], "rationale" in second) == (True, False)


def test_a_sitting_goes_on_where_one_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    sitting(path, "y", "", "q")
    with path.open("ab") as file:
        file.write(b"\n")
    reviewer, said = sitting(path, "", "n", "")
    assert said[0] == "case 2 of 3: c-1"
    assert (reviewer.answered, reviewer.skipped, reviewer.left) == (1, 1, 1)
    other, _ = sitting(path, "y", "", source="ben")
    assert other.left == 2
    with ReviewAnswers(path, source="ana", value_type=BOOL) as answers:
        assert len(answers) == 2


def test_back_replaces_answers_and_words_need_no_verdict(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    _, said = sitting(path, "b", "y", "", "b", "n", "Cold after all.", "w", "Unclear.")
    assert "this is the first case of this sitting" in said
    assert "answered so far: true" in said
    found = rows(path)
    assert [(row["id"], row.get("value"), row.get("rationale")) for row in found] == [
        ("c-0", False, "Cold after all."),
        ("c-1", None, "Unclear."),
    ]


@pytest.mark.parametrize(
    ("value_type", "typed", "value", "hint"),
    [
        ("A|B|tie", "b", "B", "1 A, 2 B, 3 tie; Enter skips, /b back, q quit, w words"),
        ("A|B|tie", "3", "tie", "1 A"),
        ("1|2|3", "3", "3", "1 1, 2 2"),
        ("int:1..5", "4", 4, "a whole number from 1 to 5"),
        ("float:0..1", ".5", 0.5, "a number from 0 to 1"),
        ("str", "quit it", "quit it", "any text; Enter skips, /b back, /q quit, /w words"),
        ("bool", "Yes", True, "y true"),
    ],
)
def test_every_value_type_is_typed_in_one_word(
    tmp_path: Path, value_type: str, typed: str, value: Any, hint: str
) -> None:
    _, said = sitting(
        tmp_path / "a.jsonl", "" if value_type == "str" else "nonsense", typed, "", value_type=ValueType.of(value_type)
    )
    assert any(hint in line for line in said)
    assert rows(tmp_path / "a.jsonl")[0]["value"] == value


def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text in ('{"key": 1}\n', "not json\n", '{"id": "c-0", "value": "maybe"}\n'):
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match="is no file of answers"):
            ReviewAnswers(path, source="ana", value_type=BOOL)
        assert path.read_text("utf-8") == text
    path.write_text('{"id": "c-0", "outputs": "another reply", "value": true, "source": "ana"}', "utf-8")
    with pytest.raises(ValueError, match="with another text; name another file: --to FILE"):
        sitting(path)


def test_a_sitting_without_an_answer_leaves_nothing(tmp_path: Path) -> None:
    reviewer, _ = sitting(tmp_path / "a.jsonl", "", "q")
    assert (reviewer.answered, reviewer.skipped, reviewer.left) == (0, 1, 3)
    assert list(tmp_path.iterdir()) == []


def test_two_reviews_do_not_write_one_file(tmp_path: Path) -> None:
    with (
        ReviewAnswers(tmp_path / "a.jsonl", source="ana", value_type=BOOL),
        pytest.raises(ValueError, match="being written by another review"),
    ):
        ReviewAnswers(tmp_path / "a.jsonl", source="ben", value_type=BOOL)


# -- in a terminal ------------------------------------------------------------------------------------------------------

Typed = Callable[..., Ran]


IN_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C on this keyboard reaches it
from memalign.cli import main
sys.argv[0] = "memalign"
main()
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Typed:
    """The command line in a terminal of its own; each text is typed when the next question stands there."""

    def run(*arguments: str | Path, typed: list[str]) -> Ran:
        keyboard, screen = pty.openpty()
        out, err = tmp_path / "out.txt", tmp_path / "err.txt"
        with out.open("wb") as results, err.open("wb") as messages:
            command = [sys.executable, "-c", IN_A_TERMINAL, *map(str, arguments)]
            process = subprocess.Popen(command, stdin=screen, stdout=results, stderr=messages, start_new_session=True)
        os.close(screen)
        deadline = time.monotonic() + PATIENCE
        for number, text in enumerate(typed):
            while err.read_text("utf-8").count("): ") <= number:
                assert time.monotonic() < deadline, err.read_text("utf-8")
                assert process.poll() is None, err.read_text("utf-8")
                time.sleep(0.02)
            os.write(keyboard, text.encode())
        code = process.wait(timeout=PATIENCE)
        os.close(keyboard)
        return Ran(code=code, out=out.read_text("utf-8"), err=err.read_text("utf-8"))

    return run


def test_from_the_first_case_to_the_next_command(memalign: Run, terminal: Typed, tone: str, held_out: Path) -> None:
    assert memalign("judge", tone, held_out, "-o", "judged.jsonl").code == 0
    words = ("review", tone, "judged.jsonl", "--examples", held_out, "--source", "ana")
    first = terminal(*words, typed=["n\n", "Cold, são três.\n", "q\n"])
    assert first.code == 0, first.err
    assert "I was charged twice!" in first.err
    assert "the judge says true, and you do not: It answers the question." in first.err
    assert "1 answered, 0 skipped, 2 left; as ana, in judged.review.jsonl" in first.out
    stopped = terminal(*words, typed=["y\n", "\n", "\x03"])
    assert stopped.code == 130
    assert "1 of 3 answered already by ana" in stopped.err
    assert "2 answers in judged.review.jsonl; the same command goes on there" in stopped.err
    last = terminal(*words, "--json", typed=["y\n", "Fine.\n"])
    assert json.loads(last.out) == {
        "judge": "tone",
        "answers": "judged.review.jsonl",
        "source": "ana",
        "answered": 1,
        "skipped": 0,
        "left": 0,
        "next": "memalign align tone judged.review.jsonl",
    }
    done = memalign("align", tone, "judged.review.jsonl", "--json")
    assert [row["key"] for row in done.json["rows"]] == ["h-1@ana", "h-2@ana", "t-2@ana"]
    assert rows(Path("judged.review.jsonl"))[0]["rationale"] == "Cold, são três."
