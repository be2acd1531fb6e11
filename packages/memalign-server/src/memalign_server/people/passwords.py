"""Passwords: hashed by argon2id with the library's parameters, checked in the same time whether or not the name exists."""

from __future__ import annotations

from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from memalign_server.problems import Refused

__all__ = ["SHORTEST", "check_password", "hashed", "matches", "outdated"]

SHORTEST = 10
_LONGEST = 500  # characters: hashing takes its time by length
_hasher = PasswordHasher()


def check_password(password: str, name: str) -> None:
    """Raise InputError for a password that is too easy or too long."""
    if len(password) < SHORTEST:
        raise Refused("a password has at least {n} characters; four words make a good one", n=SHORTEST)
    if len(password) > _LONGEST:
        raise Refused("a password has at most {n} characters", n=_LONGEST)
    if len(set(password)) < 4 or name.casefold() in password.casefold() or password.isdigit():
        raise Refused("this password is easy to guess: use four words that have nothing to do with your name")


def hashed(password: str) -> str:
    """The argon2 hash of a password, with its salt and parameters. Takes some tens of milliseconds."""
    return _hasher.hash(password)


def matches(password: str, known: str | None) -> bool:
    """Whether a password has this hash. Takes as long where there is no hash, so that nobody learns which names exist."""
    try:
        return _hasher.verify(known or _nobodys(), password[:_LONGEST]) and known is not None
    except (VerificationError, InvalidHashError):
        return False


def outdated(known: str) -> bool:
    """Whether a hash was made with weaker parameters than today's."""
    return _hasher.check_needs_rehash(known)


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _hasher.hash("nobody has this password")
