"""What can be told of an item without a language model: how long the answer is, and how near to the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalign.content import sides_of
from memalign.memory.retrieval import embedding_text
from memalign.models.base import EmbeddingModel
from memalign.types import Example
from memalign.values import ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["plain_features"]


async def plain_features(
    examples: Sequence[Example], value_type: ValueType, model: EmbeddingModel
) -> NDArray[np.float64]:
    """Length of what is judged (log of characters) and its similarity to the reference, of shape (len(examples), 2).

    Of the two sides of a pair, the difference. Without a reference (`expectations`) the similarity is to the inputs.
    """
    import numpy as np

    texts = [
        [_words(example.expectations) or _words(example.inputs), *_judged(example, value_type)] for example in examples
    ]
    vectors = iter(await model.embed([text for several in texts for text in several]))
    rows = []
    for _, *judged in texts:
        reference = next(vectors)
        lengths = [math.log1p(len(text)) for text in judged]
        near = [float(reference @ next(vectors)) for _ in judged]
        rows.append([lengths[0] - lengths[1], near[0] - near[1]] if len(judged) == 2 else [lengths[0], near[0]])
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2)


def _judged(example: Example, value_type: ValueType) -> list[str]:
    """What is judged, as text; of a pair its two sides, in the order of the judge's labels."""
    sides = sides_of(example.content, value_type.choices)
    if len(sides) == 2:
        return [_words(sides[name]) for name in value_type.choices if name in sides]
    judged = example.outputs if example.outputs is not None else example.content.get("conversation", example.trace)
    return [_words(judged)]


def _words(value: object) -> str:
    return embedding_text(Example(id="text", outputs=value)) if value is not None else ""
