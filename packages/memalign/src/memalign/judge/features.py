"""What can be told of an item without a language model: how long the answer is, and how near to the reference.

Of two sides that a judge chooses between, the difference of the two counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalign.memory.retrieval import embedding_text
from memalign.models.base import EmbeddingModel
from memalign.types import Example

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["plain_features"]


async def plain_features(examples: Sequence[Example], model: EmbeddingModel) -> NDArray[np.float64]:
    """Length of what is judged (log of characters) and its similarity to the reference, of shape (len(examples), 2).

    Without a reference (`expectations`) the similarity is to the inputs.
    """
    import numpy as np

    texts: list[str] = []
    shapes = []
    for example in examples:
        answers = _answers(example)
        texts += [_words(example.expectations) or _words(example.inputs), *answers]
        shapes.append(len(answers))
    vectors = await model.embed(texts)
    rows, place = [], 0
    for count in shapes:
        reference, answers, sides = vectors[place], texts[place + 1 : place + 1 + count], vectors[place + 1 :][:count]
        place += 1 + count
        lengths = [math.log1p(len(answer)) for answer in answers]
        near = [float(reference @ side) for side in sides]
        rows.append([lengths[0] - lengths[1], near[0] - near[1]] if count == 2 else [lengths[0], near[0]])
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2)


def _answers(example: Example) -> list[str]:
    judged = example.outputs if example.outputs is not None else example.content.get("conversation", example.trace)
    if isinstance(judged, dict) and set(judged) == {"A", "B"}:
        return [_words(judged["A"]), _words(judged["B"])]
    return [_words(judged)]


def _words(value: object) -> str:
    return embedding_text(Example(id="text", outputs=value)) if value is not None else ""
