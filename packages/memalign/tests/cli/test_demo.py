"""The demo, replayed and live: a judge of a shop's replies learns a rule from ten
comments, and forgets one person's."""

from __future__ import annotations

import json
import re

import pytest

from memalign.cli.demo import RECORDED, demo, demo_rows, estimate, story_on
from memalign.cli.recording import REMAKE
from memalign.errors import ModelError
from memalign.models import resolve
from tests.cli.conftest import missing, session
from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint, server_error

TITLES = (
    r"1\. Nobody has taught",
    r"2\. Two experts review",
    r"3\. The same judge, taught",
    r"4\. Ana leaves",
)


def test_the_recording_fits_its_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(session(json=True)) == 0, (
        f"a prompt or the story changed; make it again: {REMAKE}"
    )
    report = json.loads(capsys.readouterr().out)
    assert report["recorded"]
    assert report["agreement"] == {"n": 20, "before": 10, "after": 20}
    for verdict in report["verdicts"]["withdrawn"]:
        assert verdict["error"] is None


def test_the_demo_needs_no_key_and_says_that_it_is_a_recording(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MEMALIGN_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert demo(session()) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith(RECORDED)
    assert re.search(".*".join(TITLES), shown)
    assert not missing(
        shown,
        "right on 10 of 20",
        "right on 20 of 20, 10 before; 10 fixed, 0 broken",
        "5 comments withdrawn, 4 guidelines gone; 3 written again",
        "3 of the replies judged again: 3 verdicts as before the teaching",
        "no model was called",
        "memalign demo --model openai:/gpt-4.1-mini",
        "memalign demo --model local:",
    )


def test_live_the_figures_are_the_models_own(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.answer = attentive
    assert demo(session(), model="openai:test") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert RECORDED not in shown
    assert not missing(
        shown, "Live on openai:test: at most", "cost unknown", "10 fixed, 0 broken"
    )
    assert "judged again: 3 verdicts as before the teaching" in shown


def test_what_is_withdrawn_enters_no_later_prompt(
    endpoint: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.answer = attentive
    assert demo(session(json=True), model="openai:test") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["usage"]["calls"] == len(endpoint.requests)
    assert len(report["unalign"]["removed"]) == 5
    case = "When will my parcel arrive"  # of the feedback that is withdrawn
    later = len(report["verdicts"]["withdrawn"])
    assert case in str(endpoint.requests[:-later])
    assert case not in str(endpoint.requests[-later:])


def test_the_default_model_runs_the_demo_for_two_cents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call is made: the price list and a dry run say it."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    # A server of one's own has no price.
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    usage = estimate(story_on(resolve("openai:gpt-4.1-mini")))
    assert usage.cost is not None
    assert 0.005 < usage.cost < 0.03


def test_an_unanswering_model_ends_the_demo_at_once(endpoint: Endpoint) -> None:
    endpoint.answer = server_error(400)
    with pytest.raises(ModelError, match="answered none of 20 calls: ModelRejected"):
        demo(session(), model="openai:test")


def test_the_unseen_replies_hold_traps() -> None:
    """Good news with the word, days and neutral facts without it, and a customer who says it."""
    rows = demo_rows("held_out.jsonl")
    with_word = [row for row in rows if "soon" in str(row.outputs).casefold()]
    assert len(with_word) == 10
    for row in with_word:
        assert row.value is False
    assert any(row.value and "soon" in str(row.inputs) for row in rows)
    taught = {row.id for row in demo_rows("feedback.jsonl")}
    assert taught.isdisjoint(row.id for row in rows)
