"""The judge: working memory, prompt, verdict; on one item or on many."""

from memalign.judge.frames import JudgmentList
from memalign.judge.judge import Judge
from memalign.judge.many import Progress, signature_of
from memalign.judge.prompt import Prompt
from memalign.judge.spec import named_parts

__all__ = ["Judge", "JudgmentList", "Progress", "Prompt", "named_parts", "signature_of"]
