"""The embedded model in torch as a chat model that answers several calls at once, and `memalign bench` over it.

    python -m benchmarks.answers.batched run results/house_rules/run.toml

Every command of the benchmark, with the embedded model's weights in bfloat16: on a processor with AMX some five times as
many verdicts an hour as llama.cpp's wheel. Answers are held to the same grammars. Needs what engine.py needs, and
llguidance.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, Protocol

import llguidance
import llguidance.hf
import llguidance.torch
import torch
from benchmarks.answers.engine import END, Engine

from memalign.errors import InvalidOutput
from memalign.models.answers import parse_answer
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.models.llama_cpp import grammar, words_only
from memalign.models.probabilities import ALTERNATIVES, Token, label_probabilities
from memalign.models.provider_errors import PromptTooLong
from memalign.types import Usage
from memalign_bench.embedded import asked, completion

BATCH = 16
GATHER = 0.05
"""Seconds in which calls come together."""
CONTEXT = 8192
LONGEST = 512
"""Tokens of a competitor's text at most: a small model that repeats itself would fill its context."""


class Writing(Protocol):
    """One text as it is written."""

    def __call__(self, logits: torch.Tensor) -> int | None:
        """The next token, given what the model made of the text before; None at the text's end."""
        ...

    def reply(self, read: int) -> Any:
        """What the caller gets, of which `read` tokens were read."""
        ...


class _Call(NamedTuple):
    system: str
    """What comes before the last message of the user: calls with an equal one are answered together."""
    user: str
    text: Callable[[], Writing]
    done: Future[Any]


class _Questions(NamedTuple):
    system: str
    item: str
    questions: tuple[str, ...]
    done: Future[tuple[list[float], Usage]]


class Written:
    """One answer as it is written: held to the request's grammar, the likeliest token at each place."""

    def __init__(self, engine: Engine, tokenizer: Any, request: ChatRequest) -> None:
        self._engine, self._request = engine, request
        self._matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(grammar(request.schema)))
        self._mask = llguidance.torch.allocate_token_bitmask(1, tokenizer.vocab_size)
        self.tokens: list[int] = []
        self._weighed: list[Token] = []
        self.cut = False

    def __call__(self, logits: torch.Tensor) -> int | None:
        """The next token, given what the model made of the text before; None at the answer's end."""
        if self._matcher.is_stopped():
            return None
        if len(self.tokens) >= 2 * self._request.max_tokens:
            self.cut = True
            return None
        llguidance.torch.fill_next_token_bitmask(self._matcher, self._mask, 0)
        allowed = logits[None, : self._mask.shape[1] * 32].clone()
        llguidance.torch.apply_token_bitmask_inplace(allowed, self._mask)
        token = int(allowed.argmax())
        if token == self._engine.eos:
            return None
        self._matcher.consume_token(token)
        self.tokens.append(token)
        if self._request.labels:
            chances, places = logits.softmax(0).topk(ALTERNATIVES)
            told = zip(places.tolist(), chances.tolist(), strict=True)
            self._weighed.append(Token(self._bytes(token), tuple((self._bytes(each), p) for each, p in told)))
        return token

    def _bytes(self, token: int) -> bytes:
        return str(self._engine.tokens.decode([token])).encode()

    def reply(self, read: int) -> ChatReply:
        """The answer, of which `read` tokens were read. Raises InvalidOutput for one that is cut or does not fit."""
        text = self._engine.tokens.decode(self.tokens)
        usage = Usage(calls=1, input_tokens=read, output_tokens=len(self.tokens), cost=0.0)
        if self.cut:
            raise InvalidOutput("the answer was cut", usage=usage)
        labels = self._request.labels
        return ChatReply(
            data=parse_answer(text, self._request.schema, optional=self._request.optional),
            text=text,
            usage=usage,
            probabilities=label_probabilities(self._weighed, labels) if labels else None,
        )


class Sampled:
    """Free text, or JSON where the request holds a grammar: what a competitor asks of an endpoint."""

    def __init__(self, engine: Engine, tokenizer: Any, request: dict[str, Any], number: int) -> None:
        self._engine = engine
        self._limit = min(request.get("max_tokens", LONGEST), LONGEST)
        self._temperature = float(request.get("temperature", 0.0))
        self._chance = torch.Generator()
        self._chance.manual_seed(request["seed"] + number) if "seed" in request else self._chance.seed()
        self._held: llguidance.LLMatcher | None = None
        if "grammar" in request:
            lark = llguidance.LLMatcher.grammar_from_lark(request["grammar"])
            self._held = llguidance.LLMatcher(tokenizer, lark)
            self._mask = llguidance.torch.allocate_token_bitmask(1, tokenizer.vocab_size)
        self.tokens: list[int] = []
        self.cut = False

    def __call__(self, logits: torch.Tensor) -> int | None:
        """See `Writing`."""
        if self._held is not None and self._held.is_stopped():
            return None
        if len(self.tokens) >= self._limit:
            self.cut = True
            return None
        if self._held is not None:
            llguidance.torch.fill_next_token_bitmask(self._held, self._mask, 0)
            allowed = logits[None, : self._mask.shape[1] * 32].clone()
            llguidance.torch.apply_token_bitmask_inplace(allowed, self._mask)
            logits = allowed[0]
        if self._temperature > 0:
            chances = (logits / self._temperature).softmax(0)
            token = int(torch.multinomial(chances, 1, generator=self._chance))
        else:
            token = int(logits.argmax())
        if token == self._engine.eos:
            return None
        if self._held is not None:
            self._held.consume_token(token)
        self.tokens.append(token)
        return token

    def reply(self, read: int) -> tuple[str, bool, Usage]:
        """The text, whether it was cut, and what it took."""
        text = self._engine.tokens.decode(self.tokens)
        return text, self.cut, Usage(calls=1, input_tokens=read, output_tokens=len(self.tokens))


class BatchedModel:
    """A ChatModel, YesNoModel and RawModel over an Engine: calls with one system message are answered together."""

    limits = Limits(context_tokens=CONTEXT, shard_size=1, concurrency=BATCH, examples=3, brief=True, probabilities=True)
    engine = f"torch {torch.__version__}, bfloat16"

    def __init__(self, name: str) -> None:
        self.name = name
        self._engine = Engine(name)
        self._tokenizer = llguidance.hf.from_tokenizer(self._engine.tokens)
        self._calls: queue.SimpleQueue[_Call | _Questions] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """See `ChatModel`."""

        def text() -> Written:
            return Written(self._engine, self._tokenizer, request)

        reply: ChatReply = await self._written(words_only(request.system), words_only(request.user), text)
        return reply

    async def raw(self, body: dict[str, Any]) -> dict[str, Any]:
        """See `RawModel`; a text ends after LONGEST tokens at the latest. Raises PromptTooLong."""
        request = asked(body)
        *before, last = request["messages"]
        if not before or before[0]["role"] != "system":
            before = [{"role": "system", "content": "You are a helpful assistant."}, *before]
        system = before[0]["content"] + "".join(
            f"<|im_end|>\n<|im_start|>{each['role']}\n{each['content']}" for each in before[1:]
        )
        size = len(self._engine.ids(system)) + len(self._engine.ids(last["content"]))
        if size + LONGEST > CONTEXT:
            raise PromptTooLong(f"a prompt of {size} tokens does not fit {CONTEXT}")
        started = time.perf_counter()
        written: list[tuple[str, bool, Usage]] = await asyncio.gather(
            *(
                self._written(system, last["content"], partial(Sampled, self._engine, self._tokenizer, request, number))
                for number in range(body.get("n") or 1)
            )
        )
        usage = sum((used for _, _, used in written), Usage())
        choices = [(text, cut) for text, cut, _ in written]
        return completion(body.get("model", self.name), choices, usage, seconds=time.perf_counter() - started)

    async def _written(self, system: str, user: str, text: Callable[[], Writing]) -> Any:
        done: Future[Any] = Future()
        self._calls.put(_Call(system, user, text, done))
        return await asyncio.wrap_future(done)

    async def margins(
        self,
        system: str,
        item: str,
        questions: Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109  # nobody waits for ever here
    ) -> tuple[list[float], Usage]:
        """See `YesNoModel`."""
        if not questions:
            return [], Usage()
        done: Future[tuple[list[float], Usage]] = Future()
        self._calls.put(_Questions(words_only(system), words_only(item), tuple(map(words_only, questions)), done))
        return await asyncio.wrap_future(done)

    def _work(self) -> None:
        waiting: list[_Call] = []
        while True:
            try:
                call = self._calls.get(timeout=GATHER if waiting else None)
            except queue.Empty:
                some = [each for each in waiting if each.system == waiting[0].system][:BATCH]
                waiting = [each for each in waiting if each not in some]
                self._or_told(some, lambda: self._answer(some))  # noqa: B023  # it runs here and now
                continue
            if isinstance(call, _Call):
                waiting.append(call)
            else:
                self._or_told([call], lambda: self._ask(call))  # noqa: B023

    @staticmethod
    def _or_told(calls: Sequence[_Call | _Questions], work: Callable[[], None]) -> None:
        """Do the `work`; whatever stops it reaches those who wait for it, and the next calls are answered all the same."""
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # it is handed on, not swallowed
            for call in calls:
                if not call.done.done():
                    call.done.set_exception(error)

    def _ask(self, asked: _Questions) -> None:
        started = time.perf_counter()
        margins = self._engine.margins(asked.system, f"{asked.item}\n", asked.questions)
        read = len(self._engine.ids(asked.item)) + sum(len(self._engine.ids(each)) for each in asked.questions)
        seconds = {"model": time.perf_counter() - started}
        usage = Usage(calls=len(asked.questions), input_tokens=read, cost=0.0, seconds=seconds)
        asked.done.set_result(([max(-15.0, min(15.0, each)) for each in margins], usage))

    def _answer(self, calls: Sequence[_Call]) -> None:
        texts = [call.text() for call in calls]
        users = [f"{call.user}{END}" for call in calls]
        self._engine.write(calls[0].system, users, texts)
        for call, user, text in zip(calls, users, texts, strict=True):
            try:
                call.done.set_result(text.reply(len(self._engine.ids(call.system + user))))
            except InvalidOutput as error:
                call.done.set_exception(error)


def main() -> None:
    from benchmarks.answers.keep import MODEL

    from memalign_bench import run
    from memalign_bench.cli import app

    model = BatchedModel(MODEL)
    setattr(run, "resolve", lambda _name: model)  # noqa: B010  # the run's models are this one, whatever their name
    sys.exit(app())


if __name__ == "__main__":
    main()
