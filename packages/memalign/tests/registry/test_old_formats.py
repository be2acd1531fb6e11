"""A registry and bundles of memalign 0.1: opened, rewritten once, and the same to every command."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memalign import Judge, Registry
from memalign.cli.app import app
from memalign.errors import InputError, InvalidRows, RegistryError, UnknownKey
from memalign.memory import Annotation
from memalign.models.base import Limits
from memalign.registry import load_bundle
from memalign.registry.judge_rows import settings_of
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import Example, Feedback, FeedbackKey, as_json
from tests.support.endpoint import Endpoint
from tests.support.old_registry import FOLDER, answer, recorded, reply
from tests.support.patience import PATIENCE
from tests.support.registry import intact

RECORDED = recorded()
NAMES = {"head": "latest", "voices": "annotations", "probe": "pre_alignment"}
NAMES |= {"stale_probes": "stale_pre_alignment"}
NAMES |= {"shown_by": "superseded_by", "outvoted_by": "overridden_by"}
WORDS = {
    "shown_by": "superseded_by",
    "outvoted_by": "overridden_by",
    "this voice gave": "this annotation gave",
    "not probed": "not asked before learning",
    "feedback and judgment files": "feedback and judgment files, and sheets for review",
}
"""The words of memalign 0.1 that its answers have, and those of today."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(FOLDER / "registry-v1.db", tmp_path / "old.db"))


@pytest.fixture
def command(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a command in a copy of the folder in which the old answers were given: its exit code, stdout and stderr."""
    for folder in ("feedback", "examples", "judged"):
        shutil.copytree(FOLDER / folder, tmp_path / folder)
    for bundle in FOLDER.glob("*.bundle.json"):
        shutil.copy(bundle, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    # What follows is about memories and judges; that other prompts are noticed is tested below.
    for module in ("judge.batch", "registry.bundle"):
        monkeypatch.setattr(f"memalign.{module}.prompts_hash", lambda: RECORDED["prompts_hash"])

    def run(*words: str) -> tuple[int, Any, str]:
        result = CliRunner().invoke(app, [*words, "--registry", f"sqlite:///{path}", "--json"], prog_name="memalign")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, json.loads(result.stdout) if result.stdout else None, result.stderr

    with Endpoint(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "unused")
        yield run


def models() -> tuple[ScriptedChatModel, HashEmbedding]:
    limits = Limits(context_tokens=1600, shard_size=2)
    return ScriptedChatModel(reply, name="scripted", limits=limits), HashEmbedding(dim=16)


def opened(path: Path) -> Registry:
    return Registry(f"sqlite:///{path}", models=models())


def today(old: Any) -> Any:
    """An old answer in the words of today."""
    if isinstance(old, dict) and (old.get("status_by") or "").startswith("admission"):
        case_id = old["status_by"].removeprefix("admission for ")
        old = old | {"status_by": None, "left_out": "admission" if case_id == "admission" else "lock"}
        old |= {"left_out_for": case_id} if old["left_out"] == "lock" else {}
    if isinstance(old, dict) and "status_by" in old.get("fields", ()) and "admission for" in str(old):
        old = old | {"fields": [each for each in old["fields"] if each != "status_by"] + ["left_out", "left_out_for"]}
    if isinstance(old, dict):
        return {NAMES.get(name, today(name)): today(part) for name, part in old.items()}
    if isinstance(old, list):
        return [today(part) for part in old]
    if isinstance(old, str):
        for word, other in WORDS.items():
            old = old.replace(word, other)
        old = re.sub(r"\bmail@x@(\w+)", r'"mail@x"@\1', old)  # the one id with an @
    return old


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Where an answer is not the old one; fields may have been added, and places that an erasure cannot reach."""
    if where.endswith(".unreachable"):
        return [f"{where}: {each!r} is missing" for each in old if each not in new]
    if isinstance(old, dict) and isinstance(new, dict):
        missing = [f"{where}.{name} is missing" for name in old.keys() - new.keys()]
        parts = [(old[name], new[name], f"{where}.{name}") for name in old if name in new]
    elif isinstance(old, list) and isinstance(new, list | tuple) and len(old) == len(new):
        missing = []
        parts = [(one, other, f"{where}[{n}]") for n, (one, other) in enumerate(zip(old, new, strict=True))]
    else:
        return [] if old == new else [f"{where}: {old!r} is now {new!r}"]
    return [*missing, *(each for one, other, name in parts for each in differences(one, other, name))]


STALE = "tone"
"""A judge whose model was changed: verdicts of the first model rank its cases no more (decision 18), and where feedback
waits they are asked for again. So its prompts show other cases, and its memory has another hash after it learned."""


def apart_from_stale_verdicts(command: list[str], found: list[str]) -> list[str]:
    if command[1] != STALE:
        return found
    hashes = re.compile(r": \.after\.(memory_hash|versions\[\d+\]\[2\]): ")
    prompts = re.compile(r": \.stdout\.(same_prompt|prompt\.user): ")
    expected = {"align": hashes, "unalign": hashes, "erase": hashes, "explain": prompts}.get(command[0])
    return [each for each in found if expected is None or not expected.search(each)]


READ = [each for each in RECORDED["answers"] if each["command"][0] != "list"]
JUDGES = sorted(RECORDED["facts"])


def named_apart(command: Any, words: list[str]) -> tuple[int, Any, str]:
    """The answer to a command that named two things by `mail@x`, now that each has a written form of its own."""
    at, both = words.index("mail@x"), ('"mail"@x', '"mail@x"')
    if words[0] != "ledger":
        return tuple(command(*words[:at], *both, *words[at + 1 :]))
    one, other = (command(*words[:at], each, *words[at + 1 :]) for each in both)
    return one[0], one[1] | {"feedback": one[1]["feedback"] + other[1]["feedback"]}, one[2]


@pytest.mark.parametrize("judge", JUDGES)
def test_every_command_that_reads_answers_as_before(command: Any, judge: str) -> None:
    code, found, _ = command("list")
    assert code == 0
    assert differences(today(RECORDED["answers"][0]["stdout"]), found) == []
    wrong = []
    for old in (each for each in READ if each["command"][1] == judge):
        if "mail@x" in old["command"]:  # a case, and the feedback of x on the case mail: it has to be said which
            code, _, problem = command(*old["command"])
            assert (code, problem) == (
                2,
                'error: \'mail@x\' may be "mail@x" or "mail"@x; write it so, with the quotes\n',
            )
            code, found, problem = named_apart(command, old["command"])
        else:
            code, found, problem = command(*old["command"])
        expected = {"exit": old["exit"], "stdout": today(old.get("stdout")), "stderr": today(old.get("stderr", ""))}
        got = {"exit": code, "stdout": found, "stderr": problem if old["exit"] == 2 else ""}
        told = [f"{' '.join(old['command'])}: {each}" for each in differences(expected, got)]
        wrong += apart_from_stale_verdicts(old["command"], told)
    assert wrong == []


@pytest.mark.parametrize("judge", JUDGES)
def test_every_old_version_gives_the_same_prompts(path: Path, judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    registry = opened(path)
    for number, old in RECORDED["facts"][judge].items():
        facts = facts_of(registry.load(judge, int(number)), old["prompts"])
        known = today(old) | {"prompts": old["prompts"], "corrective": sorted(today(old["corrective"]))}
        assert differences({name: part for name, part in known.items() if name in facts}, facts, number) == []
    last = registry.load(judge).memory
    memory = as_json(
        msgspec.structs.replace(last, cases=tuple(msgspec.structs.replace(case, vector=None) for case in last.cases))
    )
    for each, case in zip(memory["cases"], last.cases, strict=True):
        each["vector"] = hashlib.sha256(case.vector).hexdigest() if case.vector else None
    assert differences(today(RECORDED["memory"][judge]), memory) == []


def facts_of(judge: Judge, prompts: dict[str, Any]) -> dict[str, Any]:
    memory = judge.memory
    return {
        "settings": settings_of(judge),
        "memory_hash": memory.hash,
        "fingerprint": judge.fingerprint,
        "base_fingerprint": judge.base_fingerprint,
        "semantic": [guideline.id for guideline in memory.semantic],
        "demoted": [guideline.id for guideline in memory.demoted],
        "labels": {case.id: memory.label(case) for case in memory.cases},
        "tombstones": [str(stone.key) for stone in memory.tombstones],
        "corrective": sorted(map(str, memory.corrective)),
        "sources_of": {guideline.id: list(map(str, memory.sources_of(guideline))) for guideline in memory.guidelines},
        "prompts": {each: prompt_of(with_current_verdicts(judge), each) for each in prompts},
    }


def with_current_verdicts(judge: Judge) -> Judge:
    """The judge with the verdicts of its former models as its own: memalign 0.1 ranked cases by these as well."""
    cases = tuple(
        msgspec.structs.replace(
            case, pre_alignment=msgspec.structs.replace(case.pre_alignment, judge=judge.base_fingerprint)
        )
        if case.pre_alignment
        else case
        for case in judge.memory.cases
    )
    return judge.replace(memory=msgspec.structs.replace(judge.memory, cases=cases))


def prompt_of(judge: Judge, example_id: str) -> dict[str, Any]:
    lines = (FOLDER / "examples" / f"{judge.name}.jsonl").read_text("utf-8").splitlines()
    example = next(each for each in map(json.loads, lines) if each["id"] == example_id)
    prepared = asyncio.run(judge.prepare(Example(**example), None if judge.model else models()[0]))
    return {
        "system": prepared.request.system,
        "user": prepared.request.user,
        "guideline_ids": list(prepared.guideline_ids),
        "example_ids": list(prepared.example_ids),
    }


def test_every_command_that_writes_goes_on_as_before(command: Any, path: Path) -> None:
    """What it answers, and the latest version then: hash, keys and states, guidelines, what history says."""
    wrong = []
    for old in RECORDED["continuations"]:
        shutil.copy(FOLDER / "registry-v1.db", path)
        careful = ["--careful"] if old["command"][0] in ("align", "overwrite") else []  # as every align was
        code, found, problem = command(*old["command"], *careful)
        expected = {"exit": old["exit"], "stdout": today(old.get("stdout")), "stderr": today(old.get("stderr", ""))}
        got = {
            "exit": code,
            "stdout": found if "stdout" in old else None,
            "stderr": problem if old["exit"] == 2 else "",
        }
        if "after" in old:
            name = (
                "copy" if "copy" in old["command"] else "tone" if old["command"][0] == "import" else old["command"][1]
            )
            expected["after"], got["after"] = today(old["after"]), after(opened(path), name)
            got["after"]["versions"] = got["after"]["versions"][-len(old["after"]["versions"]) :]
        told = [f"{' '.join(old['command'])}: {each}" for each in differences(expected, got)]
        wrong += apart_from_stale_verdicts(old["command"], told)
    assert wrong == []


def after(registry: Registry, name: str) -> dict[str, Any]:
    history = registry.history(name)
    memory = registry.load(name).memory
    return {
        "memory_hash": memory.hash,
        "keys": {str(annotation.key): annotation.state for annotation in memory.annotations()},
        "latest": len(history),
        "versions": [(each.number, each.redacted, each.memory_hash) for each in history],
        **{field: getattr(history[-1], field) for field in ("summary", "action", "note")},
    }


# -- the rewriting itself ----------------------------------------------------------------------------------------------


def version_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    (found,) = connection.execute("SELECT value FROM memalign_meta WHERE name = 'schema_version'").fetchone()
    connection.close()
    return str(found)


def test_it_is_rewritten_once_and_nothing_else_changes(path: Path) -> None:
    before = opened(path).list()
    assert version_of(path) == "2"
    assert intact(path)
    rewritten = path.read_bytes()
    assert opened(path).list() == before
    assert path.read_bytes() == rewritten


def test_saving_what_was_loaded_adds_no_version(path: Path) -> None:
    """So the rewritten rows are what today's code writes."""
    registry = opened(path)
    for each in registry.list():
        assert registry.save(registry.load(each.name)) == each.latest


KILLED = """
import os, shutil, signal, sys
from sqlalchemy import Engine, event
import sqlalchemy.dialects.sqlite
from memalign import Registry
def killed(path, moment):
    count = 0
    def tick(*_):
        nonlocal count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(Engine, name, tick)
    Registry(f"sqlite:///{path}")
for moment in range(1, 200):
    copy = f"{sys.argv[2]}/{moment}.db"
    shutil.copy(sys.argv[1], copy)
    if child := os.fork():
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            break
    else:
        killed(copy, moment)
        os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_a_killed_rewrite_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    subprocess.run([sys.executable, "-c", KILLED, str(path), str(copies)], check=True)
    *killed, whole = sorted(copies.glob("*.db"), key=lambda copy: int(copy.stem))
    assert len(killed) > 15
    assert version_of(whole) == "2"
    for copy in killed:
        assert version_of(copy) == "1"  # a journal that was left is rolled back
        assert intact(copy)
    for copy in killed[::10]:
        assert opened(copy).load("tone").memory.hash == RECORDED["facts"]["tone"]["26"]["memory_hash"]


def test_one_of_two_opening_processes_rewrites_the_file(path: Path) -> None:
    script = "import sys; from memalign import Registry; print([j.latest for j in Registry(sys.argv[1]).list()])"
    running = [
        subprocess.Popen([sys.executable, "-c", script, f"sqlite:///{path}"], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=PATIENCE)[0].strip() for process in running] == ["[1, 6, 6, 5, 26]"] * 3
    assert version_of(path) == "2"


def test_a_file_that_cannot_be_rewritten_says_why(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(
        RegistryError, match=r"format of an older memalign .* copy it .* read-only; nothing was changed"
    ):
        Registry(f"sqlite:///file:{path}?mode=ro&uri=true")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(RegistryError, match=r"format of an older memalign .* is locked"):
        Registry(f"sqlite:///{path}", busy_timeout=0.05)
    holder.execute("ROLLBACK")
    holder.close()
    assert path.read_bytes() == before


def test_a_renamed_parameter_keeps_the_fingerprint() -> None:
    """Or every verdict that was kept from before learning would be asked for again."""
    settings: dict[str, Any] = {"name": "n", "instructions": "{{ trace }}", "feedback_value_type": bool}
    for name in ("looks", "trace_tool_calls"):
        judge = Judge(**settings, model="openai:m", parameters={name: 5, "seed": 1})
        assert judge.fingerprint == judge.base_fingerprint == "e6878a6fc6414d5a"  # what memalign 0.1 gave for looks


# -- bundles and judgment files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bundle", "judge", "version"), [("pick", "pick", "6"), ("tone-v16", "tone", "16")])
def test_an_old_bundle_gives_the_exported_judge(path: Path, bundle: str, judge: str, version: str) -> None:
    with pytest.warns(UserWarning, match="exported with other prompts"):
        loaded = load_bundle(FOLDER / f"{bundle}.bundle.json")
    assert loaded == opened(path).load(judge, int(version))


def test_an_edited_old_bundle_is_refused() -> None:
    document = json.loads((FOLDER / "pick.bundle.json").read_text("utf-8"))
    document["memory"]["cases"][0]["voices"][0]["rationale"] = "somebody edited this"
    with pytest.raises(InputError, match="its checksum does not match"):
        load_bundle(document)


def test_the_writing_judge_resumes_an_old_judgment_file(command: Any, tmp_path: Path) -> None:
    judged = tmp_path / "judged" / "score-03.jsonl"
    lines = judged.read_bytes().splitlines(keepends=True)
    judged.write_bytes(lines[0])
    code, _, _ = command("judge", "score", "examples/score.jsonl", "--version", "3", "-o", "judged/score-03.jsonl")
    assert code == 0
    resumed = judged.read_bytes().splitlines(keepends=True)
    assert resumed[0] == lines[0]
    old, new = (json.loads(each[1]) for each in (lines, resumed))
    assert (new["judge"], new["memory_hash"], new["value"]) == (old["judge"], old["memory_hash"], old["value"])


def test_judgments_of_other_prompts_are_not_explained(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memalign.judge.batch.prompts_hash", lambda: "0" * 64)
    code, _, problem = command("explain", "score", "judged/score-03.jsonl", "e-1", "--examples", "examples/score.jsonl")
    assert code == 2
    assert "was written with other prompts than this memalign has" in problem


# -- keys that were texts ----------------------------------------------------------------------------------------------


def test_feedback_erased_by_the_first_format_stays_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    (secret,) = connection.execute("SELECT value FROM memalign_meta WHERE name = 'secret'").fetchone()
    digest = hmac.new(bytes.fromhex(secret), b"key\0mail@x@dora", hashlib.sha256).hexdigest()
    connection.execute("INSERT INTO memalign_erasures VALUES (1, 'key', ?, '2026-01-01T00:00:00+00:00')", [digest])
    connection.commit()
    connection.close()
    registry = opened(path)
    row: dict[str, Any] = {"id": "mail@x", "source": "dora", "value": True}
    with pytest.raises(InvalidRows, match=r'"mail@x"@dora\): this feedback was erased on 2026-01-01'):
        registry.align("tone", [row])
    with pytest.raises(UnknownKey, match="it was erased on 2026-01-01"):
        registry.erase("tone", ['"mail@x"@dora'], dry_run=True)
    other = row | {"id": "mail", "source": "x@dora"}  # the same text in the first format, if it had known such sources
    judge = registry.load("tone")
    memory = judge.memory
    case = memory.case("mail")
    assert case is not None
    said = msgspec.structs.replace(case, annotations=(*case.annotations, Annotation.of(Feedback(**other))))
    cases = tuple(said if each is case else each for each in memory.cases)
    assert registry.save(judge.replace(memory=msgspec.structs.replace(memory, cases=cases))) == 27


def test_one_of_two_equal_looking_keys_is_erased(path: Path) -> None:
    registry = opened(path)
    receipt = registry.erase("tone", ["mail"], rederive=False)
    assert receipt.keys == (FeedbackKey("mail", "x"),)
    assert "no trace found" in receipt.searched
    assert registry.load("tone").memory.annotation(FeedbackKey("mail@x", "ana"))
