"""The judge: working memory, prompt, verdict; on one item or on many."""

from memalign.judge.instructions import named_fields
from memalign.judge.judge import Judge
from memalign.judge.many import Progress, signature_of
from memalign.judge.prompt import Prepared

__all__ = ["Judge", "Prepared", "Progress", "named_fields", "signature_of"]
