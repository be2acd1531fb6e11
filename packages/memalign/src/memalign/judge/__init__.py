"""The judge: working memory, prompt, verdict; on one item or on many."""

from memalign.judge.frames import JudgmentList
from memalign.judge.judge import Judge, signature_of, task_of
from memalign.judge.many import Progress
from memalign.judge.prompt import Prompt
from memalign.judge.rules import rule_sentence
from memalign.judge.spec import named_parts
from memalign.judge.task import Task

__all__ = [
    "Judge",
    "JudgmentList",
    "Progress",
    "Prompt",
    "Task",
    "named_parts",
    "rule_sentence",
    "signature_of",
    "task_of",
]
