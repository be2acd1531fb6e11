"""Policies of a house, and simulated models that judge by them as well as they are set to.

A chat model has a competence for each thing that it does: judging without a rule, following a rule that it is shown,
citing it truly, reading a rule in the comment beside an example, and writing the right rule from an expert's comment.
A decision model has one for answering questions and one for its own verdict. Each is the probability of doing it right,
drawn once for each case; above temperature 0 a repeated request is drawn again. The chat model also answers what DSPy's
optimizers ask: it states the rules of the comments that are in the prompt, keeps those of the instructions that it is
to improve, and keeps three in a summary.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loopback import Body, text_of

INSTRUCTIONS = "Is this reply to the customer as our house wants it?\nLetter: {{ inputs }}\nReply: {{ outputs }}"

HOUSE = tomllib.loads(Path(__file__).with_name("house.toml").read_text("utf-8"))
TOPICS: list[str] = HOUSE["topics"]
WORDINGS: list[str] = HOUSE["wordings"]
REPLIES = HOUSE["replies"] | {
    f"step of {topic}": f"A colleague has taken up the {topic} today." for topic in TOPICS
}
LETTERS = HOUSE["letters"] | {
    f"about {topic}": f"I am writing about my {topic}." for topic in TOPICS
}
TEXTS = REPLIES | LETTERS
QUOTATIONS = TEXTS | {"order": REPLIES["answer"]}


@dataclass(frozen=True)
class SimulatedCase:
    """A letter and its reply, with what is true of them."""

    number: int
    facts: frozenset[str]

    @property
    def fields(self) -> dict[str, str]:
        """What the customer writes, and what the house answers; the answer comes first or last."""
        letter = [
            f"Case {self.number}.",
            *(text for key, text in LETTERS.items() if key in self.facts),
        ]
        reply = [text for key, text in REPLIES.items() if key in self.facts and key != "answer"]
        if "answer" in self.facts:
            reply.insert(0 if "order" in self.facts else len(reply), REPLIES["answer"])
        return {"inputs": " ".join(letter), "outputs": " ".join(reply) or "Noted."}


@dataclass(frozen=True)
class Rule:
    """One thing that experts of the house say."""

    wish: str
    fact: str  # what decides: the value is whether it is there, turned where `turned`, or always `always`
    needs: str = ""  # a fact that a case must have for the rule to decide it
    lacks: str = ""  # one that it must not have
    turned: bool = False
    always: bool | None = None
    rank: int = 0  # of several rules that decide a case those of the highest rank count

    @property
    def text(self) -> str:
        """The rule as a guideline."""
        return f"{self.wish[0].upper()}{self.wish[1:]}."

    def decides(self, case: SimulatedCase) -> bool:
        """Whether it says anything about a case."""
        return (not self.needs or self.needs in case.facts) and self.lacks not in case.facts

    def value(self, case: SimulatedCase) -> bool:
        """What it says about a case that it decides."""
        return self.always if self.always is not None else (self.fact in case.facts) != self.turned


@dataclass(frozen=True)
class Policy:
    """What the experts of a house want, in rules; `weights` of facts where the label is a weighted taste."""

    name: str
    rules: Sequence[Rule]
    draws: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)

    def label(self, case: SimulatedCase) -> bool:
        """What the experts say of it."""
        if self.weights:
            return (
                sum(
                    weight if fact in case.facts else -weight
                    for fact, weight in self.weights.items()
                )
                > 0
            )
        return _voted(self.rules, case) is True

    def comment(self, case: SimulatedCase) -> str:
        """What an expert writes of a case: a rule, of those of the highest rank one that speaks for the label."""
        speaking = [
            rule for rule in _deciding(self.rules, case) if rule.value(case) == self.label(case)
        ]
        return WORDINGS[case.number % len(WORDINGS)].format(
            speaking[case.number % len(speaking)].wish
        )

    def cases(self, count: int, seed: int, *, first: int) -> list[SimulatedCase]:
        """Cases of both labels in turn, as far as the policy deals them."""
        rng, chosen = random.Random(f"{self.name} {seed} {first}"), list[SimulatedCase]()
        shares = (*self.draws.items(), *dict.fromkeys(HOUSE["noise"], 0.5).items())
        for number in itertools.count(first):
            facts = {fact for fact, share in shares if rng.random() < share}
            if len(self.rules) == len(TOPICS):
                topic = rng.choice(TOPICS)
                facts |= {f"about {topic}", *([f"step of {topic}"] if rng.random() < 0.5 else [])}
            case = SimulatedCase(number, frozenset(facts))
            if self.label(case) == (len(chosen) % 2 == 0):
                chosen.append(case)
            if len(chosen) == count:
                break
        return chosen


def rows(policy: Policy, count: int, seed: int) -> list[dict[str, Any]]:
    """An expert's feedback on cases: the label, and a comment."""
    return [
        {
            "id": f"c-{c.number}",
            **c.fields,
            "value": policy.label(c),
            "rationale": policy.comment(c),
            "source": "ana",
        }
        for c in policy.cases(count, seed, first=1_000)
    ]


def _policy(name: str, rules: Sequence[Body] = (), each_topic: Any = (), **facts: Any) -> Policy:
    many = [
        Rule(**{key: each_topic[key].format(topic) for key in each_topic})
        for topic in TOPICS
        if each_topic
    ]
    return Policy(name, [*many, *(Rule(**rule) for rule in rules)], **facts)


POLICIES = {name: _policy(name, **facts) for name, facts in HOUSE["policies"].items()}
FOG = Rule(**HOUSE["fog"])
RULES = {
    rule.text: rule
    for rule in (*(rule for policy in POLICIES.values() for rule in policy.rules), FOG)
}
COMMENTS = {wording.format(rule.wish): rule for rule in RULES.values() for wording in WORDINGS}


@dataclass(frozen=True, kw_only=True)
class Competence:
    """How often a model does right what it does, from 0 to 1, and the seed of its draws."""

    zero: float = 0.6
    following: float = 0.9
    citing: float = 0.9
    distilling: float = 0.9
    checking: float = 0.85
    reading: float = 0.0
    seed: int = 0

    def does(self, what: str, *parts: object) -> bool:
        """Whether it does that right in one case."""
        return _chance(self.seed, what, *parts) < float(getattr(self, what))


MODELS: dict[
    str, tuple[Policy, Competence]
] = {}  # by a model's name, whose cases it judges and how well


def _chance(*parts: object) -> float:
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def _deciding(rules: Sequence[Rule], case: SimulatedCase) -> list[Rule]:
    """Of the rules that decide a case those of the highest rank."""
    deciding = [rule for rule in rules if rule.decides(case)]
    highest = max((rule.rank for rule in deciding), default=0)
    return [rule for rule in deciding if rule.rank == highest]


def _voted(rules: Sequence[Rule], case: SimulatedCase) -> bool | None:
    """What most of the rules say that count for a case; None where none does, or as many each way."""
    votes = sum(1 if rule.value(case) else -1 for rule in _deciding(rules, case))
    return None if votes == 0 else votes > 0


def _case_of(text: str) -> SimulatedCase:
    """The last case in a text, with all that is written of it."""
    (*_, number) = re.finditer(r"Case (\d+)\.", text)
    rest = text[number.start() :]
    facts = {key for key, sentence in TEXTS.items() if sentence in rest}
    reply = re.search(r"outputs\W+", rest)
    if reply and rest.startswith(REPLIES["answer"], reply.end()):
        facts.add("order")
    return SimulatedCase(int(number[1]), frozenset(facts))


GUIDELINE = re.compile(r"^(?:(G\d+):|-) (.+)$", re.MULTILINE)
RECORD = re.compile(r"^(F\d+) <<<\n(.*?)^>>>$(.*?)(?=^F\d+ <<<$|\Z)", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")
IN_SUMMARY = 3  # rules in two to three sentences
TASK = "Replies to customers are judged."

_times: Counter[str] = Counter()
_lock = threading.Lock()


def chat(body: Body) -> Body | str:
    """What the chat model answers: a judgment, changes to the guidelines, or what an optimizer asks."""
    policy, competence = MODELS[body["model"]]
    if body.get("temperature"):
        with _lock:
            _times[request := json.dumps(body["messages"])] += 1
            competence = replace(competence, seed=competence.seed + 1_000 * (_times[request] - 1))
    system = "\n".join(
        text_of(message) for message in body["messages"] if message["role"] != "user"
    )
    user = "\n".join(text_of(message) for message in body["messages"] if message["role"] == "user")
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    # DSPy names the fields in its last sentence, and takes them as text; everybody else sends a schema.
    fields = FIELD.findall(user.rpartition("Respond with the corresponding output fields")[2])[:-1]
    names: list[str] = list(schema.get("properties", fields))
    answer: Body
    if "changes" in names:
        form = schema["properties"]["changes"]["items"][
            "properties"
        ]  # a provider writes nothing else
        answer = {"changes": _distilled(competence, user, form), "conflicts": []}
    elif "guidelines" in names:
        answer = {"guidelines": _merged(user) if "# Merge" in system else _listed(competence, user)}
    elif "value" in names or "result" in names:
        answer = _judged(policy, competence, system, user)
    else:
        answer = _written(competence, user)
    answer = {name: answer.get(name, TASK) for name in names}
    if schema:
        return answer
    return "\n\n".join(
        [
            *(f"[[ ## {name} ## ]]\n{value}" for name, value in answer.items()),
            "[[ ## completed ## ]]",
        ]
    )


def _judged(policy: Policy, competence: Competence, system: str, user: str) -> Body:
    case, ids = _case_of(user), {text: name for name, text in GUIDELINE.findall(system)}
    rules = [rule for text, rule in RULES.items() if text in system]
    if competence.reading:
        examples = dict.fromkeys(
            rule for comment, rule in COMMENTS.items() if comment in system or comment in user
        )
        rules += [
            r
            for r in examples
            if r not in rules and competence.does("reading", case.number, r.text)
        ]
    voted, unaided = _voted(rules, case), policy.label(case) == competence.does("zero", case.number)
    value = voted if voted is not None and competence.does("following", case.number) else unaided
    findings = [
        {
            "guideline": ids[rule.text],
            "evidence": QUOTATIONS[rule.fact] if rule.fact in case.facts else "",
            "value": rule.value(case),
        }
        for rule in rules
        if ids.get(rule.text)
        and rule.decides(case)
        and competence.does("citing", case.number, rule.text)
    ]
    reason = "What our house wants decides it."
    return {"findings": findings[:5], "rationale": reason, "value": value, "result": value}


def _stated(competence: Competence, text: str) -> list[str]:
    """The rules that a text's comments state, or a wrong one where distilling fails."""
    present = [re.escape(comment) for comment in COMMENTS if comment in text]
    rules, number = list[str](), 0
    for match in re.finditer("|".join([r"Case (\d+)\.", *present]), text):
        number = int(match[1] or number)
        if not match[1]:
            rules.append(
                (COMMENTS[match[0]] if competence.does("distilling", number) else FOG).text
            )
    return list(dict.fromkeys(rules))


def _distilled(competence: Competence, user: str, form: Body) -> list[Body]:
    """One guideline for all feedback that states the same rule; the rest, a label alone, helps with nothing else."""
    before, _, new = user.rpartition("New feedback:")
    names = {text: name for name, text in GUIDELINE.findall(before)}
    groups: dict[str, list[tuple[str, SimulatedCase]]] = {}
    for name, item, words in RECORD.findall(new):
        (text, *_) = _stated(competence, item + words) or ("",)
        groups.setdefault(text, []).append((name, _case_of(item)))
    changes = [_change(text, members, names.get(text, "")) for text, members in groups.items()]
    return [{name: change[name] for name in form if name in change} for change in changes]


def _change(text: str, members: Sequence[tuple[str, SimulatedCase]], name: str) -> Body:
    change: Body = {"feedback": [label for label, _ in members], "guideline": name, "tests": []}
    if not text or name:
        return change | {
            "action": "SUPPORT" if name else "NOOP",
            "text": "" if name else "a label alone",
        }
    return change | {"action": "ADD", "text": text}


def _merged(user: str) -> list[Body]:
    """Guidelines of the same words are one; no two others of our rules are."""
    groups: dict[str, list[str]] = {}
    for name, text in GUIDELINE.findall(user):
        groups.setdefault(text, []).append(name)
    return [{"text": text, "from": names} for text, names in groups.items() if len(names) > 1]


def _listed(competence: Competence, user: str) -> list[Body]:
    """MLflow's form: the new guidelines, with the numbers of the records that state them."""
    before, *records = re.split(r'^  "id": (?=\d+,)', user, flags=re.MULTILINE)
    groups: dict[str, list[int]] = {}
    for record in records:
        for text in _stated(competence, record):
            groups.setdefault(text, []).append(int(record.partition(",")[0]))
    return [
        {"guideline_text": text, "source_trace_ids": ids}
        for text, ids in groups.items()
        if text not in before
    ]


def _written(competence: Competence, user: str) -> Body:
    """Fields that DSPy's optimizers ask for: the rules that the prompt has, and those that its comments state."""
    present, stated = [text for text in RULES if text in user], _stated(competence, user)
    rules = "\n".join(dict.fromkeys([*present, *stated]))
    commonest = sorted(present, key=user.count, reverse=True)[:IN_SUMMARY]
    return {
        "observations": f"{TASK} {rules}\n",
        "summary": "\n".join([TASK, *commonest]),
        "module_advice": json.dumps({"self": "\n".join(stated)}),
        **dict.fromkeys(("proposed_instruction", "new_instruction"), f"{INSTRUCTIONS}\n{rules}"),
    }


def decide(body: Body) -> Body:
    """What the decision model answers: of a rule whether the case goes against it, and for the verdict its own."""
    policy, competence = MODELS[body["model"]]
    case = _case_of(body["state"])
    return {
        name: _decided(policy, competence, case, question)
        for name, question in body["questions"].items()
    }


def _decided(policy: Policy, competence: Competence, case: SimulatedCase, question: Body) -> Body:
    text = question["instructions"]
    if question["type"] == "noul":
        broken = any(
            rule.decides(case) and not rule.value(case)
            for rule in RULES.values()
            if rule.text[:-1] in text
        )
        likely = "yes" if broken == competence.does("checking", case.number, text) else "no"
    else:
        voted = _voted([rule for rule in RULES.values() if rule.text in text], case)
        unaided = policy.label(case) == competence.does("zero", case.number, "decision")
        follows = voted is not None and competence.does("following", case.number, "decision")
        likely = "true" if (voted if follows else unaided) else "false"
    # How sure it says it is tells nothing: accuracy is flat over what such models tell.
    sure = (0.62, 0.8, 0.93)[int(3 * _chance(competence.seed, "sure", case.number, text))]
    if question["type"] == "noul":
        return {"type": "noul", "noul": sure if likely == "yes" else 1 - sure}
    options = list(question["criteria"])
    shares = {option: (1 - sure) / (len(options) - 1) for option in options} | {likely: sure}
    return {"type": "choice", "choice": likely, "confidence": sure, "probabilities": shares}
