"""Writing the house rules down, to read them, to align a judge with them by hand, or to run them with another seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memalign.cli.common import DEFAULT_REGISTRY, DONE, JsonOutput, UnusedRegistryUrl
from memalign.cli.output import Output, table


def house_rules(
    *,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where tasks.toml and the feedback files go.")
    ] = Path("house_rules"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the draw of items and remarks.")] = 0,
    registry: UnusedRegistryUrl = DEFAULT_REGISTRY,  # noqa: ARG001  # every command takes it
    json_output: JsonOutput = False,
) -> int:
    """Write eight invented policies as tasks: twenty items with an expert's remarks that teach, sixty unseen.

    `bench run --data FOLDER` takes them. A run with data = "house-rules" needs no files: it has those of seed 0.
    """
    from memalign_bench.house_rules.policies import POLICIES, load_policy
    from memalign_bench.house_rules.taught_items import write_house_rules

    shown = Output(json=json_output)
    written = write_house_rules(out, seed=seed)
    policies = [load_policy(name) for name in POLICIES]
    rows = [(policy.name, policy.kind, policy.rule) for policy in policies]
    shown.give(
        {
            "files": [str(file) for file in written],
            "rules": [{"name": name, "kind": kind, "rule": rule} for name, kind, rule in rows],
        },
        table(("task", "kind", "the rule that no judge is told"), rows),
        f"{out}: {len(written)} files",
    )
    return DONE
