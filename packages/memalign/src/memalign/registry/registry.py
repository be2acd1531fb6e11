"""Registry: judges and their versions, in SQLite or PostgreSQL. The only place with history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
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
from memalign.models.base import ChatModel, EmbeddingModel
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.registry import bundle, versions
from memalign.registry.database import Database
from memalign.registry.diff import MemoryDiff, compare
from memalign.registry.erase import Selection, erase_feedback
from memalign.registry.erase_check import search_again
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import judge_of
from memalign.registry.paid_answers import PaidAnswers
from memalign.registry.receipt import Receipt
from memalign.registry.versions import Action, JudgeSummary, VersionInfo, commit
from memalign.types import Feedback, FeedbackKey, Usage

__all__ = ["Registry", "Saved"]

_ATTEMPTS = 20  # how often somebody else may be quicker before a change is given up
_LONGEST_PAUSE = 0.5  # seconds, before another attempt

Step = Callable[[Judge, Calls], Awaitable[AlignResult]]
"""What is learned or forgotten, with which calls."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A judge as a registry keeps it now, and what it was made from.

    Both are the same version where nothing changed.
    """

    judge: Judge
    version: int
    parent: int
    before: Judge


class Registry:
    """Judges and their versions (1, 2, …) in one SQLite file or PostgreSQL database.

    It is created when it is not there.

    A version never changes, except that `erase` takes out what may no longer be anywhere. Usable
    from several threads and processes at once.

    Args:
        url: `sqlite:///memalign.db`, a path, or `postgresql://user@host/database`.
        models: Chat and embedding models of your own. A judge keeps their name only, and gets the
            object back when it is loaded here.
        busy_timeout: How many seconds to wait for other processes.
        create: Whether a registry that is not there is created.

    Raises:
        ConfigurationError: The address names no registry that is supported.
        RegistryTooNew: A newer memalign wrote it.
        RegistryError: It cannot be used; the message says why.
        JudgeNotFound: It is not there and may not be created.
    """

    def __init__(
        self,
        url: str | Path = "sqlite:///memalign.db",
        *,
        models: Iterable[ChatModel | EmbeddingModel] = (),
        busy_timeout: float = 30.0,
        create: bool = True,
    ) -> None:
        self.url = str(url)
        self._models = {model.name: model for model in models}
        self._database = Database(self.url, busy_timeout=busy_timeout, create=create)

    def __repr__(self) -> str:
        return f"Registry({self._database.url!r})"  # without a password

    # -- judges ------------------------------------------------------------------------------------

    def create(self, judge: Judge, *, note: str | None = None) -> int:
        """Keep a new judge as version 1, and return 1.

        Args:
            judge: The judge.
            note: What history says of the version.

        Raises:
            JudgeExists: The name is taken.
        """
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
        """Keep a judge as the next version and return its number.

        A judge that equals the newest version adds none.

        Args:
            judge: The judge, which replaces whatever is newest.
            action: What made the version, one of a few words.
            note: What history says of the version.
            parent: The version that must be the newest still.
            allow_erased: Whether feedback may come back that was erased here.

        Raises:
            VersionConflict: `parent` is not the newest any more.
            InvalidRows: The judge holds feedback that was erased here.
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
        """Return a judge.

        Args:
            name: The judge.
            version: Its version; None for the newest.

        Raises:
            JudgeNotFound: There is none; the message names those that there are.
        """
        return self._load(name, version)[1]

    def list(self) -> tuple[JudgeSummary, ...]:
        """Return all judges, by name."""
        with self._database.read() as connection:
            return versions.summaries(connection)

    def delete(self, name: str) -> None:
        """Delete a judge with all its versions, and what was remembered of its erasures.

        Args:
            name: The judge.
        """
        with self._database.write(name) as connection:
            versions.remove(connection, versions.find(connection, name).judge)

    # -- history -----------------------------------------------------------------------------------

    def rename(self, name: str, to: str) -> None:
        """Give a judge another name, with all its versions.

        Its judgments in files keep the old name.

        Args:
            name: The judge's name.
            to: Its new name.

        Raises:
            JudgeNotFound: No judge has the name.
            JudgeExists: Another judge has the new name.
            InputError: The new name is none that a judge can have.
        """
        named = self.load(name).replace(name=to)
        with self._database.write(*{name, to}) as connection:
            versions.rename(connection, name, named.name)

    def history(self, name: str) -> tuple[VersionInfo, ...]:
        """Return every version of a judge, the oldest first.

        Args:
            name: The judge.
        """
        with self._database.read() as connection:
            return versions.history(connection, versions.find(connection, name).judge)

    def diff(self, name: str, a: int, b: int) -> MemoryDiff:
        """Return what changed from one version to another.

        Args:
            name: The judge.
            a: The version before.
            b: The version after.
        """
        before = self.load(name, a)
        after = self.load(name, b)
        return compare(before, after, versions=(a, b))

    def judged_by(
        self, name: str, signature: str, memory_hash: str
    ) -> tuple[int, Judge]:
        """Find the newest version that gave certain judgments, and return its number and the judge.

        Args:
            name: The judge. It may have had another name when it judged.
            signature: The judgments' `judge`.
            memory_hash: The judgments' `memory_hash`.

        Raises:
            InputError: No version gave them.
        """
        _, _, hashes = signature.rpartition("@")
        for info in reversed(self.history(name)):
            # An erasure has changed those without a hash.
            if info.memory_hash not in ("", memory_hash):
                continue
            judge = self.load(name, info.number)
            # A version whose model cannot be opened here did not judge.
            with suppress(ConfigurationError):
                if signature_of(judge).endswith(f"@{hashes}"):
                    return info.number, judge
        raise InputError(
            f"no version of {name!r} in the registry gave these judgments (their judge is "
            f"{signature}), or an erasure, another memalign or another setting has changed it"
        )

    def rollback(self, name: str, to: int) -> Saved:
        """Make the content of an earlier version the next version.

        That may bring back feedback that was unaligned since; never what was erased, for no version
        holds it.

        Args:
            name: The judge.
            to: The number of the version.
        """
        with self._database.write(name) as connection:
            change = versions.roll_back(connection, name, to)
        return Saved(
            judge=judge_of(name, change.after, models=self._models),
            version=change.number,
            parent=change.parent,
            before=judge_of(name, change.before, models=self._models),
        )

    def ledger(self, name: str, version: int | None = None) -> tuple[LedgerEntry, ...]:
        """Return where every piece of feedback ended.

        Erased ones are there by the beginning of a keyed hash only.

        Args:
            name: The judge.
            version: Its version; None for the newest.
        """
        judge = self.load(name, version)
        erased = self._erased(name)
        return judge.memory.ledger() + erased.entries()

    # -- learning and forgetting -------------------------------------------------------------------

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
        columns: Mapping[str, str] | None = None,
        max_cost: float | None = None,
        force: bool = False,
    ) -> AlignResult:
        """Learn from feedback and commit the next version; nothing is committed if nothing changed.

        If somebody else committed first, the newer version learns the same feedback again, twenty
        times at most. Every answer that a model was paid for is kept in the registry until the
        commit: an align that was stopped, by Ctrl-C, a full disk or a killed process, and is run
        again pays for none of them a second time.

        Args:
            name: The judge.
            feedback: As for `Judge.align`; none: only what is pending.
            optimizer: The knobs; None: the usual ones.
            skip_invalid: Whether rows that cannot be used are reported and left out, instead of
                refusing all.
            allow_erased: Whether feedback may come back that was erased here; else its rows are
                left out and named.
            own_verdicts: As for `Judge.align`, of the newest version or of one that had learned
                nothing.
            progress: Called with the phase, how many of its steps are done, and how many there are.
            columns: Field to column of another name, which the new judge remembers.
            max_cost: As for `Judge.align`.
            force: Whether to commit although a locked case comes out wrong. Without, the feedback
                stays pending and `broken` of the result names the case.

        Raises:
            InvalidRows: A row cannot be used.
            VersionConflict: Somebody else was quicker each time.
            ConfigurationError: There is no model to learn with, or its price is not known where a
                limit is set.
        """
        learner = _learner(optimizer, columns, max_cost)
        learning = partial(
            learner.align,
            feedback=RowSource.of(feedback),  # every attempt reads it
            skip_invalid=skip_invalid,
            own_verdicts=own_verdicts,
            progress=progress,
        )
        step = self._step(name, learning, allow_erased)
        return await self._commit_step(
            name, step, learner, action="align", allow_erased=allow_erased, force=force
        )

    align = aio.blocking(aalign)

    async def aestimate(
        self,
        name: str,
        feedback: FeedbackSource = (),
        *,
        optimizer: MemAlign | None = None,
        skip_invalid: bool = False,
        allow_erased: bool = False,
        own_verdicts: OwnVerdicts | None = None,
        progress: Progress | None = None,
        columns: Mapping[str, str] | None = None,
        dry_run: DryRun | None = None,
    ) -> Usage:
        """Return about how many calls, tokens and dollars an `align` would take. No model is asked.

        Rows, keys and the model's name are checked as `align` does. Answers that are kept cost
        nothing again.

        Args:
            name: The judge.
            feedback: As for `align`.
            optimizer: As for `align`.
            skip_invalid: As for `align`.
            allow_erased: As for `align`.
            own_verdicts: As for `align`.
            progress: As for `align`.
            columns: As for `align`.
            dry_run: Counts the calls, if you want to know more of them.

        Returns:
            The usage; its cost is None if a price is not known.
        """
        learner = _learner(optimizer, columns)
        learning = partial(
            learner.align,
            feedback=feedback,
            skip_invalid=skip_invalid,
            own_verdicts=own_verdicts,
            progress=progress,
        )
        step = self._step(name, learning, allow_erased)
        judge = await asyncio.to_thread(self.load, name)
        answers = await asyncio.to_thread(PaidAnswers, self._database, name)
        trial = dry_run or DryRun()
        trial.dimensions = judge.memory.matrix.shape[1] or 8
        await step(judge, learner.calls(answers, trial))
        return trial.usage

    estimate = aio.blocking(aestimate)

    async def aunalign(
        self,
        name: str,
        *keys: str | FeedbackKey,
        source: str | None = None,
        people_agree: bool = False,
        keep: Collection[str] = (),
        optimizer: MemAlign | None = None,
        progress: Progress | None = None,
    ) -> AlignResult:
        """Forget feedback and commit the next version; older versions keep it.

        Args:
            name: The judge.
            keys: `t-17` for all annotations on a case, `t-17@ana` for one.
            source: All feedback of this person, or of `keys` only theirs.
            people_agree: Whether guidelines that people wrote or confirmed go too, where they saw
                the feedback.
            keep: Guidelines, by id, whose wording the person keeps although their own feedback
                goes.
            optimizer: The knobs; None: the usual ones.
            progress: As for `align`.

        Raises:
            UnknownKey: A key names nothing in memory.
            VersionConflict: Somebody else was quicker each time.
        """
        learner = optimizer or MemAlign()

        async def step(judge: Judge, calls: Calls) -> AlignResult:
            return await learner.unalign(
                judge,
                *keys,
                source=source,
                people_agree=people_agree,
                keep=keep,
                progress=progress,
                calls=calls,
            )

        return await self._commit_step(
            name, step, learner, action="unalign", force=True
        )

    unalign = aio.blocking(aunalign)

    def _step(
        self, name: str, learning: Callable[..., Awaitable[AlignResult]], erased: bool
    ) -> Step:
        """Return the step that learns; what was erased is refused unless it may come back."""

        async def step(judge: Judge, calls: Calls) -> AlignResult:
            hashes = await asyncio.to_thread(self._erased, name)

            def refuse(row: Feedback) -> str | None:
                return None if erased else hashes.row_refusal(row, judge.memory)

            return await learning(judge, refuse=refuse, calls=calls)

        return step

    async def _commit_step(
        self,
        name: str,
        step: Step,
        learner: MemAlign,
        *,
        action: Action,
        allow_erased: bool = False,
        force: bool,
    ) -> AlignResult:
        """Commit the result of a step.

        If somebody else was quicker, it is taken again, with the answers that are kept.
        """
        # In threads: waiting for a lock must not stop the loop on which judgments run. And before
        # anything is paid for.
        await asyncio.to_thread(self._database.check_writable)
        started = time.perf_counter()
        spent = Usage()
        # Before the version is read: an erase that comes later ends the keeping, and one that came
        # before left no text.
        answers = await asyncio.to_thread(PaidAnswers, self._database, name)
        calls = learner.calls(answers)
        for attempt in range(_ATTEMPTS):
            await asyncio.sleep(_pause(attempt))
            parent, judge = await asyncio.to_thread(self._load, name, None)
            result = await step(judge, calls)
            spent += result.usage
            number = parent
            if result.broken and not force:
                # Its answers stay kept: told to commit, the next align pays for none again.
                result = held_back(result)
            else:
                try:
                    number = await asyncio.to_thread(
                        commit,
                        self._database,
                        result.judge,
                        action=action,
                        parent=parent,
                        allow_erased=allow_erased,
                    )
                except VersionConflict:
                    continue
                await asyncio.to_thread(answers.committed)
            return replace(
                result,
                usage=spent,
                seconds=time.perf_counter() - started,
                version=number,
                parent=parent,
                taken_up=answers.taken_up,
            )
        raise _conflict(name)

    # -- changes by hand ---------------------------------------------------------------------------

    def update(
        self,
        name: str,
        function: Callable[[Judge], Judge],
        action: Action = "edit",
        *,
        note: str | None = None,
        force: bool = False,
        allow_erased: bool = False,
    ) -> Saved:
        """Commit what a function makes of the newest version.

        If somebody else was quicker, it is called again with theirs.

        Args:
            name: The judge.
            function: Returns the changed judge.
            action: What made the version, one of a few words.
            note: What history says of the version.
            force: Whether an edited judge may get a locked case wrong.
            allow_erased: Whether feedback and wordings may come back that were erased.

        Raises:
            InvalidRows: The judge holds what was erased.
            LockBroken: An edited judge gets a locked case wrong.
            VersionConflict: Somebody else was quicker each time.
        """
        for attempt in range(_ATTEMPTS):
            time.sleep(_pause(attempt))
            latest, judge = self._load(name, None)
            changed = function(judge)
            if (
                action == "edit"
                and not force
                and changed.fingerprint != judge.fingerprint
            ):
                _check_locks(judge, changed)
            with suppress(VersionConflict):
                number = commit(
                    self._database,
                    changed,
                    action=action,
                    note=note,
                    parent=latest,
                    allow_erased=allow_erased,
                )
                return Saved(judge=changed, version=number, parent=latest, before=judge)
        raise _conflict(name)

    def lock(self, name: str, *ids: str, unlock: bool = False) -> Saved:
        """Make cases ones that no later version may break, as the next version.

        Args:
            name: The judge.
            ids: The cases.
            unlock: Whether later versions may break them again.
        """
        return self.update(name, lambda judge: lock(judge, *ids, unlock=unlock), "lock")

    # -- erasing -----------------------------------------------------------------------------------

    def erase(
        self,
        name: str,
        selectors: str | FeedbackKey | Collection[str | FeedbackKey] = (),
        *,
        source: str | None = None,
        matching: str | None = None,
        also: Iterable[Selection] = (),
        keep: Collection[str] = (),
        dry_run: bool = False,
        rederive: bool = True,
        optimizer: MemAlign | None = None,
        progress: Progress | None = None,
    ) -> Receipt:
        """Take cases and feedback out of every version and every table, and return the receipt.

        Whether they were taught or only wait in a server's queue makes no difference. Afterwards
        every table and file that can be reached is searched for their words, and the receipt says
        whether and where one is left.

        Args:
            name: The judge.
            selectors: Ids (a case and all that was said of it) or keys (what one person said), of
                any version or table.
            source: All that one person said. Without selectors and `matching`, the name goes
                everywhere too.
            matching: All that holds a text, in whatever case and spelling. Without selectors and
                `source`, no guideline and no note may hold it afterwards either. Of these three
                arguments, all that are given must hold.
            also: What goes beside it, in the same transaction and with the same receipt. A key of
                these that names nothing is passed over.
            keep: Ids of cases that stay in a server's queue, although nobody says anything of them
                any more.
            dry_run: Whether to say only what would go. The counts are those of the erasure.
            rederive: Whether what survives is distilled again at once; else it is pending.
            optimizer: Distils; its knobs.
            progress: Told how far it is.

        Raises:
            InputError: A selector is neither a text nor a key, or a text to search for is empty.
            UnknownKey: A selector names nothing, or nothing is there that all of these name.
            RegistryError: What was erased could not be wiped from the disk.
        """
        named = Selection(keys=selectors, source=source, matching=matching)
        plan = erase_feedback(
            self._database, name, (named, *also), keep, dry_run=dry_run
        )
        if dry_run:
            return replace(
                plan.receipt,
                latest=None,
                dry_run=True,
                unreachable=self._database.unreachable,
            )
        receipt = search_again(
            self._database, plan.receipt, plan.residue, plan.history.codec
        )
        if rederive and receipt.pending:
            return self._rederived(name, receipt, optimizer, progress)
        return receipt

    def _rederived(
        self,
        name: str,
        receipt: Receipt,
        optimizer: MemAlign | None,
        progress: Progress | None,
    ) -> Receipt:
        try:
            result = self.align(name, (), optimizer=optimizer, progress=progress)
        # The erase stands whatever happens here, Ctrl-C too: the receipt is proof of it, and must
        # not be lost.
        except (MemalignError, OSError, KeyboardInterrupt) as error:
            return replace(receipt, problem=str(error) or "interrupted")
        waiting = dict(result.pending)
        return replace(
            receipt,
            latest=result.version or receipt.latest,
            pending=tuple(waiting),
            rederived=tuple(rule.id for rule in result.guidelines),
            problem="; ".join(dict.fromkeys(waiting.values())),
        )

    def compact(self) -> None:
        """Rewrite the database without what was deleted; `erase` does it by itself."""
        self._database.compact()

    # -- in and out --------------------------------------------------------------------------------

    def export(
        self, name: str, path: str | Path | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """Return a version as one frozen JSON document; the same judge gives the same bytes.

        Args:
            name: The judge.
            path: The file to write it to as well.
            version: Its version; None for the newest.

        Raises:
            InputError: The file cannot be written.
        """
        judge = self.load(name, version)
        if path is None:
            return bundle.bundle_of(judge)
        return bundle.write_bundle(judge, path)

    def import_bundle(
        self,
        source: str | Path | Mapping[str, Any],
        name: str | None = None,
        *,
        allow_erased: bool = False,
    ) -> int:
        """Keep an exported judge as the next version of the judge of that name; return its number.

        Args:
            source: The bundle's file, or its document.
            name: The name to keep it under; None for its own.
            allow_erased: Whether feedback may come back that was erased from any judge here.

        Raises:
            InputError: The bundle is damaged.
            InvalidRows: It holds feedback that was erased from any judge here.
        """
        judge = bundle.load_bundle(source)
        if name:
            judge = judge.replace(name=name)
        return commit(
            self._database,
            judge,
            action="import",
            allow_erased=allow_erased,
            erased_anywhere=True,
        )

    def import_registry(
        self, source: Registry, *, allow_erased: bool = False
    ) -> tuple[JudgeSummary, ...]:
        """Take over all judges of another registry, with all their versions, or none.

        Versions keep their numbers, and what was erased stays erased; answers kept for a stopped
        align stay behind.

        Args:
            source: The other registry.
            allow_erased: Whether feedback may come along that was erased from a judge here.

        Returns:
            The judges that came.

        Raises:
            JudgeExists: One of the names is here already.
            InvalidRows: A version holds feedback that was erased from any judge here, unless
                `allow_erased`.
        """
        return versions.import_judges(
            source._database, self._database, allow_erased=allow_erased
        )

    def _load(self, name: str, version: int | None) -> tuple[int, Judge]:
        with self._database.read() as connection:
            head = versions.find(connection, name)
            number = head.latest
            if version is not None:
                number = version
            contents = versions.read(connection, head, number, name=name)
            expected = versions.memory_hash(connection, head.judge, number)
        loaded = judge_of(name, contents, models=self._models)
        if expected and loaded.memory.hash != expected:  # an erased version has none
            raise RegistryError(
                f"version {number} of {name!r} is damaged: it is not what was written "
                f"({expected}); restore the registry from a copy, or load another version"
            )
        return number, loaded

    def _erased(self, name: str) -> ErasedHashes:
        with self._database.read() as connection:
            return ErasedHashes(connection, versions.find(connection, name).judge)


def _learner(
    optimizer: MemAlign | None,
    columns: Mapping[str, str] | None,
    max_cost: float | None = None,
) -> MemAlign:
    given: dict[str, Any] = {"columns": columns, "max_cost": max_cost}
    changes = {name: knob for name, knob in given.items() if knob is not None}
    return replace(optimizer or MemAlign(), **changes)


def _check_locks(before: Judge, after: Judge) -> None:
    """Raise LockBroken if a judge that was changed by hand gets a locked case wrong."""
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


def _pause(attempt: int) -> float:
    """Return how many seconds to wait before an attempt.

    They are random, so that writers who met do not meet again.
    """
    return random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)) if attempt else 0.0


def _conflict(name: str) -> VersionConflict:
    often = f"{_ATTEMPTS} times in a row"
    return VersionConflict(
        f"somebody else changed {name!r} first, {often}; nothing was changed, try again"
    )
