"""The demo on a model over loopback: a judge of a shop's promises learns, and forgets."""

from __future__ import annotations

import json

import pytest

from memalign import Judge
from memalign.cli.demo import INSTRUCTIONS, demo, demo_rows, estimate
from memalign.errors import ModelError
from tests.cli.conftest import missing, session
from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint, server_error, system_of, user_of


@pytest.fixture(autouse=True)
def _attentive(endpoint: Endpoint) -> None:
    endpoint.answer = attentive


def test_the_demo_shows_a_change_of_mind_and_its_author(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(session(), model="openai:test") == 0
    shown = capsys.readouterr().out
    titles = ("Nobody has taught", "Two experts review", "The same judge, taught", "The comment on t-1", "What that")
    places = [shown.index(f"{number}. {title}") for number, title in enumerate(titles, 1)]
    assert places == sorted(places)
    before, _, words = " ".join(shown.split()).partition("1. Nobody")
    assert not missing(before, f"It will take about {len(endpoint.requests)} calls", "cost unknown")
    assert not missing(words, "✗ marks a verdict that the experts do not share.", "It changed its mind on 2 of 5.")
    assert "'Your sofa arrives on Monday.': send before, don't now. G1 (t-1@ana) applies, here: \"on Monday\"" in words
    assert not missing(words, "on 3 of 5 replies before and on 5 after", "Never promise a day")


def test_the_default_model_runs_the_demo_for_a_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is made: the price list and a dry run say it."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    monkeypatch.delenv("OPENAI_BASE_URL")  # a server of one's own has no price
    judge = Judge(name="support", instructions=INSTRUCTIONS, feedback_value_type=bool, model="openai:gpt-4.1-mini")
    usage = estimate(judge, demo_rows("feedback.jsonl"), demo_rows("held_out.jsonl"))
    assert usage.cost is not None
    assert 0.002 < usage.cost < 0.01


def test_demo_json_holds_every_verdict_and_stage(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo(session(json=True), model="openai:test") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["agreement"] == {"n": 5, "unaligned": 3, "aligned": 5, "unalign": 4}
    assert report["usage"]["calls"] == len(endpoint.requests)
    assert report["unalign"]["removed"] == ["t-1@ana"]
    assert report["unalign"]["forgotten"]
    assert all("t-1@ana" not in guideline["exposed_to"] for guideline in report["unalign"]["guidelines"])
    parcel = ["parcel" in system_of(body) + user_of(body) for body in endpoint.requests]
    assert any(parcel), "a case of the feedback that is withdrawn"
    assert parcel[-5:] == [False] * 5, "which enters no later prompt"


def test_an_unanswering_model_ends_the_demo_at_once(endpoint: Endpoint) -> None:
    endpoint.answer = server_error(400)
    with pytest.raises(ModelError, match="answered none of 5 calls: ModelRejected"):
        demo(session(), model="openai:test")
