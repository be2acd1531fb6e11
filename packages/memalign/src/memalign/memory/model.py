"""Memory: everything a judge has learned, as one immutable value.

Episodic memory is the cases, each with every annotation on it and the judge's own verdict before learning (its
pre-alignment verdict). Semantic memory is the guidelines, each with the feedback that it was exposed to. Withdrawn
feedback leaves only its key behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.errors import UnknownKey
from memalign.keys import same_person, select_keys
from memalign.memory.label_policy import policy_label
from memalign.memory.status import GuidelineStatus, LedgerEntry, Standing, ledger_entries, standings
from memalign.memory.text_search import Finder
from memalign.types import Example, Feedback, FeedbackKey, Guideline, canonical_json
from memalign.values import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Annotation",
    "Case",
    "FeedbackConflict",
    "Guidelines",
    "Memory",
    "Outcome",
    "PreAlignmentVerdict",
    "Tombstone",
]

replace = msgspec.structs.replace


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the last distillation call made of a piece of feedback, beside the guidelines that it supports.

    `example`: the model drew nothing from it, and its case is all there is to learn. `refused`: its only rule may not
    enter a prompt. `waiting`: no answer, or what it taught is gone. `taught`: there is a remark on its rule. The
    `reason` repeats nobody's words. But for a remark, `exposed_to` is the feedback that the call saw: with one of them
    the outcome goes.
    """

    kind: Literal["example", "refused", "waiting", "taught"]
    reason: str = ""
    exposed_to: tuple[FeedbackKey, ...] = ()


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """One person's feedback on one case, and what the last distillation made of it. Its state is in the ledger."""

    id: str
    source: str
    value: Value | None = None
    rationale: str | None = None
    created_at: str | None = None
    meta: dict[str, Any] = {}
    outcome: Outcome | None = None

    @classmethod
    def of(cls, feedback: Feedback) -> Annotation:
        """A new annotation whose lesson is still to be learned."""
        return cls(
            id=feedback.id,
            source=feedback.source,
            value=feedback.value,
            rationale=(feedback.rationale or "").strip() or None,
            created_at=feedback.created_at,
            meta=feedback.meta,
        )

    @property
    def key(self) -> FeedbackKey:
        """Its identity."""
        return FeedbackKey(self.id, self.source)

    @property
    def words(self) -> list[Any]:
        """All that may hold a text of the person, or of whom they speak of."""
        return [self.id, self.value, self.rationale, self.meta]

    def says(self, feedback: Feedback) -> bool:
        """Whether `feedback` says just the same; a new time alone is nothing new."""
        return (self.value, self.rationale) == (
            feedback.value,
            (feedback.rationale or "").strip() or None,
        )


class PreAlignmentVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge of a fingerprint said of a case before its experts did; it goes with any of `exposed_to`."""

    value: Value
    judge: str
    rationale: str | None = None
    exposed_to: tuple[FeedbackKey, ...] = ()


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One case of episodic memory: the example, all annotations on it, what judges said, and its float32 embedding."""

    example: Example
    annotations: tuple[Annotation, ...]
    pre_alignment: PreAlignmentVerdict | None = None
    vector: bytes | None = None

    @property
    def id(self) -> str:
        """The example's id."""
        return self.example.id

    @cached_property
    def hashed(self) -> str:
        """The case as the memory's hash has it."""
        settled = (
            "example",
            "refused",
        )  # for these no guideline is missing, until something changes
        annotations = [
            (
                a.source,
                a.value,
                a.rationale,
                a.created_at,
                a.outcome is not None and a.outcome.kind in settled,
            )
            for a in self.annotations
        ]
        verdict = msgspec.to_builtins(self.pre_alignment)
        return canonical_json([self.id, self.example.content_hash, annotations, verdict])


class FeedbackConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback (two keys or more) that contradicts other feedback, as a distillation saw it, and about what.

    With any of the feedback whose words were in the prompt, `exposed_to`, the remark goes. What a person dismissed
    stays without the model's words, so that no later distillation brings it back.
    """

    feedback: tuple[FeedbackKey, ...]
    about: str = ""
    exposed_to: tuple[FeedbackKey, ...] = ()
    dismissed_by: str | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What remains of feedback that was taken back: its key, no word of it."""

    key: FeedbackKey
    state: Literal["withdrawn", "erased"] = "withdrawn"
    reason: str = ""


class Guidelines(tuple[Guideline, ...]):
    """Guidelines that print as people read them: one a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no guidelines"


class Memory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Episodic and semantic memory and what is pending; immutable, with a content hash.

    `cases` are ordered by id, `guidelines` (in force or not) by number. `locks` are the ids of cases that no later
    align may break. `authority` are the sources whose label decides where people differ, first one first.
    `embedding_model` names the model of the cases' vectors.
    """

    cases: tuple[Case, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    conflicts: tuple[FeedbackConflict, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    locks: tuple[str, ...] = ()
    next_guideline: int = 1
    authority: tuple[str, ...] = ()
    embedding_model: str | None = None

    @cached_property
    def semantic(self) -> tuple[Guideline, ...]:
        """The guidelines in force, in the order in which prompts show them; printed, they are a line each."""
        return Guidelines(
            guideline for guideline in self.guidelines if self.status(guideline) == "active"
        )

    @property
    def episodic(self) -> tuple[Case, ...]:
        """The cases that experts spoke about, by id."""
        return self.cases

    def __len__(self) -> int:
        """How many pieces of feedback are in memory, whatever their state."""
        return sum(len(case.annotations) for case in self.cases)

    def __bool__(self) -> bool:
        return bool(self.cases or self.guidelines)

    @cached_property
    def _cases_by_id(self) -> Mapping[str, Case]:
        return {case.id: case for case in self.cases}

    @cached_property
    def _cases_by_content(self) -> Mapping[str, list[Case]]:
        groups: dict[str, list[Case]] = {}
        for case in self.cases:
            groups.setdefault(case.example.content_hash, []).append(case)
        return groups

    def case(self, example_id: str) -> Case | None:
        """The case of that id, or None."""
        return self._cases_by_id.get(example_id)

    def duplicates(self, example: Example) -> tuple[Case, ...]:
        """The cases of the same content as `example`, by id."""
        return tuple(self._cases_by_content.get(example.content_hash, ()))

    def annotations_on(self, case: Case) -> tuple[Annotation, ...]:
        """All annotations on the case's content: identical content under two ids is one case."""
        return tuple(
            annotation for same in self.duplicates(case.example) for annotation in same.annotations
        )

    def label(self, case: Case) -> Value | None:
        """The case's effective label; None when there are only comments, and for a tie."""
        return policy_label(self.annotations_on(case), self.authority)

    @property
    def open_conflicts(self) -> tuple[FeedbackConflict, ...]:
        """The comments that contradict each other, as long as nobody withdrew one or dismissed the conflict."""
        return tuple(conflict for conflict in self.conflicts if conflict.dismissed_by is None)

    def annotations(self) -> Iterator[Annotation]:
        """Every annotation, in canonical order: by id, then by source."""
        for case in self.cases:
            yield from case.annotations

    @cached_property
    def _annotations_by_key(self) -> Mapping[FeedbackKey, Annotation]:
        return {annotation.key: annotation for annotation in self.annotations()}

    def annotation(self, key: FeedbackKey) -> Annotation | None:
        """The annotation of that key, or None."""
        return self._annotations_by_key.get(key)

    def exposure(self, example_ids: Iterable[str] = ()) -> frozenset[FeedbackKey]:
        """All feedback whose words a prompt may hold: behind the guidelines in force, and on these cases."""
        ids = frozenset(example_ids)
        guidelines = (
            key
            for guideline in self.semantic
            for key in (*guideline.exposed_to, *guideline.supported_by)
        )
        return frozenset(
            (
                *guidelines,
                *(annotation.key for annotation in self.annotations() if annotation.id in ids),
            )
        )

    def record(self, key: FeedbackKey) -> tuple[Annotation, Case]:
        """The annotation of that key, with its case. Raises KeyError where there is none."""
        return self._annotations_by_key[key], self._cases_by_id[key.id]

    def keys(
        self, *selectors: str | FeedbackKey, source: str | None = None
    ) -> tuple[FeedbackKey, ...]:
        """The keys that `selectors` name: `t-17` all annotations on t-17, `t-17@ana` one; all of `source` when given.

        With both, both must match. Raises UnknownKey for a selector that names nothing here, or several things.
        """
        keys = [
            a.key for a in self.annotations() if source is None or same_person(source, a.source)
        ]
        if not selectors and source is None:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        chosen = select_keys(keys, selectors) if selectors else {"": keys}
        for selector, named in chosen.items():
            if not named:
                what = f" {str(selector)!r}" if selectors else ""
                where = f" of source {source!r}" if source is not None else ""
                raise UnknownKey(
                    f"no feedback{what}{where}; `memalign show NAME --ledger` lists every key"
                )
        return tuple(dict.fromkeys(key for named in chosen.values() for key in named))

    def matching(self, text: str, *, source: str | None = None) -> tuple[FeedbackKey, ...]:
        """The keys of the feedback (of `source`) whose case or words hold `text`, whatever its case or accents."""
        finder = Finder(text)
        cases = {
            c.id for c in self.cases if finder.within([c.example.meta, *c.example.content.values()])
        }
        wanted = (a for a in self.annotations() if source is None or same_person(source, a.source))
        return tuple(a.key for a in wanted if a.id in cases or finder.within(a.words))

    @cached_property
    def _guidelines_by_id(self) -> Mapping[str, Guideline]:
        return {guideline.id: guideline for guideline in self.guidelines}

    def guideline(self, guideline_id: str) -> Guideline:
        """The guideline of that id, whatever its status. Raises UnknownKey."""
        try:
            return self._guidelines_by_id[guideline_id]
        except KeyError:
            ids = ", ".join(self._guidelines_by_id) or "none"
            raise UnknownKey(f"no guideline {guideline_id!r}; guidelines: {ids}") from None

    def sources_of(self, guideline: Guideline) -> tuple[FeedbackKey, ...]:
        """Every key that the guideline, or one that says the same and stands behind it, is supported by."""
        behind = [other for other in self.guidelines if self.successor(other) == guideline.id]
        return tuple(
            dict.fromkeys(key for member in (guideline, *behind) for key in member.supported_by)
        )

    @cached_property
    def _standings(self) -> Mapping[str, Standing]:
        return standings(self.guidelines)

    def status(self, guideline: Guideline) -> GuidelineStatus:
        """Whether it is in force: `active`, `superseded`, or `retired` by a person."""
        return self._standings[guideline.id].status

    def successor(self, guideline: Guideline) -> str | None:
        """The id of the guideline that is shown instead of a superseded one; None for others."""
        return self._standings[guideline.id].successor

    def face(self, guideline: Guideline) -> Guideline:
        """The guideline that stands for it in the end: itself, or the last of its successors."""
        while (
            successor := self.successor(guideline)
        ) is not None:  # ends: a newer one, or one that is shown itself
            guideline = self.guideline(successor)
        return guideline

    @cached_property
    def _entries(self) -> Mapping[FeedbackKey, LedgerEntry]:
        return ledger_entries(self)

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every piece of feedback that this memory ever held, and where it ended."""
        return tuple(self._entries.values())

    @cached_property
    def pending(self) -> tuple[Annotation, ...]:
        """The annotations that wait for a distillation."""
        return tuple(a for a in self.annotations() if self._entries[a.key].state == "pending")

    def with_guidelines(self, guidelines: Iterable[Guideline]) -> Memory:
        """This memory with these guidelines, each in the place of the one of its id, or behind all others."""
        changed = {guideline.id: guideline for guideline in guidelines}
        number = (
            max((self.next_guideline - 1, *(guideline.number for guideline in changed.values())))
            + 1
        )
        before = [changed.pop(guideline.id, guideline) for guideline in self.guidelines]
        return replace(self, guidelines=(*before, *changed.values()), next_guideline=number)

    def with_annotations(self, annotations: Iterable[Annotation]) -> Memory:
        """This memory with these annotations, each in the place of the one of its key; other cases stay as they are."""
        changed = {annotation.key: annotation for annotation in annotations}
        touched = {key.id for key in changed}
        cases = tuple(
            replace(case, annotations=tuple(changed.get(a.key, a) for a in case.annotations))
            if case.id in touched
            else case
            for case in self.cases
        )
        return replace(self, cases=cases) if changed else self

    def with_outcomes(self, outcomes: Mapping[FeedbackKey, Outcome | None]) -> Memory:
        """This memory with what a distillation made of the feedback of these keys."""
        annotations = (annotation for key in outcomes if (annotation := self.annotation(key)))
        return self.with_annotations(replace(a, outcome=outcomes[a.key]) for a in annotations)

    def without_guidelines(self, ids: Collection[str]) -> Memory:
        """This memory without the guidelines of these ids; what they had replaced steps in."""
        rest = (guideline for guideline in self.guidelines if guideline.id not in ids)
        guidelines = tuple(
            replace(g, replaced_by=None) if g.replaced_by in ids else g for g in rest
        )
        return replace(self, guidelines=guidelines)

    def without_verdicts_beside(self, ids: Collection[str]) -> Memory:
        """This memory without the judge's own verdicts that were given with feedback on one of these cases in view."""
        gone = frozenset(ids)

        def beside(verdict: PreAlignmentVerdict | None) -> bool:
            return verdict is not None and any(key.id in gone for key in verdict.exposed_to)

        cases = (
            replace(c, pre_alignment=None) if beside(c.pre_alignment) else c for c in self.cases
        )
        return replace(self, cases=tuple(cases)) if gone else self

    @cached_property
    def hash(self) -> str:
        """16 hex digits over all that can change a verdict or a later alignment: no vectors, reasons and tombstones."""
        rest = {
            "authority": self.authority,
            "embedding_model": self.embedding_model,
            "guidelines": msgspec.to_builtins(self.guidelines),
            "locks": self.locks,
        }
        text = f"{canonical_json(rest)}[{','.join(case.hashed for case in self.cases)}]"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @cached_property
    def matrix(self) -> NDArray[np.float32]:
        """The cases' vectors as one array of shape (cases, d); a case without a vector is all zeros."""
        import numpy as np  # numpy takes a quarter of a second; only retrieval needs it

        width = max((len(case.vector or b"") for case in self.cases), default=0) // 4
        matrix = np.zeros((len(self.cases), width), dtype=np.float32)
        for row, case in enumerate(self.cases):
            if case.vector:
                matrix[row] = np.frombuffer(case.vector, dtype=np.float32)
        return matrix

    def __repr__(self) -> str:
        guidelines = f"{len(self.semantic)} of {len(self.guidelines)} guidelines in force"
        return f"<Memory: {guidelines}, {len(self.cases)} cases, {len(self.pending)} pending, hash {self.hash}>"
