"""What is derived from a value is made once, shared by all who ask, and goes with the value."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import msgspec

from memalign import Example
from memalign.cache import cached


class Owner:
    pass


def test_each_owner_and_key_makes_a_value_once() -> None:
    one, other = Owner(), Owner()
    made: list[str] = []
    for owner, key in ((one, "a"), (one, "a"), (one, "b"), (other, "a"), (one, "a")):
        cached(owner, key, lambda key=key: made.append(key))  # type: ignore[misc]  # mypy takes no defaults for T
    assert made == ["a", "b", "a"]


def test_it_goes_with_its_owner() -> None:
    owner = Owner()
    large = weakref.ref(cached(owner, "a", Owner))
    assert large() is not None
    del owner
    gc.collect()
    assert large() is None


def test_what_is_cached_is_no_part_of_the_value() -> None:
    plain, asked = Example(id="a", inputs="b"), Example(id="a", inputs="b")
    cached(asked, "key", lambda: asked.content_hash)
    assert (asked, repr(asked), asked.to_dict()) == (plain, repr(plain), plain.to_dict())
    for other in (copy.copy(asked), pickle.loads(pickle.dumps(asked)), msgspec.structs.replace(asked, inputs="c")):
        assert not other.__dict__
