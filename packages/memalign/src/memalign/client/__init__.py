"""A client of `memalign serve`, made from the description of its API."""

from memalign.client.client import Client
from memalign.client.exchange import ServerRefused, ServerUnreachable

__all__ = ["Client", "ServerRefused", "ServerUnreachable"]
