"""The plain values of memalign: Example, Feedback, Guideline, Judgment, Usage.

All are frozen; "changing" one makes a new one (`msgspec.structs.replace`). Content fields hold any
JSON value.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, Generic, Literal, NoReturn, Self

import msgspec

from memalign.content.json_values import Fault, plain, plain_content
from memalign.content.normal import whole_text
from memalign.content.walk import rebuilt
from memalign.errors import InputError
from memalign.keys import FeedbackKey
from memalign.values import Value, ValueT_co

__all__ = [
    "CONTENT_FIELDS",
    "CodeTest",
    "Example",
    "Feedback",
    "FeedbackKey",
    "Finding",
    "Guideline",
    "Judgment",
    "LedgerState",
    "Usage",
    "as_json",
    "canonical_json",
    "json_line",
]

CONTENT_FIELDS = ("inputs", "outputs", "expectations", "conversation", "trace")
"""The fields of an Example that instructions may name, in the order in which prompts show them."""

UNKNOWN_SOURCE = "unknown"

LedgerState = Literal[
    "learned", "merged", "pending", "disputed", "rejected", "withdrawn", "erased"
]


def canonical_json(value: object) -> str:
    """Return JSON text that is the same for equal values: sorted keys, no spaces, plain letters.

    Raises InputError for what JSON cannot hold (NaN and infinity included).
    """
    try:
        return json.dumps(
            value,
            sort_keys=True,
            ensure_ascii=False,
            separators=(",", ":"),
            allow_nan=False,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"not a JSON value: {error}") from None


def json_line(value: object) -> bytes:
    """Return one line of JSON in UTF-8, as a file keeps it.

    A model may end its words in half a surrogate pair, which UTF-8 cannot hold: it becomes a
    replacement character.
    """
    try:
        return msgspec.json.encode(value) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return whole_text(text).encode() + b"\n"


def as_json(value: object) -> Any:
    """Return JSON values for readers: keys of feedback as written, values of ours as objects."""
    if isinstance(value, FeedbackKey):
        return str(value)
    if isinstance(value, Mapping):
        return {as_json(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(part) for part in value]
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif dataclasses.is_dataclass(value):
        names = tuple(field.name for field in dataclasses.fields(value))
    else:
        return value
    return {name: as_json(getattr(value, name)) for name in names}


class PlainStruct(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value with named fields of plain data; also a type for Pydantic and FastAPI."""

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; a feedback key is a list of id and source, as in files."""
        return dict(rebuilt(msgspec.to_builtins(self), str))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Make the value of `to_dict`'s fields; unknown ones are left out.

        Raises:
            msgspec.ValidationError: A field is missing or of another type; a ValueError.
        """
        return msgspec.convert(fields, cls)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Tell pydantic to read and write as `from_dict` and `to_dict` do."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls.from_dict(value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe an object for OpenAPI; its fields are listed in docs/reference/formats.md."""
        return {"type": "object", "title": cls.__name__}


class _Content(PlainStruct, frozen=True, kw_only=True, dict=True):
    """Fields shared by Example and Feedback: an id and what was judged."""

    id: str
    inputs: Any = None
    outputs: Any = None
    expectations: Any = None
    conversation: Any = None
    trace: Any = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict)

    def _clean(self) -> None:
        """Turn every field into what JSON has, once for all ways in; `faults` has the rest.

        A text that is a JSON object or array is opened: a file of texts cannot say it otherwise,
        and the same content must be the same case, whichever way it comes in.
        """
        faults: list[Fault] = []
        for name in CONTENT_FIELDS:
            value = getattr(self, name)
            if value is not None:
                value = plain_content(value, name, faults)
                msgspec.structs.force_setattr(self, name, value)
        if not isinstance(self.meta, Mapping):
            raise InputError("meta must be a JSON object")
        meta: dict[str, Any] = {}
        for key, value in self.meta.items():
            name = whole_text(str(key))
            read = plain(value, name, faults)
            if read is not None or value is None:
                meta[name] = read
        msgspec.structs.force_setattr(self, "meta", meta)
        if faults:
            self.__dict__["faults"] = tuple(faults)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Parts of the fields and of `meta` that JSON cannot hold, such as a picture.

        What the judge reads must have none; others stop nothing.
        """
        found: tuple[Fault, ...] = self.__dict__.get("faults", ())
        return found

    def _check_id(self) -> None:
        if isinstance(self.id, str):
            msgspec.structs.force_setattr(self, "id", whole_text(self.id))
        if not _is_line(self.id):
            raise InputError("id is missing, or is not one line of text")

    @property
    def content(self) -> dict[str, Any]:
        """The content fields that are present, in prompt order."""
        content: dict[str, Any] = {}
        for name in CONTENT_FIELDS:
            value = getattr(self, name)
            if value is not None:
                content[name] = value
        return content

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 (64 hex digits) of the content fields, the same for equal content of any id."""
        written = canonical_json(self.content)
        return hashlib.sha256(written.encode()).hexdigest()


def _is_line(text: object) -> bool:
    """Return whether this is one line of text that is not empty."""
    if not isinstance(text, str) or not text.strip():
        return False
    return re.search(r"[\n\r\x00]", text) is None


class Example(_Content, frozen=True, kw_only=True):
    """One case: what a judge is asked about.

    Only `id` and one content field are required. `inputs`, `outputs` and `expectations` (a
    reference) are any JSON value; `conversation` is a list of turns; `trace` is text or JSON. A
    text that is a JSON object or array is that object or array. `meta` is carried along and never
    judged.
    """

    def __post_init__(self) -> None:
        self._check_id()
        self._clean()
        if not self.content:
            for fault in self.faults:
                if fault.steps[0] in CONTENT_FIELDS:
                    raise InputError(f"{self.id}: {fault}")
            fields = ", ".join(CONTENT_FIELDS)
            raise InputError(
                f"example {self.id!r} has no content; one of {fields} is required"
            )


NOTHING_SAID = "a row needs a value, a rationale or both"


class Feedback(_Content, frozen=True, kw_only=True):
    """What one person said of one case, with the case's own fields beside it (rows are flat).

    `value` is their label and `rationale` their words; at least one is there. `source` says who,
    `created_at` when (ISO 8601; a time without a zone is UTC). Content fields may be left out when
    the judge knows the case already.
    """

    value: Value | None = None
    rationale: str | None = None
    source: str = UNKNOWN_SOURCE
    created_at: str | None = None

    def __post_init__(self) -> None:
        self._check_id()
        self._clean()
        for name in ("value", "rationale", "source"):
            value = plain(getattr(self, name), name)
            msgspec.structs.force_setattr(self, name, value)
        if not _is_line(self.source):
            raise InputError(
                f"source {self.source!r} must be one line of text; leave it out if it is unknown"
            )
        if self.rationale is not None and not isinstance(self.rationale, str):
            raise InputError("rationale must be text")
        if self.value is None and not (self.rationale or "").strip():
            raise InputError(NOTHING_SAID)
        if self.created_at is not None:
            msgspec.structs.force_setattr(self, "created_at", _utc(self.created_at))

    @property
    def key(self) -> FeedbackKey:
        """The identity of this piece of feedback."""
        return FeedbackKey(self.id, self.source)

    @property
    def example(self) -> Example | None:
        """The case, or None when the row gives no content field."""
        if not self.content:
            return None
        return Example(id=self.id, **self.content, meta=self.meta)


_YEAR_FIRST = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(.*)", re.DOTALL)
_ZONE = re.compile(r" ?(?:UTC|GMT|Z)$| (?=[+-]\d\d:?(?:\d\d)?$)", re.IGNORECASE)
_EPOCHS = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}
"""How many digits the present time since 1970 has, in seconds and in parts of one."""


def _utc(moment: object) -> str:
    """Return a time in UTC as ISO 8601, however files write it. Raises InputError."""
    try:
        if not isinstance(moment, datetime):
            moment = _parsed_time(moment)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        shown = str(moment)[:60]
        raise InputError(
            f"created_at {shown!r} is not a time in ISO 8601, "
            "for example 2026-03-01T12:00:00Z"
        ) from None


def _parsed_time(moment: object) -> datetime:
    """Return the time of a text, a date or a number of seconds since 1970. Raises ValueError."""
    text = str(moment).strip()
    whole = text.partition(".")[0]
    parts = _EPOCHS.get(len(whole))
    if parts and whole.isdecimal():
        seconds = float(text) / parts
        return datetime.fromtimestamp(seconds, UTC)
    if text.isdecimal() and len(text) != 8:
        raise ValueError("a year, or nothing that anybody can tell")
    text = text.partition("[")[0]  # Java adds the zone's name
    found = _YEAR_FIRST.fullmatch(text)
    if found:
        year, month, day, clock = found.groups()
        clock = _ZONE.sub("", clock)
        text = f"{year}-{month:0>2}-{day:0>2}{clock}"
    elif "," in text:
        return parsedate_to_datetime(text)  # as mails and web servers write it
    return datetime.fromisoformat(text)


TestKind = Literal["contains", "word", "starts", "ends", "shape", "length", "number"]


class CodeTest(PlainStruct, frozen=True, kw_only=True):
    """A literal and how it must occur in an item, read without a model; never a pattern.

    Attributes:
        kind: `contains`, `word`, `starts`, `ends`: the field has `text` somewhere, as whole words,
            at its beginning, at its end. `shape`: a piece of the form of `text`, such as `KD/4821`.
            `length`: its number of words. `number`: a number with `text` beside it as its unit.
        field: The field, or the part of it, as the instructions of a judge name it.
        text: The literal.
        low: The least of `length` and `number`; None without a bound.
        high: The most of them; None without a bound.
        holds: Whether it holds for the items that the guideline's feedback is about.
        value: The label that experts gave to those items.
    """

    kind: TestKind
    field: str = "outputs"
    text: str = ""
    low: float | None = None
    high: float | None = None
    holds: bool = True
    value: Value | None = None


class Guideline(PlainStruct, frozen=True, kw_only=True, dict=True):
    """One rule for the judge, its tests, and where it comes from. Its memory says if it stands.

    Attributes:
        id: G1, G2, … and never reused.
        text: The rule, in one line.
        supported_by: The keys of the feedback that it states.
        exposed_to: The keys of every feedback whose words were in the prompt that wrote it, a
            superset.
        origin: `distilled`, or the name of the person who wrote or edited it.
        pinned_by: The person who confirmed it: it is shown before others, and no model changes it.
        replaced_by: The guideline that took its place: a revision, or other words of a person.
        retired_by: The person who took it out of force.
        tests: What code can decide of it, as far as labels bear it out.
        ruled_by: The person who confirmed for every item that code may decide by it.
        unruled_by: The person who said that code may not.
    """

    id: str
    text: str
    supported_by: tuple[FeedbackKey, ...] = ()
    exposed_to: tuple[FeedbackKey, ...] = ()
    origin: str = "distilled"
    pinned_by: str | None = None
    replaced_by: str | None = None
    retired_by: str | None = None
    tests: tuple[CodeTest, ...] = ()
    ruled_by: str | None = None
    unruled_by: str | None = None

    @cached_property
    def exposure(self) -> frozenset[FeedbackKey]:
        """The keys of `exposed_to`, to look one up."""
        return frozenset(self.exposed_to)

    @property
    def number(self) -> int:
        """The n of `Gn`; shown in this order, a new version extends its predecessor's prefix."""
        return int(self.id[1:])

    @property
    def pinned(self) -> bool:
        """True if a person confirmed it."""
        return self.pinned_by is not None

    @property
    def people(self) -> frozenset[str]:
        """Whose wording it is: who wrote it, and who confirmed it. Empty for a model's own."""
        return frozenset({self.origin, self.pinned_by or "distilled"} - {"distilled"})

    def __str__(self) -> str:
        """Write the guideline in one line: `G1: Say sorry first. (t-1@ana)`."""
        source = ", ".join(map(str, self.supported_by)) or self.origin
        return f"{self.id}: {self.text} ({source})"

    def __repr__(self) -> str:
        return f"<Guideline {self}>"


class Usage(PlainStruct, frozen=True, kw_only=True):
    """What model calls cost. Usages add up with `+`.

    `cached_tokens` are included in `input_tokens`. `cost` is in US dollars, and None when any part
    of it is unknown: never 0 for "not known", so a call whose cost nobody gives has None. `seconds`
    is wall time by phase; phases that ran side by side add up to more than the clock shows.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    seconds: dict[str, float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = self.calls or self.input_tokens or self.output_tokens
        if self.cost is None and not asked:  # who asked nobody has paid nothing
            msgspec.structs.force_setattr(self, "cost", 0.0)

    def __add__(self, other: Usage) -> Usage:
        cost = None
        if self.cost is not None and other.cost is not None:
            cost = self.cost + other.cost
        seconds = dict(self.seconds)
        for phase, more in other.seconds.items():
            seconds[phase] = seconds.get(phase, 0.0) + more
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=cost,
            seconds=seconds,
        )

    def __radd__(self, other: object) -> Self | Usage:
        if other != 0:  # with which sum() begins
            return NotImplemented
        return self


class Finding(PlainStruct, frozen=True, kw_only=True):
    """One guideline's bearing on one item.

    Attributes:
        guideline: Its id.
        value: The value that the guideline means for the item; None where nobody says.
        evidence: Words of the item that a chat model quotes; None where it quotes nothing.
        probability: That the item goes against the guideline, in [0, 1], as a decision model says.
        test: The sentence of a test that code decided, such as `The reply has the word "usually"`.
        holds: Whether the test holds; None without one.
        taught_by: The feedback behind the guideline.
    """

    guideline: str
    value: Value | None = None
    evidence: str | None = None
    probability: float | None = None
    test: str | None = None
    holds: bool | None = None
    taught_by: tuple[FeedbackKey, ...] = ()

    def __str__(self) -> str:
        """Write `G3 (t-3@ana) applies, here: "$20"`, its probability, or a test and its answer."""
        source = ", ".join(map(str, self.taught_by)) or "a person"
        who = f"{self.guideline} ({source})"
        if self.test is not None:
            if self.holds:
                return f"{who}: {self.test}: yes"
            return f"{who}: {self.test}: no"
        if self.probability is not None:
            return f"{who}: the item goes against it: {self.probability:.0%}"
        if self.evidence:
            return f'{who} applies, here: "{self.evidence}"'
        return f"{who} applies"


class Judgment(PlainStruct, Generic[ValueT_co], frozen=True, kw_only=True):
    """One verdict and its receipt; to a type checker a `bool` judge's judgments have a `bool`.

    Attributes:
        id: The item's.
        value: The verdict; None exactly when `error` says why there is none.
        rationale: The reason; the experts' words where they judged this very item.
        confidence: The model's own probability of the value, in [0, 1], uncalibrated: `evaluate`
            says what it is worth on your labels. None where the model gives none.
        decided_by: Whose the value is: the experts' label on this very item, a rule of theirs that
            code decides, or the model's.
        findings: Which guidelines apply, and what tests found.
        guideline_ids: The guidelines that apply; of a model that names none, all that it read.
        example_ids: The cases in the prompt, or those whose label was taken.
        memory_hash: The memory that was used.
        model: Who was asked; empty where nobody was.
        answered_by: The name that the answer gives, such as a dated version; empty where it gives
            none.
        usage: What it cost.
        notes: What was truncated, left out or dropped, and what was read in a trace too long to
            show.
        error: Why there is no verdict.
        not_judged: Whether the run stopped before this item, as `error` says.
    """

    id: str = ""
    value: ValueT_co | None = None
    rationale: str | None = None
    confidence: float | None = None
    decided_by: Literal["expert", "rule", "model"] = "model"
    findings: tuple[Finding, ...] = ()
    guideline_ids: tuple[str, ...] = ()
    example_ids: tuple[str, ...] = ()
    memory_hash: str = ""
    model: str = ""
    answered_by: str = ""
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    error: str | None = None
    not_judged: bool = False

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields as `to_dict` has them, for `dict(judgment)` and web encoders."""
        return iter(self.to_dict().items())

    def __bool__(self) -> NoReturn:
        """Refuse: `if judge(…):` would pass for every verdict, also for False and for an error."""
        raise TypeError(
            "a judgment is neither true nor false; use .value, or `is None` to see whether there "
            "is one"
        )

    def __repr__(self) -> str:
        fields: list[str] = []
        for name in ("id", "value", "error", "confidence", "rationale", "model"):
            value = getattr(self, name)
            if value not in (None, ""):
                fields.append(f"{name}={value!r}")
        shown = ", ".join(fields)
        return f"Judgment({shown})"


# Here, where one thread is: msgspec 0.22 crashes the process where several threads are the first to
# read a type.
_ALL_READ = [
    msgspec.json.Decoder(kind) for kind in (Example, Feedback, Guideline, Judgment)
]
