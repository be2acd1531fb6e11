"""What the stories share: the choice of the model, the progress line, a guideline and an agreement as text."""

from __future__ import annotations

import argparse
import sys

import memalign as ma
from memalign.models import default_model_name
from memalign.models.catalogue import DEFAULT, find
from memalign.models.download import pull


def chosen_model() -> str:
    """The model of `--model`, else the one of the environment, else the embedded one, pulled when it is not there."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument(
        "--model", help="such as openai:gpt-4.1-mini or local:qwen2.5-coder-1.5b"
    )
    name = parser.parse_args().model or default_model_name()
    if name is None:
        model = find(DEFAULT)
        print(
            f"No provider's key is set: using the embedded model {model.name}, a weak and slow judge."
        )
        if not model.present:
            print(f"It is downloaded once: {model.megabytes} into {model.path.parent}")
            pull(model, log=print)
        name = f"local:{model.name}"
    print(f"Model: {name}")
    return name


def progress(phase: str, done: int, total: int) -> None:
    """One line that counts, on a terminal only."""
    if sys.stderr.isatty():
        print(
            f"\r{phase} {done}/{total}\033[K",
            end="\n" if done == total else "",
            file=sys.stderr,
            flush=True,
        )


def heading(text: str) -> None:
    """A line between two steps."""
    print(f"\n== {text}")


def line(judge: ma.Judge, guideline: ma.Guideline) -> str:
    """A guideline with the feedback that it comes from."""
    return f"{guideline.id}  {guideline.text}  [{', '.join(map(str, judge.memory.sources_of(guideline)))}]"


def agreement(evaluation: ma.Evaluation) -> str:
    """How many of the judged cases agree with the experts."""
    failed = f", {evaluation.unscored} failed" if evaluation.unscored else ""
    return f"{sum(case.correct is True for case in evaluation.cases)} of {evaluation.n}{failed}"
