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
    added,
    answer,
    expect,
    hold_out,
    numbered,
    post,
    put_in,
    shows,
    upload,
    wait,
    words_of,
    work,
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
    return upload(client, body, name, what=what, judge=judge, **form)


def test_an_empty_server_shows_the_question_and_leads_to_its_cases(place: str) -> None:
    with world.client(place) as client:
        question = "Is this reply good enough to send?"
        name = "is-this-reply-good-enough-to"
        assert "What should your experts decide?" in client.get("/").text
        form = {"question": question, "kind": "bool", "model": "scripted"}
        made = post(client, "/judges", **form)
        assert made.headers["location"] == f"/judges/{name}/setup?open=cases"
        assert "No cases yet." in client.get(f"/judges/{name}/setup").text
        judge = world.registry_of(client).load(name)
        assert judge.fields == ("inputs", "outputs")
        assert judge.value_type.spec == "bool"
        home = client.get("/", follow_redirects=False)
        assert home.headers["location"].endswith("/review")
        post(client, "/judges", question=question, kind="A|B|tie")
        judges = world.registry_of(client).list()
        assert {judge.name for judge in judges} == {name, f"{name}-2"}
        assert question in client.get("/").text


def test_a_changed_question_is_asked_of_open_and_measuring_cases(
    local: TestClient,
) -> None:
    more = numbered(20)
    put_in(local, [*CASES, *more])
    hold_out(local, "twice", "c-0", "c-1", "c-2", "c-3")
    last = queue.update().where(queue.c.case_id.in_(["late", "twice"]))
    world.change(local, last.values(rank=0))
    answer(local, "late", value="false")
    answer(local, "twice", value="false")
    answer(local, "lamp", state="skipped")
    form = {"question": "Is the reply kind?", "model": "scripted"}
    page = work(local, "setup/question", **form)
    assert "Is the reply kind? · Yes or No" in page
    registry = world.registry_of(local)
    changed = world.INSTRUCTIONS.replace("warm and helpful", "kind")
    assert registry.load("tone").instructions == changed
    assert len(registry.history("tone")) == 2
    for row in world.stored(local, queue.select()):
        assert row.version == (1 if row.case_id == "late" else 2)
    post(local, f"{SETUP}/question", **form)
    assert len(registry.history("tone")) == 2  # nothing was changed


def test_the_kind_of_answer_stays_once_there_are_answers(queued: TestClient) -> None:
    registry = world.registry_of(queued)
    form = {
        "question": "How warm is it?",
        "instructions": "How warm is it? 1 = cold, 5 = warm.\n{{ outputs }}",
    }
    for kind in ("int:1..5", "bool"):
        post(queued, f"{SETUP}/question", kind=kind, **form)
        # All that the model is told can be changed.
        judge = registry.load("tone")
        assert judge.instructions == form["instructions"]
        assert judge.value_type.spec == kind
    answer(queued, "late", value="false")
    assert 'name="kind"' not in queued.get(f"{SETUP}?open=question").text
    refused = post(queued, f"{SETUP}/question", question="Warm?", kind="int:1..5")
    expect(refused, 422, "the kind of answer stays")


def test_a_kind_of_answer_that_the_page_cannot_choose_stays(local: TestClient) -> None:
    registry = world.registry_of(local)
    kind = "happy|sad|neither"
    registry.create(world.judge("mood").replace(feedback_value_type=kind))
    page = local.get("/judges/mood/setup?open=question").text
    assert "happy, sad, neither" in page
    assert 'name="kind"' not in page
    form = {"question": "How does it sound?", "model": "scripted"}
    post(local, "/judges/mood/setup/question", **form)
    assert registry.load("mood").value_type.spec == kind


def test_a_trial_asks_about_the_first_case_and_keeps_nothing(local: TestClient) -> None:
    trial = {"judge": "tone", "question": "Is it kind?", "model": "scripted"}

    def tried() -> str:
        return words_of(post(local, "/judges/try", **trial).text)

    said = "it said: Yes , “It answers the question.”"
    assert f"Of an invented case {said}" in tried()
    put_in(local)
    assert f"On the first case {said}" in tried()
    registry = world.registry_of(local)
    assert len(registry.history("tone")) == 1
    taught = {"value": False, "rationale": "Cold.", "source": "ana"}
    registry.align("tone", [CASES[0] | taught])
    # The model is asked, not the taught case.
    assert f"On the first case {said}" in tried()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", "a provider&#39;s key is missing."),
        ("openai:gpt-4.1-mini", "a provider&#39;s key is missing."),
        ("deepseek:deepseek-chat", "a provider&#39;s key is missing."),
        ("huggingface:m", "a provider&#39;s key is missing."),
        ("nobody:m", "a model of this name cannot be used."),
        ("openai:m@http://127.0.0.1:9/v1", "There is no verdict"),
        ("openai:m@http://user:secret@127.0.0.1/v1", "a model of this name cannot be"),
        ("scripted", "nothing answers there. Start the model&#39;s server, or name"),
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
            form = {"judge": judge, "question": "Is it kind?", "model": model}
            expect(post(client, "/judges/try", **form), 200, words)


@pytest.mark.parametrize("path", ["/judges", "/judges/try", f"{SETUP}/question"])
def test_a_team_sends_its_keys_nowhere(
    shared: world.Shared, owner: TestClient, path: str
) -> None:
    model = "openai:m@http://10.0.0.1/v1"
    form = {"question": "Good?", "model": model, "judge": "tone"}
    assert "keys would go there" in post(owner, path, **form).text
    # This one has it from elsewhere.
    shared.server.registry.create(world.judge("far", model=model))
    expect(post(owner, "/judges/far/setup/question", **form), 303)


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
    columns = ["customer_message", "agent_reply"]
    assert "2 new" in added(local, TABLE, column=columns)
    wait(local)
    assert "2 cases, 0 of them answered." in local.get(SETUP).text
    more = TABLE + "Is it blue?,Yes.\nIs it blue?,Yes.\n"
    assert "Add 1 case<" in sent(local, "b.csv", more).text
    shown = upload(local, more).headers["location"]
    assert "1 new, 3 are there already, or twice in the file." in local.get(shown).text
    wait(local)
    # A page that shows the job already is loaded again as it is.
    job = f"/judges/tone/jobs/{parse_qs(shown)['job'][0]}"
    assert local.get(job, headers={"x-part": "true"}).headers["x-go-to"] in shown
    page = sent(local, "b.csv", more).text
    known = "Nothing new: all 4 were there already."
    assert known in page
    assert "Add" not in page
    assert known in added(local, more)


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
    upload(local, KNOWN)
    assert words in words_of(sent(local, "july.csv", CHANGED).text)
    after = words_of(added(local, CHANGED + "t-4,Who?,Me.\n"))
    assert words in after
    assert "1 new, 1 is there already" in after or language != "en"
    assert words in words_of(added(local, CHANGED))


def test_many_rows_with_other_content_are_counted_and_some_named(
    local: TestClient,
) -> None:
    put_in(local, numbered(9))
    lines = "\n".join(map(json.dumps, numbered(9))).replace("Reply", "Another reply")
    shown = sent(local, "b.jsonl", lines).text
    shows(shown, "9 are left out", "c-0, c-1, c-2, c-3, c-4…")
    assert "Nothing new" not in shown
    assert 'value="cases"' not in shown


def test_content_that_the_queue_has_under_another_id_is_there_already(
    local: TestClient,
) -> None:
    put_in(local, CASES)
    late = json.dumps(CASES[0] | {"id": "twice"})
    twice = json.dumps(CASES[1] | {"id": "late"})
    shown = sent(local, "b.jsonl", f"{late}\n{twice}").text
    shows(shown, "Nothing new: all 2 were there already.")


def test_an_id_that_the_judge_has_learned_with_other_content_is_known(
    local: TestClient,
) -> None:
    put_in(local, [*CASES])
    answer(local, "late", value="false", rationale="It names no day.")
    work(local, "teach")
    post(local, "/judges/tone/cases/take-out", case="late")
    changed = json.dumps({"id": "late", "inputs": "Late?", "outputs": "No."})
    page = words_of(sent(local, "b.jsonl", changed).text)
    shows(page, "1 is left out", "late. Give them ids of their own")


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("x;y;z\nfirst;second;third\n", [], "<td>first</td><td>second</td>"),
        ("x;y;z\nfirst;second;third\n", ["z", "x"], "<td>third</td><td>first</td>"),
        ("x;y;z\na;b;c\n", ["z", "z"], "Choose a column of its own for each."),
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
    shows(page, "nothing is in agent_reply")
    shows(page, "the row has 3 cells, and there are 2 columns")
    page = sent(local, "a.csv", "customer_message,agent_reply\nWhere?,\n").text
    assert "1 row cannot be used and is left out." in page


def test_an_excel_sheet_is_a_file_like_any_other(local: TestClient) -> None:
    book = Workbook()
    body = io.BytesIO()
    book.active.append(("Question", "Answer", "Date"))
    book.active.append(("Where is it?", "On its way.", "2026-06-01"))
    book.save(body)
    page = sent(local, "june.xlsx", body.getvalue()).text
    assert "<td>Where is it?</td><td>On its way.</td>" in page


@pytest.mark.parametrize(
    ("header", "row", "chosen"),
    [
        (
            "ticket;customer wrote;our reply",
            "T-1;ASKED;SAID",
            "customer wrote;our reply",
        ),
        (
            "our reply;date;customer wrote",
            "SAID;2026-11-28;ASKED",
            "customer wrote;our reply",
        ),
        ("ref;a;b", "88-1;ASKED;SAID", "a;b"),
        ("id;resposta;pergunta", "1;SAID;ASKED", "pergunta;resposta"),
        (
            "answer_id;AgentResponse;userQuery",
            "7;SAID;ASKED",
            "userQuery;AgentResponse",
        ),
        ("number;value;rationale;ask;bot", "1;Yes;Warm.;ASKED;SAID", "ask;bot"),
    ],
)
def test_columns_are_guessed_by_their_names_and_by_what_they_hold(
    local: TestClient, header: str, row: str, chosen: str
) -> None:
    asked = "Where is my order, please?"
    said = "It left us on Monday."
    first = row.replace("ASKED", asked).replace("SAID", said)
    again = row.replace("ASKED", f"{asked} Again.").replace("SAID", f"{said} Again.")
    page = sent(local, "a.csv", f"{header}\n{first}\n2{again}").text
    assert ";".join(re.findall(r"<option selected>([^<]*)", page)) == chosen
    assert f"<td>{asked}</td><td>{said}</td>" in page
    assert ("what people answered: value, rationale" in page) == ("rationale" in header)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "utf-8"])
def test_a_file_of_excel_is_read_in_its_encoding(
    local: TestClient, encoding: str
) -> None:
    text = "Frage;Antwort\nWann ist es fällig?;Am Freitag, für 5 €.\n"
    page = sent(local, "a.csv", text.encode(encoding)).text
    assert "<td>Wann ist es fällig?</td><td>Am Freitag, für 5 €.</td>" in page
    assert ("Windows-1252" in page) == (encoding == "cp1252")


LONG_ID = json.dumps({"id": "x" * 501, "inputs": "a", "outputs": "b"})


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("cases.pdf", b"%PDF", "a file is one of .csv"),
        ("cases.jsonl", b"", "cases.jsonl has no rows"),
        ("cases.xlsx", b"no sheet", "cases.xlsx"),
        ("cases.jsonl", LONG_ID, "give shorter ones"),
        ("../../cases.csv", b"id,id\n1,2\n", "cases.csv: the header has id twice"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    local: TestClient, name: str, body: bytes | str, words: str
) -> None:
    page = sent(local, name, body).text
    assert words in page
    assert tempfile.gettempdir() not in page


def test_a_small_sheet_that_unpacks_to_much_is_refused_at_once(
    local: TestClient,
) -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/sharedStrings.xml", b"<t>a</t>" * 19_000_000)
    assert len(body.getvalue()) < 1_000_000
    page = sent(local, "june.xlsx", body.getvalue()).text
    shows(page, "june.xlsx unpacks to 144 MB", "keep it under 64")


BOTH = "{{ inputs }} {{ outputs }}"
PAIR = {"inputs": "q", "outputs": {"A": "one", "B": "two"}}
TALK = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("fields", "body", "content"),
    [
        (BOTH, "question,answer_a,answer_b\nq,one,two\n", PAIR),
        (BOTH, "asked,inputs,b\nq,one,two\n", PAIR),
        (BOTH, '{"question": "q", "outputs": {"A": "one", "B": "two"}}', PAIR),
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
    judge = world.judge("other").replace(
        feedback_value_type="A|B|tie" if content is PAIR else "bool",
        instructions=f"Good? {fields}",
    )
    world.registry_of(local).create(judge)
    name = "a.jsonl" if body.startswith("{") else "a.csv"
    form: dict[str, Any] = {}
    if "asked" in body:  # any column may have a side
        form["column"] = ["asked", "inputs", "b"]
    assert "Add 1 case<" in sent(local, name, body, judge="other", **form).text
    sent(local, name, body, "cases", judge="other", **form)
    (case,) = world.stored(local, queue.select())
    assert case.example.content == content
    assert case.case_id.startswith("c-")


def test_cases_that_a_model_could_not_judge_are_judged_later(place: str) -> None:
    faults = [ModelUnavailable("connection refused")]
    with world.site(
        place, script=lambda request: faults[0] if faults else world.answer(request)
    ) as client:
        put_in(client)
        assert "5 cases are not judged yet." in client.get(f"{SETUP}?open=cases").text
        faults.clear()
        work(client, "setup/cases", what="judge")
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
        return work(local, "pull", experiment=experiment, uri=tracking)

    shows(pulled("shop"), "1 new", "1 trace lacks what the judge reads.")
    assert "question 1" in local.get("/judges/tone/review").text
    assert "Nothing new: the one was there already." in pulled("shop")
    assert "no experiment &#39;none&#39;" in pulled("none")


def test_owners_pull_from_the_servers_own_and_name_no_other(
    shared: world.Shared, owner: TestClient, tmp_path: Path
) -> None:
    assert 'name="uri"' not in owner.get(f"{SETUP}?open=cases").text
    for uri in ("http://evil.example", "file:///etc", ""):
        expect(post(owner, "/judges/tone/pull", experiment="shop", uri=uri), 422)
    assert shared.server.jobs.recent("tone") == []
    (tmp_path / "own").mkdir()
    with world.shared_server(tmp_path / "own", mlflow="http://127.0.0.1:9") as site:
        owner = site.signed_in("owner")
        assert 'name="uri"' not in owner.get(f"{SETUP}?open=cases").text
        page = work(owner, "pull", experiment="shop")
        assert "no MLflow answers at 127.0.0.1" in page


def test_without_mlflow_it_says_what_to_install(
    local: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "MLflow" not in local.get(f"{SETUP}?open=cases").text
    pulled = post(local, "/judges/tone/pull", experiment="shop", uri="http://localhost")
    assert "where MLflow is installed" in pulled.text
