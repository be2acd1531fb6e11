"""pydantic-ai's model for OpenAI's chat completions, which tells an error in an answer of HTTP 200 from an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel

if TYPE_CHECKING:
    from openai.types import chat

__all__ = ["CheckedChatModel"]


class CheckedChatModel(OpenAIChatModel):
    """LM Studio, OpenRouter and gateways answer with `{"error": …}` and HTTP 200, in the body or in its choice."""

    def _validate_completion(self, response: chat.ChatCompletion) -> Any:
        choices = response.choices or ()  # an unchecked answer: it may be None
        for part in (response, *choices[:1]):
            error = (part.model_extra or {}).get("error")
            if error and (part is not response or not choices):
                code = error.get("code") if isinstance(error, dict) else None
                status = code if isinstance(code, int) and 400 <= code < 600 else 400
                raise ModelHTTPError(status, self.model_name, {"error": error})
        return super()._validate_completion(response)
