"""Which past cases a new one should be judged beside.

Exact search over unit vectors: a team's feedback is thousands of cases, not millions. Cases are compared on inputs and
outputs alike (and conversation and trace), since two answers to one question are rarely wrong for the same reason.
The in-process embedder was made for English: an item in Portuguese or Spanish is compared by its words (decision 8).
No index is stored: everything is derived from the cases, so what was forgotten is nowhere.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from memalign.cache import cached
from memalign.content import words_of
from memalign.memory.guard import normalised
from memalign.memory.model import Case, Memory
from memalign.prompts.language import language_of
from memalign.types import Example
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Retrieved", "embedding_text", "is_hard", "overlap", "signatures", "similar_cases", "was_misjudged"]

EMBEDDED_FIELDS = ("inputs", "outputs", "conversation", "trace")
CANDIDATES_PER_SLOT = 2
ENGLISH_CENTRED = "wordllama:"  # what the names of such embedding models begin with
RELEVANT = 0.6
"""Cosine of the in-process embedder below which a case says nothing of an item's label (decision 11)."""
AT_ONCE = 64
"""Cases that one look sorts: enough for both uses of a judgment's neighbours, unless most are of a few groups."""
CHOICE = 30
"""Cases from which on there is a choice: of fewer the nearest are shown, however unlike: they teach a house's ways."""
NEAR_COPY = 0.98
"""Cosine of the in-process embedder from which on two cases say the same: the second one's place is another's."""


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """A retrieved case: its cosine similarity to the item in [-1, 1], why it ranks where it does, and its label.

    Similarities of two items do not compare: one may be of embeddings, the other of words.
    """

    case: Case
    similarity: float
    identical: bool
    misjudged: bool
    label: Value | None


def embedding_text(example: Example) -> str:
    """The text of a case that is embedded, the same for a stored case and for a new item.

    Values only, without field names or JSON punctuation; of conversations and traces what they say (`words_of`). The
    reference (`expectations`) is left out: a new item often has none, and labels and comments never enter. Falls back
    to the reference when there is nothing else.
    """
    fields = [(name, value) for name in EMBEDDED_FIELDS if (value := getattr(example, name)) is not None]
    text = "\n".join(word for name, value in fields for word in words_of(name, value))
    return text or "\n".join(words_of("expectations", example.expectations))


def was_misjudged(memory: Memory, case: Case, value_type: ValueType, judge: str | None = None) -> bool:
    """Whether the judge of the fingerprint `judge` (None: any) gave another verdict before learning than its experts.

    False where there is no label or no pre-alignment verdict of this judge, and for free text, where two right answers
    differ.
    """
    before = case.pre_alignment
    return before is not None and judge in (None, before.judge) and _missed(memory, case, value_type, before.value)


def is_hard(memory: Memory, case: Case, value_type: ValueType, judge: str | None = None) -> bool:
    """Whether the judge of the fingerprint `judge` (None: any) got the case wrong.

    Its verdict before it learned says so; where it gave none, the one that it gave since then with the case hidden.
    """
    if case.pre_alignment is not None and judge in (None, case.pre_alignment.judge):
        return _missed(memory, case, value_type, case.pre_alignment.value)
    since = case.answers
    return since is not None and judge in (None, since.judge) and _missed(memory, case, value_type, since.verdict)


def _missed(memory: Memory, case: Case, value_type: ValueType, verdict: Value | None) -> bool:
    label = memory.label(case) if value_type.closed and verdict is not None else None
    return label is not None and verdict is not None and not value_type.agree(label, verdict)


def similar_cases(
    memory: Memory,
    example: Example,
    vector: NDArray[np.float32],
    value_type: ValueType,
    k: int,
    *,
    judge: str | None = None,
) -> tuple[Retrieved, ...]:
    """Up to `k` cases that an item is judged beside, the most useful first.

    An identical case comes first and always, also with k = 0: experts may have said of it what is no label. Then, among
    the nearest 2k, the ones that the judge misjudged; then by likeness. None is there without a label that counts, nor
    a second one of a group (`meta["group"]`, such as a conversation) or of the same words. From CHOICE cases on none
    is less alike than RELEVANT. Nearest is by embedding; by shared words for a Portuguese or Spanish item where the
    embedder is English-centred. Ties are broken by id, so the result is deterministic.

    Args:
        memory: Whose cases.
        example: The item.
        vector: Its embedding, of shape (d,). One of another width than memory's compares to nothing.
        value_type: The judge's.
        k: How many.
        judge: Only verdicts of the judge of this fingerprint rank the cases; None: all do, see `is_hard`.
    """

    def retrieved(case: Case, similarity: float, *, identical: bool = False) -> Retrieved:
        misjudged, label = is_hard(memory, case, value_type, judge), memory.label(case)
        return Retrieved(case=case, similarity=similarity, identical=identical, misjudged=misjudged, label=label)

    hits = [retrieved(case, 1.0, identical=True) for case in memory.duplicates(example)[:1]]
    if k == 0 or memory.matrix.shape[1] != vector.shape[0]:
        return tuple(hits)
    kinds = {kind for hit in hits for kind in _kinds(hit.case)}
    for case, similarity in _nearest(memory, example, vector):
        if len(hits) >= CANDIDATES_PER_SLOT * k:
            break
        own = _kinds(case)
        if memory.label(case) is None or not kinds.isdisjoint(own) or _near_copy(memory, case, hits):
            continue
        kinds.update(own)
        hits.append(retrieved(case, similarity))
    return tuple(sorted(hits, key=_rank)[:k])


def _rank(hit: Retrieved) -> tuple[bool, bool, float, str]:
    return (not hit.identical, not hit.misjudged, -hit.similarity, hit.case.id)


def _kinds(case: Case) -> tuple[str, ...]:
    """What a case may share with one that is shown already, and is then left out: its group, and its very words."""
    group = case.example.meta.get("group")
    words: str = cached(case.example, "words", lambda: normalised(embedding_text(case.example)))
    return (f"words {words or case.example.content_hash}", *([] if group is None else [f"group {group}"]))


def _near_copy(memory: Memory, case: Case, hits: list[Retrieved]) -> bool:
    if not (memory.embedding_model or "").startswith(ENGLISH_CENTRED) or case.vector is None:
        return False  # of others no scale is known
    import numpy as np

    own = np.frombuffer(case.vector, dtype=np.float32)
    others = [np.frombuffer(hit.case.vector, dtype=np.float32) for hit in hits if hit.case.vector]
    return any(float(own @ other) >= NEAR_COPY for other in others)


def _nearest(memory: Memory, example: Example, vector: NDArray[np.float32]) -> Iterator[tuple[Case, float]]:
    """Cases from the nearest on, as far as they are relevant; of equal likeness the lower id first."""
    import numpy as np  # a quarter of a second that `import memalign` should not cost

    cases = memory.cases
    embedded = (memory.embedding_model or "").startswith(ENGLISH_CENTRED)
    by_words = embedded and language_of(embedding_text(example)) in ("Portuguese", "Spanish")
    if by_words:
        similarity = overlap(_case_signatures(memory), signatures([embedding_text(example)])[0])
    else:
        # Not `@`: it shares the work out among threads, and on a busy machine waits for the last of them, up to 30 ms.
        similarity = np.vecdot(memory.matrix, vector)
    floor = RELEVANT if embedded and not by_words and len(cases) >= CHOICE else -np.inf
    # Sorting all of a hundred thousand takes longer than comparing them: a few first, and all only where these ran out.
    # Cases are ordered by id, so a stable sort breaks every tie by id.
    shown = 0
    for reach in dict.fromkeys((min(AT_ONCE, len(cases)), len(cases))):
        least = max(float(np.partition(similarity, -reach)[-reach]), floor)
        near = np.flatnonzero(similarity >= least)
        order = near[np.argsort(-similarity[near], kind="stable")]
        for index in order[shown:]:
            yield cases[index], float(similarity[index])
        shown = len(order)


def _case_signatures(memory: Memory) -> NDArray[np.uint64]:
    return cached(memory, "signatures", lambda: signatures([embedding_text(case.example) for case in memory.cases]))


# -- by words ----------------------------------------------------------------------------------------------------------
# A text's signature is the set of four-letter sequences of its words, accents and case left out, hashed to 4,096 bits.
# Inflected forms share most of theirs (cobrado, cobrança), and no dictionary or stemmer is needed: four letters are
# what retrieval in European languages does best with (McNamee and Mayfield 2004, doi
# 10.1023/B:INRT.0000009441.78971.be).

GRAM = 4
BITS = 4096
ROWS = 256  # texts in one pass: what it makes of them still fits the processor's cache, and a pass costs little
MOST_CHARACTERS = 2000  # with more, most bits would be set and every text would resemble every other
_SPACE, _LETTER, _MARK = 0, 1, 2


def overlap(known: NDArray[np.uint64], new: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Cosine in [0, 1] of every signature of `known`, of shape (texts, 64), to `new`, of shape (64,).

    A text without a single word is like nothing: 0.
    """
    import numpy as np

    shared = np.bitwise_count(known & new).sum(axis=1, dtype=np.float32)
    sizes = np.bitwise_count(known).sum(axis=1, dtype=np.float32)
    lengths = np.sqrt(sizes * np.float32(np.bitwise_count(new).sum()))
    cosine: NDArray[np.float32] = np.divide(shared, lengths, out=np.zeros_like(shared), where=lengths > 0)
    return cosine


def signatures(texts: Sequence[str]) -> NDArray[np.uint64]:
    """The texts' signatures, of shape (texts, 64): 4,096 bits each.

    Texts above 2,000 characters count with their first and last 1,000.
    """
    import numpy as np

    packed = np.zeros((len(texts), BITS // 8), dtype=np.uint8)
    for first in range(0, len(texts), ROWS):
        some = texts[first : first + ROWS]
        spread = np.zeros((len(some), BITS), dtype=np.bool_)
        spread[_grams(some)] = True
        packed[first : first + ROWS] = np.packbits(spread, axis=1)
    return packed.view(np.uint64)


def _grams(texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """The row and the bit of every four-letter sequence: all texts in one pass, many times faster than one by one."""
    import numpy as np

    end, space = "\0", np.uint32(ord(" "))
    joined = end.join(["", *(_ends(text).replace(end, " ") for text in texts), ""])
    letters = np.frombuffer(
        unicodedata.normalize("NFKD", joined.casefold()).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
    )
    kind = _characters()[np.minimum(letters, 0xFFFF)]
    kept = kind != _MARK  # accents go without a gap
    letters, kind = letters[kept], kind[kept]
    row = np.cumsum(letters == 0, dtype=np.int32) - 1
    letters = np.where(kind == _LETTER, letters, space)
    # Of several spaces one stays: a word is its letters between two spaces.
    kept = np.ones(len(letters), dtype=np.bool_)
    kept[1:] = (letters[1:] != space) | (letters[:-1] != space) | (row[1:] != row[:-1])
    letters, row = letters[kept], row[kept]
    count = len(letters) - GRAM + 1
    if count <= 0:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint32)
    hashed = letters[:count].copy()
    whole = np.ones(count, dtype=np.bool_)
    for offset in range(1, GRAM):
        letter = letters[offset : offset + count]
        hashed = (hashed * np.uint32(0x9E3779B1)) ^ letter
        if offset < GRAM - 1:
            whole &= letter != space  # a space may begin or end a sequence: " de ", "obra", "nça "
    hashed ^= hashed >> np.uint32(15)
    bit = (hashed * np.uint32(0x85EBCA77)) >> np.uint32(32 - (BITS - 1).bit_length())
    return row[1 : count + 1][whole], bit[whole]


@cache
def _characters() -> NDArray[np.uint8]:
    """What each character of the basic plane is: a letter or digit, a combining mark, or something between words."""
    import numpy as np

    kinds = np.zeros(0x10000, dtype=np.uint8)
    for code in range(0x10000):
        character = chr(code)
        if character.isalnum():
            kinds[code] = _LETTER
        elif unicodedata.combining(character):
            kinds[code] = _MARK
    return kinds


def _ends(text: str) -> str:
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} {text[-half:]}"
