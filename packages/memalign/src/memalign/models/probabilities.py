"""How probable each label was, or yes against no, read from the token probabilities of an answer.

An answer ends in `"value": LABEL}`. For each token of the label the endpoint also tells the likeliest other tokens;
those that another label could begin with carry that label's probability.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

__all__ = ["ALTERNATIVES", "FEWER", "Token", "label_probabilities", "read_tokens", "yes_no_margin"]

ALTERNATIVES = 20
"""Likeliest tokens to ask for with each token: as many as OpenAI gives."""

FEWER = 5
"""What to ask for where these are too many: vLLM's own limit."""

_KEY = re.compile(rb'"value"\s*:\s*')
_WORD = re.compile(rb"[\w.-]")
_MOST_MARGIN = 15.0


class Token(msgspec.Struct, frozen=True):
    """One token of an answer, and the probabilities in [0, 1] of the likeliest tokens there, itself included."""

    text: bytes
    alternatives: tuple[tuple[bytes, float], ...]


def read_tokens(content: Iterable[Mapping[str, Any]]) -> tuple[Token, ...]:
    """The tokens of OpenAI's `logprobs.content`, which llama.cpp and vLLM give in the same form."""
    return tuple(
        Token(_text(token), tuple(dict(_weighed(one) for one in (*(token.get("top_logprobs") or ()), token)).items()))
        for token in content
    )


def _weighed(token: Mapping[str, Any]) -> tuple[bytes, float]:
    logprob = float(token["logprob"])
    return _text(token), 0.0 if math.isnan(logprob) else math.exp(min(logprob, 0.0))


def _text(token: Mapping[str, Any]) -> bytes:
    raw = token.get("bytes")
    if raw and all(0 <= byte < 256 for byte in raw):
        return bytes(raw)
    return str(token["token"]).encode("utf-8", "surrogatepass")


def label_probabilities(tokens: Sequence[Token], labels: Sequence[str]) -> dict[str, float] | None:
    """The probability of each of `labels` (JSON texts, in their order), which add up to 1; None where none can be told.

    Exact where labels differ in one token, also where one is the beginning of another (1 and 10), if the tokenizer has
    pieces that go on where the shorter one ends. Of several that part later, only those that the answer shares its
    beginning with are told apart; the others share what their common beginning had.
    """
    answer = b"".join(token.text for token in tokens)
    matches = list(_KEY.finditer(answer))
    if not matches:
        return None
    if all(len(token.alternatives) < 2 for token in tokens):
        return None  # no alternatives were told; every verdict would be certain
    start, place = matches[-1].end(), 0
    live = {label: label.encode() for label in labels}  # what of each label is still to come
    shares = dict.fromkeys(labels, 0.0)
    mass = 1.0
    for token in tokens:
        before, place = max(start - place, 0), place + len(token.text)
        if place <= start or len(live) < 2:
            continue
        lead = token.text[:before]  # what the token has before the value
        chosen = _fitting(live, token.text[before:])
        if not chosen:
            return None  # the answer is none of the labels
        others = [(text, rest, p) for text, p in token.alternatives if (rest := _after(text, lead)) is not None]
        longer = _goes_on(live, [rest for _, rest, _ in others])
        groups: dict[frozenset[str], float] = {}
        apart: dict[str, float] = {}
        for text, rest, probability in others:
            whole = next((label for label, remaining in live.items() if remaining == rest), None)
            if longer and whole is not None and text != token.text:
                apart[whole] = apart.get(whole, 0.0) + probability
            else:
                group = _fitting(live, rest)
                groups[group] = groups.get(group, 0.0) + probability
        # A group that goes beyond what was chosen tells no label from another: a mere quote, for example.
        consistent = {group: p for group, p in groups.items() if group and (group <= chosen or not group & chosen)}
        total = sum(consistent.values()) + sum(apart.values())
        if total <= 0:
            return None
        stays = 0.0
        for label, probability in apart.items():
            shares[label] += mass * probability / total
        for group, probability in consistent.items():
            if group <= chosen:
                stays += probability
            else:
                for label in group:
                    shares[label] += mass * probability / total / len(group)
        mass *= stays / total
        live = {label: rest[len(token.text) - before :] for label, rest in live.items() if label in chosen}
    for label in live:
        shares[label] += mass / len(live)
    return shares


def yes_no_margin(token: Token) -> float:
    """Log p(yes)/p(no) of the token that begins an answer, in nats, in [-15, 15]: all spellings of each added up.

    A side of which no spelling is among the alternatives is as probable as the least of them, which bounds it from
    above; without either it is 0.
    """
    spellings = [(text.strip(b" \t\r\n\"'`*_.,:;!").lower(), p) for text, p in token.alternatives if p > 0]
    least = min((p for _, p in spellings), default=1.0)
    yes, no = (sum(p for text, p in spellings if text == word) or least for word in (b"yes", b"no"))
    return max(-_MOST_MARGIN, min(_MOST_MARGIN, math.log(yes / no)))


def _after(text: bytes, lead: bytes) -> bytes | None:
    """What `text` has of the value, which follows `lead`; None where it differs there."""
    if text.startswith(lead):
        return text[len(lead) :]
    return text.lstrip() if not lead.strip() else None  # white space before the value is of no account


def _fitting(live: Mapping[str, bytes], text: bytes) -> frozenset[str]:
    """The labels that `text` may be the next piece of. A piece without a byte of the value fits all."""
    return frozenset(label for label, rest in live.items() if rest.startswith(text) or _ends(rest, text))


def _goes_on(live: Mapping[str, bytes], pieces: Iterable[bytes]) -> bool:
    """Whether one of `pieces` goes on where a label ends, as 10 does after 1.

    Where the tokenizer has such pieces, the shorter label is a token of its own, and no beginning of the longer one.
    """
    return any(
        piece.startswith(rest) and _WORD.match(piece[len(rest) :]) for piece in pieces for rest in live.values() if rest
    )


def _ends(rest: bytes, text: bytes) -> bool:
    """Whether `text` finishes a label of which `rest` was to come: 1 is finished by `1}` and not by `10`."""
    return text.startswith(rest) and not _WORD.match(text[len(rest) :])
