"""Registry: judges and their versions, in SQLite or PostgreSQL. The only place with history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from memalign import aio
from memalign.align import AlignResult, MemAlign, lock
from memalign.align.locks import broken_locks, held_back
from memalign.align.run import AlignRun
from memalign.errors import (
    ConfigurationError,
    InputError,
    LockBroken,
    MemalignError,
    RegistryError,
    VersionConflict,
)
from memalign.io import FeedbackSource, OwnVerdicts, RowSource
from memalign.judge import Judge, Progress, signature_of
from memalign.memory import LedgerEntry
from memalign.memory.text_search import Finder
from memalign.models.base import ChatModel, EmbeddingModel
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.registry import bundle, versions
from memalign.registry.database import Database
from memalign.registry.diff import MemoryDiff, compare
from memalign.registry.erase import Selectors, erase_feedback
from memalign.registry.erase_check import search_again
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import judge_of, memory_of
from memalign.registry.paid_answers import PaidAnswers
from memalign.registry.receipt import Receipt
from memalign.registry.versions import Action, JudgeSummary, VersionInfo, commit
from memalign.types import Feedback, FeedbackKey, Usage

__all__ = ["Registry", "Saved"]

_ATTEMPTS = 20  # how often somebody else may be quicker before a change is given up
_LONGEST_PAUSE = 0.5  # seconds, before another attempt

Step = Callable[
    [Judge, Calls], Coroutine[Any, Any, AlignResult]
]  # what is learned or forgotten, with which calls


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A judge as a registry keeps it now, and what it was made from: the same version where nothing changed."""

    judge: Judge
    version: int
    parent: int
    before: Judge


class Registry:
    """Judges and their versions (1, 2, …) in one SQLite file or PostgreSQL database; created when it is not there.

    A version never changes, except that `erase` takes out what may no longer be anywhere. `models` are chat and
    embedding models of your own: a judge keeps their name only, and gets the object back when it is loaded here.
    Usable from several threads and processes at once, which wait `busy_timeout` seconds for one another. Raises
    ConfigurationError, RegistryTooNew, or RegistryError that says why it cannot be used; where it may not `create`,
    JudgeNotFound for a registry that is not there.
    """

    def __init__(
        self,
        url: str | Path = "sqlite:///memalign.db",
        *,
        models: Iterable[ChatModel | EmbeddingModel] = (),
        busy_timeout: float = 30.0,
        create: bool = True,
    ) -> None:
        url = str(url)
        self.url = url
        self._models = {model.name: model for model in models}
        self._database = Database(url, busy_timeout=busy_timeout, create=create)

    def __repr__(self) -> str:
        return f"Registry({self._database.url!r})"  # without a password

    def create(self, judge: Judge, *, note: str | None = None) -> int:
        """Keep a new judge as version 1. Raises JudgeExists when the name is taken."""
        return commit(self._database, judge, action="create", note=note, new=True)

    def save(
        self,
        judge: Judge,
        *,
        action: Action = "save",
        note: str | None = None,
        parent: int | None = None,
        allow_erased: bool = False,
    ) -> int:
        """Keep a judge as the next version and return its number; one that equals the newest adds none.

        Replaces whatever is newest; with `parent`, raises VersionConflict unless that still is. Raises
        InvalidRows when the judge holds feedback that was erased here, unless `allow_erased`.
        """
        return commit(
            self._database,
            judge,
            action=action,
            note=note,
            parent=parent,
            allow_erased=allow_erased,
        )

    def load(self, name: str, version: int | None = None) -> Judge:
        """The newest version of a judge, or another one. Raises JudgeNotFound, which names those that there are."""
        return self._load(name, version)[1]

    def list(self) -> tuple[JudgeSummary, ...]:
        """All judges, by name."""
        with self._database.read() as connection:
            return versions.summaries(connection)

    def delete(self, name: str) -> None:
        """Delete a judge with all its versions, and what was remembered of its erasures."""
        with self._database.write(name) as connection:
            versions.remove(connection, versions.find(connection, name)[0])

    def history(self, name: str) -> tuple[VersionInfo, ...]:
        """Every version of a judge, the oldest first."""
        with self._database.read() as connection:
            return versions.history(connection, versions.find(connection, name)[0])

    def diff(self, name: str, a: int, b: int) -> MemoryDiff:
        """What changed from version `a` to version `b`."""
        return compare(self.load(name, a), self.load(name, b), versions=(a, b))

    def judged_by(self, name: str, signature: str, memory_hash: str) -> tuple[int, Judge]:
        """Find the newest version that gave judgments of this signature with this memory; InputError where none did."""
        for info in reversed(self.history(name)):
            if info.memory_hash not in ("", memory_hash):  # an erasure has changed those without
                continue
            judge = self.load(name, info.number)
            with suppress(
                ConfigurationError
            ):  # a version whose model cannot be opened here did not judge
                if signature_of(judge) == signature:
                    return info.number, judge
        raise InputError(
            f"no version of {name!r} in the registry gave these judgments (their judge is {signature}), or an erasure, "
            "another memalign or another setting has changed it"
        )

    def rollback(self, name: str, to: int) -> Saved:
        """Make the content of version `to` the next version.

        May bring back feedback that was unaligned since; never what was erased, for no version holds it.
        """
        # Read and written in one transaction: an erase in between would otherwise be undone.
        with self._database.write(name) as connection:
            judge, latest = versions.find(connection, name)
            before, after = (
                versions.read(connection, judge, number, name=name) for number in (latest, to)
            )
            key = (
                "memory",
                "next_guideline",
            )  # a guideline's id is never given twice, whatever comes back
            after[key] = max(before[key], after[key], key=int)
            number, memory, line = latest, memory_of(after), f"back to version {to}"
            if before != after:
                new: dict[str, Any] = {
                    "parent": latest,
                    "before": before,
                    "after": after,
                    "memory": memory,
                }
                number = versions.add_version(
                    connection, judge, **new, action="rollback", line=line
                )
        restored, replaced = (
            judge_of(name, contents, models=self._models) for contents in (after, before)
        )
        return Saved(judge=restored, version=number, parent=latest, before=replaced)

    def ledger(self, name: str, version: int | None = None) -> tuple[LedgerEntry, ...]:
        """Where every piece of feedback ended. Erased ones are there by the beginning of a keyed hash only."""
        return self.load(name, version).memory.ledger() + self._erased(name).entries()

    def align(self, name: str, feedback: FeedbackSource = (), **options: Any) -> AlignResult:
        """Learn from feedback and commit the next version; see `aalign` for the options."""
        return aio.run(self.aalign(name, feedback, **options))

    async def aalign(
        self,
        name: str,
        feedback: FeedbackSource = (),
        *,
        optimizer: MemAlign | None = None,
        skip_invalid: bool = False,
        allow_erased: bool = False,
        own_verdicts: OwnVerdicts | None = None,
        progress: Progress | None = None,
        force: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> AlignResult:
        """Learn from feedback (none: only what is pending) and commit, if the newest version is still the same then.

        When somebody else committed first, the newer one is loaded and learns the same feedback again, twenty times at
        most; then VersionConflict. Nothing is committed when nothing changed. Feedback that was erased here is an
        invalid row, unless `allow_erased`. Where a locked case would be judged wrong, nothing is committed and the
        feedback stays pending, unless `force`: `broken` of the result names the case. `own_verdicts` are as for
        `Judge.aalign`, of the newest version or of one that had learned nothing; others are not used. `columns`
        too are as there. Raises what `MemAlign.align` raises.

        Every answer that a model was paid for is kept in the registry until the commit. An align that was stopped, by
        Ctrl-C, a full disk or a killed process, and is run again pays for none of them a second time.
        """
        learner = optimizer or MemAlign()
        if columns is not None:
            learner = replace(learner, columns=columns)
        options: dict[str, Any] = {
            "skip_invalid": skip_invalid,
            "own_verdicts": own_verdicts,
            "progress": progress,
        }
        learn = self._align_step(name, learner, feedback, allow_erased=allow_erased, **options)
        return await self._learn(
            name, learn, learner, action="align", allow_erased=allow_erased, force=force
        )

    def estimate(
        self,
        name: str,
        feedback: FeedbackSource = (),
        *,
        optimizer: MemAlign | None = None,
        dry_run: DryRun | None = None,
        **options: Any,
    ) -> Usage:
        """About how many calls, tokens and dollars an `align` with the same arguments would take. No model is asked.

        Rows, keys and the model's name are checked as `align` does. Answers that are kept cost nothing again. The cost
        is None where a price is not known.
        """
        learner, judge = optimizer or MemAlign(), self.load(name)
        learn = self._align_step(name, learner, feedback, **options)
        dry_run = dry_run or DryRun()
        dry_run.dimensions = judge.memory.matrix.shape[1] or 8
        aio.run(learn(judge, learner.calls(PaidAnswers(self._database, name), dry_run)))
        return dry_run.usage

    def unalign(
        self, name: str, *selectors: str | FeedbackKey, source: str | None = None, **options: Any
    ) -> AlignResult:
        """Forget feedback from the newest version on; older versions keep it. See `aunalign`."""
        return aio.run(self.aunalign(name, *selectors, source=source, **options))

    async def aunalign(
        self,
        name: str,
        *selectors: str | FeedbackKey,
        source: str | None = None,
        optimizer: MemAlign | None = None,
        **options: Any,
    ) -> AlignResult:
        """Forget feedback by id, key or source and commit the next version, as `aalign` does.

        The arguments and options are those of `MemAlign.unalign`. Raises UnknownKey.
        """
        learner = optimizer or MemAlign()

        def forget(judge: Judge, calls: Calls) -> Coroutine[Any, Any, AlignResult]:
            return learner.unalign(judge, *selectors, source=source, **options, calls=calls)

        return await self._learn(name, forget, learner, action="unalign")

    def _align_step(
        self,
        name: str,
        learner: MemAlign,
        feedback: FeedbackSource,
        *,
        allow_erased: bool = False,
        **options: Any,
    ) -> Step:
        source = RowSource.of(feedback)  # every attempt reads it

        async def learn(judge: Judge, calls: Calls) -> AlignResult:
            hashes = await asyncio.to_thread(self._erased, name)

            def refuse(row: Feedback) -> str | None:
                return None if allow_erased else hashes.row_refusal(row, judge.memory)

            return await learner.align(judge, source, refuse=refuse, calls=calls, **options)

        return learn

    async def _learn(
        self,
        name: str,
        step: Step,
        learner: MemAlign,
        *,
        action: Action,
        allow_erased: bool = False,
        force: bool = True,
    ) -> AlignResult:
        """The result of `step`, committed; done again, with the answers that are kept, if somebody else was quicker."""
        # In threads: waiting for a lock must not stop the loop on which judgments run. And before anything is paid for.
        await asyncio.to_thread(self._database.check_writable)
        started, spent = time.perf_counter(), Usage()
        # Before the version is read: an erase that comes later ends the keeping, and one that came before left no text.
        answers = await asyncio.to_thread(PaidAnswers, self._database, name)
        calls = learner.calls(answers)
        for attempt in range(_ATTEMPTS):
            await asyncio.sleep(_pause(attempt))
            parent, judge = await asyncio.to_thread(self._load, name, None)
            result = await step(judge, calls)
            spent += result.usage
            if (
                result.broken and not force
            ):  # its answers stay kept: told to, the next align pays for none again
                result = replace(
                    held_back(result), usage=spent, seconds=time.perf_counter() - started
                )
                return replace(result, version=parent, parent=parent, taken_up=answers.taken_up)
            write = partial(
                commit, self._database, action=action, parent=parent, allow_erased=allow_erased
            )
            with suppress(VersionConflict):
                number = await asyncio.to_thread(write, result.judge)
                await asyncio.to_thread(answers.committed)
                result = replace(result, usage=spent, seconds=time.perf_counter() - started)
                return replace(result, version=number, parent=parent, taken_up=answers.taken_up)
        raise _conflict(name)

    def update(
        self,
        name: str,
        function: Callable[[Judge], Judge],
        action: Action = "edit",
        *,
        note: str | None = None,
        force: bool = False,
    ) -> Saved:
        """Commit `function(latest)` as the next version, again with the newest when somebody was quicker.

        Raises LockBroken where a changed judge gets a locked case wrong, unless `force`.
        """
        for attempt in range(_ATTEMPTS):
            time.sleep(_pause(attempt))
            latest, judge = self._load(name, None)
            changed = function(judge)
            if action == "edit" and not force and changed.fingerprint != judge.fingerprint:
                self._check_locks(judge, changed)
            with suppress(VersionConflict):
                number = commit(self._database, changed, action=action, note=note, parent=latest)
                return Saved(judge=changed, version=number, parent=latest, before=judge)
        raise _conflict(name)

    def _check_locks(self, before: Judge, after: Judge) -> None:
        """Raise LockBroken where a judge that was changed by hand gets a locked case wrong."""
        locked = set(before.memory.locks).intersection(after.memory.locks)
        if not locked:
            return
        found = aio.run(broken_locks(after, AlignRun(before=before, calls=Calls())))
        broken = [lock for lock in found if lock.id in locked]
        if broken:
            named = "; ".join(map(str, broken))
            raise LockBroken(
                f"{named}; nothing was changed; to change it all the same: --force (force=True)"
            )

    def lock(self, name: str, *ids: str, unlock: bool = False) -> Saved:
        """Make cases ones that no later version may break (or may again), as the next version; see `align.lock`."""
        return self.update(name, lambda judge: lock(judge, *ids, unlock=unlock), "lock")

    def erase(
        self,
        name: str,
        selectors: str | FeedbackKey | Collection[str | FeedbackKey] = (),
        *,
        source: str | None = None,
        matching: str | None = None,
        keep: Collection[str] = (),
        dry_run: bool = False,
        rederive: bool = True,
        optimizer: MemAlign | None = None,
        progress: Progress | None = None,
    ) -> Receipt:
        """Take cases and feedback out of every version and every table, for good, and return the receipt.

        Whether they were taught or only wait in a server's queue makes no difference. Afterwards every table and file
        that can be reached is searched for their words, and the receipt says whether and where one is left.

        Args:
            name: The judge.
            selectors: Ids (a case and all that was said of it) or keys (what one person said), of any version or table.
            source: All that one person said. Without selectors and `matching`, the name goes everywhere too.
            matching: All that holds a text, in whatever case and spelling. Without selectors and `source`, no guideline
                and no note may hold it afterwards either. Of several arguments, all must hold.
            keep: Ids of cases that stay in a server's queue, although nobody says anything of them any more.
            dry_run: Whether to say only what would go. The counts are those of the erasure.
            rederive: Whether what survives is distilled again at once; else it is pending.
            optimizer: Distils; its knobs.
            progress: Told how far it is.

        Raises:
            UnknownKey: Nothing is there that these name.
            RegistryError: What was erased could not be wiped from the disk.
        """
        chosen = (selectors,) if isinstance(selectors, str | FeedbackKey) else tuple(selectors)
        named = Selectors(chosen, source, None if matching is None else Finder(matching), keep)
        receipt, residue = erase_feedback(self._database, name, named, dry_run=dry_run)
        if dry_run:
            return receipt
        receipt = search_again(self._database, receipt, residue)
        return (
            self._rederived(name, receipt, optimizer, progress)
            if rederive and receipt.pending
            else receipt
        )

    def compact(self) -> None:
        """Rewrite the database without what was deleted; `erase` does it by itself."""
        self._database.compact()

    def _rederived(
        self, name: str, receipt: Receipt, optimizer: MemAlign | None, progress: Progress | None
    ) -> Receipt:
        try:
            result = self.align(name, (), optimizer=optimizer, progress=progress)
        # The erase stands whatever happens here, Ctrl-C too: the receipt is proof of it, and must not be lost.
        except (MemalignError, OSError, KeyboardInterrupt) as error:
            return replace(receipt, problem=str(error) or "interrupted")
        waiting, rederived = dict(result.pending), tuple(rule.id for rule in result.guidelines)
        problem = "; ".join(dict.fromkeys(waiting.values()))
        latest = result.version or receipt.latest
        return replace(
            receipt, latest=latest, pending=tuple(waiting), rederived=rederived, problem=problem
        )

    def export(
        self, name: str, path: str | Path | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """A version as one frozen JSON document, also written to `path` when given; the same judge, the same bytes."""
        judge = self.load(name, version)
        return bundle.bundle_of(judge) if path is None else bundle.write_bundle(judge, path)

    def import_bundle(
        self,
        source: str | Path | Mapping[str, Any],
        name: str | None = None,
        *,
        allow_erased: bool = False,
    ) -> int:
        """Keep an exported judge as version 1, or as the next version of the judge of that name; returns the number.

        Raises InputError for a damaged bundle, and InvalidRows when it holds feedback that was erased from any judge
        here, unless `allow_erased`.
        """
        judge = bundle.load_bundle(source)
        judge = judge.replace(name=name) if name else judge
        return commit(
            self._database, judge, action="import", allow_erased=allow_erased, erased_anywhere=True
        )

    def import_registry(
        self, source: Registry, *, allow_erased: bool = False
    ) -> tuple[JudgeSummary, ...]:
        """Take over all judges of another registry, with all their versions, or none.

        Versions keep their numbers, and what was erased stays erased; answers kept for a stopped align stay behind.

        Args:
            source: The other registry.
            allow_erased: Whether feedback may come along that was erased from a judge here.

        Returns:
            The judges that came.

        Raises:
            JudgeExists: One of the names is here already.
            InvalidRows: A version holds feedback that was erased from any judge here, unless `allow_erased`.
        """
        return versions.import_judges(source._database, self._database, allow_erased=allow_erased)

    def _load(self, name: str, version: int | None) -> tuple[int, Judge]:
        with self._database.read() as connection:
            judge, latest = versions.find(connection, name)
            number = latest if version is None else version
            contents = versions.read(connection, judge, number, name=name)
            expected = versions.memory_hash(connection, judge, number)
        loaded = judge_of(name, contents, models=self._models)
        if expected and loaded.memory.hash != expected:  # an erased version has none
            raise RegistryError(
                f"version {number} of {name!r} is damaged: it is not what was written ({expected}); restore the "
                "registry from a copy, or load another version"
            )
        return number, loaded

    def _erased(self, name: str) -> ErasedHashes:
        with self._database.read() as connection:
            return ErasedHashes(connection, versions.find(connection, name)[0])


def _pause(attempt: int) -> float:
    """Return how many seconds to wait before an attempt: random, so that writers who met do not meet again."""
    return random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)) if attempt else 0.0


def _conflict(name: str) -> VersionConflict:
    often = f"{_ATTEMPTS} times in a row"
    return VersionConflict(
        f"somebody else changed {name!r} first, {often}; nothing was changed, try again"
    )
