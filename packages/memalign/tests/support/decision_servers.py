"""Real decision servers on loopback: System One, as Ollama and TypeSafe speak it, and OpenAI's Decisions.

Each is an `Endpoint` whose answers come from a function of the state and a question's instructions: the probability of
yes, or one for each label.
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
        text = body["state"] + "".join(
            str(question) for question in body["questions"].values()
        )
        usage = {"input_tokens": len(text) // PER_TOKEN, "output_tokens": len(answers)}
        return {"model": body["model"], "answers": answers, "usage": usage}

    return Endpoint(answer, **settings)


def openai_decisions(decide: Decide, **settings: Any) -> Endpoint:
    """A server of `POST /v1/decisions`: at most 200 questions a request; it declines
    single ones."""

    def answer(body: Body) -> Answer:
        if len(body["questions"]) > 200:
            return bad_request("questions: at most 200 questions")
        answers = [
            _openai(question, decide(body["input"], question["instructions"]))
            for question in body["questions"]
        ]
        text = body["input"] + "".join(str(question) for question in body["questions"])
        tokens = len(text) // PER_TOKEN
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


def _spread(told: float | Mapping[str, float], labels: list[str]) -> dict[str, float]:
    """A probability for each label, in hundredths; a number is that of the first of yes and no."""
    assert not isinstance(told, float | int), "one number answers a yes/no question"
    of = dict(told)
    return {label: round(of.get(label, 0.0), 2) for label in labels}


def _system_one(question: Body, told: float | Mapping[str, float]) -> Body:
    if question["type"] == "noul":
        return {"type": "noul", "noul": told}
    spread = _spread(told, list(question["criteria"]))
    if question["type"] == "choice":
        return _answer(spread, scored=False) | {"probabilities": spread}
    probabilities = {
        str(level): probability for level, probability in enumerate(spread.values())
    }
    legend = {str(level): meaning for level, meaning in enumerate(spread)}
    return _answer(spread, scored=True) | {
        "probabilities": probabilities,
        "legend": legend,
    }


def _openai(question: Body, told: Told) -> Body:
    named = {"name": question["name"]}
    if told is None:
        return {"type": "refusal"} | named
    if question["type"] == "predicate":
        return {"type": "predicate", "probability": told} | named
    if question["type"] == "choice":
        spread = _spread(told, [choice["value"] for choice in question["choices"]])
        shown = [
            {"value": label, "probability": probability}
            for label, probability in spread.items()
        ]
        return _answer(spread, scored=False) | {"probabilities": shown} | named
    spread = _spread(told, [level["description"] for level in question["levels"]])
    levels = enumerate(spread.values())
    rated = [
        {"value": level, "label": str(level), "probability": probability}
        for level, probability in levels
    ]
    return _answer(spread, scored=True) | {"probabilities": rated} | named


def _answer(spread: Mapping[str, float], *, scored: bool) -> Body:
    confidence = {"confidence": max(spread.values())}
    if scored:
        mean = sum(
            level * probability for level, probability in enumerate(spread.values())
        )
        return {"type": "score", "score": round(mean, 2)} | confidence
    return {
        "type": "choice",
        "choice": max(spread, key=lambda label: spread[label]),
    } | confidence
