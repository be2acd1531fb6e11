"""The judge: working memory, prompt, verdict; on one item or on many."""

from memalign.judge.batch import Progress, signature_of
from memalign.judge.instructions import named_fields, named_parts
from memalign.judge.judge import Judge
from memalign.judge.prepare import Prepared
from memalign.memory.retrieval import Retrieved

__all__ = ["Judge", "Prepared", "Progress", "Retrieved", "named_fields", "named_parts", "signature_of"]
