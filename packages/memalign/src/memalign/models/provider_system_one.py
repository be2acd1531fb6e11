"""pydantic-ai's provider of System One servers, with the key that it is given and no other."""

from __future__ import annotations

from pydantic_ai.providers.system_one import SystemOneProvider

__all__ = ["KeyedProvider"]


class KeyedProvider(SystemOneProvider):
    """pydantic-ai's own reads SYSTEM_ONE_API_KEY where it is given no key, and would send it to any address."""

    def __init__(self, *, base_url: str | None, api_key: str | None) -> None:
        super().__init__(base_url=base_url)
        self._key = api_key

    @property
    def api_key(self) -> str | None:
        """The key that is sent as a bearer token, if there is one."""
        return self._key
