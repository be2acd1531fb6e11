"""Whether two engines may stand in one table: the same requests to both, and how often they give the same verdict.

The same weights on another engine are another model until this is measured: engines round differently, unpack 4 bits
differently, and hold answers to their form by other grammars.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Hashable, Iterable, Sequence

import msgspec

from memalign.errors import InputError, ModelError, ModelRejected
from memalign.judge import Judge
from memalign.metrics import Estimate, cohen_kappa, label_shares, wilson_interval
from memalign.models.base import ChatModel, ChatReply, ChatRequest
from memalign.types import Example, Usage

__all__ = ["MIXABLE", "EngineAgreement", "EngineRun", "agreement", "requests_of"]

MIXABLE = 0.9
"""What the lower end of the interval of agreement must reach before figures of two engines are mixed."""


_HELLO = ChatRequest(
    system="Answer in JSON.",
    user="Is it day?",
    schema={"type": "object", "properties": {"value": {"type": "boolean"}}, "required": ["value"]},
    max_tokens=12,
)


class EngineRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine did: the share of each label among its verdicts, seconds for all requests, and its usage."""

    model: str
    shares: dict[str, float]
    seconds: float
    usage: Usage

    def __str__(self) -> str:
        shares = ", ".join(f"{label} {share:.0%}" for label, share in self.shares.items()) or "no verdict"
        read, written = self.usage.input_tokens - self.usage.cached_tokens, self.usage.output_tokens
        rates = f"{read / self.seconds:.0f} tokens a second read, {written / self.seconds:.0f} written"
        return f"{self.model}: {shares}; {self.seconds:.1f} s ({rates}, {self.usage.cached_tokens:,} from cache)"


class EngineAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often two engines gave the same verdict.

    `n` counts the requests that at least one of them answered; where only one did, they disagree. `low` and `high` are
    Wilson's 95 % interval of the share `same / n`. `kappa` is over the requests that both answered, None where it is
    not defined. `differing` and `failed` hold the requests' ids.
    """

    first: EngineRun
    second: EngineRun
    n: int
    same: int
    low: float
    high: float
    kappa: float | None
    differing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def mixable(self) -> bool:
        """Whether figures of the two may be mixed: the lower end of the interval reaches 0.9. It takes 35 requests."""
        return self.low >= MIXABLE

    def __str__(self) -> str:
        share = Estimate(value=self.same / self.n, low=self.low, high=self.high)
        kappa = "n/a" if self.kappa is None else f"{self.kappa:.2f}"
        if self.mixable:
            verdict = f"figures of the two may be mixed: the interval's lower end reaches {MIXABLE}"
        else:
            verdict = f"do not mix figures of the two: the interval's lower end, {self.low:.2f}, is below {MIXABLE}"
        lines = [f"same verdict on {self.same} of {self.n}: {share}, kappa {kappa}", str(self.first), str(self.second)]
        lines += [f"different verdicts: {', '.join(self.differing)}"] if self.differing else []
        lines += [f"without an answer of one or both: {', '.join(self.failed)}"] if self.failed else []
        if len(self.first.shares.keys() | self.second.shares.keys()) == 1:
            verdict += "; but there was one verdict only, which any two models share: take requests of several labels"
        return "\n".join([*lines, verdict])


async def agreement(
    first: ChatModel, second: ChatModel, requests: Sequence[tuple[str, ChatRequest]]
) -> EngineAgreement:
    """Put `requests` (id and request; the answer's `value` is the verdict) to `first`, then to `second`.

    One engine after the other, each with as many calls in flight as it takes, so that neither slows the other; a short
    request before them loads the model and is not counted. Raises InputError without requests, for an id that stands
    twice, and when neither answered any; ConfigurationError as the models do.
    """
    names = [name for name, _ in requests]
    if not names:
        raise InputError("no requests: agreement of two engines is measured on at least one, better on 100")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"request {twice[0]!r} stands twice; every id must be of one request")
    (said, run, why), (told, other, _) = [await _ask_all(model, requests) for model in (first, second)]
    answered = [name for name in names if name in said or name in told]
    both = [name for name in names if name in said and name in told]
    if not answered:
        raise InputError(f"neither {first.name} nor {second.name} answered any of the {len(names)} requests{why}")
    same = [name for name in both if said[name] == told[name]]
    interval = wilson_interval(len(same), len(answered)) or (0.0, 1.0)
    return EngineAgreement(
        first=run,
        second=other,
        n=len(answered),
        same=len(same),
        low=interval[0],
        high=interval[1],
        kappa=cohen_kappa([said[name] for name in both], [told[name] for name in both]),
        differing=tuple(name for name in both if said[name] != told[name]),
        failed=tuple(name for name in names if name not in both),
    )


async def requests_of(judge: Judge, examples: Iterable[Example], *, like: ChatModel) -> list[tuple[str, ChatRequest]]:
    """The requests by which `judge` would have a model with the limits of `like` judge `examples`; none is sent.

    Raises InputError as the judge does, for a field that its instructions name and an example lacks.
    """
    found: list[tuple[str, ChatRequest]] = []
    for example in examples:
        listener = _Listener(like)
        with contextlib.suppress(ModelRejected):
            # Without tool calls: what they show hangs on the answers, and the verdict is what is compared.
            await judge.replace(model=listener, parameters={**judge.parameters, "trace_tool_calls": 0}).ajudge(example)
        found += [(example.id, request) for request in listener.heard]
    return found


class _Listener:
    """A ChatModel that hears requests and sends none on."""

    def __init__(self, model: ChatModel) -> None:
        self.name = model.name
        self.limits = model.limits
        self.heard: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.heard.append(request)
        raise ModelRejected("nothing was sent: this model only listens")


async def _ask_all(
    model: ChatModel, requests: Sequence[tuple[str, ChatRequest]]
) -> tuple[dict[str, Hashable], EngineRun, str]:
    """The verdicts by id, without those of failed calls; the run; and how the first call failed that did, in words."""
    await _answer(model, _HELLO)  # loads the model, which may take longer than all the rest
    slots = asyncio.Semaphore(model.limits.concurrency)

    async def ask(request: ChatRequest) -> ChatReply | ModelError:
        async with slots:
            return await _answer(model, request)

    started = time.perf_counter()
    replies = await asyncio.gather(*(ask(request) for _, request in requests))
    seconds = time.perf_counter() - started
    verdicts: dict[str, Hashable] = {}
    usage = Usage()
    why = ""
    for (name, _), reply in zip(requests, replies, strict=True):
        if isinstance(reply, ChatReply):
            usage += reply.usage
            if "value" in reply.data:
                verdicts[name] = reply.data["value"]
        else:
            usage += reply.usage or Usage()
            why = why or f"; {model.name}: {reply}"
    shares = {str(label): share for label, share in label_shares(list(verdicts.values())).items()}
    return verdicts, EngineRun(model=model.name, shares=shares, seconds=seconds, usage=usage), why


async def _answer(model: ChatModel, request: ChatRequest) -> ChatReply | ModelError:
    """The reply, or how the call failed."""
    try:
        return await model.complete(request)
    except ModelError as error:
        return error
