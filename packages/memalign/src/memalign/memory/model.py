"""Memory: everything a judge has learned, as one immutable value.

Episodic memory is the cases, each with every annotation on it and the judge's own verdict before
learning (its pre-alignment verdict). Semantic memory is the guidelines, each with the feedback that
it was exposed to. Withdrawn feedback leaves only its key behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.errors import UnknownKey
from memalign.keys import same_person, select_keys
from memalign.memory.label_policy import policy_label
from memalign.memory.status import (
    GuidelineStatus,
    LedgerEntry,
    ledger_entries,
    successors,
)
from memalign.memory.text_search import Finder
from memalign.types import (
    CodeTest,
    Example,
    Feedback,
    FeedbackKey,
    Guideline,
    canonical_json,
)
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

_NO_FEEDBACK = (
    "no feedback{}; `memalign show NAME --ledger` "
    "(in Python: judge.memory.ledger()) lists every key"
)

replace = msgspec.structs.replace


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the last distillation call for a piece of feedback, beside its guidelines.

    Attributes:
        kind: `learned`: the model drew nothing from it, and its case is all there is to learn.
            `rejected`: its only rule may not enter a prompt. `pending`: there was no answer, or
            what it taught is gone. `taught`: there is a remark on its rule.
        reason: Why. It repeats nobody's words.
        exposed_to: The feedback that the call saw; when one of them goes, so does the outcome.
            Empty for a remark.
    """

    kind: Literal["learned", "rejected", "pending", "taught"]
    reason: str = ""
    exposed_to: tuple[FeedbackKey, ...] = ()


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """One person's feedback on one case, and its last outcome. Its state is in the ledger."""

    id: str
    source: str
    value: Value | None = None
    rationale: str | None = None
    created_at: str | None = None
    meta: dict[str, Any] = {}
    outcome: Outcome | None = None

    @classmethod
    def of(cls, feedback: Feedback) -> Annotation:
        """Return a new annotation whose lesson is still to be learned."""
        rationale = (feedback.rationale or "").strip()
        return cls(
            id=feedback.id,
            source=feedback.source,
            value=feedback.value,
            rationale=rationale or None,
            created_at=feedback.created_at,
            meta=feedback.meta,
        )

    @property
    def key(self) -> FeedbackKey:
        """Its identity."""
        return FeedbackKey(self.id, self.source)

    def says(self, feedback: Feedback) -> bool:
        """Return whether `feedback` says just the same; a new time alone is nothing new."""
        other = Annotation.of(feedback)
        return self.value == other.value and self.rationale == other.rationale


class PreAlignmentVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said of a case before its experts did.

    Attributes:
        value: The verdict.
        judge: The judge's fingerprint without memory.
        rationale: Its reason.
        exposed_to: The feedback that the judge had in view; when one of them goes, so does the
            verdict.
    """

    value: Value
    judge: str
    rationale: str | None = None
    exposed_to: tuple[FeedbackKey, ...] = ()


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One case: the example, all annotations on it, the judge's verdict, its float32 embedding."""

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
        """The part of the memory's hash that stands for this case."""
        said = []
        for each in self.annotations:
            outcome = each.outcome
            # Once it is settled no guideline is missing, until something changes.
            settled = outcome is not None and outcome.kind in ("learned", "rejected")
            fields = [
                each.source,
                each.value,
                each.rationale,
                each.created_at,
                settled,
            ]
            said.append(fields)
        verdict = msgspec.to_builtins(self.pre_alignment)
        return canonical_json([self.id, self.example.content_hash, said, verdict])


class FeedbackConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback that contradicts other feedback, as a distillation saw it.

    Attributes:
        feedback: The keys, two or more.
        about: What the conflict is about, in the model's words. Empty once a person dismissed the
            conflict; it is kept so that no later distillation brings it back.
        exposed_to: The feedback whose words were in the prompt; when one of them goes, so does the
            conflict.
        dismissed_by: The person who says that there is no conflict.
    """

    feedback: tuple[FeedbackKey, ...]
    about: str = ""
    exposed_to: tuple[FeedbackKey, ...] = ()
    dismissed_by: str | None = None


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What remains of feedback that was taken back: its key, and no word."""

    key: FeedbackKey
    state: Literal["withdrawn", "erased"] = "withdrawn"


class Guidelines(tuple[Guideline, ...]):
    """Guidelines that print as people read them, one on each line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no guidelines"


class Memory(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Episodic and semantic memory and what is pending; immutable, with a content hash.

    Attributes:
        cases: The cases, by id.
        guidelines: All guidelines, in force or not, by number.
        conflicts: Comments that contradict each other.
        tombstones: The keys of feedback that was taken back.
        locks: The ids of cases that no later align may break.
        next_guideline: The number of the next guideline.
        authority: The sources whose label decides where people differ, first one first.
        embedding_model: The name of the model that made the cases' vectors.
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
        """The guidelines in force, in the order of prompts; they print line by line."""
        return Guidelines(
            guideline
            for guideline in self.guidelines
            if self.status(guideline) == "active"
        )

    @cached_property
    def tests(self) -> tuple[tuple[Guideline, CodeTest], ...]:
        """The tests of the guidelines in force, each with its guideline."""
        pairs = []
        for guideline in self.semantic:
            for test in guideline.tests:
                pairs.append((guideline, test))
        return tuple(pairs)

    @property
    def episodic(self) -> tuple[Case, ...]:
        """The cases that experts reviewed, by id."""
        return self.cases

    def __len__(self) -> int:
        """How many pieces of feedback are in memory, whatever their state."""
        return sum(len(case.annotations) for case in self.cases)

    def __bool__(self) -> bool:
        return bool(self.cases or self.guidelines)

    def __repr__(self) -> str:
        guidelines = (
            f"{len(self.semantic)} of {len(self.guidelines)} guidelines in force"
        )
        return (
            f"<Memory: {guidelines}, {len(self.cases)} cases, "
            f"{len(self.pending)} pending, hash {self.hash}>"
        )

    # -- cases and annotations -------------------------------------------------------------------

    def case(self, example_id: str) -> Case | None:
        """Return the case of that id, or None."""
        return self._cases_by_id.get(example_id)

    def duplicates(self, example: Example) -> tuple[Case, ...]:
        """Return the cases of the same content as `example`, by id."""
        return tuple(self._cases_by_content.get(example.content_hash, ()))

    def annotations_on(self, case: Case) -> tuple[Annotation, ...]:
        """Return all annotations on the case's content, under whatever id."""
        said: list[Annotation] = []
        for same in self.duplicates(case.example):
            said.extend(same.annotations)
        return tuple(said)

    def label(self, case: Case) -> Value | None:
        """Return the case's effective label; None when there are only comments, and for a tie."""
        return policy_label(self.annotations_on(case), self.authority)

    def has_label(self, example_id: str) -> bool:
        """Return whether there is a case of that id, with an effective label."""
        case = self.case(example_id)
        if case is None:
            return False
        return self.label(case) is not None

    def annotations(self) -> Iterator[Annotation]:
        """Yield every annotation, in canonical order: by id, then by source."""
        for case in self.cases:
            yield from case.annotations

    def annotation(self, key: FeedbackKey) -> Annotation | None:
        """Return the annotation of that key, or None."""
        return self._annotations_by_key.get(key)

    def record(self, key: FeedbackKey) -> tuple[Annotation, Case]:
        """Return the annotation of that key, with its case. Raises KeyError if there is none."""
        annotation = self._annotations_by_key[key]
        case = self._cases_by_id[key.id]
        return annotation, case

    def keys(
        self, *selectors: str | FeedbackKey, source: str | None = None
    ) -> tuple[FeedbackKey, ...]:
        """Return the keys of the feedback that is selected.

        Args:
            selectors: `t-17` for all annotations on a case, `t-17@ana` for one.
            source: Only feedback of this person; without selectors, all of it.

        Raises:
            UnknownKey: A selector names nothing here, or several things, or nothing is selected.
        """
        if not selectors and source is None:
            raise UnknownKey(
                "name feedback by id (t-17), by key (t-17@ana) or by source"
            )
        keys = []
        for said in self.annotations():
            if source is None or same_person(source, said.source):
                keys.append(said.key)
        named = select_keys(keys, selectors) or {"": tuple(keys)}
        found = {}
        for selector, its_keys in named.items():
            if not its_keys:
                what = f" {str(selector)!r}" if selector else ""
                if source is not None:
                    what += f" of source {source!r}"
                raise UnknownKey(_NO_FEEDBACK.format(what))
            found.update(dict.fromkeys(its_keys))
        return tuple(found)

    def matching(
        self, text: str, *, source: str | None = None
    ) -> tuple[FeedbackKey, ...]:
        """Return the keys of the feedback whose case or words hold a text, in any spelling.

        Args:
            text: The text to look for.
            source: Only feedback of this person.
        """
        finder = Finder(text)
        found = []
        for case in self.cases:
            example = case.example
            holds = finder.within([example.meta, *example.content.values()])
            for said in case.annotations:
                if source is None or same_person(source, said.source):
                    words = [said.id, said.value, said.rationale, said.meta]
                    if holds or finder.within(words):
                        found.append(said.key)
        return tuple(found)

    # -- guidelines and conflicts ----------------------------------------------------------------

    def guideline(self, guideline_id: str) -> Guideline:
        """Return the guideline of that id, whatever its status. Raises UnknownKey."""
        known = self._guidelines_by_id
        if guideline_id in known:
            return known[guideline_id]
        ids = ", ".join(known) or "none"
        raise UnknownKey(f"no guideline {guideline_id!r}; guidelines: {ids}")

    def sources_of(self, guideline: Guideline) -> tuple[FeedbackKey, ...]:
        """Return the keys that support the guideline, or one that it supersedes."""
        return self.sources.get(guideline.id, guideline.supported_by)

    def status(self, guideline: Guideline) -> GuidelineStatus:
        """Return `active`, `superseded`, or `retired` if a person took it out of force."""
        if guideline.retired_by is not None:
            return "retired"
        if guideline.id in self._successors:
            return "superseded"
        return "active"

    def successor(self, guideline: Guideline) -> str | None:
        """Return the id of the guideline that supersedes this one, or None."""
        return self._successors.get(guideline.id)

    @property
    def open_conflicts(self) -> tuple[FeedbackConflict, ...]:
        """The comments that contradict each other, unless somebody dismissed the conflict."""
        return tuple(
            conflict for conflict in self.conflicts if conflict.dismissed_by is None
        )

    def exposure(self, example_ids: Iterable[str] = ()) -> frozenset[FeedbackKey]:
        """Return all feedback behind the guidelines in force, and on the content of these cases."""
        keys: set[FeedbackKey] = set()
        for guideline in self.semantic:
            keys.update(guideline.exposed_to)
            keys.update(guideline.supported_by)
        for name in example_ids:
            case = self.case(name)
            if case is not None:
                for said in self.annotations_on(case):
                    keys.add(said.key)
        return frozenset(keys)

    # -- the ledger ------------------------------------------------------------------------------

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Return every piece of feedback that this memory ever held, and where it ended."""
        return tuple(self._entries.values())

    @cached_property
    def pending(self) -> tuple[Annotation, ...]:
        """The annotations that wait for a distillation."""
        return tuple(
            annotation
            for annotation in self.annotations()
            if self._entries[annotation.key].state == "pending"
        )

    # -- changed copies --------------------------------------------------------------------------

    def with_guidelines(self, guidelines: Iterable[Guideline]) -> Memory:
        """Return a memory with these guidelines; each replaces the one of its id, or is added."""
        entries = dict(self._guidelines_by_id)
        following = self.next_guideline
        for guideline in guidelines:
            entries[guideline.id] = guideline
            after = guideline.number + 1
            following = max(following, after)
        return replace(
            self,
            guidelines=tuple(entries.values()),
            next_guideline=following,
        )

    def without_guidelines(self, ids: Collection[str]) -> Memory:
        """Return a memory without these guidelines; those they had replaced are active again."""
        rest = []
        for guideline in self.guidelines:
            if guideline.id in ids:
                continue
            if guideline.replaced_by in ids:
                rest.append(replace(guideline, replaced_by=None))
            else:
                rest.append(guideline)
        return replace(self, guidelines=tuple(rest))

    def with_cases(self, cases: Iterable[Case]) -> Memory:
        """Return a memory with these cases; each replaces the one of its id, or is added."""
        changed = {case.id: case for case in cases}
        if not changed:
            return self
        after = self._cases_by_id | changed
        ordered = [after[name] for name in sorted(after)]
        return replace(self, cases=tuple(ordered))

    def with_outcomes(self, outcomes: Mapping[FeedbackKey, Outcome | None]) -> Memory:
        """Return a memory with what a distillation made of the feedback of these keys."""
        cases = []
        for name in {key.id for key in outcomes}:
            case = self.case(name)
            if case is None:
                continue
            said = []
            for annotation in case.annotations:
                key = annotation.key
                outcome = outcomes.get(key, annotation.outcome)
                said.append(replace(annotation, outcome=outcome))
            cases.append(replace(case, annotations=tuple(said)))
        return self.with_cases(cases)

    def without_verdicts_after(self, keys: Set[FeedbackKey]) -> Memory:
        """Return a memory without verdicts of a judge that had this feedback in view."""
        cases = []
        for case in self.cases:
            verdict = case.pre_alignment
            if verdict is not None and not keys.isdisjoint(verdict.exposed_to):
                cases.append(replace(case, pre_alignment=None))
        return self.with_cases(cases)

    # -- derived ---------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """16 hex digits over all that can change a verdict or an align; reasons cannot."""
        rest = {
            "authority": self.authority,
            "embedding_model": self.embedding_model,
            "guidelines": msgspec.to_builtins(self.guidelines),
            "locks": self.locks,
        }
        cases = ",".join(case.hashed for case in self.cases)
        text = f"{canonical_json(rest)}[{cases}]"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    @cached_property
    def matrix(self) -> NDArray[np.float32]:
        """The cases' vectors as an array of shape (cases, d); zeros for a case without one."""
        import numpy as np  # numpy takes a quarter of a second; only retrieval needs it

        vectors = [case.vector or b"" for case in self.cases]
        longest = max(map(len, vectors), default=0)
        shape = (len(vectors), longest // 4)
        matrix = np.zeros(shape, dtype=np.float32)
        for row, vector in enumerate(vectors):
            if vector:
                matrix[row] = np.frombuffer(vector, dtype=np.float32)
        return matrix

    @cached_property
    def _cases_by_id(self) -> dict[str, Case]:
        return {case.id: case for case in self.cases}

    @cached_property
    def _cases_by_content(self) -> Mapping[str, list[Case]]:
        groups: dict[str, list[Case]] = {}
        for case in self.cases:
            content = case.example.content_hash
            groups.setdefault(content, []).append(case)
        return groups

    @cached_property
    def _annotations_by_key(self) -> Mapping[FeedbackKey, Annotation]:
        return {annotation.key: annotation for annotation in self.annotations()}

    @cached_property
    def _guidelines_by_id(self) -> Mapping[str, Guideline]:
        return {guideline.id: guideline for guideline in self.guidelines}

    @cached_property
    def _successors(self) -> Mapping[str, str]:
        return successors(self.guidelines)

    @cached_property
    def sources(self) -> Mapping[str, tuple[FeedbackKey, ...]]:
        """The keys that support each guideline, or one that it supersedes, by its id."""
        found = {each.id: list(each.supported_by) for each in self.guidelines}
        for guideline in self.guidelines:
            successor = self.successor(guideline)
            if successor is not None:
                found[successor] += guideline.supported_by
        return {name: tuple(dict.fromkeys(keys)) for name, keys in found.items()}

    @cached_property
    def _entries(self) -> Mapping[FeedbackKey, LedgerEntry]:
        return ledger_entries(self)
