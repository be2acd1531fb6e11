"""Judging from object stores by the command line, and what it would cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from memalign.io import read_judgments
from tests.cli.conftest import Run, jsonl
from tests.cli.test_judging import items
from tests.support.endpoint import Endpoint


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A bucket on an S3 server of its own."""
    s3fs, servers = pytest.importorskip("s3fs"), pytest.importorskip("moto.server")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem()
    fs.mkdir("lake")
    yield fs
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_rows_of_a_url_are_judged(memalign: Run, tone: str, store: Any, endpoint: Endpoint) -> None:
    store.pipe_file("/in/rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in items(5)).encode())
    arguments = ("judge", tone, "memory://in/rows.jsonl", "-o", "judged.jsonl")
    first = memalign(*arguments)
    assert (first.code, first.out.split(",")[0]) == (0, "5 judged into judged.jsonl")
    assert set(read_judgments("judged.jsonl").judgments) == {row["id"] for row in items(5)}
    assert memalign(*arguments).out.startswith("0 judged into judged.jsonl, 5 there already")
    assert len(endpoint.requests) == 5


@pytest.mark.slow  # needs s3fs and moto's server, in an environment that has them
def test_an_s3_lake_is_judged(memalign: Run, tone: str, lake: Any, endpoint: Endpoint) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for day in (1, 2):
        rows = pa.Table.from_pylist(items(20)[10 * (day - 1) : 10 * day])
        with lake.open(f"lake/traces/day=2026-01-0{day}/part-0.parquet", "wb") as file:
            pq.write_table(rows, file)
    arguments = ("judge", tone, "s3://lake/traces", "-o", "judged.jsonl")
    first = memalign(*arguments)
    assert (first.code, first.out.split(",")[0]) == (0, "20 judged into judged.jsonl"), first.err
    assert set(read_judgments("judged.jsonl").judgments) == {row["id"] for row in items(20)}
    assert memalign(*arguments).out.startswith("0 judged into judged.jsonl, 20 there already")
    assert len(endpoint.requests) == 20
    refused = memalign("judge", tone, "s3://no-such-bucket/rows.jsonl")
    assert (refused.code, "Traceback" in refused.err) == (2, False)


def test_a_dry_run_asks_nobody(memalign: Run, tone: str, tmp_path: Path, endpoint: Endpoint) -> None:
    jsonl(tmp_path / "many.jsonl", items(3_000))
    said = memalign("judge", tone, "many.jsonl", "--dry-run")
    assert said.code == 0
    assert said.out.startswith("3,000 rows, of which 200 were sampled\nabout 3,000 calls, ")
    assert "memalign edit tone --price" in said.out
    assert memalign("edit", tone, "--price", "input=1,output=1").code == 0
    assert memalign("judge", tone, "many.jsonl", "--dry-run", "--json").json["estimate"]["cost"] > 0
    assert not endpoint.requests
    jsonl(tmp_path / "empty.jsonl", [])
    assert memalign("judge", tone, "empty.jsonl", "--dry-run").code == 2
    bad = memalign("judge", tone, jsonl(tmp_path / "bad.jsonl", [{"id": "a", "outputs": "x"}]), "--dry-run")
    assert (bad.code, "bad.jsonl has no column for inputs. Its columns are id, outputs" in bad.err) == (2, True)
