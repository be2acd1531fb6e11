"""Judging by the providers' batch endpoints: the same requests, half the price, nothing paid for twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Judge
from memalign.errors import ConfigurationError, InputError, ModelRejected
from memalign.judge import by_batches
from memalign.models import retry
from memalign.models.batch_endpoints import AnthropicBatches, OpenAIBatches
from memalign.testing import ScriptedChatModel
from tests.support.batch_server import BatchServer

EXAMPLES = [Example(id=f"c-{n}", inputs="Where\u2028is it? \ud83d", outputs=f"Reply {n}.") for n in range(12)]
PRICES = {"input": 1.0, "output": 1.0}
NAMES = {"openai": "openai:gpt-test", "anthropic": "anthropic:claude-haiku-4-5"}
OPENAI = pytest.mark.parametrize("judge", ["openai"], indirect=True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(by_batches, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(retry.Retry, "wait", lambda *_: 0.0)
    with BatchServer() as made:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{made.address}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", made.address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", made.address)  # another key, another model: it keeps its address
        yield made


@pytest.fixture(params=["openai", "anthropic"])
def judge(request: pytest.FixtureRequest, server: BatchServer) -> Judge:
    name = NAMES[request.param]
    return Judge(
        name="tone",
        instructions="Is it warm? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model=name,
        parameters={"models": {name: {"prices": PRICES}}},
    )


def reply(body: dict[str, Any]) -> int:
    """The number of the row that a request is about."""
    return int(json.dumps(body).split("Reply ")[1].split(".")[0])


def in_batches(server: BatchServer) -> list[int]:
    return sorted(map(reply, server.batched))


def test_batches_hold_the_requests_of_live_judging(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    judge.judge_many(EXAMPLES)
    live = {reply(body): body for body in server.live}
    server.live.clear()
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert [(each.id, each.value) for each in made] == [(example.id, True) for example in EXAMPLES]
    assert list(map(reply, server.live)) == [0], "one row is asked live first"
    assert {reply(body): body for body in server.batched} == {n: live[n] for n in range(1, 12)}
    assert not (tmp_path / "out.jsonl.batch").exists()
    prices = [each.usage.cost for each in made]
    assert prices == [pytest.approx(0.0011)] + [pytest.approx(0.00055)] * 11
    assert made[3].usage.calls == 1


def test_what_batches_leave_out_is_asked_live(
    judge: Judge, server: BatchServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuses = lambda body: reply(body) == 3
    server.expires = lambda body: reply(body) in {4, 5}
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert all(each.value is True for each in made)
    assert sorted(map(reply, server.live)) == [0, 3, 4, 5]
    assert made[3].usage.cost == pytest.approx(0.0011)
    assert "left 3 of 11 unanswered (2 " in caplog.text


@OPENAI
def test_a_misfit_answer_is_corrected_live(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        odd = reply(body) == 7 and "could not be used" not in json.dumps(body)
        return {"rationale": "Fine."} if odd else {"rationale": "Fine.", "value": True}

    server.answer = answer
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert (made[7].value, made[7].usage.calls) == (True, 2)
    assert made[7].usage.cost == pytest.approx(0.00055 + 0.0011)
    assert sorted(map(reply, server.live)) == [0, 7]


@pytest.mark.parametrize("status", [429, "lost"])
def test_faults_of_submission_cost_no_second_batch(
    judge: Judge, server: BatchServer, tmp_path: Path, status: int | str
) -> None:
    server.headers = {"Retry-After": "0"}
    server.faults[r"POST /v1(/messages)?/batches"] = [status]
    server.faults[r"GET /v1(/messages)?/batches/\w+$"] = [500, 429]
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert all(each.value is True for each in made)
    assert in_batches(server) == list(range(1, 12))


def test_a_cut_file_of_results_is_fetched_again(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    server.faults[r"(results|content)$"] = ["cut", "cut"]
    server.faults[r"GET /v1(/messages)?/batches/\w+$"] = [503] * 6  # more than one look has attempts
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert all(each.value is True for each in made)
    assert list(map(reply, server.live)) == [0]


class Killed(BaseException):
    pass


@contextmanager
def killed_at(place: str) -> Iterator[None]:
    """A run in this block stops at a method, as a kill would stop it."""
    owners = {"state": (OpenAIBatches, AnthropicBatches), "drop": (by_batches._Parts,)}

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        for owner in owners.get(place, (by_batches._Batches,)):
            patch.setattr(owner, place, kill)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize("place", ["_submit", "state", "_judged", "drop"])
def test_a_killed_run_finds_its_batches(judge: Judge, server: BatchServer, tmp_path: Path, place: str) -> None:
    server.polls = 2
    out = tmp_path / "out.jsonl"
    with killed_at(place):
        judge.judge_many(EXAMPLES, out=out, batch=True)
    assert (tmp_path / "out.jsonl.batch" / "state.json").exists()
    made = judge.judge_many(EXAMPLES, out=out, batch=True)
    assert [(each.id, each.value) for each in made] == [(example.id, True) for example in EXAMPLES]
    assert in_batches(server) == list(range(1, 12)), "no row is paid for twice"
    assert list(map(reply, server.live)) == [0]
    assert not (tmp_path / "out.jsonl.batch").exists()


@OPENAI
@pytest.mark.parametrize("rest", [None, b'{"id":"c-1","inp'])
def test_damaged_rows_of_a_part_are_named(
    judge: Judge, server: BatchServer, tmp_path: Path, rest: bytes | None
) -> None:
    with killed_at("state"):
        judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    (rows,) = (tmp_path / "out.jsonl.batch").glob("*.rows.jsonl")
    rows.unlink() if rest is None else rows.write_bytes(rest)
    with pytest.raises(InputError, match=r"rows\.jsonl is damaged .* delete .*out\.jsonl\.batch to submit anew"):
        judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)


def test_a_batch_that_is_gone_says_so(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    with killed_at("state"):
        judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    server.faults[r"GET /v1(/messages)?/batches/\w+$"] = [404]
    with pytest.raises(ModelRejected, match=r"404.* only a key of its project finds it"):
        judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)


def test_a_batch_whose_id_was_lost_is_found(
    judge: Judge, server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    server.submit(
        "oai" if "openai" in str(judge.model) else "ant", [(f"x-{n}", {"a": n}) for n in range(11)], metadata={}
    )
    server.answer = lambda _: {"rationale": "Fine.", "value": True}
    with monkeypatch.context() as patch:
        saves = [by_batches._Parts.save]

        def save(parts: Any) -> None:
            if parts.left and parts.left[0].batch:
                raise Killed
            saves[0](parts)

        patch.setattr(by_batches._Parts, "save", save)
        with pytest.raises(Killed):
            judge.judge_many(EXAMPLES, out=out, batch=True)
    server.fate = lambda body: "succeeded"  # type: ignore[method-assign]
    made = judge.judge_many(EXAMPLES, out=out, batch=True)
    assert all(each.value is True for each in made)
    assert len(server.batches) == 2, "a stranger's, and ours"
    assert list(map(reply, server.live)) == [0]


@OPENAI
def test_parts_keep_within_the_limits(
    judge: Judge, server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner in (AnthropicBatches, OpenAIBatches):
        monkeypatch.setattr(owner, "most_requests", 2)
    monkeypatch.setattr(by_batches, "_AT_ONCE", 3)
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert all(each.value is True for each in made)
    assert [len(batch["requests"]) for batch in server.batches.values()] == [2, 2, 2, 2, 2, 1]


@OPENAI
def test_samples_of_a_row_go_together(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    several = judge.replace(parameters={**judge.parameters, "samples": 3})
    made = several.judge_many(EXAMPLES[:4], out=tmp_path / "out.jsonl", batch=True)
    assert [each.usage.calls for each in made] == [3] * 4
    assert in_batches(server) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert list(map(reply, server.live)) == [0, 0, 0]


@OPENAI
def test_a_spend_limit_holds_for_batches(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    made = judge.judge_many(EXAMPLES, out=out, batch=True, max_cost=0.0011 + 5.5 * 0.00055)
    assert [each.not_judged for each in made].count(True) == 6
    assert sum(each.usage.cost or 0 for each in made) == pytest.approx(0.0011 + 5 * 0.00055)
    assert all(each.value is True for each in judge.judge_many(EXAMPLES, out=out, batch=True))


def test_a_failed_batch_says_why(server: BatchServer, tmp_path: Path) -> None:
    judge = Judge(name="j", instructions="Good? {{ outputs }}", feedback_value_type=bool, model="openai:gpt-test")
    out = tmp_path / "out.jsonl"
    server.fails = ["invalid_json_line"]
    with pytest.raises(ModelRejected, match=r"failed: invalid_json_line.* The same command submits it again"):
        judge.judge_many(EXAMPLES, out=out, batch=True)
    assert all(each.value is True for each in judge.judge_many(EXAMPLES, out=out, batch=True))
    assert list(map(reply, server.live)) == [0]


def test_a_key_that_expires_loses_no_batch(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    server.faults[r"GET /v1(/messages)?/batches/\w+$"] = [401]
    with pytest.raises(ModelRejected, match="HTTP 401"):
        judge.judge_many(EXAMPLES, out=out, batch=True)
    assert all(each.value is True for each in judge.judge_many(EXAMPLES, out=out, batch=True))
    assert in_batches(server) == list(range(1, 12))


def test_a_full_queue_is_waited_for(server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(name="j", instructions="Good? {{ outputs }}", feedback_value_type=bool, model="openai:gpt-test")
    monkeypatch.setattr(OpenAIBatches, "most_requests", 6)
    server.polls = 3
    submit, fails = server.submit, iter([None, "token_limit_exceeded"])

    def submitting(*given: Any, **more: Any) -> dict[str, Any]:
        made = submit(*given, **more)
        made["failed"] = next(fails, None)
        return made

    monkeypatch.setattr(server, "submit", submitting)
    assert all(each.value is True for each in judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True))
    assert list(map(reply, server.live)) == [0]


def test_who_has_no_batches_is_told(server: BatchServer, tmp_path: Path) -> None:
    scripted = ScriptedChatModel(lambda _: {"rationale": "Fine.", "value": True})
    judge = Judge(name="j", instructions="Good? {{ outputs }}", feedback_value_type=bool, model=scripted)
    with pytest.raises(ConfigurationError, match=r"scripted has no batch endpoint.*without --batch"):
        judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    with pytest.raises(InputError, match="name an output"):
        judge.judge_many(EXAMPLES, batch=True)
    real = judge.replace(model="openai:gpt-test")
    server.faults[r"POST /v1/files"] = [404]
    with pytest.raises(ModelRejected, match="not every server has a batch endpoint"):
        real.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)


@OPENAI
def test_batches_of_another_judge_are_left_alone(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with killed_at("state"):
        judge.judge_many(EXAMPLES, out=out, batch=True)
    out.unlink()
    other = judge.replace(instructions="Is it short? {{ outputs }}")
    with pytest.raises(InputError, match="has batches of judge tone@"):
        other.judge_many(EXAMPLES, out=out, batch=True)


@OPENAI
def test_a_server_that_is_down_is_soon_left(judge: Judge, server: BatchServer, tmp_path: Path) -> None:
    server.faults[r"POST"] = [500] * 100
    made = judge.judge_many(EXAMPLES, out=tmp_path / "out.jsonl", batch=True)
    assert [each.not_judged for each in made] == [False] * 3 + [True] * 9
    assert "3 rows failed before a batch was submitted" in str(made[5].error)
    assert not server.batches
