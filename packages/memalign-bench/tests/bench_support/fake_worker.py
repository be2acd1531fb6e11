"""A competitor that is easy to read: it asks the model once a case, and misbehaves as its task's name says."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any


def learn(request: dict[str, Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    name = request["name"]
    print("a library says hello")  # noqa: T201  # what must not reach the protocol
    os.write(1, b"and one in C does too\n")
    if name == "learns_for_hours":
        time.sleep(60)
    if name == "lacks_package":
        raise ModuleNotFoundError("No module named 'peerlib'")
    if name == "cannot_learn":
        raise ValueError("two rows are too few")
    if name == "dies_learning":
        sys.stderr.write("the roof fell in\n")
        sys.stderr.flush()
        os._exit(3)
    ask(request, "learn from this")
    facts = {"fingerprint": f"fp-{len(request['rows'])}", "counts": {"examples": len(request["rows"])}, "seconds": 4.0}

    def judge(fields: dict[str, Any]) -> dict[str, Any]:
        match fields["outputs"]:
            case "die":
                sys.stderr.write("out of memory\n")
                sys.stderr.flush()
                os._exit(9)
            case "wait":
                time.sleep(60)
            case "refuse":
                return {"error": "the model declined"}
            case "odd":
                return {"value": "perhaps"}
        return {"value": ask(request, fields["outputs"]), "rationale": "Because."}

    return facts, judge


def ask(request: dict[str, Any], text: str) -> Any:
    body = {"model": request["model"], "messages": [{"role": "user", "content": text}]}
    call = urllib.request.Request(
        f"{request['base_url']}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(call) as response:
        return json.loads(json.load(response)["choices"][0]["message"]["content"])
