"""What is derived from a value is made once, shared by all who ask, and goes with the value."""

from __future__ import annotations

import copy
import pickle

import msgspec

from memalign import Example
from memalign.cache import cached


def test_what_is_cached_is_made_once_and_no_part_of_the_value() -> None:
    plain, asked = Example(id="a", inputs="b"), Example(id="a", inputs="b")
    made: list[str] = []
    for key in ("a", "a", "b", "a"):
        cached(asked, key, lambda key=key: made.append(key))  # type: ignore[misc]  # mypy takes no defaults for T
    assert made == ["a", "b"]
    assert (asked, repr(asked), asked.to_dict()) == (plain, repr(plain), plain.to_dict())
    for other in (copy.copy(asked), pickle.loads(pickle.dumps(asked)), msgspec.structs.replace(asked, inputs="c")):
        assert not other.__dict__
