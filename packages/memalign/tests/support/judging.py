"""A process that judges many items, and is killed at any moment: `python -m tests.support.judging FILE OUT SEED KILLS`.

The model is the endpoint of OPENAI_BASE_URL. A child is forked for every run from one process that has imported
everything; after a while drawn from the seed it is killed. Prints, for every run, the ids that the file had before.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from memalign import Judge
from memalign.models import resolve
from memalign.models.base import ChatRequest
from tests.support.patience import PATIENCE

CONCURRENCY = 4
JUDGE = Judge(
    name="good",
    instructions="Is the reply good?\nReply: {{ outputs }}",
    feedback_value_type=bool,
    model="openai:test",
)


def ids(out: Path) -> list[str]:
    """The ids of the whole lines of a file."""
    lines = out.read_bytes().split(b"\n")[:-1] if out.exists() else []
    return [json.loads(line)["id"] for line in lines]


def child_that(works: Callable[[], object]) -> int:
    """The id of a forked process that does something and ends, with 1 and a traceback where it fails."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            works()
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    return child


def judged(items: Path, out: Path) -> int:
    return child_that(lambda: asyncio.run(JUDGE.ajudge_many(items, concurrency=CONCURRENCY, out=out)))


def main() -> None:
    """Kill so many children, and let the last one finish."""
    items, out = Path(sys.argv[1]), Path(sys.argv[2])
    rng, kills = random.Random(int(sys.argv[3])), int(sys.argv[4])
    request = ChatRequest(system="s", user="warm up", schema={"type": "object", "properties": {}})
    asyncio.run(resolve("openai:test").complete(request))  # imports, before the fork
    for _ in range(kills):
        child, before = judged(items, out), len(ids(out))
        end, ended = time.monotonic() + PATIENCE, 0
        # The moment is counted in lines, not in seconds: a busy machine must not change what is tested.
        wanted = before + rng.randint(0, 9)
        while not ended and len(ids(out)) < wanted and time.monotonic() < end:
            time.sleep(0.001)
            ended, _ = os.waitpid(child, os.WNOHANG)
        if not ended:
            time.sleep(rng.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        sys.stdout.write(f"{json.dumps(ids(out))}\n")
        sys.stdout.flush()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(judged(items, out), 0)[1]))


if __name__ == "__main__":
    main()
