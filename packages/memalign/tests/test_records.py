"""Examples, feedback and usage: what is refused, what is equal, what adds up."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Example, Feedback
from memalign.errors import InputError, UnknownKey
from memalign.keys import select_keys
from memalign.types import CONTENT_FIELDS, FeedbackKey, Guideline, Usage, as_json
from tests.support.registry import json_values

LOOP: list[Any] = []
LOOP.append(LOOP)


class TestExample:
    @pytest.mark.parametrize("name", CONTENT_FIELDS)
    @pytest.mark.parametrize("content", ["x", "", 0, False, [], {}])
    def test_one_content_field_is_enough(self, name, content):
        one: dict[str, Any] = {name: content}
        assert Example(id="t-1", **one).content == one

    def test_a_case_without_content_is_refused(self):
        with pytest.raises(InputError, match="'t-1' has no content"):
            Example(id="t-1", inputs=None, meta={"a": 1})

    @pytest.mark.parametrize("bad", ["", "  ", None, 7, "a\nb", "a\rb", "a\0b"])
    def test_an_id_is_one_line_of_text(self, bad):
        with pytest.raises(InputError, match="id"):
            Example(id=bad, inputs="x")

    def test_equal_content_has_equal_hashes_whatever_the_id(self):
        one = Example(id="a", inputs={"x": 1, "y": [2]}, outputs="z", meta={"team": 1})
        two = Example(id="b", inputs={"y": [2], "x": 1}, outputs="z")
        assert one.content_hash == two.content_hash
        swapped = Example(id="a", inputs="z", outputs={"x": 1, "y": [2]})
        assert one.content_hash != swapped.content_hash

    @given(json_values.filter(lambda value: value is not None))
    def test_any_json_value_has_a_hash_which_no_copy_keeps(self, value):
        example = Example(id="a", inputs=value)
        assert len(example.content_hash) == 64
        plain = Example(id="a", inputs=value)
        assert example == plain
        assert repr(example) == repr(plain)
        assert example.to_dict() == plain.to_dict()
        other = msgspec.structs.replace(example, inputs=[value])
        assert other.content_hash == Example(id="b", inputs=[value]).content_hash
        assert other.content_hash != example.content_hash

    @pytest.mark.parametrize(
        "bad",
        [object(), b"\x00", b"\x89PNG", LOOP, {1: "a", "1": "b"}, 10**5000],
        ids=lambda bad: type(bad).__name__,
    )
    def test_an_impossible_json_value_is_left_out_and_named(self, bad):
        meta = {"thumbnail": bad, "kept": 1}
        example = Example(id="a", inputs={"x": [1, bad]}, outputs="text", meta=meta)
        assert example.outputs == "text"
        assert "kept" in example.meta
        assert example.faults[0].place in ("inputs.x[1]", "inputs")
        assert len(example.content_hash) == 64
        with pytest.raises(InputError, match=r"^a: inputs "):
            Example(id="a", inputs=bad)


names = st.text(
    st.sampled_from('a@" \\\ud800é') | st.characters(exclude_categories=()),
    min_size=1,
    max_size=8,
)
keys = st.builds(FeedbackKey, names, names)


class TestFeedbackKey:
    @given(keys, keys)
    def test_the_written_form_is_read_back_and_unambiguous(self, one, other):
        assert FeedbackKey.parse(str(one)) == one
        assert (str(one) == str(other)) == (one == other)

    @pytest.mark.parametrize(
        ("written", "key"),
        [
            ("t-17@ana", ("t-17", "ana")),
            ("t-17@ana@example.org", ("t-17", "ana@example.org")),
            ('"mail@x"@ana', ("mail@x", "ana")),
            ('"mail@x"@ana@example.org', ("mail@x", "ana@example.org")),
            (r'"\"so\""@ana', ('"so"', "ana")),
        ],
    )
    def test_only_ids_with_at_or_quote_are_quoted(self, written, key):
        assert FeedbackKey.parse(written) == key
        assert str(FeedbackKey(*key)) == written
        assert f"{FeedbackKey(*key)}" == written

    @pytest.mark.parametrize(
        "text", ["", "t-17", "t-17@", "@ana", '"t-17', '"t-17"', '"t-17"ana', '"t@17"@']
    )
    def test_what_names_no_feedback_is_refused(self, text):
        with pytest.raises(InputError, match="not a key"):
            FeedbackKey.parse(text)

    @given(st.lists(keys, max_size=6))
    def test_a_key_in_either_form_selects_one(self, drawn):
        known = set()
        for number, key in enumerate(drawn):
            # No id begins as another, so that none looks like another's key.
            known.add(FeedbackKey(f"n{number}{key.id}", key.source))
        for key in known:
            for form in (key, str(key)):
                assert select_keys(sorted(known), [form])[form] == (key,)

    def test_an_unambiguous_id_needs_no_quotes(self):
        mail = FeedbackKey("mail@x", "ana"), FeedbackKey("mail@x", "ben@example.org")
        known = [*mail, FeedbackKey("t-1", "ana")]

        def select(selector: str) -> tuple[FeedbackKey, ...]:
            return select_keys(known, [selector])[selector]

        assert select("mail@x") == select('"mail@x"') == mail
        assert select("mail@x@ana") == select('"mail@x"@ana') == mail[:1]
        assert select("mail@x@ben@example.org") == mail[1:]
        assert select("t-1") == select('"t-1"@ana') == (known[2],)
        assert select("t-1@") == select("ana") == select('"mail@x') == ()
        known.append(FeedbackKey("mail", "x"))
        with pytest.raises(
            UnknownKey, match='could mean "mail@x" or "mail"@x; write the one'
        ):
            select("mail@x")
        assert select('"mail"@x') == (FeedbackKey("mail", "x"),)
        assert select('"mail@x"') == mail

    def test_readers_see_text_and_files_the_pair(self):
        key = FeedbackKey("t-1", "ana@x")
        rule = Guideline(id="G1", text="be kind", supported_by=(key,))
        written = msgspec.json.encode(rule)
        assert b'"supported_by":[["t-1","ana@x"]]' in written
        assert msgspec.json.decode(written, type=Guideline) == rule
        (shown,) = as_json({"rules": (rule,)})["rules"]
        assert shown["supported_by"] == ["t-1@ana@x"]


class TestFeedback:
    def test_it_needs_a_label_or_words(self):
        assert Feedback(id="t-1", value=False).key == ("t-1", "unknown")
        words = Feedback(id="t-1", rationale="Too cold.", source="ana")
        assert words.key == ("t-1", "ana")
        for nothing in (None, "  ", ""):
            with pytest.raises(InputError, match="value, a rationale or both"):
                Feedback(id="t-1", rationale=nothing)
        with pytest.raises(InputError, match="rationale must be text"):
            Feedback(id="t-1", rationale=5)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("given_as", "kept"),
        [
            ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00+00:00"),
            ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00+00:00"),
            ("2026-03-01 12:00", "2026-03-01T12:00:00+00:00"),
            ("2026-03-01", "2026-03-01T00:00:00+00:00"),
            ("2026-03-01 12:00:00 UTC", "2026-03-01T12:00:00+00:00"),
            ("2026-03-01 12:00:00 +0200", "2026-03-01T10:00:00+00:00"),
            ("2026/3/1 12:00", "2026-03-01T12:00:00+00:00"),
            ("2026-03-01T12:00:00+01:00[Europe/Berlin]", "2026-03-01T11:00:00+00:00"),
            ("Sun, 01 Mar 2026 12:00:00 GMT", "2026-03-01T12:00:00+00:00"),
            (1772366400, "2026-03-01T12:00:00+00:00"),
            (1772366400.0, "2026-03-01T12:00:00+00:00"),
            ("1772366400000", "2026-03-01T12:00:00+00:00"),
            (datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00+00:00"),
        ],
    )
    def test_utc_times_sort_as_text(self, given_as, kept):
        assert Feedback(id="t-1", value=True, created_at=given_as).created_at == kept


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (Decimal("2.50"), 2.5),
        (Decimal(2**60 + 1), 2**60 + 1),
        (Decimal("1e400"), "1E+400"),
        (Fraction(10**400), str(10**400)),
        (Fraction(1, 4), 0.25),
        (Decimal("NaN"), None),
        (Decimal("sNaN"), None),
        (Decimal("-Infinity"), None),
    ],
)
def test_no_digit_of_an_exact_number_is_lost(number, kept):
    assert Example(id="1", outputs=[number]).outputs == [kept]


def test_usages_add_up_with_unknown_costs_unknown():
    one = Usage(
        calls=1,
        input_tokens=10,
        cached_tokens=4,
        output_tokens=2,
        cost=0.5,
        seconds={"model": 1.0},
    )
    two = Usage(
        calls=2,
        input_tokens=5,
        output_tokens=1,
        cost=0.25,
        seconds={"model": 0.5, "retrieve": 2.0},
    )
    both = one + two
    assert sum([one, two]) == sum([one, two], Usage()) == both
    assert both.cost == 0.75
    assert both.seconds == {"model": 1.5, "retrieve": 2.0}
    unknown = Usage(calls=1)  # nobody said what that call cost
    assert (one + unknown).cost is (unknown + one).cost is None
    assert Usage().cost == 0.0


def test_a_guideline_has_its_number_from_its_id():
    assert Guideline(id="G10", text="x").number == 10
