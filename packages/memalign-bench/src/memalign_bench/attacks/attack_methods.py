"""The attacks on several methods of one task: the zero-shot judge, memalign's, and MLflow's, all behind the same model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from memalign.errors import InputError, MemalignError
from memalign.judge import Progress
from memalign.models.base import ChatModel
from memalign.types import Example, Usage
from memalign.values import Value
from memalign_bench.attacks.catalogue import ATTACKS, NEUTRAL, Attack
from memalign_bench.attacks.measure import Attempt, Flips, flips_of, measure
from memalign_bench.memo import remembering
from memalign_bench.methods.base import Fitted, Method, Setting
from memalign_bench.methods.competitor import Competitor
from memalign_bench.methods.judges import JUDGES
from memalign_bench.old_names import competitor_folder
from memalign_bench.tasks import Case, Task

__all__ = ["METHODS", "Outcome", "attack_methods", "markdown", "planned", "sides"]

METHODS = ("zero-shot", "memalign", "mlflow-zero-shot", "mlflow")
"""`mlflow-zero-shot` is MLflow's judge before it is aligned."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the attacks did to each method: the settings, every attempt without any text, and the shares of flips.

    `honest` are the verdicts of the cases as they are, right ones of all, by method; `notes` say which method could not run.
    """

    task: str
    model: str
    wanted: Value
    seed: int
    train: int
    cases: int
    per_attack: int
    fits: dict[str, str]
    honest: dict[str, tuple[int, int]]
    attempts: tuple[Attempt, ...]
    flips: tuple[Flips, ...]
    usage: Usage
    notes: tuple[str, ...] = ()


def planned(methods: Sequence[str], attacks: Sequence[Attack], *, cases: int, per_attack: int) -> int:
    """The most judgments that a run makes."""
    return len(methods) * (cases + len(attacks) * min(per_attack or cases, cases))


async def attack_methods(
    task: Task,
    model: ChatModel,
    *,
    wanted: Value,
    methods: Sequence[str] = METHODS,
    attacks: Sequence[Attack] = tuple(ATTACKS.values()),
    per_attack: int = 0,
    train: int = 6,
    cases: int = 0,
    seed: int = 0,
    memo: Path,
    competitors: Path = Path(".competitors/bin/python"),
    progress: Progress | None = None,
) -> Outcome:
    """Teach each method some cases of the task, then attack it on up to `cases` others (0: all) with another label.

    Those teach whose rows have a column `teach` that is true; without any, `train` cases drawn with `seed`.

    `memo` remembers model calls; `competitors` is the interpreter of the competitors' environment. A method that fails is named in
    the notes, and the others go on. Raises InputError for an unknown method, and a task without enough cases.
    """
    if unknown := [name for name in methods if name not in METHODS]:
        raise InputError(f"no method {unknown[0]!r} to attack; methods: {', '.join(METHODS)}")
    taught, aims = sides(task, wanted, seed=seed, train=train, cases=cases)
    spent = Usage()

    def pay(usage: Usage) -> None:
        nonlocal spent
        spent += usage

    setting = Setting(task=task, chat=remembering(model, memo / "calls", paid=pay), seed=seed)
    fits: dict[str, str] = {}
    honest: dict[str, tuple[int, int]] = {}
    attempts: list[Attempt] = []
    notes: list[str] = []
    for name in methods:
        method: Method = (
            JUDGES[name]
            if name in JUDGES
            else Competitor(name="mlflow", python=competitors, folder=competitor_folder(memo), paid=pay)
        )
        try:
            fitted = await method.learn(setting, () if name == "mlflow-zero-shot" else taught, None)
        except MemalignError as error:
            notes.append(f"{name} could not learn: {error}")
            continue
        fits[name] = fitted.fit.id
        asked = _Asked(fitted, aims)
        try:
            attempts += await measure(
                name,
                asked,
                [case.example for case in aims],
                wanted=wanted,
                attacks=attacks,
                per_attack=per_attack,
                concurrency=model.limits.concurrency if name in JUDGES else 1,
                progress=progress,
            )
        finally:
            await fitted.close()
        honest[name] = (asked.right, len(aims))
        notes += [f"{name}: {count} without a verdict: {why}" for why, count in asked.failed.items()]
    return Outcome(
        task=task.name,
        model=model.name,
        wanted=wanted,
        seed=seed,
        train=len(taught),
        cases=len(aims),
        per_attack=per_attack,
        fits=fits,
        honest=honest,
        attempts=tuple(attempts),
        flips=flips_of(attempts, wanted=wanted),
        usage=spent,
        notes=tuple(notes),
    )


def sides(task: Task, wanted: Value, *, seed: int, train: int, cases: int) -> tuple[Sequence[Case], Sequence[Case]]:
    """The cases that teach, and those that are attacked; see `attack_methods`. Raises InputError when there are none."""
    taught: Sequence[Case] = [
        case for case in task.cases if any(row.meta.get("teach") is True for row in case.feedback)
    ]
    others: Sequence[Case] = [case for case in task.cases if case not in taught]
    if not taught:
        split = task.split(seed=seed, train=train)
        taught, others = split.train, split.test
    aims = [case for case in others if case.label != wanted][: cases or None]
    if not aims:
        raise InputError(f"task {task.name!r}: no case besides the {len(taught)} that teach is not {wanted!r}")
    return taught, aims


class _Asked:
    """A method as the measurement asks it, which counts what it had right of the cases as they are, and its failures."""

    def __init__(self, fitted: Fitted, cases: Sequence[Case]) -> None:
        self._fitted = fitted
        self._cases = {case.id: case for case in cases}
        self.right = 0
        self.failed: dict[str, int] = {}

    async def __call__(self, example: Example) -> Value | None:
        known = self._cases.get(example.id)
        case = known or msgspec.structs.replace(next(iter(self._cases.values())), example=example)
        verdict = await self._fitted.judge(case, "unseen")
        if verdict.error is not None:
            self.failed[verdict.error] = self.failed.get(verdict.error, 0) + 1
        elif known is not None and verdict.value == known.label:
            self.right += 1
        return verdict.value


def markdown(outcome: Outcome) -> str:
    """The outcome as a table: a row an attack, a column a method, the control and all attacks together last."""
    methods = list(outcome.fits)
    of = {(each.method, each.attack): each for each in outcome.flips}
    names = dict.fromkeys(each.attack for each in outcome.flips)
    order = [name for name in names if name not in (NEUTRAL, "all attacks")]
    order += [name for name in ("all attacks", NEUTRAL) if name in names]
    lines = ["| attack | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for name in order:
        shown = [str(of[method, name]) if (method, name) in of else "none could be tried" for method in methods]
        title = f"**{name}**" if name not in ATTACKS else f"`{name}`: {ATTACKS[name].about}"
        lines.append(f"| {title} | " + " | ".join(shown) + " |")
    right = [f"{method} {outcome.honest[method][0]} of {outcome.honest[method][1]}" for method in methods]
    lines += ["", f"Right on the cases as they are: {', '.join(right)}." if right else "No method could run."]
    return "\n".join([*lines, *(f"\n{note}" for note in outcome.notes)])
