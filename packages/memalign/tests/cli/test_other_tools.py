"""Feedback out of other tools and verdicts into them, as a person types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, jsonl
from tests.support.spans import Step, otlp
from tests.support.tool_server import Fault, ToolServer

SPANS = [
    ("a1", "My order is late.", "It is in transit."),
    ("a2", "Thanks!", "Any time, enjoy your day!"),
]


def span(name: str, question: str, reply: str) -> dict[str, Any]:
    return {
        "name": "support",
        "context": {"trace_id": f"trace-{name}", "span_id": name},
        "parent_id": None,
        "start_time": "2026-10-01T12:00:00+00:00",
        "status_code": "OK",
        "attributes": {"input.value": question, "output.value": reply},
        "events": [],
    }


def annotation(name: str, label: str, words: str, *, kind: str = "HUMAN", of: str = "tone") -> dict[str, Any]:
    result = {"label": label, "score": None, "explanation": words}
    about = {"span_id": name, "name": of, "annotator_kind": kind, "identifier": "ana@example.org", "user_id": None}
    return about | {"source": "API", "result": result, "updated_at": "2026-10-02T09:00:00+00:00"}


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ToolServer]:
    """A Phoenix with the project `shop`, and a working directory."""
    monkeypatch.chdir(tmp_path)
    said = [
        annotation("a1", "bad", "Correct but cold."),
        annotation("a2", "good", "Warm."),
        annotation("a1", "good", "Polite.", kind="LLM"),
    ]
    answers: dict[str, Any] = {
        "GET /v1/projects/shop/spans": {"data": [span(*each) for each in SPANS], "next_cursor": None},
        "GET /v1/projects/shop/span_annotations": {"data": said, "next_cursor": None},
        "GET /v1/projects/shop/trace_annotations": {"data": [], "next_cursor": None},
        "POST /v1/span_annotations": {"data": []},
    }
    with ToolServer(answers) as server:
        monkeypatch.setenv("PHOENIX_ENDPOINT", server.url)
        yield server


RENAMED = ("--value", "good=true", "--value", "bad=false")


def test_what_people_said_becomes_a_file_for_align(shop: ToolServer, memalign: Run, tone: str) -> None:
    ran = memalign("import-feedback", "phoenix", "shop", "-o", "feedback.jsonl", *RENAMED)
    assert ran.code == 0, ran.err
    assert "2 pieces of feedback by 1 source (ana@example.org 2), from 2 cases → feedback.jsonl" in ran.out
    assert "left out, given by programs: tone 1" in ran.out
    row = json.loads(Path("feedback.jsonl").read_text("utf-8").splitlines()[0])
    assert row["meta"] == {
        "tool": "phoenix",
        "trace_id": "trace-a1",
        "span": "support",
        "began": "2026-10-01T12:00:00+00:00",
    }
    learned = memalign("align", tone, "feedback.jsonl")
    assert learned.code == 0, learned.err


def test_a_judge_learns_and_its_verdicts_go_back(shop: ToolServer, memalign: Run, tone: str) -> None:
    learned = memalign("import-feedback", "phoenix", "shop", "--into", tone, *RENAMED, "--json")
    assert learned.code == 0, learned.err
    assert learned.json["version"] == 2
    assert memalign("import-feedback", "phoenix", "shop", "--examples", "cases.jsonl").code == 0
    assert memalign("judge", tone, "cases.jsonl", "-o", "judged.jsonl").code == 0
    ran = memalign("export-verdicts", "phoenix", tone, "judged.jsonl", "shop")
    assert ran.code == 0, ran.err
    assert "2 verdicts of version 2 of tone written to phoenix" in ran.out
    (asked,) = shop.of("/v1/span_annotations")
    assert {each["span_id"]: each["metadata"]["judge_version"] for each in asked.body["data"]} == {"a1": 2, "a2": 2}


def test_what_was_erased_stays_erased(shop: ToolServer, memalign: Run, tone: str) -> None:
    learn = ("import-feedback", "phoenix", "shop", "--into", tone, *RENAMED)
    assert memalign(*learn).code == 0
    assert memalign("erase", tone, "a1", "--yes").code == 0
    refused = memalign(*learn)
    assert refused.code == 2
    assert "(a1@ana@example.org): this feedback was erased" in refused.err

    def known() -> set[str]:
        keys = {entry["key"] for entry in memalign("ledger", tone, "--json").json["entries"]}
        return {key for key in keys if not key.startswith("erased:")}

    assert "this feedback was erased" in memalign(*learn, "--skip-invalid").out
    assert known() == {"a2@ana@example.org"}
    assert memalign(*learn, "--allow-erased").code == 0
    assert known() == {"a1@ana@example.org", "a2@ana@example.org"}


def test_a_judge_of_traces_gets_the_spans(shop: ToolServer, memalign: Run, tone: str) -> None:
    asked_for = ("--instructions", "Was it safe? {{ trace }}", "--value-type", "bool", "--model", "openai:test")
    assert memalign("create", "safe", *asked_for).code == 0
    learned = memalign("import-feedback", "phoenix", "shop", "--into", "safe", *RENAMED)
    assert learned.code == 0, learned.err
    assert [each.query.get("trace_id") for each in shop.of("/v1/projects/shop/spans")] == [None, "trace-a1", "trace-a2"]


def test_a_label_outside_the_judge_s_is_named(shop: ToolServer, memalign: Run, tone: str) -> None:
    ran = memalign("import-feedback", "phoenix", "shop", "--into", tone)
    assert ran.code == 2
    assert "phoenix: 2 invalid rows, nothing was done" in ran.err
    assert "(a1)" in ran.err
    assert "'bad'" in ran.err
    assert "--value LABEL=VALUE renames a label" in ran.err


def test_bad_rows_are_named_and_may_be_skipped(shop: ToolServer, memalign: Run) -> None:
    spans = shop.answers["GET /v1/projects/shop/spans"]["data"]
    spans[1]["attributes"] = {}
    ran = memalign("import-feedback", "phoenix", "shop", "-o", "feedback.jsonl", "--examples", "cases.jsonl")
    assert ran.code == 2
    assert "line 2 (a2)" in ran.err
    assert not Path("feedback.jsonl").exists()
    assert not Path("cases.jsonl").exists()
    ran = memalign("import-feedback", "phoenix", "shop", "-o", "feedback.jsonl", "--skip-invalid")
    assert (ran.code, len(Path("feedback.jsonl").read_text("utf-8").splitlines())) == (1, 1)
    assert "left out: line 2 (a2)" in ran.out
    ran = memalign("import-feedback", "phoenix", "shop", "--examples", "cases.jsonl", "--skip-invalid", "--json")
    assert (ran.code, [line.partition(":")[0] for line in ran.json["invalid"]]) == (1, ["line 2 (a2)"])


def test_nothing_said_by_people_writes_no_file(shop: ToolServer, memalign: Run) -> None:
    shop.answers["GET /v1/projects/shop/span_annotations"]["data"] = [annotation("a1", "good", "Polite.", kind="CODE")]
    ran = memalign("import-feedback", "phoenix", "shop", "-o", "feedback.jsonl")
    assert ran.code == 1
    assert "0 pieces of feedback" in ran.out
    assert "given by programs: tone 1" in ran.out
    assert not Path("feedback.jsonl").exists()


def test_spans_of_a_file_become_cases(shop: ToolServer, memalign: Run) -> None:
    document = otlp([Step(parent=None, name="support", inputs="Thanks!", outputs="Any time!")])
    Path("spans.json").write_text(json.dumps(document), "utf-8")
    ran = memalign("import-feedback", "otlp", "spans.json", "--examples", "cases.jsonl", "--trace")
    assert ran.code == 0, ran.err
    assert ran.out == "1 case → cases.jsonl\n"
    case = json.loads(Path("cases.jsonl").read_text("utf-8"))
    assert (case["inputs"], case["outputs"], len(case["trace"])) == ("Thanks!", "Any time!", 1)


def test_a_cut_file_writes_no_cases(shop: ToolServer, memalign: Run) -> None:
    document = json.dumps(otlp([Step(parent=None, name="support", inputs="Thanks!", outputs="Any time!")]))
    Path("spans.jsonl").write_text(f"{document}\n{document[:-30]}", "utf-8")
    ran = memalign("import-feedback", "otlp", "spans.jsonl", "--examples", "cases.jsonl")
    assert ran.code == 2
    assert "line 2: broken JSON" in ran.err
    assert not Path("cases.jsonl").exists()
    ran = memalign("import-feedback", "otlp", "spans.jsonl", "--examples", "cases.jsonl", "--skip-invalid")
    assert ran.code == 1
    assert len(Path("cases.jsonl").read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("helicone", "-o", "f.jsonl"), "no tool 'helicone'; tools: argilla"),
        (("phoenix", "shop"), "what should become of it? -o FILE.jsonl"),
        (("phoenix", "shop", "-o", "f.jsonl", "--value", "good"), "--value good: write it as LABEL=VALUE"),
        (("phoenix", "shop", "-o", "f.jsonl", "--since", "yesterday"), "--since yesterday: no ISO 8601 time"),
        (("phoenix", "shop", "-o", "missing/f.jsonl"), "missing/f.jsonl cannot be written"),
        (("phoenix", "shop", "-o", "f.jsonl", "--score", "stars"), "no person gave an annotation 'stars'"),
        (("phoenix", "nowhere", "-o", "f.jsonl"), "Phoenix does not know /v1/projects/nowhere/spans (404)"),
        (("langsmith", "shop", "-o", "f.jsonl"), "LANGSMITH_API_KEY is not set"),
        (("label-studio", "none.json", "-o", "f.jsonl"), "none.json: no such file"),
        (("argilla", "empty.json", "-o", "f.jsonl"), "empty.json is empty"),
    ],
)
def test_wrong_use_says_what_to_do(
    shop: ToolServer, memalign: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.delenv("LANGSMITH_API_KEY", raising=False)
    Path("empty.json").write_text("", "utf-8")
    ran = memalign("import-feedback", *arguments)
    assert ran.code == 2
    assert said in ran.err


WRONG_EXPORTS = [
    ("phoenix tone missing.jsonl", "missing.jsonl: no such file"),
    ("phoenix tone judged.jsonl --score tone", "--score names a control of Label Studio"),
    ("langfuse tone judged.jsonl shop", "keys name the project: leave FROM out"),
    ("argilla tone judged.jsonl records.json", "dataset.records.log in Python"),
    ("label-studio tone judged.jsonl export.json", "verdicts go to a project: give its number"),
    ("otlp tone judged.jsonl", "Set OTEL_EXPORTER_OTLP_ENDPOINT"),
]


def test_wrong_use_of_export_says_what_to_do(
    shop: ToolServer, memalign: Run, tone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert memalign("import-feedback", "phoenix", "shop", "--examples", "cases.jsonl").code == 0
    assert memalign("judge", tone, "cases.jsonl", "-o", "judged.jsonl").code == 0
    for line, said in WRONG_EXPORTS:
        ran = memalign("export-verdicts", *line.split())
        assert ran.code == 2, line
        assert said in ran.err


def test_verdicts_of_another_judge_are_refused(shop: ToolServer, memalign: Run, tone: str) -> None:
    line = {"id": "a1", "judge": "other@0000-000000", "value": True, "content_hash": ""}
    ran = memalign("export-verdicts", "phoenix", tone, jsonl(Path("judged.jsonl"), [line]), "shop")
    assert ran.code == 2
    assert "which is not any version of 'tone'" in ran.err
    assert not shop.asked


def test_a_tool_s_refusal_is_its_own_words(shop: ToolServer, memalign: Run, tone: str) -> None:
    assert memalign("import-feedback", "phoenix", "shop", "--examples", "cases.jsonl").code == 0
    assert memalign("judge", tone, "cases.jsonl", "-o", "judged.jsonl").code == 0
    shop.answers["POST /v1/span_annotations"] = Fault(status=404, body=b'{"detail": "Spans with IDs a1 do not exist."}')
    ran = memalign("export-verdicts", "phoenix", tone, "judged.jsonl", "shop")
    assert ran.code == 2
    assert "Spans with IDs a1 do not exist." in ran.err
