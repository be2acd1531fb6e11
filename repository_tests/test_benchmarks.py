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
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from checkout import ROOT, benchmark

from memalign.io import read_feedback
from memalign.values import ValueType
from tests.support.hub import Hub

BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # the scripts import each other by name
loopback = import_module("loopback")
Body = dict[str, Any]


# -- fetch.py --------------------------------------------------------------------------


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def claims(*labels: str) -> str:
    """AVeriTeC's form."""
    question = {"question": "Who says so?", "answers": [{"answer": "A blog."}]}
    facts = {
        "justification": "A blog is no source.",
        "claim_date": None,
        "speaker": None,
        "questions": [question],
    }
    return json.dumps(
        [
            {"claim": f"Claim {number}.", "label": label, **facts}
            for number, label in enumerate(labels)
        ]
    )


PAIR = """<list><annotatedArgumentPair><id>a_b</id><arg1><stance>yes</stance><text>One.</text></arg1>
<arg2><text>Two.</text></arg2><debateMetaData><title>Uniforms</title></debateMetaData><mTurkAssignments>
<mTurkAssignment><value>a1</value><reason>no</reason></mTurkAssignment>
<mTurkAssignment><value>a2</value><reason>A2 has facts, argument 1 none</reason></mTurkAssignment></mTurkAssignments>
<goldLabel>a2</goldLabel></annotatedArgumentPair></list>"""
ANSWER = """<question id="1.1"><questionText>What is TCP?</questionText><referenceAnswers><referenceAnswer>A protocol.
</referenceAnswer></referenceAnswers><studentAnswers><studentAnswer id="7"><response>A cable.</response>
<response_feedback>It is no cable.</response_feedback><verification_feedback>Incorrect</verification_feedback>
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
SMALL: dict[str, tuple[dict[str, str], dict[str, tuple[object, str | None]]]] = {
    "averitec": (
        {"dev.json": claims("Refuted")},
        {"averitec": ("Refuted", "A blog is no source.")},
    ),
    "ukp_convincing": (
        {"u.xml": PAIR},
        {"ukp_convincing": ("B", "argument B has facts, argument A none")},
    ),
    "saf": ({"1.xml": ANSWER}, {"saf": ("Incorrect", "It is no cable.")}),
    "shepherd": (
        {"raw.jsonl": json.dumps(SHEPHERD)},
        {"shepherd_justified": (2, "The sum is wrong.")},
    ),
    "financebench": (
        {"questions.jsonl": json.dumps(BENCH), "gpt.jsonl": json.dumps(RESULT)},
        {"financebench": ("correct", None)},
    ),
}
"""By set: files in its own form, and of each task the first row's value and words."""


def fetched(
    hub: Hub, folder: Path, sets: Mapping[str, Mapping[str, str]], **digests: str
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Fetch sets from a hub by the true file of sources with other files in it; the
    tasks that there are then."""
    text = (BENCHMARKS / "sources.toml").read_text("utf-8")
    true = tomllib.loads(text)
    lines = list[str]()
    for name, files in sets.items():
        files_of = f"[{name}.files]\n"
        lines += [
            f"[{name}]",
            text.partition(f"[{name}]\n")[2].partition(files_of)[0],
            files_of,
        ]
        for path, part in files.items():
            content = part.encode()
            if content:
                hub.files[f"{urlsplit(true[name]['address']).path}/{path}"] = content
            lines.append(
                f'"{path}" = "{digests.get(name, hashlib.sha256(content).hexdigest())}"'
            )
    (folder / "sources.toml").write_text("\n".join(lines), "utf-8")
    arguments = ("--sources", folder / "sources.toml", "--mirror", hub.address)
    return benchmark("fetch.py", folder, *arguments, check=False), json.loads(
        (folder / "tasks.json").read_bytes()
    )


def test_every_set_becomes_feedback_that_the_library_reads(
    hub: Hub, tmp_path: Path
) -> None:
    _, tasks = fetched(
        hub, tmp_path, {name: files for name, (files, _) in SMALL.items()}
    )
    expected = {task: row for _, rows in SMALL.values() for task, row in rows.items()}
    assert tasks.keys() == expected.keys()
    for task, (value, words) in expected.items():
        content = (tmp_path / f"{task}.jsonl").read_bytes()
        row = read_feedback(
            tmp_path / f"{task}.jsonl", value_type=ValueType.of(tasks[task]["values"])
        ).rows[0]
        assert (row.value, row.rationale) == (value, words)
        assert tasks[task]["licence"]
        assert tasks[task]["criterion"]
        assert tasks[task]["sha256"] == hashlib.sha256(content).hexdigest()


def test_what_cannot_be_had_is_named_and_the_rest_is_made(
    hub: Hub, tmp_path: Path
) -> None:
    files = {
        "averitec": {"dev.json": claims("Refuted")},
        "saf": {"1.xml": ANSWER},
        "shepherd": {"raw": '{"id": 1}'},
    }
    files |= {
        "ukp_convincing": {"u.xml": PAIR},
        "financebench": {"questions.jsonl": ""},
    }
    hub.hang_up_after = [1_000_000, 100]  # the second file is cut
    ended, tasks = fetched(hub, tmp_path, files, ukp_convincing="0" * 64)
    assert ended.returncode == 1
    reasons = {line.partition(" ")[0]: line for line in ended.stderr.splitlines()}
    assert "retrieval incomplete" in reasons["saf"]
    assert "is another file" in reasons["ukp_convincing"]
    assert "404" in reasons["financebench"]
    assert "KeyError" in reasons["shepherd"]
    assert tasks.keys() == {"averitec"}
    elsewhere = (
        "--sources",
        tmp_path / "sources.toml",
        "--mirror",
        "http://127.0.0.1:1",
    )
    dead = benchmark("fetch.py", tmp_path, "averitec", "saf", *elsewhere, check=False)
    assert dead.returncode == 1
    assert dead.stdout.startswith("averitec: 1 rows"), (
        "what is there already is not asked for again"
    )
    assert "saf is not made" in dead.stderr


def test_every_source_has_a_reader_a_licence_and_a_revision() -> None:
    sources = tomllib.loads((BENCHMARKS / "sources.toml").read_text("utf-8"))
    assert sources.keys() == import_module("fetch").READERS.keys()
    for source in sources.values():
        assert source["licence"]
        assert source["labels"]
        assert re.search(r"/[0-9a-f]{40}$", source["address"]), "a branch may change"
        assert all(
            re.fullmatch(r"[0-9a-f]{64}", digest) for digest in source["files"].values()
        )


# -- learns.py -------------------------------------------------------------------------

COLOURS = ("red", "blue", "green", "grey")


def data_of(folder: Path, cases: int = 60) -> Path:
    """Two small tasks: replies that are good where they have a date, and pairs of which
    the longer one is better."""
    folder.mkdir()
    replies = []
    pairs = []
    for number in range(cases):
        good = number % 2 == 0
        colour = COLOURS[number // 2 % 4]
        text = f"Your {colour} lamp leaves {'on 14 May' if good else 'soon'}, parcel {number}."
        words = (
            "It names the day, 14 May." if good else "It says soon and names no day."
        )
        facts = {"id": f"c{number}", "source": "ana", "group": f"g{number}"}
        replies.append(
            {
                **facts,
                "inputs": f"Where is lamp {number}?",
                "outputs": text,
                "value": good,
                "rationale": words,
            }
        )
        sides = {
            "A": f"Lamp {number}." + " Good light." * (1 + 3 * good),
            "B": f"Lamp {number}." + " Dim." * (4 - 3 * good),
        }
        pairs.append(
            {
                **facts,
                "inputs": colour,
                "outputs": sides,
                "value": "A" if good else "B",
                "rationale": None,
            }
        )
    for name, rows in (("replies", replies), ("pairs", pairs)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), "utf-8"
        )
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
            "text": "A good reply names the day.",
            "guideline": "",
            "value": "true",
        }
        keys = properties["changes"]["items"]["properties"]
        return {
            "changes": [
                {key: (rule | {"feedback": names}).get(key, []) for key in keys}
            ],
            "conflicts": [],
        }
    options = properties["value"].get("enum", (True, False))
    value = options[zlib.crc32(item.encode()) % 2]
    if "names the day" in prompt and options == (True, False):
        value = "14 May" in item.rpartition("<<<")[2]
    answer = {"findings": [], "rationale": "As I see it.", "value": value}
    return {key: answer[key] for key in properties if key in answer}


def cells(table: str, task: str, method: str) -> list[str]:
    """One line of a task's table."""
    lines = table[table.index(f"| {task} |") :].split("\n\n", maxsplit=1)[0]
    return [cell for row in rows_of(lines) if row[0] == method for cell in row]


def test_what_needs_no_model_is_compared_on_the_same_cases(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data")
    out = tmp_path / "out"
    methods = ("--methods", "majority", "neighbours", "features", "words", "mined")
    table = benchmark(
        "learns.py", data, "--out", out, "--taught", 20, "--runs", 2, *methods
    ).stdout
    assert cells(table, "replies", "mined")[1:3] == ["80", "1.00 [0.91, 1.00]"]
    assert cells(table, "pairs", "features")[1:3] == ["80", "1.00 [0.90, 1.00]"]
    assert float(cells(table, "replies", "majority")[2][:4]) < 0.7
    assert re.match(
        r"\+\d+ \[\+\d+, \+\d+\]; \d+, 0$", cells(table, "replies", "mined")[3]
    )


def test_a_judge_learns_and_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data", cases=40)
    out = tmp_path / "out"
    with loopback.Loopback(chat, latency=0.3) as server:
        model = f"openai:m@{server.base_url}"
        arguments = [data, "--out", out, "--taught", "20", "--model", model]
        command = [sys.executable, str(BENCHMARKS / "learns.py"), *map(str, arguments)]
        environment = {**os.environ, "OPENAI_API_KEY": "not-needed"}
        running = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        half = out / "replies" / "0" / "memalign.jsonl"
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
    assert cells(table, "replies", "mined")[1] == "20"


def test_a_dry_run_says_calls_and_dollars_and_asks_nothing(tmp_path: Path) -> None:
    data = data_of(tmp_path / "data")
    table = benchmark(
        "learns.py", data, "--taught", 20, "--model", "openai:gpt-4.1-mini", "--dry-run"
    ).stdout
    counts = {row[0]: row[1:] for row in rows_of(table)}
    assert counts["zero-shot"][0] == "80"
    assert counts["memalign"][0] == "82"
    assert float(counts["memalign"][3]) > float(counts["zero-shot"][3]) > 0
    assert not (data / "judged").exists()


# -- house_rules.py --------------------------------------------------------------------


def test_house_rules_prints_what_is_there_beside_what_needs_no_model(
    tmp_path: Path,
) -> None:
    policies = ("--policies", "reference_format", "answer_first")
    table = benchmark("house_rules.py", tmp_path, "--table", *policies).stdout
    assert "| reference_format | plain | 60 | - | 1.00" in table
    assert "| answer_first | order | 60 | - | - |" in table


# -- scale.py ---------------------------------------------------------------------------


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]


def test_scale_has_a_line_a_step_and_asks_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "scale.jsonl"
    figure = tmp_path / "scale.svg"
    table = benchmark(
        "scale.py", file, "--sizes", "10", "--latency", "0", "--figure", figure
    ).stdout
    aligns = {row[2]: row for row in rows_of(table) if row[0] == "align"}
    assert aligns["memalign"][4] == "1", "an align of ten comments is one call"
    assert aligns["memalign, decision model"][4] == "1", "with a decision model, too"
    assert {row[0] for row in rows_of(table)} >= {
        "a judgment",
        "one more",
        "one withdrawn",
        "one erased",
    }
    text = file.read_text("utf-8")
    assert all(float(row[7]) > 0 for row in aligns.values())
    assert (
        benchmark("scale.py", file, "--sizes", "10", "--latency", "0").stdout == table
    )
    assert file.read_text("utf-8") == text
    marks = ElementTree.parse(figure).getroot().findall(".//{*}use")
    assert len(marks) > 6


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
        items = [
            f"[[ ## inputs ## ]]\n{row['inputs']}\n\n[[ ## outputs ## ]]\n{row['outputs']}"
            for row in cases
        ]
        answers = [asked(item, "result", system) for item in items]
        return sum(
            f"\n{row['value']}\n" in answer
            for row, answer in zip(cases, answers, strict=True)
        )

    rule = "With any battery a colleague takes over."
    assert rule in asked(str(shown), "proposed_instruction")
    wordless = str(shown | {"rationale": ""})
    assert rule not in asked(wordless, "proposed_instruction")
    assert [
        right(""),
        right(rule),
        right(f"Example: {shown['rationale']}"),
    ] == [0, len(cases), len(cases)]
    assert len(cases) > 9


# -- labels.py and coverage.py ---------------------------------------------------------


def test_the_table_of_labels_is_the_documents() -> None:
    page = (ROOT / "docs" / "how-to" / "labels.md").read_text("utf-8")
    assert benchmark("labels.py").stdout.strip() in page


def test_intervals_and_promises_hold_in_worlds_whose_truth_is_known() -> None:
    """A few worlds of the 10,000 of docs/results.md: enough to see an interval that is
    far too narrow."""
    lines = benchmark("coverage.py", "--worlds", 400).stdout.splitlines()
    every = next(line for line in lines if line.startswith("| all |"))
    held, own = (
        float(cell.strip(" %")) for cell in (every.split("|")[4], every.split("|")[6])
    )
    assert held >= 92
    assert own < 40
    broken = [
        line.split("|")[5]
        for line in lines
        if line.startswith(("| confidence", "| too sure"))
    ]
    assert len(broken) == 6
    assert all(float(cell.strip(" %")) <= 10 for cell in broken)
    assert any(" the same of n of n labelled cases" in line for line in lines)
