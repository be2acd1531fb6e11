"""A method: cases teach it, and it judges others afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memalign.errors import ConfigurationError
from memalign.models.base import ChatModel
from memalign.types import Usage
from memalign.values import Value
from memalign_bench.raw import Fit, View
from memalign_bench.tasks import Case, Task

__all__ = ["Fitted", "Method", "Setting", "Verdict"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all methods of a cell share: the task, the judge model, the seed.

    `chat` is None where nobody asks a model, so that baselines need none.
    """

    task: Task
    chat: ChatModel | None
    seed: int

    @property
    def model(self) -> ChatModel:
        """The judge model, of the methods that ask one."""
        if self.chat is None:
            raise ConfigurationError(f"task {self.task.name!r}: this method asks a judge model, and there is none")
        return self.chat


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A method's answer to one case; `value` is None exactly when `error` says why."""

    value: Value | None
    usage: Usage = Usage()
    error: str | None = None


class Fitted(Protocol):
    """A method that has learned."""

    @property
    def fit(self) -> Fit:
        """What learning took, and the fingerprint of the state."""
        ...

    async def judge(self, case: Case, view: View) -> Verdict:
        """The verdict on one case, in one of the method's views; a model's failure is in the verdict's error."""
        ...

    async def close(self) -> None:
        """Let go of what it holds, such as a process."""
        ...


class Method(Protocol):
    """One way to make a judge from labelled cases."""

    @property
    def name(self) -> str:
        """What configurations and reports call it."""
        ...

    @property
    def views(self) -> frozenset[View]:
        """How it can judge a case, once it has learned: only some methods can hide what they learned from one."""
        ...

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        """The judge that `train` (all cases up to this stage, in order) gives.

        `before` is the same method at the stage before, for methods that learn more instead of anew.
        """
        ...
