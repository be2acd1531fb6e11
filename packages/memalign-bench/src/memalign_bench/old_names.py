"""Names that earlier versions wrote. Their configurations, raw folders and command lines are read like today's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memalign.errors import InputError

__all__ = ["competitor_folder", "flags_of_today", "keys_of_today", "method_of_today", "older_names"]

METHODS: Mapping[str, str] = {
    "bare": "zero-shot",
    "bare-direct": "zero-shot-direct",
    "mlflow-bare": "mlflow-zero-shot",
    "memalign-without-probe": "memalign-without-pre-alignment",
    "guidelines-without-probe": "guidelines-without-pre-alignment",
}
KEYS: Mapping[str, str] = {"arms": "methods", "ceiling": "spend_limit", "peers": "competitors"}
FLAGS: Mapping[str, str] = {"--arm": "--method", "--ceiling": "--spend-limit", "--peers": "--competitors"}


def method_of_today(name: str) -> str:
    """The method's name today."""
    return METHODS.get(name, name)


def older_names(method: str) -> tuple[str, ...]:
    """What earlier versions called the method."""
    return tuple(old for old, new in METHODS.items() if new == method)


def keys_of_today(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's table with today's keys and methods. Raises InputError where it has a key under both names."""
    if twice := [old for old, new in KEYS.items() if old in raw and new in raw]:
        raise InputError(f"{twice[0]} is the old name of {KEYS[twice[0]]}: keep one of the two")
    table = {KEYS.get(key, key): value for key, value in raw.items()}
    if isinstance(methods := table.get("methods"), list):
        table["methods"] = [method_of_today(name) if isinstance(name, str) else name for name in methods]
    return table


def competitor_folder(memo: Path) -> Path:
    """Where competitors' logs and remembered calls lie: in the folder that an earlier version made, where there is one."""
    old = memo / "peers"
    return old if old.exists() else memo / "competitors"


def flags_of_today(arguments: Iterable[str]) -> list[str]:
    """Command-line arguments with today's flags: `--arm bare` and `--arm=bare` are `--method`."""
    found = []
    for argument in arguments:
        name, sign, value = argument.partition("=")
        found.append(f"{FLAGS.get(name, name)}{sign}{value}")
    return found
