"""Charts as SVG, made on the server; colours come from the stylesheet."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from memalign_server.pages.languages import Language
from memalign_server.review.evidence import VersionEvidence

__all__ = ["agreement_chart"]

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 16, 14, 40
_MOST = 24  # versions; of more, the latest


def agreement_chart(versions: Sequence[VersionEvidence], language: Language, name: str) -> Markup:
    """Agreement by version, each a dot with its interval as a bar; `name` is what a screen reader says of it."""
    shown = list(versions)[-_MOST:]
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(place: int) -> float:
        return _LEFT + wide * (place + 0.5) / max(1, len(shown))

    def y(share: float) -> float:
        return _TOP + high * (1 - share)

    parts = [
        Markup(
            '<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>'
        ).format(_LEFT, _WIDTH - _RIGHT, y(share), y(share), _LEFT - 8, y(share) + 4, language.percent(share))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    points = [(x(place), y(each.share.value or 0.0)) for place, each in enumerate(shown)]
    if len(points) > 1:
        parts.append(
            Markup('<polyline class="path" points="{}"/>').format(" ".join(f"{a:.1f},{b:.1f}" for a, b in points))
        )
    for place, each in enumerate(shown):
        found = each.share
        told = f"{each.version}: {language.percent(found.value)} ({language.percent(found.low)}–{language.percent(found.high)}), n = {each.n}"  # noqa: RUF001
        parts.append(
            Markup(
                '<g><title>{}</title><line class="bar" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
                '<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="5"/></g>'
                '<text x="{:.1f}" y="{}" text-anchor="middle">{}</text><text x="{:.1f}" y="{}" text-anchor="middle">n={}</text>'
            ).format(
                told, x(place), x(place), y(found.low or 0.0), y(found.high or 0.0), x(place), y(found.value or 0.0),
                x(place), _HEIGHT - 22, each.version, x(place), _HEIGHT - 6, each.n,
            )
        )  # fmt: skip
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, name, Markup("").join(parts)
    )
