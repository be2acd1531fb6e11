"""Small files in the published formats, with rows of our own, in a folder laid out as the public repositories are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, import-not-found, unused-ignore]

from memalign_bench.data import autoj, feedback_collection, financebench, halubench, hotpotqa

TOPICS = (
    "harbour logistics for perishable cargo",
    "gentle humour towards anxious patients",
    "orchestral arrangement of folk melodies",
    "tax guidance for seasonal beekeepers",
    "glacier rescue instructions under pressure",
    "pronunciation coaching with regional accents",
    "stained window restoration vocabulary",
    "chess opening commentary aimed at children",
    "negotiating rent without giving offence",
    "debugging irrigation firmware remotely",
    "recipes adapted to kidney disease",
    "eulogies that respect several religions",
)


def put(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as JSON lines, a JSON array or Parquet, as the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=2), "utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def halubench_rows(count: int = 40) -> list[dict[str, Any]]:
    return [
        {
            "id": f"row-{n}",
            "passage": f"The lighthouse of Isle {n // 2} was built in {1800 + n // 2}.",
            "question": f"When was the lighthouse of Isle {n // 2} built?",
            "answer": str(1800 + n // 2 + n % 2),
            "label": "FAIL" if n % 2 else "PASS",
            "source_ds": "islands",
        }
        for n in range(count)
    ]


def question_rows(count: int = 20) -> list[dict[str, Any]]:
    return [
        {
            "financebench_id": f"financebench_id_{n:05}",
            "company": f"Firm {n}",
            "doc_name": f"FIRM{n}_2020_10K",
            "question_type": "metrics-generated",
            "question": f"What did Firm {n} earn?",
            "answer": f"${n}.00",
            "justification": "read off",
            "evidence": [{"evidence_text": "…"}],
        }
        for n in range(count)
    ]


def result_rows(system: int, count: int = 20) -> list[dict[str, Any]]:
    words = ("Correct Answer", "Incorrect Answer", "Refusal")
    return [
        {
            "financebench_id": f"financebench_id_{n:05}",
            "model_name": "m",
            "eval_mode": "oracle",
            "temp": 0.01,
            "question": f"What did Firm {n} earn?",
            "gold_answer": n,
            "model_answer": f"System {system} says {n + (n + system) % 3} dollars",
            "label": words[(n + system) % 3],
        }
        for n in range(count)
    ]


def pair(n: int, source: str, *, gt: int, pred: int, column: str = "usrmsg") -> dict[str, Any]:
    return {
        column: (
            "You are assessing two submitted responses. Here is the data:\n\n[BEGIN DATA]\n***\n"
            f"[Query]: How do I oil hinge {n // 2}?\n***\n[Response 1]: With a *** drop, {n}.\n***\n"
            f"[Response 2]: Never, {n}.\n***\n[END DATA]\n\nHere are the instructions …"
        ),
        "target_output": "Response 1 is practical. So, the final decision is Response 1.",
        "gt_label": gt,
        "pred_label": pred,
        "scenario": "asking_how_to_question",
        "source_dataset": source,
    }


def pair_rows() -> list[dict[str, Any]]:
    return [
        *(pair(n, "PKU-SafeRLHF", gt=n % 2, pred=0) for n in range(40)),
        *(pair(n, "openai_summary", gt=n % 3, pred=n % 3) for n in range(40)),
        *(pair(n, "chatbot_arena", gt=2, pred=2) for n in range(4)),
    ]


def scored(topic: str, instruction: int, score: int) -> dict[str, Any]:
    return {
        "instruction": "###Task Description: …",
        "output": f"Fair. [RESULT] {score}",
        "orig_criteria": f"Does the model show skill in {topic}?",
        **{f"orig_score{n}_description": f"Level {n} of {topic}." for n in range(1, 6)},
        "orig_instruction": f"Task {instruction} on {topic}",
        "orig_response": f"Attempt {score} at task {instruction}",
        "orig_reference_answer": f"The ideal for task {instruction}",
        "orig_feedback": f"It deserves {score}.",
        "orig_score": str(score),
    }


def scored_rows() -> list[dict[str, Any]]:
    return [scored(topic, n, score) for topic in TOPICS for n in range(20) for score in range(1, 6)]


def hotpot_rows(count: int = 20) -> list[dict[str, Any]]:
    return [
        {
            "id": f"5a{n:04}",
            "question": f"Which river crosses town {n} ?",
            "answer": f"the Blue {n} River",
            "type": "bridge",
            "level": "hard",
            "supporting_facts": {"title": ["Town"], "sent_id": [0]},
            "context": {"title": ["Town"], "sentences": [["A river crosses it."]]},
        }
        for n in range(count)
    ]


def run(question: str, answer: str | None, reference: str, *, correct: bool, react: bool, inline: bool = False) -> str:
    step = " 2" if react else ""
    search = "Thought 1: Search first.\nAction 1: Search[x]\nObservation 1: A page.\n" if react else ""
    ending = (
        f"Action{step}: Finish[{answer}]\nObservation{step}: Answer is {'CORRECT' if correct else 'INCORRECT'}\n"
        if answer is not None
        else f"Action{step}: Search[y]\nObservation{step}: Nothing.\n"
    )
    before = "Context: A town.\n\nIt has a river. " if inline else ""  # as some logs have it
    return f"\n{before}Question:  {question}\n{search}Thought{step}: I think so.\n{ending}Correct answer: {reference}\n"


def log(system: int, count: int = 20) -> str:
    runs = []
    for n in range(count):
        question, river = f"Which river crosses town {n} ?", f"the Blue {n} River"
        kinds = [(river, True), ("Lake Green", False), (f"Blue {n}", False), (None, False)]
        answer, correct = kinds[(n + system) % 4]
        runs.append(run(question, answer, river, correct=correct, react=system == 4, inline=system == 2))
    return (
        "\n####\nBEGIN TRIAL 1\nTrial summary: …\n####\n------------- BEGIN CORRECT AGENTS -------------\n"
        + "".join(runs)
        + "\n####\nBEGIN TRIAL 2\nTrial summary: …\n"
        + run("Which river crosses town 0 ?", "reflected", "the Blue 0 River", correct=True, react=False)
    )


def write_all(folder: Path) -> Path:
    """Every published data set under `folder`, by name, under its repository's paths."""
    put(folder / "halubench" / halubench.TRIPLES.path, halubench_rows())
    put(folder / "financebench" / financebench.QUESTIONS.path, question_rows())
    for system, remote in enumerate(financebench.RESULTS):
        put(folder / "financebench" / remote.path, result_rows(system))
    for name in ("autoj-saferlhf", "autoj-summary"):
        put(folder / name / autoj.PAIRS.path, pair_rows())
    put(folder / "feedback-collection" / feedback_collection.SCORED.path, scored_rows())
    put(folder / "hotpotqa" / hotpotqa.QUESTIONS.path, hotpot_rows())
    for system, remote in enumerate(hotpotqa.LOGS.values()):
        path = folder / "hotpotqa" / remote.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log(system), "utf-8")
    return folder
