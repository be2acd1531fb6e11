"""The words for figures: `sentences.jinja` has them, and everything that prints figures asks it.

A macro of that template is a group of sentences. A blank line ends a sentence, and one may be
wrapped over several lines.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from memalign.metrics import Estimate
from memalign.values import value_text

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["percent", "say", "templates"]


def percent(figure: Estimate | float) -> str:
    """Write a share as people read it: `86 % [78 %, 92 %]`."""
    return f"{figure:.0%}".replace("%", " %")


def say(group: str, **facts: Any) -> list[str]:
    """Write a group of sentences.

    Args:
        group: The name of a macro of the template.
        facts: Its arguments.

    Returns:
        The sentences, each on one line.
    """
    written = getattr(_sentences(), group)(**facts)
    paragraphs = re.split(r"\n\s*\n", written.strip())
    return [_on_one_line(paragraph) for paragraph in paragraphs if paragraph]


def templates(**options: Any) -> Environment:
    """Return the templates of this folder.

    Args:
        options: More options of Jinja's environment.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("memalign", "evaluation"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        **options,
    )


@cache
def _sentences() -> Any:
    environment = templates(finalize=_on_one_line)
    environment.filters |= {"percent": percent, "written": format}
    return environment.get_template("sentences.jinja").module


def _on_one_line(value: Any) -> str:
    """Write a value as in a file of labels, without line breaks."""
    return re.sub(r"\s*[\r\n]+\s*", " ", value_text(value)).strip()
