"""A judge on a real, small Ray, asked at a server on loopback."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import memalign as ma
from tests.support.endpoint import Endpoint, user_of

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own, which are many

PRICES = {"openai:test": {"prices": {"input": 1.0, "output": 1_000.0}}}
JUDGE = ma.Judge(
    name="good",
    instructions="Good? {{ outputs }}",
    feedback_value_type=bool,
    model="openai:test",
    parameters={"models": PRICES},
)


class Server(Endpoint):
    """Says what the reply says, and counts what it was asked."""

    def __init__(self) -> None:
        super().__init__(self.answered)
        self.asked: Counter[str] = Counter()

    def answered(self, body: dict[str, Any]) -> Any:
        reply = json.loads(user_of(body).split("outputs: ")[1].split("\n")[0])
        self.asked[reply] += 1
        return {"rationale": reply, "value": "no" not in reply}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        env = {"OPENAI_BASE_URL": server.base_url, "PYTHONPATH": os.pathsep.join(sys.path)}
        ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": env}, log_to_driver=False)
        yield server
        ray.shutdown()


@pytest.fixture(autouse=True)
def _forget(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.asked.clear()


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"i-{n:02}", "outputs": f"reply {n:02}"} for n in range(count)]


def test_every_row_has_a_verdict_on_two_workers(server: Server) -> None:
    from memalign.integrations import ray as on_ray

    odd = [{"id": None, "outputs": "x"}, {"id": "i-x", "outputs": None}]
    ds = ray.data.from_items(rows(20) + odd).repartition(4)
    verdicts = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, concurrency=4).take_all()
    assert len(verdicts) == 22
    judged = {row["id"]: row["rationale"] for row in verdicts if row["error"] is None}
    assert judged == {f"i-{n:02}": f"reply {n:02}" for n in range(20)}
    assert sum(row["error"].startswith("InputError") for row in verdicts if row["error"]) == 2
    assert set(server.asked.values()) == {1}
    earlier = pa.Table.from_pylist(verdicts)
    more = on_ray.judge(ray.data.from_items(rows(25)), JUDGE, tasks=1, done=earlier).take_all()
    assert sorted(row["id"] for row in more) == [f"i-{n:02}" for n in range(20, 25)]


def test_all_workers_together_keep_the_limit(server: Server) -> None:
    from memalign.integrations import ray as on_ray

    cost = on_ray.judge(ray.data.from_items(rows(1)), JUDGE, tasks=1).take_all()[0]["cost"]
    server.asked.clear()
    ds = ray.data.from_items(rows(20)).repartition(4)
    verdicts = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, max_cost=8.5 * cost, rows_per_second=200).take_all()
    judged = sum(row["error"] is None for row in verdicts)
    assert 4 <= judged == sum(server.asked.values()) <= 8
    assert len(verdicts) == 20
    assert all("NotJudged" in row["error"] for row in verdicts if row["error"])
