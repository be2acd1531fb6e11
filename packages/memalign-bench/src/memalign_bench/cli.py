"""`memalign bench`: run the benchmark, write its report, attack a judge, write the house rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from memalign.cli.common import (
    DEFAULT_REGISTRY,
    DONE,
    FAILURES,
    JsonOutput,
    UnusedRegistryUrl,
    confirmed,
    interruptible,
)
from memalign.cli.output import Output, table
from memalign_bench.attacks.attack_cli import attack
from memalign_bench.capacity.capacity_cli import cascade, plan
from memalign_bench.draws.draw_cli import draws
from memalign_bench.house_rules.house_rules_cli import house_rules
from memalign_bench.old_names import flags_of_today

if TYPE_CHECKING:
    from rich.table import Table

    from memalign_bench.config import Config
    from memalign_bench.estimate import Estimate
    from memalign_bench.tasks import Task

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Does a judge learn, how fast, at what cost, against everyone."
)

_NOTES = 20


class _Command(TyperCommand):
    """A command that takes the flags of earlier versions too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments under today's names."""
        return super().parse_args(ctx, flags_of_today(args))


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="The run, as a TOML file.", show_default=False)]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="The folder with tasks.toml, instead of the one that CONFIG names; for published data, local copies.",
    ),
]
RawOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where raw judgments go; the default is `raw` beside CONFIG."),
]


@app.command("run", cls=_Command, epilog="Example: memalign bench run results/core/run.toml --data ../tasks --dry-run")
def run(
    config_file: ConfigFile,
    *,
    data: Data = None,
    out: RawOut = None,
    memo: Annotated[
        Path | None,
        typer.Option("--memo", metavar="DIR", help="Remembered model calls; the default is in the user's cache."),
    ] = None,
    spend_limit: Annotated[
        float | None,
        typer.Option("--spend-limit", metavar="DOLLARS", help="Stop before spending more; overrides CONFIG."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only say what it would take.")] = False,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask before a run that costs money.")] = False,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Judge what is missing of a benchmark, after saying how many calls, tokens, dollars and hours that will take.

    Stopped at any moment, it goes on where it was, on any machine that has its raw judgments. Model calls are remembered, so a new method or a changed configuration repeats none.
    """
    import msgspec

    from memalign import aio
    from memalign_bench.config import check_spend_limit, load_config
    from memalign_bench.estimate import estimate_run
    from memalign_bench.memo import cache_folder
    from memalign_bench.plan import make_plan
    from memalign_bench.prices import UNPAID
    from memalign_bench.raw import RawFolder
    from memalign_bench.report import FACTS_FILE, engine_notes, write_facts
    from memalign_bench.run import engines, run_benchmark

    shown = Output(json=json_output)
    config = load_config(config_file)
    if spend_limit is not None:
        check_spend_limit(spend_limit, "--spend-limit")
        config = msgspec.structs.replace(config, spend_limit=spend_limit)
    plan = make_plan(config, _tasks(config, data, shown))
    raw = RawFolder(_raw(config, out))
    done, total = plan.counts(raw)
    left = estimate_run(plan, raw)
    shown.say(f"{config.name}: {done:,} of {total:,} judgments are there" + ("" if left else "; nothing is missing"))
    if left and not json_output:
        shown.give({}, _shown(left))
    where = [] if data is None else ["--data FOLDER"]  # a path of this machine says nothing to anybody else
    command = " ".join(["memalign bench run", str(config_file), *where])
    if not left and not dry_run and not (raw.folder / FACTS_FILE).exists():
        write_facts(raw.folder, plan.tasks.values(), models=config.models, commands=[command])
    if dry_run or not left:
        shown.give({"done": done, "total": total, "left": left}, "")
        return DONE
    asks = any(each.usage.calls for each in left)
    paid = [model for model in config.models if asks and not model.startswith(UNPAID)]
    if paid and not confirmed(f"Go on with {', '.join(paid)}?", yes=yes):
        return DONE
    calls = _made(memo or cache_folder(), "--memo")
    computed = engines(plan) if asks else {}
    for note in engine_notes(raw.folder, computed):
        shown.say(note)
    folder = _made(raw.folder, "--out")
    write_facts(folder, plan.tasks.values(), models=config.models, commands=[command], engines=computed)
    kept = f"what was judged is in {raw.folder}; the same command goes on from there"
    with interruptible(lambda: kept), shown.progress() as progress:
        outcome = aio.run(run_benchmark(plan, raw, memo=calls, progress=progress))
    for note in outcome.notes[:_NOTES]:
        shown.say(note)
    if len(outcome.notes) > _NOTES:
        shown.say(f"… and {len(outcome.notes) - _NOTES} more")
    cost = "cost not known" if outcome.cost is None else f"${outcome.cost:.2f}"
    said = f"{outcome.judged:,} judged, {outcome.failed:,} of them failed; {cost}"
    ended = f"{said}; stopped: {outcome.stopped}" if outcome.stopped else said
    shown.give({"outcome": outcome}, f"{ended}\nnow: memalign bench report {config_file}")
    return FAILURES if outcome.failed or outcome.stopped or outcome.notes else DONE


@app.command("report", epilog="Example: memalign bench report results/core/run.toml")
def report(
    config_file: ConfigFile,
    *,
    out: RawOut = None,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Write a run's report beside its configuration: one HTML page, its figures as SVG, its tables as Markdown.

    It needs the raw judgments only: no data, no model, no network.
    """
    from memalign_bench.config import load_config
    from memalign_bench.report import write_report

    shown = Output(json=json_output)
    config = load_config(config_file)
    page = write_report(_raw(config, out), config.folder, prices=config.prices)
    shown.give({"report": str(page)}, f"{page}")
    return DONE


app.command(
    "attack",
    cls=_Command,
    epilog="Example: memalign bench attack benchmarks/attacks replies true --model local:qwen2.5-coder-1.5b",
)(attack)
app.command("draws", epilog="Example: memalign bench draws packages/memalign-bench/results/checks --part P")(draws)
app.command(
    "plan",
    epilog="Example: memalign bench plan 10000000 --prefix 1500 --own 400 --answer 60 --price input=0.4,output=1.6,cached=0.1",
)(plan)
app.command(
    "cascade",
    epilog="Example: memalign bench cascade results/verdict/direct-bare_ukp_convincing.jsonl results/core/raw/memalign@50.jsonl",
)(cascade)
app.command("house-rules", epilog="Example: memalign bench house-rules -o tasks --seed 1")(house_rules)


def _tasks(config: Config, data: Path | None, shown: Output) -> tuple[Task, ...]:
    from memalign.errors import InputError
    from memalign_bench.data.folder import load_folder

    if config.data == "published":
        from memalign_bench.data.published import load_published
        from memalign_bench.memo import cache_folder

        with shown.progress(size=True) as progress:
            return load_published(config.tasks, cache=cache_folder() / "data", local=data, progress=progress)
    if data is None and config.data == "house-rules":
        from memalign_bench.house_rules import house_rule_tasks

        return house_rule_tasks(config.tasks)
    if data is None and not config.data:
        raise InputError(
            'no data: give --data FOLDER, or data = "…" in the configuration; "published" pulls the public sets, '
            '"house-rules" is made here'
        )
    return load_folder(data or config.folder / config.data, config.tasks)


def _shown(left: list[Estimate]) -> Table:
    rows = [
        (each.method, f"{each.judgments:,}", f"{each.usage.calls:,}", f"{each.usage.input_tokens:,}",
         f"{each.usage.output_tokens:,}", _duration(each.seconds), _dollars(each.usage.cost))
        for each in left
    ]  # fmt: skip
    total = sum(each.seconds for each in left)
    costs = [each.usage.cost for each in left]
    rows.append(
        ("all", f"{sum(each.judgments for each in left):,}", f"{sum(each.usage.calls for each in left):,}",
         f"{sum(each.usage.input_tokens for each in left):,}", f"{sum(each.usage.output_tokens for each in left):,}",
         _duration(total), _dollars(None if None in costs else sum(cost or 0.0 for cost in costs)))
    )  # fmt: skip
    head = ("method", "judgments", "calls", "tokens in", "tokens out", "about", "dollars, about")
    return table(head, rows, title="left to do")


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def _dollars(cost: float | None) -> str:
    return "not known" if cost is None else f"{cost:.2f}"


def _raw(config: Config, out: Path | None) -> Path:
    return out or config.folder / "raw"


def _made(folder: Path, option: str) -> Path:
    """The folder, made if it is not there."""
    from memalign.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder: {error.strerror}; give another with {option}") from None
    return folder
