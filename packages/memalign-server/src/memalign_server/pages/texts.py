"""Judged text as safe HTML: Markdown without links and images, its code in colours, hidden characters made plain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

__all__ = ["is_word_in", "marked", "prose", "visible"]

_MARKS = re.compile(
    r"^(#{1,6} |[-*+] |\d+[.)] |> |```|\|.+\|)|\*\*\S|`[^`\n]+`|\[[^\[\]\n]+\]\(", re.MULTILINE
)
_CODE = {  # a sentence begins with one capital letter, or ends before the second word
    "sql": r"\s*(--.*\n\s*)*(?![A-Z][a-z])(?i:(select|with|insert|update|delete|create|alter)\b"
    r"([^.?!]|[.?!](?=\S))*\b(from|as|into|set|table)\b)",
    "python": r"\s*(#!|import \w+\n|from [\w.]+ import |def \w+\(|class \w+[(:])",
}
_LANGUAGES = {
    "python": "python", "py": "python", "python3": "python", "sql": "sql", "json": "json", "jsonl": "json",
    "javascript": "javascript", "js": "javascript", "typescript": "javascript", "ts": "javascript",
    "bash": "bash", "sh": "bash", "shell": "bash", "html": "html", "xml": "html", "css": "css", "diff": "diff",
}  # fmt: skip
"""The lexer of each language that is coloured. Most others need minutes for a text that is made for it."""
_MOST_CODE = 16_000  # characters of a text that are coloured: more would wait for seconds
_MOST_MARKDOWN = (
    100_000  # characters that are read as Markdown: a longer text is shown line for line
)
_LINES = str.maketrans("", "", "\n\t")


def visible(text: str) -> Markup:
    """`text` escaped, with characters that a reader cannot see, or that turn its order around, as their numbers."""
    return escape(_readable(text))


def marked(text: str, wanted: str) -> Markup:
    """Return a text with every place marked that reads as what was looked for, whatever its case and accents."""
    parts = list[Markup]()
    done = 0
    for start, end in _places(text, wanted):
        parts += [
            visible(text[done:start]),
            Markup("<mark>{}</mark>").format(visible(text[start:end])),
        ]
        done = end
    return Markup().join([*parts, visible(text[done:])])


def is_word_in(text: str, wanted: str) -> bool:
    """Return whether a text has what was looked for outside longer words: "Ana", and not "Analysis"."""
    places = list(_places(text, wanted))
    alone = (
        not (text[:start][-1:].isalnum() or text[end : end + 1].isalnum()) for start, end in places
    )
    return not places or any(alone)


def _places(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Where the text reads as what is wanted: the first letter, and the one after the last."""
    letters = [(folded, place) for place, letter in enumerate(text) for folded in _folded(letter)]
    read = "".join(folded for folded, _ in letters)
    sought = "".join(map(_folded, " ".join(wanted.split())))
    at = read.find(sought) if sought else -1
    while at >= 0:
        end = at + len(sought)
        yield letters[at][1], letters[end - 1][1] + 1
        at = read.find(sought, end)


def _folded(letter: str) -> str:
    if letter.isspace():
        return " "
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", letter).casefold())
    return "".join(
        part
        for part in parts
        if not unicodedata.combining(part) and unicodedata.category(part) != "Cf"
    )


def prose(text: str) -> Markup:
    """A text: as code where it begins as SQL or Python, as Markdown where it has its marks, else line for line."""
    safe = _readable(text)
    for language, beginning in _CODE.items():
        if len(safe) <= _MOST_CODE and re.match(beginning, safe):
            return Markup(_code(safe, language))
    if len(safe) > _MOST_MARKDOWN or not _MARKS.search(safe):
        paragraphs = re.split(r"\n(?:[ \t]*\n)+", safe.strip("\n"))
        return Markup().join(
            Markup('<p class="text">{}</p>').format(paragraph) for paragraph in paragraphs
        )
    # No HTML passes, every text is escaped, and nothing in it is a link or is fetched.
    return Markup('<div class="markdown">{}</div>').format(Markup(_markdown().render(safe)))


def _readable(text: str) -> str:
    text = text.replace("\r\n", "\n")
    if text.translate(_LINES).isprintable():  # nearly every text, and a hundred times as fast
        return text
    return "".join(letter if _plain(letter) else f"[U+{ord(letter):04X}]" for letter in text)


def _plain(letter: str) -> bool:
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return not hidden or letter in "\n\t\N{ZERO WIDTH JOINER}"


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parser.add_render_rule("link_open", lambda *_: '<span class="link">')
    parser.add_render_rule("link_close", _link_close)
    parser.add_render_rule("fence", _fence)
    return parser


def _fence(
    _renderer: RendererHTML, tokens: list[Token], at: int, _options: OptionsDict, env: Any
) -> str:
    """A block of code with its colours, as long as there is room for them in the whole text."""
    token = tokens[at]
    room = env.setdefault("room", _MOST_CODE) - len(token.content)
    words = token.info.split()
    language = _LANGUAGES.get(words[0].lower()) if words else None
    if language is None or room < 0:
        return _plain_code(token.content)
    env["room"] = room
    return _code(token.content, language)


def _code(text: str, language: str) -> str:
    """A block of code with its colours. Its lines lose their last blanks: a lexer looks for their end at each."""
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    inside = highlight(lines, get_lexer_by_name(language), HtmlFormatter(nowrap=True))  # it escapes
    return _plain_code(Markup(inside))


def _plain_code(text: str) -> str:
    return str(Markup('<pre class="code" tabindex="0">{}</pre>\n').format(text))


def _link_close(
    _renderer: RendererHTML, tokens: list[Token], at: int, _options: OptionsDict, _env: object
) -> str:
    while (
        tokens[at].type != "link_open"
    ):  # no link holds another one, so the last one that opened is this
        at -= 1
    return f"</span> <small>({escape(str(tokens[at].attrGet('href') or ''))})</small>"
