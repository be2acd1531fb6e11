"""The benchmarks run as their docstrings say, go on where they stopped, and print their tables."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from checkout import ROOT, benchmark, rows_of, text_of, toml_of

from memalign.io import read_feedback
from memalign.values import ValueType
from tests.cli.conftest import jsonl
from tests.support.hub import Hub
from tests.support.rows import RawRow

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # the scripts import each other by name
loopback = import_module("loopback")
Body = dict[str, Any]


# -- fetch.py --------------------------------------------------------------------------


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


CLAIM = {
    "claim": "Claim 0.",
    "label": "Refuted",
    "justification": "A blog is no source.",
    "claim_date": None,
    "speaker": None,
    "questions": [{"question": "Who says so?", "answers": [{"answer": "A blog."}]}],
}
CLAIMS = json.dumps([CLAIM])
PAIR = """<list><annotatedArgumentPair><id>a_b</id>
<arg1><stance>yes</stance><text>One.</text></arg1><arg2><text>Two.</text></arg2>
<debateMetaData><title>Uniforms</title></debateMetaData>
<mTurkAssignments><mTurkAssignment><value>a1</value><reason>no</reason></mTurkAssignment>
<mTurkAssignment><value>a2</value><reason>A2 has facts, argument 1 none</reason>
</mTurkAssignment></mTurkAssignments>
<goldLabel>a2</goldLabel></annotatedArgumentPair></list>"""
ANSWER = """<question id="1.1"><questionText>What is TCP?</questionText>
<referenceAnswers><referenceAnswer>A protocol.</referenceAnswer></referenceAnswers>
<studentAnswers><studentAnswer id="7"><response>A cable.</response>
<response_feedback>It is no cable.</response_feedback>
<verification_feedback>Incorrect</verification_feedback>
</studentAnswer></studentAnswers></question>"""
SCORES = {
    "CLASSIFICATION_JOB": {"categories": [{"name": "2_NOT_JUSTIFIED_ENOUGH"}]},
    "CLASSIFICATION_JOB_0": {
        "categories": [{"children": {"T": {"text": "The sum is wrong."}}}]
    },
}
SHEPHERD = {
    "id": 3,
    "latestLabel": {"jsonResponse": SCORES},
    "metadata": {"context": "1 + 1?", "output_correct": "2", "output_candidate": "3"},
}
BENCH = {
    "financebench_id": "f1",
    "question": "Revenue?",
    "company": "A",
    "doc_name": "A_2020",
    "answer": "$5",
}
RESULT = {"financebench_id": "f1", "model_answer": 5, "label": "Correct Answer"}
SMALL = {
    "averitec": {"dev.json": CLAIMS},
    "ukp_convincing": {"u.xml": PAIR},
    "saf": {"1.xml": ANSWER},
    "shepherd": {"raw.jsonl": json.dumps(SHEPHERD)},
    "financebench": {
        "questions.jsonl": json.dumps(BENCH),
        "gpt.jsonl": json.dumps(RESULT),
    },
}
"""By set: files in its own form."""
FIRST: dict[str, tuple[object, str | None]] = {
    "averitec": ("Refuted", "A blog is no source."),
    "ukp_convincing": ("B", "argument B has facts, argument A none"),
    "saf": ("Incorrect", "It is no cable."),
    "shepherd_justified": (2, "The sum is wrong."),
    "financebench": ("correct", None),
}
"""By task: the value and the words of its first row."""


def fetched(
    hub: Hub, folder: Path, sets: Mapping[str, Mapping[str, str]], **digests: str
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Fetch sets from a hub by the true file of sources with other files in it; the
    tasks that there are then."""
    text = text_of("benchmarks/sources.toml")
    true = toml_of("benchmarks/sources.toml")
    made = ""
    for name, files in sets.items():
        _, _, below = text.partition(f"[{name}]\n")
        facts, _, _ = below.partition(f"[{name}.files]\n")
        made += f"[{name}]\n{facts}\n[{name}.files]\n"
        for path, part in files.items():
            content = part.encode()
            if content:
                address = urlsplit(true[name]["address"])
                hub.files[f"{address.path}/{path}"] = content
            digest = digests.get(name, hashlib.sha256(content).hexdigest())
            made += f'"{path}" = "{digest}"\n'
    sources = folder / "sources.toml"
    sources.write_text(made, "utf-8")
    arguments = ("--sources", sources, "--mirror", hub.address)
    ended = benchmark("fetch.py", folder, *arguments, check=False)
    return ended, json.loads((folder / "tasks.json").read_bytes())


def test_every_set_becomes_feedback_that_the_library_reads(
    hub: Hub, tmp_path: Path
) -> None:
    _, tasks = fetched(hub, tmp_path, SMALL)
    assert tasks.keys() == FIRST.keys()
    for name, task in tasks.items():
        file = tmp_path / f"{name}.jsonl"
        value_type = ValueType.of(task["values"])
        row = read_feedback(file, value_type=value_type).rows[0]
        assert (row.value, row.rationale) == FIRST[name]
        assert task["licence"]
        assert task["criterion"]
        assert task["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_what_cannot_be_had_is_named_and_the_rest_is_made(
    hub: Hub, tmp_path: Path
) -> None:
    files = {
        "averitec": {"dev.json": CLAIMS},
        "saf": {"1.xml": ANSWER},
        "shepherd": {"raw": '{"id": 1}'},
        "ukp_convincing": {"u.xml": PAIR},
        "financebench": {"questions.jsonl": ""},
    }
    hub.hang_up_after = [1_000_000, 100]  # the second file is cut
    ended, tasks = fetched(hub, tmp_path, files, ukp_convincing="0" * 64)
    assert ended.returncode == 1
    for reason in (
        "saf .*retrieval incomplete",
        "ukp_convincing .*is another file",
        "financebench .*404",
        "shepherd .*KeyError",
    ):
        assert re.search(f"^{reason}", ended.stderr, re.MULTILINE)
    assert tasks.keys() == {"averitec"}
    sources = ("--sources", tmp_path / "sources.toml")
    sets = ("averitec", "saf", "--mirror", "http://127.0.0.1:1")
    dead = benchmark("fetch.py", tmp_path, *sets, *sources, check=False)
    assert dead.returncode == 1
    # What is there already is not asked for again.
    assert dead.stdout.startswith("averitec: 1 rows")
    assert "saf is not made" in dead.stderr


def test_every_source_has_a_reader_a_licence_and_a_revision() -> None:
    sources = toml_of("benchmarks/sources.toml")
    assert sources.keys() == import_module("fetch").READERS.keys()
    for source in sources.values():
        assert source["licence"]
        assert source["labels"]
        assert re.search(r"/[0-9a-f]{40}$", source["address"]), "a branch may change"
        for digest in source["files"].values():
            assert re.fullmatch(r"[0-9a-f]{64}", digest)


# -- learns.py -------------------------------------------------------------------------

COLOURS = ("red", "blue", "green", "grey")


def data_of(folder: Path, cases: int) -> Path:
    """Two small tasks: replies that are good where they have a date, and pairs of which
    the longer one is better."""
    folder.mkdir()
    replies: list[RawRow] = []
    pairs: list[RawRow] = []
    for number in range(cases):
        good = number % 2 == 0
        colour = COLOURS[number // 2 % 4]
        day = "on 14 May" if good else "soon"
        said = "names the day, 14 May" if good else "says soon and names no day"
        facts = {"id": f"c{number}", "source": "ana", "group": f"g{number}"}
        reply = {
            "inputs": f"Where is lamp {number}?",
            "outputs": f"Your {colour} lamp leaves {day}, parcel {number}.",
            "value": good,
            "rationale": f"It {said}.",
        }
        replies.append(facts | reply)
        sides = {
            "A": f"Lamp {number}." + " Good light." * (1 + 3 * good),
            "B": f"Lamp {number}." + " Dim." * (4 - 3 * good),
        }
        better = "A" if good else "B"
        pairs.append(facts | {"inputs": colour, "outputs": sides, "value": better})
    jsonl(folder / "replies.jsonl", replies)
    jsonl(folder / "pairs.jsonl", pairs)
    tasks = {
        "replies": {"criterion": "Is it good?", "values": "bool"},
        "pairs": {"criterion": "Better?", "values": "A|B"},
    }
    (folder / "tasks.json").write_text(json.dumps(tasks), "utf-8")
    return folder


def chat(body: Body) -> Body:
    """A model that knows nothing until a guideline names the day, and then goes by it."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    prompt = "\n".join(map(loopback.text_of, body["messages"]))
    item = loopback.text_of(body["messages"][-1])
    if "changes" in properties:
        names = re.findall(r"^(F\d+) <<<", prompt, re.MULTILINE)
        rule = {
            "action": "ADD",
            "feedback": names,
            "text": "A good reply names the day.",
            "guideline": "",
        }
        return {"changes": [rule], "conflicts": []}
    options = properties["value"].get("enum", (True, False))
    value = options[zlib.crc32(item.encode()) % 2]
    if "names the day" in prompt and options == (True, False):
        value = "14 May" in item.rpartition("<<<")[2]
    return {"findings": [], "rationale": "As I see it.", "value": value}


def cells(table: str, task: str, method: str) -> list[str]:
    """One line of a task's table."""
    lines = table[table.index(f"| {task} |") :].split("\n\n", maxsplit=1)[0]
    (row,) = (row for row in rows_of(lines) if row[0] == method)
    return row


def test_what_needs_no_model_is_compared_on_the_same_cases(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data", cases=80)
    methods = ("--methods", "majority", "neighbours", "features", "words")
    table = benchmark("learns.py", data, "--runs", 2, *methods).stdout
    assert cells(table, "pairs", "features")[1:3] == ["80", "1.00 [0.92, 1.00]"]
    assert float(cells(table, "replies", "majority")[2][:4]) < 0.7
    assert re.match(
        r"\+\d+ \[\+\d+, \+\d+\]; \d+, 0$", cells(table, "pairs", "features")[3]
    )


def test_a_judge_learns_and_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data", cases=40)
    with loopback.Loopback(chat, latency=0.3) as server:
        model = f"openai:m@{server.base_url}"
        arguments = [data, "--model", model]
        command = [sys.executable, str(BENCHMARKS / "learns.py"), *map(str, arguments)]
        environment = {**os.environ, "OPENAI_API_KEY": "not-needed"}
        running = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        half = data / "judged" / "replies" / "0" / "memalign.jsonl"
        while not (half.exists() and half.read_bytes().count(b"\n") > 3):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        judged = half.read_bytes().count(b"\n")
        time.sleep(
            3 * server.latency
        )  # what was in flight is counted when it is answered
        before = server.take()["calls"]
        table = benchmark("learns.py", *arguments).stdout
        after = server.take()["calls"]
        assert benchmark("learns.py", *arguments).stdout == table
        assert server.take()["calls"] == 0
    # 20 cases of two tasks by two methods, and an align for each task, which is one call.
    asked = 4 * 20 + 2
    assert before + after <= asked + 16, "at most what was in flight is asked again"
    assert after <= asked - 20 - judged
    assert cells(table, "replies", "memalign")[2].startswith("1.00")
    assert float(cells(table, "replies", "zero-shot")[2][:4]) < 0.8


def test_a_dry_run_says_calls_and_dollars_and_asks_nothing(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data", cases=80)
    arguments = ("--model", "openai:gpt-4.1-mini", "--dry-run")
    table = benchmark("learns.py", data, *arguments).stdout
    counts = {row[0]: row for row in rows_of(table)}
    assert counts["zero-shot"][1] == "80"
    assert counts["memalign"][1] == "82"
    assert float(counts["memalign"][4]) > float(counts["zero-shot"][4]) > 0
    assert not (data / "judged").exists()


# -- scale.py ---------------------------------------------------------------------------


def test_scale_has_a_line_a_step_and_asks_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "scale.jsonl"
    arguments = ("scale.py", file, "--sizes", "10", "--latency", "0")
    table = benchmark(*arguments).stdout
    aligns = {row[2]: row for row in rows_of(table) if row[0] == "align"}
    for method in ("memalign", "memalign, decision model"):
        assert aligns[method][4] == "1", "an align of ten comments is one call"
        assert float(aligns[method][7]) > 0
    for step in ("a judgment", "one more", "one withdrawn", "one erased"):
        assert f"| {step} |" in table
    text = file.read_text("utf-8")
    assert benchmark(*arguments).stdout == table
    assert file.read_text("utf-8") == text


def test_a_simulated_model_learns_from_comments_and_follows_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that does everything right but judge without a rule, asked in DSPy's form."""
    simulated = import_module("simulated")
    able = simulated.Competence(zero=0.0, following=1.0, distilling=1.0, reading=1.0)
    monkeypatch.setitem(simulated.MODELS, "m", able)
    shown, *others = simulated.rows(400, seed=1)
    cases = [row for row in others if "about my battery" in row["inputs"]]

    def asked(user: str, field: str, system: str = "") -> Any:
        last = f"starting with the field `[[ ## {field} ## ]]`, then `[[ ## completed ## ]]`"
        content = f"{user}\n\nRespond with the corresponding output fields, {last}."
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": content},
        ]
        return simulated.chat({"model": "m", "messages": messages})

    def right(system: str) -> int:
        count = 0
        for row in cases:
            item = "[[ ## inputs ## ]]\n{inputs}\n\n[[ ## outputs ## ]]\n{outputs}"
            answer = asked(item.format(**row), "result", system)
            count += f"\n{row['value']}\n" in answer
        return count

    rule = "With any battery a colleague takes over."
    assert rule in asked(str(shown), "new_instruction")
    wordless = str(shown | {"rationale": ""})
    assert rule not in asked(wordless, "new_instruction")
    assert len(cases) > 9
    assert right("") == 0
    assert right(rule) == len(cases)
    assert right(f"Example: {shown['rationale']}") == len(cases)


# -- labels.py and coverage.py ---------------------------------------------------------


def test_the_table_of_labels_is_the_documents() -> None:
    page = text_of("docs/how-to/labels.md")
    assert benchmark("labels.py").stdout.strip() in page


def test_intervals_and_promises_hold_in_worlds_whose_truth_is_known() -> None:
    """A few worlds of the 10,000 of docs/results.md: enough to see an interval that is
    far too narrow."""
    table = benchmark("coverage.py", "--worlds", 400).stdout
    broken = []
    for row in rows_of(table):
        if row[0] == "all":
            assert percent(row[3]) >= 92
            assert percent(row[5]) < 40
        elif row[0].startswith(("confidence", "too sure")):
            broken.append(percent(row[4]))
    assert len(broken) == 6
    assert max(broken) <= 10
    assert "| all |" in table


def percent(cell: str) -> float:
    return float(cell.strip(" %"))
