"""Whether a sentence forbids, in so many words, what a test finds: English, and no guessing.

Who writes "never write X unless …" or "do not avoid X" forbids nothing that code may decide; nor
does a quotation of a rule. So a sentence has to begin with the prohibition, name the very words,
and end there or go on with a reason; and nothing in the whole text may sound like a condition or an
exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from memalign.content.normal import literal_form
from memalign.judge.code_tests import form_of, literal_of
from memalign.types import CodeTest

__all__ = ["excepting", "forbidden_answer", "without_quotations"]

_WORD = r"[\w%€$£/.'-]+"
_SUBJECT = (
    r"(?:(?:a|an|the|any|every|each|all|our|your|good|reply|replies|answer|answers|response"
    r"|responses|message|messages|text|texts|summary|summaries|it|we|you|they|please|must|should"
    r"|shall|may|can|have|has|is|are|be|of|keep|to|use|write|in) ){0,6}"
)
_NEVER = r"(?:never|do not|does not|don't|doesn't|not|cannot|can't|mustn't|shouldn't)"
_VERB = (
    r"(?:write|writes|say|says|use|uses|mention|mentions|include|includes|contain|contains|have|has"
    r"|put|puts|add|adds|name|names"
    r"|(?:begin|begins|start|starts|open|opens|end|ends|close|closes|sign|signs) with)"
)
_FILLER = (
    r"(?:(?:the|a|an|any|word|words|phrase|term|expression|sentence|number|code|reference"
    r"|like|such as|anything) ){0,5}"
)
_OTHERS = rf"(?:\"?{_WORD}(?: {_WORD}){{0,3}}\"?,? (?:or|nor) )?"
_TAIL = r"(?: (?:in (?:a|an|the|any|our|your) (?:reply|answer|response)|here|ever))?"
_REASON = (
    r"(?:it|it's|that|this|because|since|as it|we|people|customers|they|say|tell|write|use|be"
    r"|please|always|never|no|not)"
)
_MOST = r"(?:at most|no more than|not more than|never more than|a maximum of|max\.?)"

_FORBIDS = rf"^{_SUBJECT}(?:{_NEVER} {_VERB}|no) "
_BEGINNINGS = tuple(
    re.compile(_FORBIDS + rest, re.IGNORECASE)
    for rest in (f"{_FILLER}{_OTHERS}", _FILLER, "")
)
"""What comes before the forbidden words; the optional parts may take the words themselves."""

_END = re.compile(
    rf"(?:,? (?:or|nor) \"?{_WORD}(?: {_WORD}){{0,3}}\"?)?{_TAIL}"
    rf"(?:[.!]?$|(?:[;:,\u2013\u2014]| [\u2013\u2014-]) ?\b{_REASON}\b.*)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:unless|except|exceptions?|excluding|allowed|permitted|required|acceptable|fine|okay|joke"
    r"|kidding|please do|if|when|whenever|where|while|only|but|until|without|instead|other than"
    r"|apart|besides|however|though|although|sometimes|usually|mostly|often|rarely|alone|twice|once"
    r"|again|avoid|forget|fail|omit|skip|hesitate|wrong|untrue|need|unlike|save for|otherwise"
    r"|in case|provided|excepted|exempt\w*|barring|aside|outside|during|before|after|as long"
    r"|so long|at least|may(?! not)|might|ok|normal|normally|generally|typically|preferably|ideally"
    r"|depend\w*|yet|still|nevertheless|nonetheless|too|in principle|as a rule"
    r"|(?<!no )(?<!not )(?<!never )more than|or (?:not|less|more|later|so|two|else))\b|\?",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(
    r"\b(?:unless|except\w*|only|but|until|without|otherwise|other than|apart|besides|however"
    r"|though|although|allowed|permitted|acceptable|fine|okay|ok|may(?! not))\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:never|no|not|cannot|nobody|nothing|none|neither)\b|n't\b", re.I
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def forbidden_answer(
    test: CodeTest, text: str, comments: Iterable[str] = ()
) -> bool | None:
    """Return the answer of a test that a text forbids, or None if code may decide nothing.

    Args:
        test: What code reads off an item.
        text: The guideline, without its label.
        comments: The experts' own words behind it: a condition in one counts as one in the text.
    """
    for words in (text, *comments):
        if _CONDITION.search(without_quotations(literal_form(words))):
            return None
    for sentence in _SENTENCE.split(literal_form(text)):
        if len(_NEGATION.findall(without_quotations(sentence))) <= 1:
            answer = _forbidden(test, sentence)
            if answer is not None:
                return answer
    return None


def excepting(text: str) -> bool:
    """Return whether a text makes an exception, and does not merely say when it applies."""
    return _EXCEPTION.search(without_quotations(literal_form(text))) is not None


def without_quotations(text: str) -> str:
    """Return a text in normal form with nothing between its quotation marks."""
    return re.sub(r'"[^"]*"', '""', text)


def _forbidden(test: CodeTest, sentence: str) -> bool | None:
    if test.kind in ("length", "number"):
        return _beyond(test, sentence)
    for beginning in _BEGINNINGS:
        match = beginning.match(sentence)
        if match and _names(test, sentence[match.end() :]):
            return True
    return None


def _names(test: CodeTest, rest: str) -> bool:
    """Return whether the words after the verb are the test's, and nothing narrows them down."""
    said = form_of(test)(rest)
    if len(said) != len(rest):
        return False
    for quote in ('"', "'", ""):
        named = f"{quote}{literal_of(test)}{quote}"
        if said.startswith(named):
            return _END.match(rest[len(named) :]) is not None
    return False


def _beyond(test: CodeTest, sentence: str) -> bool | None:
    """Return the answer of a test of numbers that means more than a sentence allows."""
    unit = "words?" if test.kind == "length" else re.escape(literal_form(test.text))
    limit = re.compile(
        rf"^{_SUBJECT}{_MOST} (\d+) ?{unit}{_END.pattern}", re.IGNORECASE
    )
    match = limit.match(sentence)
    if match is None:
        return None
    most = float(match[1])
    if test.low is not None and test.low > most and test.high is None:
        return True
    # Of a number with a unit, "no" may also mean that there is none.
    within = test.kind == "length" and test.low is None and test.high == most
    return False if within else None
