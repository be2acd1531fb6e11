"""A house with twenty rules, and simulated models that judge by them as well as they are set to.

A chat model has a competence for each thing that it does: judging without a rule, following a rule
that it is shown, reading a rule in the comment beside an example, and writing the right rule from
an expert's comment. A decision model has one for its own verdict and one for following. Each is the
probability of doing it right, drawn once for each case. The chat model also answers DSPy's GEPA,
which asks for a better instruction: it keeps the rules of the one before, and adds those of the
comments that are in the prompt.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopback import Body, text_of

INSTRUCTIONS = """\
Is this reply to the customer as our house wants it?
Letter: {{ inputs }}
Reply: {{ outputs }}"""

PAGE = Path(__file__).with_name("house.toml")
HOUSE = tomllib.loads(PAGE.read_text("utf-8"))
TOPICS = HOUSE["topics"]
WORDINGS = HOUSE["wordings"]
LETTER = HOUSE["letter"]
STEP = HOUSE["step"]
WISH = HOUSE["wish"]
REPLIES = dict(HOUSE["replies"])
"""The sentences of replies; what a colleague did has the topic as its key."""
for topic in TOPICS:
    REPLIES[topic] = STEP.format(topic)


# -- the house -------------------------------------------------------------------------


@dataclass(frozen=True)
class SimulatedCase:
    """A letter about a topic, and the keys of the sentences in its reply."""

    number: int
    topic: str
    said: frozenset[str]

    @property
    def fields(self) -> dict[str, str]:
        """Return the customer's letter and the house's reply."""
        letter = LETTER.format(self.topic)
        sentences = []
        for key, sentence in REPLIES.items():
            if key in self.said:
                sentences.append(sentence)
        reply = " ".join(sentences)
        return {
            "inputs": f"Case {self.number}. {letter}",
            "outputs": reply or "Noted.",
        }

    @property
    def label(self) -> bool:
        """Return the experts' label: whether a colleague has taken up the topic."""
        return self.topic in self.said

    @property
    def comment(self) -> str:
        """Return an expert's comment, which states the rule of the topic."""
        place = self.number % len(WORDINGS)
        wording: str = WORDINGS[place]
        wish = WISH.format(self.topic)
        return wording.format(wish)


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
        initial = self.wish[0].upper()
        rest = self.wish[1:]
        return f"{initial}{rest}."

    def decides(self, case: SimulatedCase) -> bool:
        """Return whether the rule says anything about a case."""
        return self.topic in ("", case.topic)

    def value(self, case: SimulatedCase) -> bool:
        """Return what the rule says about a case that it decides."""
        return self.sentence in case.said


Rules = list[Rule]

FOG = Rule(**HOUSE["fog"])
RULES: dict[str, Rule] = {}
"""Every rule, by its text."""
COMMENTS: dict[str, Rule] = {}
"""Every rule that a comment may state, by the comment."""
for topic in TOPICS:
    wish = WISH.format(topic)
    rule = Rule(wish, topic, topic)
    RULES[rule.text] = rule
RULES[FOG.text] = FOG
for rule in RULES.values():
    for wording in WORDINGS:
        comment = wording.format(rule.wish)
        COMMENTS[comment] = rule


def cases(count: int, seed: int, *, first: int) -> list[SimulatedCase]:
    """Draw cases whose labels alternate, numbered from `first` on with gaps."""
    rng = random.Random(f"twenty rules {seed} {first}")
    number = first
    wanted = True
    chosen: list[SimulatedCase] = []
    while len(chosen) < count:
        case = _drawn(number, rng)
        number += 1
        if case.label == wanted:
            chosen.append(case)
            wanted = not wanted
    return chosen


def _drawn(number: int, rng: random.Random) -> SimulatedCase:
    said = set()
    for key in HOUSE["drawn"]:
        if rng.random() < 0.5:
            said.add(key)
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


# -- the models ------------------------------------------------------------------------


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
        chance = _chance(self.seed, what, *parts)
        return chance < share


MODELS: dict[str, Competence] = {}
"""By a model's name, how well it judges."""

CASE = re.compile(r"Case (\d+)\.")
GUIDELINE = re.compile(r"^(?:(G\d+):|-) (.+)$", re.MULTILINE)
RECORD = re.compile(
    r"^(F\d+) <<<\n(.*?)^>>>$(.*?)(?=^F\d+ <<<$|\Z)", re.MULTILINE | re.DOTALL
)
NUMBERED = re.compile(r'^  "id": (?=\d+,)', re.MULTILINE)
"""Where a record begins in a prompt of MLflow's MemAlign."""
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
ASKED = "Respond with the corresponding output fields"
"""DSPy names the fields after these words, and takes them as text; others send a schema."""
MOST = 5  # findings in an answer
SURE = 0.8  # the decision model of what it says, whether that is right or not


def chat(body: Body) -> Body | str:
    """Answer as the chat model: a judgment, changes to guidelines, or a better instruction.

    Args:
        body: A request for a chat completion, whose model is a key of `MODELS`.

    Returns:
        The object that the schema asks for, or without a schema the fields in DSPy's form.
    """
    competence = MODELS[body["model"]]
    system, user = _prompts(body["messages"])
    form = body.get("response_format") or {}
    if "json_schema" not in form:
        return _in_dspys_form(competence, system, user)
    schema = form["json_schema"]["schema"]
    fields = schema["properties"]
    answer = _answer(competence, system, user, fields)
    return {name: answer[name] for name in fields}


def _in_dspys_form(competence: Competence, system: str, user: str) -> str:
    """Return the fields that the end of the prompt asks for, as text."""
    _, _, asked = user.rpartition(ASKED)
    *fields, end = FIELD.findall(asked)
    answer = _answer(competence, system, user, fields)
    parts = []
    for name in fields:
        text = answer[name]
        parts.append(f"[[ ## {name} ## ]]\n{text}")
    parts.append(f"[[ ## {end} ## ]]")
    return "\n\n".join(parts)


def _prompts(messages: Sequence[Body]) -> tuple[str, str]:
    """Return what a request says as the system, and as the user."""
    system = []
    user = []
    for message in messages:
        text = text_of(message)
        if message["role"] == "user":
            user.append(text)
        else:
            system.append(text)
    return "\n".join(system), "\n".join(user)


def _answer(
    competence: Competence, system: str, user: str, fields: Collection[str]
) -> Body:
    """Return the fields that are asked for, and perhaps more."""
    if "changes" in fields:
        changes = _distilled(competence, user)
        return {"changes": changes, "conflicts": []}
    if "guidelines" in fields and "# Merge" in system:
        return {"guidelines": _merged(user)}
    if "guidelines" in fields:
        return {"guidelines": _listed(competence, user)}
    if "new_instruction" in fields:
        return {"new_instruction": _improved(competence, user)}
    return _judged(competence, system, user)


# -- judging ---------------------------------------------------------------------------


def _judged(competence: Competence, system: str, user: str) -> Body:
    case = _case_of(user)
    rules = _rules_in(system)
    prompt = f"{system}\n{user}"
    rules += _read(competence, case, prompt, rules)
    value = _verdict(competence, case, rules)
    return {
        "findings": _findings(case, rules, system),
        "rationale": "What our house wants decides it.",
        "value": value,
        "result": value,
    }


def _case_of(text: str) -> SimulatedCase:
    """Read the last case in a text, with all that is written of it."""
    *_, number = CASE.finditer(text)
    start = number.start()
    rest = text[start:]
    about = ""
    for topic in TOPICS:
        letter = LETTER.format(topic)
        if letter in rest:
            about = topic
    said = set()
    for key, sentence in REPLIES.items():
        if sentence in rest:
            said.add(key)
    return SimulatedCase(int(number[1]), about, frozenset(said))


def _rules_in(text: str) -> Rules:
    """Return the rules that a text states, with their full stop or without."""
    stated = []
    for rule in RULES.values():
        words = rule.text.removesuffix(".")
        if words in text:
            stated.append(rule)
    return stated


def _read(
    competence: Competence, case: SimulatedCase, prompt: str, known: Rules
) -> Rules:
    """Return the rules that the model reads in the comments beside a prompt's examples."""
    found: Rules = []
    for comment, rule in COMMENTS.items():
        if comment not in prompt:
            continue
        if rule in found or rule in known:
            continue
        if competence.does("reading", case.number, rule.text):
            found.append(rule)
    return found


def _verdict(
    competence: Competence, case: SimulatedCase, rules: Rules, *parts: object
) -> bool:
    """Return what rules say if the model follows them, else its own verdict."""
    ruled = _ruled(rules, case)
    follows = competence.does("following", case.number, *parts)
    if ruled is not None and follows:
        return ruled
    knows = competence.does("zero", case.number, *parts)
    return case.label == knows


def _ruled(rules: Rules, case: SimulatedCase) -> bool | None:
    """Return what the topic's rule says, else the one about all letters; None without either."""
    said = None
    for rule in rules:
        if rule.topic == case.topic:
            return rule.value(case)
        if rule.decides(case):
            said = rule.value(case)
    return said


def _chance(*parts: object) -> float:
    """Return a number from 0 to 1 that is always the same for the same parts."""
    text = repr(parts)
    hashed = hashlib.blake2b(text.encode(), digest_size=6)
    digest = hashed.digest()
    return int.from_bytes(digest, "big") / 2**48


def _findings(case: SimulatedCase, rules: Rules, system: str) -> list[Body]:
    """Return what the guidelines of a prompt say about a case."""
    names = _names(system)
    findings = []
    for rule in rules:
        if rule.text not in names or not rule.decides(case):
            continue
        holds = rule.value(case)
        evidence = ""
        if holds:
            evidence = REPLIES[rule.sentence]
        finding = {
            "guideline": names[rule.text],
            "evidence": evidence,
            "value": holds,
        }
        findings.append(finding)
    return findings[:MOST]


def _names(text: str) -> dict[str, str]:
    """Return the names of the guidelines in a text, by their words."""
    names = {}
    for name, words in GUIDELINE.findall(text):
        if name:
            names[words] = name
    return names


# -- writing rules ---------------------------------------------------------------------


def _stated(competence: Competence, text: str) -> list[str]:
    """Return the rules that a text's comments state, or a wrong one where distilling fails."""
    patterns = [CASE.pattern]
    for comment in COMMENTS:
        if comment in text:
            pattern = re.escape(comment)
            patterns.append(pattern)
    either = "|".join(patterns)
    stated = {}
    number = 0
    for match in re.finditer(either, text):
        if match[1]:
            number = int(match[1])
            continue
        rule = FOG
        if competence.does("distilling", number):
            rule = COMMENTS[match[0]]
        stated[rule.text] = rule
    return list(stated)


def _distilled(competence: Competence, user: str) -> list[Body]:
    """Write one guideline for all feedback that states the same rule; a label alone states none."""
    before, _, new = user.rpartition("New feedback:")
    groups = defaultdict(list)
    for name, item, words in RECORD.findall(new):
        stated = _stated(competence, item + words)
        text = ""
        if stated:
            text = stated[0]
        groups[text].append(name)
    names = _names(before)
    changes = []
    for text, feedback in groups.items():
        known = names.get(text, "")
        change = _change(text, known, feedback)
        changes.append(change)
    return changes


def _change(text: str, known: str, feedback: list[str]) -> Body:
    """Return a change to the guidelines, with the name of the one that says this already."""
    action = "ADD"
    if known:
        action = "SUPPORT"
        text = ""
    elif not text:
        action = "NOOP"
        text = "a label alone"
    return {
        "action": action,
        "feedback": feedback,
        "text": text,
        "guideline": known,
        "tests": [],
    }


def _merged(user: str) -> list[Body]:
    """Merge guidelines that have the same words; no two others of our rules are one."""
    groups = defaultdict(list)
    for name, text in GUIDELINE.findall(user):
        groups[text].append(name)
    merged = []
    for text, names in groups.items():
        if len(names) > 1:
            guideline = {"text": text, "from": names}
            merged.append(guideline)
    return merged


def _listed(competence: Competence, user: str) -> list[Body]:
    """Write guidelines in MLflow's form, with the numbers of the records that state them."""
    before, *records = NUMBERED.split(user)
    groups = defaultdict(list)
    for record in records:
        number, _, _ = record.partition(",")
        for text in _stated(competence, record):
            if text not in before:
                groups[text].append(int(number))
    listed = []
    for text, ids in groups.items():
        guideline = {"guideline_text": text, "source_trace_ids": ids}
        listed.append(guideline)
    return listed


def _improved(competence: Competence, user: str) -> str:
    """Write the instruction with the prompt's rules, and those of its comments."""
    lines = [INSTRUCTIONS]
    for text in RULES:
        if text in user:
            lines.append(text)
    for text in _stated(competence, user):
        if text not in lines:
            lines.append(text)
    return "\n".join(lines)


# -- the decision model ----------------------------------------------------------------


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
        rules = _rules_in(text)
        if question["type"] == "noul":
            answers[name] = _doubt(case, rules)
        else:
            value = _verdict(competence, case, rules, "decision")
            answers[name] = _choice(value, question["criteria"])
    return answers


def _doubt(case: SimulatedCase, rules: Rules) -> Body:
    """Return how likely a case breaks one of the rules."""
    chance = 1 - SURE
    for rule in rules:
        if rule.decides(case) and not rule.value(case):
            chance = SURE
    return {"type": "noul", "noul": chance}


def _choice(value: bool, criteria: Body) -> Body:
    """Return a verdict that is one of the criteria, with a probability of each."""
    likely = json.dumps(value)
    others = len(criteria) - 1
    rest = (1 - SURE) / others
    shares = dict.fromkeys(criteria, rest)
    shares[likely] = SURE
    return {
        "type": "choice",
        "choice": likely,
        "confidence": SURE,
        "probabilities": shares,
    }
