"""Attacking judges through what they judge, to see how often that turns a verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DEFAULT_REGISTRY, DONE, FAILURES, JsonOutput, UnusedRegistryUrl, confirmed
from memalign.cli.output import Output
from memalign.errors import InputError


def attack(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The folder with tasks.toml.", show_default=False)],
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task whose cases are attacked.", show_default=False)],
    wanted: Annotated[str, typer.Argument(metavar="WANTED", help="The label that attackers want.", show_default=False)],
    *,
    model: Annotated[str, typer.Option("--model", metavar="M", help="The judge model.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", metavar="NAME", help="zero-shot, memalign, mlflow-zero-shot or mlflow; the default is all."
        ),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="One of the attacks; the default is all.")
    ] = None,
    per_attack: Annotated[
        int, typer.Option("--per-attack", metavar="N", min=0, help="Cases an attack is tried on; 0 is all.")
    ] = 0,
    cases: Annotated[int, typer.Option("-n", "--cases", metavar="N", min=0, help="Cases at most; 0 is all.")] = 0,
    train: Annotated[
        int, typer.Option("--train", metavar="N", min=1, help="Cases that teach, where the data name none.")
    ] = 6,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the draw of cases that teach.")] = 0,
    competitors: Annotated[
        Path, typer.Option("--competitors", metavar="PYTHON", help="The interpreter of the competitors' environment.")
    ] = Path(".competitors/bin/python"),
    memo: Annotated[
        Path | None,
        typer.Option("--memo", metavar="DIR", help="Remembered model calls; the default is in the user's cache."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Every attempt, without texts, as JSON.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask before a run that costs money.")] = False,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Put attacks into judged texts, and count the verdicts that they turn, with and without memory, beside MLflow's.

    Cases whose label is not WANTED are judged as they are, then with each attack in them. Model calls are remembered.
    """
    import msgspec

    from memalign import aio
    from memalign.models import resolve
    from memalign_bench.attacks.attack_methods import METHODS, attack_methods, markdown, planned, sides
    from memalign_bench.attacks.catalogue import chosen_attacks
    from memalign_bench.attacks.measure import wanted_value
    from memalign_bench.data.folder import load_folder
    from memalign_bench.memo import cache_folder
    from memalign_bench.old_names import method_of_today
    from memalign_bench.prices import UNPAID

    shown = Output(json=json_output)
    if out is not None:
        _check_out(out)
    (loaded,) = load_folder(data, (task,))
    label = wanted_value(loaded.value_type, wanted)
    methods, attacks = tuple(map(method_of_today, method or METHODS)), chosen_attacks(tuple(name or ()))
    _, aims = sides(loaded, label, seed=seed, train=train, cases=cases)
    most = planned(methods, attacks, cases=len(aims), per_attack=per_attack)
    shown.say(f"{len(methods)} methods, {len(attacks)} attacks: at most {most} judgments, and what learning takes")
    if not model.startswith(UNPAID) and not confirmed(f"Go on with {model}?", yes=yes):
        return DONE
    with shown.progress() as progress:
        outcome = aio.run(
            attack_methods(
                loaded,
                resolve(model),
                wanted=label,
                methods=methods,
                attacks=attacks,
                per_attack=per_attack,
                train=train,
                cases=cases,
                seed=seed,
                memo=memo or cache_folder(),
                competitors=competitors.absolute(),
                progress=progress,
            )
        )
    # First: whatever becomes of the file, what was paid for is to be seen.
    shown.give({"outcome": outcome}, markdown(outcome))
    if out is not None:
        try:
            out.write_bytes(msgspec.json.format(msgspec.json.encode(outcome)) + b"\n")
        except OSError as error:
            raise InputError(
                f"{out} cannot be written: {error.strerror}; with another --out, the same command asks nothing again"
            ) from None
    return FAILURES if outcome.notes else DONE


def _check_out(out: Path) -> None:
    """Raises InputError for a file that cannot be written: it is written last, when all calls are paid."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; --out takes a file")
    if not out.parent.is_dir():
        raise InputError(f"no folder {out.parent} for {out.name}: make it first, or give another file with --out")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise InputError(f"{out} cannot be written; give another file with --out")
