"""What a report must know of a run besides its raw lines, kept beside them in `tasks.json`: no data is needed then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from memalign.errors import InputError
from memalign.io.atomic import atomic_write
from memalign.values import ValueType
from memalign_bench.raw import writing
from memalign_bench.tasks import Task

__all__ = ["FACTS_FILE", "Facts", "TaskFacts", "engine_notes", "read_facts", "write_facts"]

FACTS_FILE = "tasks.json"


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a task is, without its cases.

    `values` is the spec of its value type (`bool`, `A|B`, `int:1..5`). `by_row` says that its splits are by row, because
    it has too few groups. `n_cases` are its labelled cases, of which a run judges some. `licence` is the data's own.
    """

    name: str
    category: str
    values: str
    by_row: bool = False
    n_cases: int = 0
    licence: str = ""

    @classmethod
    def of(cls, task: Task) -> TaskFacts:
        """The facts of a task that is at hand."""
        return cls(
            name=task.name,
            category=task.category,
            values=task.values,
            by_row=task.by_row,
            n_cases=len(task.cases),
            licence=task.licence,
        )

    @property
    def value_type(self) -> ValueType:
        """The values in their parsed form."""
        return ValueType.of(self.values)

    @property
    def matchable(self) -> bool:
        """Whether a verdict can be plainly right or wrong: not so for a number that may be any fraction."""
        return self.value_type.kind != "float"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a raw folder, the models by their full names, the commands that made it, and remarks such as the machine.

    `engines` are those that computed a model's answers in this process, by the model's name; of a provider nothing is known.
    """

    tasks: dict[str, TaskFacts]
    models: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    engines: dict[str, tuple[str, ...]] = {}


def write_facts(
    folder: Path,
    tasks: Iterable[Task | TaskFacts],
    *,
    models: Iterable[str] = (),
    commands: Iterable[str] = (),
    remarks: Iterable[str] = (),
    engines: Mapping[str, str] | None = None,
) -> Path:
    """Keep the facts in the raw folder, beside those that an earlier run left there; the file's path.

    Raises InputError for a folder that cannot be written, and for old facts that are none.
    """
    old = read_facts(folder) if (folder / FACTS_FILE).exists() else Facts(tasks={})
    new = [TaskFacts.of(task) if isinstance(task, Task) else task for task in tasks]
    facts = Facts(
        tasks=dict(sorted((old.tasks | {task.name: task for task in new}).items())),
        models=tuple(dict.fromkeys((*old.models, *models))),
        commands=tuple(dict.fromkeys((*old.commands, *commands))),
        remarks=tuple(dict.fromkeys((*old.remarks, *remarks))),
        engines=old.engines
        | {
            name: tuple(dict.fromkeys((*old.engines.get(name, ()), engine))) for name, engine in (engines or {}).items()
        },
    )
    path = folder / FACTS_FILE
    with writing(path), atomic_write(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")
    return path


def engine_notes(folder: Path, engines: Mapping[str, str]) -> list[str]:
    """What is to be said before `engines` go on with models that only others have computed in this raw folder.

    Raises InputError for facts that are none.
    """
    there = read_facts(folder).engines if (folder / FACTS_FILE).exists() else {}
    return [
        f"{model}: judged by {' and by '.join(there[model])} so far, by {engine} from here on: verdicts may differ, and "
        "seconds do. Another --out keeps them apart"
        for model, engine in engines.items()
        if model in there and engine not in there[model]
    ]


def read_facts(folder: Path) -> Facts:
    """The facts of a raw folder. Raises InputError when it has none, or they are no such facts."""
    path = folder / FACTS_FILE
    try:
        facts = msgspec.json.decode(path.read_bytes(), type=Facts)
        for task in facts.tasks.values():
            _ = task.value_type  # a value type that is none is found here, where its file can be named
    except FileNotFoundError:
        raise InputError(f"no {path}: `memalign bench run` writes it beside the raw judgments of a run") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; raw judgments lie in a folder: give theirs with --out"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, InputError) as error:
        raise InputError(
            f"{path}: {error}; delete that file and run `memalign bench run` again, which writes it anew"
        ) from None
    return facts
