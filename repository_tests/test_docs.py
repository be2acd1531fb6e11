"""The pages keep their promises: their code runs, their commands exist, their links lead somewhere, their sentences end.

Every ```python block that follows the comment `<!-- test -->` is run as it stands. The blocks of a page run in order in
one namespace, in a copy of examples/support, where every model name of an OpenAI-compatible provider leads to a server
on loopback. It answers any schema with the first thing that fits it. What a page says that the code knows better is
compared with the code: see `page_parts` too.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import openpyxl
import page_parts
import pytest
from loopback import Loopback
from typer.main import get_command

from memalign.cli.app import app
from tests.cli.conftest import invoke
from tests.support.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WRITTEN = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted(DOCS.rglob("*.md")),
]
BLOCK = re.compile(r"^<!-- test -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^( *)```([\w.-]*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = [page for page in WRITTEN[1:] if BLOCK.search(page.read_text("utf-8"))]  # the first one: test_readme

LONGEST_SENTENCE = 40  # words; what is longer has lost its reader
SUPPORT = ROOT / "examples" / "support"
"""The folder of the files that the pages speak of."""
CORRECTED = (
    '{"id": "t-20", "inputs": "The app crashes.", "outputs": "Update it.", "value": false, '
    '"rationale": "Too short for an angry customer.", "source": "ana"}\n'
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> Iterator[str]:
    """The paragraphs and list items of a page, without code, tables, headings, comments and lists of links."""
    text = FENCE.sub("", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = [line for line in paragraph.splitlines() if not line.lstrip().startswith(("|", "#", ":::", "!["))]
        said = " ".join(lines)
        if "    options:" in paragraph or _links_only(said):
            continue
        if said.strip():
            yield re.sub(r"\s+", " ", said).strip()


def _links_only(said: str) -> bool:
    return bool(LINK.search(said)) and not re.search(r"\w", LINK.sub("", said))


def plain(said: str) -> str:
    """Prose in which a code span is one word and a link its text."""
    return LINK.sub(r"\1", re.sub(r"`[^`]*`", "code", said)).replace("*", "")


def sentences(said: str) -> list[str]:
    # A number such as 3.11 or a name such as memalign.db holds no end of a sentence.
    return [each for each in re.split(r"(?<=[.!?])[\"”)]*\s+", plain(said)) if each.strip()]


def words(sentence: str) -> int:
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def commands(text: str) -> Iterator[list[str]]:
    """Every `memalign …` command of a page's shell blocks, in words, without placeholders and pipes."""
    for fence in FENCE.finditer(text):
        if fence[2] not in ("sh", "bash", "console"):
            continue
        for line in fence[3].replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ")
            if command.startswith("memalign "):
                parts = shlex.split(command, comments=True)
                yield parts[: next((n for n, part in enumerate(parts) if part in ("|", ">", "&&")), len(parts))]


def fitting(schema: dict[str, Any]) -> Any:
    """The plainest value that fits a JSON schema: first choices, empty lists, lowest numbers."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: fitting(part) for name, part in schema["properties"].items()}
        case "array":
            return []
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return "Because."


def answer(body: dict[str, Any]) -> Any:
    return fitting(body["response_format"]["json_schema"]["schema"])


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A reader of the pages: in a folder with the files that the pages speak of, and with a model that answers."""
    shutil.copytree(SUPPORT, tmp_path, dirs_exist_ok=True)
    (tmp_path / "corrected.jsonl").write_text(CORRECTED, "utf-8")
    with Endpoint(answer) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        yield endpoint


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_on_the_page_runs(page: Path, reader: Any) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        before = text.count("\n", 0, block.start(1))  # so that a traceback names the line of the page
        exec(compile("\n" * before + block[1], str(page), "exec", dont_inherit=True), namespace)


def test_the_first_page_commands_run_as_written(reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = list(commands((ROOT / "README.md").read_text("utf-8")))
    assert [command[1] for command in asked] == ["create", "align", "evaluate"]
    for command in asked:
        done = invoke(*command[1:])
        # The server that answers writes no rule, so the feedback of an align is pending, and said to be.
        assert done.code in ((0, 1) if command[1] == "align" else (0,)), f"{shlex.join(command)}: {done.err}"
    assert reader.requests


def test_the_review_page_commands_run_as_written(reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = invoke(*words[1:])
        assert done.code in (0, 1), f"{shlex.join(words)}: {done.err}"
        return done.out

    run("memalign", "create", "tone", "--instructions", "Send it? {{ inputs }} {{ outputs }}", "--value-type", "bool")
    (tmp_path / "labels.csv").write_text("ticket,question,answer,label\nl-1,Late?,No.,no\n", "utf-8")
    for command in commands((DOCS / "how-to/review.md").read_text("utf-8")):
        run(*command)
        if command[-1] == "review.xlsx" and command[1] == "review":
            book = openpyxl.load_workbook(tmp_path / "review.xlsx")
            sheet = book["review"]
            column = [cell.value for cell in sheet[1]].index("value") + 1
            sheet.cell(2, column).value = False
            book.save(tmp_path / "review.xlsx")
    ledger = run("memalign", "show", "tone", "--ledger")
    assert all(key in ledger for key in ("n-1@ana", "l-1@ana")), ledger


FILES = dict.fromkeys(("cases.jsonl", "unlabelled.jsonl", "answers.jsonl", "today.jsonl"), "new.jsonl")
FILES |= {"attacks.jsonl": "held_out.jsonl"}
"""Files that pages speak of, by those of examples/support that take their place."""
ELSEWHERE = ("s3://", ".parquet", "--dismiss")
"""What marks commands that need another machine, a package that is not everywhere, or a conflict."""


GUIDES = ("feedback", "correct", "measure", "ci", "large-runs", "forget-a-person")


@pytest.mark.parametrize("name", GUIDES)
def test_the_commands_of_a_guide_run_in_their_order(
    name: str, reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge of two versions is there, as whoever opens such a guide has one."""
    monkeypatch.chdir(tmp_path)
    for copy, original in FILES.items():
        shutil.copy(original, copy)
    row = {"id": "a-1", "inputs": "My cup came broken.", "outputs": "Use the return form."}
    with Path("answers.jsonl").open("a", encoding="utf-8") as answers:
        answers.write(f"{json.dumps(row)}\n")
    (tmp_path / "judges").mkdir()
    for file in ("held_out.jsonl", "feedback.jsonl"):
        shutil.copy(file, tmp_path / "judges" / file)
    create = ["create", "helpfulness", "--value-type", "bool", "--model", "openai:gpt-4.1-mini"]
    assert invoke(*create, "--instructions", "Helpful? {{ inputs }} {{ outputs }}").code == 0
    assert invoke("align", "helpfulness", "more.jsonl").code in (0, 1)
    for rule in range(1, 5):
        assert invoke("guideline", "helpfulness", "--add", f"Rule {rule}: say sorry.", "--by", "ana").code == 0
    assert invoke("edit", "helpfulness", "--price", "input=0.4,output=1.6").code == 0
    if name in ("correct", "forget-a-person"):
        assert invoke("align", "helpfulness", "feedback.jsonl").code in (0, 1)
    asked = 0
    for words in commands((DOCS / f"how-to/{name}.md").read_text("utf-8")):
        line = shlex.join(words)
        if any(mark in line for mark in ELSEWHERE) or "NAME" in words:
            continue
        yes = ["--yes"] if words[1] in ("erase", "unalign", "delete") and "--dry-run" not in words else []
        matching = [word.replace("José Müller", "parcel") for word in words[1:]]
        done = invoke(*matching, *yes)
        # A judge that calls everything helpful is no good judge: gates may say so, and feedback may be pending.
        assert done.code in (0, 1, 3), f"{line}: {done.err}"
        assert "Traceback" not in done.err
        asked += 1
    assert asked >= 4


def test_the_recipe_for_pytest_asks_once(reader: Any, tmp_path: Path) -> None:
    """The two tests of the page, as a user runs them: the second run reads the judgment files and asks no model."""
    (recipe,) = re.findall(
        r"^<!-- pytest -->\n+```python\n(.*?)^```$",
        (DOCS / "how-to/ci.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    (tmp_path / "test_replies.py").write_text(recipe, "utf-8")
    (tmp_path / "my_application.py").write_text(
        "def answer(question):\n    return f'We look into it: {question}'\n", "utf-8"
    )
    instructions = ("--instructions", "Helpful? {{ inputs }} {{ outputs }}", "--value-type", "bool")
    assert invoke("create", "helpfulness", *instructions, "--model", "openai:gpt-4.1-mini").code == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_replies.py"]
    settings = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    first = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    asked = len(reader.requests)
    assert asked > 2, first.stdout
    # The model here calls every reply helpful, and people say of half the held-out ones that they are not.
    assert "1 failed, 1 passed" in first.stdout, first.stdout
    second = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert second.returncode == first.returncode
    assert len(reader.requests) == asked


def options_of(command: Any) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_command_on_the_page_exists(page: Path) -> None:
    for words in commands(page.read_text("utf-8")):
        command: Any = get_command(app)
        rest, shown = words[1:], " ".join(words)
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            command, rest = command.get_command(None, rest[0]), rest[1:]
            assert command, shown
        unknown = {word for word in rest if re.fullmatch(r"--?[a-z][\w-]*", word)} - options_of(command) - {"--help"}
        assert not unknown, shown


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_no_sentence_runs_on(page: Path) -> None:
    long = [
        each for said in prose(page.read_text("utf-8")) for each in sentences(said) if words(each) > LONGEST_SENTENCE
    ]
    assert not long, "\n".join(f"{words(each)} words: {each}" for each in long)


OUT_OF_NAVIGATION = ("decisions/", "dependencies.md")
"""For contributors: linked where they are needed."""


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8")))
    there = {page.relative_to(DOCS).as_posix() for page in WRITTEN if page.is_relative_to(DOCS)}
    there -= {name for name in there if name.startswith(OUT_OF_NAVIGATION)}
    assert listed == there


NOT_RUN = {
    "docs/how-to/mlflow.md": "needs a tracking server; the tests of the integration do the same",
    "docs/how-to/coming-from-mlflow.md": "as above",
    "docs/how-to/trace-tools.md": "needs an account of each vendor",
    "docs/reference/settings.md": "values, no program",
    "docs/results.md": "reads the history of this repository, which a copy may lack",
}


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_block_of_python_runs_or_says_why_not(page: Path) -> None:
    marked = re.findall(
        r"^(<!-- (?:test|pytest)[\w ]*-->)?\n*```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    for mark, code in marked:
        compile(code, str(page), "exec")
        assert mark or name_of(page) in NOT_RUN


# -- what the code knows better ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in WRITTEN if "<!-- made: " in page.read_text("utf-8")], ids=name_of)
def test_what_the_code_made_is_what_it_makes_now(page: Path) -> None:
    text = page.read_text("utf-8")
    assert page_parts.with_parts(text) == text, "run: python repository_tests/page_parts.py"


def attentive(body: Any) -> dict[str, Any]:
    """The model on the picture of a terminal."""
    if "changes" in json.dumps(body["response_format"]):
        return {"changes": [{**change, "tests": []} for change in page_parts.LEARNED["changes"]], "conflicts": []}
    item = body["messages"][-1]["content"].rpartition("<<<")[2]
    sorry, asks = "sorry" in item, "return shoes" in item
    reason = "It regrets the trouble and says what comes next." if sorry else "No word of regret, and no next step."
    return {"findings": [], "rationale": "It names the place." if asks else reason, "value": sorry or asks}


def test_the_picture_of_a_terminal_is_what_the_commands_print(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = (DOCS / "images/terminal.svg").read_text("utf-8")
    drawn = "\n".join(map(unescape, re.findall(r'<text class="mono"[^>]*>(.*?)</text>', picture)))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    with Loopback(attentive) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        create = ("create", "tone", "--value-type", "bool", "--model", "openai:gpt-4.1-mini")
        assert invoke(*create, "--instructions", page_parts.INSTRUCTIONS).code == 0
        for command in ("align tone feedback.jsonl", "judge tone new.jsonl"):
            printed = re.sub(r"[\d.]+ s\b", "2 s", invoke(*command.split()).out)
            lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
            assert "\n".join([f"$ memalign {command}", *lines]) in drawn


def test_the_settings_page_has_every_variable_of_the_code() -> None:
    from memalign.models.providers import _SERVERS, PROVIDERS
    from memalign_server.settings import _OPENID, SECRETS

    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "packages").glob("*/src/**/*.py"))
    code = set(re.findall(r"MEMALIGN_[A-Z_]*[A-Z]", sources))
    code |= set(re.findall(r"os\.environ(?:\.get\(|\[)\s*\"(\w+)\"", sources))
    code -= {"MEMALIGN_OPENID"}
    code |= {f"MEMALIGN_OPENID_{name}" for name in _OPENID} | {*SECRETS}
    code |= {name for names in (*_SERVERS.values(), *PROVIDERS.values()) for name in names}
    page = (DOCS / "reference/settings.md").read_text("utf-8")
    told = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|PGPASSWORD)`", page))
    # MLflow's own variables are on the page about MLflow, where they are explained.
    elsewhere = (DOCS / "how-to/mlflow.md").read_text("utf-8")
    assert {name for name in code - told if name not in elsewhere} <= {"OLLAMA_API_KEY", "MLFLOW_DEPLOYMENTS_TARGET"}
    assert told <= code, "the page names variables that no code reads"


def test_the_page_of_commands_has_the_exit_codes_of_the_code() -> None:
    from memalign.cli import session

    page = (DOCS / "reference/commands.md").read_text("utf-8")
    codes = {session.DONE, session.FAILURES, session.WRONG, session.TOO_FEW, session.INTERRUPTED}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_line_that_installs_memalign_would_install_it(page: Path) -> None:
    for line in re.findall(r"pip install ([^`\n]*)", page.read_text("utf-8")):
        for word in shlex.split(line, comments=True):
            if "memalign" not in word:
                continue
            source = re.search(r"packages/(memalign(?:-server)?)(?:\[([\w,]+)\])?$", word)
            assert source, f"{word}: memalign is on no package index"
            project = tomllib.loads((ROOT / "packages" / source[1] / "pyproject.toml").read_text("utf-8"))["project"]
            named = re.search(r"\[([\w,]+)\]", word)
            assert set(named[1].split(",") if named else ()) <= {*project.get("optional-dependencies", {})}, word


def test_numbers_in_sentences_are_those_of_the_code() -> None:
    from memalign.align import ask, distil
    from memalign.judge import observations
    from memalign.memory import guard, retrieval
    from memalign.models import local
    from memalign.models.base import Limits
    from memalign.models.provider_model import MOST_IN_FLIGHT, USUAL_IN_FLIGHT
    from memalign.models.retry import Retry
    from memalign_server.people import people

    usual = Limits()
    words = {5: "five", 10: "ten", 30: "thirty", 50: "fifty", 90: "ninety", 7: "seven", 2: "2"}
    pages = {
        "explanation/method.md": [
            f"a budget of {distil.GUIDELINE_TOKENS:,} tokens, and up to {words[usual.examples]} similar",
            f"From {words[retrieval.CHOICE]} cases on, a case is",
            f"1 for up to {usual.shard_size} comments",
            f"{words[ask.FOLDS]} distillations for held-out cases",
            f"at most {guard.MAX_WORDS} words, no copied case",
            f"From {words[observations.FEWEST]} labelled cases on",
        ],
        "how-to/feedback.md": [
            f"a single line of at most {guard.MAX_WORDS} words",
            f"a likeness of {retrieval.RELEVANT} or less",
        ],
        "how-to/large-runs.md": [f"tried up to {words[Retry().attempts]} times"],
        "how-to/serve.md": [
            f"within {words[people._LINK_SECONDS // 86400]} days, and gives that browser a session of",
            f"a session of {words[people.SESSION_SECONDS // 86400]} days",
        ],
        "reference/settings.md": [
            f"{USUAL_IN_FLIGHT}, or `--concurrency` up to {MOST_IN_FLIGHT}",
            f"the context of an embedded model | {local._DEFAULT_CONTEXT:,}",
            f"looked up, else {usual.context_tokens:,}",
        ],
        "reference/words.md": [f"of a question at most {guard.CHECK_WORDS} words"],
    }
    for page, sentences in pages.items():
        text = " ".join((DOCS / page).read_text("utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], page


OTHERS = {"--user", "--network", "--version", "--help"}
"""Options of Docker, and those that Typer adds."""


@pytest.mark.parametrize("page", [page for page in WRITTEN if "decisions" not in page.parts], ids=name_of)
def test_an_option_in_a_sentence_is_one_of_a_command(page: Path) -> None:
    group: Any = get_command(app)
    every = [group.get_command(None, name) for name in group.list_commands(None)]
    every += [command for parent in every for command in getattr(parent, "commands", {}).values()]
    options = set().union(*map(options_of, every))
    text = FENCE.sub("", page.read_text("utf-8"))
    spans = [span for span in re.findall(r"`([^`]*)`", text) if not re.match(r"python|docker|uvx|npx|pip", span)]
    told = {word for span in spans for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)}
    assert told <= options | OTHERS, told - options


COMPOSED = {"and the row has none", "this feedback was erased on", "Check the server's key", "it was cut after"}
"""Parts of messages that the code puts together of smaller ones."""
VARYING = re.compile(r"…|\d+\w*|'[^']*'|\{\{.*?\}\}|\b(?:Windows-1252|outputs|review\.xlsx)\b|[,:;]")


@pytest.mark.parametrize("name", ["feedback", "review", "local-models"])
def test_a_message_on_a_page_is_one_of_the_code(name: str) -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "packages").glob("*/src/**/*.py")]
    code = "\n".join(re.sub(r'"\s*\n\s*f?"', "", text) for text in sources)
    page = (DOCS / f"how-to/{name}.md").read_text("utf-8")
    rows = re.findall(r"^\| (?:message|error) \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    parts = [
        part.strip()
        for row in "".join(rows).splitlines()
        for message in re.findall(r"`([^`]+)`", row.split("|")[1])
        for part in VARYING.split(message)
    ]
    assert len(parts) > 5
    assert {part for part in parts if part and part not in code} <= COMPOSED


# -- the public surface ------------------------------------------------------------------------------------------------


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
    assert len(aligned.memory.episodic) == 5
    assert [row.key for row in result.rows] == ["t-1@ana", "t-2@ana", "t-3@ben", "t-4@ben", "t-17@ana"]
    assert len(result.guidelines) == len(aligned.memory.semantic)
    assert result.usage.calls > 0
    assert len(aligned.unalign("t-17").judge.memory.episodic) == 4
    assert len(aligned.unalign("t-17@ana").judge.memory.episodic) == 4
    assert len(aligned.unalign(source="ana").judge.memory.episodic) == 2
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
