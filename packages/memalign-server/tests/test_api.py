"""The eight routes of the API: judging for applications, learning and forgetting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from memalign.errors import ModelUnavailable, RateLimited
from memalign_server.store.tables import queue, reviews
from server_support import reviewing, world
from server_support.reviewing import (
    CASES,
    FEEDBACK,
    call,
    ended,
    expect,
    learned,
    numbered,
    work,
)

if TYPE_CHECKING:
    from memalign.models.base import ChatRequest

API = "/api/v1/judges"
TONE = f"{API}/tone"
VERDICT = "It answers the question."  # what the scripted judge says of every case


def done(client: Any, path: str, **body: Any) -> Any:
    """The result of a job."""
    begun = call(client, path, **body)
    expect(begun, 202)
    assert begun.headers["location"] == f"{TONE}/jobs/{begun.json()['id']}"
    job = ended(client, begun.json())
    assert job["state"] == "done", job["problem"]
    return job["result"]


def raw(client: TestClient, path: str, body: str) -> Any:
    """Ask with a body as it is, which need not be JSON that we would write."""
    headers = {"content-type": "application/json"}
    return client.post(f"{TONE}/{path}", content=body, headers=headers)


def say(
    client: Any, case: str, value: bool = False, rationale: str = "", **more: Any
) -> Any:
    """Answer a case on the page: people review there alone."""
    return reviewing.answer(
        client, case, value=str(value).lower(), rationale=rationale, **more
    )


def blind_answers(client: Any) -> int:
    query = select(reviews).where(reviews.c.judge_version.is_not(None))
    return len(world.stored(client, query))


@pytest.fixture
def taught(local: TestClient) -> TestClient:
    assert done(local, "align", feedback=FEEDBACK)["version"] == 2
    return local


@pytest.fixture
def filled(owner: TestClient) -> TestClient:
    """An owner whose queue has cases."""
    result = done(owner, "cases", cases=CASES)
    assert result == {
        "judged": 5,
        "failed": 0,
        "problem": None,
        "added": 5,
        "known": 0,
        "changed": [],
        "apart": 0,
    }
    return owner


@pytest.fixture
def reviewer(shared: world.Shared) -> TestClient:
    return shared.signed_in("reviewer")


def test_the_description_has_eight_operations(local: TestClient) -> None:
    operations = set[str]()
    for methods in local.get("/api/v1/openapi.json").json()["paths"].values():
        operations.update(method["operationId"] for method in methods.values())
    assert operations == {
        "align_judge",
        "erase",
        "judge_one",
        "list_judges",
        "put_cases",
        "show_job",
        "show_me",
        "unalign_judge",
    }


def test_one_case_is_judged_now(local: TestClient) -> None:
    judged = call(local, "judge", inputs="Hello?", outputs="Hi!")
    expect(judged, 200, '"id":"item"', '"value":true')
    expect(call(local, "judge", inputs="Hello?"), 422)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ModelUnavailable("no answer"), 502), (RateLimited("too many"), 503)],
)
def test_a_model_that_fails_is_a_problem(
    place: str, error: Exception, status: int
) -> None:
    with world.site(place, script=lambda _request: error) as client:
        judged = call(client, "judge", inputs="a", outputs="b")
        expect(judged, status, type(error).__name__)


def kept_case(client: Any, **more: Any) -> str:
    case = {"inputs": "Hm?", "outputs": "No."} | more
    judged = call(client, "judge?keep=true", **case)
    expect(judged, 200)
    return str(judged.json()["id"])


@world.ON_BOTH
def test_feedback_on_a_kept_case_needs_its_id_alone(local: TestClient) -> None:
    case = kept_case(local)
    row = {"id": case, "value": False, "rationale": "Cold.", "source": "app-7"}
    done(local, "align", feedback=[row])
    assert learned(local) == {f"{case}@app-7": "learned"}
    (known,) = world.judge_of(local).memory.cases
    assert (known.example.inputs, known.example.outputs) == ("Hm?", "No.")


def test_cases_with_a_known_id_and_other_content_are_named(local: TestClient) -> None:
    done(local, "cases", cases=CASES)
    changed = {**CASES[0], "outputs": "Tomorrow."}
    new = {"id": "new", "inputs": "Who?", "outputs": "Me."}
    result = done(local, "cases", cases=[changed, CASES[1], new])
    assert result["added"] == 1
    assert result["known"] == 1
    assert result["changed"] == ["late"]


def test_an_id_names_one_kept_case(local: TestClient) -> None:
    kept_case(local, id="a-1")
    other = call(local, "judge?keep=true", id="a-1", inputs="Hm?", outputs="Yes.")
    expect(other, 409)


def test_an_entry_that_is_no_object_costs_itself(local: TestClient) -> None:
    mixed = [FEEDBACK[0], 7, FEEDBACK[1]]
    refused = ended(local, call(local, "align", feedback=mixed).json())
    assert "line 2: a row is a mapping" in refused["problem"]
    done(local, "align", feedback=mixed, skip_invalid=True)
    assert learned(local) == {"t-1@ana": "learned", "t-2@ana": "learned"}
    expect(call(local, "cases", cases=[CASES[0], None]), 422, "line 2")


@world.ON_BOTH
def test_feedback_is_replaced_and_withdrawn(taught: TestClient) -> None:
    changed = FEEDBACK[0] | {"rationale": "It promises nothing."}
    done(taught, "align", feedback=[changed])
    done(taught, "unalign", keys=["t-1@ana"])
    assert learned(taught) == {"t-1@ana": "withdrawn", "t-2@ana": "learned"}


def test_an_erasure_leaves_a_receipt(taught: TestClient) -> None:
    receipt = done(taught, "erase", keys=["t-1"])
    assert (receipt["complete"], receipt["left"]) == (True, [])
    assert receipt["counts"].startswith("1 case, 1 comment")
    assert "t-1" not in str(receipt)


def test_a_file_of_the_server_is_no_feedback(local: TestClient) -> None:
    # Names of files are read as files by the library; from outside only rows may come.
    expect(call(local, "align", feedback="/etc/passwd"), 422)
    expect(call(local, "cases", cases="/etc/passwd"), 422)


def test_a_result_tells_nothing_of_open_cases(
    filled: TestClient, reviewer: TestClient
) -> None:
    say(filled, "late", rationale="Never so cold.")
    say(reviewer, "shop", True)
    work(filled, "teach")
    (taught,) = world.server_of(filled).jobs.recent("tone")[:1]
    # A name that ends with hers is another.
    of_another = FEEDBACK[0] | {"source": "ana@reviewer"}
    own = FEEDBACK[1] | {"source": "reviewer"}
    aligned = ended(filled, call(filled, "align", feedback=[of_another, own]).json())
    for job, version, keys in (
        (taught.id, 2, ["late@owner", "shop@reviewer"]),
        (aligned["id"], 3, ["t-1@ana@reviewer", "t-2@reviewer"]),
    ):
        path = f"{TONE}/jobs/{job}"
        rows = filled.get(path).json()["result"]["rows"]
        rows.sort(key=lambda row: str(row["key"]))
        assert [row["key"] for row in rows] == keys
        # The reviewer is told of theirs, the last one, alone.
        own_result = {"version": version, "rows": rows[1:]}
        assert reviewer.get(path).json()["result"] == own_result


@pytest.mark.parametrize("path", ["erase", "unalign"])
def test_to_forget_nothing_is_refused(path: str, local: TestClient) -> None:
    for body in ({}, {"keys": list[str]()}):
        refused = call(local, path, **body)
        expect(refused, 422, "name feedback by one of keys, source")
    assert world.server_of(local).jobs.recent("tone") == []


def test_no_program_teaches_what_only_measures(
    local: TestClient, draws: Callable[[int], None]
) -> None:
    draws(0)  # the first of each four is held out
    case = kept_case(local, id="a-1")
    copy = {"id": "copy", "inputs": "Hm?", "outputs": "No.", "value": False}
    for rows in ([{"id": case, "value": False}, FEEDBACK[0]], [copy]):
        refused = call(local, "align", feedback=rows)
        expect(refused, 409)
        assert refused.json()["held_out"] == [rows[0]["id"]]
    assert learned(local) == {}


@world.ON_BOTH
@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
def test_what_no_database_holds_is_no_error_of_ours(
    text: str, local: TestClient
) -> None:
    feedback = '{"id": "T", "value": true, "rationale": "T", "source": "T"}'
    bodies = {
        "judge?keep=true": '{"inputs": "T", "outputs": "T", "id": "T"}',
        "cases": '{"cases": [{"id": "T", "inputs": "T", "outputs": "T"}]}',
        "align": f'{{"feedback": [{feedback}]}}',
        "unalign": '{"keys": ["T"], "source": "T"}',
        "erase": '{"keys": ["T"], "matching": "T"}',
    }
    for path, body in bodies.items():
        answer = raw(local, path, body.replace("T", text))
        assert answer.status_code < 500, answer.text
    assert local.get(f"{TONE}/jobs/%00").status_code < 500


def test_a_verdict_asked_for_is_no_blind_one(queued: TestClient) -> None:
    say(queued, "late", state="skipped")
    late = {"inputs": CASES[0]["inputs"], "outputs": CASES[0]["outputs"]}
    assert call(queued, "judge", **late).json()["value"] is True
    say(queued, "late", revision="1")
    say(queued, kept_case(queued, id="new"))
    assert blind_answers(queued) == 0
    say(queued, "shop")
    assert blind_answers(queued) == 1


def test_no_side_door_tells_a_reviewer(
    filled: TestClient, reviewer: TestClient
) -> None:
    for case in ("late", "twice"):
        say(filled, case, rationale="Never so cold.")
    work(filled, "teach")
    (job,) = world.server_of(filled).jobs.recent("tone")[:1]
    for door in (
        f"{TONE}/jobs/{job.id}",
        f"/judges/tone/learned?job={job.id}",
        f"/judges/tone/teach?job={job.id}",
        "/judges/tone/trust",
        "/judges/tone/review?case=late",
        "/judges/tone/learned?find=three weeks",
    ):
        text = expect(reviewer.get(door), 200)
        assert VERDICT not in text, door
        assert "Never so cold." not in text, door


HALF = "\ud83d"  # of an emoji, as a cut text ends in
SENT = '"Fine \\ud83d"'  # the same as JSON carries it


def halving(request: ChatRequest) -> dict[str, Any]:
    """A model that ends its reason in half an emoji, where it judges a case of poison."""
    verdict = world.answer(request)
    if "rationale" in verdict and "POISON" in request.user:
        verdict["rationale"] = f"Fine {HALF}"
    return verdict


def test_half_an_emoji_in_a_reason_costs_no_other_case_its_verdict_and_is_paid_once(
    place: str,
) -> None:
    asked: list[str] = []

    def counting(request: ChatRequest) -> dict[str, Any]:
        asked.append(request.user)
        return halving(request)

    rows = numbered(4)
    rows[2]["inputs"] = "POISON"
    with world.site(place, script=counting) as client:
        assert done(client, "cases", cases=rows)["failed"] == 0
        assert len(asked) == len(rows)
        for row in world.stored(client, select(queue)):
            assert row.judgment.value is True
        assert world.case_row(client, "c-2").judgment.rationale == "Fine \ufffd"
        assert done(client, "cases", cases=rows)["judged"] == 0
        assert len(asked) == len(rows), "nothing is paid for again"
        judged = call(client, "judge?keep=true", **rows[2])
        expect(judged, 200)
        assert judged.json()["rationale"] == "Fine \ufffd"
        expect(say(client, "c-2", False), 200, "Fine \ufffd")
        every_page_opens(client)


def every_page_opens(client: TestClient) -> None:
    for page in ("review?case=c-2", "learned", "trust", "setup"):
        assert client.get(f"/judges/tone/{page}").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "cases",
            '{"cases": [{"id": "h", "inputs": %s, "outputs": {%s: [%s]}, '
            '"meta": {"k": %s}}]}',
        ),
        ("cases", '{"cases": [{"id": %s, "outputs": "x"}]}'),
        ("judge?keep=true", '{"inputs": "q", "outputs": %s}'),
        ("judge", '{"inputs": [{"role": "user", "content": %s}], "outputs": "a"}'),
        (
            "align",
            '{"feedback": [{"id": "n", "outputs": %s, "value": true, '
            '"rationale": %s, "source": %s}]}',
        ),
        ("unalign", '{"keys": [%s]}'),
        ("erase", '{"matching": %s}'),
    ],
)
def test_half_an_emoji_in_a_request_is_a_replacement_character(
    queued: TestClient, path: str, body: str
) -> None:
    answer = raw(queued, path, body.replace("%s", SENT))
    assert answer.status_code in (200, 202), answer.text
    if answer.status_code == 202:
        job = ended(queued, answer.json())
        assert "surrogate" not in str(job["problem"])
    assert queued.get("/judges/tone/review").status_code == 200


@pytest.mark.parametrize("depth", [200, 900, 3_000, 100_000])
@pytest.mark.parametrize("path", ["cases", "judge", "judge?keep=true", "align"])
def test_a_value_that_is_nested_too_deeply_is_refused(
    local: TestClient, path: str, depth: int
) -> None:
    value = '"value": true, ' if path == "align" else ""
    row = f'{{"id": "deep", {value}"inputs": "q", "outputs": {"[" * depth}1{"]" * depth}}}'
    wrapped = {"cases": f'{{"cases": [{row}]}}', "align": f'{{"feedback": [{row}]}}'}
    answer = raw(local, path, wrapped.get(path, row))
    assert answer.status_code in (200, 202, 400, 422), answer.text
    assert local.get("/judges/tone/review").status_code == 200


def test_two_halves_that_stand_together_are_one_character(local: TestClient) -> None:
    body = '{"cases": [{"id": "whole", "outputs": "\\ud83d\\ude00 \\u0000"}]}'
    begun = raw(local, "cases", body)
    assert ended(local, begun.json())["state"] == "done"
    assert world.case_row(local, "whole").example.outputs == "\U0001f600 \ufffd"
