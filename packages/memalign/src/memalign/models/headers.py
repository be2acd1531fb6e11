"""Headers that go with every request to a model. They are stored with a judge, so they may hold no secret.

A value names an environment variable instead, `Bearer $MEMALIGN_HEADER_TEAM`, which is read when the model is opened.
Judges travel, as bundles and in registries that others write to, so two rules stand between a judge and the variables
of the machine that it runs on:

- only variables whose names begin with `MEMALIGN_HEADER_` are ever read;
- they go to a provider's own server and to the addresses that this machine's environment names, in
  `MEMALIGN_HEADER_SERVERS` or a variable such as `OPENAI_BASE_URL`, and not to an address that only the judge names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from memalign.errors import ConfigurationError, InputError
from memalign.models.providers import address_of, parse_name, servers_of_this_machine

__all__ = ["checked_headers", "filled_headers"]

SERVERS = "MEMALIGN_HEADER_SERVERS"
"""Addresses to which such variables may go, separated by blanks or commas."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_VARIABLE = re.compile(r"(?P<scheme>(?:\w+ )?)\$(?P<name>MEMALIGN_HEADER_\w+)")
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|session|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"^\s*(?:bearer|basic)\s+\S|\b(?:sk|pk|rk|ghp|gho|hf|xox[a-z])[-_][\w-]{8,}|\bAKIA\w{12,}|\beyJ[\w-]{10,}|\$",
    re.IGNORECASE,
)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers` that may be stored. Raises InputError, which repeats no value, for a secret or a broken one."""
    for name, value in headers.items():
        if not (_NAME.fullmatch(name) and value.strip() and value.isprintable() and value.isascii()):
            raise InputError("a header is a name and a line of plain characters: 'X-Team: support'")
        if not _VARIABLE.fullmatch(value) and (_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)):
            raise InputError(
                f"header {name}: a secret would be stored with the judge. Put it into an environment variable whose "
                f"name begins with MEMALIGN_HEADER_ (no other is sent), and name that, in single quotes: '{name}: "
                "Bearer $MEMALIGN_HEADER_KEY'"
            )
    return dict(headers)


def filled_headers(headers: Mapping[str, str], model: str) -> dict[str, str]:
    """Headers as they are sent to the model of that name, their variables filled in.

    Raises ConfigurationError where a variable is not set, holds what no header can, or may not go to that model.
    """
    filled = checked_headers(headers)
    address = address_of(parse_name(model)[1])[1]
    trusted = {*re.split(r"[\s,]+", os.environ.get(SERVERS, "")), *servers_of_this_machine()}
    for name, value in headers.items():
        if (match := _VARIABLE.fullmatch(value)) is None:
            continue
        variable, secret = match["name"], os.environ.get(match["name"], "")
        if address is not None and _origin(address) not in map(_origin, filter(None, trusted)):
            raise ConfigurationError(
                f"header {name}: {variable} may not go to {address}: {SERVERS} does not name that address. If you "
                f"trust it with this key, set {SERVERS}={address}"
            )
        if not (secret and secret.isascii() and secret.isprintable()):
            raise ConfigurationError(
                f"{model}: its header {name} needs the environment variable {variable}, which is not set, or holds "
                "a line break or a character that no header has"
            )
        filled[name] = match["scheme"] + secret
    return filled


def _origin(url: str) -> tuple[str, str]:
    """Scheme, host and port."""
    parts = urlsplit(url.lower())
    return parts.scheme, parts.netloc.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme, ""))
