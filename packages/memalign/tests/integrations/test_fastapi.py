"""Judgments and items in FastAPI: as answers, as bodies, in the page of OpenAPI."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from memalign import Example, Judgment
from tests.support.scripted import scripted

fastapi = pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

JUDGE, _ = scripted()
app = fastapi.FastAPI()


@app.post("/typed")
async def typed(item: Annotated[Example, fastapi.Body()]) -> Judgment:
    return await JUDGE.ajudge(item)


def test_a_typed_endpoint_takes_items_and_gives_judgments() -> None:
    client = testclient.TestClient(app)
    answer = client.post(
        "/typed", json={"id": "t-9", "outputs": "Hello", "meta": {"team": 3}}
    )
    assert answer.status_code == 200
    judgment = Judgment.from_dict(answer.json())
    here = JUDGE(outputs="Hello", id="t-9")
    assert judgment == msgspec.structs.replace(here, usage=judgment.usage)
    for body in ({"outputs": "no id"}, {"id": "t"}, {"id": 3, "outputs": "x"}, "text"):
        assert client.post("/typed", json=body).status_code == 422
