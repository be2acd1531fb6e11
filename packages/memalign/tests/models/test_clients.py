"""One client for each event loop."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from memalign.models.provider_client import LoopClients


async def test_a_client_whose_opening_failed_is_opened_again() -> None:
    failures = [OSError("no such certificate"), None]

    def open_client() -> tuple[str, nullcontext[None]]:
        if (failure := failures.pop(0)) is not None:
            raise failure
        return "client", nullcontext()

    clients = LoopClients(open_client)
    with pytest.raises(OSError, match="no such certificate"):
        await clients.get()
    assert await clients.get() == "client"
    assert await clients.get() == "client"
    assert not failures
