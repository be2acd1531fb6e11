"""The server's own tables, in the registry's database."""

from memalign.registry.tables import without_statistics
from memalign_server.store import tables
from memalign_server.store.columns import CASE_ID, JUDGE, MODEL_TEXT, PERSON, SOURCE, TEXT, TEXT_ROW, metadata
from memalign_server.store.store import Store

__all__ = [
    "CASE_ID",
    "JUDGE",
    "MODEL_TEXT",
    "PERSON",
    "SOURCE",
    "TEXT",
    "TEXT_ROW",
    "Store",
    "metadata",
    "tables",
]

_WORDS = (TEXT, TEXT_ROW, MODEL_TEXT, CASE_ID, SOURCE, PERSON)
without_statistics(*(column for table in metadata.sorted_tables for column in table.columns if column.info in _WORDS))
