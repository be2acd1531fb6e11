"""A judge, a model's server that counts what it was asked, and a Spark and a Ray of two
workers that ask it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import memalign as ma
from tests.support.endpoint import Body, Endpoint, server_error, user_of

PRICES = {"openai:test": {"prices": {"input": 1.0, "output": 1_000.0}}}
JUDGE = ma.Judge(
    name="good",
    instructions="Good? {{ outputs }}",
    feedback_value_type=bool,
    model="openai:test",
    parameters={"models": PRICES},
)


class Server(Endpoint):
    """Says what the reply says, fails where it should, and counts what it was asked, of
    which it keeps no more."""

    def __init__(self) -> None:
        super().__init__(self.answered)
        self.asked: Counter[str] = Counter()
        self.broken = ""

    def answered(self, body: Body) -> Any:
        reply = json.loads(user_of(body).split("outputs: ")[1].split("\n")[0])
        with self._lock:
            self.asked[reply] += 1
            for record in (self.requests, self.bodies, self.headers, self._prompts):
                record.clear()
        if reply == self.broken:
            return server_error(400)
        return {"rationale": reply, "value": "no" not in reply}


@contextmanager
def spark_of_two_workers(base_url: str) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.OPENAI_BASE_URL": base_url,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.sql.shuffle.partitions": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        del os.environ["PYSPARK_PYTHON"]


@contextmanager
def ray_of_two_workers(base_url: str) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    env = {"OPENAI_BASE_URL": base_url, "PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"env_vars": env},
        log_to_driver=False,
    )
    try:
        yield ray
    finally:
        ray.shutdown()
