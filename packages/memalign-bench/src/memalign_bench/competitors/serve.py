"""One JSON line in, one JSON line out: a competitor behind standard input and output. Standard library only.

    python -I serve.py WORKER.py

WORKER.py has `learn(request) -> (facts, judge)`; `judge(fields) -> {"value": …, "rationale": …}`. Requests:

    {"op": "learn", …}                 {"ok": true, "fingerprint": …, "counts": {…}, "seconds": …} or {"error": …}
    {"op": "judge", "fields": {…}}     {"value": …, "rationale": …} or {"error": …}
    {"op": "close"}                    {"ok": true}, and the end
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Judge = Callable[[dict[str, Any]], dict[str, Any]]
Learn = Callable[[dict[str, Any]], tuple[dict[str, Any], Judge]]


def main(worker: Path) -> None:
    """Serve until asked to close, or until the input ends."""
    # What libraries print must not come between two replies: from here on, standard output is the log.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    learn = _load(worker)
    judge: Judge | None = None
    while True:
        request = json.loads(lines.get())
        try:
            if request["op"] == "learn":
                facts, judge = learn(request)
                reply: dict[str, Any] = {"ok": True, **facts}
            elif request["op"] == "judge" and judge is not None:
                reply = judge(request["fields"])
            elif request["op"] == "close":
                reply = {"ok": True}
            else:
                reply = {"error": f"cannot {request['op']} now"}
        except Exception as error:  # noqa: BLE001  # whatever goes wrong inside a competitor is an answer about the competitor
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"[:600]}
        if "error" in reply:  # the log is the only place that keeps a competitor's own words
            print(reply["error"], file=sys.stderr, flush=True)  # noqa: T201
        replies.write(json.dumps(reply, ensure_ascii=True) + "\n")
        replies.flush()
        if request["op"] == "close":
            break


def _read(lines: queue.SimpleQueue[str]) -> None:
    """Hand on the input's lines; at its end nobody waits any more, and hours of learning may lie ahead."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _load(worker: Path) -> Learn:
    spec = importlib.util.spec_from_file_location(worker.stem, worker)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{worker} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[worker.stem] = module
    spec.loader.exec_module(module)
    learn: Learn = module.learn
    return learn


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Competitors leave threads behind (trackers, caches), some of which wait for ever.
    sys.stderr.flush()
    os._exit(0)
