"""What an align or unalign did, for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from memalign.cli.common import DONE, FAILURES
from memalign.cli.guideline_words import by_people, legend, why_it_counts, word
from memalign.cli.output import Output, guideline_rows, table, usage_text

if TYPE_CHECKING:
    from memalign.align import AlignResult, Impact, LockCheck, RuleConflict
    from memalign.types import Guideline

__all__ = ["report"]

_SHOWN = 30
_COLUMNS = ("id", "", "guideline", "from")


def report(result: AlignResult, out: Output, *, version: int, before: int) -> int:
    """Print what an align or unalign did, `str(result)` last.

    Returns 1 when something is pending or was left out, or a locked case is not kept.
    """
    name, memory = result.judge.name, result.judge.memory
    parts: list[Any] = _rows(result)
    if not result.rows and not result.removed and not result.usage.calls:
        parts.append("nothing was given and nothing is pending: name a file of FEEDBACK to learn from")
    if result.removed:
        parts.append(f"withdrawn: {', '.join(result.removed)}")
    if result.forgotten:
        parts.append(table(_COLUMNS, guideline_rows(result.forgotten), title="Forgotten guidelines"))
    lost = [(each.id, by) for each in result.forgotten if (by := by_people(each))]
    for gid, by in lost:
        parts.append(f"{gid} ({by}) went with what it was learned from, and so did that setting: look at what is new")
    if result.guidelines:
        parts.append(table(_COLUMNS, guideline_rows(result.guidelines, memory), title="New guidelines"))
        parts += legend(name, result.guidelines, memory)
    parts += _impact(name, result.impact, learned=bool(result.guidelines and result.rows))
    parts += [line for check in result.locks if (line := _lock(name, check))]
    if kept := [check.id for check in result.locks if check.kept and not check.guideline_ids]:
        parts.append(f"locked and judged right: {', '.join(kept)}")
    for conflict in result.conflicts:
        said = ", ".join(f"{key}: {word(value)}" for key, value in conflict.annotations.items())
        parts.append(f"conflict on {', '.join(conflict.ids)}: {said}; {word(conflict.label)} counts")
    for rules in result.rule_conflicts:
        parts += _rule_conflict(result, rules)
    parts += [f"note: {note}" for note in result.notes]
    parts.append(usage_text(result.usage, result.seconds))
    parts.append(f"{name} is version {version} now" if version != before else f"{name} is still version {version}")
    parts.append(str(result))
    settings = [{"id": gid, "settings": by} for gid, by in lost]
    out.give({**result.to_dict(), "version": version, "settings_lost": settings}, *parts)
    failed = result.pending or any(row.status == "invalid" for row in result.rows)
    return FAILURES if failed or not all(check.kept for check in result.locks) else DONE


def _rows(result: AlignResult) -> list[Any]:
    parts: list[Any] = []
    if result.rows:
        counts = Counter((row.status, row.state or "-") for row in result.rows)
        rows = [(status, state, count) for (status, state), count in sorted(counts.items())]
        parts.append(table(("row", "state", "count"), rows))
    news = [row for row in result.rows if row.status != "unchanged"]
    if news:
        shown = [(row.line, row.key, row.status, row.state, row.reason) for row in news[:_SHOWN]]
        parts.append(table(("line", "key", "row", "state", "reason"), shown, title=_title("Feedback", len(news))))
    return parts


def _impact(name: str, impact: Impact | None, *, learned: bool) -> list[Any]:
    """How verdicts on past cases changed, and what was taken out of force because of it."""
    if impact is None:
        if not learned:
            return []
        return ["past cases were not checked: too few have a label, or lessons are too few for a slow model"]
    moved = len(impact.changes) - impact.fixed - impact.broken
    line = f"{impact.checked} past cases checked, each with what it taught hidden: "
    line += f"fixed {impact.fixed}, broke {impact.broken}" if impact.changes else "no verdict changed"
    line += f", {moved} wrong in another way" if moved else ""
    line += f"; {impact.failed} could not be asked" if impact.failed else ""
    parts: list[Any] = [line]
    if impact.changes:
        rows = [
            (each.id, word(each.label), word(each.before), word(each.after), each.effect, _named(each.guideline_ids))
            for each in impact.changes[:_SHOWN]
        ]
        columns = ("id", "experts", "before", "after", "effect", "guideline")
        parts.append(table(columns, rows, title=_title("Changed verdicts", len(impact.changes))))
    if impact.reverted:
        parts.append(
            f"{_named(impact.reverted)} left out, because they broke more than they fixed: they are kept, but no prompt "
            f"shows them. Bring one back: memalign guideline {name} {impact.reverted[0]} --restore"
        )
    if (trial := impact.examples) is not None:
        line = f"similar cases in the prompt: {trial.right_with} of {trial.checked} verdicts right with them"
        line += f", {trial.right_without} without"
        if trial.changed:
            line += "; from now on they are shown" + ("" if trial.right_with > trial.right_without else " no more")
        parts.append(line)
    return parts


def _lock(name: str, check: LockCheck) -> str:
    """A line on a locked case of which there is something to tell."""
    if not check.kept:
        return f"locked case {check.id} is NOT kept: {check.reason}"
    if not check.guideline_ids:
        return ""
    if not check.answered:
        return f"{_named(check.guideline_ids)} wait: {check.reason}; align again"
    return (
        f"locked case {check.id} is kept: {_named(check.guideline_ids)} broke it and is left out; "
        f"memalign lock {name} {check.id} --unlock lets it back in"
    )


def _rule_conflict(result: AlignResult, conflict: RuleConflict) -> list[str]:
    """Two guidelines that contradict each other: both texts, which counts and why, how to settle it."""
    name, memory = result.judge.name, result.judge.memory
    pair: list[Guideline] = [memory.guideline(gid) for gid in conflict.guideline_ids]
    said = f"{pair[0].id} and {pair[1].id} contradict each other; "
    if len(conflict.kept) == 1:
        winner, loser = sorted(pair, key=lambda g: g.id != conflict.kept[0])
        said += f"{winner.id} counts: {why_it_counts(memory, winner, loser)}"
        settle = f"settle it: memalign guideline {name} {loser.id} --pin, or --retire"
    else:
        said += "both are pinned, so both are in force"
        settle = f"settle it: memalign guideline {name} {pair[1].id} --unpin, or --retire"
    return [said, *(f"  {each.id}  {each.text}" for each in pair), f"  {settle}"]


def _named(ids: tuple[str, ...]) -> str:
    return ", ".join(ids)


def _title(what: str, count: int) -> str:
    return f"{what} ({_SHOWN} of {count}; --json has all)" if count > _SHOWN else what
