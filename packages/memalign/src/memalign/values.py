"""Value types: what a judge may answer.

`bool`, `Literal["A", "B"]`, an `Enum` of texts, bounded `int` and `float` (`Annotated[int, Ge(1),
Le(5)]`) and `str`, in Python; in files and flags `bool`, `A|B|tie`, `int:1..5`, `float:-1..1`,
`str`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec

from memalign.content.json_values import whole_number
from memalign.content.normal import folded
from memalign.errors import InvalidValue, InvalidValueType

__all__ = ["UNBOUNDED", "Value", "ValueT_co", "ValueType", "dollars", "value_text"]

type_names = "bool, A|B|C, int:1..5, float:-1..1, str"

Value = bool | int | float | str
"""A label. `bool` for pass or fail, `str` for a choice or for free text."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ValueT_co = TypeVar("ValueT_co", bound=Value, covariant=True, default=Value)
else:
    from typing import TypeVar

    ValueT_co = TypeVar(
        "ValueT_co", bound=Value, covariant=True
    )  # a default is known to Python from 3.13 on
"""The values of one judge, for type checkers."""

UNBOUNDED = 10**9
"""The bound, on both sides, of a number without bounds: judges of other tools may have such."""

FLOAT_TOLERANCE = 0.1  # of the scale: closer numbers agree

# 1.0 and 0.0 are what pandas makes of a column with a missing label, t and f what PostgreSQL
# writes; then come the words of other languages, and those that their spreadsheets show for TRUE
# and FALSE.
_WORDS = {
    True: """true yes y t 1 1.0 pass passed ✓ ✔ ✅
             ja oui sí si sì sim da да так tak ano igen evet kyllä ναι ya có כן نعم हाँ
             是 对 對 真 はい 예 네 참
             wahr vrai verdadero vero verdadeiro waar prawda sant sand sann tosi pravda igaz doğru
             adevărat истина істина""",  # noqa: RUF001  # letters of other alphabets are meant
    False: """false no n f 0 0.0 fail failed ✗ ✘ ❌
              nein non não nee nej nei nu нет ні nie ne nem hayir hayır ei όχι tidak không לא لا
              नहीं 否 错 錯 假 いいえ 아니요 아니오 거짓
              falsch faux falso onwaar fałsz falskt falsk usann epätosi nepravda hamis
              yanlış yanliş fals ложь хибність""",  # noqa: RUF001
}
_TRUTHS = {
    folded(word): truth for truth, words in _WORDS.items() for word in words.split()
}

_NUMERALS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
]

_DECORATION = re.compile(
    r"^[\s\"'`*“”‘’(\[{<]+|[\s\"'`*“”‘’.!。)\]}>]+$"  # noqa: RUF001  # all are meant
)
"""Marks around a verdict: quotation marks, emphasis, brackets, and the end of a sentence."""

_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")

_DECIMAL_POINT = re.compile(
    r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d{1,3}(?:,\d{3})+\.\d{1,300})"
)
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d{1,300}),\d{1,300}")
_FRACTION = re.compile(r"(\d{1,15}) ?[/\u2044] ?(0*[1-9]\d{0,14})")
_SWAPPED = str.maketrans(",", ".", ".")


def value_text(value: Value | None) -> str:
    """Return a label as files write it: `true`, `4`, `Refuted`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"  # two labels must not look the same
    return str(value)


def dollars(amount: float) -> str:
    """Return US dollars for people, to two digits: `$0.0003`, `$12`, `$1,240`."""
    if amount >= 100:
        return f"${amount:,.0f}"
    return f"${amount:.2g}"


class ValueType(msgspec.Struct, frozen=True, kw_only=True):
    """The set of values that a judge may give.

    `choices` is set for kind "choice" only; `low` and `high`, both inclusive, for "int" and "float"
    only.
    """

    kind: Literal["bool", "choice", "int", "float", "str"]
    choices: tuple[str, ...] = ()
    low: float = -float(UNBOUNDED)
    high: float = float(UNBOUNDED)

    @classmethod
    def of(cls, value_type: object) -> ValueType:
        """Return the value type of an annotation, an Enum, or a flag such as `int:1..5`.

        Raises InvalidValueType for anything else, unbounded numbers included: a judge that is asked
        for "a number" and an expert who gives "a number" rarely mean the same scale.
        """
        if isinstance(value_type, ValueType):
            return value_type
        if value_type is bool:
            return cls(kind="bool")
        if value_type is str:
            return cls(kind="str")
        if isinstance(value_type, str):
            return cls._parse(value_type.strip())
        if isinstance(value_type, type) and issubclass(value_type, Enum):
            return cls._enumerated(value_type)
        if get_origin(value_type) is Literal:
            return cls._choice(get_args(value_type))
        if value_type in (int, float) or get_origin(value_type) is Annotated:
            return cls._bounded(value_type)
        raise InvalidValueType(
            f"there is no value type {value_type!r}; use one of {type_names}. A label is one "
            "value: for several values make one judge for each, and name a missing one as a choice"
        )

    @classmethod
    def _enumerated(cls, members: type[Enum]) -> ValueType:
        """Read an Enum: choices of its texts, a scale of its numbers, else choices of its names."""
        listed = list(members)
        values = [member.value for member in listed]
        if all(isinstance(value, str) for value in values):
            return cls._choice(values)
        if not issubclass(members, int):
            return cls._choice([member.name for member in listed])
        low = min(values)
        high = max(values)
        every = list(range(low, high + 1))
        if sorted(values) != every:
            raise InvalidValueType(
                f"{members.__name__}: its numbers have gaps; write int:{low}..{high} or texts"
            )
        return cls._number(low, high, whole=True, written=members.__name__)

    @classmethod
    def _choice(cls, choices: Sequence[object]) -> ValueType:
        names: list[str] = []
        for choice in choices:
            if isinstance(choice, str) and choice.strip() and choice not in names:
                names.append(choice)
        if len(names) < len(choices) or len(names) < 2:
            raise InvalidValueType(
                f"choices must be two or more different texts that are not empty, not {choices!r}"
            )
        for name in names:
            # A file writes A|B: such a choice would come back from it as another.
            if "|" in name or name != name.strip():
                raise InvalidValueType(
                    f"the choice {name!r} contains '|', or begins or ends with white space"
                )
        return cls(kind="choice", choices=tuple(names))

    @classmethod
    def _bounded(cls, annotation: object) -> ValueType:
        base, *metadata = get_args(annotation) or (annotation,)
        if base not in (int, float):
            raise InvalidValueType(
                f"only int and float have bounds, but this is {annotation!r}"
            )
        low = None
        high = None
        for bound in metadata:
            # annotated-types' Ge, Le and Interval, and pydantic's Field, all show their bounds as
            # ge and le (Field inside its own metadata), so we need neither library to read them.
            for part in (bound, *getattr(bound, "metadata", ())):
                least = getattr(part, "ge", None)
                most = getattr(part, "le", None)
                if least is not None:
                    low = least
                if most is not None:
                    high = most
        return cls._number(low, high, whole=base is int, written=repr(annotation))

    @classmethod
    def _number(cls, low: Any, high: Any, *, whole: bool, written: str) -> ValueType:
        kind: Literal["int", "float"] = "int" if whole else "float"
        if low is None or high is None:
            raise InvalidValueType(
                f"{kind} needs bounds; give both bounds: Annotated[{kind}, Ge(1), Le(5)] "
                f"in Python, {kind}:1..5 in files and flags"
            )
        fits = -math.inf < low < high < math.inf
        if fits and whole:
            fits = low == int(low) and high == int(high)
        if not fits:
            numbers = "finite whole numbers" if whole else "finite numbers"
            raise InvalidValueType(
                f"{written}: the bounds must be two {numbers}, the lower one first"
            )
        return cls(kind=kind, low=float(low), high=float(high))

    @classmethod
    def _parse(cls, spec: str) -> ValueType:
        if "|" in spec:
            choices = [choice.strip() for choice in spec.split("|")]
            return cls._choice(choices)
        name = spec.lower()
        if name == "bool":
            return cls(kind="bool")
        if name == "str":
            return cls(kind="str")
        kind, colon, bounds = name.partition(":")
        if kind in ("int", "float") and colon:
            try:
                low, high = map(float, bounds.split(".."))
            except ValueError:
                raise InvalidValueType(
                    f"{spec!r}: bounds look like {kind}:1..5"
                ) from None
            return cls._number(low, high, whole=kind == "int", written=spec)
        raise InvalidValueType(
            f"there is no value type {spec!r}; use one of {type_names}"
        )

    @property
    def spec(self) -> str:
        """The type as files and flags write it; `ValueType.of(t.spec) == t`."""
        if self.kind == "choice":
            return "|".join(self.choices)
        if self.numeric:
            low = _bound_text(self.low)
            high = _bound_text(self.high)
            return f"{self.kind}:{low}..{high}"
        return self.kind

    @property
    def annotation(self) -> Any:
        """The type as Python writes it: bool, str, a Literal, or an Annotated number."""
        if self.kind == "choice":
            return Literal[self.choices]
        if self.kind == "bool":
            return bool
        if self.kind == "str":
            return str
        from annotated_types import Ge, Le  # only numbers need it

        if self.kind == "int":
            return Annotated[int, Ge(int(self.low)), Le(int(self.high))]
        return Annotated[float, Ge(self.low), Le(self.high)]

    @property
    def allowed(self) -> str:
        """The values that a person may give, in words for an error message."""
        match self.kind:
            case "bool":
                return "true or false"
            case "choice":
                return ", ".join(self.choices)
            case "str":
                return "any text"
        kind = "a whole number" if self.kind == "int" else "a number"
        if not self.bounded:
            return kind
        low = _bound_text(self.low)
        high = _bound_text(self.high)
        return f"{kind} from {low} to {high}"

    @property
    def labels(self) -> tuple[Value, ...]:
        """All values in order, if they can be listed (at most 1,001 numbers), else none."""
        if self.kind == "bool":
            return (True, False)
        if self.kind == "choice":
            return self.choices
        if self.kind != "int" or self.high - self.low > 1000:
            return ()
        return tuple(range(int(self.low), int(self.high) + 1))

    @property
    def numeric(self) -> bool:
        """True if values have an order and a distance (int and float)."""
        return self.kind in ("int", "float")

    @property
    def bounded(self) -> bool:
        """True if a number has bounds that anybody meant."""
        return self.low != -UNBOUNDED or self.high != UNBOUNDED

    @property
    def closed(self) -> bool:
        """True if a value carries no words of its own; only `str` values do."""
        return self.kind != "str"

    @property
    def tolerance(self) -> float:
        """How far apart two floats may be and still agree: a tenth of a bounded scale, else 0."""
        if self.kind != "float" or not self.bounded:
            return 0.0
        return FLOAT_TOLERANCE * (self.high - self.low)

    def agree(self, one: Value, other: Value) -> bool:
        """Return whether two values say the same: equal ones, and floats within the `tolerance`."""
        if one == other:
            return True
        # Texts also of a judge that once answered otherwise.
        if isinstance(one, str) or isinstance(other, str):
            return False
        return abs(one - other) <= self.tolerance

    def parse(self, raw: object) -> Value:
        """Read the value that `raw` (from a file, a person or a model) means.

        Accepts the value itself and its usual spellings in text files ("true", "yes", "4"). Case of
        a choice is kept and must match, unless only one choice differs by case. Raises InvalidValue
        with what is allowed.
        """
        value: Value | None
        if isinstance(raw, Enum):
            # The value of a text or a number, else the name, as `of` reads the type.
            has_value = isinstance(raw.value, str) or isinstance(raw, int)
            raw = raw.value if has_value else raw.name
        match self.kind:
            case "bool":
                value = self._parse_bool(raw)
            case "choice":
                value = self._parse_choice(raw)
            case "str":
                value = self._parse_text(raw)
            case _:
                value = self._parse_number(raw)
        if value is None:
            raise InvalidValue(
                f"value {_shorten(raw)} is not allowed; use {self.allowed}"
            )
        return value

    def meant(self, raw: object) -> Value:
        """Read the value that a model means: `Yes.`, `**4**`, `[[A]]` and `{"value": true}` too.

        Args:
            raw: What the model wrote.

        Raises:
            InvalidValue: It is no value of this type, also without the marks around it.
        """
        raw = _alone(raw)
        try:
            return self.parse(raw)
        except InvalidValue:
            if not isinstance(raw, str):
                raise
            return self.parse(_DECORATION.sub("", raw))

    def _parse_text(self, raw: object) -> str | None:
        # A spreadsheet makes a number of a text in digits.
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            return None
        if isinstance(raw, float) and not math.isfinite(raw):
            return None
        text = value_text(raw)
        if not text.strip():
            return None
        return text

    def _parse_bool(self, raw: object) -> bool | None:
        if isinstance(raw, bool):
            return raw
        if not isinstance(raw, str | int | float):
            return None
        return _TRUTHS.get(folded(str(raw)))

    def _parse_choice(self, raw: object) -> str | None:
        raw = whole_number(raw)
        if not isinstance(raw, str | int):
            return None
        # A CSV reader gives "1", a JSONL one may give 1 or true, for a choice spelled so.
        word = str(raw).strip()
        for form in (str, _choice_form):
            alike = [choice for choice in self.choices if form(choice) == form(word)]
            if len(alike) == 1:
                return alike[0]
        return None

    def _parse_number(self, raw: object) -> int | float | None:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            return None
        fitting = sorted(filter(self._fits, _numbers(raw, self.high)))
        if not fitting:
            return None
        if len(fitting) > 1:
            several = " or ".join(map(_bound_text, fitting))
            raise InvalidValue(
                f"value {_shorten(raw)} may be {several}; write it with a decimal point"
            )
        number = fitting[0]
        if self.kind == "int":
            return int(number)
        return number

    def _fits(self, number: float) -> bool:
        if not self.low <= number <= self.high:
            return False
        return self.kind == "float" or number == int(number)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of one value, for structured output and grammars."""
        kinds = {"bool": "boolean", "int": "integer", "float": "number"}
        schema: dict[str, Any] = {"type": kinds.get(self.kind, "string")}
        labels = list(self.labels)
        # An enum, not minimum and maximum: grammars and strict modes of several providers ignore
        # bounds.
        if self.kind == "choice" or (self.kind == "int" and 0 < len(labels) <= 101):
            schema["enum"] = labels
        elif self.bounded:
            number = int if self.kind == "int" else float
            schema["minimum"] = number(self.low)
            schema["maximum"] = number(self.high)
        return schema


def _alone(raw: object) -> object:
    """Return the value that is alone in a list or an object; anything else as it is."""
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if isinstance(raw, dict) and len(raw) == 1:
        return next(iter(raw.values()))
    return raw


def _choice_form(choice: str) -> str:
    """Return a choice without what makes no difference: `partly_right` is Partly right.

    A 1.0 is the same 1 in a file of text.
    """
    return _BETWEEN_WORDS.sub(" ", folded(choice)).removesuffix(".0")


def _numbers(raw: str | int | float, high: float) -> set[float]:
    """Return the numbers that a cell may mean, by its commas, points and sign of per cent.

    A fraction is a number of a scale up to 1, and 4/5 is 4 on a scale up to 5.
    """
    if not isinstance(raw, str):
        if abs(raw) >= 10**300:
            return set()
        return {float(raw)}
    text = folded(raw)
    fraction = _FRACTION.fullmatch(text)
    if fraction:
        above, below = map(float, fraction.groups())
        shares = {1.0: above / below, below: above}
        return {shares[high]} if high in shares else set()
    if text.endswith("%") and high <= 1:
        percents = _numbers(text[:-1], 100)
        return {percent / 100 for percent in percents}
    if text in _NUMERALS:
        number = _NUMERALS.index(text)
        return {float(number)}
    return _written_numbers(text)


def _written_numbers(text: str) -> set[float]:
    if "_" in text:
        return set()
    with suppress(ValueError):
        return {float(text)}
    numbers: set[float] = set()
    if _DECIMAL_POINT.fullmatch(text):
        pointed = text.replace(",", "")
        numbers.add(float(pointed))
    if _DECIMAL_COMMA.fullmatch(text):
        swapped = text.translate(_SWAPPED)
        numbers.add(float(swapped))
    return numbers


def _bound_text(bound: float) -> str:
    """Return a bound as people write it, with every digit that it has: 5, 0.5, 1000001."""
    return repr(bound).removesuffix(".0")


def _shorten(raw: object, limit: int = 60) -> str:
    text = repr(raw)
    if isinstance(raw, bool):
        text = value_text(raw)
    if len(text) > limit:
        text = f"{text[:limit]}…"
    return text
