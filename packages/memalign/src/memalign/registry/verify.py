"""After an erase: compact the database and search what is left, so that a receipt says what was looked at."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select

from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.erase import Erasure
from memalign.registry.judge_rows import Codec
from memalign.registry.other_tables import other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.row_words import row_names, words_of
from memalign.registry.schema import judges, rows, versions

__all__ = ["verified"]


def verified(database: Database, erasure: Erasure) -> Receipt:
    """Compact the database, search what is left, and say so in the receipt. Raises RegistryError when a trace is left."""
    try:
        compacted = database.compact()
    except RegistryError as error:
        raise RegistryError(
            f"the feedback is erased and that is committed, but what it left could not be wiped: {error}. Then run "
            "`memalign erase NAME` without a key (compact() in Python)"
        ) from error
    residue, codec = erasure.residue, Codec()
    found, live, searched = [], [], 0
    with database.read() as connection:
        for judge, kind, key, body in connection.execute(select(rows.c.judge, rows.c.kind, rows.c.key, rows.c.body)):
            searched += 1
            live += [key.encode(), body]
            if judge == erasure.judge and (
                any(map(residue.copied, words_of(codec, kind, body))) or row_names(codec, residue, kind, key, body)
            ):
                found.append(f"{kind} {key}")
        for version in connection.execute(select(versions)):
            notes = [text for text in (version.summary, version.note) if text]
            live += [text.encode() for text in notes]
            if version.judge == erasure.judge and any(map(residue.in_sentence, notes)):
                found.append(f"the note of version {version.number}")
        live += [name.encode() for name in connection.execute(select(judges.c.name)).scalars()]
        live += [text for each in other_tables(connection) for text in each.texts(connection)]
        # Before the transaction ends: nobody writes to a file as long as it lasts.
        beside, elsewhere = database.search(connection, residue, live)
    if found or elsewhere:
        raise RegistryError(
            f"the erasure of {len(erasure.receipt.keys)} pieces of feedback is committed, but traces are left: "
            f"{', '.join([*found, *elsewhere][:10])}; please report this, and keep the registry away from others"
        )
    said = f"{searched} rows of all versions, decoded, and {beside}: no trace found"
    if compacted:
        said += f"; rewritten: {compacted}"
    if erasure.others:
        said += f"; {erasure.others} rows of other packages' tables were taken out or blanked"
    return replace(erasure.receipt, searched=said, unreachable=database.unreachable)
