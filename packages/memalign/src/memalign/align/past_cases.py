"""Asking a judge about the cases of its own memory: each costs its verdict, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from memalign.errors import AccessDenied, InputError, ModelError
from memalign.judge import Judge, Progress
from memalign.judge.checks import AskedCheck, ask_checks
from memalign.judge.open_model import open_model
from memalign.judge.prompt import items_alone
from memalign.judge.standing import same_cases
from memalign.judge.verdict import decide
from memalign.memory import Case
from memalign.memory.retrieval import embedding_text
from memalign.models import resolve_embedding
from memalign.models.base import EmbeddingModel, YesNoModel
from memalign.types import Judgment, Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.values import Value

__all__ = ["Answer", "PastCases", "agrees", "hiding"]


class Answer(NamedTuple):
    """A verdict with its reason and the judgment that it comes from, or the error in the place of one."""

    value: Value | None
    rationale: str | None = None
    error: ModelError | InputError | AccessDenied | str | None = None
    judgment: Judgment | None = None

    @property
    def fault(self) -> str | None:
        """Why there is no verdict, in words."""
        return (
            self.error
            if self.error is None or isinstance(self.error, str)
            else f"{type(self.error).__name__}: {self.error}"
        )


class PastCases:
    """Questions to a judge's model, as many at once as it takes; `usage` adds up, and `progress` is told of each."""

    def __init__(self, judge: Judge, total: int, progress: Progress | None, *, phase: str) -> None:
        self.usage = Usage()
        self._total, self._progress, self._phase, self._done = total, progress, phase, 0
        self._slots = asyncio.Semaphore(open_model(judge).limits.concurrency)

    async def ask(self, judge: Judge, case: Case) -> Answer:
        """What `judge` says of the case. An error is an answer too: what was paid for before must not go with it."""
        async with self._slots:
            try:
                judgment = await decide(_without_embedding(judge, case), case.example, standing=False)
            except (ModelError, InputError, AccessDenied) as error:
                if isinstance(error, ModelError):
                    self.usage += error.usage or Usage()
                return Answer(None, error=error)
            finally:
                self.count()
        self.usage += msgspec.structs.replace(judgment.usage, seconds={})
        return Answer(judgment.value, judgment.rationale, judgment.error, None if judgment.error else judgment)

    async def ask_checks(self, judge: Judge, case: Case, checks: Sequence[AskedCheck]) -> Answer:
        """The judge's answers to checks of the case alone, in a judgment without a verdict; its model is a YesNoModel."""
        model = open_model(judge)
        async with self._slots:
            items = items_alone(judge, case.example, model.limits)
            found = await ask_checks(cast("YesNoModel", model), checks, items, seconds=judge.parameters.get("timeout"))
            self.count()
        self.usage += msgspec.structs.replace(found.usage, seconds={})
        if not found.findings:
            return Answer(None, error="; ".join(found.notes) or "no answer")
        return Answer(None, judgment=Judgment(findings=found.findings))

    def count(self) -> None:
        """One more is answered."""
        self._done += 1
        self._total = max(self._total, self._done)
        if self._progress is not None:
            self._progress(self._phase, self._done, self._total)


def hiding(judge: Judge, cases: Sequence[Case]) -> Judge:
    """`judge` as if it had never met the cases, nor others that look the same to it."""
    met = [twin.id for case in cases for twin in same_cases(judge, case.example)]
    return judge.replace(memory=judge.memory.hiding(met)) if met else judge


def agrees(judge: Judge, case: Case, value: Value | None) -> bool:
    """Whether the value agrees with the experts' label."""
    label = judge.memory.label(case)
    return value is not None and label is not None and judge.value_type.agree(label, value)


def _without_embedding(judge: Judge, case: Case) -> Judge:
    """`judge`, for which the case's text costs no embedding; its model embedded the case before.

    It does not calibrate either: a calibrator would be fitted anew to every memory that hides a case.
    """
    judge = judge.replace(parameters={**judge.parameters, "calibrate": False})
    if not case.vector:
        return judge
    model = resolve_embedding(judge.embedding_model)
    return judge.replace(embedding_model=_Known(model, embedding_text(case.example), case.vector))


class _Known:
    """An embedding model that knows one text's vector already."""

    def __init__(self, model: EmbeddingModel, text: str, vector: bytes) -> None:
        self._model, self._text, self._vector = model, text, vector

    @property
    def name(self) -> str:
        return self._model.name

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np  # see Memory.matrix

        if list(texts) == [self._text]:
            return np.frombuffer(self._vector, dtype=np.float32)[None, :]
        return await self._model.embed(texts)
