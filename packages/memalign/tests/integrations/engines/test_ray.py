"""A judge on a real, small Ray, asked at a server on loopback; and one whose model runs in an engine of Ray Data LLM."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import memalign as ma
from memalign.errors import InputError
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
    return [{"id": f"i-{n}", "outputs": f"reply {n}"} for n in range(count)]


def test_a_row_a_row_on_two_workers(server: Server) -> None:
    from memalign.integrations import ray as on_ray

    odd = [{"id": None, "outputs": "x"}, {"id": "i-x", "outputs": None}]
    ds = ray.data.from_items(rows(20) + odd).repartition(4)
    found = on_ray.judge(ds, JUDGE, workers=(1, 2), batch_size=5, concurrency=4).take_all()
    assert len(found) == 22
    judged = {row["id"]: row["rationale"] for row in found if row["error"] is None}
    assert judged == {f"i-{n}": f"reply {n}" for n in range(20)}
    assert sum(row["error"].startswith("InputError") for row in found if row["error"]) == 2
    assert set(server.asked.values()) == {1}
    earlier = pa.Table.from_pylist(found)
    more = on_ray.judge(ray.data.from_items(rows(25)), JUDGE, done=earlier).take_all()
    assert sorted(row["id"] for row in more) == [f"i-{n}" for n in range(20, 25)]


def test_all_workers_share_one_limit_of_cost(server: Server) -> None:
    from memalign.integrations import ray as on_ray

    one = on_ray.judge(ray.data.from_items(rows(1)), JUDGE).take_all()[0]["cost"]
    server.asked.clear()
    ds = ray.data.from_items(rows(20)).repartition(4)
    found = on_ray.judge(ds, JUDGE, workers=2, batch_size=5, max_cost=8.5 * one, calls_per_second=200).take_all()
    assert 7 <= sum(row["error"] is None for row in found) == sum(server.asked.values()) <= 9
    assert len(found) == 20


def test_an_engine_of_ray_data_llm_judges(server: Server) -> None:
    """Its HTTP engine in the place of vLLM's, which needs a GPU: the same rows go in, and the same columns come out."""
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    from memalign.integrations import ray as on_ray

    def payload(row: dict[str, Any]) -> dict[str, Any]:
        row["sampling_params"] |= {
            "structured_outputs": json.loads(row["sampling_params"]["structured_outputs"]["json"])
        }
        assert row["sampling_params"]["structured_outputs"]["properties"]["value"]["type"] == "boolean"
        return {"payload": {"model": "m", "messages": list(row["messages"])}}

    def text(row: dict[str, Any]) -> dict[str, Any]:
        answer = row["http_response"]
        told = {"num_input_tokens": answer["usage"]["prompt_tokens"], "num_generated_tokens": 5}
        return {**row, "generated_text": answer["choices"][0]["message"]["content"], **told}

    config = HttpRequestProcessorConfig(url=f"{server.base_url}/chat/completions", batch_size=4, concurrency=1)
    engine = build_processor(config, preprocess=payload, postprocess=text)
    ds = ray.data.from_items(rows(6))
    found = on_ray.offline(ds, JUDGE, engine, model="vllm:test").take_all()
    assert {row["id"]: row["rationale"] for row in found} == {f"i-{n}": f"reply {n}" for n in range(6)}
    assert all(row["input_tokens"] > 0 and row["output_tokens"] == 5 and row["value"] for row in found)
    assert {row["judge"].split("@")[0] for row in found} == {"good"}


def test_an_engine_that_says_nothing_fails_its_rows() -> None:
    from memalign.integrations import ray as on_ray

    def silent(ds: Any) -> Any:
        return ds.map(lambda row: {**row, "generated_text": "" if row["id"] == "i-1" else '{"value": true}'})

    odd = [*rows(2), {"id": None, "outputs": "x"}]
    found = on_ray.offline(ray.data.from_items(odd), JUDGE, silent, model="vllm:test").take_all()
    errors = {row["id"]: row["error"].split(":")[0] for row in found}
    assert errors == {"i-0": "InvalidOutput", "i-1": "ModelUnavailable", None: "InputError"}


@pytest.mark.parametrize("parameters", [{"samples": 3}, {"swap": True}])
def test_an_engine_is_asked_once_a_row(parameters: dict[str, Any]) -> None:
    from memalign.integrations import ray as on_ray

    judge = JUDGE.replace(parameters=parameters, feedback_value_type="A|B")
    with pytest.raises(InputError, match="once about a row"):
        on_ray.offline(ray.data.from_items(rows(1)), judge, lambda ds: ds, model="vllm:test")
