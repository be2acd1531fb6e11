"""Help that a newcomer can follow."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from memalign.cli.app import app
from tests.cli.conftest import Run, missing

HEAVY = (
    "pydantic_ai",
    "numpy",
    "sqlalchemy",
    "wordllama",
    "xllamacpp",
    "openai",
    "jinja2",
    "msgspec",
    "rich",
)

ROOT: Any = get_command(app)
GROUPS = {"models": {"list", "pull"}}
COMMANDS = [name for name in ROOT.commands if name not in GROUPS]
PUBLIC = """
    demo create list show delete edit judge check align unalign erase guideline lock
    history diff rollback export import evaluate explain next review
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_common_options_and_an_example(
    memalign: Run, name: str
) -> None:
    options = str([parameter.opts for parameter in ROOT.commands[name].params])
    assert not missing(options, "'--registry'", "'--json'")
    shown = memalign(name, "--help", code=0)
    assert not set("{}") & set(shown.out.partition("\n")[0])
    assert not missing(shown.out, "Example: memalign", f"memalign {name}")


def test_every_public_command_is_there_with_an_example_that_parses() -> None:
    assert set(COMMANDS) == set(PUBLIC.split())
    assert {name: set(ROOT.commands[name].commands) for name in GROUPS} == GROUPS
    for name, command in ROOT.commands.items():
        for each in getattr(command, "commands", {"": command}).values():
            words = shlex.split(each.epilog.removeprefix("Example: memalign "))
            assert words[0] == name
            given = words[2:] if name in GROUPS else words[1:]
            each.make_context(name, given)  # raises for what would not parse


def test_the_overview_groups_all_commands_and_has_all_exit_codes(memalign: Run) -> None:
    shown = " ".join(memalign("--help").out.split())
    assert not missing(
        shown,
        "Start here",
        "Judges",
        "Judging",
        "Learning",
        "Forgetting",
        "Versions",
        "Models",
        "0 The command is done",
        "1 The command is done, but",
        "2 The command could",
        "3 A gate:",
    )


def test_help_loads_nothing_heavy() -> None:
    script = f"""
import sys
from memalign.cli import main
sys.argv = ["memalign", "align", "--help"]
try:
    main()
except SystemExit as ended:
    assert not ended.code
print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert ended.stderr.split() == []


def test_a_missing_server_names_its_install_command(
    memalign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "memalign_server.command", None)
    for command in ("serve", "serve --port 8080", "serve --help"):
        refused = memalign(command, code=2)
        assert refused.out == ""
        assert not missing(
            refused.err, "needs the package memalign-server", "pip install"
        )
    error = memalign("serve --port 8080 --json").json["error"]
    assert error["type"] == "ConfigurationError"
    shown = " ".join(memalign("--help").out.split())
    assert "serve Serve the experts' review pages and an HTTP API." in shown


@pytest.mark.parametrize(
    ("command", "usual"),
    [
        ("--json list", "list --json"),
        ("--registry sqlite:///elsewhere.db --json list", "list --json"),
        ("--json --registry=sqlite:///elsewhere.db list", "list --json"),
        ("--json models list", "models list --json"),
    ],
)
def test_options_of_every_command_may_come_before_its_name(
    memalign: Run, tone: str, command: str, usual: str
) -> None:
    shutil.copy("memalign.db", "elsewhere.db")
    assert memalign(command, code=0).json == memalign(usual, code=0).json


def test_an_option_that_a_command_lacks_is_told_before_its_name_too(
    memalign: Run,
) -> None:
    memalign("--nonsense list", code=2)
    memalign("--json nothing", code=2)
    assert "Start here" in memalign("--json", code=2).err


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_table_is_read_on_a_narrow_terminal(
    memalign: Run, aligned: str, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Seven columns of six letters are no table."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    assert not missing(memalign("list", code=0).out, "value_type", aligned)
    assert not missing(memalign("show tone --ledger", code=0).out, "learned", "t-1@ana")
    shown = memalign("history tone", code=0).out
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown), "a time is not folded"
    assert not missing(shown, "pending", "guidelines", "create")


@pytest.mark.parametrize(
    ("typed", "names"), [("", ["tone"]), ("to", ["tone"]), ("x", [])]
)
def test_a_shell_completes_the_names_of_judges(
    memalign: Run, tone: str, typed: str, names: list[str]
) -> None:
    show = ROOT.commands["show"]
    given = ["--registry", "memalign.db"]
    context = show.make_context("show", given, resilient_parsing=True)
    (argument,) = (each for each in show.params if each.name == "name")
    assert [item.value for item in argument.shell_complete(context, typed)] == names
    context.params["registry"] = "nowhere.db"
    assert not argument.shell_complete(context, typed)
