"""After an erase: compact the file and search what is left, so that a receipt says what was looked at."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select

from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.erase import Erasure
from memalign.registry.receipt import Receipt
from memalign.registry.removed import words_of
from memalign.registry.residue import Residue
from memalign.registry.schema import judges, rows
from memalign.registry.schema import versions as versions_table
from memalign.registry.store import Codec

__all__ = ["verified"]


def verified(database: Database, erasure: Erasure) -> Receipt:
    """Compact the file, search what is left, and say so in the receipt. Raises RegistryError when a trace is left."""
    try:
        database.compact()
    except RegistryError as error:
        raise RegistryError(
            f"the feedback is erased and that is committed, but the file could not be compacted: {error}. Call "
            "compact() when no other process uses the registry"
        ) from error
    with database.read() as connection:
        found, live, searched, codec = [], [], 0, Codec()
        for judge, kind, key, body in connection.execute(select(rows.c.judge, rows.c.kind, rows.c.key, rows.c.body)):
            searched += 1
            live += [key.encode(), body]
            if judge == erasure.judge and _traced(erasure.residue, codec, kind, key, body):
                found.append(f"{kind} {key}")
        for version in connection.execute(select(versions_table)):
            notes = [text for text in (version.summary, version.note) if text]
            live += [text.encode() for text in notes]
            if version.judge == erasure.judge and any(erasure.residue.in_sentence(text) for text in notes):
                found.append(f"the note of version {version.number}")
        live += [name.encode() for name in connection.execute(select(judges.c.name)).scalars()]
        live += database.definitions(connection)
        # Before the transaction ends: nobody writes to the file as long as it lasts.
        size, in_bytes = erasure.residue.in_files(database.files, live)
    if found or in_bytes:
        raise RegistryError(
            f"the erasure of {len(erasure.receipt.keys)} pieces of feedback is committed, but traces are left: "
            f"{', '.join([*found, *in_bytes][:10])}; please report this, and keep the file away from others"
        )
    return replace(
        erasure.receipt,
        searched=f"{searched} rows of all versions, decoded, and {size:,} bytes of the file: no trace found",
    )


def _traced(residue: Residue, codec: Codec, kind: str, key: str, body: bytes) -> bool:
    """Whether a row still names or repeats what was erased. Names of our own fields are nobody's words."""
    if key in residue.names or any(map(residue.copied, words_of(codec, kind, body))):
        return True
    match kind:
        case "annotation" | "tombstone":
            return residue.in_sentence(codec.decode(kind, body).reason)
        case "guideline":
            guideline = codec.decode(kind, body)
            return not residue.keys.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
        case "shard":
            return not residue.keys.isdisjoint(codec.decode(kind, body))
    return False
