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
from server_support.reviewing import CASES, FEEDBACK, ended, expect, learned

if TYPE_CHECKING:
    from memalign.models.base import ChatRequest

API = "/api/v1/judges"
TONE = f"{API}/tone"
VERDICT = "It answers the question."  # what the scripted judge says of every case


def done(client: Any, path: str, **body: Any) -> Any:
    """The result of a job."""
    begun = client.post(f"{TONE}/{path}", json=body)
    assert (begun.status_code, begun.headers["location"]) == (
        202,
        f"{TONE}/jobs/{begun.json()['id']}",
    ), begun.text
    job = ended(client, begun.json())
    assert job["state"] == "done", job["problem"]
    return job["result"]


def say(
    client: Any, case: str, value: bool = False, rationale: str = "", **more: Any
) -> Any:
    """Answer a case on the page: people review there alone."""
    return reviewing.answer(
        client, case, value=str(value).lower(), rationale=rationale, **more
    )


def blind_answers(client: Any) -> int:
    return len(
        world.stored(
            client, select(reviews).where(reviews.c.judge_version.is_not(None))
        )
    )


@pytest.fixture
def taught(local: TestClient) -> TestClient:
    assert done(local, "align", feedback=FEEDBACK)["version"] == 2
    return local


@pytest.fixture
def team(shared: world.Shared) -> tuple[Any, Any]:
    """A reviewer and an owner of one queue."""
    owner = shared.signed_in("owner")
    assert done(owner, "cases", cases=CASES) == {
        "judged": 5,
        "failed": 0,
        "problem": None,
        "added": 5,
        "known": 0,
        "changed": [],
        "apart": 0,
    }
    return shared.signed_in("reviewer"), owner


def test_the_description_has_eight_operations(local: TestClient) -> None:
    paths = local.get("/api/v1/openapi.json").json()["paths"].values()
    assert sorted(method["operationId"] for methods in paths for method in methods.values()) == [
        "align_judge", "erase", "judge_one", "list_judges", "put_cases", "show_job", "show_me", "unalign_judge",
    ]  # fmt: skip


def test_one_case_is_judged_now(local: TestClient) -> None:
    expect(
        local.post(f"{TONE}/judge", json={"inputs": "Hello?", "outputs": "Hi!"}),
        200,
        '"id":"item"',
        '"value":true',
    )
    assert local.post(f"{TONE}/judge", json={"inputs": "Hello?"}).status_code == 422


@pytest.mark.parametrize(
    ("error", "status"),
    [(ModelUnavailable("no answer"), 502), (RateLimited("too many"), 503)],
)
def test_a_model_that_fails_is_a_problem(
    place: str, error: Exception, status: int
) -> None:
    with world.site(place, script=lambda _request: error) as client:
        expect(
            client.post(f"{TONE}/judge", json={"inputs": "a", "outputs": "b"}),
            status,
            type(error).__name__,
        )


def kept_case(client: Any, **more: Any) -> str:
    judged = client.post(
        f"{TONE}/judge",
        params={"keep": True},
        json={"inputs": "Hm?", "outputs": "No.", **more},
    )
    expect(judged, 200)
    return str(judged.json()["id"])


@world.ON_BOTH
def test_feedback_on_a_kept_case_needs_its_id_alone(local: TestClient) -> None:
    case = kept_case(local)
    row = {"id": case, "value": False, "rationale": "Cold.", "source": "app-7"}
    done(local, "align", feedback=[row])
    assert learned(local) == {f"{case}@app-7": "learned"}
    judge = world.server_of(local).judges.latest("tone").judge
    (known,) = judge.memory.cases
    assert (known.example.inputs, known.example.outputs) == ("Hm?", "No.")


def test_cases_with_a_known_id_and_other_content_are_named(local: TestClient) -> None:
    done(local, "cases", cases=CASES)
    changed = {**CASES[0], "outputs": "Tomorrow."}
    new = {"id": "new", "inputs": "Who?", "outputs": "Me."}
    result = done(local, "cases", cases=[changed, CASES[1], new])
    assert (result["added"], result["known"], result["changed"]) == (1, 1, ["late"])


def test_an_id_names_one_kept_case(local: TestClient) -> None:
    kept_case(local, id="a-1")
    other = {"id": "a-1", "inputs": "Hm?", "outputs": "Yes."}
    assert (
        local.post(f"{TONE}/judge", params={"keep": True}, json=other).status_code
        == 409
    )


def test_an_entry_that_is_no_object_costs_itself(local: TestClient) -> None:
    mixed = [FEEDBACK[0], 7, FEEDBACK[1]]
    refused = ended(local, local.post(f"{TONE}/align", json={"feedback": mixed}).json())
    assert "line 2: a row is a mapping" in refused["problem"]
    done(local, "align", feedback=mixed, skip_invalid=True)
    assert learned(local) == {"t-1@ana": "learned", "t-2@ana": "learned"}
    cases = local.post(f"{TONE}/cases", json={"cases": [CASES[0], None]})
    assert (cases.status_code, "line 2" in cases.text) == (422, True)


@world.ON_BOTH
def test_feedback_is_replaced_and_withdrawn(taught: TestClient) -> None:
    done(
        taught, "align", feedback=[{**FEEDBACK[0], "rationale": "It promises nothing."}]
    )
    done(taught, "unalign", keys=["t-1@ana"])
    assert learned(taught) == {"t-1@ana": "withdrawn", "t-2@ana": "learned"}


def test_an_erasure_leaves_a_receipt(taught: TestClient) -> None:
    receipt = done(taught, "erase", keys=["t-1"])
    assert (receipt["complete"], receipt["left"], receipt["counts"][:17]) == (
        True,
        [],
        "1 case, 1 comment",
    )
    assert "t-1" not in str(receipt)


def test_a_file_of_the_server_is_no_feedback(local: TestClient) -> None:
    # Names of files are read as files by the library; from outside only rows may come.
    assert (
        local.post(f"{TONE}/align", json={"feedback": "/etc/passwd"}).status_code == 422
    )
    assert local.post(f"{TONE}/cases", json={"cases": "/etc/passwd"}).status_code == 422


def test_a_result_tells_nothing_of_open_cases(team: tuple[Any, Any]) -> None:
    reviewer, owner = team
    say(owner, "late", rationale="Never so cold.")
    say(reviewer, "shop", True)
    reviewing.post(owner, "/judges/tone/teach")
    reviewing.wait(owner)
    (job,) = world.server_of(owner).jobs.recent("tone")[:1]
    feedback = [
        {**FEEDBACK[0], "source": "ana@reviewer"},
        {**FEEDBACK[1], "source": "reviewer"},
    ]
    taught = job.id
    aligned = ended(
        owner, owner.post(f"{TONE}/align", json={"feedback": feedback}).json()
    )["id"]
    for job_id, version, keys in (
        (taught, 2, ["late@owner", "shop@reviewer"]),
        (
            aligned,
            3,
            ["t-1@ana@reviewer", "t-2@reviewer"],
        ),  # a name that ends with hers
    ):
        told = owner.get(f"{TONE}/jobs/{job_id}").json()["result"]
        assert sorted(row["key"] for row in told["rows"]) == keys
        result = reviewer.get(f"{TONE}/jobs/{job_id}").json()["result"]
        rows = [row for row in told["rows"] if row["key"] == keys[1]]
        assert result == {"version": version, "rows": rows}


@pytest.mark.parametrize("path", ["erase", "unalign"])
def test_to_forget_nothing_is_refused(path: str, local: TestClient) -> None:
    for body in ({}, {"keys": list[str]()}):
        expect(
            local.post(f"{TONE}/{path}", json=body),
            422,
            "name feedback by one of keys, source",
        )
    assert world.server_of(local).jobs.recent("tone") == []


def test_no_program_teaches_what_only_measures(
    local: TestClient, draws: Callable[[int], None]
) -> None:
    draws(0)  # the first of each four is held out
    case = kept_case(local, id="a-1")
    copy = {"id": "copy", "inputs": "Hm?", "outputs": "No.", "value": False}
    for rows in ([{"id": case, "value": False}, FEEDBACK[0]], [copy]):
        refused = local.post(f"{TONE}/align", json={"feedback": rows})
        assert (refused.status_code, refused.json().get("held_out")) == (
            409,
            [rows[0]["id"]],
        )
    assert learned(local) == {}


@world.ON_BOTH
@pytest.mark.parametrize("text", ["\\u0000", "\\ud800"])
def test_what_no_database_holds_is_no_error_of_ours(
    text: str, local: TestClient
) -> None:
    for method, path, body in (
        ("POST", "judge?keep=true", '{"inputs": "T", "outputs": "T", "id": "T"}'),
        ("POST", "cases", '{"cases": [{"id": "T", "inputs": "T", "outputs": "T"}]}'),
        (
            "POST",
            "align",
            '{"feedback": [{"id": "T", "value": true, "rationale": "T", "source": "T"}]}',
        ),
        ("POST", "unalign", '{"keys": ["T"], "source": "T"}'),
        ("POST", "erase", '{"keys": ["T"], "matching": "T"}'),
        ("GET", "jobs/%00", ""),
    ):
        headers = {"content-type": "application/json"}
        response = local.request(
            method, f"{TONE}/{path}", content=body.replace("T", text), headers=headers
        )
        assert response.status_code < 500, (path, response.text)


def test_a_verdict_asked_for_is_no_blind_one(queued: TestClient) -> None:
    late = {name: CASES[0][name] for name in ("inputs", "outputs")}
    say(queued, "late", state="skipped")
    assert queued.post(f"{TONE}/judge", json=late).json()["value"] is True
    say(queued, "late", revision="1")
    say(queued, kept_case(queued, id="new"))
    assert blind_answers(queued) == 0
    say(queued, "shop")
    assert blind_answers(queued) == 1


def test_no_side_door_tells_a_reviewer(team: tuple[Any, Any]) -> None:
    reviewer, owner = team
    for case in ("late", "twice"):
        say(owner, case, rationale="Never so cold.")
    reviewing.post(owner, "/judges/tone/teach")
    reviewing.wait(owner)
    (job,) = world.server_of(owner).jobs.recent("tone")[:1]
    pages = (
        f"learned?job={job.id}",
        f"teach?job={job.id}",
        "trust",
        "review?case=late",
        "learned?find=three weeks",
    )
    doors = (f"{TONE}/jobs/{job.id}", *(f"/judges/tone/{page}" for page in pages))
    for door in doors:
        text = expect(reviewer.get(door), 200)
        assert (VERDICT in text, "Never so cold." in text) == (False, False), door


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

    rows = [
        {"id": f"c{n}", "inputs": f"q{n}{' POISON' * (n == 2)}", "outputs": "a"}
        for n in range(1, 5)
    ]
    with world.site(place, script=counting) as client:
        assert done(client, "cases", cases=rows)["failed"] == 0
        assert len(asked) == len(rows)
        verdicts = {
            row.case_id: row.judgment for row in world.stored(client, select(queue))
        }
        assert [verdicts[f"c{n}"].value for n in range(1, 5)] == [True] * 4
        assert verdicts["c2"].rationale == "Fine \ufffd"
        assert done(client, "cases", cases=rows)["judged"] == 0
        assert len(asked) == len(rows), "nothing is paid for again"
        judged = client.post(f"{TONE}/judge", json=rows[1], params={"keep": True})
        assert (judged.status_code, judged.json()["rationale"]) == (200, "Fine \ufffd")
        assert "Fine \ufffd" in say(client, "c2", False).text
        every_page_opens(client)


def every_page_opens(client: TestClient) -> None:
    for page in ("review?case=c2", "learned", "trust", "setup"):
        assert client.get(f"/judges/tone/{page}").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "cases",
            '{"cases": [{"id": "h", "inputs": %s, "outputs": {%s: [%s]}, "meta": {"k": %s}}]}',
        ),
        ("cases", '{"cases": [{"id": %s, "outputs": "x"}]}'),
        ("judge?keep=true", '{"inputs": "q", "outputs": %s}'),
        ("judge", '{"inputs": [{"role": "user", "content": %s}], "outputs": "a"}'),
        (
            "align",
            '{"feedback": [{"id": "n", "outputs": %s, "value": true, "rationale": %s, "source": %s}]}',
        ),
        ("unalign", '{"keys": [%s]}'),
        ("erase", '{"matching": %s}'),
    ],
)
def test_half_an_emoji_in_a_request_is_a_replacement_character(
    place: str, path: str, body: str
) -> None:
    with world.site(place) as client:
        assert done(client, "cases", cases=CASES)["failed"] == 0
        headers = {"content-type": "application/json"}
        answer = client.post(
            f"{TONE}/{path}", content=body.replace("%s", SENT), headers=headers
        )
        assert answer.status_code in (200, 202), answer.text
        if answer.status_code == 202:
            job = ended(client, answer.json())
            assert (job["state"], "surrogate" in str(job["problem"])) in (
                ("done", False),
                ("failed", False),
            )
        assert client.get("/judges/tone/review").status_code == 200


@pytest.mark.parametrize("depth", [200, 900, 3_000, 100_000])
@pytest.mark.parametrize("path", ["cases", "judge", "judge?keep=true", "align"])
def test_a_value_that_is_nested_too_deeply_is_refused(
    local: TestClient, path: str, depth: int
) -> None:
    value = '"value": true, ' if path == "align" else ""
    row = f'{{"id": "deep", {value}"inputs": "q", "outputs": {"[" * depth}1{"]" * depth}}}'
    wrapped = {"cases": f'{{"cases": [{row}]}}', "align": f'{{"feedback": [{row}]}}'}
    body = wrapped.get(path, row)
    answer = local.post(
        f"{TONE}/{path}", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (200, 202, 400, 422), answer.text
    assert local.get("/judges/tone/review").status_code == 200


def test_two_halves_that_stand_together_are_one_character(local: TestClient) -> None:
    body = '{"cases": [{"id": "whole", "outputs": "\\ud83d\\ude00 \\u0000"}]}'
    begun = local.post(
        f"{TONE}/cases", content=body, headers={"content-type": "application/json"}
    )
    assert ended(local, begun.json())["state"] == "done"
    assert world.case_row(local, "whole").example.outputs == "\U0001f600 \ufffd"
