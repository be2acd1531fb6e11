"""docs/cli.md, written from the commands themselves: `python -m memalign.cli.reference [--check]`.

From the commands' parameters, not from the drawn help, so that it is the same on every terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memalign.cli.common import COMMON

__all__ = ["main", "page", "reference"]

_HEAD = """\
# Command line

<!-- Written by `python3 dev.py docs` from the commands themselves; a test checks that it is current. -->

Every command has this as `--help` too. A mistyped command or option says what it might have been.

**Exit codes.** 0: done. 1: done, with failures that are named (feedback that is pending, judgments with errors, invalid
rows that were left out; engines that `bench agree` finds too far apart). 2: wrong use, bad input, or an error that stopped the
command; the message says what was done, as a rule nothing. 130: Ctrl-C; the last line says what it left.

**Output.** Results are on stdout, progress and notes on stderr. With `--json` stdout is one JSON document; an error is
`{"error": {"type": …, "message": …}}`, with the `rows` that are at fault where there are any.

**Feedback** is JSONL, CSV, JSON or Parquet, one row a piece: `id`, the fields that were judged (`inputs`, `outputs`,
`expectations`, `conversation`, `trace`), `value`, `rationale` (at least one of these two), and if known `source` and
`created_at`. Other columns are kept as `meta`. Where feedback or items are asked for, `-` reads JSON lines from stdin.
"""


def page() -> Path:
    """docs/cli.md of the checkout that this file is in."""
    return Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def reference() -> str:
    """The reference as Markdown."""
    from typer.main import get_command

    from memalign.cli.app import app

    root: Any = get_command(app)
    commands = list(_leaves(root, ""))
    lines = [_HEAD, "## Options of every command\n"]
    lines += _table(("option", "what it does"), [_row(p) for p in root.commands["create"].params if _is_common(p)])
    lines.append("## Commands\n")
    for panel in dict.fromkeys(panel for panel, _, _ in _listed(root)):
        lines.append(f"**{panel}**\n")
        lines += [
            f"- [`{name}`](#memalign-{name.replace(' ', '-')}): {said}"
            for each, name, said in _listed(root)
            if each == panel
        ]
        lines.append("")
    for name, command in commands:
        lines += _section(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _listed(root: Any) -> Iterator[tuple[str, str, str]]:
    """Panel, name and first sentence of every command."""
    for name, command in root.commands.items():
        for leaf, each in _leaves(command, name):
            yield command.rich_help_panel, leaf, each.help.partition("\n\n")[0]


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    nested = getattr(command, "commands", None)
    if nested is None:
        yield name, command
        return
    for each, sub in nested.items():
        yield from _leaves(sub, f"{name} {each}".strip())


def _section(name: str, command: Any) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and not _is_common(p)]
    needed = [f"{p.opts[-1]} {p.metavar}" for p in options if p.required]
    usage = [f"memalign {name}", *map(_placed, arguments), *needed]
    if len(needed) < len(options):
        usage.append("[OPTIONS]")
    lines = [f"## memalign {name}\n", "```", " ".join(usage), "```\n", command.help.strip() + "\n"]
    if said := [_row(p) for p in arguments if p.help]:
        lines += _table(("argument", "what it is"), said)
    if options:
        lines += _table(("option", "what it does"), [_row(p) for p in options])
    return [*lines, "```", command.epilog.removeprefix("Example: "), "```", ""]


def _placed(argument: Any) -> str:
    shown = f"{argument.metavar}…" if argument.nargs != 1 else argument.metavar
    return shown if argument.required else f"[{shown}]"


def _is_common(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == COMMON


def _row(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`", parameter.help
    names = [f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)]
    shown = ", ".join(names) + (f" `{parameter.metavar}`" if parameter.metavar else "")
    said = [parameter.help]
    if parameter.required:
        said.append("Required.")
    if parameter.envvar:
        said.append(f"Environment: `{parameter.envvar}`.")
    if isinstance(parameter.default, str):
        said.append(f"Default: `{parameter.default}`.")
    return shown, " ".join(said)


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> list[str]:
    cells = [head, ("---", "---"), *((a.replace("|", "\\|"), b.replace("|", "\\|")) for a, b in rows)]
    return [*(f"| {a} | {b} |" for a, b in cells), ""]


def main(arguments: list[str]) -> int:
    """Write docs/cli.md, or with `--check` say whether it is current."""
    target, text = page(), reference()
    if "--check" not in arguments:
        target.write_text(text, "utf-8")
        return 0
    if target.exists() and target.read_text("utf-8") == text:
        return 0
    sys.stderr.write(f"{target} is not current: python3 dev.py docs\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
