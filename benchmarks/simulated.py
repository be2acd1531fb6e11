"""Policies of a house, and simulated models that judge by them as well as they are set to.

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
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
LETTERS: dict[str, str] = dict(HOUSE["letters"])
for topic in TOPICS:
    REPLIES[f"step of {topic}"] = f"A colleague has taken up the {topic} today."
    LETTERS[f"about {topic}"] = f"I am writing about my {topic}."
TEXTS = REPLIES | LETTERS
QUOTATIONS = TEXTS | {"order": REPLIES["answer"]}


@dataclass(frozen=True)
class SimulatedCase:
    """A letter and its reply, with what is true of them."""

    number: int
    facts: frozenset[str]

    @property
    def fields(self) -> dict[str, str]:
        """Return the customer's letter and the house's reply; an answer comes first or last."""
        letter = [f"Case {self.number}.", *self._said(LETTERS)]
        reply = self._said(REPLIES)
        if "answer" in self.facts:
            reply.remove(REPLIES["answer"])
            place = 0 if "order" in self.facts else len(reply)
            reply.insert(place, REPLIES["answer"])
        return {"inputs": " ".join(letter), "outputs": " ".join(reply) or "Noted."}

    def _said(self, texts: Mapping[str, str]) -> list[str]:
        """Return the texts of the facts that are true."""
        return [text for key, text in texts.items() if key in self.facts]


@dataclass(frozen=True)
class Rule:
    """One thing that experts of the house say.

    Attributes:
        wish: The rule in their words.
        fact: What decides: the value is whether the case has it.
        needs: A fact that a case must have for the rule to decide it.
        lacks: A fact that a case must not have for the rule to decide it.
        turned: The value is the opposite.
        always: The value of every case that the rule decides, whatever its facts are.
        rank: Of several rules that decide a case, those of the highest rank count.
    """

    wish: str
    fact: str
    needs: str = ""
    lacks: str = ""
    turned: bool = False
    always: bool | None = None
    rank: int = 0

    @property
    def text(self) -> str:
        """Return the rule as a guideline."""
        return f"{self.wish[0].upper()}{self.wish[1:]}."

    def decides(self, case: SimulatedCase) -> bool:
        """Return whether the rule says anything about a case."""
        if self.lacks in case.facts:
            return False
        return not self.needs or self.needs in case.facts

    def value(self, case: SimulatedCase) -> bool:
        """Return what the rule says about a case that it decides."""
        if self.always is not None:
            return self.always
        return (self.fact in case.facts) != self.turned


@dataclass(frozen=True)
class Policy:
    """What the experts of a house want, in rules.

    Attributes:
        name: Its name.
        rules: The rules.
        draws: The share of cases that have a fact, by fact.
        weights: Where the label is a taste, the weight of each fact in it.
    """

    name: str
    rules: Sequence[Rule]
    draws: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)

    def label(self, case: SimulatedCase) -> bool:
        """Return the experts' label of a case."""
        if not self.weights:
            return _voted(self.rules, case) is True
        taste = 0.0
        for fact, weight in self.weights.items():
            taste += weight if fact in case.facts else -weight
        return taste > 0

    def comment(self, case: SimulatedCase) -> str:
        """Return an expert's comment: one of the deciding rules that speak for the label."""
        label = self.label(case)
        deciding = _deciding(self.rules, case)
        speaking = [rule for rule in deciding if rule.value(case) == label]
        rule = speaking[case.number % len(speaking)]
        wording = WORDINGS[case.number % len(WORDINGS)]
        return wording.format(rule.wish)

    def cases(self, count: int, seed: int, *, first: int) -> list[SimulatedCase]:
        """Draw cases whose labels alternate, numbered from `first` on with gaps."""
        rng = random.Random(f"{self.name} {seed} {first}")
        chosen: list[SimulatedCase] = []
        for number in itertools.count(first):
            case = SimulatedCase(number, self._facts(rng))
            wanted = len(chosen) % 2 == 0
            if self.label(case) == wanted:
                chosen.append(case)
            if len(chosen) == count:
                break
        return chosen

    def _facts(self, rng: random.Random) -> frozenset[str]:
        facts = set()
        noise = dict.fromkeys(HOUSE["noise"], 0.5)
        for fact, share in (*self.draws.items(), *noise.items()):
            if rng.random() < share:
                facts.add(fact)
        if len(self.rules) == len(TOPICS):
            topic = rng.choice(TOPICS)
            facts.add(f"about {topic}")
            if rng.random() < 0.5:
                facts.add(f"step of {topic}")
        return frozenset(facts)


def rows(policy: Policy, count: int, seed: int) -> list[dict[str, Any]]:
    """Return an expert's feedback on cases: labels and comments."""
    feedback = []
    for case in policy.cases(count, seed, first=1_000):
        row = {
            "id": f"c-{case.number}",
            **case.fields,
            "value": policy.label(case),
            "rationale": policy.comment(case),
            "source": "ana",
        }
        feedback.append(row)
    return feedback


def _policy(
    name: str,
    rules: Sequence[Body] = (),
    each_topic: Mapping[str, str] | None = None,
    **facts: Any,
) -> Policy:
    made = [Rule(**rule) for rule in rules]
    if each_topic is not None:
        for topic in TOPICS:
            filled: Body = {}
            for key, text in each_topic.items():
                filled[key] = text.format(topic)
            made.append(Rule(**filled))
    return Policy(name, made, **facts)


POLICIES = {name: _policy(name, **facts) for name, facts in HOUSE["policies"].items()}
FOG = Rule(**HOUSE["fog"])
RULES: dict[str, Rule] = {}
for policy in POLICIES.values():
    for rule in policy.rules:
        RULES[rule.text] = rule
RULES[FOG.text] = FOG
COMMENTS: dict[str, Rule] = {}
for rule in RULES.values():
    for wording in WORDINGS:
        COMMENTS[wording.format(rule.wish)] = rule


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
        return _chance(self.seed, what, *parts) < float(getattr(self, what))


MODELS: dict[str, tuple[Policy, Competence]] = {}
"""By a model's name, whose cases it judges and how well."""


def _chance(*parts: object) -> float:
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def _deciding(rules: Sequence[Rule], case: SimulatedCase) -> list[Rule]:
    """Return the rules of the highest rank that decide a case."""
    by_rank = defaultdict[int, list[Rule]](list)
    for rule in rules:
        if rule.decides(case):
            by_rank[rule.rank].append(rule)
    return by_rank[max(by_rank, default=0)]


def _voted(rules: Sequence[Rule], case: SimulatedCase) -> bool | None:
    """Return what most of the deciding rules say; None if there are none, or in a tie."""
    votes = 0
    for rule in _deciding(rules, case):
        votes += 1 if rule.value(case) else -1
    return None if votes == 0 else votes > 0


def _case_of(text: str) -> SimulatedCase:
    """Read the last case in a text, with all that is written of it."""
    *_, number = re.finditer(r"Case (\d+)\.", text)
    rest = text[number.start() :]
    facts = {key for key, sentence in TEXTS.items() if sentence in rest}
    reply = re.search(r"outputs\W+", rest)
    if reply and rest.startswith(REPLIES["answer"], reply.end()):
        facts.add("order")
    return SimulatedCase(int(number[1]), frozenset(facts))


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
    policy, competence = MODELS[body["model"]]
    if body.get("temperature"):
        competence = _drawn_again(competence, json.dumps(body["messages"]))
    system, user = _prompts(body["messages"])
    response_format = body.get("response_format") or {}
    schema: Body = response_format.get("json_schema", {}).get("schema", {})
    if schema:
        properties: Body = schema["properties"]
        answer = _answer(policy, competence, system, user, properties)
        return {name: answer.get(name, TASK) for name in properties}
    *_, asked = user.rpartition(ASKED)
    *fields, _ = FIELD.findall(asked)
    answer = _answer(policy, competence, system, user, dict.fromkeys(fields))
    parts = []
    for name in fields:
        text = answer.get(name, TASK)
        parts.append(f"[[ ## {name} ## ]]\n{text}")
    parts.append("[[ ## completed ## ]]")
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


def _answer(
    policy: Policy, competence: Competence, system: str, user: str, properties: Body
) -> Body:
    if "changes" in properties:
        form = properties["changes"]["items"]["properties"]
        return {"changes": _distilled(competence, user, form), "conflicts": []}
    if "guidelines" in properties:
        merges = "# Merge" in system
        return {"guidelines": _merged(user) if merges else _listed(competence, user)}
    if "value" in properties or "result" in properties:
        return _judged(policy, competence, system, user)
    return _written(competence, user)


def _judged(policy: Policy, competence: Competence, system: str, user: str) -> Body:
    case = _case_of(user)
    rules = _rules_in(system)
    if competence.reading:
        rules += _read(competence, case, f"{system}\n{user}", rules)
    value = _verdict(policy, competence, case, rules)
    ids = {text: name for name, text in GUIDELINE.findall(system)}
    findings = []
    for rule in rules:
        if ids.get(rule.text) and rule.decides(case):
            evidence = QUOTATIONS[rule.fact] if rule.fact in case.facts else ""
            finding = {
                "guideline": ids[rule.text],
                "evidence": evidence,
                "value": rule.value(case),
            }
            findings.append(finding)
    reason = "What our house wants decides it."
    return {
        "findings": findings[:5],
        "rationale": reason,
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
    policy: Policy,
    competence: Competence,
    case: SimulatedCase,
    rules: Sequence[Rule],
    *parts: object,
) -> bool:
    """Return what rules say if the model follows them, else its own verdict."""
    voted = _voted(rules, case)
    if voted is not None and competence.does("following", case.number, *parts):
        return voted
    return policy.label(case) == competence.does("zero", case.number, *parts)


def _stated(competence: Competence, text: str) -> list[str]:
    """Return the rules that a text's comments state, or a wrong one where distilling fails."""
    present = [re.escape(comment) for comment in COMMENTS if comment in text]
    rules: dict[str, None] = {}
    number = 0
    for match in re.finditer("|".join([r"Case (\d+)\.", *present]), text):
        if match[1]:
            number = int(match[1])
        elif competence.does("distilling", number):
            rules[COMMENTS[match[0]].text] = None
        else:
            rules[FOG.text] = None
    return list(rules)


def _distilled(competence: Competence, user: str, form: Body) -> list[Body]:
    """Write one guideline for all feedback that states the same rule; a label alone states none.

    A provider writes only what the schema has, so a change has no field that is not in `form`.
    """
    before, _, new = user.rpartition("New feedback:")
    names = {text: name for name, text in GUIDELINE.findall(before)}
    groups: dict[str, list[str]] = {}
    for name, item, words in RECORD.findall(new):
        stated = _stated(competence, item + words)
        text = stated[0] if stated else ""
        groups.setdefault(text, []).append(name)
    changes = []
    for text, feedback in groups.items():
        change = _change(text, names.get(text, ""))
        change["feedback"] = feedback
        change["tests"] = []
        changes.append({name: change[name] for name in form if name in change})
    return changes


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
        groups.setdefault(text, []).append(name)
    merged: list[Body] = []
    for text, names in groups.items():
        if len(names) > 1:
            merged.append({"text": text, "from": names})
    return merged


def _listed(competence: Competence, user: str) -> list[Body]:
    """Write guidelines in MLflow's form, with the numbers of the records that state them."""
    before, *records = re.split(r'^  "id": (?=\d+,)', user, flags=re.MULTILINE)
    groups: dict[str, list[int]] = {}
    for record in records:
        number = int(record.partition(",")[0])
        for text in _stated(competence, record):
            if text not in before:
                groups.setdefault(text, []).append(number)
    listed: list[Body] = []
    for text, ids in groups.items():
        listed.append({"guideline_text": text, "source_trace_ids": ids})
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
    policy, competence = MODELS[body["model"]]
    case = _case_of(body["state"])
    answers = {}
    for name, question in body["questions"].items():
        text = question["instructions"]
        sure = _sureness(competence, case, text)
        if question["type"] == "noul":
            broken = _breaks(case, text)
            answers[name] = {"type": "noul", "noul": sure if broken else 1 - sure}
        else:
            rules = _rules_in(text)
            value = _verdict(policy, competence, case, rules, "decision")
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
