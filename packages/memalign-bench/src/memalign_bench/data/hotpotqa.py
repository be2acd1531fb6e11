"""HotpotQA: whether a system's answer to a multi-hop question is correct.

Questions, references and difficulty are those of HotpotQA's distractor validation set (Yang et al. 2018); a question
that is not found there keeps the log's own reference. Answers and labels come from the logs of Reflexion's runs (Shinn
et al. 2023): five systems, the first trial of 100 questions each. **The labels are a program's, not people's**: exact
match after normalisation. It calls right answers wrong that are worded otherwise, so an answer that it calls wrong is
left out when half of its words are the reference's (token F1 of 0.5 or more) or when it holds all of the reference's
words. What the published figures were measured on is not described closely enough to repeat; these are other answers
to questions of the same set. There are no comments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memalign.errors import InputError
from memalign.types import Feedback
from memalign_bench.data.hub import Remote
from memalign_bench.data.tables import Record, digest, make_task, read_table
from memalign_bench.tasks import Task

__all__ = ["LICENCE", "LOGS", "QUESTIONS", "load"]

LICENCE = "questions CC BY-SA 4.0 (hotpotqa/hotpot_qa); answers MIT (noahshinn/reflexion)"
QUESTIONS = Remote(
    hub="huggingface",
    repository="hotpotqa/hotpot_qa",
    revision="1908d6afbbead072334abe2965f91bd2709910ab",
    path="distractor/validation-00000-of-00001.parquet",
    sha256="c20b638ca82b21d04fe12e14ff417ad05153d4d215a65de54497fca4e972f7c6",
)


def _log(path: str, revision: str) -> Remote:
    path = f"hotpotqa_runs/root/{path}"
    return Remote(hub="github", repository="noahshinn/reflexion", revision=revision, path=path)


_GPT = "cefdb0ed53cfad4b95871a8060967cab99fb6b70"
_DAVINCI = "5d6701b728d75a1429dc43286959e00071416f1d"
LOGS: Mapping[str, Remote] = {
    "gpt-4-cot-context": _log("CoT/context/base_gpt4/100_questions_5_trials.txt", _GPT),
    "gpt-3.5-turbo-cot-context": _log("CoT/context/reflexion_gpt-3.5-turbo/100_questions_5_trials.txt", _GPT),
    "text-davinci-003-cot-context": _log("CoT/context/reflexion/100_questions_5_trials.txt", _DAVINCI),
    "text-davinci-003-cot": _log("CoT/no_context/reflexion/100_questions_5_trials.txt", _DAVINCI),
    "text-davinci-003-react": _log("ReAct/base/100_questions_5_trials.txt", "e531a5c0d67bc8969683d0f6fd2ffc080a5c529d"),
}
"""The system that answered, and the log of its run."""

_COLUMNS = ("id", "question", "answer", "type", "level")
_TRIAL = re.compile(r"^BEGIN TRIAL (\d+)\s*$", re.MULTILINE)
_REFERENCE = re.compile(r"^Correct answer:(.*)$", re.MULTILINE)
# Some logs put the question on a line of its own, some at the end of the context's last line.
_QUESTION = re.compile(r"\bQuestion:((?:(?!\bQuestion:).)*?)^Thought", re.MULTILINE | re.DOTALL)
_THOUGHT = re.compile(r"^Thought(?: \d+)?:(.*?)(?=^Action(?: \d+)?:)", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(r"^Action(?: \d+)?:\s*Finish\[(.*)\]\s*$", re.MULTILINE)
_VERDICT = re.compile(r"^Observation(?: \d+)?: Answer is (CORRECT|INCORRECT)", re.MULTILINE)
_PUNCTUATION = re.compile(r"[^\w\s]")
_ARTICLES = frozenset(("a", "an", "the"))


def load(paths: Sequence[Path]) -> tuple[Task, ...]:
    """The task `hotpotqa`, true for a correct answer, of the questions and each system's log; a group is a question.

    Raises InputError for a log of another form.
    """
    questions, *logs = paths
    known = {_plain(row.text("question")): row for row in read_table(questions, _COLUMNS)}
    task = make_task(
        "hotpotqa",
        (row for system, path in zip(LOGS, logs, strict=True) for row in _answers(system, path, known)),
        path=questions,
        category="answer correctness",
        criterion="Is the model's final answer correct given the gold answer?",
        values="bool",
        licence=LICENCE,
    )
    return (task,)


def _answers(system: str, path: Path, known: Mapping[str, Record]) -> Iterator[Feedback]:
    try:
        trials = _TRIAL.split(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    # [before, number of the first trial, its text, …]; later trials answer after having reflected on the verdict
    if len(trials) < 3 or trials[1] != "1":
        raise InputError(f"{path}: no line 'BEGIN TRIAL 1'; it is not a log of Reflexion's runs")
    parts = _REFERENCE.split(trials[2])
    if len(parts) < 3:
        raise InputError(f"{path}: no line 'Correct answer: …' in trial 1")
    for number, (run, reference) in enumerate(zip(parts[0::2], parts[1::2], strict=False), 1):
        feedback = _answer(f"{path}, answer {number}", system, run, reference.strip(), known)
        if feedback is not None:
            yield feedback


def _answer(where: str, system: str, run: str, reference: str, known: Mapping[str, Record]) -> Feedback | None:
    """One run's answer; None for a run that was halted before it gave one, or whose label is in doubt."""
    asked, answers, verdicts = _QUESTION.search(run), _ANSWER.findall(run), _VERDICT.findall(run)
    if asked is None:
        raise InputError(f"{where}: no 'Question: …' and 'Thought: …' before 'Correct answer: {reference:.60}'")
    if not answers or not verdicts or not answers[-1].strip():
        return None
    question, answer, correct = asked.group(1).strip(), answers[-1].strip(), verdicts[-1] == "CORRECT"
    row = known.get(_plain(question))
    gold = row.text("answer") if row else reference
    if not correct and _doubtful(answer, gold):
        return None
    group = row.text("id") if row else digest(_plain(question))
    thoughts = _THOUGHT.findall(run)
    return Feedback(
        id=f"hotpotqa-{group}-{system}",
        inputs={"question": question},
        outputs={"answer": answer, **({"reasoning": thoughts[-1].strip()} if thoughts else {})},
        expectations=gold,
        value=correct,
        source="exact-match",
        meta={
            "group": group,
            "system": system,
            **({c: row.text(c, blank=True) for c in ("type", "level")} if row else {}),
        },
    )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _words(text: str) -> Counter[str]:
    return Counter(word for word in _PUNCTUATION.sub("", text.lower()).split() if word not in _ARTICLES)


def _doubtful(answer: str, gold: str) -> bool:
    said, meant = _words(answer), _words(gold)
    shared = (said & meant).total()
    return shared > 0 and (shared == meant.total() or 4 * shared >= said.total() + meant.total())
