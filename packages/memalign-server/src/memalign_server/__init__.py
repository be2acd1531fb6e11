"""memalign serve: the page where experts teach judges, and the HTTP API under it."""

from memalign_server.app import create_app
from memalign_server.settings import OpenIdProvider, Settings

__all__ = ["OpenIdProvider", "Settings", "create_app"]
