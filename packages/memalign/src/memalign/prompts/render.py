r"""Pure functions from values to prompt text, over the .jinja files beside this one.

The same arguments give the same bytes. Everything that was judged, or said about it, enters as JSON on one line: a line
break in it becomes the two characters `\n`, so no text can close a fence or start a line of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.prompts.language import language_of
from memalign.types import Guideline
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "DistilRecord",
    "ShownExample",
    "encode",
    "prompts_hash",
    "render_distil",
    "render_distil_one",
    "render_item",
    "render_judge_system",
    "render_relate",
    "values_in_words",
]


class ShownExample(msgspec.Struct, frozen=True, kw_only=True):
    """A past case in a judge's prompt: encoded fields, and what experts said of it."""

    fields: tuple[tuple[str, str], ...]
    answer: str


class DistilRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of feedback in a distillation prompt; every text is encoded already. `label` is F1, F2 and so on."""

    label: str
    fields: tuple[tuple[str, str], ...]
    judge: str | None
    judge_rationale: str | None
    value: str | None
    rationale: str | None


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 0.2 s, only when a prompt is made

    # No HTML: escaping would change the judged text. What comes in is JSON-encoded by `encode`.
    return Environment(
        loader=PackageLoader("memalign", "prompts"),
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
        keep_trailing_newline=False,
        auto_reload=False,  # our own files do not change: no look at the disk for every prompt
    )


def _render(name: str, **values: Any) -> str:
    return _environment().get_template(f"{name}.jinja").render(**values).strip()


@cache
def prompts_hash() -> str:
    """SHA-256 (hex) over all prompt files: which wording a judge was measured or exported with."""
    digest = hashlib.sha256()
    folder = resources.files("memalign.prompts")
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".jinja")), key=lambda f: f.name):
        digest.update(f"{file.name}\0{file.read_text('utf-8')}\0".encode())
    return digest.hexdigest()


# A chat template's control tokens (<|im_start|>, [INST], <start_of_turn>) are recognised in plain text by some servers.
# Case counts: <User> in a list of generics is no token. The names are those of Llama, Mistral, Gemma, Qwen, DeepSeek,
# Phi, Cohere, GLM, EXAONE, Kimi, Nemotron, Seed, MiniMax and StarCoder; a full-width bracket or bar counts as a plain
# one, because some tokenizers normalise it to that.
_CONTROL = re.compile(
    r"[<\uff1c\ufe64](?=[|\uff5c])|[|\uff5c](?=[>\uff1e\ufe65])"
    r"|[\[\uff3b](?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|THINK|MODEL_SETTINGS|"
    r"IMG|gMASK|BOS|EOS|EOT)[\]\uff3d])"
    r"|\[(?=\|(?:system|user|assistant|tool|endofturn)\|\])|\](?=~!?b(?:\[|\]))|\[(?=e~\[)"
    r"|<(?=<SYS|</SYS)"
    r"|<(?=/?(?:start_of_turn|end_of_turn|s>|bos>|eos>|think|tool|system|user|assistant))"
    r"|<(?=/?(?:unk>|pad>|sop>|eop>|[A-Z]{3}_TOKEN>|seed:|extra_id_\d|SPECIAL_\d|reserved_\d|unused\d|fim_|__media__))"
)
_LINE_SEPARATORS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}

# What nobody sees and a model reads: terminal controls, bidirectional overrides, and the tag characters and selectors
# in which whole sentences are smuggled. Joiners, direction marks, zero-width spaces and U+FEFF are part of ordinary text
# in many languages and stay; no token contains them.
_HIDDEN = re.compile(
    "[\x7f-\x9f\u202a-\u202e\u2060-\u206f\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

# All that `encode` could have to change begins with one of these: brackets, bars, what is beyond printable ASCII.
_SUSPECT = re.compile(r"[<>\[\]|]|[^ -~]")


def encode(value: object) -> str:
    """`value` as JSON on one line, with nothing in it that a fence or a chat template would understand.

    Still valid JSON: control tokens are broken by escaping their first character, hidden characters are escaped whole.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not _SUSPECT.search(text):  # nearly every text: five passes for one
        return text
    for character, escape in _LINE_SEPARATORS.items():
        text = text.replace(character, escape)
    text = _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", text)
    # A lone surrogate cannot be sent as UTF-8.
    text = re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    text = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    # Every bracket that two more follow: of four in a row, three would be left of a plain replacement.
    return re.sub(r"<(?=<<)|>(?=>>)", lambda match: f"\\u{ord(match[0]):04x}", text)


def values_in_words(value_type: ValueType) -> str:
    """What a judge may answer, in words for a prompt."""
    match value_type.kind:
        case "bool":
            return "true or false"
        case "choice":
            return "one of " + ", ".join(json.dumps(choice, ensure_ascii=False) for choice in value_type.choices)
        case "str":
            return "a short text"
        case _:
            return value_type.allowed


def render_judge_system(
    *,
    instructions: str,
    fields: Sequence[str],
    value_type: ValueType,
    guidelines: Iterable[Guideline],
    style: Literal["full", "brief", "none"],
) -> str:
    """The system message of a judge: task, form of the answer, guidelines. `style` is that of the reason, if there is one."""
    return _render(
        "judge_system",
        instructions=instructions.strip(),
        fields=tuple(fields),
        values=values_in_words(value_type),
        guidelines=tuple(guidelines),
        style=style,
    )


def render_item(
    fields: Mapping[str, str], examples: Sequence[ShownExample], guidelines: Sequence[Guideline] = ()
) -> str:
    """The user message of a judge: guidelines that only this item calls for, past cases, then the item.

    `fields` are encoded already.
    """
    return _render("judge_user", fields=tuple(fields.items()), examples=tuple(examples), guidelines=tuple(guidelines))


def render_answer(rationale: str | None, value: Value | None) -> str:
    """What experts said of a past case.

    Not in the form in which the judge must answer: a weak model took an example's words for its own reason.
    """
    verdict = "Expert:" if value is None else f"Expert: {encode(value)}."
    return f"{verdict} Comment: {encode(rationale)}" if rationale else verdict


def render_distil_one(
    *, instructions: str, value_type: ValueType, record: DistilRecord, refused: str | None = None
) -> tuple[str, str]:
    """System and user message that distil one piece of feedback into one rule (weak models).

    `refused` says why the rule that the model wrote before was not taken.
    The worked examples are in the language of the instructions: a weak model writes in theirs, whatever it is told.
    """
    user = _render(
        "distil_one_user",
        instructions=_one_line(instructions),
        values=values_in_words(value_type),
        record=record,
        refused=refused,
    )
    return _render("distil_one_system", language=language_of(instructions) or "English"), user


def render_distil(
    *,
    instructions: str,
    value_type: ValueType,
    guidelines: Sequence[Guideline],
    known: Sequence[DistilRecord],
    records: Sequence[DistilRecord],
    refused: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    """System and user message that turn one shard's new feedback into deltas (strong models).

    `refused` are the labels of records whose rule was not taken before, and why.
    """
    system = _render("distil_system", instructions=instructions.strip(), values=values_in_words(value_type))
    return system, _render("distil_user", guidelines=guidelines, known=known, records=records, refused=refused or {})


def render_relate(*, instructions: str, value_type: ValueType, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """System and user message that ask what the texts of each pair are to each other; pairs are P1, P2 and so on."""
    system = _render("relate_system", instructions=instructions.strip(), values=values_in_words(value_type))
    return system, _render("relate_user", pairs=[(encode(first), encode(second)) for first, second in pairs])


def _one_line(text: str) -> str:
    return " ".join(text.split())
