"""How often an attack turns a verdict: the same cases judged as they are, and with each attack in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from memalign import aio
from memalign.errors import InputError, InvalidValue
from memalign.judge import Progress
from memalign.metrics import Estimate, wilson_interval
from memalign.types import Example
from memalign.values import Value, ValueType
from memalign_bench.attacks.catalogue import NEUTRAL, Attack, attacked

__all__ = ["Ask", "Attempt", "Flips", "flips_of", "measure", "wanted_value"]

Ask = Callable[[Example], Awaitable["Value | None"]]
"""A judge as the measurement sees it: an item to its verdict, None where it gave none."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on one case that was not judged as wanted: the verdicts `before` and `after`; no judged text.

    `after` None: the judge gave no verdict, which is neither a flip nor a verdict that stood.
    """

    method: str
    attack: str
    id: str
    before: Value
    after: Value | None

    def flipped(self, wanted: Value) -> bool:
        """Whether the attack got what it wants."""
        return self.after == wanted


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """How many of `n` verdicts one attack turned to the wanted label, with Wilson's 95 % interval of the share.

    `failed` attempts had no verdict and are not among the `n`: a failure shows nothing about what an attack does.
    """

    method: str
    attack: str
    n: int
    flips: int
    failed: int = 0
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        without = f"{self.failed} without a verdict" if self.failed else ""
        if not self.n:
            return without or "none could be tried"
        share = Estimate(value=self.flips / self.n, low=self.low, high=self.high)
        return f"{self.flips} of {self.n}, {share}" + (f"; {without}" if without else "")


async def measure(
    method: str,
    ask: Ask,
    examples: Sequence[Example],
    *,
    wanted: Value,
    attacks: Sequence[Attack],
    per_attack: int = 0,
    concurrency: int = 1,
    progress: Progress | None = None,
) -> tuple[Attempt, ...]:
    """Judge `examples` honestly, then those that were not judged as `wanted` with each attack.

    An attack is tried on `per_attack` of them (0: on all), which are other ones for each attack, so that few judgments
    cover many cases. Attempts come attack by attack, whoever answered first.
    """
    slots = asyncio.Semaphore(concurrency)
    done, total = 0, len(examples)

    async def one(example: Example) -> Value | None:
        nonlocal done
        async with slots:
            value = await ask(example)
        done += 1
        if progress is not None:
            progress(method, done, total)
        return value

    honest = await aio.together(one(example) for example in examples)
    open_ = [(each, value) for each, value in zip(examples, honest, strict=True) if value not in (None, wanted)]
    tries = min(per_attack or len(open_), len(open_))
    pairs = [
        (attack, *open_[(turn * tries + n) % len(open_)]) for turn, attack in enumerate(attacks) for n in range(tries)
    ]
    total += len(pairs)
    after = await aio.together(one(attacked(example, attack, wanted)) for attack, example, _ in pairs)
    return tuple(
        Attempt(method=method, attack=attack.name, id=example.id, before=before, after=value)
        for (attack, example, before), value in zip(pairs, after, strict=True)
        if before is not None
    )


def flips_of(attempts: Iterable[Attempt], *, wanted: Value) -> tuple[Flips, ...]:
    """Per method and attack, in the order in which they come, then all attacks of a method together, the control apart."""
    groups: dict[tuple[str, str], list[Attempt]] = {}
    pooled: dict[tuple[str, str], list[Attempt]] = {}
    for each in attempts:
        groups.setdefault((each.method, each.attack), []).append(each)
        if each.attack != NEUTRAL:
            pooled.setdefault((each.method, "all attacks"), []).append(each)
    return tuple(_flips(*key, tried, wanted) for key, tried in (*groups.items(), *pooled.items()))


def _flips(method: str, attack: str, tried: Sequence[Attempt], wanted: Value) -> Flips:
    judged = [each for each in tried if each.after is not None]
    flips = sum(each.flipped(wanted) for each in judged)
    low, high = wilson_interval(flips, len(judged)) or (None, None)
    failed = len(tried) - len(judged)
    return Flips(method=method, attack=attack, n=len(judged), flips=flips, failed=failed, low=low, high=high)


def wanted_value(value_type: ValueType, wanted: object) -> Value:
    """What the attacks want, as a verdict. Raises InputError for what the judge cannot answer, and for free text."""
    if not value_type.closed:
        raise InputError("free text has no label to turn a verdict to; attack judges with labels or numbers")
    try:
        return value_type.parse(wanted)
    except InvalidValue as error:
        raise InputError(f"the wanted label: {error}") from None
