"""Texts that give the judge an order instead of a rule: a verdict without a condition, or to set its guidance aside.

Such a text may be meant (an expert's explicit rule), careless, or an attack; no structure can tell. So it is flagged
where a person looks, by words alone and the same way every time, and never dropped.
"""

from __future__ import annotations

import json
import re
import unicodedata

from memalign.memory.guard import tidy
from memalign.prompts import encode
from memalign.values import ValueType

__all__ = ["directive_in"]

# The imperative only: an expert may well say of a reply that it ignores the instructions.
_ASIDE = re.compile(
    r"(?:(?<!that )(?<!which )(?<!who )(?<!they )(?<!not )(?<!to )"
    r"\b(?:ignore|disregard|forget|override|bypass|desconsidere|esque[c\u00e7]a|ignora|olvid[ae])"
    r"|\b(?:whatever|regardless of|no matter what|independentemente|sem importar|sin importar))\b"
    r"[^.!?]{0,40}\b(?:above|previous|earlier|prior|instructions?|guidelines?|rules?|prompts?|experts?"
    r"|instru\w+|regras?|reglas?|diretriz\w*|directri\w*|anterior\w*)\b"
)
_FORM = re.compile(r"[\"'](?:value|rationale)[\"']\s*:|(?:^|[.;!?]\s*)Expert\s*:", re.IGNORECASE)
_ALWAYS = re.compile(
    r"\b(?:always|every|everything|all|any|anything|never|none|sempre|tod[oa]s?|tudo|nunca|siempre|cualquier\w*)\b"
)
_CONDITION = re.compile(
    r"\b(?:when|where|if|unless|while|until|except|only|that|which|who|whose|with|without|because|for"
    r"|quando|cuando|onde|donde|se|si|sin|sem|com|con|salvo|exceto|excepto|menos|que|para|porque)\b|[;:,]"
)
_ANSWER = re.compile(
    r"\b(?:answer|say|give|return|output|score|rate|choose|pick|judge|mark|label|is|are|be|must be"
    r"|responda|responde|diga|d[eê]|[eé]|s[aã]o|son|es)\b"
)
_YES_NO = ("true", "false", "yes", "no", "pass", "fail")
_FEW = 5


def directive_in(text: str, value_type: ValueType | None = None) -> str | None:
    """What makes `text` an order rather than a rule, or None; labels are those of `value_type` (None: of yes or no).

    It knows the words of English, Portuguese and Spanish.
    """
    plain = unicodedata.normalize("NFKC", tidy(text))
    if encode(plain) != json.dumps(plain, ensure_ascii=False):
        return "it has hidden characters or a chat template's marks"
    if _FORM.search(plain):
        return "it has a verdict in the form of an answer"
    if _ASIDE.search(plain.casefold()):
        return "it speaks of the judge's other instructions"
    for sentence in re.split(r"[.!?\n]+", plain):
        if _verdict(sentence, value_type) and not _CONDITION.search(sentence.casefold()):
            lowered = sentence.casefold()
            if _ALWAYS.search(lowered) or (_ANSWER.search(lowered) and len(sentence.split()) <= _FEW):
                return "it states a verdict without a condition"
    return None


def _verdict(sentence: str, value_type: ValueType | None) -> bool:
    labels = _YES_NO if value_type is None or value_type.kind == "bool" else tuple(map(str, value_type.labels))
    if value_type is not None and value_type.kind in ("int", "float"):
        return bool(re.search(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]|\s*%)", sentence))
    # A short label such as A is a word of its own in small letters.
    return any(
        re.search(rf"(?<!\w){re.escape(label)}(?!\w)", sentence, 0 if len(label) < 3 else re.IGNORECASE)
        for label in labels
    )
