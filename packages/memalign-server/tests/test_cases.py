"""Owners see how far the team is, find cases, take them out again, and rename or delete a judge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from memalign.errors import JudgeNotFound
from memalign_server.store.tables import queue, reviews
from server_support import world
from server_support.reviewing import (
    CASES,
    added,
    answer,
    expect,
    numbered,
    post,
    put_in,
    shows,
    upload,
    words_of,
    work,
)

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

PAGE = "/judges/tone/cases"
SHEET = (
    "inputs,outputs,value,rationale,source\n"
    "Where?,Soon.,no,No day is named.,ana\n"
    "When?,Today.,yes,,\n"
)


def ids(client: TestClient) -> list[str]:
    rows = world.stored(client, select(queue).order_by(queue.c.number))
    return [row.case_id for row in rows]


def shown(client: TestClient, sheet: str) -> str:
    """The page that shows a file."""
    return str(upload(client, sheet, what="show").text)


@world.ON_BOTH
def test_an_owner_sees_how_far_the_team_is(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale="Cold.")
    page = queued.get(PAGE)
    shows(page.text, "5 cases", "1 of them answered.", "local", "1 answer")
    assert "No figure yet" in words_of(page.text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "answered"}, ["late"]),
        ({"state": "open"}, ["lamp", "shop", "thanks", "twice"]),
        ({"state": "disputed"}, []),
        ({"find": "THREE  weeks late"}, ["late"]),
        ({"find": "three weeks late", "state": "open"}, []),
    ],
)
def test_cases_are_found_by_text_and_state(
    queued: TestClient, query: dict[str, str], found: list[str]
) -> None:
    answer(queued, "late", value="false")
    page = queued.get(PAGE, params=query).text
    cases = re.findall(r'name="case" value="([^"]+)"', page)
    assert sorted(set(cases)) == found


def test_a_long_list_comes_in_pieces(local: TestClient) -> None:
    put_in(local, numbered(60))
    first = local.get(PAGE).text
    assert first.count('name="case"') == 50
    (address,) = re.findall(r'href="([^"]*)"[^>]*>\s*More cases', first)
    assert local.get(address.replace("&amp;", "&")).text.count('name="case"') == 10


@world.ON_BOTH
def test_what_is_taken_out_loses_no_words_and_counts_again(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale="Cold.")
    post(queued, f"{PAGE}/take-out", case="late")
    assert "late" not in ids(queued)
    shows(queued.get("/judges/tone/setup").text, "4 cases, 0 of them answered.")
    (row,) = world.stored(queued, select(reviews).where(reviews.c.case_id == "late"))
    assert (row.value, row.rationale) == (False, "Cold.")
    work(queued, "teach")
    assert world.judge_of(queued).memory.cases == (), "nor is it taught"
    put_in(queued)
    shows(queued.get(PAGE).text, "5 cases", "1 of them answered.")


def test_two_uploads_of_one_minute_are_told_apart(queued: TestClient) -> None:
    for name in ("june.csv", "july.csv", "july.csv"):
        upload(queued, f"inputs,outputs\nWhere {len(ids(queued))}?,Soon.\n", name)
    page = queued.get(PAGE).text
    links = re.findall(r'<a href="[^"]*batch=[^"]*">(.*?)</a>', page, re.DOTALL)
    texts = [*map(words_of, links)]
    assert len({*texts}) == len(texts) == 4
    for text, name in zip(texts, ("july", "july", "june", "cases"), strict=True):
        assert text.startswith(name)


def test_an_upload_is_undone_at_once(queued: TestClient) -> None:
    before = ids(queued)
    page = added(queued, "inputs,outputs\nWhere?,Soon.\nWhen?,Today.\n")
    batch = page.partition('name="batch" value="')[2].partition('"')[0]
    assert len(ids(queued)) == len(before) + 2
    post(queued, f"{PAGE}/take-out", batch=batch)
    assert ids(queued) == before


def test_nothing_ticked_takes_nothing_out(queued: TestClient) -> None:
    expect(post(queued, f"{PAGE}/take-out"), 422, "nothing is ticked")
    assert len(ids(queued)) == len(CASES)


# -- what people said already, in a file -----------------------------------------------


@world.ON_BOTH
def test_answers_in_a_file_are_offered_and_taken(local: TestClient) -> None:
    columns = "what people answered: value, rationale, source"
    shows(shown(local, SHEET), columns, "Take 2 answers")
    shows(added(local, SHEET, said="true"), "2 answers came with them.")
    rows = world.stored(local, select(reviews).order_by(reviews.c.person))
    of_ana, own = rows
    assert (of_ana.person, of_ana.rationale) == ("ana", "No day is named.")
    assert (of_ana.value, of_ana.blind_value) == (False, None)
    assert (own.person, own.rationale) == ("local", None)
    assert (own.value, own.blind_value) == (True, None)
    again = added(local, SHEET.replace("No day", "Not a day"), said="true")
    shows(again, "2 answers were left out")
    assert world.stored(local, select(reviews).order_by(reviews.c.person)) == rows


@pytest.mark.parametrize(
    ("rows", "says", "left"),
    [
        ("t-1,Where?,Tomorrow.,no,ana\n", "Take 1 answer", "1 answer was left out"),
        ("t-2,When?,Today.,perhaps,ana\n", "Line 2:", ""),
        ("t-2,When?,Today.,,\nt-3,Why?,So.,yes,ana\n", "Take 1 answer", ""),
    ],
)
def test_no_answer_of_a_file_is_left_out_without_a_word(
    local: TestClient, rows: str, says: str, left: str
) -> None:
    put_in(local, [{"id": "t-1", "inputs": "Where?", "outputs": "Soon."}])
    sheet = f"id,inputs,outputs,value,source\n{rows}"
    page = shown(local, sheet)
    shows(page, says)
    assert ("cannot be read" in page) == ("perhaps" in rows)
    after = added(local, sheet, said="true")
    assert ("left out" in after and "answer" in left) == bool(left)
    assert left in after


def test_answers_in_a_file_are_left_out_or_taken_for_cases_that_are_there_already(
    local: TestClient,
) -> None:
    upload(local, SHEET, said="false")
    assert world.stored(local, select(reviews)) == []
    assert len(ids(local)) == 2
    assert 'value="cases"' not in shown(local, "inputs,outputs\nWhere?,Soon.\n")
    page = shown(local, SHEET)
    shows(page, "Nothing new: all 2 were there already.", "Take 2 answers")
    shows(page, 'value="cases"')  # a button that takes the answers
    shows(added(local, SHEET, said="true"), "2 answers came with them.")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "the row has 3 cells, and there are 2 columns"),
        ("pt", "a linha tem 3 células e há 2 colunas"),
        ("es", "la fila tiene 3 celdas y hay 2 columnas"),
    ],
)
def test_what_is_wrong_with_a_row_is_said_in_the_readers_language(
    local: TestClient, language: str, words: str
) -> None:
    local.headers["accept-language"] = language
    assert words in shown(local, "inputs,outputs\nWhere?,Soon.,x\nWhen?,Today.\n")


# -- the judge itself ------------------------------------------------------------------


@world.ON_BOTH
def test_a_judge_is_renamed_with_its_cases_and_answers(queued: TestClient) -> None:
    answer(queued, "late", value="false", rationale="Cold.")
    renamed = post(queued, "/judges/tone/setup/name", name="warmth")
    assert renamed.headers["location"] == "/judges/warmth/setup"
    shows(queued.get("/judges/warmth/cases").text, "5 cases", "1 of them answered.")
    assert queued.get("/judges/tone/setup").status_code == 404
    post(queued, "/judges", question="Is it short?", name="brief", model="scripted")
    expect(post(queued, "/judges/warmth/setup/name", name="brief"), 409)


def test_a_judge_is_deleted_once_its_name_is_typed(queued: TestClient) -> None:
    registry = world.server_of(queued).registry
    mistyped = post(queued, "/judges/tone/delete", name="tome")
    expect(mistyped, 422, "type the name of the judge")
    assert registry.load("tone").name == "tone"
    deleted = post(queued, "/judges/tone/delete", name="tone")
    assert deleted.headers["location"] == "/judges"
    with pytest.raises(JudgeNotFound):
        registry.load("tone")
    assert ids(queued) == []


def test_cases_with_equal_replies_are_told_apart(queued: TestClient) -> None:
    for line in ("Is there a lamp?", "Is there a bell?"):
        put_in(queued, [{"id": line, "inputs": line, "outputs": "Yes."}])
        shows(words_of(queued.get(PAGE).text), f"“{line}” → “Yes.”")
