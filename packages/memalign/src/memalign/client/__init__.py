"""Clients of `memalign serve`, made from the description of its API."""

from memalign.client.client import AsyncClient, Client
from memalign.client.exchange import ServerRefused, ServerUnreachable

__all__ = ["AsyncClient", "Client", "ServerRefused", "ServerUnreachable"]
