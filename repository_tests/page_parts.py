"""Parts of the pages that the code makes: prompts, tables of facts, a month's costs.

    python repository_tests/page_parts.py     writes them all again into docs/

A part is a comment `<!-- made: NAME -->` in a page, what was made, and `<!-- end -->`. A test
compares each with what the code makes now, so that no page says what the code no longer does.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import pydoc
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from checkout import ROOT, text_of

import memalign as ma
from memalign.models.catalogue import CATALOGUE
from memalign.models.list_prices import list_price
from memalign.models.providers import PROVIDERS, target_of
from memalign.testing import ScriptedChatModel
from memalign.types import Usage

sys.path.insert(0, str(ROOT / "benchmarks"))
from loopback import Loopback

DOCS = ROOT / "docs"
FEEDBACK = str(ROOT / "examples/support/feedback.jsonl")
PART = re.compile(r"(<!-- made: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    below = ["---"] * len(head)
    lines = ""
    for line in (head, *rows):
        cells = " | ".join(map(str, line))
        lines += f"| {cells} |\n"
        if line is head:
            lines += f"|{'|'.join(below)}|\n"
    return lines


# -- facts -----------------------------------------------------------------------------


def embedded_models() -> str:
    rows = []
    for model in CATALOGUE.values():
        name = f"`local:{model.name}`"
        package = model.package.format(n=1)
        source = f"{model.parts} packages, `{package}` … {model.version}"
        rows.append((name, model.megabytes, f"`{model.sha256}`", source))
    return table(("model", "download", "SHA-256", "second source"), rows)


def default_models() -> str:
    rows = []
    for name, traits in PROVIDERS.items():
        for key in traits.keys if traits.small else ():
            rows.append((f"`{key}`", f"`{name}:{traits.small}`"))
    return table(("key", "model"), rows)


def provider_keys() -> str:
    rows = []
    for name, traits in PROVIDERS.items():
        rows.append((f"`{name}:`", f"`{'` or `'.join(traits.keys)}`"))
    return table(("models", "key"), rows)


def secret_files() -> str:
    from memalign_server.settings import SECRETS

    return f"The secrets that may be in files are `{'`, `'.join(SECRETS)}`.\n"


@functools.cache
def description() -> dict[str, Any]:
    """The server's own description of its API."""
    from memalign_server.app import create_app
    from memalign_server.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(registry=f"sqlite:///{folder}/memalign.db")
        described: dict[str, Any] = create_app(settings).openapi()
    return described


def routes() -> str:
    rows = []
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            takes = []
            for entry in operation.get("parameters", ()):
                if entry["in"] == "query":
                    takes.append(_field(entry["name"], entry["schema"], "query"))
            if "requestBody" in operation:
                schema = _named(_json_schema(operation["requestBody"])["$ref"])
                takes += _fields(schema, schema.get("required", ()))
            (code,) = filter(re.compile("2").match, operation["responses"])
            given = _type(_json_schema(operation["responses"][code]))
            route = f"`{method.upper()} {path.removeprefix('/api/v1/')}`"
            words = " ".join(operation["description"].split())
            answer = f"{route}<br>answers {code} with {given}"
            rows.append((answer, words, ", ".join(takes)))
    return table(("route", "does", "takes"), rows)


def answers() -> str:
    rows = []
    for name in ("Person", "JudgeSummary", "Job"):
        schema = _named(name)
        words = " ".join(schema.get("description", "").split())
        rows.append((f"`{name}`", words, ", ".join(_fields(schema))))
    return table(("answer", "is", "fields"), rows)


def _json_schema(message: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a request or a response."""
    schema: dict[str, Any] = message["content"]["application/json"]["schema"]
    return schema


def _named(reference: str) -> dict[str, Any]:
    """The schema that a reference names."""
    schemas: dict[str, dict[str, Any]] = description()["components"]["schemas"]
    return schemas[reference.rpartition("/")[2]]


def _fields(schema: Mapping[str, Any], needed: Sequence[str] = ()) -> list[str]:
    fields = []
    for name, part in schema["properties"].items():
        notes = ["required"] if name in needed else []
        fields.append(_field(name, part, *notes))
    return fields


def _field(name: str, schema: Mapping[str, Any], *notes: str) -> str:
    told = [_type(schema), *notes]
    default = schema.get("default")
    if default not in (None, "", [], {}):
        told.append(f"default `{json.dumps(default)}`")
    return f"`{name}` ({'; '.join(told)})"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        kinds = [_type(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return f"`{'` or `'.join(schema['enum'])}`"
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"a list of {_type(schema['items'])}"
    if schema.get("title", "").startswith("Response"):
        # A value of the library, which the description has whole.
        return "a [judgment](formats.md#judgments)"
    return str(schema.get("type", "any JSON value"))


# -- prompts ---------------------------------------------------------------------------

INSTRUCTIONS = "Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
CASE = {"inputs": "My glass arrived in pieces!", "outputs": "Please fill in the form."}


def rule(feedback: Sequence[str], text: str) -> dict[str, Any]:
    """A change that adds a guideline."""
    return {"action": "ADD", "feedback": feedback, "text": text, "guideline": ""}


LEARNED = {
    "changes": [
        rule(
            ["F2", "F3", "F5"],
            "When a customer reports that something went wrong, the reply expresses regret "
            "before it explains rules or next steps: true if it does, false if it goes "
            "straight to the procedure.",
        ),
        rule(
            ["F1"],
            "When a customer asks where or when something is, a reply that gives a time is "
            "helpful, even if it is short: true.",
        ),
        rule(
            ["F4"],
            "When the question is a plain how-to without a complaint, a short answer that "
            "names the right place is enough: true.",
        ),
    ],
    "conflicts": [],
}
"""What a frontier model answered to the very prompt of the page."""
VERDICT = {
    "findings": [
        {"guideline": "G1", "evidence": "Please fill in the form.", "value": False}
    ],
    "rationale": "The customer reports broken glass, and the reply goes straight to a form "
    "without a word of regret. Nor does it say what happens next.",
    "value": False,
}
"""What it answered to the other one."""
CHANCES = {"G1": 0.94, "G2": 0.03, "G3": 0.05}


WIDTH = 170
"""Characters of a line of JSON: of more, its parts have lines of their own."""


@functools.cache
def prompts() -> dict[str, str]:
    """The prompts and answers of one judge, which learns five comments and judges one reply."""
    asked = {}

    def answer(request: Any) -> Any:
        asked[request.schema_name] = request
        return LEARNED if request.schema_name == "changes" else VERDICT

    model = ScriptedChatModel(answer, name="chat-model")
    result = _judge(model).align(FEEDBACK)
    judgment = result.judge(**CASE)
    return {
        "distil-system": asked["changes"].system,
        "distil-user": asked["changes"].user,
        "distil-answer": _json(LEARNED),
        "guidelines": "\n".join(map(str, result.judge.memory.semantic)),
        "judge-system": asked["judgment"].system,
        "judge-user": asked["judgment"].user,
        "judge-answer": _json(VERDICT),
        "judge-judgment": _json(_told(judgment)),
        **_decision(model),
    }


def _judge(model: ScriptedChatModel | str) -> ma.Judge[bool]:
    return ma.Judge(
        name="helpfulness",
        feedback_value_type=bool,
        model=model,
        instructions=INSTRUCTIONS,
    )


def _decision(model: ScriptedChatModel) -> dict[str, str]:
    """The request of a decision model about the same reply, as it goes over the wire,
    its answer, and the judgment."""
    bodies: list[Any] = []

    def decide(body: Any) -> Any:
        bodies.append(body)
        answers: dict[str, Any] = {}
        for name, question in body["questions"].items():
            if question["type"] == "noul":
                answers[name] = {"type": "noul", "noul": CHANCES[name]}
            else:
                answers[name] = {
                    "type": "choice",
                    "choice": "false",
                    "confidence": 0.81,
                    "probabilities": {"false": 0.81, "true": 0.19},
                }
        return answers

    with Loopback(lambda _: {}, decide) as server:
        judge = _judge(f"system-one:decider@{server.base_url.removesuffix('/v1')}")
        optimizer = ma.MemAlign(reflection_model=model)
        judgment = judge.align(FEEDBACK, optimizer=optimizer).judge(**CASE)
    (body,) = bodies
    answers = decide(body)
    for name, answer in answers.items():
        answers[name] = answer.get("probabilities", answer.get("noul"))
    request = {"state": body["state"], "questions": body["questions"]}
    return {
        "decision-request": _json(request),
        "decision-answer": _json(answers),
        "decision-judgment": _json(_told(judgment)),
    }


def _told(judgment: ma.Judgment) -> dict[str, Any]:
    """What a judgment says, without what it cost and which memory it was."""
    fields = judgment.to_dict()
    told = {}
    for name in (
        "value",
        "confidence",
        "rationale",
        "decided_by",
        "guideline_ids",
        "example_ids",
    ):
        told[name] = fields[name]
    findings = []
    for finding in fields["findings"]:
        shown = {}
        for name, part in finding.items():
            if part not in (None, "", []):
                shown[name] = round(part, 2) if isinstance(part, float) else part
        findings.append(shown)
    return {**told, "findings": findings}


def _json(value: object, indent: str = "") -> str:
    """JSON as people read it: what fits in a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    begin, end = "{}" if isinstance(value, dict) else "[]"
    parts = []
    for part in value:
        if isinstance(value, dict):
            inner = _json(value[part], deeper)
            parts.append(f"{deeper}{json.dumps(part)}: {inner}")
        else:
            inner = _json(part, deeper)
            parts.append(f"{deeper}{inner}")
    return f"{begin}\n" + ",\n".join(parts) + f"\n{indent}{end}"


# -- a month ---------------------------------------------------------------------------

MONTH = {
    "4 aligns of 50 comments, a chat model judges": (4, 24_155, 0, 2_665),
    "100,400 judgments of the chat model": (
        100_400,
        249_713_519,
        193_639_268,
        7_329_200,
    ),
}
"""Calls and tokens of a month (in, of these cached, out), counted once by a server that
bills its cache as OpenAI does."""
CHAT = (
    "openai:gpt-4.1-mini",
    "google:gemini-3.1-flash-lite",
    "anthropic:claude-haiku-4-5",
    "openai:gpt-4.1",
)


def month_work() -> str:
    rows = []
    for work, counts in MONTH.items():
        rows.append((work, *map("{:,}".format, counts)))
    return table(("work", "calls", "tokens in", "of these cached", "tokens out"), rows)


def month_cost() -> str:
    learns, judges = (counts[1:] for counts in MONTH.values())
    rows = []
    for name in CHAT:
        learn = _dollars(name, learns)
        judge = _dollars(name, judges)
        bill = map("{:,.2f}".format, (learn, judge, learn + judge))
        rows.append((f"`{name}`", *bill))
    return table(
        ("model", "learning, dollars", "judging, dollars", "the month, dollars"), rows
    )


def _dollars(name: str, tokens: tuple[int, int, int]) -> float:
    """By the price list that memalign uses."""
    usage = Usage(
        input_tokens=tokens[0], cached_tokens=tokens[1], output_tokens=tokens[2]
    )
    with mock.patch.dict(os.environ):
        for traits in PROVIDERS.values():
            os.environ.update(dict.fromkeys(traits.keys, "k"))
        cost = list_price(usage, target_of(name))
    assert cost is not None, f"the price list does not know {name}"
    return cost


# -- the reference of commands and of Python -------------------------------------------

ENTRY = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)
MEMBERS = re.compile(r"members: \[(.*?)\]")
SENTENCE = re.compile(r".*?\.(?= |$)")


@functools.cache
def commands() -> str:
    """The commands with their help, as the site shows them."""
    made: str = runpy.run_path(str(DOCS / "site.py"))["commands"]()
    return made


def names(page: str) -> str:
    """The names of a page of the Python reference, each with its arguments and its
    first sentence."""
    rows = []
    for target, options in ENTRY.findall(text_of(f"docs/reference/api/{page}.md")):
        thing = pydoc.locate(target)
        listed = MEMBERS.search(options)
        members = listed[1].split(", ") if listed else _public_names(thing)
        owner = ""
        if inspect.isclass(thing):
            owner = f"{target.rpartition('.')[2]}."
        if not inspect.ismodule(thing):
            rows.append(_name_row(target.removeprefix("memalign."), thing))
        for member in members:
            rows.append(_name_row(f"{owner}{member}", getattr(thing, member)))
    return table(("name", "in one sentence"), rows)


def _public_names(thing: Any) -> list[str]:
    """The names of a module, or the methods of a class without their async twins."""
    if inspect.ismodule(thing):
        return [
            name
            for name in getattr(thing, "__all__", ())
            if inspect.isclass(getattr(thing, name))
            or inspect.isfunction(getattr(thing, name))
        ]
    if not inspect.isclass(thing):
        return []
    found = [name for name, value in vars(thing).items() if inspect.isfunction(value)]
    twins = {f"a{name}" for name in found}
    return [name for name in found if not name.startswith("_") and name not in twins]


def _name_row(name: str, thing: Any) -> tuple[str, str]:
    arguments = ""
    if inspect.isfunction(thing) or inspect.ismethod(thing):
        given = list(inspect.signature(thing).parameters.values())
        shown = [each.name for each in given if each.name != "self"]
        named = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
        if named:
            shown.insert(shown.index(named[0]), "*")
        arguments = f"({', '.join(shown)})"
    words = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    sentence = SENTENCE.match(words)
    told = (sentence[0] if sentence else words).replace("|", "\\|")
    return f"`{name}{arguments}`", told


# -- all of them -----------------------------------------------------------------------

FACTS: tuple[Any, ...] = (
    embedded_models,
    default_models,
    provider_keys,
    secret_files,
    routes,
    answers,
    commands,
)
MADE: dict[str, Callable[[], str]] = {
    fact.__name__.replace("_", "-"): fact for fact in (*FACTS, month_work, month_cost)
}


def part(name: str) -> str:
    """A part as the code makes it now: a fact, or a prompt or answer in a block."""
    if name in MADE:
        return MADE[name]()
    if name.startswith("names-"):
        return names(name.removeprefix("names-"))
    text = prompts()[name]
    return fenced(text, "json" if text.startswith("{") else "text")


def with_parts(text: str) -> str:
    """A page with its parts as the code makes them now."""

    def made(match: re.Match[str]) -> str:
        begin, name, _, end = match.groups()
        return f"{begin}\n{part(name)}\n{end}"

    return PART.sub(made, text)


def main() -> None:
    """Write all parts."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if (made := with_parts(text)) != text:
            page.write_text(made, "utf-8")
            sys.stderr.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
