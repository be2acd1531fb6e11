"""The pages' code is run as it stands: every ```python block that follows the comment `<!-- test -->`.

The blocks of a page run in order in one namespace, in an empty folder with FILES, where every model name of an
OpenAI-compatible provider leads to a server on loopback. It answers any schema with the first thing that fits it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memalign_bench.config import Config, load_config
from memalign_bench.data.folder import load_folder
from tests.support.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- test -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if BLOCK.search(page.read_text("utf-8"))
]

Row = tuple[str, str, str, bool, str | None]
CASES: list[Row] = [
    ("t-1", "Where is my parcel?", "It leaves tomorrow.", True, "Says when."),
    (
        "t-2",
        "My order came broken!",
        "Items may be returned within 30 days.",
        False,
        "Correct, but cold: say sorry first.",
    ),
    ("t-3", "I was charged twice!", "One charge will be reversed.", False, "No word of regret."),
    ("t-17", "Can I change my address?", "Yes, under Settings.", True, "Short and right."),
]
FILES: dict[str, list[Row]] = {
    "feedback.jsonl": CASES,
    "more.jsonl": [("t-20", "The app crashes.", "Update it.", False, "Blames the customer.")],
    "corrected.jsonl": [("t-20", "The app crashes.", "Update it.", False, "Too short for an angry customer.")],
    "held_out.jsonl": [
        (f"h-{n}", inputs, outputs, value, None) for n, (_, inputs, outputs, value, _) in enumerate(CASES)
    ],
}


def blocks(text: str) -> list[tuple[int, str]]:
    """The marked blocks of a page, each with the line on which its code starts."""
    return [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in BLOCK.finditer(text)]


def run_page(page: Path) -> dict[str, Any]:
    """Run a page's marked blocks; a traceback points to the line of the page."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, code in blocks(page.read_text("utf-8")):
        exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), namespace)
    return namespace


def fitting(schema: dict[str, Any], root: dict[str, Any] | None = None) -> Any:
    """The plainest value that fits a JSON schema: first choices, empty lists, lowest numbers."""
    root = root or schema
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return fitting(target, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for combined in ("anyOf", "oneOf", "allOf"):
        if combined in schema:
            return fitting(schema[combined][0], root)
    match schema.get("type"):
        case "object":
            return {name: fitting(each, root) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [fitting(schema["items"], root)] * schema.get("minItems", 0)
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "null":
            return None
        case _:
            return "Because."


def answer(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("response_format", {}).get("json_schema", {}).get("schema")
    reply = fitting(given or body["tools"][0]["function"]["parameters"])
    assert isinstance(reply, dict)
    return reply


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reader of the pages: in a folder with the files that the pages speak of, and with a model that answers."""
    for name, rows in FILES.items():
        with (tmp_path / name).open("w", encoding="utf-8") as file:
            for case, inputs, outputs, value, rationale in rows:
                row = {"id": case, "inputs": inputs, "outputs": outputs, "value": value, "source": "ana"}
                file.write(json.dumps(row | ({"rationale": rationale} if rationale else {})) + "\n")
    with Endpoint(answer) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield endpoint


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_on_the_page_runs(page: Path, reader: Any) -> None:
    run_page(page)


def test_a_block_that_fails_names_the_line_of_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n<!-- test -->\n```python\nx = 1\n```\n\n<!-- test -->\n```python\n\nassert x == 2\n```\n", "utf-8"
    )
    with pytest.raises(AssertionError) as failure:
        run_page(page)
    assert (str(failure.traceback[-1].path), failure.traceback[-1].lineno) == (str(page), 11 - 1)


def test_only_marked_blocks_are_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nraise SystemExit\n```\n\n<!-- test -->\n\n```python\nx = 1\n```\n", "utf-8")
    assert run_page(page)["x"] == 1


def test_the_files_of_a_benchmark_on_its_page_are_files_of_a_benchmark(tmp_path: Path) -> None:
    run, tasks = re.findall(
        r"^```toml\n(.*?)^```$", (ROOT / "docs/benchmark.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "run.toml").write_text(run, "utf-8")
    config = load_config(tmp_path / "run.toml")
    shown = {name for name in Config.__struct_fields__ if re.search(rf"^\[?{name}\b", run, re.MULTILINE)}
    assert shown == set(Config.__struct_fields__) - {"folder"}, "every setting is on the page"
    (folder := tmp_path / str(config.data)).mkdir()
    (folder / "tasks.toml").write_text(tasks, "utf-8")
    row = {"id": "1", "source": "ana", "inputs": "Where is it?", "outputs": "Here.", "value": "send"}
    (folder / "replies.jsonl").write_text(json.dumps(row), "utf-8")
    (task,) = load_folder(folder, config.tasks)
    assert (task.name, task.category, task.licence) == ("replies", "tone", "CC-BY-4.0")


def test_the_public_surface_runs_as_it_is_promised(reader: Any) -> None:
    """The contract with scripts outside this repository, in one sitting."""
    import memalign as ma

    judge = ma.Judge(
        name="helpfulness",
        feedback_value_type=bool,
        model="openai:/gpt-4.1-mini",
        instructions="Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
    )
    assert judge(inputs="I was charged twice!", outputs="One charge will be reversed.").value is True
    result = judge.align("feedback.jsonl")
    assert "pending" in str(result) or "learned" in str(result)
    aligned = result.judge
    assert len(aligned.memory.episodic) == 4
    assert [row.key for row in result.rows] == ["t-1@ana", "t-2@ana", "t-3@ana", "t-17@ana"]
    assert len(result.guidelines) == len(aligned.memory.semantic)
    assert result.usage.calls > 0
    assert len(aligned.unalign("t-17").judge.memory.episodic) == 3
    assert len(aligned.unalign("t-17@ana").judge.memory.episodic) == 3
    assert len(aligned.unalign(source="ana").judge.memory.episodic) == 0
    examples = [ma.Example(id=f"e{n}", inputs="Hello?", outputs="Hi.") for n in range(3)]
    assert [each.value for each in aligned.judge_many(examples, concurrency=32, out="judged.jsonl")] == [True] * 3
    assert len(Path("judged.jsonl").read_text("utf-8").splitlines()) >= 3
    assert ma.evaluate(aligned, "held_out.jsonl") is not None

    registry = ma.Registry("sqlite:///memalign.db")
    registry.save(aligned)
    registry.align("helpfulness", "more.jsonl")
    assert registry.load("helpfulness", version=2).name == "helpfulness"
    assert len(registry.list()) == 1
    assert len(registry.history("helpfulness")) == 2
    registry.diff("helpfulness", 1, 2)
    registry.rollback("helpfulness", to=1)
    registry.erase("helpfulness", ["t-17"])
    registry.delete("helpfulness")
    assert len(registry.list()) == 0
