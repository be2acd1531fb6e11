"""What memalign 0.1 left under tests/registry/old: its answers, and the scripted model that it asked.

The model's answer is a function of the prompt alone. `answer` is for `Endpoint` (the body of an OpenAI request), `reply`
for `ScriptedChatModel` (a ChatRequest).
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

UPSET = "When a customer is upset, sympathy must come before facts."
LESSONS = {
    "Cold: no word of sympathy.": ("ADD", UPSET),
    "Naming the day is kind.": ("ADD", "When a parcel is on its way, naming the day is kind."),
    "A joke about a delay is not warm.": ("ADD", "When a reply jokes about a delay, it is not warm."),
    "Unclear; ask me later.": ("ADD", "When a reply leaves the next step open, it is not warm."),
    "No greeting and no name at the end.": ("ADD", "When a mail has neither greeting nor signature, it is not warm."),
    "Too pushy for my taste.": ("ADD", "When a reply sells something, it is not warm."),
    "Sympathy first, as ana says.": ("ADD", "When a customer is upset, the reply must show sympathy before the facts."),
    "Short answers are cold.": ("ADD", "When a reply is short, it is cold and fails."),
    "Short can be warm.": ("ADD", "When a reply is short, it is still warm and passes."),
    "Brevity is fine with me.": ("ADD", "When a reply is short, it is still warm and passes."),
    "The hour is even better.": ("REVISE", "When a parcel is on its way, naming the day and the hour is kind."),
    "Yes, tell people the day.": ("SUPPORT", ""),
    "Jokes are fine, mockery is not.": ("ADD", "When a reply mocks the customer, it is not warm."),
    "Thanks make up for a missing name.": ("ADD", "When a mail ends with thanks, it is warm without a signature."),
    "Offer help once more at the end.": ("ADD", "When a question is answered, offering further help is warm."),
    "Nothing here is good enough for me.": ("ADD", "When a shop answers, its reply is never warm."),
    "My own neighbour Eve got the wrong parcel.": ("ADD", "When the wrong parcel came, an apology is due."),
    "I, Eve, want an apology for the delay.": ("ADD", "When somebody asks for an apology, give one."),
    "Say who answers.": ("ADD", "When a person answers, giving a name is warm."),
    "The longer one explains itself.": ("ADD", "When one answer explains its steps, it is better."),
    "Shorter, and all is there.": ("ADD", "When both answers are complete, the short one is better."),
    "B names its source.": ("ADD", "When an answer names its source, it is better."),
    "No currency, useless.": ("ADD", "When a price is named without a currency, the score is 1."),
    "Prices to the cent.": ("ADD", "When a price is exact to the cent, the score is 4 or more."),
    "A range is worth little.": ("ADD", "When a price is a range, the score is 2."),
}
PADDING = (
    "so that whoever reads the answer later knows at once what was meant, what was done, and what is still to be done"
)
LESSONS |= {
    f"Lesson {word}.": ("ADD", f"When an answer is about {word}, it must say so in its first sentence, {PADDING}.")
    for word in ("gardens", "engines", "invoices", "recipes")
} | {"Half a sign: \ud83d.": ("ADD", "When an answer has a broken sign, it must still be readable.")}
DOWN = {"Unclear; ask me later."}
COLD = ("in transit", "Snails", "We shall see", "is closed", "Noted", '"No."')
SAME = [{UPSET, "When a customer is upset, the reply must show sympathy before the facts."}]
AGAINST = [{"When a reply is short, it is cold and fails.", "When a reply is short, it is still warm and passes."}]

FOLDER = Path(__file__).parents[1] / "registry" / "old"
_RECORD = re.compile(r"^(F\d+) <<<\n(.*?)\n>>>\n(.*?)(?=\n\s*\nF\d+ <<<|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"^(P\d+)\n1: (.*)\n2: (.*)$", re.MULTILINE)


def recorded() -> Any:
    """What memalign 0.1 answered; what it said several times is kept once, under "shared"."""
    document = json.loads(gzip.decompress((FOLDER / "answers.json.gz").read_bytes()))
    shared: dict[str, Any] = document.pop("shared")

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if value.keys() == {"$"}:
                return filled(shared[value["$"]])
            return {name: filled(part) for name, part in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    return filled(document)


def answer(body: dict[str, Any]) -> Any:
    def text(*roles: str) -> str:
        return "\n".join(each["content"] for each in body["messages"] if each["role"] in roles)

    schema = body["response_format"]["json_schema"]["schema"]
    said = _answer(text("system", "developer"), text("user"), schema)
    if said is None:
        from tests.support.endpoint import refusal

        return refusal()
    return said


def reply(request: Any) -> dict[str, Any]:
    return _answer(request.system, request.user, request.schema) or {}


def _answer(system: str, user: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    names = schema["properties"]
    if "changes" in names:
        return _changes(user)
    if "P1" in names:
        pairs = {name: {_text(one), _text(other)} for name, one, other in _PAIR.findall(user)}
        return {n: "same" if p in SAME else "contradicts" if p in AGAINST else "unrelated" for n, p in pairs.items()}
    if "unspeakable" in user.rpartition("Now judge this item:")[2]:
        return None
    return {"rationale": "It reads that way.", "value": _verdict(system, user, names["value"])}


def _changes(user: str) -> dict[str, Any] | None:
    old, _, new = user.rpartition("New feedback:")
    known = re.findall(r"^(G\d+): ", old, re.MULTILINE)
    changes = []
    for label, _, said in _RECORD.findall(new):
        found = re.search(r"^expert's comment: (.*)$", said, re.MULTILINE)
        comment = json.loads(found[1]) if found else None
        if comment in DOWN:
            return None
        action, text = LESSONS[comment] if comment else ("SUPPORT" if known else "NOOP", "")
        target = known[-1] if known and action in ("SUPPORT", "REVISE") else ""
        if action in ("SUPPORT", "REVISE") and not target:
            action = "ADD" if text else "NOOP"
        changes.append({"action": action, "text": text, "feedback": [label], "guideline": target})
    return {"changes": changes}


def _verdict(system: str, user: str, kind: dict[str, Any]) -> Any:
    before, _, item = user.rpartition("Now judge this item:")
    rules = "\n".join(line for line in f"{system}\n{before}".splitlines() if line.startswith("- "))
    if kind.get("enum") == ["A", "B"]:
        sides = json.loads(re.findall(r"^outputs: (.*)$", item, re.MULTILINE)[-1])
        longer = max(("A", "B"), key=lambda side: len(sides[side]))
        return ("B" if longer == "A" else "A") if "the short one is better" in rules else longer
    if kind.get("type") == "integer":
        return 1 if "without a currency" in rules and "EUR" not in item else 3
    if kind.get("type") == "string":
        return "as it is"
    if "never warm" in rules and not any(words in item for words in COLD):
        return False
    if "neither greeting" in rules and "Your case is closed" in item:
        return "ends with thanks" in rules
    return not ("sympathy" in rules and "late" in item)


def _text(shown: str) -> str:
    return str(json.loads(shown))
