"""A client of `memalign serve`, made from the description of its API."""

from memalign.client.client import Client, ServerRefused

__all__ = ["Client", "ServerRefused"]
