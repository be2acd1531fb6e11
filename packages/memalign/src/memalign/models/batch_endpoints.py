"""The batch endpoints of OpenAI and Anthropic, through the providers' own clients.

OpenAI: https://platform.openai.com/docs/guides/batch (a file of at most 50,000 requests and 200 MB, answers within 24
hours, kept 30 days). Anthropic: https://platform.claude.com/docs/en/build-with-claude/batch-processing (at most 100,000
requests and 256 MB, answers within 24 hours, kept 29 days).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec

from memalign.errors import ModelRejected, ModelUnavailable
from memalign.models.batch_calls import CaughtRequest
from memalign.models.provider_chat import ProviderChatModel
from memalign.models.provider_errors import failure_of
from memalign.models.retry import AttemptFailed

__all__ = [
    "AnthropicBatches",
    "BatchEndpoint",
    "BatchFailed",
    "BatchFull",
    "BatchState",
    "OpenAIBatches",
    "Submission",
    "batches_of",
]

T = TypeVar("T")

_CLOCKS = 600.0  # seconds by which our clock and the provider's may differ


class Submission(msgspec.Struct, kw_only=True):
    """What is submitted together: a name of our own, a file of requests, how many, and since when (Unix time).

    `batch` is the provider's id, None before it is known. `betas` goes along as a header. `strangers` are batches that were
    taken for it and are others.
    """

    name: str
    requests: int
    since: float
    betas: str = ""
    batch: str | None = None
    found: bool = False
    strangers: list[str] = []


class BatchState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a batch has ended, how many requests were answered or failed, and where its results are."""

    ended: bool
    done: int
    files: tuple[str, ...] = ()


class BatchFailed(ModelRejected):
    """A batch failed as a whole: none of it was answered, and none is paid."""


class BatchFull(BatchFailed):
    """The account may not have more tokens waiting; later it may."""


class BatchEndpoint(Protocol):
    """One provider's batches. Each method tries again as live calls do, and raises their errors."""

    most_requests: int
    most_bytes: int

    def line(self, request: CaughtRequest) -> bytes:
        """A request as a line of the file that is submitted."""
        ...

    async def submit(self, part: Submission, file: Path) -> str:
        """The id of a new batch of the requests in `file`; that of an earlier attempt whose answer was lost, if there is one."""
        ...

    async def find(self, part: Submission) -> str | None:
        """The batch that an earlier attempt made, whose id never came back."""
        ...

    async def state(self, batch: str) -> BatchState:
        """How far a batch is. Raises BatchFailed, or BatchFull where it may go through later."""
        ...

    async def download(self, batch: str, file: Path) -> None:
        """Write the results to `file`, every line of them."""
        ...

    def result(self, line: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None, str]:
        """Of a line of results the id of its request, and the answer or why there is none."""
        ...


def batches_of(model: ProviderChatModel) -> BatchEndpoint:
    """The batch endpoint of a model of OpenAI or Anthropic."""
    return OpenAIBatches(model) if model.provider == "openai" else AnthropicBatches(model)


_NO_ENDPOINT = "Without --batch it is asked live: not every server has a batch endpoint."
_GONE = (
    "The batch was submitted: only a key of its project finds it. Where the provider has deleted it, delete the folder "
    "OUT.batch beside the judgments to submit anew."
)


class _Batches:
    def __init__(self, model: ProviderChatModel) -> None:
        self._model = model
        self._headers: dict[str, str] = dict(model.extra.get("extra_headers", {}))

    async def _asked(self, call: Callable[[Any], Awaitable[T]], *, absent: str = _NO_ENDPOINT) -> T:
        """What `call` gives of the provider's client, tried as often as a live call."""
        client = await self._model.client()

        async def attempt() -> T:
            try:
                return await call(client)
            except Exception as error:
                if (failed := failure_of(error, self._model.subject)) is None:
                    raise
                if getattr(error, "status_code", None) == 404:
                    failed.advice = absent
                raise failed from error

        return await self._model.retry.run(attempt, subject=f"{self._model.subject}, batches")

    async def _submitted(self, part: Submission, create: Callable[[Any], Awaitable[str]]) -> str:
        """The id of the batch that `create` makes. Where an answer was lost, the batch may be there all the same."""
        tried = False

        async def once(client: Any) -> str:
            nonlocal tried
            if tried and (found := await self._find(client, part)) is not None:
                part.found = True
                return found
            tried = True
            return await create(client)

        return await self._asked(once)

    async def find(self, part: Submission) -> str | None:
        """What was submitted before a stop."""
        found = await self._asked(lambda client: self._find(client, part))
        part.found = found is not None
        return found

    async def _find(self, client: Any, part: Submission) -> str | None:
        raise NotImplementedError


class OpenAIBatches(_Batches):
    """https://platform.openai.com/docs/api-reference/batch."""

    most_requests, most_bytes = 50_000, 200_000_000

    def line(self, request: CaughtRequest) -> bytes:
        """A line of OpenAI's file, or a row of Anthropic's list."""
        row = {"custom_id": request.key, "method": "POST", "url": "/v1/chat/completions", "body": request.body}
        return _line(row)

    async def submit(self, part: Submission, file: Path) -> str:
        """The id of a new batch, or of the one that a lost answer was about."""

        async def create(client: Any) -> str:
            uploaded = await client.files.create(file=file, purpose="batch", extra_headers=self._headers)
            made = await client.batches.create(
                input_file_id=uploaded.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"memalign": part.name},
                extra_headers=self._headers,
            )
            return str(made.id)

        return await self._submitted(part, create)

    async def _find(self, client: Any, part: Submission) -> str | None:
        async for each in client.batches.list(limit=100, extra_headers=self._headers):
            if (each.metadata or {}).get("memalign") == part.name:
                return str(each.id)
            if each.created_at < part.since - _CLOCKS:
                break
        return None

    async def state(self, batch: str) -> BatchState:
        """How far it is."""
        found = await self._asked(
            lambda client: client.batches.retrieve(batch, extra_headers=self._headers), absent=_GONE
        )
        if found.status == "failed":
            errors = (found.errors.data if found.errors else None) or []
            said = "; ".join(str(each.message) for each in errors) or "no reason given"
            kind = BatchFull if any("limit" in str(each.code) for each in errors) else BatchFailed
            raise kind(f"{self._model.name}: batch {batch} failed: {said[:300]}")
        counts = found.request_counts
        files = tuple(each for each in (found.output_file_id, found.error_file_id) if each)
        ended = found.status in ("completed", "expired", "cancelled")
        return BatchState(ended=ended, done=counts.completed + counts.failed if counts else 0, files=files)

    async def download(self, batch: str, file: Path) -> None:
        """Every line of its results."""

        async def once(client: Any) -> None:
            found = await client.batches.retrieve(batch, extra_headers=self._headers)
            with file.open("wb") as out:
                for file_id, wanted in (
                    (found.output_file_id, found.request_counts.completed if found.request_counts else 0),
                    (found.error_file_id, 0),
                ):
                    if not file_id:
                        continue
                    opened = client.files.with_streaming_response.content(file_id, extra_headers=self._headers)
                    async with opened as response:
                        await _lines_into(out, response.iter_bytes(), wanted)

        await self._asked(once, absent=_GONE)

    def result(self, line: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None, str]:
        """What one line says."""
        response = line.get("response") or {}
        if response.get("status_code") == 200:
            return line["custom_id"], response["body"], ""
        error = line.get("error") or (response.get("body") or {}).get("error") or {}
        return line["custom_id"], None, str(error.get("code") or error.get("type") or response.get("status_code"))


class AnthropicBatches(_Batches):
    """https://platform.claude.com/docs/en/api/creating-message-batches."""

    most_requests, most_bytes = (
        100_000,
        100_000_000,
    )  # it takes 256 MB, which would all lie in memory while they are sent

    def line(self, request: CaughtRequest) -> bytes:
        """A line of OpenAI's file, or a row of Anthropic's list."""
        row = {"custom_id": request.key, "params": request.body}
        return _line(row)

    async def submit(self, part: Submission, file: Path) -> str:
        """The id of a new batch, or of the one that a lost answer was about."""
        headers = self._headers | ({"anthropic-beta": part.betas} if part.betas else {})

        async def create(client: Any) -> str:
            requests = [json.loads(line) for line in _file_lines(file)]
            return str((await client.messages.batches.create(requests=requests, extra_headers=headers)).id)

        return await self._submitted(part, create)

    async def _find(self, client: Any, part: Submission) -> str | None:
        """By time and number: a batch of Anthropic's has no name. Its results tell whose it is."""
        async for each in client.messages.batches.list(limit=100, extra_headers=self._headers):
            counts = each.request_counts
            total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            if each.created_at.timestamp() < part.since - _CLOCKS:
                break
            if total == part.requests and each.id not in part.strangers:
                return str(each.id)
        return None

    async def state(self, batch: str) -> BatchState:
        """How far it is."""
        found = await self._asked(
            lambda client: client.messages.batches.retrieve(batch, extra_headers=self._headers), absent=_GONE
        )
        counts = found.request_counts
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        return BatchState(ended=found.processing_status == "ended", done=done)

    async def download(self, batch: str, file: Path) -> None:
        """Every line of its results."""

        async def once(client: Any) -> None:
            counts = (await client.messages.batches.retrieve(batch, extra_headers=self._headers)).request_counts
            wanted = counts.succeeded + counts.errored + counts.canceled + counts.expired
            opened = client.messages.batches.with_streaming_response.results(batch, extra_headers=self._headers)
            with file.open("wb") as out:
                async with opened as response:
                    await _lines_into(out, response.iter_bytes(), wanted)

        await self._asked(once, absent=_GONE)

    def result(self, line: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None, str]:
        """What one line says."""
        result = line["result"]
        if result["type"] == "succeeded":
            return line["custom_id"], result["message"], ""
        error = (result.get("error") or {}).get("error") or {}
        return line["custom_id"], None, str(error.get("type") or result["type"])


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(row) + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return json.dumps(row).encode() + b"\n"


async def _lines_into(out: BinaryIO, chunks: AsyncIterator[bytes], wanted: int) -> None:
    """Write JSON lines. Raises AttemptFailed where some of the `wanted` are missing, or the last is cut: they are fetched again."""
    count, last = 0, b""
    async for chunk in chunks:
        out.write(chunk)
        count += chunk.count(b"\n")
        last = (last + chunk).rpartition(b"\n")[2]
    whole = True
    if last.strip():
        try:
            json.loads(last)
        except ValueError:
            whole = False
        count += whole
        out.write(b"\n")
    if not whole or count < wanted:
        reason = f"the file of results was cut after {count} of {wanted or 'its'} lines"
        raise AttemptFailed(ModelUnavailable, reason, advice="The same command fetches it again.", retry=True)


def _file_lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines
