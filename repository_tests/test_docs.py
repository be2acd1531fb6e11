"""The pages keep their promises: their code runs, their commands exist, their sentences end.

Every ```python block that follows the comment `<!-- test -->` is run as it stands. The blocks
of a page run in order in one namespace, in a copy of examples/support, where every model name
of an OpenAI-compatible provider leads to a server on loopback. It answers any schema with the
first thing that fits it. What a page says that the code knows better is compared with the code:
see `page_parts` too.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import openpyxl
import page_parts
import pytest
from checkout import (
    FENCE,
    ROOT,
    commands,
    commands_of,
    missing,
    python,
    python_after,
    text_of,
    toml_of,
)
from loopback import Loopback
from typer.main import get_command

from memalign import Judge
from memalign.cli.app import app
from tests.cli.conftest import invoke
from tests.support.endpoint import Body, Endpoint

DOCS = ROOT / "docs"
SITE = sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))
WRITTEN = ["README.md", "CONTRIBUTING.md", "SKILL.md", "examples/README.md", *SITE]
OF_TODAY = [page for page in WRITTEN if "/decisions/" not in page]
"""The pages that say how things are; a decision says how they were."""
BLOCK = re.compile(r"^<!-- test -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
CREATE = (
    "create {} --value-type bool --model openai:gpt-4.1-mini"
    " --instructions 'Helpful? {{{{ inputs }}}} {{{{ outputs }}}}'"
)
CORRECTED = (
    '{"id": "t-20", "inputs": "The app crashes.", "outputs": "Update it.", "value": false, '
    '"rationale": "Too short for an angry customer.", "source": "ana"}\n'
)
PLAINEST = {
    "array": [],
    "boolean": True,
    "integer": 1,
    "number": 1,
    "string": "Because.",
}
"""A value of each type of JSON schema."""


def answer(body: Body) -> dict[str, Any]:
    answered = {}
    schema = body["response_format"]["json_schema"]["schema"]
    for name, field in schema["properties"].items():
        answered[name] = field.get("enum", [PLAINEST[field["type"]]])[0]
    return answered


@pytest.fixture
def reader(folder: Path, provider: Endpoint) -> Endpoint:
    """A reader of the pages has the files that they speak of, and a model that answers."""
    (folder / "corrected.jsonl").write_text(CORRECTED, "utf-8")
    provider.answer = answer
    return provider


@pytest.mark.parametrize(
    "page",  # the README's has a test of its own
    [page for page in WRITTEN[1:] if BLOCK.search(text_of(page))],
)
def test_the_code_on_the_page_runs(page: str, reader: Endpoint) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = text_of(page)
    for block in BLOCK.finditer(text):
        # A traceback names the line of the page.
        before = "\n" * text.count("\n", 0, block.start(1))
        code = compile(before + block[1], page, "exec", dont_inherit=True)
        exec(code, namespace)


def test_the_list_for_agents_has_every_page_of_the_site() -> None:
    made = runpy.run_path(str(DOCS / "site.py"))["llms"]()
    assert text_of("llms.txt") == made, "make it again: python docs/site.py llms"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_the_code_for_an_engine_runs_on_it(
    engine: str, tmp_path: Path, provider: Endpoint
) -> None:
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine))
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if engine == "spark" and java is None:
        pytest.skip("Spark needs Java")
    page = text_of("docs/how-to/spark-and-ray.md")
    code = "\n".join(python_after(rf"test [a-z ]*\b{engine}\b[a-z ]*", page))
    assert code.count(f"on_{engine}.judge") >= 3
    provider.answer = {"rationale": "It says what to do.", "value": True}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = python("-c", code, cwd=tmp_path, env=env, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(provider.requests) >= 4


def test_the_review_page_commands_run_as_written(reader: Endpoint) -> None:
    invoke(CREATE.format("tone"), code=0)
    labels = "ticket,question,answer,label\nl-1,Late?,No.,no\n"
    Path("labels.csv").write_text(labels, "utf-8")
    for words in commands_of("docs/how-to/review.md"):
        done = invoke(shlex.join(words[1:]))
        assert done.code in (0, 1), f"{shlex.join(words)}: {done.err}"
        if words[-1] == "review.xlsx" and words[1] == "review":
            book = openpyxl.load_workbook("review.xlsx")
            sheet = book["review"]
            column = [cell.value for cell in sheet[1]].index("value") + 1
            sheet.cell(2, column).value = False
            book.save("review.xlsx")
    ledger = invoke("show tone --ledger", code=0).out
    assert "n-1@ana" in ledger
    assert "l-1@ana" in ledger


FILES = dict.fromkeys(
    ("cases.jsonl", "unlabelled.jsonl", "answers.jsonl", "today.jsonl"), "new.jsonl"
)
FILES |= {"attacks.jsonl": "held_out.jsonl"}
"""Files that pages speak of, by those of examples/support that take their place."""
ELSEWHERE = re.compile(r"s3://|\.parquet|--dismiss|\bNAME\b")
"""What marks commands that need another machine, a package that is not everywhere, a
conflict or a name."""


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "SKILL.md",
        "docs/how-to/feedback.md",
        "docs/how-to/correct.md",
        "docs/how-to/measure.md",
        "docs/how-to/ci.md",
        "docs/how-to/large-runs.md",
        "docs/how-to/forget-a-person.md",
    ],
)
def test_the_commands_of_a_page_run_in_their_order(
    page: str, reader: Endpoint, folder: Path
) -> None:
    prepare_for_a_guide(folder)
    if page.endswith(("correct.md", "forget-a-person.md")):
        assert invoke("align helpfulness feedback.jsonl").code in (0, 1)
    ran = 0
    for words in commands_of(page):
        line = shlex.join(words[1:]).replace("José Müller", "parcel")
        if ELSEWHERE.search(line):
            continue
        if words[1] in ("erase", "unalign", "delete") and "--dry-run" not in words:
            line += " --yes"
        done = invoke(line)
        # A judge that calls everything helpful is no good judge: gates may say so, and
        # feedback may be pending.
        assert done.code in (0, 1, 3), f"{line}: {done.err}"
        assert "Traceback" not in done.err
        ran += 1
    assert ran >= 3


def prepare_for_a_guide(folder: Path) -> None:
    """Make a judge of two versions with guidelines, as whoever opens a guide has one."""
    for copy, original in FILES.items():
        shutil.copy(original, copy)
    with Path("answers.jsonl").open("a", encoding="utf-8") as answers:
        answers.write('{"id": "a-1", "inputs": "It broke.", "outputs": "See above."}\n')
    shutil.copytree(ROOT / "examples/support", folder / "judges")
    invoke(CREATE.format("helpfulness"), code=0)
    assert invoke("align helpfulness more.jsonl").code in (0, 1)
    for rule in range(1, 5):
        text = f"Rule {rule}: say sorry."
        invoke("guideline helpfulness --by ana --add", text, code=0)
    invoke("edit helpfulness --price input=0.4,output=1.6", code=0)


def timeless(text: str) -> str:
    """Text on one line; how long something took is left out."""
    return " ".join(re.sub(r"\b[\d.]+ s\b", "N s", text).split())


def test_the_tutorial_prints_what_it_shows(
    provider: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("NO_COLOR", "1")
    text = text_of("docs/tutorial/first-judge.md")
    printed = ""
    compared = 0
    for fence in FENCE.finditer(text):
        language = fence[2]
        block = fence[3]
        if language == "json":
            name = re.findall(r"as `([\w.]+)`", text[: fence.start()])[-1]
            Path(name).write_text(block, "utf-8")
        elif language == "sh":
            printed = timeless(typed(block)) or printed
        else:
            place = 0
            for part in filter(None, map(timeless, block.split("…\n"))):
                assert part in printed[place:]
                place = printed.index(part, place) + len(part)
            compared += 1
    assert compared > 4


def typed(block: str) -> str:
    """What the commands of a block print; models are there already."""
    printed = ""
    for words in commands(block):
        if words[0] == "memalign" and words[1] not in ("models", "--version"):
            printed += invoke(shlex.join(words[1:]), code=0).out
    return printed


def test_the_experts_tutorial_names_what_the_page_shows() -> None:
    """Each button, tab and link that the page names in bold or italics is a text of the
    server."""
    page = text_of("docs/tutorial/first-review.md")
    text = re.sub(r"!\[.*?\]\(.*?\)", "", page)
    names = re.findall(r"\*\*([^*\n]+)\*\*", text)
    names += re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text)
    assert len(set(names)) > 10
    shown = ""
    server = ROOT / "packages/memalign-server/src/memalign_server"
    for path in server.rglob("*"):
        if path.suffix in (".html", ".py", ".js"):
            shown += " ".join(path.read_text("utf-8").split())
    assert missing(shown, names) == set()


def test_the_recipe_for_pytest_asks_once(
    reader: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two tests of the page, as a user runs them: the second run reads the judgment
    files and asks no model."""
    (recipe,) = python_after("pytest", text_of("docs/how-to/pytest.md"))
    Path("test_replies.py").write_text(recipe, "utf-8")
    application = "def answer(question):\n    return f'We look into it: {question}'\n"
    Path("my_application.py").write_text(application, "utf-8")
    invoke(CREATE.format("helpfulness"), code=0)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_replies.py"]
    first = python(*command)
    asked = len(reader.requests)
    assert asked > 2, first.stdout
    # The model here calls every reply helpful, and people say of half the held-out ones
    # that they are not.
    assert "1 failed, 1 passed" in first.stdout, first.stdout
    assert python(*command).returncode == first.returncode
    assert len(reader.requests) == asked


def options_of(command: Any) -> set[str]:
    options = set[str]()
    for option in command.params:
        options.update(option.opts, option.secondary_opts)
    return options


@pytest.mark.parametrize("page", WRITTEN)
def test_every_command_on_the_page_exists(page: str) -> None:
    for words in commands_of(page):
        command: Any = get_command(app)
        rest = words[1:]
        while hasattr(command, "commands") and rest and rest[0][0] not in "-[":
            command = command.get_command(None, rest[0])
            rest = rest[1:]
            assert command, words
        options = filter(re.compile(r"--?[a-z][\w-]*").fullmatch, rest)
        assert {*options} <= options_of(command) | {"--help"}, words


# -- sentences -------------------------------------------------------------------------

LONGEST_SENTENCE = 40  # words; what is longer has lost its reader
NO_PROSE = re.compile(
    r"\A---\n.*?\n---\n|<!--.*?-->|^ *(?:\||#|:::|!\[)[^\n]*$", re.MULTILINE | re.DOTALL
)
"""Settings of a page, comments, tables, headings and pictures."""
DIALECT = re.compile(
    r"^(?:What|Whoever|Whatever|Of|Who|Whether|Nor)\b(?!.*\?$)"
    r"|\b(?:anew|[Ww]hoever|dear|thereby|is none|a row a row)\b"
)
"""Beginnings and words of sentences that make a reader start again: "What is erased is
…", "Of a pair each side …"."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, in which a code span is one word and a link its text."""
    text = page_parts.PART.sub("", text)  # what the code makes is not read as prose
    text = NO_PROSE.sub("", FENCE.sub("", text))
    prose = LINK.sub(r"\1", re.sub(r"`[^`]*`", "code", text)).replace("*", "")
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose):
        # A number such as 3.11 or a name such as memalign.db holds no end of a sentence.
        for sentence in re.split(r"(?<=[.!?])[\"”)]*\s+", paragraph):
            yield re.sub(r"^(?:[-#>]|\d+\.)\s+", "", " ".join(sentence.split()))


@pytest.mark.parametrize("page", WRITTEN)
def test_a_sentence_is_short_and_plain_english(page: str) -> None:
    for sentence in sentences(text_of(page)):
        assert len(re.findall(r"\S*\w\S*", sentence)) <= LONGEST_SENTENCE, sentence
        if page in OF_TODAY:
            assert not DIALECT.search(sentence), sentence


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
    "page", [page for page in OF_TODAY if not page.endswith(OTHERS_CALLS)]
)
def test_a_call_in_a_sentence_has_arguments_that_exist(page: str) -> None:
    for name, given in CALL.findall(FENCE.sub("", text_of(page))):
        function = called(name)
        if function is None:
            continue
        signature = inspect.signature(function)
        if "**" not in str(signature):
            plain = re.sub(r"\{.*?\}|\[.*?\]|\".*?\"", "", given)
            keywords = re.findall(r"(?:^|[(,{ ])(\w+)=", plain)
            assert {*keywords} <= signature.parameters.keys(), name


# -- the site --------------------------------------------------------------------------

OUT_OF_NAVIGATION = ("docs/decisions/", "docs/dependencies.md")
"""For contributors: linked where they are needed."""


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = re.findall(r'"([\w/-]+\.md)"', text_of("zensical.toml"))
    there = [page for page in SITE if not page.startswith(OUT_OF_NAVIGATION)]
    assert {f"docs/{page}" for page in listed} == {*there}


MOST_PAGES = 40
MOST_LINES = 150
"""Of a page that is read from its beginning to its end; reference and decisions are
looked up, and are not counted."""


def test_the_site_is_read_in_one_go() -> None:
    """Counted are tutorials, tasks, explanations, results, the first page and the page
    on dependencies."""
    looked_up = ("docs/reference/", "docs/decisions/")
    read = [page for page in SITE if not page.startswith(looked_up)]
    assert len(read) <= MOST_PAGES
    for page in read:
        assert len(text_of(page).splitlines()) <= MOST_LINES, page


NOT_RUN = {
    "docs/how-to/mlflow.md": "needs a tracking server; the integration's tests do the same",
    "docs/how-to/coming-from-mlflow.md": "as above",
    "docs/how-to/trace-tools.md": "needs an account of each vendor",
    "docs/how-to/annotations.md": "as above",
    "docs/how-to/serve.md": "needs a tracking server, as how-to/mlflow.md does",
    "docs/reference/settings.md": "values, no program",
    "docs/reference/measurements.md": "reads this repository's history, which a copy may lack",
}


@pytest.mark.parametrize("page", WRITTEN)
def test_every_block_of_python_runs_or_says_why_not(page: str) -> None:
    block = r"^(<!-- (?:test|pytest)[\w ]*-->)?\n*```python\n(.*?)^```$"
    flags = re.MULTILINE | re.DOTALL
    for mark, code in re.findall(block, text_of(page), flags):
        compile(code, page, "exec")
        assert mark or page in NOT_RUN


# -- what the code knows better --------------------------------------------------------


def source() -> str:
    """The code of both packages; a text over several lines is put together."""
    text = ""
    for path in (ROOT / "packages").glob("*/src/**/*.py"):
        text += path.read_text("utf-8")
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if "<!-- made: " in text_of(page)]
)
def test_what_the_code_made_is_what_it_makes_now(page: str) -> None:
    text = text_of(page)
    made = page_parts.with_parts(text)
    assert made == text, "run: python repository_tests/page_parts.py"


def at_the_terminal(body: Body) -> Body:
    """The model on the picture of a terminal."""
    if "changes" in json.dumps(body["response_format"]):
        changes = [change | {"tests": []} for change in page_parts.LEARNED["changes"]]
        return {"changes": changes, "conflicts": []}
    item = body["messages"][-1]["content"].rpartition("<<<")[2]
    reason = "No word of regret, and no next step."
    if "return shoes" in item:
        reason = "It names the place."
    elif "sorry" in item:
        reason = "It regrets the trouble and says what comes next."
    return {"findings": [], "rationale": reason, "value": reason.startswith("It")}


def test_the_terminals_picture_is_what_is_printed(
    reader: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = text_of("docs/images/terminal.svg")
    lines = re.findall(r'<text class="mono"[^>]*>(.*?)</text>', picture)
    drawn = unescape("\n".join(lines))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    create = "create tone --value-type bool --model openai:gpt-4.1-mini --instructions"
    with Loopback(at_the_terminal) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        invoke(create, page_parts.INSTRUCTIONS, code=0)
        for command in ("align tone feedback.jsonl", "judge tone new.jsonl"):
            printed = re.sub(r"[\d.]+ s\b", "2 s", invoke(command).out).strip("\n")
            printed = re.sub(r" +$", "", printed, flags=re.MULTILINE)
            assert f"$ memalign {command}\n{printed}" in drawn


def test_the_settings_page_has_every_variable_of_the_code() -> None:
    from memalign.models.providers import PROVIDERS
    from memalign_server.settings import _OPENID, SECRETS

    code = set(SECRETS) | {f"MEMALIGN_OPENID_{name}" for name in _OPENID}
    code.update(re.findall(r"MEMALIGN_[A-Z_]*[A-Z]", source()))
    code.update(re.findall(r"os\.environ(?:\.get\(|\[)\s*\"(\w+)\"", source()))
    code.remove("MEMALIGN_OPENID")
    for traits in PROVIDERS.values():
        code.update(traits.keys, traits.servers)
    page = text_of("docs/reference/settings.md")
    told = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|PGPASSWORD)`", page))
    # MLflow's own variables are on the page about MLflow, where they are explained.
    untold = missing(text_of("docs/reference/mlflow.md"), code - told)
    assert untold <= {"OLLAMA_API_KEY", "MLFLOW_DEPLOYMENTS_TARGET"}
    assert told <= code, "the page names variables that no code reads"


def test_the_page_of_commands_has_the_exit_codes_of_the_code() -> None:
    from memalign.cli import session as codes

    page = text_of("docs/reference/commands.md")
    told = set(map(int, re.findall(r"^\| (\d+) \|", page, re.MULTILINE)))
    failed = {codes.FAILURES, codes.WRONG, codes.TOO_FEW, codes.INTERRUPTED}
    assert told == {codes.DONE, *failed}


@pytest.mark.parametrize("page", WRITTEN)
def test_a_line_that_installs_memalign_would_install_it(page: str) -> None:
    for line in re.findall(r"pip install ([^`\n]*)", text_of(page)):
        for word in shlex.split(line, comments=True):
            if "memalign" not in word:
                continue
            named = re.search(
                r"packages/(memalign|memalign-server)(?:\[([\w,]+)\])?$", word
            )
            assert named, f"{word}: memalign is on no package index"
            project = toml_of(f"packages/{named[1]}/pyproject.toml")["project"]
            extras = named[2].split(",") if named[2] else []
            assert {*extras} <= {*project.get("optional-dependencies", {})}, word


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
    link_days = words[people._LINK_SECONDS // 86400]
    session_days = words[people.SESSION_SECONDS // 86400]
    pages = {
        "explanation/method.md": [
            f"a budget of {distil.GUIDELINE_TOKENS:,} tokens,",
            f"and up to {words[usual.examples]} similar",
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
            f"within {link_days} days, and gives that browser a session of",
            f"a session of {session_days} days",
        ],
        "reference/settings.md": [
            f"{USUAL_IN_FLIGHT}, or `--concurrency` up to {MOST_IN_FLIGHT}",
            f"the context of an embedded model | {local._DEFAULT_CONTEXT:,}",
            f"looked up, else {usual.context_tokens:,}",
        ],
    }
    for page, said in pages.items():
        text = " ".join(text_of(f"docs/{page}").split())
        assert missing(text, said) == set(), page


OTHERS = {"--user", "--network", "--help"}
"""Options of Docker, and the one that Typer adds."""


def options_of_all(command: Any) -> set[str]:
    """The options of a command and of all below it."""
    options = options_of(command)
    if hasattr(command, "commands"):
        for name in command.list_commands(None):
            options |= options_of_all(command.get_command(None, name))
    return options


@pytest.mark.parametrize("page", OF_TODAY)
def test_an_option_in_a_sentence_is_one_of_a_command(page: str) -> None:
    known = options_of_all(get_command(app)) | OTHERS
    for span in re.findall(r"`([^`]*)`", FENCE.sub("", text_of(page))):
        if not re.match(r"python|docker|uvx|npx|pip", span):
            assert {*re.findall(r"(?<![\w-])--[a-z][\w-]*", span)} <= known, span


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
    page = text_of(f"docs/how-to/{name}.md")
    table = r"^\| (?:message|error) \|.*\n\|[-|]+\n((?:\|.*\n)+)"
    rows = "".join(re.findall(table, page, re.MULTILINE))
    parts = list[str]()
    for row in rows.splitlines():
        for message in re.findall(r"`([^`]+)`", row.split("|")[1]):
            parts += map(str.strip, VARYING.split(message))
    assert len(parts) > 5
    assert missing(source(), parts) <= COMPOSED


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

    examples = [ma.Example(id=name, inputs="Hello?", outputs="Hi.") for name in "abc"]
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
