"""Headers that go with every request to a model. They are stored with a judge, so they may hold no secret.

A value names environment variables instead, `Bearer $MEMALIGN_HEADER_TEAM`, which are read when the model is opened.
`$$` is a dollar sign. Judges travel, as bundles and in registries that others write to, so two rules stand between a
judge and the variables of the machine that it runs on:

- only variables whose names begin with `MEMALIGN_HEADER_` are ever read;
- they go to a provider's own server and to the addresses that this machine's environment names, in
  `MEMALIGN_HEADER_SERVERS` or a variable such as `OPENAI_BASE_URL`, and not to an address that only the judge names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from string import Template
from urllib.parse import urlsplit

from memalign.errors import ConfigurationError, InputError
from memalign.models.providers import address_of, parse_name, servers_of_this_machine

__all__ = ["checked_headers", "filled_headers"]

PREFIX = "MEMALIGN_HEADER_"
"""What the names of variables begin with that a header may send."""

SERVERS = "MEMALIGN_HEADER_SERVERS"
"""Addresses to which such variables may go, separated by blanks or commas."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
_SCHEME = re.compile(r"^\s*(?:bearer|basic|token|apikey|key)\b|[\w.-]+=(?=\s|;|$)", re.IGNORECASE)
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|session|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^\s*(?:bearer|basic)\s+\S|\b(?:sk|pk|rk|ghp|gho|hf|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12,}|\beyJ[\w-]{10,}",
    re.IGNORECASE,
)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers` that may be stored. Raises InputError, which repeats no value, for a secret or a broken one."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise InputError("a header has a name of letters, digits and hyphens: 'X-Team: support'")
        if not (value.strip() and value.isprintable() and value.isascii() and Template(value).is_valid()):
            raise InputError(
                f"header {name}: its value is a line of plain characters; $NAME or ${{NAME}} names an environment "
                "variable, and $$ is a dollar sign"
            )
        _check_variables(name, Template(value).get_identifiers(), InputError)
        plain = _VARIABLE.sub("", value)
        if _SECRET_VALUE.search(plain) or (_SECRET_NAME.search(name) and _SCHEME.sub("", plain).strip(" ;,")):
            raise InputError(
                f"header {name}: a secret would be stored with the judge. Put it into an environment variable and name "
                f"that, in single quotes: '{name}: Bearer ${PREFIX}KEY'"
            )
    return dict(headers)


def filled_headers(headers: Mapping[str, str], model: str) -> dict[str, str]:
    """Headers as they are sent, their variables filled in.

    Args:
        headers: By name; a value may name variables.
        model: The name of the model that they go to, with its address where it has one.

    Raises:
        ConfigurationError: A variable is not set, holds what no header can, or may not go to that model.
    """
    filled = {}
    address = address_of(parse_name(model)[1])[1]
    trusted = {*re.split(r"[\s,]+", os.environ.get(SERVERS, "")), *servers_of_this_machine()}
    for name, value in headers.items():
        variables = Template(value).get_identifiers()
        _check_variables(name, variables, ConfigurationError)
        if variables and address is not None and _origin(address) not in map(_origin, filter(None, trusted)):
            raise ConfigurationError(
                f"header {name}: {' and '.join(variables)} may not go to {address}: {SERVERS} does not name that "
                f"address. If you trust it with this key, set {SERVERS}={address}"
            )
        for variable in variables:
            secret = os.environ.get(variable, "")
            if not (secret and secret.isascii() and secret.isprintable()):
                raise ConfigurationError(
                    f"{model}: its header {name} needs the environment variable {variable}, which is not set, or holds "
                    "a line break or a character that no header has"
                )
        filled[name] = Template(value).substitute(os.environ)
    return filled


def _check_variables(name: str, variables: list[str], error: type[InputError | ConfigurationError]) -> None:
    for variable in variables:
        if not variable.startswith(PREFIX):
            raise error(
                f"header {name}: {variable} is not sent; only variables named {PREFIX}… are. Set one such, and name "
                f"it: '{name}: ${PREFIX}KEY'"
            )


def _origin(url: str) -> tuple[str, str]:
    """Scheme, host and port."""
    parts = urlsplit(url.lower())
    return parts.scheme, parts.netloc.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))
