"""What PostgreSQL's errors mean for whoever keeps judges there, by the server's code, else by libpq's words."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

__all__ = ["explained"]

_BY_CODE = {
    "25006": "{at} can only be read: the server or the session is read-only; nothing was changed",
    "53100": "the disk of the server is full; nothing was changed",
    "53200": "the server has no memory left; nothing was changed",
    "42501": (
        "the user may not do this ({problem}); the owner of the database can allow it, such as by GRANT ALL ON SCHEMA "
        "public TO the_user; nothing was changed"
    ),
    "55P03": (
        "{at} is locked: another process has been writing for more than {patience:g} s; nothing was changed, try again "
        "when it has finished"
    ),
    "40P01": "two processes waited for each other; nothing was changed, try again",
    "42P01": "{at} is damaged: {problem}; restore it from a backup, or import an exported bundle",
    "54000": "an id, a source or a name is too long for PostgreSQL, which takes about 2,600 bytes ({problem}); shorten it",
}
_BY_WORDS = (  # what libpq says before the server has said anything, or what the server says before it lets one in
    ("password authentication failed", "the user or the password is wrong; check both, PGPASSWORD and ~/.pgpass"),
    ("no password supplied", "a password is needed: in the URL, in PGPASSWORD or in ~/.pgpass"),
    ("no pg_hba.conf entry", "the server lets this user in from nowhere here; its pg_hba.conf says who may"),
    ("starting up", "the server is starting; try again in a moment"),
    ("shutting down", "the server is shutting down; try again when it is back"),
    ("too many clients", "the server has no connection left; raise max_connections, or let other programs close some"),
    (
        "connection slots are reserved",
        "the server has no connection left; raise max_connections, or let others close some",
    ),
    ("Connection refused", "no server answers there; check host and port, and that it is running"),
    ("No such file", "no server answers there; check host and port, and that it is running"),
    ("timeout expired", "the server did not answer in time; check host and port, and a firewall between"),
    ("translate host name", "there is no host of that name; check the URL"),
    ("resolve host", "there is no host of that name; check the URL"),
    ("certificate", "the server's certificate was not accepted; check sslmode and sslrootcert in the URL"),
    ("SSL", "the connection could not be encrypted as asked; check sslmode in the URL"),
)
_LOST = ("57P01", "57P02", "57P03", "08000", "08003", "08006", "25P03")
_LOST_WORDS = ("server closed the connection", "connection is lost", "terminating connection", "connection not open")


def explained(error: Exception, at: str, patience: float) -> str:
    """What went wrong with the registry `at`; `patience` is how many seconds were waited for a lock."""
    if isinstance(error, PoolTimeout):
        return f"all connections of this process to {at} were busy for {patience:g} s; let fewer work at once"
    if not isinstance(error, DBAPIError):
        return f"the registry {at} failed: {error}; nothing was changed"
    problem = " ".join(str(error.orig).split("\n", 1)[0].split())
    code = getattr(error.orig, "sqlstate", None)
    if code in _LOST or any(words in str(error.orig) for words in _LOST_WORDS):
        return (
            f"the connection to {at} was lost ({problem}); what was committed is kept, and nothing else: "
            "`memalign history` shows the newest version. Try again when the server is back"
        )
    if code in _BY_CODE:
        return _BY_CODE[code].format(at=at, problem=problem, patience=patience)
    if code is None or code.startswith(("08", "28", "3D", "53", "57")):
        if code == "3D000" or ('database "' in problem and "does not exist" in problem):
            return (
                f"cannot open the registry {at}: the server has no database of that name; create it first, such as by "
                f"`createdb {at.rpartition('/')[2].partition('?')[0]}`, or name another"
            )
        for words, advice in _BY_WORDS:
            if words in str(error.orig):
                return f"cannot open the registry {at}: {advice}"
        if "connection failed" in problem or code is not None:
            return f"cannot open the registry {at}: {problem}"
    if "NUL" in problem:
        return "an id, a name or a note holds the character 0, which PostgreSQL cannot keep; take it out"
    return f"the registry {at} failed: {problem}; nothing was changed"
