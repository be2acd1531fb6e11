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
from typing import Any, NamedTuple

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
from memalign.types import Usage

BATCH = 16
GATHER = 0.05
"""Seconds in which calls come together."""
CONTEXT = 8192


class _Call(NamedTuple):
    request: ChatRequest
    done: Future[ChatReply]


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


class BatchedModel:
    """A ChatModel and YesNoModel over an Engine: calls with one system message are answered together."""

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
        done: Future[ChatReply] = Future()
        self._calls.put(_Call(request, done))
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
                system = waiting[0].request.system
                some = [each for each in waiting if each.request.system == system][:BATCH]
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
        written = [Written(self._engine, self._tokenizer, call.request) for call in calls]
        users = [f"{words_only(call.request.user)}{END}" for call in calls]
        self._engine.write(words_only(calls[0].request.system), users, written)
        for call, user, one in zip(calls, users, written, strict=True):
            try:
                call.done.set_result(one.reply(len(self._engine.ids(call.request.system + user))))
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
