"""A signed receipt: that an erasure happened in this registry, and that nothing of it has come back.

The signature is an HMAC-SHA256 under the registry's own secret, over the receipt and the state that the erasure left. So
whoever checks it needs the receipt and the registry's file, and no network; and whoever holds the file could sign too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from memalign.errors import InputError
from memalign.memory import Memory
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.receipt import Receipt, Signature
from memalign.registry.schema import judges, rows, versions
from memalign.types import FeedbackKey, canonical_json

__all__ = ["Verification", "read_receipt", "sign", "state_of", "verify"]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What checking a receipt against its registry showed.

    `genuine` says that this registry signed the receipt, and nobody changed it since. `back` are the erased pieces of
    feedback, or others of their content, that a version holds now, with the version and the reason. `unchanged` says that
    the registry is in the very state that the erasure left.
    """

    judge: str
    genuine: bool
    unchanged: bool
    versions: int
    back: tuple[tuple[FeedbackKey, int, str], ...]

    @property
    def holds(self) -> bool:
        """Whether the receipt is genuine and nothing has come back."""
        return self.genuine and not self.back

    def __str__(self) -> str:
        if not self.genuine:
            return "not genuine: the receipt was changed, or is of another registry"
        state = "nothing was written since" if self.unchanged else "the registry was written to since"
        if not self.back:
            return f"{self.judge}: the erasure holds; {self.versions} versions looked at, {state}"
        lines = [f"{key} in version {number}: {why}" for key, number, why in self.back]
        return "\n".join([f"{self.judge}: erased feedback is back", *lines])


def sign(connection: Connection, secret: str, receipt: Receipt) -> Receipt:
    """The receipt with its signature over the registry's state as it is now."""
    unsigned = Signature(at=datetime.now(UTC).isoformat(), state=state_of(connection, receipt.judge), mac="")
    blank = replace(receipt, signature=unsigned)
    return replace(receipt, signature=replace(unsigned, mac=_mac(secret, blank.to_dict())))


def read_receipt(given: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """A receipt, or that of a JSON file. Raises InputError for what is none, or has no signature."""
    path = "this" if isinstance(given, Mapping) else given
    try:
        found = (
            dict(given)
            if isinstance(given, Mapping)
            else json.loads(Path(given).read_text("utf-8"), parse_constant=_no_constant)
        )
        canonical_json(found).encode()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no receipt: {error}") from None
    if not isinstance(found, dict) or not {"judge", "keys", "versions"} <= found.keys():
        raise InputError(f"{path} is no receipt: `memalign erase … --json` prints one")
    if not isinstance(found.get("signature"), dict):
        raise InputError(f"{path} has no signature: it is of a dry run, or of a version of memalign that did not sign")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def verify(
    connection: Connection,
    secret: str,
    receipt: Mapping[str, Any],
    memories: Callable[[], Iterable[tuple[int, Memory]]],
) -> Verification:
    """Check a receipt, as `read_receipt` gives it. `memories` has every version of the judge, by number."""
    signature = receipt["signature"]
    mac = _mac(secret, {**receipt, "signature": {**signature, "mac": ""}})
    name = str(receipt["judge"])
    genuine = hmac.compare_digest(mac.encode(), str(signature.get("mac")).encode())
    if not genuine:
        return Verification(judge=name, genuine=False, unchanged=False, versions=0, back=())
    found = connection.execute(select(judges.c.id).where(judges.c.name == name)).scalar()
    hashes = ErasedHashes(connection, secret, found)
    unchanged = hmac.compare_digest(str(signature["state"]), state_of(connection, name))
    every = [*memories()] if found is not None else []
    # By key too: who takes feedback back lets the registry forget its hashes.
    erased = set(receipt["keys"])
    back: dict[tuple[FeedbackKey, int], str] = {}
    for number, memory in every:
        there = (annotation.key for annotation in memory.annotations() if str(annotation.key) in erased)
        back |= {(key, number): "this feedback was taken back" for key in there}
        back |= {(key, number): why for key, why in hashes.refusals(memory, Memory()).items()}
    return Verification(
        judge=name,
        genuine=True,
        unchanged=unchanged,
        versions=len(every),
        back=tuple((*at, why) for at, why in back.items()),
    )


def _mac(secret: str, receipt: Mapping[str, Any]) -> str:
    return hmac.new(bytes.fromhex(secret), f"receipt\0{canonical_json(receipt)}".encode(), hashlib.sha256).hexdigest()


def state_of(connection: Connection, name: str) -> str:
    """SHA-256 (hex) over all rows and versions of the judge."""
    judge = connection.execute(select(judges.c.id).where(judges.c.name == name)).scalar()
    state = hashlib.sha256()
    columns = (rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body)
    for kind, key, since, until, body in connection.execute(
        select(*columns).where(rows.c.judge == judge).order_by(*columns[:3])
    ):
        state.update(canonical_json([kind, key, since, until, hashlib.sha256(body).hexdigest()]).encode())
    listed = (versions.c.number, versions.c.parent, versions.c.action, versions.c.redacted, versions.c.memory_hash)
    for version in connection.execute(select(*listed).where(versions.c.judge == judge).order_by(versions.c.number)):
        state.update(canonical_json(list(version)).encode())
    return state.hexdigest()
