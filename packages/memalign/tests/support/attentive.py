"""A model on loopback that does what its prompt says, by rules that a reader can check.

It stands in for a chat model, and passes every reply, unless a guideline in its prompt asks
for something that the reply lacks or forbids something that the reply does. What it learns
from a comment are the expert's own words. So a verdict changes only if a guideline has
reached the prompt, and changes back only if the guideline has left it. It shows what the
library does, not how well a model judges.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.endpoint import Body, system_of, user_of
from tests.support.learning import changes_of

DAYS = r"(?:on )?\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
UPSET = r"broken?\b|crack|twice|two months|came off"

FORBIDDEN = {
    "never promise a day": DAYS,
    "never promise money": r"refund you|money back",
    '"soon"': r"(?i:\bsoon\b)",
}
"""By the words of a guideline, what a reply may not have."""


def attentive(body: Body) -> dict[str, Any]:
    """The answer to a request: changes to guidelines, or a verdict on an item whose
    value is true or false."""
    system = system_of(body)
    user = user_of(body)
    if body["response_format"]["json_schema"]["name"] == "changes":
        return changes_of(user)
    guidelines = re.findall(
        r"^(G\d+): (.+)$",
        system.partition("# Guidelines from experts")[2],
        re.MULTILINE,
    )
    inputs = _field("inputs", user)
    outputs = _field("outputs", user)
    findings = []
    for name, text in guidelines:
        evidence = _fault(text.lower(), inputs, outputs)
        if evidence is not None:
            findings.append({"guideline": name, "evidence": evidence, "value": False})
    rationale = "It answers the customer politely."
    if findings:
        first = findings[0]
        point = "the customer is upset, no regret"
        if first["evidence"]:
            point = f'the reply says "{first["evidence"]}"'
        rationale = f"Against {first['guideline']}: {point}."
    verdict = {"rationale": rationale, "value": not findings}
    return {"findings": findings} | verdict if guidelines else verdict


def _field(name: str, user: str) -> str:
    """The field of the item that is judged, which is the last in the prompt."""
    return str(json.loads(re.findall(rf"^{name}: (.*)$", user, re.MULTILINE)[-1]))


def _fault(guideline: str, inputs: str, outputs: str) -> str | None:
    """What a guideline has against the reply: words of the reply, "" for something that
    is missing, None for nothing."""
    if (
        re.search(r"say sorry|regret", guideline)
        and re.search(UPSET, inputs)
        and "sorry" not in outputs.lower()
    ):
        return ""
    for words, pattern in FORBIDDEN.items():
        fault = re.search(pattern, outputs)
        if words in guideline and fault:
            return fault[0]
    return None
