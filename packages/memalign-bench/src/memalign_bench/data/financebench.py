"""FinanceBench: whether a system's answer to a question on a company's filings is correct.

150 questions with gold answers, and 16 systems' answers to each, which the authors reviewed by hand (Islam et al. 2023,
arXiv:2311.11944). Their labels are Correct Answer, Incorrect Answer and Refusal; refusals are left out, since whether an
answer was refused is another question than whether it is correct. The gold answer is the data file's ("65.4%"), not the
rounded number of the result files (0.654). There are no comments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from memalign.types import Feedback
from memalign_bench.data.hub import Remote
from memalign_bench.data.tables import Record, make_task, read_table
from memalign_bench.tasks import Task

__all__ = ["LICENCE", "QUESTIONS", "RESULTS", "load"]

LICENCE = "CC BY-NC 4.0 (the card of PatronusAI/financebench); none stated in the repository"

_ADDED = "d7beebe5e739e0b806ab4443c1b3e23f51804acf"
_ADDED_TOO = "22257c455f9f9ca9ca3dc67456d9a32e60c7ef08"


def _remote(path: str, revision: str) -> Remote:
    return Remote(hub="github", repository="patronus-ai/financebench", revision=revision, path=path)


QUESTIONS = _remote("data/financebench_open_source.jsonl", "3b830572e9af88c1152b548622bd81ca94eb640a")
RESULTS = tuple(
    _remote(f"results/{system}.jsonl", revision)
    for system, revision in (
        ("claude-2_inContext", _ADDED),
        ("claude-2_inContext_reverse", _ADDED),
        ("gpt-4-1106-preview_closedBook", _ADDED_TOO),
        ("gpt-4-1106-preview_inContext", _ADDED),
        ("gpt-4-1106-preview_inContext_reverse", _ADDED_TOO),
        ("gpt-4-1106-preview_oracle", _ADDED_TOO),
        ("gpt-4-1106-preview_oracle_reverse", _ADDED_TOO),
        ("gpt-4-1106-preview_sharedStore", _ADDED_TOO),
        ("gpt-4-1106-preview_singleStore", _ADDED_TOO),
        ("gpt-4_closedBook", _ADDED),
        ("gpt-4_oracle", _ADDED_TOO),
        ("gpt-4_oracle_reverse", _ADDED),
        ("gpt-4_sharedStore", _ADDED_TOO),
        ("gpt-4_singleStore", _ADDED),
        ("llama2_sharedStore", _ADDED),
        ("llama2_singleStore", _ADDED_TOO),
    )
)

_LABELS = {"correct answer": "correct", "incorrect answer": "incorrect", "refusal": None, "failed to answer": None}


def load(paths: Sequence[Path]) -> tuple[Task, ...]:
    """The task `financebench`, correct or incorrect, of the questions and each system's results; a group is a question.

    Raises InputError for a label or a question that the authors do not name.
    """
    questions, *results = paths
    known = {row.text("financebench_id"): row for row in read_table(questions)}
    task = make_task(
        "financebench",
        (feedback for path in results for feedback in _answers(path, known)),
        path=questions,
        category="answer correctness",
        criterion="Is the model's answer to the financial question correct, given the gold answer?",
        values="correct|incorrect",
        licence=LICENCE,
    )
    return (task,)


def _answers(path: Path, known: dict[str, Record]) -> Iterator[Feedback]:
    system = path.stem
    for row in read_table(path):
        raw = row.text("label")
        if raw.strip().casefold() not in _LABELS:
            raise row.wrong(f"column 'label': unknown label {raw!r}; known: Correct Answer, Incorrect Answer, Refusal")
        label, answer = _LABELS[raw.strip().casefold()], row.text("model_answer", blank=True)
        if label is None or not answer.strip():
            continue
        question_id = row.text("financebench_id")
        if (question := known.get(question_id)) is None:
            raise row.wrong(f"no question {question_id!r} among the {len(known)} of {QUESTIONS.name}")
        yield Feedback(
            id=f"{question_id}-{system}",
            inputs={
                "question": question.text("question"),
                "company": question.text("company"),
                "doc_name": question.text("doc_name"),
            },
            outputs={"answer": answer},
            expectations=question.text("answer"),
            value=label,
            source="authors",
            meta={"group": question_id, "system": system, "question_type": question.text("question_type", blank=True)},
        )
