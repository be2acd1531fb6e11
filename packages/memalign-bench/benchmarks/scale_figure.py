"""The tables (Markdown, on standard output) and the figure (.svg beside the file) of `bench_scale.py`.

python benchmarks/scale_figure.py results/scale.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Round = dict[str, Any]
Pick = Callable[[Round], float]

SIDES = {"memalign": ("memalign", "#1f5fa8", "o-"), "mlflow": ("MLflow's MemAlign", "#b3541e", "s--")}
FREE = "memalign, without asking checks"
OLD_FREE = "memalign, without probes and admission"  # the same chain of calls, as earlier files have it


def of(rounds: Sequence[Round], side: str, n: int) -> list[Round]:
    """The rounds of one side at one size."""
    return [each for each in rounds if each["side"] == side and each["n"] == n]


def median(rounds: Sequence[Round], pick: Pick) -> float:
    """The median over rounds."""
    return statistics.median(pick(each) for each in rounds)


def step(name: str, what: str) -> Pick:
    """One figure of one step."""
    return lambda each: float(each[name][what])


def first(what: str) -> Pick:
    """A figure of the first judgment."""
    return lambda each: float(each["judged"][0][what])


def later(what: str) -> Pick:
    """The median of a figure over the later judgments."""
    return lambda each: statistics.median(float(one[what]) for one in each["judged"][1:])


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *lines))


def tables(found: dict[str, Any]) -> str:
    """All tables: align, one row more, one judgment, ratios, memalign with other settings, the first round of a process."""
    rounds = found["rounds"]
    sizes = sorted({each["n"] for each in rounds})
    sides = [side for side in SIDES if any(each["side"] == side for each in rounds)]
    groups = [(n, side, of(rounds, side, n)) for n in sizes for side in sides]
    learn = [
        "seconds",
        "spread",
        "CPU s",
        "calls",
        "texts embedded",
        "tokens in",
        "cached",
        "out",
        "dollars",
        "guidelines",
    ]
    made = [
        "### Align from nothing",
        table(
            ["n", "", "runs", *learn],
            [[str(n), SIDES[side][0], str(len(g)), *_learned(g, "align")] for n, side, g in groups],
        ),
        "### One row more",
        table(["n + 1", "", *learn], [[str(n), SIDES[side][0], *_learned(g, "more")] for n, side, g in groups]),
        "### One judgment",
        table(
            [
                "n",
                "",
                "seconds, first",
                "seconds, later",
                "CPU s, later",
                "tokens in",
                "cached, later",
                "out",
                "texts embedded",
                "dollars per 1,000",
            ],
            [[str(n), SIDES[side][0], *_judged(g)] for n, side, g in groups],
        ),
    ]
    if len(sides) == 2:  # both are there
        made += [
            "### memalign / MLflow's MemAlign",
            table(
                ["n", "align", "one row more", "a later judgment", "dollars of align", "tokens of a judgment"],
                [_ratios(rounds, n) for n in sizes],
            ),
        ]
    if found["variants"]:
        made += [
            "### memalign with other settings",
            table(
                ["", "n", "runs", *learn],
                [
                    [each["side"].removeprefix("memalign, "), str(each["n"]), "1", *_learned([each], "align")]
                    for each in found["variants"]
                ],
            ),
        ]
    made += [
        "### The first round of a process (n = 2)",
        table(
            ["", "align, s", "first judgment, s", "later judgment, s", "one row more, s"],
            [
                [
                    SIDES[each["side"]][0],
                    *(
                        f"{pick(each):.1f}"
                        for pick in (
                            step("align", "seconds"),
                            first("seconds"),
                            later("seconds"),
                            step("more", "seconds"),
                        )
                    ),
                ]
                for each in found["cold"]
            ],
        ),
    ]
    return "\n\n".join(made)


def _learned(rounds: Sequence[Round], name: str) -> list[str]:
    seconds = [each[name]["seconds"] for each in rounds]
    middle = {what: median(rounds, step(name, what)) for what in rounds[0][name] if what not in ("phases", "value")}
    return [
        f"{statistics.median(seconds):.1f}",
        f"{min(seconds):.1f} to {max(seconds):.1f}" if len(seconds) > 1 else "",
        f"{middle['cpu']:.2f}",
        *(f"{middle[what]:,.0f}" for what in ("calls", "texts", "tokens_in", "cached", "tokens_out")),
        f"{middle['cost']:.4f}",
        f"{middle['guidelines']:,.0f}",
    ]


def _judged(rounds: Sequence[Round]) -> list[str]:
    return [
        f"{median(rounds, first('seconds')):.2f}",
        f"{median(rounds, later('seconds')):.2f}",
        f"{median(rounds, later('cpu')):.3f}",
        *(f"{median(rounds, later(what)):,.0f}" for what in ("tokens_in", "cached", "tokens_out", "texts")),
        f"{1000 * median(rounds, later('cost')):.2f}",
    ]


def _ratios(rounds: Sequence[Round], n: int) -> list[str]:
    """Medians of the ratios of rounds that were made one after the other."""
    pairs = list(zip(of(rounds, "memalign", n), of(rounds, "mlflow", n), strict=False))
    picks = (
        step("align", "seconds"),
        step("more", "seconds"),
        later("seconds"),
        step("align", "cost"),
        later("tokens_in"),
    )
    return [
        str(n),
        *(f"{statistics.median(pick(ours) / pick(theirs) for ours, theirs in pairs):.2f}" for pick in picks),
    ]


PANELS: tuple[tuple[str, Pick], ...] = (
    ("align from nothing, seconds", step("align", "seconds")),
    ("align, chat calls", step("align", "calls")),
    ("align, tokens in", step("align", "tokens_in")),
    ("align, US dollars", step("align", "cost")),
    ("one row more, seconds", step("more", "seconds")),
    ("one row more, texts embedded", step("more", "texts")),
    ("one judgment, seconds", later("seconds")),
    ("one judgment, tokens in", later("tokens_in")),
)


def draw(found: dict[str, Any], beside: Path) -> None:
    """Eight panels, each against the number of examples."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update(
        {"svg.hashsalt": "memalign", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    rounds, variants = found["rounds"], found["variants"]
    sizes = sorted({each["n"] for each in rounds})
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), layout="constrained")
    for axis, (title, pick) in zip(axes.flat, PANELS, strict=True):
        for side, (label, colour, style) in SIDES.items():
            points = [(n, [pick(each) for each in g]) for n in sizes if (g := of(rounds, side, n))]
            middle = [statistics.median(values) for _, values in points]
            axis.plot([n for n, _ in points], middle, style, color=colour, label=label, markersize=4)
            for n, values in points:
                axis.plot([n, n], [min(values), max(values)], color=colour, linewidth=3, alpha=0.3)
        free = [(each["n"], pick(each)) for each in variants if each["side"] in (FREE, OLD_FREE)]
        if free and title.startswith("align"):
            axis.plot(*zip(*free, strict=True), "^:", color="#5b8c3a", label=FREE, markersize=4)
        axis.set_title(title)
        axis.set_xscale("log")
        if "embedded" in title:
            axis.set_yscale("symlog")  # ours are none
            axis.set_ylim(bottom=-0.1)
        elif "seconds" in title and not title.startswith("align"):
            axis.set_ylim(bottom=0)
        else:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:,g}")
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=45)
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    for axis in axes[1]:
        axis.set_xlabel("examples")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(beside.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Draw, and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("found", type=Path, help="what bench_scale.py wrote")
    path = parser.parse_args().found
    found = json.loads(path.read_text("utf-8"))
    draw(found, path)
    print(tables(found))


if __name__ == "__main__":
    main()
