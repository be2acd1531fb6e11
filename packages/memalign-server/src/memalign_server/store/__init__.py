"""The server's own tables, in the registry's database."""

from memalign_server.store.store import Store

__all__ = ["Store"]
