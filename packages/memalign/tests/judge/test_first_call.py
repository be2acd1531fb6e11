"""The first call of a process imports large libraries: in a thread, and only those that it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.endpoint import Endpoint

SCRIPT = textwrap.dedent(
    """
    import asyncio, json, sys, threading

    import memalign as ma
    from memalign.judge import judge  # what the line below imports for whoever writes it

    loops, imported, ticks = threading.get_ident(), [], 0
    large = {"anthropic", "genai_prices", "jinja2", "jsonschema", "numpy", "openai", "pydantic_ai", "wordllama"}


    class Watch:
        def find_spec(self, name, path=None, target=None):
            if threading.get_ident() == loops and name.partition(".")[0] in large:
                imported.append(name)


    async def tick():
        global ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1


    async def main():
        rows = json.loads(sys.argv[1])
        one = ma.Judge(name="tone", instructions="{{ inputs }}", feedback_value_type=bool, model="openai:test")
        sys.meta_path.insert(0, Watch())
        ticking = asyncio.create_task(tick())
        if rows:
            one = (await ma.MemAlign().align(one, rows)).judge
        judgment = await one.ajudge(inputs="a")
        if not rows:
            many = await one.ajudge_many([{"id": "x", "inputs": "b"}])
        ticking.cancel()
        print(json.dumps({"value": judgment.value, "imported": imported, "ticks": ticks, "loaded": sorted(large & {*sys.modules})}))

    asyncio.run(main())
    """
)


def first_call(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]]) -> dict[str, object]:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    command = [sys.executable, "-c", SCRIPT, json.dumps(rows)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("rows", [[], [{"id": "t-1", "inputs": "a", "value": True, "source": "ana"}]])
def test_the_first_call_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]]) -> None:
    with Endpoint() as endpoint:
        ran = first_call(endpoint, monkeypatch, rows)
    assert ran["value"] is True
    assert ran["imported"] == [], "nothing large is imported where the loop runs"
    loaded = ran["loaded"]
    assert isinstance(loaded, list)
    assert rows or (ran["ticks"] and "openai" in loaded)
    assert rows or not {"wordllama", "numpy"} & {*loaded}, "a judge without memory needs no embedder"
