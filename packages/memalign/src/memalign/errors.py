"""Every error that memalign raises on purpose.

MemalignError
├── InputError                  what was given is wrong; nothing was done
│   ├── InvalidInstructions     a judge's instructions name no field, or one that does not exist
│   ├── InvalidValueType        a value type that is not one of the five
│   ├── InvalidValue            a label outside the judge's value type
│   ├── InvalidRows             rows of a file or list, each with its line and reason
│   ├── LockBroken              a change by hand would make a locked case come out wrong
│   └── UnknownKey              a feedback key, guideline id or version that is not there
├── ConfigurationError          no model, no key, a missing extra: names what to set or install
│   └── AccessDenied            the provider refuses the key, the model's name or the account
├── ModelError                  a model call that failed after its retries
│   ├── ModelUnavailable        unreachable, 5xx, timed out
│   ├── RateLimited             429 after the last retry
│   ├── ModelRejected           4xx: wrong name, wrong key, prompt too long
│   ├── ModelRefused            the model declined to answer
│   ├── SpendLimitReached       the call was not made: it would have cost more than max_cost
│   └── InvalidOutput           an answer that does not fit the schema
└── RegistryError
    ├── JudgeNotFound
    ├── JudgeExists
    ├── VersionConflict         somebody else committed first, every time we tried
    └── RegistryTooNew          written by a newer memalign

`RowError` is one row's fault within `InvalidRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memalign.types import Usage

__all__ = [
    "AccessDenied",
    "ConfigurationError",
    "InputError",
    "InvalidInstructions",
    "InvalidOutput",
    "InvalidRows",
    "InvalidValue",
    "InvalidValueType",
    "JudgeExists",
    "JudgeNotFound",
    "LockBroken",
    "MemalignError",
    "ModelError",
    "ModelRefused",
    "ModelRejected",
    "ModelUnavailable",
    "RateLimited",
    "RegistryError",
    "RegistryTooNew",
    "RowError",
    "SpendLimitReached",
    "UnknownKey",
    "VersionConflict",
]


class MemalignError(Exception):
    """Base class of every error that memalign raises on purpose."""


class InputError(MemalignError, ValueError):
    """What was given is wrong; nothing was done."""


class InvalidInstructions(InputError):
    """A judge's instructions name no field, or one that does not exist."""


class InvalidValueType(InputError):
    """A feedback value type that is not one of bool, choices, bounded int or float, str."""


class InvalidValue(InputError):
    """A label outside the judge's value type; the message lists what is allowed."""


class LockBroken(InputError):
    """A change by hand would make a locked case come out wrong."""


class UnknownKey(InputError):
    """A feedback key, guideline id or version that is not there; the message says what is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowError:
    """One bad row: its 1-based line, or its position in a list, its id if it had one, and why."""

    line: int
    reason: str
    id: str | None = None

    def __str__(self) -> str:
        if not self.id:
            return f"line {self.line}: {self.reason}"
        return f"line {self.line} ({self.id[:80]}): {self.reason}"


class InvalidRows(InputError):
    """Rows that cannot be used; nothing was learned, and `rows` has each line and reason."""

    SHOWN = 20  # reasons

    def __init__(self, source: str, rows: Sequence[RowError], hint: str = "") -> None:
        self.source = source
        self.rows = tuple(rows)
        self.hint = hint
        alike: dict[str, list[RowError]] = {}
        for row in self.rows:
            alike.setdefault(row.reason, []).append(row)
        rest = len(alike) - self.SHOWN
        count = len(self.rows)
        plural = "" if count == 1 else "s"
        lines = [f"{source}: {count} invalid row{plural}, nothing was done"]
        reasons = list(alike.values())
        for same in reasons[: self.SHOWN]:
            line = f"  {same[0]}"
            if len(same) > 1:
                more = len(same) - 1
                line += f"; the same in {more} more, the last on line {same[-1].line}"
            lines.append(line)
        if rest > 0:
            lines.append(f"  … and {rest} more reasons")
        if hint:
            lines.append(hint)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        """Return what makes it anew, in another process too."""
        return type(self), (self.source, self.rows, self.hint)


class ConfigurationError(MemalignError):
    """No model, no key, a missing extra; the message names what to set or install."""


class AccessDenied(ConfigurationError):
    """The provider refuses the key, the model's name or the account: every call would fail."""


class ModelError(MemalignError):
    """A model call that failed after its retries; `usage` is its cost, None if nothing answered.

    `denied` says that not the request is at fault but the key, the model's name or the account.
    """

    def __init__(
        self, *args: object, usage: Usage | None = None, denied: bool = False
    ) -> None:
        super().__init__(*args)
        self.usage = usage
        self.denied = denied


class ModelUnavailable(ModelError):
    """The model could not be reached, failed with a 5xx, or did not answer in time."""


class RateLimited(ModelError):
    """The provider still answered 429 after the last retry."""


class ModelRejected(ModelError):
    """The provider rejected the request: a wrong model name or key, or too long a prompt."""


class ModelRefused(ModelError):
    """The model declined to answer, or its provider's content filter did."""


class SpendLimitReached(ModelError):
    """The call was not made: with it the run would have cost more than its `max_cost`."""


class InvalidOutput(ModelError):
    """The model's answer does not fit the schema it was given."""


class RegistryError(MemalignError):
    """The registry cannot do what was asked."""


class JudgeNotFound(RegistryError):
    """No judge of that name or version in the registry."""


class JudgeExists(RegistryError):
    """A judge of that name is in the registry already."""


class VersionConflict(RegistryError):
    """Somebody else committed a version first, every time we tried."""


class RegistryTooNew(RegistryError):
    """The registry was written by a newer memalign; upgrade to open it."""
