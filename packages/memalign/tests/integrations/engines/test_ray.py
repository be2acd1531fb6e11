"""A judge on a real, small Ray, asked at a server on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engines import JUDGE, Server, ray_of_two_workers

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own, which are many


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"i-{n:02}", "outputs": f"reply {n:02}"} for n in range(count)]


def test_every_row_has_a_verdict_within_the_limit_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from memalign.integrations import ray as on_ray

    with Server() as server, ray_of_two_workers(server.base_url) as ray:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
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
        server.asked.clear()
        limit = 8.5 * more[0]["cost"]
        ds = ray.data.from_items(rows(20)).repartition(4)
        verdicts = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, max_cost=limit, rows_per_second=200).take_all()
        count = sum(row["error"] is None for row in verdicts)
        assert len(verdicts) == 20
        assert 4 <= count == sum(server.asked.values()) <= 8
        assert all("NotJudged" in row["error"] for row in verdicts if row["error"])
