"""Values as prompts have them: JSON on one line, whole or cut, and about how many tokens."""

from __future__ import annotations

import json
import re

__all__ = ["BYTES_PER_TOKEN", "encode", "encode_within", "estimate_tokens", "shorten"]

BYTES_PER_TOKEN = 3.0
"""Low on purpose: English is nearer four, and a prompt that is too long is an error."""


def estimate_tokens(*texts: str) -> int:
    """Estimate the tokens of texts, rather too many than too few; no tokenizer is loaded."""
    tokens = 0
    for text in texts:
        size = len(text.encode("utf-8", "surrogatepass"))
        tokens += int(size / BYTES_PER_TOKEN) + 1
    return tokens


# A chat template's control tokens (<|im_start|>, [INST], <start_of_turn>) are recognised in plain
# text by some servers. Case counts: <User> in a list of generics is no token. The names are those
# of Llama, Mistral, Gemma, Qwen, DeepSeek, Phi, Cohere, GLM, EXAONE, Kimi, Nemotron, Seed, MiniMax
# and StarCoder; a full-width bracket or bar counts as a plain one, because some tokenizers
# normalise it to that.
_CONTROL = re.compile(
    r"[<\uff1c\ufe64](?=[|\uff5c])|[|\uff5c](?=[>\uff1e\ufe65])"
    r"|[\[\uff3b](?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|"
    r"TOOL_CONTENT|THINK|MODEL_SETTINGS|IMG|gMASK|BOS|EOS|EOT)[\]\uff3d])"
    r"|\[(?=\|(?:system|user|assistant|tool|endofturn)\|\])|\](?=~!?b(?:\[|\]))|\[(?=e~\[)"
    r"|<(?=<SYS|</SYS)"
    r"|<(?=/?(?:start_of_turn|end_of_turn|s>|bos>|eos>|think|tool|system|user|assistant))"
    r"|<(?=/?(?:unk>|pad>|sop>|eop>|[A-Z]{3}_TOKEN>|seed:|extra_id_\d|SPECIAL_\d"
    r"|reserved_\d|unused\d|fim_|__media__))"
)

# What nobody sees and a model reads: terminal controls, line separators, bidirectional overrides,
# tag characters and selectors in which whole sentences are smuggled, and lone surrogates, which
# UTF-8 cannot hold. Joiners, direction marks, zero-width spaces and U+FEFF are part of ordinary
# text in many languages and stay; no token contains them.
_HIDDEN = re.compile(
    "[\x7f-\x9f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

# All that `encode` could have to change begins with one of these: brackets, bars, what is beyond
# printable ASCII.
_SUSPECT = re.compile(r"[<>\[\]|]|[^ -~]")


def encode(value: object) -> str:
    """Return a value as JSON on one line that no fence and no chat template understands.

    Still valid JSON: control tokens are broken by escaping their first character, hidden characters
    are escaped whole.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not _SUSPECT.search(text):  # nearly every text: five passes for one
        return text
    text = _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    text = _CONTROL.sub(_escaped, text)
    # Every bracket that two more follow: of four in a row, three would be left of a plain
    # replacement.
    return re.sub(r"<(?=<<)|>(?=>>)", _escaped, text)


def _escaped(sign: re.Match[str]) -> str:
    code = ord(sign[0])
    return f"\\u{code:04x}"


def shorten(value: object, tokens: int) -> str:
    """Encode the beginning and end of a value in about `tokens`, and say how much is missing."""
    room = max(int(tokens * BYTES_PER_TOKEN) - 60, 40)
    text = value if isinstance(value, str) else encode(value)
    while True:
        head = text[: room * 2 // 3]
        tail = text[-(room // 3) :]
        missing = len(text) - len(head) - len(tail)
        shortened = encode(f"{head} …[{missing:,} characters left out]… {tail}")
        if estimate_tokens(shortened) <= tokens or room <= 40:
            return shortened
        # Wide characters and escapes take more bytes than the estimate of one each.
        room = room * 3 // 4


def encode_within(value: object, tokens: int | None) -> str:
    """Encode a value, and cut it if it takes more than `tokens`."""
    if tokens is None:
        return encode(value)
    if isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN:
        return shorten(
            value, tokens
        )  # megabytes are not encoded to show little of them
    text = encode(value)
    if estimate_tokens(text) <= tokens:
        return text
    return shorten(value, tokens)
