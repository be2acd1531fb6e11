"""The published five categories: which data sets they are, where they come from, and how to load them.

They are those of Databricks' MemAlign post, as far as it is public: its medical set is not, and it does not say which
answers its HotpotQA part judged (see `hotpotqa`) nor which criteria its ten were (see `feedback_collection`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memalign.errors import InputError
from memalign_bench.data import autoj, feedback_collection, financebench, halubench, hotpotqa
from memalign_bench.data.hub import Progress, Remote, obtain
from memalign_bench.tasks import Task

__all__ = ["PUBLISHED", "Published", "load_published"]

Loader = Callable[[Sequence[Path]], tuple[Task, ...]]
"""From the paths of a data set's files, in their order, to its tasks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A published data set: what it is for, whose it is, and its loader.

    `labels` says who gave the labels and comments. `files` are what is downloaded, each from a repository at a
    revision; `tasks` the names of the tasks that they give.
    """

    name: str
    category: str
    labels: str
    licence: str
    card: str
    files: tuple[Remote, ...]
    tasks: tuple[str, ...]
    load: Loader


_ENTRIES = (
    Published(
        name="financebench",
        category="answer correctness",
        labels="its authors, by hand; no comments",
        licence=financebench.LICENCE,
        card="https://github.com/patronus-ai/financebench",
        files=(financebench.QUESTIONS, *financebench.RESULTS),
        tasks=("financebench",),
        load=financebench.load,
    ),
    Published(
        name="hotpotqa",
        category="answer correctness",
        labels="exact match with the reference, a program's; no comments",
        licence=hotpotqa.LICENCE,
        card="https://huggingface.co/datasets/hotpotqa/hotpot_qa",
        files=(hotpotqa.QUESTIONS, *hotpotqa.LOGS.values()),
        tasks=("hotpotqa",),
        load=hotpotqa.load,
    ),
    Published(
        name="halubench",
        category="faithfulness",
        labels="its sources' annotators, and construction (a gold answer, or one that a model changed); no comments",
        licence=halubench.LICENCE,
        card="https://huggingface.co/datasets/PatronusAI/HaluBench",
        files=(halubench.TRIPLES,),
        tasks=("halubench",),
        load=halubench.load,
    ),
    *(
        Published(
            name=f"autoj-{subset}",
            category="pairwise preference",
            labels="people; comments by GPT-4 where it agrees with them",
            licence=autoj.LICENCE,
            card="https://github.com/GAIR-NLP/auto-j",
            files=(autoj.PAIRS,),
            tasks=(f"autoj-{subset}",),
            load=partial(autoj.load, subset),
        )
        for subset in autoj.SUBSETS
    ),
    Published(
        name="feedback-collection",
        category="fine-grained criteria",
        labels="GPT-4, labels and comments",
        licence=feedback_collection.LICENCE,
        card="https://huggingface.co/datasets/prometheus-eval/Feedback-Collection",
        files=(feedback_collection.SCORED,),
        tasks=tuple(f"feedback-collection-{place}" for place in range(1, feedback_collection.CRITERIA + 1)),
        load=feedback_collection.load,
    ),
)

PUBLISHED: Mapping[str, Published] = {entry.name: entry for entry in _ENTRIES}
"""Every published data set by its name."""


def load_published(
    names: Sequence[str] = (),
    *,
    cache: Path,
    local: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Task, ...]:
    """The tasks of the data sets, or the single tasks, called `names`, in that order; all without names.

    With `local`, nothing is downloaded: the files of a data set lie in its folder `<local>/<name>`, else in `local`
    itself. Raises InputError for an unknown name and for files of another form, ConfigurationError for a download
    that failed or a library that is missing.
    """
    by_task = {task: entry for entry in _ENTRIES for task in entry.tasks}
    loaded: dict[str, dict[str, Task]] = {}
    found: dict[str, Task] = {}
    for name in names or tuple(PUBLISHED):
        entry = PUBLISHED.get(name) or by_task.get(name)
        if entry is None:
            single = f", or one of {', '.join(task for task in by_task if task not in PUBLISHED)}"
            raise InputError(f"no published data set {name!r}; there are: {', '.join(PUBLISHED)}{single}")
        if entry.name not in loaded:
            own = local / entry.name if local is not None else None
            source = own if own is not None and own.exists() else local
            tasks = entry.load(obtain(entry.files, source, cache=cache, progress=progress))
            loaded[entry.name] = {task.name: task for task in tasks}
        tasks_of = loaded[entry.name]
        found |= tasks_of if name in PUBLISHED else {name: tasks_of[name]}
    return tuple(found.values())
