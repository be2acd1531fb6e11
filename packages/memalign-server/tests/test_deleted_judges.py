"""A judge that is deleted takes everything with it, and whoever takes its name begins with nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import MetaData, Table, func, select
from typer.testing import CliRunner

from memalign.cli.app import app
from server_support import world
from server_support.reviewing import answer, post, put_in, wait

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

WORDS = "It never says when the parcel of Mrs Okafor arrives."
CASES = [
    {"id": "okafor-1", "inputs": "Where is the parcel of Mrs Okafor?", "outputs": "It is in transit."},
    {"id": "okafor-2", "inputs": "Mrs Okafor was charged twice.", "outputs": "One charge will be reversed."},
    {"id": "okafor-3", "inputs": "Mrs Okafor says thanks.", "outputs": "Any time!"},
]


def taught(client: TestClient, judge: str = "tone") -> None:
    """A judge with a queue, answers, a taught case and jobs with results."""
    put_in(client, CASES, judge=judge)
    answer(client, "okafor-1", judge=judge, value="false", rationale=WORDS)
    post(client, f"/judges/{judge}/teach")
    wait(client, judge)
    answer(client, "okafor-2", judge=judge, value="true")


def rows_of(url: str, judge: int) -> dict[str, int]:
    """How many rows of each table belong to a judge's number."""
    found, metadata = dict[str, int](), MetaData()
    with world.opened(url)._database.read() as connection:
        metadata.reflect(connection)
        for table in metadata.sorted_tables:
            if "judge" in table.c:
                of_judge = select(func.count()).select_from(table).where(table.c.judge == judge)
                if number := connection.execute(of_judge).scalar_one():
                    found[table.name] = number
    return found


def number_of(url: str, judge: str) -> int:
    metadata = MetaData()
    with world.opened(url)._database.read() as connection:
        judges = Table("memalign_judges", metadata, autoload_with=connection)
        return int(connection.execute(select(judges.c.id).where(judges.c.name == judge)).scalar_one())


def test_a_deleted_judge_leaves_no_row(shared: world.Shared) -> None:
    owner, url = shared.signed_in("owner"), shared.server.registry.url
    taught(owner)
    number = number_of(url, "tone")
    assert {"memalign_server_queue", "memalign_server_reviews", "memalign_server_jobs"} <= set(rows_of(url, number))
    done = CliRunner().invoke(app, ["delete", "tone", "--yes", "--registry", url])
    assert done.exit_code == 0, done.output
    assert rows_of(url, number) == {}
    assert world.tables_with(url, "Okafor", "okafor-1", WORDS) == set()


def test_a_judge_that_is_gone_has_no_jobs_and_its_heir_nothing(shared: world.Shared) -> None:
    owner = shared.signed_in("owner")
    taught(owner, "other")
    jobs = [job.id for job in shared.server.jobs.recent("other")]
    assert jobs
    shared.server.registry.delete("other")
    heir: dict[str, Any] = {"name": "other", "instructions": world.INSTRUCTIONS, "kind": "bool"}
    for made in (False, True):
        if made:
            assert post(owner, "/judges", **heir, model="local:qwen2.5-coder-1.5b").status_code == 303
        for job in jobs:
            assert owner.get(f"/api/v1/judges/other/jobs/{job}").status_code == 404
            for path in ("/judges/other/jobs/{}", "/judges/other/learned?job={}"):
                assert owner.get(path.format(job)).status_code in (404, 422), path
    assert shared.server.jobs.recent("other") == []
    for path in ("review", "trust", "setup", "learned"):
        assert "Okafor" not in owner.get(f"/judges/other/{path}").text, path
