"""Parts of the pages that the code makes: prompts, tables of facts, a month's costs.

    python repository_tests/page_parts.py     writes them all anew into docs/

A part is a comment `<!-- made: NAME -->` in a page, what was made, and `<!-- end -->`. A test compares each with what the
code makes now, so that no page says what the code no longer does.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "benchmarks"))

from loopback import Body, Loopback, text_of  # noqa: E402

import memalign as ma  # noqa: E402
from memalign.models.catalogue import CATALOGUE  # noqa: E402
from memalign.models.list_prices import list_price_of  # noqa: E402
from memalign.models.providers import DEFAULTS, PROVIDERS, target_of  # noqa: E402
from memalign.testing import ScriptedChatModel  # noqa: E402
from memalign.types import Usage  # noqa: E402

SUPPORT = ROOT / "examples" / "support"
PART = re.compile(r"(<!-- made: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


class CachingLoopback(Loopback):
    """A server that counts cached tokens, as OpenAI bills them.

    They are the longest beginnings in steps of 128 tokens, from 1,024 up, that an answered request had as well.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cache: set[bytes] = set()

    def forget(self) -> None:
        self.take()
        self._cache.clear()

    def reply(self, path: str, body: Body) -> tuple[int, Body]:
        if not path.endswith("/chat/completions"):
            return super().reply(path, body)
        texts = [json.dumps(body.get("response_format") or ""), *map(text_of, body["messages"])]
        prompt = "\n".join(texts).encode("utf-8", "surrogatepass")
        beginnings = [hashlib.sha256(prompt[:end]).digest() for end in range(512, len(prompt) + 1, 512)]
        with self._lock:
            steps = next((n for n, digest in enumerate(beginnings) if digest not in self._cache), len(beginnings))
        status, answer = super().reply(path, body)
        with self._lock:
            self._cache.update(beginnings)
            cached = 128 * steps if steps >= 8 else 0
            self._counts["cached"] += cached
        if status == 200:
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
        return status, answer


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, line))} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


# -- facts -------------------------------------------------------------------------------------------------------------


def embedded_models() -> str:
    rows = [
        (
            f"`local:{m.name}`",
            m.megabytes,
            f"`{m.sha256}`",
            f"{m.parts} packages, `{m.package.format(n=1)}` … {m.version}",
        )
        for m in CATALOGUE.values()
    ]
    return table(("model", "download", "SHA-256", "second source"), rows)


def default_models() -> str:
    return table(("key", "model"), [(f"`{key}`", f"`{model}`") for key, model in DEFAULTS])


def provider_keys() -> str:
    keyed = [(f"`{name}:`", " or ".join(f"`{key}`" for key in keys)) for name, keys in PROVIDERS.items() if keys]
    keyed += [("", "")] * (len(keyed) % 2)
    rows = [[cell for pair in keyed[start : start + 2] for cell in pair] for start in range(0, len(keyed), 2)]
    rest = ", ".join(f"`{name}:`" for name, keys in PROVIDERS.items() if not keys)
    names = table(("models", "key") * 2, rows)
    return f"{names}\nFor {rest} and any other provider that pydantic-ai knows, it finds the credentials itself.\n"


def secret_files() -> str:
    from memalign_server.settings import SECRETS

    return f"The secrets that may be in files are {', '.join(f'`{name}`' for name in SECRETS)}.\n"


@functools.cache
def description() -> dict[str, Any]:
    """The server's own description of its API."""
    from memalign_server.app import create_app
    from memalign_server.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        return create_app(Settings(registry=f"sqlite:///{folder}/memalign.db")).openapi()


def routes() -> str:
    rows = []
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            query = [
                _field(entry["name"], entry["schema"], "query")
                for entry in operation.get("parameters", ())
                if entry["in"] == "query"
            ]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            (code,) = (code for code in operation["responses"] if code.startswith("2"))
            answer = _type(operation["responses"][code]["content"]["application/json"]["schema"])
            words = " ".join(operation["description"].split())
            route = f"`{method.upper()} {path.removeprefix('/api/v1/')}`"
            rows.append((f"{route}<br>answers {code} with {answer}", words, ", ".join([*query, *_fields(body)])))
    return table(("route", "does", "takes"), rows)


def answers() -> str:
    schemas = description()["components"]["schemas"]
    names = ("Person", "JudgeSummary", "Job", "ReviewCases", "ReviewCase", "AnswerState")
    rows = []
    for name in names:
        fields = ", ".join(_field(field, part) for field, part in schemas[name]["properties"].items())
        rows.append((f"`{name}`", " ".join(schemas[name].get("description", "").split()), fields))
    return table(("answer", "is", "fields"), rows)


def _fields(body: Mapping[str, Any]) -> list[str]:
    if "$ref" not in body:
        return []
    schema = description()["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    needed = schema.get("required", ())
    return [
        _field(name, part, *(["required"] if name in needed else [])) for name, part in schema["properties"].items()
    ]


def _field(name: str, schema: Mapping[str, Any], *notes: str) -> str:
    default = schema.get("default")
    usual = [] if default in (None, "", [], {}) else [f"default `{json.dumps(default)}`"]
    return f"`{name}` ({'; '.join([_type(schema), *notes, *usual])})"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        kinds = [_type(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"a list of {_type(schema['items'])}"
    if schema.get("title", "").startswith("Response"):  # a value of the library, which the description has whole
        return "a [judgment](formats.md#judgments)"
    return str(schema.get("type", "any JSON value"))


# -- prompts -----------------------------------------------------------------------------------------------------------

INSTRUCTIONS = "Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
CASE = {"inputs": "My glass arrived in pieces!", "outputs": "Please fill in the form."}
LEARNED = {
    "changes": [
        {
            "action": "ADD",
            "feedback": ["F2", "F3", "F5"],
            "text": "When a customer reports that something went wrong, the reply expresses regret before it explains "
            "rules or next steps: true if it does, false if it goes straight to the procedure.",
            "guideline": "",
            "checks": [
                {"question": "Does the customer report that something went wrong?", "answer": "yes"},
                {"question": "Does the reply express regret?", "answer": "no"},
            ],
            "value": "false",
        },
        {
            "action": "ADD",
            "feedback": ["F1"],
            "text": "When a customer asks where or when something is, a reply that gives a time is helpful, even if it "
            "is short: true.",
            "guideline": "",
            "checks": [
                {"question": "Does the customer ask where or when something is?", "answer": "yes"},
                {"question": "Does the reply give a time?", "answer": "yes"},
            ],
            "value": "true",
        },
        {
            "action": "ADD",
            "feedback": ["F4"],
            "text": "When the question is a plain how-to without a complaint, a short answer that names the right place "
            "is enough: true.",
            "guideline": "",
            "checks": [{"question": "Is the question a plain how-to without a complaint?", "answer": "yes"}],
            "value": "true",
        },
    ],
    "conflicts": [],
}
"""What a frontier model answered to the very prompt of the page."""
VERDICT = {
    "findings": [{"guideline": "G1", "evidence": "Please fill in the form.", "value": False}],
    "rationale": "The customer reports broken glass, and the reply goes straight to a form without a word of regret. "
    "Nor does it say what happens next.",
    "value": False,
}
"""What it answered to the other one."""
CHANCES = {"regret": 0.04, "wrong": 0.97, "something is?": 0.02, "a time": 0.03, "how-to": 0.05}


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
    plain = ma.Judge(name="helpfulness", feedback_value_type=bool, model=model, instructions=INSTRUCTIONS)
    result = plain.align(str(SUPPORT / "feedback.jsonl"))
    judgment = result.judge(**CASE)
    learned = [
        {name: part for name, part in change.items() if name not in ("checks", "value")}
        for change in LEARNED["changes"]
    ]
    return {
        "distil-system": asked["changes"].system,
        "distil-user": asked["changes"].user,
        "distil-answer": _json(LEARNED | {"changes": learned}),
        "guidelines": "\n".join(map(str, result.judge.memory.semantic)),
        "judge-system": asked["judgment"].system,
        "judge-user": asked["judgment"].user,
        "judge-answer": _json(VERDICT),
        "judge-judgment": _json(_told(judgment)),
        **_decision(model),
    }


def _decision(model: ScriptedChatModel) -> dict[str, str]:
    """The request of a decision model about the same reply, as it goes over the wire, its answer, and the judgment."""
    bodies: list[Any] = []

    def chance(question: str) -> float:
        return next(share for words, share in CHANCES.items() if words in question)

    def decide(body: Any) -> Any:
        bodies.append(body)
        answers = {}
        for name, question in body["questions"].items():
            shares = {"false": 0.81, "true": 0.19}
            if name != "value":
                yes = chance(question["instructions"])
                shares = {"yes": yes, "no": round(0.99 - yes, 2), "n/a": 0.01}
            choice = max(shares, key=lambda label: shares[label])
            answers[name] = {"type": "choice", "choice": choice, "confidence": shares[choice], "probabilities": shares}
        return answers

    with Loopback(lambda _: {}, decide) as server:
        decider = f"system-one:decider@{server.base_url.removesuffix('/v1')}"
        judge = ma.Judge(name="helpfulness", feedback_value_type=bool, model=decider, instructions=INSTRUCTIONS)
        judgment = judge.align(str(SUPPORT / "feedback.jsonl"), optimizer=ma.MemAlign(reflection_model=model)).judge(
            **CASE
        )
    (body,) = bodies
    answers = {name: answer["probabilities"] for name, answer in decide(body).items()}
    return {
        "decision-request": _json({name: body[name] for name in ("state", "questions")}),
        "decision-answer": _json(answers),
        "decision-judgment": _json(_told(judgment)),
    }


def _told(judgment: ma.Judgment) -> dict[str, Any]:
    """What a judgment says, without what it cost and which memory it was."""
    fields = judgment.to_dict()
    names = ("value", "confidence", "rationale", "decided_by", "guideline_ids", "example_ids", "findings")
    findings = [
        {
            name: round(part, 2) if isinstance(part, float) else part
            for name, part in finding.items()
            if part not in (None, "", []) and not (name == "taught_by" and finding["contribution"] is not None)
        }
        for finding in fields["findings"]
    ]
    return {**{name: fields[name] for name in names}, "findings": findings}


def _json(value: object, indent: str = "") -> str:
    """JSON as people read it: what fits in a line is on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{deeper}{json.dumps(name)}: {_json(part, deeper)}" for name, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + _json(part, deeper) for part in value) + f"\n{indent}]"


# -- a month -----------------------------------------------------------------------------------------------------------

COMMENTS, LOTS, JUDGMENTS, SAMPLE, HELD_OUT = 200, 4, 100_000, 60, 100
CHAT = ("openai:gpt-4.1-mini", "google:gemini-3.1-flash-lite", "anthropic:claude-haiku-4-5", "openai:gpt-4.1")
DECIDER = "typesafe:jev-latest"


THINGS = ("parcel", "invoice", "refund", "password", "subscription", "lamp", "voucher", "address")
DEMANDS = (
    *(
        "name the next step and who takes it",
        "say when the customer hears from us again",
        "give the exact amount or date",
    ),
    *("apologise before explaining", "answer the question that was asked first", "link the form that is needed"),
    *("explain the reason in one plain sentence", "offer a choice between two ways", "confirm what was understood"),
)
REASON = "The reply has to name the next step and who takes it; how it does that decides, and its tone is fitting here."


def tickets(count: int) -> list[dict[str, Any]]:
    """Short support replies with an expert's label and comment; no two alike, and the same every time."""
    return [
        {
            "id": f"t-{n}",
            "inputs": f"My {THINGS[n % 8]} (order {10_000 + 7 * n}) has not come, and nobody answered twice. Who can help me?",
            "outputs": f"Thank you for writing. About order {10_000 + 7 * n}: our warehouse sends a new one on day {n % 28}.",
            "value": n % 3 > 0,
            "rationale": f"We always {DEMANDS[n % 9]}. This was about a {THINGS[n % 8]}, where customers worry most.",
            "source": ("ana", "ben", "chloe", "dan", "eva")[n % 5],
        }
        for n in range(count)
    ]


def _month_chat(body: Any) -> Any:
    """What a chat model might say: a guideline of two demands for five comments, or findings, a reason and a verdict."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    prompt = "\n".join(message["content"] for message in body["messages"])
    if "changes" not in properties:
        shown = re.findall(r"^(G\d+): ", prompt, re.MULTILINE)[:2]
        findings = [{"guideline": name, "evidence": "sends a new one", "value": True} for name in shown]
        return {"findings": findings, "rationale": REASON, "value": True}
    change = properties["changes"]["items"]["properties"]
    labels, changes = change["feedback"]["items"]["enum"], []
    for start in range(0, len(labels), 5):
        draw = zlib.crc32(f"{start} {prompt}".encode())
        demands, thing = (DEMANDS[draw % 9], DEMANDS[draw // 9 % 9]), THINGS[draw // 81 % 8]
        text = f"When the query is about a {thing}, a helpful reply must {' and '.join(demands)}, unless the case is closed."
        questions = [{"question": f"Does the reply about a {thing} {demand}?", "answer": "yes"} for demand in demands]
        entry = {
            "action": "ADD",
            "feedback": labels[start : start + 5],
            "text": text,
            "guideline": "",
            "checks": questions,
        }
        changes.append({name: entry.get(name, "true" if name == "value" else []) for name in change})
    return {"changes": changes, "conflicts": []}


def _month_decide(body: Any) -> Any:
    answers = {}
    for name, question in body["questions"].items():
        options = list(question["criteria"])
        shares = {option: 0.7 if option == options[0] else 0.3 / (len(options) - 1) for option in options}
        answers[name] = {"type": "choice", "choice": options[0], "confidence": 0.7, "probabilities": shares}
    return answers


@functools.cache
def month() -> dict[str, Counter[str]]:
    """What a month asks of a chat model, and of a decision model beside it: calls and tokens by kind of work."""
    rows, work = tickets(COMMENTS + SAMPLE), dict[str, Counter[str]]()
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows[COMMENTS:]]
    with CachingLoopback(_month_chat, _month_decide) as server, mock.patch.dict(os.environ, {"OPENAI_API_KEY": "k"}):
        os.environ["OPENAI_BASE_URL"] = server.base_url
        for kind, model in (("chat", CHAT[0]), ("decision", f"system-one:jev@{server.base_url}")):
            parameters = {"reflection_model": CHAT[0]}
            judge = ma.Judge(
                name="helpfulness",
                instructions=INSTRUCTIONS,
                feedback_value_type=bool,
                model=model,
                parameters=parameters,
            )
            server.forget()
            for start in range(0, COMMENTS, COMMENTS // LOTS):
                judge = judge.align(rows[start : start + COMMENTS // LOTS]).judge
            assert not judge.memory.pending
            # Calls side by side: which of them finds the cache filled is chance, so none of it counts.
            work[f"{kind} learning"] = Counter({**server.take(), "cached": 0})
            judge(**items[0])  # from the second judgment on the prefix is in the provider's cache
            server.take()
            for item in items[1:]:
                judge(**item)
            times = (JUDGMENTS + LOTS * HELD_OUT) / (SAMPLE - 1)
            work[f"{kind} judging"] = Counter({name: round(n * times) for name, n in server.take().items()})
    return work


def month_work() -> str:
    work = month()
    rows = []
    for kind, model in (("chat", "a chat model"), ("decision", "a decision model")):
        for step, words in (("learning", f"{LOTS} aligns of {COMMENTS // LOTS} comments"), ("judging", "judging")):
            counts = work[f"{kind} {step}"]
            calls = counts["calls"] + counts["decisions"]
            tokens = counts["tokens_in"] + counts["decision_tokens"]
            numbers = (calls, tokens, counts["cached"], counts["tokens_out"])
            rows.append((f"{words}, {model} judges", *(f"{number:,}" for number in numbers)))
    return table(("work", "calls", "tokens in", "of these cached", "tokens out"), rows)


def month_cost() -> str:
    work, rows = month(), []
    for name in CHAT:
        learning, judging = (_dollars(name, work[f"chat {step}"]) for step in ("learning", "judging"))
        rows.append((f"`{name}`", f"{learning:.2f}", f"{judging:,.2f}", f"{learning + judging:,.2f}"))
    learning = sum(_dollars(name, work["decision learning"]) for name in (CHAT[0], DECIDER))
    judging = _dollars(DECIDER, work["decision judging"])
    rows.append(
        (f"`{DECIDER}`, guidelines by `{CHAT[0]}`", f"{learning:.2f}", f"{judging:,.2f}", f"{learning + judging:,.2f}")
    )
    return table(("model", "learning, dollars", "judging, dollars", "the month, dollars"), rows)


def month_each() -> str:
    counts, per = month()["chat judging"], JUDGMENTS + LOTS * HELD_OUT
    decisions = month()["decision judging"]
    return (
        f"A judgment of the chat model reads {counts['tokens_in'] / per:,.0f} tokens, of which {counts['cached'] / per:,.0f} "
        f"come from the provider's cache, and writes {counts['tokens_out'] / per:,.0f}. One of the decision model reads "
        f"{decisions['decision_tokens'] / per:,.0f} tokens and writes nothing.\n"
    )


def _dollars(name: str, counts: Mapping[str, int]) -> float:
    """By the price list that memalign uses; of a decision model only what it was asked."""
    decides = name == DECIDER
    usage = Usage(
        input_tokens=counts["decision_tokens"] if decides else counts["tokens_in"],
        cached_tokens=0 if decides else counts["cached"],
        output_tokens=0 if decides else counts["tokens_out"],
    )
    keys = {key: "k" for names in PROVIDERS.values() for key in names}
    with mock.patch.dict(os.environ, keys):
        cost = list_price_of(usage, target_of(name))
    assert cost is not None, f"the price list does not know {name}"
    return cost


# -- all of them -------------------------------------------------------------------------------------------------------

PROMPTS = {
    **dict.fromkeys(("distil-system", "distil-user", "judge-system", "judge-user", "guidelines"), "text"),
    **dict.fromkeys(("distil-answer", "judge-answer", "judge-judgment"), "json"),
    **dict.fromkeys(("decision-request", "decision-answer", "decision-judgment"), "json"),
}


def prompt_part(name: str, language: str) -> str:
    return fenced(prompts()[name], language)


MADE: dict[str, Callable[[], str]] = {
    "embedded-models": embedded_models,
    "default-models": default_models,
    "provider-keys": provider_keys,
    "secret-files": secret_files,
    "routes": routes,
    "answers": answers,
    "month-work": month_work,
    "month-cost": month_cost,
    "month-each": month_each,
    **{name: functools.partial(prompt_part, name, language) for name, language in PROMPTS.items()},
}


def with_parts(text: str) -> str:
    """A page with its parts as the code makes them now."""
    return PART.sub(lambda part: f"{part[1]}\n{MADE[part[2]]()}\n{part[4]}", text)


def main() -> None:
    """Write all parts."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if (made := with_parts(text)) != text:
            page.write_text(made, "utf-8")
            sys.stderr.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
