"""Quality against what a judgment takes, as figures."""

from __future__ import annotations

from collections.abc import Callable

from memalign_bench.report.figures.canvas import Drawn, colour_of, grid, logarithmic, mark_of
from memalign_bench.report.measures import Judging, judging_of, share
from memalign_bench.report.primary import headline_stage
from memalign_bench.report.results import Results
from memalign_bench.report.tables import plain

__all__ = ["against_figure"]


def against_figure(pick: Callable[[Judging], float | None], axis_name: str) -> Callable[[Results, str], Drawn | None]:
    """A figure of quality against something that a judgment takes, on the cases that all methods of it judged."""

    def make(results: Results, model: str) -> Drawn | None:
        stage = headline_stage(results, model)
        tasks = [task.name for task in results.tasks(model) if task.matchable]
        judged = {method: results.judged(model, tasks, method, stage) for method in results.methods(model)}
        most = max(map(len, judged.values()), default=0)
        full = {method: found for method, found in judged.items() if found and len(found) * 2 >= most}
        common = sorted(set.intersection(*(set(found) for found in full.values()))) if full else []
        # On the same cases as the quality: another method's may be longer.
        taken = {method: pick(judging_of([found[key].line for key in common])) for method, found in full.items()}
        shown = {
            method: value for method, value in taken.items() if value
        }  # nothing and not known have no place on the axis
        if len(shown) < 2 or not common:
            return None
        figure, (axis,) = grid(1, height=3.4, columns=1)
        for method, value in shown.items():
            cases = [full[method][key] for key in common]
            found = share([case.right for case in cases], [case.cluster for case in cases])
            middle = found.value or 0.0
            colour = colour_of(results.methods(model), method)
            if found.low is not None and found.high is not None:
                axis.plot([value, value], [found.low, found.high], color=colour, linewidth=1.2)
            mark = mark_of(results.methods(model), method)
            axis.plot([value], [middle], mark, color=colour, markersize=5, label=plain(method, 30))
        if max(shown.values()) > 3 * min(shown.values()):
            logarithmic(axis, "x", list(shown.values()))
        else:
            axis.set_xlim(0, 1.1 * max(shown.values()))
        axis.set_xlabel(axis_name)
        axis.set_ylabel("exact match, unseen")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside right upper")
        few = [method for method, found in judged.items() if method not in full]
        without = f" Without {', '.join(few)}, which judged less than half of the cases." if few else ""
        caption = f"Stage {stage}, the {len(common)} cases that all methods shown judged, 95 % intervals.{without}"
        return Drawn(figure=figure, caption=caption)

    return make
