"""Make the demo's recording again: write the prompts without an answer, and read answers back.

python benchmarks/demo_recording.py FOLDER

FOLDER/prompts.jsonl gets a line for each prompt without an answer: its key, the system and the user
text, and the JSON schema of the answer. Whoever answers, by hand or with a script around a model,
appends {"key": KEY, "answer": OBJECT} to FOLDER/answers.jsonl. Run the command again until it says
that the recording is written: a later stage's prompts depend on the answers to an earlier one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from shared import Line, parser_of, read_lines, write_lines

from memalign.cli.demo import WITHDRAWN, evaluated, shown_again, story_on
from memalign.cli.recording import RECORDING, prompt_key
from memalign.errors import ModelRejected
from memalign.models.base import ChatReply, ChatRequest, Limits
from memalign.types import Usage

Lines = dict[str, Line]
"""By the key of a prompt."""


class AskingModel:
    """A model that gives the answers it was given, and collects the prompts that have none."""

    name = "recording"
    limits = Limits()

    def __init__(self, answers: Iterable[Line]) -> None:
        """Take the answers that there are, each with the key of its prompt."""
        self.answers: Lines = {}
        self.used: Lines = {}
        self.missing: Lines = {}
        for line in answers:
            key = line["key"]
            self.answers[key] = line["answer"]

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the answer that was given, or collect the prompt and raise ModelRejected."""
        key = prompt_key(request)
        answer = self.answers.get(key)
        if not isinstance(answer, dict):
            self.missing[key] = {
                "key": key,
                "system": request.system,
                "user": request.user,
                "schema": request.schema,
            }
            raise ModelRejected("nobody has answered this prompt yet")
        self.used[key] = {"prompt": key, "answer": answer}
        text = json.dumps(answer)
        usage = Usage(calls=1)
        return ChatReply(data=answer, text=text, usage=usage)


def ask_in_stages(model: AskingModel) -> None:
    """Run the demo's stages; stop after the first one with a prompt that has no answer."""
    story = story_on(model)
    before = evaluated(story.judge, story.unseen)
    learned = story.judge.align(story.lessons)
    if model.missing:
        return
    after = evaluated(learned.judge, story.unseen)
    if model.missing:
        return
    forgot = learned.judge.unalign(source=WITHDRAWN)
    if model.missing:
        return
    evaluated(forgot.judge, shown_again(story, before, after))


def main() -> int:
    """Ask, and write either the prompts that are left or the recording."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    answers = read_lines(folder / "answers.jsonl")
    model = AskingModel(answers)
    ask_in_stages(model)
    prompts = folder / "prompts.jsonl"
    write_lines(prompts, model.missing.values())
    if model.missing:
        n = len(model.missing)
        print(f"{n} prompts wait for an answer: {prompts}")
        return 1
    recording = Path(str(RECORDING))
    write_lines(recording, model.used.values())
    n = len(model.used)
    print(f"{n} answers are recorded: {recording}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
