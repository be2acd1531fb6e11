"""The page on Spark and Ray: its blocks are run on the real engines, in order, against a server on loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^<!-- test ([a-z ]+) -->\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_a_pages_blocks_run(engine: str, tmp_path: Path) -> None:
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine))
    if engine == "spark" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    page = (ROOT / "docs" / "how-to" / "spark-and-ray.md").read_text("utf-8")
    code = "\n".join(block for engines, block in BLOCK.findall(page) if engine in engines.split())
    assert code.count(f"on_{engine}.judge") >= 3
    with Endpoint(answer={"rationale": "It says what to do.", "value": True}) as endpoint:
        env = {**os.environ, "OPENAI_BASE_URL": endpoint.base_url, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(endpoint.requests) >= 4
