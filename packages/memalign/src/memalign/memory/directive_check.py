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
# A sentence that is an order as a whole, with a label in the place of {label}.
_ORDER = (
    (
        r"(?:please )?(?:(?:always|only|sempre|siempre) )?"
        r"(?:answer|say|give|return|output|score|rate|choose|pick|mark|label|responda|responde|diga)"
        r"(?: (?:always|sempre|siempre|it|this|them|everything|(?:all|any|every) \w+))?(?: (?:as|with|an?))* {label}"
    ),
    (
        r"(?:everything|anything|(?:all|any|every) \w+|tudo|todo)"
        r" (?:is|are|gets?|must be|should be|deserves?|[eé]|es)(?: (?:always|an?))* {label}"
    ),
)
_YES_NO = ("true", "false", "yes", "no", "pass", "fail")


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
    label = _label_pattern(value_type)
    for sentence in re.split(r"[.!?\n;:,]+", plain):
        words = " ".join(sentence.split())
        if any(re.fullmatch(order.format(label=label), words, re.IGNORECASE) for order in _ORDER):
            return "it states a verdict without a condition"
    return None


def _label_pattern(value_type: ValueType | None) -> str:
    if value_type is not None and value_type.kind in ("int", "float"):
        return r"\d+(?:\.\d+)?"
    labels = _YES_NO if value_type is None or value_type.kind == "bool" else tuple(map(str, value_type.labels))
    # A short label such as A is a word of its own in small letters.
    return (
        "(?:" + "|".join(re.escape(label) if len(label) > 2 else f"(?-i:{re.escape(label)})" for label in labels) + ")"
    )
