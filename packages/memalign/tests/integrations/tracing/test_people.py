"""In every tool people are told from programs, and who said it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memalign.errors import InputError, RowError
from memalign.integrations.tracing import Gathered, Record, Said, Wanted, gathered, open_tool
from tests.integrations.tracing import conftest as world
from tests.integrations.tracing.conftest import RECORDED, Serve

QUESTION_AND_ANSWER = {"inputs": "question", "outputs": "answer"}


def read(tool: str, place: str | None, **settings: Any) -> Gathered:
    wanted = Wanted(every=settings.pop("every", False), trace=settings.pop("trace", False))
    return gathered(open_tool(tool, place).records(wanted), **settings)


def told(found: Gathered) -> list[tuple[Any, ...]]:
    """Who gave which label to what, in which words."""
    names = ("id", "source", "value", "rationale")
    return [tuple(row.get(name) for name in names) for row in found.rows if isinstance(row, dict)]


def case(number: int, *said: Said) -> Record:
    return Record(id=f"t-{number}", columns={"outputs": "No."}, said=said)


def test_phoenix_gives_annotations_of_humans(serve: Serve) -> None:
    serve(world.phoenix())
    found = read("phoenix", "shop")
    spans = [span for span in world.recorded("phoenix.json")["spans"]["data"] if span["parent_id"] is None]
    assert told(found) == [
        (spans[0]["context"]["span_id"], "ben", "bad", "too short"),
        (spans[2]["context"]["span_id"], "unknown", None, "cold greeting"),
        (spans[2]["context"]["span_id"], "ana", "good", "warm"),
    ]
    assert found.programs == {"tone": 1}
    row = found.rows[2]
    assert isinstance(row, dict)
    assert (row["inputs"], row["outputs"], row["score"]) == ("Question 0", {"a": 0}, 1.0)


def test_phoenix_names_people_who_were_logged_in(serve: Serve) -> None:
    answers = world.phoenix()
    annotation = answers["GET /v1/projects/shop/span_annotations"]["data"][-1]
    annotation |= {"source": "APP", "user_id": "VXNlcjoy", "identifier": "px-app:VXNlcjoy"}
    serve(answers)
    assert ("admin@localhost", "good") in [each[1:3] for each in told(read("phoenix", "shop"))]


def test_langfuse_gives_annotations_not_evaluations(serve: Serve) -> None:
    server = serve(world.langfuse())
    found = read("langfuse", None)
    assert told(found) == [
        ("0a1b2c3d4e5f60718293a4b5c6d7e8f9", "user-ana", False, "Correct but cold."),
        ("1111111111111111aaaaaaaaaaaaaaaa#obs-2", "user-ben", True, None),
    ]
    assert found.programs == {"tone": 1}, "the score of a session is of no case"
    first, second = found.rows
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["inputs"], first["outputs"]) == ("My order is late.", {"reply": "It is in transit."})
    assert second["outputs"] == "Any time!", "what was scored, not the whole trace"
    asked = server.of("/api/public/v3/scores")
    assert [(each.query["source"], each.query.get("cursor")) for each in asked] == [
        ("ANNOTATION", None),
        ("ANNOTATION", "bmV4dA"),
    ]


def test_langsmith_gives_feedback_of_its_app(serve: Serve) -> None:
    server = serve(world.langsmith())
    found = read("langsmith", "shop")
    assert server.of("/api/v1/feedback")[0].query["source"] == "app"
    assert told(found) == [("aaaa0000-0000-4000-8000-000000000001", "Ana", "cold", "Correct but cold.")]
    assert found.programs == {"tone": 1}, "of runs that people said nothing of nothing is fetched"


def test_braintrust_gives_each_reviewer(serve: Serve) -> None:
    serve(world.braintrust())
    found = read("braintrust", "shop")
    assert told(found) == [
        ("row-1", "ana@example.org", "cold", None),
        ("row-1", "ben@example.org", "warm", None),
        ("row-4", "unknown", "warm", None),
    ]
    assert found.programs == {"Factuality": 2}
    row = found.rows[0]
    assert isinstance(row, dict)
    assert row["inputs"] == "My order is late.", "the newest state of a row counts"


@pytest.mark.parametrize("place", ["1", str(RECORDED / "label_studio_export.json")])
def test_label_studio_gives_annotations(serve: Serve, place: str) -> None:
    serve(world.label_studio())
    found = read("label-studio", place, name="tone", columns=QUESTION_AND_ANSWER)
    ana = "ana@example.org" if place == "1" else "1"
    assert told(found) == [("1", ana, "bad", "Cold.\nNo greeting."), ("3", ana, "good", None)]
    assert found.others == {"stars": 1}, "the cancelled annotation counts nowhere"
    row = found.rows[0]
    assert isinstance(row, dict)
    assert row["meta"] == {"case": "t-0", "tool": "label-studio", "task": 1}


def test_argilla_gives_responses_not_suggestions() -> None:
    columns = QUESTION_AND_ANSWER
    found = read("argilla", str(RECORDED / "argilla_records.json"), name="tone", words="why", columns=columns)
    ana, ben = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
    assert told(found) == [("t-1", ana, "cold", "No sympathy."), ("t-1", ben, "warm", None)]
    assert found.programs == {"tone": 1}


def test_a_column_that_no_case_has_is_named() -> None:
    with pytest.raises(InputError, match="no column 'reply', from which outputs was to be read; its columns: question"):
        read("argilla", str(RECORDED / "argilla_records.json"), name="tone", columns={"outputs": "reply"})


def test_a_column_id_is_not_the_case_s() -> None:
    said = (Said(name="tone", person=True, source="ana", value=True),)
    record = Record(id="7", columns={"id": "t-7", "case": "c-7", "outputs": "No."}, said=said)
    plain, mapped = (gathered([record], columns=columns).rows[0] for columns in (None, {"id": "case"}))
    assert isinstance(plain, dict)
    assert isinstance(mapped, dict)
    assert (plain["id"], plain["meta"]["id (column)"], mapped["id"]) == ("7", "t-7", "c-7")


def test_several_annotations_of_people_must_be_named() -> None:
    said = [Said(name=name, person=True, source="ana", value=True) for name in ("tone", "safe")]
    with pytest.raises(InputError, match=r"tone \(1\), safe \(1\); --score"):
        gathered([case(1, *said)])
    assert told(gathered([case(1, *said)], name="safe")) == [("t-1", "ana", True, None)]


def test_a_program_s_score_is_never_feedback() -> None:
    program = Said(name="tone", person=False, source="gpt", value=True)
    with pytest.raises(InputError, match=r"by programs only \(1 times\)"):
        gathered([case(1, program)], name="tone")


def test_what_a_person_says_last_counts() -> None:
    moments = ("2026-10-02T09:00:00Z", "2026-10-03T09:00:00Z", "2026-10-01T09:00:00Z")
    values = (1.0, 2.0, 3.0)
    said = [
        Said(name="stars", person=True, source="ana", score=score, created_at=at)
        for score, at in zip(values, moments, strict=True)
    ]
    found = gathered([case(1, *said)])
    assert (told(found), found.replaced) == ([("t-1", "ana", 2, None)], 2)


def test_labels_get_the_judge_s_values() -> None:
    said = Said(name="tone", person=True, source="ana", value="good")
    assert told(gathered([case(1, said)], values={"good": "true"}))[0][2] == "true"


@pytest.mark.parametrize(
    ("tool", "answers", "place"),
    [("langfuse", world.langfuse, None), ("langsmith", world.langsmith, "shop")],
)
def test_a_case_that_is_gone_is_named(
    serve: Serve, tool: str, answers: Callable[[], dict[str, Any]], place: str | None
) -> None:
    gone = answers()
    gone["GET /api/public/v2/observations"] = {"data": [], "meta": {}}
    gone["POST /api/v1/runs/query"] = {"runs": []}
    serve(gone)
    row = read(tool, place).rows[0]
    assert isinstance(row, RowError)
    assert "any more" in row.reason
