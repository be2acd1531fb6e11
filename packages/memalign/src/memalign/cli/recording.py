"""A model that replays recorded answers, so that the demo needs no key and no download."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING

from memalign.errors import ModelRejected

if TYPE_CHECKING:
    from memalign.models.base import ChatReply, ChatRequest

RECORDING = resources.files("memalign.cli") / "demo_data" / "recording.jsonl"
REMAKE = "python benchmarks/demo_recording.py FOLDER"


class RecordedModel:
    """A chat model that gives the recorded answer to each prompt it knows.

    Attributes:
        name: What the demo shows in the place of a model's name.
        limits: Those of a strong model with a large context.
        replayed: How many answers were given.
    """

    name = "recording"

    def __init__(self) -> None:
        """Read the recording that comes with the package."""
        from memalign.models.base import Limits

        self.limits = Limits()
        lines = RECORDING.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        self._answers = {record["prompt"]: record["answer"] for record in records}
        self.replayed = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the recorded answer.

        Raises:
            ModelRejected: The recording has no answer to this prompt.
        """
        from memalign.models.base import ChatReply
        from memalign.types import Usage

        answer = self._answers.get(prompt_key(request))
        if answer is None:
            raise ModelRejected(
                f"the recording of the demo does not know this prompt; `{REMAKE}` makes a new one"
            )
        self.replayed += 1
        text = json.dumps(answer, ensure_ascii=False)
        return ChatReply(data=answer, text=text, usage=Usage(calls=1))


def prompt_key(request: ChatRequest) -> str:
    """Return the hash under which the answer to a request is recorded."""
    words = "\0".join((request.system, request.user, request.schema_name))
    return hashlib.sha256(words.encode()).hexdigest()
