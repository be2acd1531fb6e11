"""Judging through a provider's batch endpoint: at half the price, within a day, taken up again after any stop.

Rows go out in parts within the provider's limits, some of them at a time. Before a part is submitted it is on disk, with
a name of its own, in a folder beside the judgments; its batch is known by id from then on. So a run that is stopped, at any
place, finds its batches again and pays for none twice. A row that a batch rejects or lets expire is asked live.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from memalign.errors import InputError, ModelError, ModelUnavailable, RateLimited
from memalign.io.atomic import atomic_write
from memalign.io.examples import Index
from memalign.io.judged import JudgmentWriter
from memalign.io.judged_parts import PartWriter
from memalign.judge.batch import Run
from memalign.judge.open_model import open_model
from memalign.models.asking import asked_through
from memalign.models.batch_calls import BATCH_PRICE, BatchCalls, Caught, CaughtRequest, batched_model, key_of
from memalign.models.batch_endpoints import BatchEndpoint, BatchFailed, BatchFull, Submission, batches_of
from memalign.types import Example, Judgment

__all__ = ["judge_by_batches"]

logger = logging.getLogger(__name__)

_OURS = re.compile(r"[0-9a-f]{32}\.(requests|rows|results)\.jsonl")
_DOWN = 3  # rows that fail one after the other, before any was answered
_AT_ONCE = 4  # parts that wait for their answers
_TURN = 100  # rows that are prepared without letting others run
_PATIENCE = 3_600.0  # seconds in which a provider may say nothing: its batches go on
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds between two looks at whether a batch has ended


async def judge_by_batches(run: Run, index: Index, writer: JudgmentWriter | PartWriter, *, signature: str) -> None:
    """Judge what `writer` has not; `index` is that of all rows, and `signature` says who judges.

    Raises ConfigurationError for a model without batches, a ModelError as live calls do.
    """
    calls = BatchCalls(key=lambda name: key_of(signature, name, index.content_hash(index.place(name) or 0)))
    with asked_through(calls):
        endpoint = batches_of(batched_model(open_model(run.judge)))
    parts = _Parts(writer.batches, signature)
    await _Batches(run, index, writer, calls=calls, endpoint=endpoint, parts=parts).all()
    parts.close()


class _Parts:
    """What is submitted and not judged yet: `state.json` in the folder, and two files a part."""

    def __init__(self, folder: Path, signature: str) -> None:
        self.folder, self.signature = folder, signature
        self.left: list[Submission] = []
        state = folder / "state.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if state.exists():
                found = msgspec.json.decode(state.read_bytes(), type=_State)
                if found.judge != signature and found.parts:
                    raise InputError(
                        f"{folder} has batches of judge {found.judge}, this one is {signature}: run that one again to get "
                        "what is paid for, or delete the folder"
                    )
                self.left = found.parts
            kept = {path.name for part in self.left for path in self.files(part)}
            for path in folder.iterdir():
                if _OURS.fullmatch(path.name) and path.name not in kept:
                    path.unlink()  # of a part that was not whole when a run stopped
        except OSError as error:
            raise InputError(f"{folder} cannot be used: {error.strerror}") from None
        except msgspec.MsgspecError as error:
            raise InputError(f"{state} is damaged ({error}); delete {folder} to submit anew") from None

    def files(self, part: Submission) -> tuple[Path, Path, Path]:
        """The requests of a part, its rows, and the results."""
        return (
            self.folder / f"{part.name}.requests.jsonl",
            self.folder / f"{part.name}.rows.jsonl",
            self.folder / f"{part.name}.results.jsonl",
        )

    def rows(self, part: Submission) -> Iterator[Example]:
        """The rows of a part."""
        file = self.files(part)[1]
        try:
            with file.open("rb") as lines:
                for line in lines:
                    yield Example(**json.loads(line))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"{file} is damaged ({error}): put it back to get what is paid for, or delete {self.folder} to submit anew"
            ) from None

    def save(self) -> None:
        """Write down what is submitted, before anything follows from it."""
        with atomic_write(self.folder / "state.json") as file:
            file.write(msgspec.json.encode(_State(judge=self.signature, parts=self.left)))

    def drop(self, part: Submission) -> None:
        """Forget a part that is judged."""
        self.left.remove(part)
        self.save()
        for path in self.files(part):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder once nothing is left in it."""
        if not self.left:
            (self.folder / "state.json").unlink(missing_ok=True)
            with suppress(OSError):  # somebody else's file is in it
                self.folder.rmdir()


class _State(msgspec.Struct, kw_only=True):
    judge: str
    parts: list[Submission]


class _Batches:
    """One run over the rows that have no judgment."""

    def __init__(
        self,
        run: Run,
        index: Index,
        writer: JudgmentWriter | PartWriter,
        *,
        calls: BatchCalls,
        endpoint: BatchEndpoint,
        parts: _Parts,
    ) -> None:
        self._run, self._index, self._writer = run, index, writer
        self._calls, self._endpoint, self._parts = calls, endpoint, parts
        self._total = len(run.source)
        self._asked = False  # whether a row was answered live, so that the endpoint is known to take what we send
        self._failed = 0
        self._held: tuple[Example, list[CaughtRequest]] | None = None  # a row that did not fit into the last part

    async def all(self) -> None:
        waiting = {row.id for part in self._parts.left for row in self._parts.rows(part)}
        self._reserve(len(waiting))
        rows = self._unjudged(waiting)
        more = True
        while True:
            while more and len(self._parts.left) < _AT_ONCE:
                more = await self._collect(rows)
            if not self._parts.left:
                return
            await self._finish(await self._first_ended())

    def _unjudged(self, waiting: set[str]) -> Iterator[Example]:
        for row in self._run.source:
            if row.id in waiting:
                continue
            if row.id in self._writer:
                self._run.done(self._total)
                continue
            yield row

    # -- out ------------------------------------------------------------------------------------------------------------

    async def _collect(self, rows: Iterator[Example]) -> bool:
        """Put together and submit one part; False where no row is left, or none may be asked about."""
        part = Submission(name=uuid.uuid4().hex, requests=0, since=0.0)
        requests_file, rows_file, _ = self._parts.files(part)
        size, more = 0, True
        with requests_file.open("wb") as requests, rows_file.open("wb") as kept:
            while more:
                found = self._held or await self._caught(rows)
                if found is None:
                    more = False
                    break
                row, caught = found
                lines = [self._endpoint.line(each) for each in caught]
                new = sum(map(len, lines))
                full = (
                    part.requests + len(lines) > self._endpoint.most_requests
                    or size + new > self._endpoint.most_bytes
                    or part.betas != caught[0].betas
                )
                self._held = (row, caught) if full and part.requests else None
                if self._held is not None:
                    break
                part.betas = caught[0].betas
                requests.writelines(lines)
                kept.write(json.dumps({"id": row.id, **row.content, "meta": row.meta}).encode() + b"\n")
                part.requests += len(lines)
                size += new
                self._reserve(1)
                if part.requests % _TURN < len(lines):
                    await asyncio.sleep(0)
        if part.requests:
            self._parts.left.append(part)
            self._parts.save()
            await self._submit(part)
        else:
            requests_file.unlink()
            rows_file.unlink()
        return more

    async def _caught(self, rows: Iterator[Example]) -> tuple[Example, list[CaughtRequest]] | None:
        """The next row and what it asks. The first row is asked live: it may be all that ever was wrong."""
        while self._run.may_go_on(BATCH_PRICE) and (row := next(rows, None)) is not None:
            again = self._writer.failed(row.id)
            if not self._asked:
                judgment = await self._run.judged(row, again=again)
                self._asked = judgment.error is None
                self._failed += not self._asked
                if self._failed == _DOWN:
                    self._run.stopped = (
                        f"{_DOWN} rows failed before a batch was submitted, the last with {judgment.error}"
                    )
                self._keep(judgment)
                continue
            try:
                with self._calls.judging(catching=True):
                    judgment = await self._run.judge.ajudge(row)
            except Caught:
                return row, self._calls.caught
            except (ModelError, InputError) as error:
                judgment = Judgment(id=row.id, error=f"{type(error).__name__}: {error}")
            self._keep(judgment)
        return None

    async def _submit(self, part: Submission) -> None:
        resumed = part.since > 0
        if not resumed:
            part.since = time.time()
            self._parts.save()  # from here on it may be there, whether we hear of it or not
        found = await self._endpoint.find(part) if resumed else None
        part.batch = found or await self._endpoint.submit(part, self._parts.files(part)[0])
        self._parts.save()

    # -- back -----------------------------------------------------------------------------------------------------------

    async def _first_ended(self) -> Submission:
        """The first part whose batch has ended, in the order of submission; those without a batch are submitted first."""
        wait, heard = _FIRST_WAIT, time.monotonic()
        while True:
            done = 0
            for part in self._parts.left:
                try:
                    if part.batch is None:
                        await self._submit(part)
                    state = await self._endpoint.state(str(part.batch))
                    heard = time.monotonic()
                except (ModelUnavailable, RateLimited) as error:
                    if error.denied or time.monotonic() - heard > _PATIENCE:
                        raise
                    continue
                except BatchFailed as error:
                    failed = str(error)
                    part.batch, part.since = None, 0.0
                    self._parts.save()
                    if isinstance(error, BatchFull) and any(each.batch for each in self._parts.left):
                        continue  # there is room again when another one has ended
                    raise BatchFailed(f"{failed}. The same command submits it again") from error
                if state.ended:
                    return part
                done += state.done
            if self._run.progress is not None:
                self._run.progress("batch", done, sum(part.requests for part in self._parts.left))
            await asyncio.sleep(wait)
            wait = min(1.5 * wait, _LONGEST_WAIT)

    async def _finish(self, part: Submission) -> None:
        """Judge the rows of a part by what its batch brought, and live what it did not bring."""
        results = self._parts.files(part)[2]
        await self._endpoint.download(str(part.batch), results)
        places, reasons = _places(results, self._endpoint)
        rows = list(self._parts.rows(part))
        keys = {row.id: key_of(self._parts.signature, row.id, row.content_hash) for row in rows}
        ours = {key.rpartition("-")[0] for key in places}
        if part.found and not ours & set(keys.values()):
            part.strangers.append(str(part.batch))
            part.batch, part.found = None, False
            self._parts.save()
            return
        rows = [row for row in rows if self._still_there(row)]
        with results.open("rb") as file:

            def answer(key: str) -> bytes | None:
                if (place := places.get(key, -1)) < 0:
                    return None
                file.seek(place)
                _, body, _ = self._endpoint.result(msgspec.json.decode(file.readline()))
                return msgspec.json.encode(body)

            self._calls.answers = answer
            if reasons:
                said = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
                logger.warning(
                    "batch %s left %d of %d unanswered (%s): asked live",
                    part.batch,
                    reasons.total(),
                    part.requests,
                    said,
                )
            with self._calls.judging():
                answered = [row for row in rows if places.get(f"{keys[row.id]}-0", -1) >= 0]
                await self._judged(answered, paid=True)
                paid = {row.id for row in answered}
                await self._judged([row for row in rows if row.id not in paid], paid=False)
        self._parts.drop(part)

    def _still_there(self, row: Example) -> bool:
        place = self._index.place(row.id)
        there = place is not None and self._index.content_hash(place) == row.content_hash
        return there and row.id not in self._writer

    async def _judged(self, rows: list[Example], *, paid: bool) -> None:
        """Judge rows; those that are `paid` for whatever the spend limit says, which counts them."""
        spending = self._run.spending
        run = replace(self._run, source=rows, progress=None)
        if paid:
            run.spending, run.stopped = None, ""

        def keep(_: int, __: str, judgment: Judgment) -> None:
            self._writer.write(judgment.id, judgment)
            if paid and spending is not None:
                spending.end(judgment.usage.cost or 0.0, answered=True, size=BATCH_PRICE)
            self._run.done(self._total)

        if not paid and spending is not None:
            for _ in rows:
                spending.end(0.0, answered=False, size=BATCH_PRICE)
        await run.all(keep)
        self._run.stopped = self._run.stopped or run.stopped

    def _keep(self, judgment: Judgment) -> None:
        self._run.kept(0, judgment, lambda _, name, made: self._writer.write(name, made))
        self._run.done(self._total)

    def _reserve(self, rows: int) -> None:
        if self._run.spending is not None:
            self._run.spending.begin(BATCH_PRICE * rows)


def _places(results: Path, endpoint: BatchEndpoint) -> tuple[dict[str, int], Counter[str]]:
    """Where the answer to each request begins, -1 where it has none; and why so many have none."""
    places: dict[str, int] = {}
    reasons: Counter[str] = Counter()
    at = 0
    with results.open("rb") as lines:
        for line in lines:
            key, body, reason = endpoint.result(msgspec.json.decode(line))
            places[key] = -1 if body is None else at
            reasons.update(() if body is not None else (reason,))
            at += len(line)
    return places, reasons
