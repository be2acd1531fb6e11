"""Policies of a house, and simulated models that judge by them as well as they are set to.

A chat model has a competence for each thing that it does: judging without a rule, following a rule that it is shown,
citing it truly, and writing the right rule from an expert's comment. A decision model has one for answering questions
and one for its own verdict. Each is the probability of doing it right, drawn once for each case, so that the same
request always has the same answer. All of it is read off the model's name, `plain.zero60.following85.…seed1`: one
server stands for every model.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from loopback import Body, text_of

__all__ = ["INSTRUCTIONS", "POLICIES", "Case", "Competence", "Policy", "chat", "decide"]

INSTRUCTIONS = "Is this reply to the customer as our house wants it?\nLetter: {{ inputs }}\nReply: {{ outputs }}"

TOPICS = (
    *("invoice", "parcel", "kettle", "password", "voucher", "address", "subscription", "warranty", "jacket", "router"),
    *(
        "ticket",
        "deposit",
        "contract",
        "printer",
        "mattress",
        "delivery slot",
        "loyalty card",
        "battery",
        "lamp",
        "sofa",
    ),
)
REPLIES = {
    "apology": "We are sorry for the trouble.",
    "date": "You will have it by 14 May.",
    "refund": "Your money is on its way back.",
    "phone": "Our line is open until six.",
    "name": "Ms Okafor looks after this.",
    "thanks": "Thank you for writing to us.",
    "terms": "Please note our general terms.",
    "offer": "Have a look at our summer offers.",
    "answer": "Yes, that model fits your kitchen.",
    **{f"step of {topic}": f"A colleague has taken up the {topic} today." for topic in TOPICS},
}
LETTERS = {
    "member": "I have been with your club since 2019.",
    "own fault": "I dropped it myself.",
    "hurry": "I need it this week.",
    **{f"about {topic}": f"I am writing about my {topic}." for topic in TOPICS},
}
ASKED = {
    **{key: f"Does the reply hold this: {key}?" for key in REPLIES},
    **{key: f"Does the letter hold this: {key}?" for key in LETTERS},
    "order": "Does the answer come before the thanks?",
}
FACTS = {question: key for key, question in ASKED.items()}
NOISE = ("phone", "name", "offer", "terms")


@dataclass(frozen=True)
class Case:
    """A letter and its reply, with what is true of them."""

    number: int
    facts: frozenset[str]

    @property
    def letter(self) -> str:
        """What the customer writes."""
        return " ".join([f"Case {self.number}.", *(text for key, text in LETTERS.items() if key in self.facts)])

    @property
    def reply(self) -> str:
        """What the house answers; the answer comes first or last."""
        texts = [text for key, text in REPLIES.items() if key in self.facts and key != "answer"]
        if "answer" in self.facts:
            texts.insert(0 if "order" in self.facts else len(texts), REPLIES["answer"])
        return " ".join(texts) or "Noted."


@dataclass(frozen=True)
class Rule:
    """One thing that experts of the house say.

    Attributes:
        text: The rule as a guideline.
        comments: What experts say of a case that it decides.
        needs: Facts that a case must have or lack for the rule to decide it.
        fact: What decides; the value is whether it is there, turned where `turned`, or always `always`.
        rank: Of several rules that decide a case those of the highest rank count.
    """

    text: str
    comments: tuple[str, ...]
    fact: str
    needs: tuple[tuple[str, bool], ...] = ()
    turned: bool = False
    always: bool | None = None
    rank: int = 0

    def decides(self, case: Case) -> bool:
        """Whether it says anything about a case."""
        return all((fact in case.facts) == wanted for fact, wanted in self.needs)

    def value(self, case: Case) -> bool:
        """What it says about a case that it decides."""
        return self.always if self.always is not None else (self.fact in case.facts) != self.turned

    @property
    def questions(self) -> list[str]:
        """What it rests on."""
        return [ASKED[fact] for fact in dict.fromkeys([*(fact for fact, _ in self.needs), self.fact])]

    def quotation(self, case: Case) -> str:
        """Words of the case that show it; none where something is missing."""
        texts = REPLIES | LETTERS | {"order": REPLIES["answer"]}
        return texts[self.fact] if self.fact in case.facts else ""


def _rule(fact: str, wish: str, **settings: Any) -> Rule:
    """A rule in four wordings of experts."""
    wordings = (
        "{}: that is what counts here.",
        "Here I look for one thing: {}.",
        "Our way is plain: {}.",
        "To us, {}.",
    )
    text = settings.pop("text", f"{wish[0].upper()}{wish[1:]}.")
    return Rule(text=text, comments=tuple(wording.format(wish) for wording in wordings), fact=fact, **settings)


@dataclass(frozen=True)
class Policy:
    """What the experts of a house want, in rules; `weights` of facts where the label is a weighted taste."""

    name: str
    rules: tuple[Rule, ...]
    draws: tuple[tuple[str, float], ...]
    weights: tuple[tuple[str, float], ...] = ()
    topics: bool = False

    def case(self, number: int, rng: random.Random) -> Case:
        """One case, at random."""
        facts = {fact for fact, share in (*self.draws, *((fact, 0.5) for fact in NOISE)) if rng.random() < share}
        if self.topics:
            topic = rng.choice(TOPICS)
            facts |= {f"about {topic}", *([f"step of {topic}"] if rng.random() < 0.5 else [])}
        return Case(number, frozenset(facts))

    def label(self, case: Case) -> bool:
        """What the experts say of it."""
        if self.weights:
            return sum(weight if fact in case.facts else -weight for fact, weight in self.weights) > 0
        return _voted(self.rules, case) is True

    def rule(self, case: Case) -> Rule:
        """The rule that an expert names: of those of the highest rank one that speaks for the label."""
        deciding = [rule for rule in self.rules if rule.decides(case)]
        highest = max(rule.rank for rule in deciding)
        speaking = [rule for rule in deciding if rule.rank == highest and rule.value(case) == self.label(case)]
        return speaking[case.number % len(speaking)]

    def comment(self, case: Case) -> str:
        """What an expert writes of a case."""
        rule = self.rule(case)
        return rule.comments[case.number % len(rule.comments)]

    def cases(self, count: int, seed: int, *, first: int) -> list[Case]:
        """Cases of both labels in turn, as far as the policy deals them."""
        rng = random.Random(f"{self.name} {seed} {first}")
        numbers = itertools.count(first)
        chosen: list[Case] = []
        while len(chosen) < count:
            case = self.case(next(numbers), rng)
            if self.label(case) == (len(chosen) % 2 == 0):
                chosen.append(case)
        return chosen


def _policies() -> list[Policy]:
    taste = (("apology", 3.0), ("date", 2.1), ("name", 2.0), ("terms", -1.9), ("offer", -1.2), ("thanks", 1.1))
    return [
        Policy("plain", (_rule("date", "a good reply says by when"),), (("date", 0.5), ("apology", 0.5))),
        Policy(
            "conditional",
            (
                _rule("refund", "club members get their money back", needs=(("member", True),)),
                _rule("refund", "without club card nobody is paid back", needs=(("member", False),), turned=True),
            ),
            (("member", 0.5), ("refund", 0.5), ("thanks", 0.5)),
        ),
        Policy(
            "exceptional",
            (
                _rule("apology", "every reply says sorry"),
                _rule(
                    "own fault",
                    "who broke it himself need not hear sorry",
                    needs=(("own fault", True),),
                    always=True,
                    rank=1,
                ),
            ),
            (("own fault", 0.35), ("apology", 0.4), ("thanks", 0.5)),
        ),
        Policy("order", (_rule("order", "what was asked is answered first"),), (("order", 0.5), ("answer", 1.0))),
        Policy(
            "twenty rules",
            tuple(
                _rule(f"step of {topic}", f"with any {topic} a colleague takes over", needs=((f"about {topic}", True),))
                for topic in TOPICS
            ),
            (("thanks", 0.5), ("apology", 0.5)),
            topics=True,
        ),
        Policy(
            "taste",
            tuple(_rule(fact, f"a matter of {fact}", turned=weight < 0) for fact, weight in taste),
            tuple((fact, 0.5) for fact, _ in taste),
            weights=taste,
        ),
    ]


POLICIES = {policy.name: policy for policy in _policies()}
FOG = _rule("phone", "a reply names the line that is open", rank=-1)
"""What a distiller writes that missed the point: a rule about something that means nothing."""

RULES = {rule.text: rule for policy in POLICIES.values() for rule in policy.rules} | {FOG.text: FOG}
SAID = {comment: rule for rule in RULES.values() for comment in rule.comments}


@dataclass(frozen=True, kw_only=True)
class Competence:
    """How often a model does right what it does, from 0 to 1, and the seed of its draws."""

    zero: float = 0.6
    following: float = 0.9
    citing: float = 0.9
    distilling: float = 0.9
    checking: float = 0.85
    seed: int = 0

    def name(self, policy: str) -> str:
        """The name of a model that judges by a policy with this competence."""
        shares = "".join(f".{field.name}{round(100 * getattr(self, field.name))}" for field in fields(self)[:-1])
        return f"{policy.replace(' ', '_')}{shares}.seed{self.seed}"

    def does(self, what: str, *parts: object) -> bool:
        """Whether it does that right in one case."""
        share: float = getattr(self, what)
        return _chance(self.seed, what, *parts) < share


@cache
def _parsed(model: str) -> tuple[Policy, Competence]:
    policy, *settings, seed = model.split(".")
    shares = {
        name: int(share) / 100 for name, share in (re.fullmatch(r"([a-z]+)(\d+)", part).groups() for part in settings)
    }  # type: ignore[union-attr]  # our own names
    return POLICIES[policy.replace("_", " ")], Competence(**shares, seed=int(seed.removeprefix("seed")))


def _chance(*parts: object) -> float:
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def _voted(rules: Sequence[Rule], case: Case) -> bool | None:
    """What most of the rules of the highest rank that decide a case say; None where none does, or as many each way."""
    deciding = [rule for rule in rules if rule.decides(case)]
    highest = max((rule.rank for rule in deciding), default=0)
    votes = sum(1 if rule.value(case) else -1 for rule in deciding if rule.rank == highest)
    return None if votes == 0 else votes > 0


def _case_of(text: str) -> Case:
    """The last case in a text, with all that is written of it."""
    number = max(re.finditer(r"Case (\d+)\.", text), key=lambda match: match.start())
    rest = text[number.start() :]
    facts = {key for key, sentence in (REPLIES | LETTERS).items() if sentence in rest}
    _, _, reply = rest.partition("outputs:")
    if REPLIES["answer"] in reply and reply.lstrip().lstrip('"').startswith(REPLIES["answer"]):
        facts.add("order")
    return Case(int(number[1]), frozenset(facts))


# -- the chat model --------------------------------------------------------------------------------------------------

GUIDELINE = re.compile(r"^(?:(G\d+):|-) (.+)$", re.MULTILINE)
RECORD = re.compile(r"^(F\d+) <<<\n(.*?)^>>>$(.*?)(?=^F\d+ <<<$|\Z)", re.MULTILINE | re.DOTALL)


def chat(body: Body) -> Body:
    """What the chat model answers: a judgment, or changes to the guidelines."""
    policy, competence = _parsed(body["model"])
    system = "\n".join(text_of(message) for message in body["messages"] if message["role"] != "user")
    user = "\n".join(text_of(message) for message in body["messages"] if message["role"] == "user")
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "changes" in properties:
        return _distilled(competence, user, properties)
    if "guidelines" in properties:  # a merge: no two of our rules are one
        return {"guidelines": []}
    return _judged(policy, competence, system, user, properties)


def _judged(policy: Policy, competence: Competence, system: str, user: str, properties: Body) -> Body:
    case = _case_of(user)
    rules = [(name, RULES[text]) for name, text in GUIDELINE.findall(system) if text in RULES]
    unaided = policy.label(case) == competence.does("zero", case.number)
    voted = _voted([rule for _, rule in rules], case)
    follows = voted is not None and competence.does("following", case.number)
    value = voted if follows else unaided
    findings = [
        {"guideline": name, "evidence": rule.quotation(case), "value": rule.value(case)}
        for name, rule in rules
        if rule.decides(case) and competence.does("citing", case.number, rule.text)
    ]
    answer = {"findings": findings[:5], "rationale": "What our house wants decides it.", "value": value}
    return {name: answer[name] for name in properties if name in answer}


def _distilled(competence: Competence, user: str, properties: Body) -> Body:
    """One guideline for all feedback that states the same rule; the rest, a label alone, helps with nothing else."""
    before, _, new = user.rpartition("New feedback:")
    names = {text: name for name, text in GUIDELINE.findall(before)}
    groups: dict[str, list[tuple[str, Case]]] = {}
    for name, item, words in RECORD.findall(new):
        comment = re.search(r"expert's comment: (.*)$", words, re.MULTILINE)
        rule = SAID.get(json.loads(comment[1])) if comment else None
        case = _case_of(item)
        if rule is not None and not competence.does("distilling", case.number):
            rule = FOG
        groups.setdefault(rule.text if rule else "", []).append((name, case))
    changes = [_change(text, members, names) for text, members in groups.items()]
    return {
        name: {"changes": changes, "conflicts": []}[name] for name in properties if name in ("changes", "conflicts")
    }


def _change(text: str, members: Sequence[tuple[str, Case]], names: dict[str, str]) -> Body:
    change: Body = {"feedback": [name for name, _ in members], "guideline": "", "text": text, "tests": []}
    if not text:
        return change | {"action": "NOOP", "text": "a label alone", "checks": []}
    if text in names:
        return change | {"action": "SUPPORT", "guideline": names[text], "text": "", "checks": []}
    rule, case = RULES[text], members[0][1]
    answers = [(question, FACTS[question] in case.facts) for question in rule.questions]
    checks = [{"question": question, "answer": "yes" if holds else "no"} for question, holds in answers]
    return change | {"action": "ADD", "checks": checks, "value": json.dumps(rule.value(case))}


# -- the decision model ----------------------------------------------------------------------------------------------


def decide(body: Body) -> Body:
    """What the decision model answers: of a fact whether it is there, and for the verdict what it thinks itself."""
    policy, competence = _parsed(body["model"])
    case = _case_of(body["state"])
    return {name: _decided(policy, competence, case, question) for name, question in body["questions"].items()}


def _decided(policy: Policy, competence: Competence, case: Case, question: Body) -> Body:
    text = question["instructions"]
    options = list(question.get("criteria") or ("yes", "no"))
    if text in FACTS:
        right = competence.does("checking", case.number, text)
        likely = "yes" if (FACTS[text] in case.facts) == right else "no"
    elif "true" in options:
        voted = _voted([rule for rule in RULES.values() if rule.text in text], case)
        unaided = policy.label(case) == competence.does("zero", case.number, "decision")
        follows = voted is not None and competence.does("following", case.number, "decision")
        likely = "true" if (voted if follows else unaided) else "false"
    else:  # a question of somebody else's
        likely = options[0] if _chance(competence.seed, case.number, text) < 0.5 else options[1]
    # How sure it says it is tells nothing: accuracy is flat over what such models tell.
    sure = (0.62, 0.8, 0.93)[int(3 * _chance(competence.seed, "sure", case.number, text))]
    if question["type"] == "noul":
        return {"type": "noul", "noul": sure if likely == "yes" else 1 - sure}
    probabilities = {option: (1 - sure) / (len(options) - 1) for option in options} | {likely: sure}
    return {"type": "choice", "choice": likely, "confidence": sure, "probabilities": probabilities}
