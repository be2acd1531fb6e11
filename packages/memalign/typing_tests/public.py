"""What a type checker must see of the public surface; mypy reads this file, and nobody runs it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, assert_type

from annotated_types import Ge, Le

import memalign as ma
from memalign.errors import InvalidRows, RowError
from memalign.judge import JudgmentList
from memalign.models import ChatModel, EmbeddingModel, resolve, resolve_embedding
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign.types import LedgerState
from memalign.values import Value


class Side(StrEnum):
    """Choices as a StrEnum."""

    A = "a"
    B = "b"


class Grade(Enum):
    """Choices as an Enum."""

    GOOD = "good"
    BAD = "bad"


# Every value type is accepted as it is written in Python and as files and flags write it.
ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=Literal["A", "B"])
ma.Judge(
    name="j",
    instructions="{{ outputs }}",
    feedback_value_type=Annotated[int, Ge(1), Le(5)],
)
ma.Judge(
    name="j",
    instructions="{{ outputs }}",
    feedback_value_type=Annotated[float, Ge(0), Le(1)],
)
ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type="A|B|tie")
ma.Judge(
    name="j",
    instructions="{{ outputs }}",
    feedback_value_type=ma.ValueType.of("int:1..5"),
)
ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=Side)
ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=Grade)
ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=7)  # type: ignore[arg-type]
judge = ma.Judge(
    name="helpful", instructions="Is {{ outputs }} helpful?", feedback_value_type=bool
)
# A class gives the verdicts' type; of what is written in another way a verdict is any label.
assert_type(judge, ma.Judge[bool])
assert_type(
    ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=str),
    ma.Judge[str],
)
scored = ma.Judge(
    name="j", instructions="{{ outputs }}", feedback_value_type="int:1..5"
)
assert_type(scored, ma.Judge[Value])
assert_type(scored(outputs="…").value, Value | None)
either: ma.Judge = judge  # a judge of booleans is a judge

assert_type(judge.name, str)
assert_type(judge.instructions, str)
assert_type(judge.value_type, ma.ValueType)
assert_type(judge.memory, ma.Memory)
assert_type(judge.replace(model="openai:/gpt-4.1-mini"), ma.Judge[bool])

# One judgment, many judgments.
judgment = judge(inputs="I was charged twice!", outputs="One charge will be reversed.")
assert_type(judgment, ma.Judgment[bool])
assert_type(judgment.value, bool | None)
assert_type(judgment.rationale, str | None)
assert_type(judgment.confidence, float | None)
assert_type(judgment.error, str | None)
assert_type(judgment.guideline_ids, tuple[str, ...])
assert_type(judgment.usage, ma.Usage)
assert_type(judgment.usage.cost, float | None)
assert_type(judgment.usage + judgment.usage, ma.Usage)
assert_type(judgment.id, str)
assert_type(judgment.to_dict(), dict[str, Any])
assert_type(ma.Judgment.from_dict({}), ma.Judgment)
judge(answer="No such field.")  # type: ignore[call-arg]

examples = [ma.Example(id="e-1", outputs="Sorry to hear that. The charge is reversed.")]
assert_type(examples[0].inputs, Any)
assert_type(
    judge.judge_many(examples, concurrency=32, out="judged.jsonl"), JudgmentList[bool]
)


async def asynchronously() -> None:
    """The same, awaited."""
    assert_type(await judge.ajudge(outputs="…"), ma.Judgment[bool])
    assert_type(await judge.aalign([feedback]), ma.AlignResult[bool])
    assert_type((await judge.aunalign("t-1")).judge, ma.Judge[bool])
    assert_type(await judge.ajudge_many(examples), JudgmentList[bool])
    assert_type(await registry.aalign("tone", [feedback]), ma.AlignResult)
    assert_type(await registry.aunalign("tone", "t-1"), ma.AlignResult)
    assert_type(await registry.aestimate("tone", [feedback]), ma.Usage)


# Learning and forgetting.
feedback = ma.Feedback(
    id="t-1", outputs="No.", value=False, rationale="Cold.", source="ana"
)
assert_type(feedback.key, ma.FeedbackKey)
assert_type(feedback.example, ma.Example | None)
result = judge.align([feedback])
assert_type(result, ma.AlignResult[bool])
assert_type(
    judge.align([{"id": "t-1", "outputs": "No.", "value": False}]), ma.AlignResult[bool]
)


class Table:
    """What a DataFrame of any library is to a type checker."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


assert_type(
    judge.align(Table(), optimizer=ma.MemAlign(columns={"outputs": "answer"})),
    ma.AlignResult[bool],
)
assert_type(ma.evaluate(judge, Table()), ma.Evaluation)
assert_type(judge.judge_many(Table()).to_frame(), Any)
assert_type(
    judge.align("feedback.jsonl", optimizer=ma.MemAlign(retrieval_k=3)),
    ma.AlignResult[bool],
)
assert_type(result.judge, ma.Judge[bool])
assert_type(result.guidelines, tuple[ma.Guideline, ...])
assert_type(result.rows[0].state, LedgerState | None)
assert_type(result.usage, ma.Usage)
assert_type(result.judge.memory.semantic, tuple[ma.Guideline, ...])
assert_type(result.judge.unalign("t-1").judge, ma.Judge[bool])
assert_type(result.judge.unalign(source="ana"), ma.AlignResult[bool])

# A registry has the keywords of a judge.
registry = ma.Registry("sqlite:///memalign.db")
assert_type(registry.load("tone"), ma.Judge)
assert_type(
    registry.align("tone", [feedback], skip_invalid=True, force=True), ma.AlignResult
)
assert_type(
    registry.align("tone", Table(), columns={"outputs": "answer"}), ma.AlignResult
)
assert_type(
    registry.unalign("tone", "t-17", source="ana", people_agree=True), ma.AlignResult
)
assert_type(
    registry.estimate("tone", "feedback.jsonl", optimizer=ma.MemAlign()), ma.Usage
)
registry.align("tone", "feedback.jsonl", skip_invalids=True)  # type: ignore[call-arg]
registry.unalign("tone", "t-17", dry_run=True)  # type: ignore[call-arg]
registry.estimate("tone", "feedback.jsonl", force=True)  # type: ignore[call-arg]

# Agreement with people.
evaluation = ma.evaluate(judge, "held_out.jsonl")
assert_type(evaluation, ma.Evaluation)
assert_type(ma.compare(evaluation, evaluation), ma.Comparison)

# Models are Protocols: ours, the fakes and anything of the same shape.
chat: ChatModel = ScriptedChatModel([{"rationale": "Kind.", "value": True}])
embedding: EmbeddingModel = HashEmbedding()
assert_type(resolve(None), ChatModel)
assert_type(resolve_embedding("openai:text-embedding-3-small"), EmbeddingModel)
ma.Judge(
    name="n",
    instructions="{{ outputs }}",
    feedback_value_type=bool,
    model=chat,
    embedding_model=embedding,
)

# Errors carry what a program needs.
try:
    judge.align("feedback.jsonl")
except InvalidRows as error:
    rows: Sequence[RowError] = error.rows
    assert_type(rows[0].line, int)
