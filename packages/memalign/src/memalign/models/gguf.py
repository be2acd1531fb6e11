"""What the engines of local models share: where a model's file lies, what text may hold, and the settings of a machine."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

from memalign.errors import ConfigurationError
from memalign.models.catalogue import CATALOGUE, find

__all__ = ["closed", "locate", "physical_cores", "whole_number", "words_only"]

# What chat templates are made of. In judged text these words must stay words: tokenizers read them as control tokens
# wherever they stand, and a judged answer could end its own message and go on as the judge.
_CONTROL = re.compile(r"<(?=[|\uff5c])|<(?=/?s>|(?:start|end)_of_turn>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])")


def locate(name: str, *, engine: str) -> tuple[str, Path]:
    """The full name and the file of `name`: one of the catalogue's, or the path of a .gguf file.

    `engine:` may stand before it and stands before the full name. Raises ConfigurationError for an unknown name, and
    for a file that is not there or not whole, with the command that pulls it.
    """
    bare = name.removeprefix(f"{engine}:").strip()
    if bare.endswith(".gguf"):
        path = Path(bare).expanduser().absolute()
        # `local:/home/a/m.gguf` may arrive without its slash: in `openai:/m` the slash means nothing.
        path = path if path.is_file() or not (rooted := Path(f"/{bare}")).is_file() else rooted
        if not path.is_file():
            raise ConfigurationError(f"no model file {path}; give {engine}:PATH, or one of: {', '.join(CATALOGUE)}")
        known = next((entry.name for entry in CATALOGUE.values() if entry.path == path), None)
        return f"{engine}:{known or path}", path
    entry = find(bare)
    if not entry.present:
        there = "is not whole" if entry.path.exists() else "is not here yet"
        raise ConfigurationError(
            f"the embedded model {entry.name} {there} ({entry.path}); "
            f"run 'memalign models pull {entry.name}' ({entry.megabytes})"
        )
    return f"{engine}:{entry.name}", entry.path


def closed(schema: Any) -> Any:
    """`schema` with `additionalProperties: false` in every object that lists its properties and does not say."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        result.setdefault("additionalProperties", False)
    return result


def words_only(text: str) -> str:
    """`text` in which nothing is a control token: a space stands inside what would be one."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", text.encode("utf-8", "replace").decode("utf-8"))


def whole_number(variable: str, default: int, *, least: int) -> int:
    """The number that the environment's `variable` holds; `default` without one. Raises ConfigurationError."""
    raw = os.environ.get(variable, "").strip()
    if not raw:
        return default
    if not raw.isdecimal() or int(raw) < least:
        raise ConfigurationError(f"{variable} must be a whole number of at least {least}, not {raw!r}")
    return int(raw)


def physical_cores() -> int:
    """Physical cores that this process may use; engines get slower on more threads than that."""
    try:
        mine = os.sched_getaffinity(0)  # type: ignore[attr-defined,unused-ignore]  # Linux only
    except AttributeError:
        return os.cpu_count() or 1
    cores = set()
    for cpu in mine:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except OSError:
            cores.add(str(cpu))
    return max(1, min(len(cores), _cpu_quota()))


def _cpu_quota() -> int:
    """Whole CPUs that a container's limit allows; a large number without one."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return 1 << 16
