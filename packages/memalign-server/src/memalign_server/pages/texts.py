"""Judged text as safe HTML: Markdown without links, code in colours, hidden characters plain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from memalign.content import search_letters

__all__ = ["is_word_in", "marked", "places", "prose", "visible"]

_MARKS: Final = re.compile(
    r"^(#{1,6} |[-*+] |\d+[.)] |> |```|\|.+\|)|\*\*\S|`[^`\n]+`|\[[^\[\]\n]+\]\(",
    re.MULTILINE,
)
# A sentence begins with one capital letter, or ends before the second word.
_CODE: Final = {
    "sql": r"\s*(--.*\n\s*)*(?![A-Z][a-z])(?i:(select|with|insert|update|delete|create|alter)\b"
    r"([^.?!]|[.?!](?=\S))*\b(from|as|into|set|table)\b)",
    "python": r"\s*(#!|import \w+\n|from [\w.]+ import |def \w+\(|class \w+[(:])",
}
_ALIASES: Final = {
    "python": "python py python3",
    "sql": "sql",
    "json": "json jsonl",
    "javascript": "javascript js typescript ts",
    "bash": "bash sh shell",
    "html": "html xml",
    "css": "css",
    "diff": "diff",
}
_LEXERS: Final = {
    name: lexer for lexer, names in _ALIASES.items() for name in names.split()
}
"""The lexer of each language that is coloured. Others may need minutes for a hostile text."""
_MOST_CODE: Final = 16_000
"""Characters of a text that are coloured: more would wait for seconds."""
_MOST_MARKDOWN: Final = 100_000
"""Characters that are read as Markdown: a longer text is shown line for line."""
_LINES: Final = str.maketrans("", "", "\n\t")
_ORDINARY: Final = "\n\t\u00ad\u200c\u200d\u200e\u200f"
"""Line breaks, and joiners and marks of direction, without which many languages cannot be read."""
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Categories of characters that nobody sees, or that turn the order of others around."""


def visible(text: str) -> Markup:
    """Return a text escaped, with each hidden character as its number, such as [U+202E]."""
    return escape(_readable(text))


def marked(text: str, wanted: str) -> Markup:
    """Return a text with every place marked that reads as the wanted words, accents aside."""
    parts = []
    done = 0
    for start, end in places(text, wanted):
        found = visible(text[start:end])
        parts.append(visible(text[done:start]))
        parts.append(Markup("<mark>{}</mark>").format(found))
        done = end
    parts.append(visible(text[done:]))
    return Markup().join(parts)


def is_word_in(text: str, wanted: str) -> bool:
    """Return whether a text has the wanted words outside longer ones: "Ana", and not "Analysis"."""
    found = list(places(text, wanted))
    for start, end in found:
        before = text[:start][-1:]
        after = text[end:][:1]
        if not (before.isalnum() or after.isalnum()):
            return True
    return not found


def places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Yield where a text reads as the wanted words: the first letter, and the end."""
    letters = list(search_letters(text))
    read = "".join(letter for letter, _ in letters)
    sought = "".join(letter for letter, _ in search_letters(wanted.strip()))
    at = read.find(sought) if sought else -1
    while at >= 0:
        end = at + len(sought)
        yield letters[at][1], letters[end - 1][1] + 1
        at = read.find(sought, end)


def prose(text: str) -> Markup:
    """Return a text as code if it begins as such, as Markdown if it has marks, else as lines."""
    safe = _readable(text)
    for language, beginning in _CODE.items():
        if len(safe) <= _MOST_CODE and re.match(beginning, safe):
            return Markup(_code(safe, language))
    if len(safe) <= _MOST_MARKDOWN and _MARKS.search(safe):
        # No HTML passes, every text is escaped, and nothing in it is a link or is fetched.
        html = Markup(_markdown().render(safe))
        return Markup('<div class="markdown">{}</div>').format(html)
    paragraph = Markup('<p class="text">{}</p>')
    texts = re.split(r"\n(?:[ \t]*\n)+", safe.strip("\n"))
    return Markup().join(map(paragraph.format, texts))


def _readable(text: str) -> str:
    text = text.replace("\r\n", "\n")
    # Nearly every text, and a hundred times as fast.
    if text.translate(_LINES).isprintable():
        return text
    return "".join(
        letter if _is_plain(letter) else f"[U+{ord(letter):04X}]" for letter in text
    )


def _is_plain(letter: str) -> bool:
    if letter in _ORDINARY:
        return True
    return unicodedata.category(letter) not in _HIDDEN


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.add_render_rule("link_open", lambda *_: '<span class="link">')
    parser.add_render_rule("link_close", _link_close)
    parser.add_render_rule("fence", _fence)
    return parser


def _fence(
    _renderer: RendererHTML,
    tokens: list[Token],
    at: int,
    _options: OptionsDict,
    env: Any,
) -> str:
    """Return a block of code, with its colours while the whole text has room for them."""
    token = tokens[at]
    room = env.setdefault("room", _MOST_CODE) - len(token.content)
    words = token.info.split()
    language = _LEXERS.get(words[0].lower()) if words else None
    if language is None or room < 0:
        return _plain_code(token.content)
    env["room"] = room
    return _code(token.content, language)


def _code(text: str, language: str) -> str:
    """Return a block of code with its colours.

    Its lines lose their last blanks, because a lexer looks for their end at each of them.
    """
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    coloured = highlight(lines, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    return _plain_code(Markup(coloured))  # the formatter escapes


def _plain_code(text: str) -> str:
    return str(Markup('<pre class="code" tabindex="0">{}</pre>\n').format(text))


def _link_close(
    _renderer: RendererHTML,
    tokens: list[Token],
    at: int,
    _options: OptionsDict,
    _env: object,
) -> str:
    """Return the end of a link with its address; no link holds another one."""
    while tokens[at].type != "link_open":
        at -= 1
    address = escape(str(tokens[at].attrGet("href") or ""))
    return f"</span> <small>({address})</small>"
