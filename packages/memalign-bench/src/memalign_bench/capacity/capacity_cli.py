"""`memalign bench plan` and `memalign bench cascade`: arithmetic, and recorded verdicts; no model is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DEFAULT_REGISTRY, DONE, JsonOutput, UnusedRegistryUrl
from memalign.cli.output import Output, table
from memalign.errors import InputError

__all__ = ["cascade", "plan"]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of cases that go on to the strong judge


def plan(
    rows: Annotated[int, typer.Argument(metavar="ROWS", help="Verdicts to give.", min=1, show_default=False)],
    *,
    prefix: Annotated[
        int, typer.Option("--prefix", metavar="N", min=0, help="Tokens that all calls share: the system message.")
    ],
    own: Annotated[int, typer.Option("--own", metavar="N", min=1, help="Tokens of the rest of a prompt.")],
    answer: Annotated[int, typer.Option("--answer", metavar="N", min=1, help="Tokens of an answer.")],
    price: Annotated[
        str, typer.Option("--price", metavar="input=N,…", help="Dollars a million: input, output and perhaps cached.")
    ],
    calls: Annotated[int, typer.Option("--calls", metavar="N", min=1, help="Calls of a verdict.")] = 1,
    rpm: Annotated[float | None, typer.Option("--rpm", metavar="N", min=1, help="Calls a minute allowed.")] = None,
    tpm: Annotated[float | None, typer.Option("--tpm", metavar="N", min=1, help="Tokens a minute allowed.")] = None,
    in_flight: Annotated[int, typer.Option("--in-flight", metavar="N", min=1, help="Calls in flight a process.")] = 64,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", min=0, help="Seconds of a call.")] = 1.0,
    processor: Annotated[
        float, typer.Option("--processor-ms", metavar="N", min=0, help="Processor time of a judgment.")
    ] = 8.9,
    processes: Annotated[int, typer.Option("--processes", metavar="N", min=1, help="Processes that judge.")] = 1,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Say what so many verdicts take: calls, tokens, dollars, hours, and what bounds them.

    Live without a prefix cache, live with one, and by a batch endpoint. `memalign judge --dry-run` tells the tokens of a
    judge's prompts.
    """
    from memalign.models.list_prices import checked_prices
    from memalign_bench.capacity.arithmetic import Capacity, Limits, Workload, estimate

    try:
        given = {name.strip(): float(number) for name, number in (each.split("=") for each in price.split(","))}
    except ValueError:
        raise InputError("--price is input=N,output=N and perhaps cached=N") from None
    work = Workload(rows=rows, prefix=prefix, own=own, out=answer, calls=calls)
    limits = Limits(calls=rpm, tokens=tpm)
    capacity = Capacity(in_flight=in_flight, seconds=seconds, processor_ms=processor, processes=processes)
    prices = checked_prices(given)
    ways = {
        "live": estimate(work, prices, limits=limits, capacity=capacity, cached=0.0),
        "live, prefix cached": estimate(work, prices, limits=limits, capacity=capacity),
        "batch": estimate(work, prices, limits=limits, capacity=capacity, cached=0.0, batch=True),
    }
    shown = [
        (
            name,
            f"{found.usage.calls:,}",
            f"{found.usage.input_tokens:,}",
            f"{found.usage.cached_tokens:,}",
            f"{found.usage.output_tokens:,}",
            f"{found.usage.cost or 0:,.2f}",
            f"{found.longest:,.1f}",
            found.bound,
        )
        for name, found in ways.items()
    ]
    columns = ("", "calls", "tokens in", "cached", "out", "dollars", "hours", "bound by")
    Output(json=json_output).give(
        {name: {"usage": found.usage, "hours": found.hours, "bound": found.bound} for name, found in ways.items()},
        table(columns, shown),
        "a batch's hours are the processor's here; the provider takes up to 24 more for each round of parts",
    )
    return DONE


def cascade(
    cheap: Annotated[Path, typer.Argument(metavar="CHEAP", help="Verdicts with probabilities.", show_default=False)],
    strong: Annotated[Path, typer.Argument(metavar="STRONG", help="Verdicts on the same cases.", show_default=False)],
    *,
    labelled: Annotated[
        Path | None, typer.Option("--labelled", metavar="FILE", help="People's labels, where STRONG has none.")
    ] = None,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Measure a cascade on recorded verdicts: the strong judge decides only where the cheap one is least sure.

    The verdicts are those of `memalign judge -o` or of the benchmark.
    The difference from the strong judge alone has a 95 % interval, groups drawn again.
    """
    from memalign_bench.capacity.cascade import at_share, read_pairs

    cases = read_pairs(cheap, strong, labelled)
    found = [at_share(cases, share) for share in _SHARES]
    shown = [
        (
            f"{each.asked:.0%}",
            f"{each.threshold:.3f}",
            f"{each.agreement:.2f}",
            f"{100 * each.loss:+.0f} [{100 * each.interval[0]:+.0f}, {100 * each.interval[1]:+.0f}]",
        )
        for each in found
    ]
    groups = len({case.group for case in cases})
    Output(json=json_output).give(
        {"n": len(cases), "groups": groups, "thresholds": found},
        table(("asked again", "below", "agreement", "points from strong alone"), shown),
        f"{len(cases)} cases in {groups} groups; the thresholds are of these very cases",
    )
    return DONE
