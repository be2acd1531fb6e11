"""The eight policies: each a page of prose in `policies/`, and a function that reads an item and says whether it keeps the rule.

A page has pools of sentences, of which an item is put together, and cells: the combinations of what the rule looks at,
each with an expert's remarks on such an item. The function knows nothing of cells or pools; it reads the item's text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from memalign.errors import InputError

__all__ = ["POLICIES", "Cell", "Policy", "Pool", "Range", "load_policy"]

Entry = str | dict[str, str]


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whole numbers to draw from, both ends included."""

    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


Pool = list[Entry] | Range


class Cell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One combination of what the rule looks at: its label, the slots that make it, the expert's remarks on such items."""

    name: str
    holds: bool
    slots: dict[str, str]
    comments: tuple[str, ...]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An invented rule, and all that items and remarks about it are put together from.

    `topic` names the pool whose entries say what an item is about. `teaching` and `unseen` are the pools of one side;
    `pools` are what the rule itself needs on both.
    """

    name: str = ""
    kind: Literal["plain", "condition", "exception", "order"]
    rule: str
    criterion: str
    expert: str
    topic: str
    fields: dict[str, str | dict[str, str]]
    pools: dict[str, Pool] = {}
    teaching: dict[str, Pool]
    unseen: dict[str, Pool]
    cells: tuple[Cell, ...]

    def keeps(self, inputs: Any, outputs: Any) -> bool:
        """Whether an item keeps the rule, read from its text."""
        return _READERS[self.name](inputs, outputs)


@cache
def load_policy(name: str) -> Policy:
    """The policy of that name. Raises InputError, with the names there are, for another."""
    if name not in _READERS:
        raise InputError(f"no house rule {name!r}; house rules: {', '.join(POLICIES)}")
    page = files(__package__).joinpath("policies", f"{name}.toml").read_text("utf-8")
    return msgspec.structs.replace(msgspec.convert(tomllib.loads(page), Policy), name=name)


def _regards(_inputs: Any, outputs: Any) -> bool:
    return "With the house's regards" in outputs


def _reference(_inputs: Any, outputs: Any) -> bool:
    return re.search(r"(?<!\w)[A-Z]{2}/\d{4}(?!\w)", outputs) is not None


def _units(inputs: Any, outputs: Any) -> bool:
    pounds_due: bool = inputs["customer"].endswith(("Norway", "Ireland"))
    return pounds_due == (re.search(r"\d pounds\b", outputs) is not None)


def _humming(inputs: Any, outputs: Any) -> bool:
    return (re.search(r"\bhums\b", inputs) is not None) == ("second desk" in outputs)


def _discount(inputs: Any, outputs: Any) -> bool:
    # The customers' own words are of a page's two pools; a new sentence is read by what it says of buying before.
    before = re.search(
        r"(?i)sold me|third order|was your customer|been with us|bought our|me again|delivered|last purchase"
        r"|every autumn|got from you|last time",
        inputs,
    )
    return (before is not None) == (re.search(r"(?i)\bten per cent\b", outputs) is not None)


def _initials(inputs: Any, outputs: Any) -> bool:
    water = re.search(r"\bwater\b", inputs["sample"].split(",")[0]) is not None
    return water != (re.search(r"\b[A-Z]\.[A-Z]\.$", outputs) is not None)


def _soup(_inputs: Any, outputs: Any) -> bool:
    return (re.search(r"\bsoup\b", outputs) is not None) == (re.search(r"\d euros\b", outputs) is not None)


_APOLOGY = re.compile(r"(?i)\b(?:sorry|apolog\w+|excuse|forgive|regret)\b")


def _answer_first(_inputs: Any, outputs: Any) -> bool:
    # Greeting, answer, apology, closing; or with the two in the middle turned round.
    greeting = re.match(r"[^.!?,:]*[.!?,:] ", outputs)
    said = re.split(r"(?<=[.!?]) ", outputs[greeting.end() if greeting else 0 :])
    places = [place for place, sentence in enumerate(said) if _APOLOGY.search(sentence)]
    return bool(places) and places[0] > 0


_READERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "house_regards": _regards,
    "reference_format": _reference,
    "units_by_country": _units,
    "humming_goes_on": _humming,
    "discount_returning": _discount,
    "initials_but_water": _initials,
    "soup_in_figures": _soup,
    "answer_first": _answer_first,
}
POLICIES: tuple[str, ...] = tuple(_READERS)
"""The names of the policies: two plain, three with a condition, two with an exception, one about order."""
