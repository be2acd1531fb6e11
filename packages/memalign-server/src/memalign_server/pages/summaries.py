"""What an alignment did, in one line of the reader's language, from its report as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memalign_server.pages.languages import Language

__all__ = ["STATES", "alignment_line"]

STATES: Final[Mapping[str, tuple[str, str]]] = {
    "learned": ("{n} learned", "{n} learned"),
    "merged": ("{n} known already", "{n} known already"),
    "disputed": ("{n} disputed", "{n} disputed"),
    "rejected": ("{n} not usable", "{n} not usable"),
    "withdrawn": ("{n} withdrawn", "{n} withdrawn"),
    "unchanged": ("{n} unchanged", "{n} unchanged"),
    "invalid": ("{n} not understood", "{n} not understood"),
    "pending": ("{n} waits", "{n} wait"),
}
"""What became of rows: the words for one, and for several."""
_NAMED = 6  # ids


def alignment_line(report: Mapping[str, Any], language: Language) -> str:
    """`4 learned, 1 waits, new G1, G2, 31 s, $0.004` from `AlignResult.to_dict()`."""
    count, say = language.count, language.say
    rows = report.get("rows") or ()
    found = Counter(row.get("state") for row in rows if row["status"] in ("new", "changed"))
    found.update(row["status"] for row in rows if row["status"] in ("unchanged", "invalid"))
    found |= {name: len(report.get(key) or ()) for name, key in (("withdrawn", "removed"), ("pending", "pending"))}
    parts = [count(found[name], one, several) for name, (one, several) in STATES.items() if found[name]]
    if forgotten := report.get("forgotten"):
        parts.append(say("forgot {ids}", ids=_ids(forgotten)))
    if new := report.get("guidelines"):
        parts.append(say("new {ids}", ids=_ids(new)))
    parts += _impact(report.get("impact") or {}, language)
    if broken := [each for each in report.get("locks") or () if not each["kept"]]:
        parts.append(say("locked and not kept: {ids}", ids=_ids(broken)))
    if conflicts := len(report.get("conflicts") or ()):
        parts.append(count(conflicts, "{n} conflict", "{n} conflicts"))
    seconds = float(report.get("seconds") or 0.0)
    parts.append(f"{language.number(seconds, 0 if seconds >= 1 else 1)} s")
    cost = (report.get("usage") or {}).get("cost")
    parts.append(say("cost unknown") if cost is None else language.money(cost))
    return ", ".join(parts)


def _impact(impact: Mapping[str, Any], language: Language) -> list[str]:
    if not impact.get("checked"):
        return []
    n, say = language.number(impact["checked"]), language.say
    return [say("fixed {fixed} and broke {broken} of {n} checked", fixed=impact["fixed"], broken=impact["broken"], n=n)]


def _ids(named: Sequence[Mapping[str, Any]]) -> str:
    more = f" +{len(named) - _NAMED}" if len(named) > _NAMED else ""
    return f"{', '.join(each['id'] for each in named[:_NAMED])}{more}"
