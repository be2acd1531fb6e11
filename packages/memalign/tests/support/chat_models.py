"""A provider's chat model at an endpoint of the tests, and what it is asked."""

from __future__ import annotations

from typing import Any

from memalign.models import ChatRequest
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.providers import Target
from memalign.models.retry import Retry
from tests.support.endpoint import Endpoint

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "value": {"type": "boolean"}},
    "required": ["rationale", "value"],
    "additionalProperties": False,
}
ANSWER = {"rationale": "Because.", "value": True}
REQUEST = ChatRequest(system="You judge replies. " * 20, user="Reply: hello", schema=SCHEMA, schema_name="verdict")
QUICK = Retry(attempts=3, base_seconds=0.001, max_wait=1.0)


def model_at(place: Endpoint | str, *, name: str = "gpt-4.1-mini", **options: Any) -> ProviderChatModel:
    url = place if isinstance(place, str) else place.base_url
    return ProviderChatModel(Target(provider="openai", model=name, base_url=url), **{"retry": QUICK, **options})
