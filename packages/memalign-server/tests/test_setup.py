"""Set up as an owner meets it: the question and its trial, files of every kind, and what each
says when it cannot."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from fastapi.testclient import TestClient
from openpyxl import Workbook

from memalign.errors import ModelUnavailable
from memalign_server.store.tables import queue
from server_support import world
from server_support.reviewing import (
    CASES,
    answer,
    expect,
    hold_out,
    post,
    put_in,
    shows,
    wait,
    words_of,
)

if TYPE_CHECKING:
    from pathlib import Path

SETUP = "/judges/tone/setup"
TABLE = "customer_message,agent_reply\nWhere is it?,On its way.\nWhy so late?,We are sorry.\n"


def sent(
    client: TestClient,
    name: str,
    body: str | bytes,
    what: str = "show",
    judge: str = "tone",
    **form: Any,
) -> Any:
    """A file as the page sends it."""
    file = {"file": (name, body)}
    data = {"what": what, **form}
    return client.post(
        f"/judges/{judge}/setup/cases", files=file, data=data, follow_redirects=False
    )


def test_an_empty_server_shows_the_question_and_leads_to_its_cases(place: str) -> None:
    with world.client(place) as client:
        assert "What should your experts decide?" in client.get("/").text
        made = post(
            client,
            "/judges",
            question="Is this reply good enough to send?",
            kind="bool",
            model="scripted",
        )
        assert (
            made.headers["location"]
            == "/judges/is-this-reply-good-enough-to/setup?open=cases"
        )
        assert (
            "No cases yet."
            in client.get("/judges/is-this-reply-good-enough-to/setup").text
        )
        judge = world.registry_of(client).load("is-this-reply-good-enough-to")
        assert (judge.fields, judge.value_type.spec) == (("inputs", "outputs"), "bool")
        assert (
            client.get("/", follow_redirects=False)
            .headers["location"]
            .endswith("/review")
        )
        post(
            client,
            "/judges",
            question="Is this reply good enough to send?",
            kind="A|B|tie",
        )
        assert {judge.name for judge in world.registry_of(client).list()} == {
            judge.name,
            f"{judge.name}-2",
        }
        assert "Is this reply good enough to send?" in client.get("/").text


def test_a_changed_question_is_asked_of_open_and_measuring_cases(
    local: TestClient,
) -> None:
    more = [{"id": f"m-{n}", "inputs": f"{n}?", "outputs": "Yes."} for n in range(20)]
    put_in(local, [*CASES, *more])
    hold_out(local, "twice", "m-0", "m-1", "m-2", "m-3")
    world.change(
        local,
        queue.update().where(queue.c.case_id.in_(["late", "twice"])).values(rank=0),
    )  # the last ones
    for case in ("late", "twice"):
        answer(local, case, value="false")
    answer(local, "lamp", state="skipped")
    saved = post(
        local, f"{SETUP}/question", question="Is the reply kind?", model="scripted"
    )
    wait(local)
    judge = world.registry_of(local).load("tone")
    assert (
        judge.instructions
        == "Is the reply kind?\nQuestion: {{ inputs }}\nReply: {{ outputs }}"
    )
    assert len(world.registry_of(local).history("tone")) == 2
    versions = {row.case_id: row.version for row in world.stored(local, queue.select())}
    assert versions == {
        case["id"]: 1 if case["id"] == "late" else 2 for case in (*CASES, *more)
    }
    assert "Is the reply kind? · Yes or No" in local.get(saved.headers["location"]).text
    post(local, f"{SETUP}/question", question="Is the reply kind?", model="scripted")
    assert len(world.registry_of(local).history("tone")) == 2  # nothing was changed


def test_the_kind_of_answer_stays_once_there_are_answers(queued: TestClient) -> None:
    local = queued
    text = "How warm is it? 1 = cold, 5 = warm.\n{{ outputs }}"
    for kind in ("int:1..5", "bool"):
        post(
            local,
            f"{SETUP}/question",
            question="How warm is it?",
            kind=kind,
            instructions=text,
        )
        judge = world.registry_of(local).load("tone")
        assert (judge.instructions, judge.value_type.spec) == (text, kind), (
            "all that the model is told can be changed"
        )
    answer(local, "late", value="false")
    assert 'name="kind"' not in local.get(f"{SETUP}?open=question").text
    expect(
        post(local, f"{SETUP}/question", question="Warm?", kind="int:1..5"),
        422,
        "the kind of answer stays",
    )
    world.registry_of(local).create(
        world.judge("mood").replace(feedback_value_type="happy|sad|neither")
    )
    page = local.get("/judges/mood/setup?open=question").text
    assert ("happy, sad, neither" in page, 'name="kind"' in page) == (True, False), (
        "a type that the page cannot choose"
    )
    post(
        local,
        "/judges/mood/setup/question",
        question="How does it sound?",
        model="scripted",
    )
    assert world.registry_of(local).load("mood").value_type.spec == "happy|sad|neither"


def test_a_trial_asks_about_the_first_case_and_keeps_nothing(local: TestClient) -> None:
    trial: dict[str, Any] = {
        "judge": "tone",
        "question": "Is it kind?",
        "model": "scripted",
    }
    invented = words_of("<main>" + post(local, "/judges/try", **trial).text)
    assert "Of an invented case it said: Yes , “It answers the question.”" in invented
    put_in(local)
    tried = words_of("<main>" + post(local, "/judges/try", **trial).text)
    assert "On the first case it said: Yes , “It answers the question.”" in tried
    assert len(world.registry_of(local).history("tone")) == 1
    world.registry_of(local).align(
        "tone", [{**CASES[0], "value": False, "rationale": "Cold.", "source": "ana"}]
    )
    assert "<b>Yes</b>" in post(local, "/judges/try", **trial).text, (
        "the model is asked, not the taught case"
    )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "a provider&#39;s key is missing."),
        ("openai:gpt-4.1-mini", "a provider&#39;s key is missing."),
        ("deepseek:deepseek-chat", "a provider&#39;s key is missing."),
        ("huggingface:m", "a provider&#39;s key is missing."),
        ("nobody:m", "a model of this name cannot be used."),
        ("openai:m@http://127.0.0.1:9/v1", "There is no verdict"),
        (
            "openai:m@http://user:secret@127.0.0.1/v1",
            "a model of this name cannot be used.",
        ),
        (
            "scripted",
            "nothing answers there. Start the model&#39;s server, or name another model here.",
        ),
    ],
)
def test_a_trial_says_what_is_wrong_and_where_to_put_it_right(
    place: str, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    if ":9/" in model:  # it would be asked again for longer
        monkeypatch.setattr("memalign_server.setup.question._PATIENCE", 0.5)
    with world.site(
        place, script=lambda _request: ModelUnavailable("connection refused")
    ) as client:
        for judge in ("", "tone") if model != "scripted" else ("tone",):
            expect(
                post(
                    client,
                    "/judges/try",
                    judge=judge,
                    question="Is it kind?",
                    model=model,
                ),
                200,
                words,
            )


@pytest.mark.parametrize("path", ["/judges", "/judges/try", f"{SETUP}/question"])
def test_a_team_sends_its_keys_nowhere(shared: world.Shared, path: str) -> None:
    form: dict[str, Any] = {
        "question": "Good?",
        "model": "openai:m@http://10.0.0.1/v1",
        "judge": "tone",
    }
    assert "keys would go there" in post(shared.signed_in("owner"), path, **form).text
    shared.server.registry.create(
        world.judge("far", model="openai:m@http://10.0.0.1/v1")
    )
    expect(
        post(shared.signed_in("owner"), "/judges/far/setup/question", **form), 303
    )  # which has it from elsewhere


def test_a_file_is_shown_before_it_is_added(local: TestClient) -> None:
    expect(
        sent(local, "june.csv", TABLE),
        200,
        "<b>june.csv</b>",
        "<option selected>customer_message</option>",
        "<option selected>agent_reply</option>",
        "<td>Why so late?</td><td>We are sorry.</td>",
        "<th>Question</th>",  # as the judge's instructions, and the cards, call them
        "Add 2 cases",
    )
    assert "No cases yet." in local.get(SETUP).text
    added = sent(
        local, "june.csv", TABLE, "cases", column=["customer_message", "agent_reply"]
    )
    wait(local)
    assert "2 new" in local.get(added.headers["location"]).text
    assert "2 cases, 0 of them answered." in local.get(SETUP).text
    more = TABLE + "Is it blue?,Yes.\nIs it blue?,Yes.\n"
    known = "Nothing new: all 4 were there already."
    assert "Add 1 case<" in sent(local, "b.csv", more).text
    shown = sent(local, "b.csv", more, "cases").headers["location"]
    assert "1 new, 3 are there already, or twice in the file." in local.get(shown).text
    wait(local)
    ended = local.get(
        f"/judges/tone/jobs/{parse_qs(shown)['job'][0]}", headers={"x-part": "true"}
    )
    assert ended.headers["x-go-to"] in shown, (
        "a page that shows the job already is loaded again as it is"
    )
    page = sent(local, "b.csv", more).text
    assert ("Add" in page, known in page) == (False, True)
    assert (
        known in local.get(sent(local, "b.csv", more, "cases").headers["location"]).text
    )


KNOWN = "id,inputs,outputs\nt-1,Where?,Soon.\nt-2,When?,Today.\nt-3,Why?,It rained.\n"
CHANGED = KNOWN.replace("Soon.", "Tomorrow.").replace("It rained.", "It snowed.")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            "2 are left out, because their ids are there already with other content: "
            "t-1, t-3. Give them ids of their own",
        ),
        (
            "pt",
            "2 ficam de fora, porque os seus ids já existem com outro conteúdo: "
            "t-1, t-3. Dê-lhes ids próprios",
        ),
        (
            "es",
            "2 quedan fuera, porque sus ids ya existen con otro contenido: "
            "t-1, t-3. Deles ids propios",
        ),
    ],
)
def test_rows_with_a_known_id_and_other_content_are_named(
    local: TestClient, language: str, words: str
) -> None:
    local.headers["accept-language"] = language
    sent(local, "june.csv", KNOWN, "cases")
    shown = words_of(f"<main>{sent(local, 'july.csv', CHANGED).text}</main>")
    added = sent(local, "july.csv", CHANGED + "t-4,Who?,Me.\n", "cases")
    after = words_of(local.get(added.headers["location"]).text)
    assert words in shown
    assert words in after
    assert "1 new, 1 is there already" in after or language != "en"
    again = sent(local, "july.csv", CHANGED, "cases")
    assert words in words_of(local.get(again.headers["location"]).text)


def test_many_rows_with_other_content_are_counted_and_some_named(
    local: TestClient,
) -> None:
    rows = [{"id": f"t-{n}", "inputs": "Q?", "outputs": f"A{n}"} for n in range(9)]
    put_in(local, rows)
    lines = [json.dumps({**row, "outputs": f"B{row['id']}"}) for row in rows]
    shown = sent(local, "b.jsonl", "\n".join(lines)).text
    shows(shown, "9 are left out", "t-0, t-1, t-2, t-3, t-4…")
    assert "Nothing new" not in shown
    assert 'value="cases"' not in shown


def test_content_that_the_queue_has_under_another_id_is_there_already(
    local: TestClient,
) -> None:
    put_in(local, CASES)
    swapped = [
        {**CASES[0], "id": CASES[1]["id"]},
        {**CASES[1], "id": CASES[0]["id"]},
    ]
    shown = sent(local, "b.jsonl", "\n".join(map(json.dumps, swapped))).text
    shows(shown, "Nothing new: all 2 were there already.")


def test_an_id_that_the_judge_has_learned_with_other_content_is_known(
    local: TestClient,
) -> None:
    put_in(local, [*CASES])
    answer(local, "late", value="false", rationale="It names no day.")
    post(local, "/judges/tone/teach")
    wait(local)
    post(local, "/judges/tone/cases/take-out", case="late")
    changed = json.dumps({"id": "late", "inputs": "Late?", "outputs": "No."})
    page = words_of(f"<main>{sent(local, 'b.jsonl', changed).text}</main>")
    shows(page, "1 is left out", "late. Give them ids of their own")


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("x;y;z\nfirst;second;third\n", [], "<td>first</td><td>second</td>"),
        ("x;y;z\nfirst;second;third\n", ["z", "x"], "<td>third</td><td>first</td>"),
        (
            "x;y;z\nfirst;second;third\n",
            ["z", "z"],
            "Choose a column of its own for each.",
        ),
        ("only\nthis\n", [], "Choose a column of its own for each."),
        # The form sends what was chosen for the file before this one.
        (TABLE, ["question", "answer"], "<option selected>agent_reply</option>"),
        (TABLE, ["customer_message"], "Add 2 cases"),
    ],
)
def test_columns_are_chosen_where_the_guess_is_wrong(
    local: TestClient, table: str, column: list[str], words: str
) -> None:
    assert words in sent(local, "a.csv", table, column=column).text


def test_columns_that_are_not_used_are_named(local: TestClient) -> None:
    table = "id,question,answer,agent_label,value\na,Where?,Soon.,bad,true\n"
    assert "Not used: agent_label." in sent(local, "a.csv", table).text
    assert "Not used" not in sent(local, "a.csv", TABLE).text


def test_bad_rows_are_named_by_their_line_and_left_out(local: TestClient) -> None:
    page = sent(local, "a.csv", TABLE + "No reply?,\na,b,c\nBlue?,Yes.\n").text
    shows(page, "2 rows cannot be used and are left out.", "Line 4: ", "Add 3 cases")
    shows(
        page,
        "nothing is in agent_reply",
        "the row has 3 cells, and there are 2 columns",
    )
    page = sent(local, "a.csv", "customer_message,agent_reply\nWhere?,\n").text
    assert "1 row cannot be used and is left out." in page


def test_an_excel_sheet_is_a_file_like_any_other(local: TestClient) -> None:
    book = Workbook()
    body = io.BytesIO()
    for row in (
        ("Question", "Answer", "Date"),
        ("Where is it?", "On its way.", "2026-06-01"),
    ):
        book.active.append(row)
    book.save(body)
    assert (
        "<td>Where is it?</td><td>On its way.</td>"
        in sent(local, "june.xlsx", body.getvalue()).text
    )


TEXTS = ("Where is my order, please?", "It left us on Monday.")


@pytest.mark.parametrize(
    ("header", "row", "chosen"),
    [
        (
            "ticket;customer wrote;our reply",
            ("T-1", *TEXTS),
            ("customer wrote", "our reply"),
        ),
        (
            "our reply;date;customer wrote",
            (TEXTS[1], "2026-11-28", TEXTS[0]),
            ("customer wrote", "our reply"),
        ),
        ("ref;a;b", ("88-1", *TEXTS), ("a", "b")),
        ("id;resposta;pergunta", ("1", TEXTS[1], TEXTS[0]), ("pergunta", "resposta")),
        (
            "answer_id;AgentResponse;userQuery",
            ("7", TEXTS[1], TEXTS[0]),
            ("userQuery", "AgentResponse"),
        ),
        (
            "number;value;rationale;ask;bot",
            ("1", "Yes", "Warm.", *TEXTS),
            ("ask", "bot"),
        ),
    ],
)
def test_columns_are_guessed_by_their_names_and_by_what_they_hold(
    local: TestClient, header: str, row: tuple[str, ...], chosen: tuple[str, str]
) -> None:
    again = [f"{text}2" if len(text) < 12 else f"{text} Again." for text in row]
    page = sent(
        local, "a.csv", "\n".join([header, ";".join(row), ";".join(again)])
    ).text
    assert tuple(re.findall(r"<option selected>([^<]*)", page)) == chosen
    assert f"<td>{TEXTS[0]}</td><td>{TEXTS[1]}</td>" in page
    assert ("what people answered: value, rationale" in page) == ("rationale" in header)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-8"])
def test_a_file_of_excel_is_read_in_its_encoding(
    local: TestClient, encoding: str
) -> None:
    page = sent(
        local,
        "a.csv",
        "Frage;Antwort\nWann ist es fällig?;Am Freitag, für 5 €.\n".encode(encoding),
    ).text
    assert "<td>Wann ist es fällig?</td><td>Am Freitag, für 5 €.</td>" in page
    assert ("Windows-1252" in page) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("cases.pdf", b"%PDF", "a file is one of .csv"),
        ("cases.jsonl", b"", "cases.jsonl has no rows"),
        ("cases.xlsx", b"no sheet", "cases.xlsx"),
        (
            "cases.jsonl",
            json.dumps({"id": "x" * 501, "inputs": "a", "outputs": "b"}),
            "give shorter ones",
        ),
        ("../../cases.csv", b"id,id\n1,2\n", "cases.csv: the header has id twice"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    local: TestClient, name: str, body: bytes | str, words: str
) -> None:
    page = sent(local, name, body).text
    assert (words in page, tempfile.gettempdir() in page) == (True, False)


def test_a_small_sheet_that_unpacks_to_much_is_refused_at_once(
    local: TestClient,
) -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/sharedStrings.xml", b"<t>a</t>" * 19_000_000)
    assert len(body.getvalue()) < 1_000_000
    page = sent(local, "june.xlsx", body.getvalue()).text
    shows(page, "june.xlsx unpacks to 144 MB", "keep it under 64")


PAIR = {"inputs": "q", "outputs": {"A": "one", "B": "two"}}
TALK = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("fields", "body", "content"),
    [
        ("{{ inputs }} {{ outputs }}", "question,answer_a,answer_b\nq,one,two\n", PAIR),
        ("{{ inputs }} {{ outputs }}", "asked,inputs,b\nq,one,two\n", PAIR),
        (
            "{{ inputs }} {{ outputs }}",
            '{"question": "q", "outputs": {"A": "one", "B": "two"}}',
            PAIR,
        ),
        ("{{ conversation }}", json.dumps({"messages": TALK}), {"conversation": TALK}),
        (
            "{{ outputs }} {{ expectations }}",
            "reply,reference\nyes,no\n",
            {"outputs": "yes", "expectations": "no"},
        ),
    ],
)
def test_pairs_and_conversations_are_taken_in(
    local: TestClient, fields: str, body: str, content: dict[str, Any]
) -> None:
    kind = "A|B|tie" if content is PAIR else "bool"
    world.registry_of(local).create(
        world.judge("other").replace(
            feedback_value_type=kind, instructions=f"Good? {fields}"
        )
    )
    name = "a.jsonl" if body.startswith("{") else "a.csv"
    form: dict[str, Any] = (
        {"column": ["asked", "inputs", "b"]} if "asked" in body else {}
    )  # any may have a side
    assert "Add 1 case<" in sent(local, name, body, judge="other", **form).text
    sent(local, name, body, "cases", judge="other", **form)
    (case,) = world.stored(local, queue.select())
    assert (case.example.content, case.case_id[:2]) == (content, "c-")


def test_cases_that_a_model_could_not_judge_are_judged_later(place: str) -> None:
    faults = [ModelUnavailable("connection refused")]
    with world.site(
        place, script=lambda request: faults[0] if faults else world.answer(request)
    ) as client:
        put_in(client)
        assert "5 cases are not judged yet." in client.get(f"{SETUP}?open=cases").text
        faults.clear()
        post(client, f"{SETUP}/cases", what="judge")
        wait(client)
        assert "not judged yet" not in client.get(f"{SETUP}?open=cases").text


@pytest.fixture
def tracking(tmp_path: Path) -> str:
    """A store with two traces of an experiment, one of them without an answer."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    import mlflow

    from tests.support.mlflow_world import traced

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    mlflow.create_experiment(
        "shop", artifact_location=(tmp_path / "artifacts").as_uri()
    )
    mlflow.set_experiment("shop")
    traced(1)
    with mlflow.start_span("nothing"):
        pass
    return uri


@pytest.mark.slow  # MLflow makes its tables
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_an_experiments_traces_come_into_the_queue(
    local: TestClient, tracking: str
) -> None:
    def pulled(experiment: str) -> str:
        begun = post(local, "/judges/tone/pull", experiment=experiment, uri=tracking)
        wait(local)
        return local.get(begun.headers["location"]).text

    shows(pulled("shop"), "1 new", "1 trace lacks what the judge reads.")
    assert "question 1" in local.get("/judges/tone/review").text
    assert "Nothing new: the one was there already." in pulled("shop")
    assert "no experiment &#39;none&#39;" in pulled("none")


def test_owners_pull_from_the_servers_own_and_name_no_other(
    shared: world.Shared, tmp_path: Path
) -> None:
    owner = shared.signed_in("owner")
    assert 'name="uri"' not in owner.get(f"{SETUP}?open=cases").text
    for uri in ("http://evil.example", "file:///etc", ""):
        assert (
            post(owner, "/judges/tone/pull", experiment="shop", uri=uri).status_code
            == 422
        )
    assert shared.server.jobs.recent("tone") == []
    (tmp_path / "own").mkdir()
    with world.shared_server(tmp_path / "own", mlflow="http://127.0.0.1:9") as site:
        owner = site.signed_in("owner")
        assert 'name="uri"' not in owner.get(f"{SETUP}?open=cases").text
        begun = post(owner, "/judges/tone/pull", experiment="shop")
        wait(owner)
        assert (
            "no MLflow answers at 127.0.0.1"
            in owner.get(begun.headers["location"]).text
        )


def test_without_mlflow_it_says_what_to_install(
    local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "MLflow" not in local.get(f"{SETUP}?open=cases").text
    pulled = post(local, "/judges/tone/pull", experiment="shop", uri="http://localhost")
    assert "where MLflow is installed" in pulled.text
