"""The benchmark's commands in the help of `memalign`."""

from __future__ import annotations

import shlex
from typing import Any

from typer.main import get_command

from memalign.cli.app import app

BENCH: Any = get_command(app).get_command(None, "bench")  # type: ignore[attr-defined]  # a group, no context


def test_the_examples_of_the_help_parse() -> None:
    assert {"run", "report", "attack", "draws"} <= set(BENCH.commands)
    for name, command in BENCH.commands.items():
        words = shlex.split(command.epilog.removeprefix("Example: memalign bench "))
        assert words[0] == name
        command.make_context(name, words[1:])  # raises for what would not parse
