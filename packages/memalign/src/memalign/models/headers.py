"""Headers that go with every request to a model. They are stored with a judge, so they may hold no secret.

A value names environment variables instead, `Bearer $TEAM_KEY`, which are read when the model is opened. `$$` is a dollar
sign.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from string import Template

from memalign.errors import ConfigurationError, InputError

__all__ = ["checked_headers", "filled_headers"]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
_SCHEME = re.compile(r"^\s*(?:bearer|basic|token|apikey|key)\b|[\w.-]+=(?=\s|;|$)", re.IGNORECASE)
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|session|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^\s*(?:bearer|basic)\s+\S|\b(?:sk|pk|rk|ghp|gho|hf|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12,}|\beyJ[\w-]{10,}",
    re.IGNORECASE,
)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers` that may be stored. Raises InputError, which repeats no value, for a secret and for what is no header."""
    if not isinstance(headers, Mapping):
        raise InputError("headers are a mapping from names to values, such as {'X-Team': 'support'}")
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InputError("a header has a name of letters, digits and hyphens: 'X-Team: support'")
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or not value.isascii():
            raise InputError(f"header {name}: its value is a line of plain characters")
        if not Template(value).is_valid():
            raise InputError(
                f"header {name}: $NAME or ${{NAME}} names an environment variable; write $$ for a dollar sign"
            )
        rest = _VARIABLE.sub("", value)
        left = _SCHEME.sub("", rest).strip(" ;,")
        if _SECRET_VALUE.search(rest) or (left and _SECRET_NAME.search(name)):
            raise InputError(
                f"header {name}: a secret would be stored with the judge. Put it into an environment variable and name "
                f"that, in single quotes: '{name}: Bearer $VARIABLE'"
            )
    return dict(headers)


def filled_headers(headers: Mapping[str, str], model: str) -> dict[str, str]:
    """`headers` as they are sent, their variables filled in. Raises ConfigurationError for one that is not set."""
    filled = {}
    for name, value in headers.items():
        missing = [each for each in Template(value).get_identifiers() if not os.environ.get(each)]
        if missing:
            raise ConfigurationError(
                f"{model}: its header {name} needs the environment variable {missing[0]}, which is not set"
            )
        filled[name] = Template(value).substitute(os.environ)
        if not (filled[name].isascii() and filled[name].isprintable()):
            variables = " or ".join(Template(value).get_identifiers())
            raise ConfigurationError(
                f"{model}: its header {name}: {variables} holds a line break or a character that no header has, such as '…'"
            )
    return filled
