"""A house with twenty rules, and simulated models that judge by them as well as they are set to.

A chat model has a competence for each thing that it does: judging without a rule, following a rule
that it is shown, reading a rule in the comment beside an example, and writing the right rule from
an expert's comment. A decision model has one for its own verdict and one for following. Each is the
probability of doing it right, drawn once for each case; above temperature 0 a repeated request is
drawn again. The chat model also answers what DSPy's optimizers ask: it states the rules of the
comments that are in the prompt, keeps those of the instructions that it is to improve, and keeps
three in a summary.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import threading
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopback import Body, text_of

INSTRUCTIONS = """\
Is this reply to the customer as our house wants it?
Letter: {{ inputs }}
Reply: {{ outputs }}"""

HOUSE = tomllib.loads(Path(__file__).with_name("house.toml").read_text("utf-8"))
TOPICS: list[str] = HOUSE["topics"]
WORDINGS: list[str] = HOUSE["wordings"]
REPLIES: dict[str, str] = dict(HOUSE["replies"])
"""The sentences of replies; what a colleague did has the topic as its key."""
for topic in TOPICS:
    REPLIES[topic] = HOUSE["step"].format(topic)


@dataclass(frozen=True)
class SimulatedCase:
    """A letter about a topic, and the keys of the sentences in its reply."""

    number: int
    topic: str
    said: frozenset[str]

    @property
    def fields(self) -> dict[str, str]:
        """Return the customer's letter and the house's reply."""
        about = HOUSE["letter"].format(self.topic)
        sentences = [text for key, text in REPLIES.items() if key in self.said]
        return {
            "inputs": f"Case {self.number}. {about}",
            "outputs": " ".join(sentences) or "Noted.",
        }

    @property
    def label(self) -> bool:
        """Return the experts' label: whether a colleague has taken up the topic."""
        return self.topic in self.said

    @property
    def comment(self) -> str:
        """Return an expert's comment, which states the rule of the topic."""
        wording = WORDINGS[self.number % len(WORDINGS)]
        return wording.format(HOUSE["wish"].format(self.topic))


@dataclass(frozen=True)
class Rule:
    """One thing that is said of replies.

    Attributes:
        wish: The rule in an expert's words.
        sentence: The key of the sentence that a good reply has.
        topic: Of which letters' replies; empty for those of all letters.
    """

    wish: str
    sentence: str
    topic: str = ""

    @property
    def text(self) -> str:
        """Return the rule as a guideline."""
        return f"{self.wish[0].upper()}{self.wish[1:]}."

    def decides(self, case: SimulatedCase) -> bool:
        """Return whether the rule says anything about a case."""
        return self.topic in ("", case.topic)

    def value(self, case: SimulatedCase) -> bool:
        """Return what the rule says about a case that it decides."""
        return self.sentence in case.said


FOG = Rule(**HOUSE["fog"])
RULES: dict[str, Rule] = {}
"""Every rule, by its text."""
COMMENTS: dict[str, Rule] = {}
"""Every rule that a comment may state, by the comment."""
for topic in TOPICS:
    rule = Rule(HOUSE["wish"].format(topic), topic, topic)
    RULES[rule.text] = rule
RULES[FOG.text] = FOG
for rule in RULES.values():
    for wording in WORDINGS:
        COMMENTS[wording.format(rule.wish)] = rule


def cases(count: int, seed: int, *, first: int) -> list[SimulatedCase]:
    """Draw cases whose labels alternate, numbered from `first` on with gaps."""
    rng = random.Random(f"twenty rules {seed} {first}")
    chosen: list[SimulatedCase] = []
    for number in itertools.count(first):
        case = _drawn(number, rng)
        if case.label == (len(chosen) % 2 == 0):
            chosen.append(case)
        if len(chosen) == count:
            break
    return chosen


def _drawn(number: int, rng: random.Random) -> SimulatedCase:
    said = {key for key in HOUSE["drawn"] if rng.random() < 0.5}
    topic = rng.choice(TOPICS)
    if rng.random() < 0.5:
        said.add(topic)
    return SimulatedCase(number, topic, frozenset(said))


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Return an expert's feedback on cases: labels and comments."""
    feedback = []
    for case in cases(count, seed, first=1_000):
        row = {
            "id": f"c-{case.number}",
            **case.fields,
            "value": case.label,
            "rationale": case.comment,
            "source": "ana",
        }
        feedback.append(row)
    return feedback


@dataclass(frozen=True, kw_only=True)
class Competence:
    """How often a model does right what it does, from 0 to 1, and the seed of its draws."""

    zero: float = 0.6
    following: float = 0.9
    distilling: float = 0.9
    reading: float = 0.0
    seed: int = 0

    def does(self, what: str, *parts: object) -> bool:
        """Return whether the model does a thing right in one case."""
        share: float = getattr(self, what)
        return _chance(self.seed, what, *parts) < share


MODELS: dict[str, Competence] = {}
"""By a model's name, how well it judges."""


def _chance(*parts: object) -> float:
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def _ruled(rules: Sequence[Rule], case: SimulatedCase) -> bool | None:
    """Return what the topic's rule says, else the one about all letters; None without either."""
    said = None
    for rule in rules:
        if rule.topic == case.topic:
            return rule.value(case)
        if rule.decides(case):
            said = rule.value(case)
    return said


def _case_of(text: str) -> SimulatedCase:
    """Read the last case in a text, with all that is written of it."""
    *_, number = re.finditer(r"Case (\d+)\.", text)
    rest = text[number.start() :]
    about = ""
    for topic in TOPICS:
        letter = HOUSE["letter"].format(topic)
        if letter in rest:
            about = topic
    said = set()
    for key, sentence in REPLIES.items():
        if sentence in rest:
            said.add(key)
    return SimulatedCase(int(number[1]), about, frozenset(said))


GUIDELINE = re.compile(r"^(?:(G\d+):|-) (.+)$", re.MULTILINE)
RECORD = re.compile(
    r"^(F\d+) <<<\n(.*?)^>>>$(.*?)(?=^F\d+ <<<$|\Z)", re.MULTILINE | re.DOTALL
)
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
ASKED = "Respond with the corresponding output fields"
"""DSPy names the fields after these words, and takes them as text; others send a schema."""
IN_SUMMARY = 3  # rules in two to three sentences
TASK = "Replies to customers are judged."

_times: Counter[str] = Counter()
_lock = threading.Lock()


def chat(body: Body) -> Body | str:
    """Answer as the chat model: a judgment, changes to guidelines, or what an optimizer asks.

    Args:
        body: A request for a chat completion, whose model is a key of `MODELS`.

    Returns:
        The object that the schema asks for, or without a schema the fields in DSPy's form.
    """
    competence = MODELS[body["model"]]
    messages = body["messages"]
    if body.get("temperature"):
        competence = _drawn_again(competence, json.dumps(messages))
    system, user = _prompts(messages)
    response_format = body.get("response_format") or {}
    if "json_schema" in response_format:
        properties: Body = response_format["json_schema"]["schema"]["properties"]
        answer = _answer(competence, system, user, properties)
        return {name: answer.get(name, TASK) for name in properties}
    *_, asked = user.rpartition(ASKED)
    *fields, end = FIELD.findall(asked)
    answer = _answer(competence, system, user, dict.fromkeys(fields))
    parts = []
    for name in fields:
        text = answer.get(name, TASK)
        parts.append(f"[[ ## {name} ## ]]\n{text}")
    parts.append(f"[[ ## {end} ## ]]")
    return "\n\n".join(parts)


def _prompts(messages: Sequence[Body]) -> tuple[str, str]:
    """Return what a request says as the system, and as the user."""
    system: list[str] = []
    user: list[str] = []
    for message in messages:
        texts = user if message["role"] == "user" else system
        texts.append(text_of(message))
    return "\n".join(system), "\n".join(user)


def _drawn_again(competence: Competence, request: str) -> Competence:
    """Return the competence with a seed of its own for each time that a request is repeated."""
    with _lock:
        repeated = _times[request]
        _times[request] += 1
    return replace(competence, seed=competence.seed + 1_000 * repeated)


def _answer(competence: Competence, system: str, user: str, properties: Body) -> Body:
    if "changes" in properties:
        form = properties["changes"]["items"]["properties"]
        return {"changes": _distilled(competence, user, form), "conflicts": []}
    if "guidelines" in properties:
        if "# Merge" in system:
            return {"guidelines": _merged(user)}
        return {"guidelines": _listed(competence, user)}
    if "value" in properties or "result" in properties:
        return _judged(competence, system, user)
    return _written(competence, user)


def _judged(competence: Competence, system: str, user: str) -> Body:
    case = _case_of(user)
    rules = _rules_in(system)
    if competence.reading:
        rules += _read(competence, case, f"{system}\n{user}", rules)
    value = _verdict(competence, case, rules)
    names = _names(system)
    findings = []
    for rule in rules:
        name = names.get(rule.text)
        if name and rule.decides(case):
            holds = rule.value(case)
            finding = {
                "guideline": name,
                "evidence": REPLIES[rule.sentence] if holds else "",
                "value": holds,
            }
            findings.append(finding)
    return {
        "findings": findings[:5],
        "rationale": "What our house wants decides it.",
        "value": value,
        "result": value,
    }


def _read(
    competence: Competence, case: SimulatedCase, prompt: str, known: Sequence[Rule]
) -> list[Rule]:
    """Return the rules that the model reads in the comments beside a prompt's examples."""
    found: list[Rule] = []
    for comment, rule in COMMENTS.items():
        if comment not in prompt or rule in found or rule in known:
            continue
        if competence.does("reading", case.number, rule.text):
            found.append(rule)
    return found


def _verdict(
    competence: Competence, case: SimulatedCase, rules: Sequence[Rule], *parts: object
) -> bool:
    """Return what rules say if the model follows them, else its own verdict."""
    ruled = _ruled(rules, case)
    if ruled is not None and competence.does("following", case.number, *parts):
        return ruled
    return case.label == competence.does("zero", case.number, *parts)


def _stated(competence: Competence, text: str) -> list[str]:
    """Return the rules that a text's comments state, or a wrong one where distilling fails."""
    patterns = [r"Case (\d+)\."]
    for comment in COMMENTS:
        if comment in text:
            patterns.append(re.escape(comment))
    rules: dict[str, None] = {}
    number = 0
    for match in re.finditer("|".join(patterns), text):
        if match[1]:
            number = int(match[1])
            continue
        rule = FOG
        if competence.does("distilling", number):
            rule = COMMENTS[match[0]]
        rules[rule.text] = None
    return list(rules)


def _distilled(competence: Competence, user: str, form: Body) -> list[Body]:
    """Write one guideline for all feedback that states the same rule; a label alone states none.

    A provider writes only what the schema has, so a change has no field that is not in `form`.
    """
    before, _, new = user.rpartition("New feedback:")
    names = _names(before)
    groups: dict[str, list[str]] = {}
    for name, item, words in RECORD.findall(new):
        stated = _stated(competence, item + words)
        text = stated[0] if stated else ""
        groups.setdefault(text, []).append(name)
    changes = []
    for text, feedback in groups.items():
        change = _change(text, names.get(text, ""))
        change |= {"feedback": feedback, "tests": []}
        written = {name: change[name] for name in form if name in change}
        changes.append(written)
    return changes


def _names(text: str) -> dict[str, str]:
    """Return the names of the guidelines in a text, by their words."""
    names = {}
    for name, words in GUIDELINE.findall(text):
        names[words] = name
    return names


def _change(text: str, name: str) -> Body:
    if name:
        return {"action": "SUPPORT", "guideline": name, "text": ""}
    if text:
        return {"action": "ADD", "guideline": "", "text": text}
    return {"action": "NOOP", "guideline": "", "text": "a label alone"}


def _merged(user: str) -> list[Body]:
    """Merge guidelines that have the same words; no two others of our rules are one."""
    groups: dict[str, list[str]] = {}
    for name, text in GUIDELINE.findall(user):
        names = groups.setdefault(text, [])
        names.append(name)
    merged: list[Body] = []
    for text, names in groups.items():
        if len(names) > 1:
            guideline = {"text": text, "from": names}
            merged.append(guideline)
    return merged


def _listed(competence: Competence, user: str) -> list[Body]:
    """Write guidelines in MLflow's form, with the numbers of the records that state them."""
    before, *records = re.split(r'^  "id": (?=\d+,)', user, flags=re.MULTILINE)
    groups: dict[str, list[int]] = {}
    for record in records:
        number, _, _ = record.partition(",")
        for text in _stated(competence, record):
            if text not in before:
                ids = groups.setdefault(text, [])
                ids.append(int(number))
    listed: list[Body] = []
    for text, ids in groups.items():
        guideline = {"guideline_text": text, "source_trace_ids": ids}
        listed.append(guideline)
    return listed


def _written(competence: Competence, user: str) -> Body:
    """Write the fields that DSPy's optimizers ask for, from the prompt's rules and comments."""
    present = [text for text in RULES if text in user]
    stated = _stated(competence, user)
    rules = "\n".join(dict.fromkeys([*present, *stated]))
    commonest = sorted(present, key=user.count, reverse=True)[:IN_SUMMARY]
    instruction = f"{INSTRUCTIONS}\n{rules}"
    return {
        "observations": f"{TASK} {rules}\n",
        "summary": "\n".join([TASK, *commonest]),
        "module_advice": json.dumps({"self": "\n".join(stated)}),
        "proposed_instruction": instruction,
        "new_instruction": instruction,
    }


def decide(body: Body) -> Body:
    """Answer as the decision model: its verdict, and of each rule whether the case breaks it.

    Args:
        body: A request of System One, whose model is a key of `MODELS`.

    Returns:
        The answer to each of its questions, by name.
    """
    competence = MODELS[body["model"]]
    case = _case_of(body["state"])
    answers = {}
    for name, question in body["questions"].items():
        text = question["instructions"]
        sure = _sureness(competence, case, text)
        if question["type"] == "noul":
            chance = sure if _breaks(case, text) else 1 - sure
            answers[name] = {"type": "noul", "noul": chance}
        else:
            value = _verdict(competence, case, _rules_in(text), "decision")
            likely = "true" if value else "false"
            answers[name] = _choice(likely, question["criteria"], sure)
    return answers


def _breaks(case: SimulatedCase, text: str) -> bool:
    """Return whether a case breaks a rule that a question names, with its full stop or without."""
    for rule in RULES.values():
        if rule.text[:-1] in text and rule.decides(case) and not rule.value(case):
            return True
    return False


def _rules_in(text: str) -> list[Rule]:
    """Return the rules that a text states."""
    return [rule for rule in RULES.values() if rule.text in text]


def _sureness(competence: Competence, case: SimulatedCase, text: str) -> float:
    """Return how sure the model says it is, which tells nothing about whether it is right."""
    chance = _chance(competence.seed, "sure", case.number, text)
    return (0.62, 0.8, 0.93)[int(3 * chance)]


def _choice(likely: str, criteria: Body, sure: float) -> Body:
    options = list(criteria)
    shares = dict.fromkeys(options, (1 - sure) / (len(options) - 1))
    shares[likely] = sure
    return {
        "type": "choice",
        "choice": likely,
        "confidence": sure,
        "probabilities": shares,
    }
