"""What tests about learning share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def few_are_enough() -> Iterator[None]:
    """A handful of labelled cases is asked about: what is kept and forgotten of answers does not hang on how many there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memalign.align.ask.FEWEST", 1)
        yield
