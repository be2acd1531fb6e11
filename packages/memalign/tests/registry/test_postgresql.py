"""What is true of registries on a PostgreSQL server alone: all else here runs on both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memalign import Registry
from memalign.errors import ConfigurationError, RegistryError, RegistryTooNew
from memalign.registry import versions
from tests.support.places import OnPostgreSQL, place_of
from tests.support.postgres import AVAILABLE, PASSWORD, Server
from tests.support.registry import (
    all_versions,
    case,
    erase,
    judge,
    keys_of,
    memory_of,
    models,
    optimizer,
    row,
)

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="no PostgreSQL here")

SECRET = (
    "Maria Oliveira of Lisbon lost nine hundred euros "
    "when her card was charged twice in May"
)
TOLD = memory_of(case("t-1", "ana", says=SECRET), case("t-2", "ana"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[OnPostgreSQL]:
    with place_of("postgresql", tmp_path) as place:
        assert isinstance(place, OnPostgreSQL)
        yield place


def test_one_reading_sees_one_state(place: OnPostgreSQL) -> None:
    registry = place.registry()
    registry.create(judge())
    with registry._database.read() as connection:
        seen = versions.find(connection, "helpfulness")
        registry.save(judge(memory_of(case("t-1", "ana"))))
        # Or a version would be read in two halves.
        assert versions.find(connection, "helpfulness") == seen


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"password": "wrong"}, "password authentication failed"),
        ({"database": "nowhere"}, 'database "nowhere" does not exist'),
        ({"port": "1"}, "Connection refused"),
    ],
)
def test_an_address_that_is_wrong_says_what_is(
    place: OnPostgreSQL, wrong: dict[str, str], says: str
) -> None:
    right = {
        "password": PASSWORD.replace("/", "%2F"),
        "port": str(place.server.port),
        "database": place.name,
    }
    given = right | wrong
    server = f"127.0.0.1:{given['port']}/{given['database']}"
    with pytest.raises(RegistryError, match=says) as caught:
        Registry(f"postgresql+psycopg://postgres:{given['password']}@{server}")
    assert f"postgres@{server}" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_shorter_schemes_open_it_and_no_message_shows_the_password(
    place: OnPostgreSQL,
) -> None:
    place.registry().create(judge())
    for scheme in ("postgresql", "postgres"):
        registry = Registry(place.url.replace("postgresql+psycopg", scheme))
        assert registry.load("helpfulness") == judge()
    address = f"postgres@127.0.0.1:{place.server.port}/{place.name}"
    password = PASSWORD.replace("/", "%2F")
    assert "s3cret" not in repr(place.registry())
    assert "s3cret" not in repr(Registry(f"postgresql://{address}?password={password}"))
    place.execute("UPDATE memalign_meta SET value = '7' WHERE name = 'schema_version'")
    with pytest.raises(RegistryTooNew, match="its schema is version 7") as caught:
        place.registry()
    assert "s3cret" not in str(caught.value)


def test_without_the_driver_the_extra_is_named(
    place: OnPostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = r"pip install 'psycopg\[binary\]', which memalign\[postgresql\]"
    with pytest.raises(ConfigurationError, match=said):
        Registry(place.url)


@contextmanager
def person(place: OnPostgreSQL, *rights: str) -> Iterator[str]:
    """The URL of somebody with these rights only."""
    place.execute("CREATE ROLE ana LOGIN PASSWORD 'pw'")
    for right in rights:
        place.execute(right)
    try:
        yield place.server.url(place.name, user="ana", password="pw")
    finally:
        place.execute("DROP OWNED BY ana")
        place.execute("DROP ROLE ana")


def test_who_may_only_read_pays_for_nothing(place: OnPostgreSQL) -> None:
    place.registry().create(judge(memory_of(case("t-1", "ana"))))
    with person(place, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO ana") as url:
        registry = Registry(url)
        assert keys_of(registry.load("helpfulness")) == {"t-1@ana"}
        chat, embedding = models()
        rows = [row("t-2", "ana", "it is cold")]
        said = "permission denied .*; what was committed before is kept"
        with pytest.raises(RegistryError, match=said):
            registry.align("helpfulness", rows, optimizer=optimizer(chat, embedding))
        assert not chat.requests


def test_an_erasure_by_another_than_the_owner_says_what_is_missing(
    place: OnPostgreSQL,
) -> None:
    place.registry().create(judge(TOLD))
    right = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ana"
    with (
        person(place, right) as url,
        pytest.raises(RegistryError, match=r"is committed, but .* let the owner"),
    ):
        erase(Registry(url), "t-1")
    place.registry().compact()
    assert SECRET.encode() not in place.bytes()


def test_a_transaction_that_still_sees_it_is_named(place: OnPostgreSQL) -> None:
    registry = place.registry(busy_timeout=0.5)
    registry.create(judge(TOLD))
    said = r"is committed, but what .* process \d+ of a dashboard; end it"
    with place.server.connect(place.name) as reader:
        reader.execute("SET application_name = 'a dashboard'")
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")
        with pytest.raises(RegistryError, match=said):
            erase(registry, "t-1")
        registry.save(judge(model="openai:gpt-5"))
        reader.execute("ROLLBACK")
    assert SECRET.encode() in place.bytes()
    registry.compact()
    assert SECRET.encode() not in place.bytes()


def test_statistics_quote_no_words(place: OnPostgreSQL) -> None:
    cases = [case(f"t-{n}", "ana") for n in range(40)]
    place.registry().create(judge(memory_of(*cases)), note=SECRET)
    place.execute("ANALYZE")
    quoted = place.execute(
        "SELECT concat(most_common_vals::text, histogram_bounds::text) "
        "FROM pg_stats WHERE tablename LIKE 'memalign%'"
    )
    assert quoted
    assert "t-1" not in str(quoted)
    assert SECRET not in str(quoted)


def test_a_table_that_may_not_be_read_and_another_schema_are_named(
    place: OnPostgreSQL,
) -> None:
    empty = place.another()
    for statement in (
        "CREATE SCHEMA crm",
        "CREATE TABLE crm.deals (about text)",
        "CREATE TABLE notes (about text)",
    ):
        empty.execute(statement)
    with person(empty, "GRANT CREATE ON SCHEMA public TO ana") as url:
        registry = Registry(url)
        registry.create(judge(TOLD))
        receipt = erase(registry, "t-1")
    unread = "the table notes in the same database, which may not be read"
    assert unread in receipt.unreachable
    assert "the schema crm of the same database" in receipt.unreachable


def test_a_server_that_was_restarted_is_found_again() -> None:
    own = Server()
    registry = Registry(own.url(own.create()))
    registry.create(judge())
    own.stop("fast")
    said = "the registry .* failed: .*Connection refused"
    with pytest.raises(RegistryError, match=said) as caught:
        registry.load("helpfulness")
    assert PASSWORD not in str(caught.value)
    own.start()
    assert registry.load("helpfulness") == judge()
    own.stop()
    own.start()
    assert registry.save(judge(model="openai:gpt-5")) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_a_forked_child_has_connections_of_its_own(place: OnPostgreSQL) -> None:
    registry = place.registry()
    registry.create(judge())
    child = os.fork()
    if child == 0:
        try:
            fine = all(registry.load("helpfulness") == judge() for _ in range(20))
        finally:
            os._exit(not fine)
    for _ in range(20):
        assert registry.load("helpfulness") == judge()
    assert os.waitpid(child, 0)[1] == 0


def test_judges_do_not_wait_for_one_another(place: OnPostgreSQL) -> None:
    registry = place.registry(busy_timeout=0.3)
    registry.create(judge(name="tone"))
    with registry._database.write("helpfulness"):
        registry.save(judge(name="tone", model="openai:gpt-5"))
        said = r"another process has been writing for more than 0\.3 s"
        with pytest.raises(RegistryError, match=said):
            registry.create(judge())
    assert all_versions(registry, "tone").keys() == {1, 2}
