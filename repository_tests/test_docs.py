"""The pages keep their promises: their code runs, their commands exist, their links lead somewhere, their sentences end.

Every ```python block that follows the comment `<!-- test -->` is run as it stands. The blocks of a page run in order in
one namespace, in a copy of examples/support, where every model name of an OpenAI-compatible provider leads to a server
on loopback. It answers any schema with the first thing that fits it. What a page says that the code knows better is
compared with the code: see `page_parts` too.
"""

from __future__ import annotations

import inspect
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
from checkout import FENCE, ROOT, commands, commands_of
from loopback import Loopback
from typer.main import get_command

from memalign import Judge
from memalign.cli.app import app
from tests.cli.conftest import invoke
from tests.support.endpoint import Body, Endpoint

DOCS = ROOT / "docs"
WRITTEN = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SKILL.md", "examples/README.md")
    ),
    *sorted(DOCS.rglob("*.md")),
]
BLOCK = re.compile(r"^<!-- test -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = [
    page for page in WRITTEN[1:] if BLOCK.search(page.read_text("utf-8"))
]  # the first one: test_readme
CORRECTED = (
    '{"id": "t-20", "inputs": "The app crashes.", "outputs": "Update it.", "value": false, '
    '"rationale": "Too short for an angry customer.", "source": "ana"}\n'
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PLAINEST = {
    "array": [],
    "boolean": True,
    "integer": 1,
    "number": 1,
    "string": "Because.",
}
"""A value of each type of JSON schema."""


def answer(body: Body) -> dict[str, Any]:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return {
        name: field.get("enum", [PLAINEST[field["type"]]])[0]
        for name, field in fields.items()
    }


@pytest.fixture
def reader(folder: Path, provider: Endpoint) -> Endpoint:
    """A reader of the pages has the files that they speak of, and a model that answers."""
    (folder / "corrected.jsonl").write_text(CORRECTED, "utf-8")
    provider.answer = answer
    return provider


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_code_on_the_page_runs(page: Path, reader: Endpoint) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        before = text.count(
            "\n", 0, block.start(1)
        )  # so that a traceback names the line of the page
        exec(
            compile("\n" * before + block[1], str(page), "exec", dont_inherit=True),
            namespace,
        )


def test_the_list_for_agents_has_every_page_of_the_site() -> None:
    written = (ROOT / "llms.txt").read_text("utf-8")
    run = [
        sys.executable,
        "-c",
        "import runpy; print(runpy.run_path('docs/site.py')['llms'](), end='')",
    ]
    made = subprocess.run(
        run, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert written == made, "make it again: python docs/site.py llms"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_the_code_for_an_engine_runs_on_it(
    engine: str, tmp_path: Path, provider: Endpoint
) -> None:
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine))
    if (
        engine == "spark"
        and shutil.which("java") is None
        and "JAVA_HOME" not in os.environ
    ):
        pytest.skip("Spark needs Java")
    block = re.compile(
        r"^<!-- test ([a-z ]+) -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
    )
    blocks = block.findall((DOCS / "how-to/spark-and-ray.md").read_text("utf-8"))
    code = "\n".join(text for engines, text in blocks if engine in engines.split())
    assert code.count(f"on_{engine}.judge") >= 3
    provider.answer = {"rationale": "It says what to do.", "value": True}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-c", code]
    done = subprocess.run(
        run,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(provider.requests) >= 4


def test_the_review_page_commands_run_as_written(reader: Endpoint) -> None:
    def run(*words: str) -> str:
        done = invoke(*words[1:])
        assert done.code in (0, 1), f"{shlex.join(words)}: {done.err}"
        return done.out

    run(
        "memalign",
        "create",
        "tone",
        "--instructions",
        "Send it? {{ inputs }} {{ outputs }}",
        "--value-type",
        "bool",
    )
    Path("labels.csv").write_text(
        "ticket,question,answer,label\nl-1,Late?,No.,no\n", "utf-8"
    )
    for command in commands_of(DOCS / "how-to/review.md"):
        run(*command)
        if command[-1] == "review.xlsx" and command[1] == "review":
            book = openpyxl.load_workbook("review.xlsx")
            sheet = book["review"]
            column = [cell.value for cell in sheet[1]].index("value") + 1
            sheet.cell(2, column).value = False
            book.save("review.xlsx")
    ledger = run("memalign", "show", "tone", "--ledger")
    assert all(key in ledger for key in ("n-1@ana", "l-1@ana")), ledger


FILES = dict.fromkeys(
    ("cases.jsonl", "unlabelled.jsonl", "answers.jsonl", "today.jsonl"), "new.jsonl"
)
FILES |= {"attacks.jsonl": "held_out.jsonl"}
"""Files that pages speak of, by those of examples/support that take their place."""
ELSEWHERE = ("s3://", ".parquet", "--dismiss")
"""What marks commands that need another machine, a package that is not everywhere, or a
conflict."""
GUIDES = [
    f"docs/how-to/{name}.md"
    for name in (
        "feedback",
        "correct",
        "measure",
        "ci",
        "large-runs",
        "forget-a-person",
    )
]


@pytest.mark.parametrize("page", ["README.md", "SKILL.md", *GUIDES])
def test_the_commands_of_a_page_run_in_their_order(
    page: str, reader: Endpoint, folder: Path
) -> None:
    prepare_for_a_guide(folder)
    if page.endswith(("correct.md", "forget-a-person.md")):
        assert invoke("align", "helpfulness", "feedback.jsonl").code in (0, 1)
    commands = [words for words in commands_of(ROOT / page) if runs_here(words)]
    assert len(commands) >= 3
    for words in commands:
        matching = [word.replace("José Müller", "parcel") for word in words[1:]]
        if words[1] in ("erase", "unalign", "delete") and "--dry-run" not in words:
            matching.append("--yes")
        done = invoke(*matching)
        # A judge that calls everything helpful is no good judge: gates may say so, and
        # feedback may be pending.
        assert done.code in (0, 1, 3), f"{shlex.join(words)}: {done.err}"
        assert "Traceback" not in done.err


def runs_here(words: list[str]) -> bool:
    line = shlex.join(words)
    return "NAME" not in words and not any(mark in line for mark in ELSEWHERE)


def prepare_for_a_guide(folder: Path) -> None:
    """Make a judge of two versions with guidelines, as whoever opens a guide has one."""
    for copy, original in FILES.items():
        shutil.copy(original, copy)
    row = {
        "id": "a-1",
        "inputs": "My cup came broken.",
        "outputs": "Use the return form.",
    }
    with Path("answers.jsonl").open("a", encoding="utf-8") as answers:
        answers.write(f"{json.dumps(row)}\n")
    shutil.copytree(ROOT / "examples/support", folder / "judges")
    create = [
        "create",
        "helpfulness",
        "--value-type",
        "bool",
        "--model",
        "openai:gpt-4.1-mini",
    ]
    assert (
        invoke(*create, "--instructions", "Helpful? {{ inputs }} {{ outputs }}").code
        == 0
    )
    assert invoke("align", "helpfulness", "more.jsonl").code in (0, 1)
    for rule in range(1, 5):
        text = f"Rule {rule}: say sorry."
        assert (
            invoke("guideline", "helpfulness", "--add", text, "--by", "ana").code == 0
        )
    assert invoke("edit", "helpfulness", "--price", "input=0.4,output=1.6").code == 0


def timeless(text: str) -> str:
    """Text on one line; how long something took is left out."""
    return " ".join(re.sub(r"\b[\d.]+ s\b", "N s", text).split())


def test_the_tutorial_prints_what_it_shows(
    provider: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    text = (DOCS / "tutorial/first-judge.md").read_text("utf-8")
    printed = ""
    compared = 0
    for fence in FENCE.finditer(text):
        language = fence[2]
        block = fence[3]
        if language == "json":
            name = re.findall(r"as `([\w.]+)`", text[: fence.start()])[-1]
            Path(name).write_text(block, "utf-8")
        elif language == "sh":
            typed = [words[1:] for words in commands(block) if words[0] == "memalign"]
            ran = [
                invoke(*words, code=0)
                for words in typed
                if words[0] not in ("models", "--version")
            ]
            printed = timeless(" ".join(done.out for done in ran)) if ran else printed
        else:
            place = 0
            for part in filter(None, map(timeless, block.split("…\n"))):
                assert part in printed[place:], (
                    f"the page shows {part!r}, and it printed {printed!r}"
                )
                place = printed.index(part, place) + len(part)
            compared += 1
    assert compared > 4


def test_the_experts_tutorial_names_what_the_page_shows() -> None:
    """Each button, tab and link that the page names in bold or italics is a text of the server."""
    text = re.sub(
        r"!\[.*?\]\(.*?\)", "", (DOCS / "tutorial/first-review.md").read_text("utf-8")
    )
    names = set(re.findall(r"\*\*([^*\n]+)\*\*", text)) | set(
        re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text)
    )
    server = ROOT / "packages" / "memalign-server" / "src" / "memalign_server"
    sources = [
        path for path in server.rglob("*") if path.suffix in (".html", ".py", ".js")
    ]
    shown = " ".join(" ".join(path.read_text("utf-8").split()) for path in sources)
    assert len(names) > 10
    assert {name for name in names if name not in shown} == set()


def test_the_recipe_for_pytest_asks_once(
    reader: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two tests of the page, as a user runs them: the second run reads the judgment
    files and asks no model."""
    (recipe,) = re.findall(
        r"^<!-- pytest -->\n+```python\n(.*?)^```$",
        (DOCS / "how-to/pytest.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    Path("test_replies.py").write_text(recipe, "utf-8")
    Path("my_application.py").write_text(
        "def answer(question):\n    return f'We look into it: {question}'\n", "utf-8"
    )
    instructions = (
        "--instructions",
        "Helpful? {{ inputs }} {{ outputs }}",
        "--value-type",
        "bool",
    )
    assert (
        invoke(
            "create", "helpfulness", *instructions, "--model", "openai:gpt-4.1-mini"
        ).code
        == 0
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "test_replies.py",
    ]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    asked = len(reader.requests)
    assert asked > 2, first.stdout
    # The model here calls every reply helpful, and people say of half the held-out ones
    # that they are not.
    assert "1 failed, 1 passed" in first.stdout, first.stdout
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == first.returncode
    assert len(reader.requests) == asked


def options_of(command: Any) -> set[str]:
    return {
        name
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_command_on_the_page_exists(page: Path) -> None:
    for words in commands_of(page):
        command: Any = get_command(app)
        rest = words[1:]
        shown = " ".join(words)
        while (
            hasattr(command, "commands") and rest and not rest[0].startswith(("-", "["))
        ):
            command = command.get_command(None, rest[0])
            rest = rest[1:]
            assert command, shown
        unknown = (
            {word for word in rest if re.fullmatch(r"--?[a-z][\w-]*", word)}
            - options_of(command)
            - {"--help"}
        )
        assert not unknown, shown


LONGEST_SENTENCE = 40  # words; what is longer has lost its reader
NO_PROSE = re.compile(
    r"\A---\n.*?\n---\n|<!--.*?-->|^ *(?:\||#|:::|!\[)[^\n]*$", re.MULTILINE | re.DOTALL
)
"""Settings of a page, comments, tables, headings and pictures."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, in which a code span is one word and a link its text."""
    text = page_parts.PART.sub("", text)  # what the code makes is not read as prose
    prose = LINK.sub(
        r"\1", re.sub(r"`[^`]*`", "code", NO_PROSE.sub("", FENCE.sub("", text)))
    ).replace("*", "")
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose):
        # A number such as 3.11 or a name such as memalign.db holds no end of a sentence.
        yield from re.split(r"(?<=[.!?])[\"”)]*\s+", paragraph)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_no_sentence_runs_on(page: Path) -> None:
    counts = {
        text: len(re.findall(r"\S*\w\S*", text))
        for text in sentences(page.read_text("utf-8"))
    }
    assert {
        text: count for text, count in counts.items() if count > LONGEST_SENTENCE
    } == {}


DIALECT = re.compile(
    r"^(?:What|Whoever|Whatever|Of|Who|Whether|Nor)\b(?!.*\?$)"
    r"|\b(?:anew|[Ww]hoever|dear|thereby|is none|a row a row)\b"
)
"""Beginnings and words of sentences that make a reader start again: "What is erased is
…", "Of a pair each side …"."""


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if "decisions" not in page.parts], ids=name_of
)
def test_sentences_are_plain_english(page: Path) -> None:
    said = [" ".join(text.split()) for text in sentences(page.read_text("utf-8"))]
    begun = [re.sub(r"^(?:[-#>]|\d+\.)\s+", "", text) for text in said]
    assert [text for text in begun if DIALECT.search(text)] == []


CALL = re.compile(r"`([A-Za-z_][\w.]*)\(([^`()]*)\)")
"""A call in a sentence, such as `judge.align(rows, columns=…)`."""


OTHERS_CALLS = (
    "how-to/coming-from-mlflow.md",
    "how-to/mlflow.md",
    "how-to/other-frameworks.md",
)
"""Pages whose calls are those of MLflow and of other frameworks."""


def called(name: str) -> Any:
    """The function of a name that a page uses, or None if it is not one of memalign's."""
    import memalign as ma
    import memalign.align
    import memalign.integrations.mlflow as mlflow_drop_in
    import memalign.io

    first, _, last = name.rpartition(".")
    holders = {
        "judge": ma.Judge,
        "aligned": ma.Judge,
        "registry": ma.Registry,
        "ma": ma,
        "memalign": ma,
        "memalign.io": memalign.io,
    }
    if first:
        return getattr(holders.get(first), last, None)
    for holder in (ma, memalign.align, mlflow_drop_in, ma.Judge, ma.Registry):
        if callable(found := getattr(holder, last, None)):
            return found
    return None


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in WRITTEN
        if "decisions" not in page.parts and not name_of(page).endswith(OTHERS_CALLS)
    ],
    ids=name_of,
)
def test_a_call_in_a_sentence_has_arguments_that_exist(page: Path) -> None:
    wrong = []
    for name, given in CALL.findall(FENCE.sub("", page.read_text("utf-8"))):
        function = called(name)
        if function is None:
            continue
        parameters = inspect.signature(function).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            continue
        keywords = re.findall(
            r"(?:^|[(,{ ])(\w+)=", re.sub(r"\{.*?\}|\[.*?\]|\".*?\"", "", given)
        )
        wrong += [
            f"{name}({keyword}=…)" for keyword in keywords if keyword not in parameters
        ]
    assert wrong == []


OUT_OF_NAVIGATION = ("decisions/", "dependencies.md")
"""For contributors: linked where they are needed."""


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = set(
        re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8"))
    )
    there = {
        page.relative_to(DOCS).as_posix()
        for page in WRITTEN
        if page.is_relative_to(DOCS)
    }
    there -= {name for name in there if name.startswith(OUT_OF_NAVIGATION)}
    assert listed == there


MOST_PAGES = 40
MOST_LINES = 150
"""Of a page that is read from its beginning to its end; reference and decisions are
looked up, and are not counted."""


def test_the_site_is_read_in_one_go() -> None:
    """Counted are tutorials, tasks, explanations, results, the first page and the page
    on dependencies."""
    read = [page for page in WRITTEN if page.is_relative_to(DOCS)]
    read = [page for page in read if not {"reference", "decisions"} & {*page.parts}]
    assert len(read) <= MOST_PAGES
    lines = {name_of(page): len(page.read_text("utf-8").splitlines()) for page in read}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


NOT_RUN = {
    "docs/how-to/mlflow.md": "needs a tracking server; the tests of the integration do the same",
    "docs/how-to/coming-from-mlflow.md": "as above",
    "docs/how-to/trace-tools.md": "needs an account of each vendor",
    "docs/how-to/annotations.md": "as above",
    "docs/how-to/serve.md": "needs a tracking server, as how-to/mlflow.md does",
    "docs/reference/settings.md": "values, no program",
    "docs/reference/measurements.md": "reads the history of this repository, which a copy may lack",
}


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_block_of_python_runs_or_says_why_not(page: Path) -> None:
    marked = re.findall(
        r"^(<!-- (?:test|pytest)[\w ]*-->)?\n*```python\n(.*?)^```$",
        page.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    for mark, code in marked:
        compile(code, str(page), "exec")
        assert mark or name_of(page) in NOT_RUN


# -- what the code knows better --------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [page for page in WRITTEN if "<!-- made: " in page.read_text("utf-8")],
    ids=name_of,
)
def test_what_the_code_made_is_what_it_makes_now(page: Path) -> None:
    text = page.read_text("utf-8")
    assert page_parts.with_parts(text) == text, (
        "run: python repository_tests/page_parts.py"
    )


def at_the_terminal(body: Any) -> dict[str, Any]:
    """The model on the picture of a terminal."""
    if "changes" in json.dumps(body["response_format"]):
        return {
            "changes": [
                {**change, "tests": []} for change in page_parts.LEARNED["changes"]
            ],
            "conflicts": [],
        }
    item = body["messages"][-1]["content"].rpartition("<<<")[2]
    sorry = "sorry" in item
    asks = "return shoes" in item
    reason = (
        "It regrets the trouble and says what comes next."
        if sorry
        else "No word of regret, and no next step."
    )
    return {
        "findings": [],
        "rationale": "It names the place." if asks else reason,
        "value": sorry or asks,
    }


def test_the_terminals_picture_is_what_is_printed(
    reader: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = (DOCS / "images/terminal.svg").read_text("utf-8")
    drawn = "\n".join(
        map(unescape, re.findall(r'<text class="mono"[^>]*>(.*?)</text>', picture))
    )
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    create = (
        "create",
        "tone",
        "--value-type",
        "bool",
        "--model",
        "openai:gpt-4.1-mini",
    )
    with Loopback(at_the_terminal) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert invoke(*create, "--instructions", page_parts.INSTRUCTIONS).code == 0
        for command in ("align tone feedback.jsonl", "judge tone new.jsonl"):
            printed = re.sub(r"[\d.]+ s\b", "2 s", invoke(*command.split()).out)
            lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
            assert "\n".join([f"$ memalign {command}", *lines]) in drawn


def test_the_settings_page_has_every_variable_of_the_code() -> None:
    from memalign.models.providers import PROVIDERS
    from memalign_server.settings import _OPENID, SECRETS

    sources = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "packages").glob("*/src/**/*.py")
    )
    code = set(re.findall(r"MEMALIGN_[A-Z_]*[A-Z]", sources))
    code |= set(re.findall(r"os\.environ(?:\.get\(|\[)\s*\"(\w+)\"", sources))
    code -= {"MEMALIGN_OPENID"}
    code |= {f"MEMALIGN_OPENID_{name}" for name in _OPENID} | {*SECRETS}
    code |= {
        name
        for traits in PROVIDERS.values()
        for name in (*traits.keys, *traits.servers)
    }
    page = (DOCS / "reference/settings.md").read_text("utf-8")
    told = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|PGPASSWORD)`", page))
    # MLflow's own variables are on the page about MLflow, where they are explained.
    elsewhere = (DOCS / "reference/mlflow.md").read_text("utf-8")
    assert {name for name in code - told if name not in elsewhere} <= {
        "OLLAMA_API_KEY",
        "MLFLOW_DEPLOYMENTS_TARGET",
    }
    assert told <= code, "the page names variables that no code reads"


def test_the_page_of_commands_has_the_exit_codes_of_the_code() -> None:
    from memalign.cli import session

    page = (DOCS / "reference/commands.md").read_text("utf-8")
    codes = {
        session.DONE,
        session.FAILURES,
        session.WRONG,
        session.TOO_FEW,
        session.INTERRUPTED,
    }
    assert {
        int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    } == codes


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_line_that_installs_memalign_would_install_it(page: Path) -> None:
    for line in re.findall(r"pip install ([^`\n]*)", page.read_text("utf-8")):
        for word in shlex.split(line, comments=True):
            if "memalign" not in word:
                continue
            source = re.search(
                r"packages/(memalign(?:-server)?)(?:\[([\w,]+)\])?$", word
            )
            assert source, f"{word}: memalign is on no package index"
            project = tomllib.loads(
                (ROOT / "packages" / source[1] / "pyproject.toml").read_text("utf-8")
            )["project"]
            named = re.search(r"\[([\w,]+)\]", word)
            assert set(named[1].split(",") if named else ()) <= {
                *project.get("optional-dependencies", {})
            }, word


def test_numbers_in_sentences_are_those_of_the_code() -> None:
    from memalign.align import distil
    from memalign.memory import guard, retrieval
    from memalign.models import local
    from memalign.models.base import Limits
    from memalign.models.provider_model import MOST_IN_FLIGHT, USUAL_IN_FLIGHT
    from memalign.models.retry import Retry
    from memalign_server.people import service as people

    usual = Limits()
    words = {
        5: "five",
        10: "ten",
        30: "thirty",
        50: "fifty",
        90: "ninety",
        7: "seven",
        2: "2",
    }
    pages = {
        "explanation/method.md": [
            f"a budget of {distil.GUIDELINE_TOKENS:,} tokens, and up to {words[usual.examples]} similar",
            f"From {words[retrieval.CHOICE]} cases on, a case is",
            f"1 for up to {usual.shard_size} comments",
            f"at most {guard.MAX_WORDS} words, no copied case",
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
    }
    for page, sentences in pages.items():
        text = " ".join((DOCS / page).read_text("utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], page


OTHERS = {"--user", "--network", "--version", "--help"}
"""Options of Docker, and those that Typer adds."""


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if "decisions" not in page.parts], ids=name_of
)
def test_an_option_in_a_sentence_is_one_of_a_command(page: Path) -> None:
    group: Any = get_command(app)
    every = [group.get_command(None, name) for name in group.list_commands(None)]
    every += [
        command
        for parent in every
        for command in getattr(parent, "commands", {}).values()
    ]
    options = set().union(*map(options_of, every))
    text = FENCE.sub("", page.read_text("utf-8"))
    spans = [
        span
        for span in re.findall(r"`([^`]*)`", text)
        if not re.match(r"python|docker|uvx|npx|pip", span)
    ]
    told = {
        word for span in spans for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", span)
    }
    assert told <= options | OTHERS, told - options


COMPOSED = {
    "and the row has none",
    "this feedback was erased on",
    "Check the server's key",
    "it was cut after",
}
"""Parts of messages that the code puts together of smaller ones."""
VARYING = re.compile(
    r"…|\d+\w*|'[^']*'|\{\{.*?\}\}|\b(?:Windows-1252|outputs|review\.xlsx)\b|[,:;]"
)


@pytest.mark.parametrize("name", ["feedback", "review", "local-models", "gateways"])
def test_a_message_on_a_page_is_one_of_the_code(name: str) -> None:
    sources = [
        path.read_text("utf-8") for path in (ROOT / "packages").glob("*/src/**/*.py")
    ]
    code = "\n".join(re.sub(r'"\s*\n\s*f?"', "", text) for text in sources)
    page = (DOCS / f"how-to/{name}.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (?:message|error) \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE
    )
    parts = [
        part.strip()
        for row in "".join(rows).splitlines()
        for message in re.findall(r"`([^`]+)`", row.split("|")[1])
        for part in VARYING.split(message)
    ]
    assert len(parts) > 5
    assert {part for part in parts if part and part not in code} <= COMPOSED


# -- the public surface ----------------------------------------------------------------


@pytest.fixture
def promised(reader: Endpoint) -> Judge:
    """A judge as the contract with scripts outside this repository makes it."""
    return Judge(
        name="helpfulness",
        feedback_value_type=bool,
        model="openai:/gpt-4.1-mini",
        instructions="Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
    )


def test_a_judge_learns_and_forgets_as_it_is_promised(promised: Judge) -> None:
    reply = {
        "inputs": "I was charged twice!",
        "outputs": "One charge will be reversed.",
    }
    assert promised(**reply).value is True
    result = promised.align("feedback.jsonl")
    assert re.search("pending|learned", str(result))
    aligned = result.judge
    assert len(aligned.memory.episodic) == 5
    keys = [row.key for row in result.rows]
    assert keys == ["t-1@ana", "t-2@ana", "t-3@ben", "t-4@ben", "t-17@ana"]
    assert len(result.guidelines) == len(aligned.memory.semantic)
    assert result.usage.calls > 0
    assert len(aligned.unalign("t-17").judge.memory.episodic) == 4
    assert len(aligned.unalign("t-17@ana").judge.memory.episodic) == 4
    assert len(aligned.unalign(source="ana").judge.memory.episodic) == 2


def test_a_judge_judges_and_is_measured_as_it_is_promised(promised: Judge) -> None:
    import memalign as ma

    examples = [
        ma.Example(id=f"e{n}", inputs="Hello?", outputs="Hi.") for n in range(3)
    ]
    judged = promised.judge_many(examples, concurrency=32, out="judged.jsonl")
    assert [each.value for each in judged] == [True] * 3
    assert len(Path("judged.jsonl").read_text("utf-8").splitlines()) == 3
    assert ma.evaluate(promised, "held_out.jsonl") is not None


def test_a_registry_does_as_it_is_promised(promised: Judge) -> None:
    import memalign as ma

    registry = ma.Registry("sqlite:///memalign.db")
    registry.save(promised.align("feedback.jsonl").judge)
    registry.align("helpfulness", "more.jsonl")
    assert registry.load("helpfulness", version=2).name == "helpfulness"
    assert len(registry.list()) == 1
    assert len(registry.history("helpfulness")) == 2
    registry.diff("helpfulness", 1, 2)
    registry.rollback("helpfulness", to=1)
    registry.erase("helpfulness", ["t-17"])
    registry.delete("helpfulness")
    assert len(registry.list()) == 0
