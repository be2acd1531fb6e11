"""What the demo prints, on a machine that has nothing yet and with a model that writes what it likes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memalign.demo.show import Screen
from memalign.models.catalogue import DEFAULT, find
from memalign.types import Feedback, Judgment

if TYPE_CHECKING:
    import pytest

EVIL = "\x1b[2J[/bold] [red]done[/red] \u202eevil"


def test_the_first_run_says_what_it_will_pull_and_where_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMALIGN_MODELS", str(tmp_path))
    Screen().no_provider(find(DEFAULT))
    shown = " ".join(capsys.readouterr().out.split())
    assert "pulled once: 1,117 MB" in shown


def test_a_models_words_are_neither_markup_nor_commands_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = Feedback(id="t-1", inputs="a", outputs="b", value=True)
    screen = Screen()
    screen.verdicts([row, row], [Judgment(value=True, rationale=EVIL), Judgment(error=EVIL)])
    screen.say(EVIL)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[/bold] [red]done[/red]" in " ".join(shown.split())
