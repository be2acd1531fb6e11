"""What an arm is: something that cases teach, and that judges others afterwards."""

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

__all__ = ["Arm", "Fitted", "Setting", "Verdict"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all arms of a cell share: the task, the judge model, the seed.

    `chat` is None where nobody asks a model, so that floors need none.
    """

    task: Task
    chat: ChatModel | None
    seed: int

    @property
    def model(self) -> ChatModel:
        """The judge model, of the arms that ask one."""
        if self.chat is None:
            raise ConfigurationError(f"task {self.task.name!r}: this arm asks a judge model, and there is none")
        return self.chat


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """An arm's answer to one case; `value` is None exactly when `error` says why."""

    value: Value | None
    usage: Usage = Usage()
    error: str | None = None


class Fitted(Protocol):
    """An arm that has learned."""

    @property
    def fit(self) -> Fit:
        """What learning took, and the fingerprint of the state."""
        ...

    async def judge(self, case: Case, view: View) -> Verdict:
        """The verdict on one case, in one of the arm's views; a model's failure is in the verdict's error."""
        ...

    async def close(self) -> None:
        """Let go of what it holds, such as a process."""
        ...


class Arm(Protocol):
    """One way to make a judge from labelled cases."""

    @property
    def name(self) -> str:
        """What configurations and reports call it."""
        ...

    @property
    def views(self) -> frozenset[View]:
        """How it can judge a case, once it has learned: only some arms can hide what they learned from one."""
        ...

    async def learn(self, setting: Setting, train: Sequence[Case], before: Fitted | None) -> Fitted:
        """The judge that `train` (all cases up to this stage, in order) gives.

        `before` is the same arm at the stage before, for arms that learn more instead of anew.
        """
        ...
