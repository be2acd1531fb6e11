"""Of a pair each side is shown alone, and nothing tells which it is."""

from __future__ import annotations

from memalign.content import each_side


class TestSides:
    def test_an_item_without_two_sides_is_one(self) -> None:
        for content in ({"outputs": "x"}, {"outputs": {"A": 1}}, {"outputs": {"A": 1, "B": 2, "C": 3}}):
            assert each_side(content, ("A", "B", "C")) == (content,)

    def test_every_field_with_both_sides_shows_one(self) -> None:
        content = {"inputs": "q", "outputs": {"B": "two", "A": "one"}, "expectations": {"A": 1, "B": 2}}
        assert each_side(content, ("A", "B", "tie")) == (
            {"inputs": "q", "outputs": "one", "expectations": 1},
            {"inputs": "q", "outputs": "two", "expectations": 2},
        )

    def test_nothing_beside_the_sides_tells_them_apart(self) -> None:
        content = {"outputs": {"note": "n", "A": "one", "B": "two"}}
        assert each_side(content, ("A", "B")) == (
            {"outputs": {"A": "one", "note": "n"}},
            {"outputs": {"A": "two", "note": "n"}},
        )
