"""What an address serves, asked once when it says that there is no such path or model. No model is called."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from memalign.models.providers import without_secrets

__all__ = ["what_it_serves"]

_SECONDS = 5.0
_SHOWN = 8  # names of models that an error lists


async def what_it_serves(model: object, base_url: str, name: str, headers: Mapping[str, str]) -> str | None:
    """A sentence on what is wrong with the address or the model's name; None where the server does not say.

    Its list of models (GET …/models) is read at `base_url`, then at the addresses that may have been meant.
    """
    for url in (base_url, *_meant(base_url)):
        served = await _models_at(model, url, headers)
        if served is None:
            continue
        if url != base_url:
            return f"A server answers at {without_secrets(url)}: use this address (--base-url, OPENAI_BASE_URL)."
        if name not in served:
            return f"It serves {_listed(served, name)}." if served else "It serves no model: load one there."
    return None


def _meant(base_url: str) -> list[str]:
    """Addresses that are often meant: with /v1, without the path of a call, from the server's root."""
    plain = base_url.rstrip("/").removesuffix("/chat/completions").removesuffix("/completions")
    root = "{0.scheme}://{0.netloc}".format(urlsplit(plain))
    candidates = [plain, f"{plain}/v1", f"{root}/v1"]
    return [url for url in dict.fromkeys(candidates) if url != base_url.rstrip("/") and not url.endswith("/v1/v1")]


async def _models_at(model: object, url: str, headers: Mapping[str, str]) -> list[str] | None:
    """The names of the models at `url`; None where there is no such list."""
    from openai import AsyncOpenAI, OpenAIError

    client: Any = getattr(model, "client", None)
    if not isinstance(client, AsyncOpenAI):
        return None
    try:
        # The key goes to the same server only: `url` differs in its path.
        page = await client.with_options(base_url=url, timeout=_SECONDS, max_retries=0).models.list(
            extra_headers=dict(headers)
        )
        return [str(entry.id) for entry in page.data]
    except (OpenAIError, OSError, ValueError, TypeError, AttributeError):  # not OpenAI's protocol, whatever it is
        return None


def _listed(served: list[str], name: str) -> str:
    if len(served) <= _SHOWN:
        return ", ".join(served)
    near = get_close_matches(name, served, n=_SHOWN, cutoff=0.4)
    return f"{len(served)} models" + (f", among them {', '.join(near)}" if near else f", none like {name}")
