"""Real decision servers on loopback: System One, as Ollama and TypeSafe speak it, and OpenAI's.

Each is an `Endpoint` whose answers come from a function of the state and a question's
instructions: the probability of yes, or one for each label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.endpoint import Answer, Body, Endpoint, bad_request

Told = float | Mapping[str, float] | None
"""The probability of yes, or of each label; None declines to answer."""

Decide = Callable[[str, str], Told]

PER_TOKEN = 4  # characters


def system_one(decide: Decide, *, most: int | None = None, **settings: Any) -> Endpoint:
    """A server of `POST /v1/systemone`. It refuses a request with a question that it
    declines, and one of more than `most`."""

    def answer(body: Body) -> Answer:
        if most is not None and len(body["questions"]) > most:
            return bad_request("too many questions")
        answers = {}
        for key, question in body["questions"].items():
            told = decide(body["state"], question["instructions"])
            if told is None:
                return bad_request("one of the questions cannot be answered")
            answers[key] = _system_one(question, told)
        usage = {"input_tokens": _tokens(body), "output_tokens": len(answers)}
        return {"model": body["model"], "answers": answers, "usage": usage}

    return Endpoint(answer, **settings)


def openai_decisions(decide: Decide, **settings: Any) -> Endpoint:
    """A server of `POST /v1/decisions`: at most 200 questions a request; it declines
    single ones."""

    def answer(body: Body) -> Answer:
        if len(body["questions"]) > 200:
            return bad_request("questions: at most 200 questions")
        answers = []
        for question in body["questions"]:
            told = decide(body["input"], question["instructions"])
            answers.append(_openai(question, told))
        tokens = _tokens(body)
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {
                "cache_write_tokens": 0,
                "cached_tokens": tokens // 2,
            },
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens,
        }
        return {"model": body["model"], "answers": answers, "usage": usage}

    return Endpoint(answer, **settings)


def _tokens(body: Body) -> int:
    return len(str(body)) // PER_TOKEN


def _spread(told: float | Mapping[str, float], labels: list[str]) -> dict[str, float]:
    """A probability for each label, in hundredths."""
    assert isinstance(told, Mapping), "one number answers a yes/no question"
    return {label: round(told.get(label, 0.0), 2) for label in labels}


def _system_one(question: Body, told: float | Mapping[str, float]) -> Body:
    if question["type"] == "noul":
        return {"type": "noul", "noul": told}
    spread = _spread(told, list(question["criteria"]))
    if question["type"] == "choice":
        return _choice(spread) | {"probabilities": spread}
    probabilities = {}
    legend = {}
    for level, meaning in enumerate(spread):
        probabilities[str(level)] = spread[meaning]
        legend[str(level)] = meaning
    return _score(spread) | {"probabilities": probabilities, "legend": legend}


def _openai(question: Body, told: Told) -> Body:
    named = {"name": question["name"]}
    if told is None:
        return {"type": "refusal"} | named
    if question["type"] == "predicate":
        return {"type": "predicate", "probability": told} | named
    if question["type"] == "choice":
        spread = _spread(told, [choice["value"] for choice in question["choices"]])
        shown: list[Body] = []
        for label, probability in spread.items():
            shown.append({"value": label, "probability": probability})
        return _choice(spread) | {"probabilities": shown} | named
    spread = _spread(told, [level["description"] for level in question["levels"]])
    rated: list[Body] = []
    for level, probability in enumerate(spread.values()):
        rated.append({"value": level, "label": str(level), "probability": probability})
    return _score(spread) | {"probabilities": rated} | named


def _choice(spread: dict[str, float]) -> Body:
    likeliest = max(spread, key=spread.__getitem__)
    return {"type": "choice", "choice": likeliest, "confidence": spread[likeliest]}


def _score(spread: dict[str, float]) -> Body:
    mean = sum(level * share for level, share in enumerate(spread.values()))
    confidence = max(spread.values())
    return {"type": "score", "score": round(mean, 2), "confidence": confidence}
