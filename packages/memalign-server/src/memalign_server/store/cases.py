"""The queue of cases: put in, judged, read back, and which comes next for whom.

One case in four is held out: drawn by chance when it is put in, answered like any other, and never
taught. The judge's agreement with people is measured on those alone. They come in an order of
chance too; of the others, the most useful come first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbelow
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    type_coerce,
    update,
)

from memalign.errors import InputError
from memalign.evaluation import knows
from memalign.judge import Judge
from memalign.memory import Finder, Memory
from memalign.types import Example, Judgment
from memalign.values import value_text
from memalign_server.problems import Refused
from memalign_server.store.answers import count_answers
from memalign_server.store.queries import (
    ANSWERED,
    AT_ONCE,
    CASE,
    COME_TO,
    HELD_OUT,
    IN_QUEUE,
    NOT_HELD_OUT,
    SAID,
    of_judge,
    of_person,
    parts_of,
    read_cases,
    said_by,
    said_of,
    said_of_case,
)
from memalign_server.store.rows import QueuedCase, read_row
from memalign_server.store.tables import (
    from_json,
    judge_settings,
    now,
    queue,
    reviews,
)

ONE_IN = 4
"""One case in this many is held out: forty answers give a figure, and three of four teach."""
VERDICT_LENGTH = 200
LONGEST_ID = 500
CHOICES: Final = (1, 2, 3)
"""How many people's answers a case may want."""
_MEASURING: Final = 2
"""Answers that a measuring case wants at least: people are compared there."""
_NOTHING: Final = Memory()
_CHANCES = 1_000_000
_MOST_FOUND = 20  # cases of one search, and batches of one list
_MINUTE = 16  # characters of a time that say its minute


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What others and the person who asks have open, while nobody else is served.

    Attributes:
        own: The cases that the person has open.
        others: How many other people have a case open.
    """

    own: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)


_NOBODY = Sharing()


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one person is.

    Attributes:
        answered: The cases that they answered.
        skipped: The cases that they skipped and that want an answer more.
        unclear: The cases of which they were not sure.
        explained: Their answers with words.
        waiting: The cases that they have not seen and that want an answer more.
    """

    answered: int
    skipped: int
    unclear: int
    explained: int
    waiting: int

    @property
    def total(self) -> int:
        """Return the number of cases that the person has seen or that wait for them."""
        return self.answered + self.skipped + self.unclear + self.waiting


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many cases a queue has, how many of them are judged, and how many somebody answered."""

    total: int
    judged: int
    answered: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The cases that were added at once.

    Attributes:
        added_at: When that was, which also names the batch.
        origin: The file or experiment that they came from; None for neither.
        total: How many there are.
        answered: How many of them somebody answered.
        number: 1, or more for a later batch of the same origin and minute.
    """

    added_at: str
    origin: str | None
    total: int
    answered: int
    number: int = 1


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What becomes of cases that are put in a queue.

    Attributes:
        new: The cases that are new to the queue.
        repeated: How many others it has with the same content, or are given twice.
        changed: The ids of the rest, which are left out: the judge has other content under them.
        apart: How many answers are on other content under the ids of new cases. They are kept, and
            count for that content alone.
        batch: When the new ones were added; "" as long as they are not.
    """

    new: Sequence[Example]
    repeated: int
    changed: Sequence[str]
    apart: int = 0
    batch: str = ""

    @property
    def counts(self) -> dict[str, Any]:
        """Return what a job's result says of it."""
        return {
            "added": len(self.new),
            "known": self.repeated,
            "changed": list(self.changed),
            "apart": self.apart,
        }


# -- put in ----------------------------------------------------------------------------------------


def compare_cases(
    connection: Connection,
    judge: str,
    examples: Iterable[Example],
    *,
    memory: Memory = _NOTHING,
) -> Arrival:
    """Return which cases are new to a judge's queue, and which ids have other content.

    Of several with one id the last counts.

    Args:
        connection: A transaction.
        judge: The judge.
        examples: The cases.
        memory: What the judge has learned: content under an id that it knows is no new case.

    Raises:
        InputError: An id is too long.
    """
    distinct = {example.id: example for example in examples}
    ids, contents = _known(connection, judge, list(distinct.values()))
    new = {}
    changed = []
    repeated = 0
    for example in distinct.values():
        content = example.content_hash
        learned = memory.case(example.id)
        is_other = learned is not None and learned.example.content_hash != content
        if content in contents or content in new:
            repeated += 1
        elif example.id in ids or is_other:
            changed.append(example.id)
        else:
            new[content] = example
    added = list(new.values())
    return Arrival(
        new=added,
        repeated=repeated,
        changed=changed,
        apart=_answers_apart(connection, judge, added),
    )


def _answers_apart(connection: Connection, judge: str, new: Sequence[Example]) -> int:
    """Return how many answers are on other content under the ids of these cases."""
    apart = 0
    for part in parts_of(new):
        contents = {example.id: example.content_hash for example in part}
        of_cases = and_(SAID.judge == judge, SAID.case_id.in_(contents))
        query = select(SAID.case_id, SAID.content_hash).where(of_cases, ANSWERED)
        for case_id, content in connection.execute(query):
            apart += content != contents[case_id]
    return apart


def _known(
    connection: Connection, judge: str, examples: Sequence[Example]
) -> tuple[set[str], set[str]]:
    """Return the ids and the content hashes of a queue's cases that share one with these.

    Raises:
        InputError: An id is too long.
    """
    ids = set()
    contents = set()
    for part in parts_of(examples):
        for example in part:
            _check_id(example.id)
        part_ids = [example.id for example in part]
        part_contents = [example.content_hash for example in part]
        by_id = CASE.case_id.in_(part_ids)
        by_content = CASE.content_hash.in_(part_contents)
        query = select(CASE.case_id, CASE.content_hash).where(
            of_judge(judge), or_(by_id, by_content)
        )
        for case_id, content in connection.execute(query):
            ids.add(case_id)
            contents.add(content)
    return ids, contents


def _check_id(case_id: str) -> None:
    if len(case_id) > LONGEST_ID:
        raise Refused(
            "id '{id}…' has {n} characters; give shorter ones, {most} at most",
            id=case_id[:60],
            n=len(case_id),
            most=LONGEST_ID,
        )


def add_cases(
    connection: Connection,
    judge: str,
    examples: Iterable[Example],
    *,
    memory: Memory = _NOTHING,
    origin: str | None = None,
) -> Arrival:
    """Put those cases in the queue of a judge that are new to it, unjudged.

    Args:
        connection: The transaction.
        judge: The judge.
        examples: The cases.
        memory: As of `compare_cases`.
        origin: The file or experiment that they come from.

    Raises:
        InputError: An id is too long.
    """
    arrival = compare_cases(connection, judge, examples, memory=memory)
    at = now()  # the same for all: what was added at once can be taken out at once
    rows = list[dict[str, Any]]()
    drawn = 0
    for number, example in enumerate(arrival.new):
        place = number % ONE_IN
        if place == 0:
            drawn = randbelow(ONE_IN)
        held_out = place == drawn
        rank = _chance() if held_out else unknown_rank()
        rows.append(
            {
                "judge": judge,
                "case_id": example.id,
                "content_hash": example.content_hash,
                "example": example,
                "held_out": held_out,
                "rank": rank,
                "added_at": at,
                "origin": origin,
            }
        )
    for part in parts_of(rows):
        connection.execute(insert(queue), part)
        added = [row["case_id"] for row in part]
        _attach_answers(connection, judge, added)
    return replace(arrival, batch=at)


def _attach_answers(connection: Connection, judge: str, ids: Sequence[str]) -> None:
    """Let answers under these ids count again if they are on the same content, and no others."""
    under_ids = update(reviews).where(SAID.judge == judge, SAID.case_id.in_(ids))
    apart = case((IN_QUEUE, 0), else_=1)
    connection.execute(under_ids.values(apart=apart))
    count_answers(connection, judge, ids)


def _chance() -> float:
    return randbelow(_CHANCES) / _CHANCES


def unknown_rank() -> float:
    """Return the rank of a case without a judgment: in the middle, and among its like by chance."""
    return 0.5 + _chance() / _CHANCES


def take_out(
    connection: Connection, judge: str, *, ids: Collection[str] = (), batch: str = ""
) -> int:
    """Take cases out of a queue.

    What people said of them stays, and counts again once the same content is added under the same
    id.

    Args:
        connection: The transaction.
        judge: The judge.
        ids: The cases.
        batch: When cases were added: all of them go.

    Returns:
        How many cases were there.
    """
    named = or_(CASE.added_at == batch, CASE.case_id.in_(ids))
    statement = delete(queue).where(of_judge(judge), named)
    return connection.execute(statement).rowcount


# -- judged ----------------------------------------------------------------------------------------


def store_judgments(
    connection: Connection,
    judge: Judge,
    version: int,
    judged: Sequence[tuple[Example, Judgment]],
    ranks: Mapping[str, float],
) -> None:
    """Keep the judgments of a version of a judge on cases of its queue.

    A judgment that failed leaves the older one, and says why. Cases that are no longer queued, or
    hold something else by now, are passed over. A judge whose memory is empty says what people
    compare with later.

    Args:
        connection: The transaction.
        judge: The judge.
        version: Its version.
        judged: The cases with the judgments.
        ranks: How useful an answer is, by the case's id. It counts at the first judgment; a case
            that is held out keeps its chance place.
    """
    # By the first judgment: if cases that a new version judges ahead moved back, other cases would
    # come before them.
    stays = or_(HELD_OUT, CASE.version.is_not(None))
    # Else a newer version was quicker.
    is_newest = func.coalesce(CASE.version, 0) <= version
    own = update(queue).where(of_judge(judge.name), is_newest)
    for example, judgment in judged:
        same = CASE.content_hash == example.content_hash
        of_case = own.where(CASE.case_id == judgment.id, same)
        if judgment.error is not None:
            connection.execute(of_case.values(problem=judgment.error))
            continue
        values: dict[str, Any] = {
            "judgment": judgment,
            "problem": None,
            "version": version,
            "seen": knows(judge, example),
            "verdict": _verdict_text(judgment.value),
            "rank": case((stays, CASE.rank), else_=ranks[judgment.id]),
        }
        if not judge.memory:
            values |= {"first_value": judgment.value, "first_version": version}
        connection.execute(of_case.values(values))


def _verdict_text(value: Any) -> str:
    return value_text(value)[:VERDICT_LENGTH]


def ask_again(connection: Connection, judge: str) -> None:
    """Have the judge asked again about open cases, and about those that measure it.

    This is for a judge whose question changed.
    """
    answered = exists().where(said_of_case(judge), ANSWERED)
    blank = dict.fromkeys(("judgment", "problem", "version", "verdict"))
    own = update(queue).where(of_judge(judge))
    asked_again = own.where(or_(~answered, HELD_OUT))
    connection.execute(asked_again.values(blank))
    # What the empty memory said was said of the question before.
    connection.execute(own.values(first_value=None, first_version=None))


def mark_dispute(
    connection: Connection,
    judge: str,
    case_id: str,
    disputed: bool,
    settled: str | None = None,
    by: str | None = None,
) -> None:
    """Note whether people differ on a case, whose answer holds, and by whose choice."""
    of_case = update(queue).where(of_judge(judge), CASE.case_id == case_id)
    state = {"disputed": disputed, "settled": settled, "settled_by": by}
    connection.execute(of_case.values(state))


# -- how many answers a case wants -----------------------------------------------------------------


def answers_wanted(connection: Connection, judge: str) -> int:
    """Return how many people's answers a case of a judge wants."""
    query = select(judge_settings.c.answers_wanted)
    own = query.where(judge_settings.c.judge == judge)
    return int(connection.scalar(own) or 1)


def set_answers_wanted(connection: Connection, judge: str, wanted: int) -> None:
    """Set how many people's answers a case wants.

    Raises:
        InputError: The number is none of 1, 2 and 3.
    """
    if wanted not in CHOICES:
        raise Refused("a case wants 1, 2 or 3 answers")
    connection.execute(delete(judge_settings).where(judge_settings.c.judge == judge))
    row = {"judge": judge, "answers_wanted": wanted}
    connection.execute(insert(judge_settings).values(row))


def _needed(connection: Connection, judge: str) -> ColumnElement[int]:
    """Return how many answers a row wants; a case that measures the judge wants at least two."""
    wanted = answers_wanted(connection, judge)
    measuring = literal(max(wanted, _MEASURING), Integer)
    return case((HELD_OUT, measuring), else_=literal(wanted, Integer))


def _blind_answers(judge: str) -> ColumnElement[int]:
    """Return the number of a case's answers that were given blind, which measure the judge."""
    given = reviews.alias()  # the query around it may read `reviews` too
    return (
        select(func.count())
        .select_from(given)
        .where(
            said_of(judge, given.c),
            given.c.case_id == CASE.case_id,
            given.c.state == "answered",
            given.c.blind_value.is_not(None),
        )
        .correlate(queue)
        .scalar_subquery()
    )


# -- what comes next -------------------------------------------------------------------------------


def next_cases(
    connection: Connection,
    judge: str,
    person: str,
    *,
    n: int = 2,
    again: Collection[str] = (),
    measuring: bool = False,
    turn: Sharing = _NOBODY,
) -> list[QueuedCase]:
    """Return the cases that come next for a person.

    After three others comes one that is held out. Where one of the two kinds is used up, the other
    goes on. What they have open comes first. A case does not come if it has all the answers that it
    wants, or will have them from those who have it open.

    Args:
        connection: A transaction.
        judge: The judge.
        person: Who is served.
        n: How many cases at most.
        again: States, such as `skipped`: the cases that the person left so come instead of those
            that wait.
        measuring: Whether those that are held out come first: the person wants to know how good the
            judge is.
        turn: Who has what open.
    """
    needed = _needed(connection, judge)
    own = of_person(judge, person)
    query = (
        select(queue, needed.label("needed"))
        .where(of_judge(judge), CASE.answers < needed)
        .limit(n + len(turn.others))
    )
    order: tuple[ColumnElement[Any], ...] = (CASE.rank.desc(), CASE.number)
    if measuring:  # a second answer on a case adds nothing to the figure
        order = (_blind_answers(judge), *order)
    if again:  # few: found by the person and sorted, not by the order of all cases
        passed = (
            query.join(reviews, own)
            .where(SAID.state.in_(again))
            .order_by((CASE.disputed + 0).desc(), *order)
        )
        return _free(connection, passed, turn)[:n]
    come_to = exists().where(own, COME_TO)
    query = query.where(~come_to).order_by(CASE.disputed.desc(), *order)
    others = _free(connection, query.where(NOT_HELD_OUT), turn)
    held_out = _free(connection, query.where(HELD_OUT), turn)
    if measuring:
        return list(_mixed(others, held_out, ONE_IN, again=0))[:n]
    opened = []
    if turn.own:
        own_open = query.where(CASE.case_id.in_(turn.own))
        opened = read_cases(connection, own_open)[:n]
        others = [one for one in others if one.case_id not in turn.own]
        held_out = [one for one in held_out if one.case_id not in turn.own]
    since = _since_held_out(connection, judge, own)
    return [*opened, *_mixed(others, held_out, since, again=ONE_IN - 1)][:n]


def _free(
    connection: Connection, query: Select[Any], turn: Sharing
) -> list[QueuedCase]:
    """Return the cases that want more answers than those who have them open will give."""
    found = []
    for row in connection.execute(query):
        if row.answers + turn.others.get(row.case_id, 0) < row.needed:
            found.append(read_row(QueuedCase, queue, row))
    return found


def _mixed(
    others: Sequence[QueuedCase],
    held_out: Sequence[QueuedCase],
    since: int,
    *,
    again: int,
) -> Iterator[QueuedCase]:
    """Yield both kinds, one that is held out after `again` others.

    If one kind is used up, the other goes on.
    """
    others_left = deque(others)
    held_out_left = deque(held_out)
    while others_left or held_out_left:
        if held_out_left and (since >= again or not others_left):
            yield held_out_left.popleft()
            since = 0
        else:
            yield others_left.popleft()
            since += 1


def _since_held_out(
    connection: Connection, judge: str, own: ColumnElement[bool]
) -> int:
    """Return how many of the last cases that a person saw came after one that was held out."""
    seen = (
        select(CASE.held_out)
        .join(reviews, and_(own, COME_TO))
        .where(of_judge(judge))
        .order_by(SAID.created_at.desc())
        .limit(ONE_IN - 1)
    )
    latest = list(connection.scalars(seen))
    return latest.index(True) if True in latest else len(latest)


def cases_ahead(connection: Connection, judge: str, *, n: int) -> list[QueuedCase]:
    """Return the `n` cases that come next for each person who has answered, and for a new one.

    No case comes twice.
    """
    answering = select(SAID.person).where(said_of(judge)).distinct()
    coming = {}
    for person in (*connection.scalars(answering), ""):
        for ahead in next_cases(connection, judge, person, n=n):
            coming[ahead.number] = ahead
    return [coming[number] for number in sorted(coming)]


# -- read back -------------------------------------------------------------------------------------


def unjudged(connection: Connection, judge: str) -> list[Example]:
    """Return the cases without a judgment, in their order."""
    query = (
        select(CASE.example)
        .where(of_judge(judge), CASE.judgment.is_(None))
        .order_by(CASE.number)
    )
    return list(connection.scalars(query))


def latest_answered(
    connection: Connection, judge: str, *, held_out: bool, most: int
) -> list[QueuedCase]:
    """Return answered cases of one kind, the latest answer first."""
    query = (
        select(queue)
        .join(reviews, and_(said_of_case(judge), ANSWERED))
        .where(of_judge(judge), CASE.held_out == held_out)
        .group_by(CASE.number)
        .order_by(func.max(SAID.updated_at).desc())
        .limit(most)
    )
    return read_cases(connection, query)


def case_of(connection: Connection, judge: str, case_id: str) -> QueuedCase | None:
    """Return a case of the queue by its id, or None."""
    return next(iter(cases_of(connection, judge, [case_id])), None)


def cases_of(
    connection: Connection, judge: str, ids: Sequence[str]
) -> list[QueuedCase]:
    """Return cases of the queue in the order of the given ids, without those that are not there."""
    found = {}
    for part in parts_of(ids):
        query = select(queue).where(of_judge(judge), CASE.case_id.in_(part))
        for one in read_cases(connection, query):
            found[one.case_id] = one
    return [found[case_id] for case_id in ids if case_id in found]


def ids_with_content(
    connection: Connection, judge: str, content_hash: str
) -> list[str]:
    """Return the ids of the cases that hold the same as one with this hash."""
    query = select(CASE.case_id).where(
        of_judge(judge), CASE.content_hash == content_hash
    )
    return list(connection.scalars(query))


def measuring_names(connection: Connection, judge: str) -> set[str]:
    """Return the ids and content hashes of the cases that are held out, which are never taught."""
    query = select(CASE.case_id, CASE.content_hash).where(of_judge(judge), HELD_OUT)
    names = set[str]()
    for row in connection.execute(query):
        names.update(row)
    return names


def versions_in_view(connection: Connection, judge: str) -> set[int]:
    """Return the versions with a memory that have a judgment on a queued case."""
    # A version whose memory was empty had nothing of it in view.
    taught = CASE.version != func.coalesce(CASE.first_version, 0)
    query = select(CASE.version).where(of_judge(judge), taught).distinct()
    return set(connection.scalars(query))


def turned_unanswered(
    connection: Connection, judge: str, person: str, *, most: int
) -> list[str]:
    """Return cases without this person's answer on which teaching changed the judge's verdict.

    Cases that are held out come by chance alone: if they were chosen by how their verdict changed,
    they would measure nothing.
    """
    answered = exists().where(of_person(judge, person), ANSWERED)
    is_later = CASE.version != CASE.first_version
    query = (
        select(CASE.case_id, CASE.first_value, CASE.verdict)
        .where(of_judge(judge), ~answered, NOT_HELD_OUT, is_later)
        .order_by(CASE.number)
        .limit(most)
    )
    turned = []
    for row in connection.execute(query):
        if _verdict_text(row.first_value) != row.verdict:
            turned.append(row.case_id)
    return turned


def progress_of(connection: Connection, judge: str, person: str) -> Progress:
    """Return how far a person is with the queue of a judge."""
    is_open = CASE.answers < _needed(connection, judge)
    # In a scalar subquery: they are counted in an index, whatever the person has done.
    wanting = (
        select(func.count())
        .select_from(queue)
        .where(of_judge(judge), is_open)
        .correlate(None)
        .scalar_subquery()
    )
    come_to = _count_where(and_(COME_TO, is_open))
    unclear = _count_where(SAID.state == "unclear")
    # A person cannot take up a skipped case again if others have answered it by now.
    skipped = _count_where(and_(SAID.state == "skipped", is_open))
    waiting = wanting - come_to
    of_case = and_(of_judge(judge), said_of_case(judge))
    query = (
        select(
            _count_where(ANSWERED).label("answered"),
            unclear.label("unclear"),
            _count_where(ANSWERED, SAID.rationale).label("explained"),
            skipped.label("skipped"),
            waiting.label("waiting"),
        )
        .select_from(reviews)
        .outerjoin(queue, of_case)
        .where(said_by(judge, person))
    )
    row = connection.execute(query).one()
    return Progress(**row._mapping)  # SQLAlchemy's public name for it


def _count_where(condition: ColumnElement[bool], what: Any = 1) -> ColumnElement[int]:
    return func.count(case((condition, what)))


def counts_of(connection: Connection, judge: str) -> Counts:
    """Return how many cases a queue has, are judged, and are answered by somebody."""
    query = select(
        func.count().label("total"),
        func.count(CASE.judgment).label("judged"),
        _count_where(CASE.answers > 0).label("answered"),
    )
    row = connection.execute(query.where(of_judge(judge))).one()
    return Counts(**row._mapping)


def list_cases(
    connection: Connection,
    judge: Judge,
    *,
    text: str = "",
    state: str = "",
    batch: str = "",
    after: int = 0,
    most: int,
) -> list[QueuedCase]:
    """Return cases in the order in which they were put in.

    Args:
        connection: A transaction.
        judge: The judge.
        text: Only those that hold it.
        state: Only those that are `open`, `answered`, `disputed`, `measuring` or `failed`.
        batch: Only those that were added then.
        after: The number after which they begin.
        most: How many at most.
    """
    query = select(queue).where(of_judge(judge.name), CASE.number > after)
    conditions = {
        "open": CASE.answers == 0,
        "answered": CASE.answers > 0,
        "disputed": CASE.disputed == 1,
        "measuring": HELD_OUT,
        "failed": CASE.problem.is_not(None),
    }
    if state in conditions:
        query = query.where(conditions[state])
    if batch:
        query = query.where(CASE.added_at == batch)
    if text:
        found = find_cases(connection, judge, text, most=AT_ONCE)
        ids = [example.id for example in found]
        query = query.where(CASE.case_id.in_(ids))
    return read_cases(connection, query.order_by(CASE.number).limit(most))


def list_batches(connection: Connection, judge: str) -> list[Batch]:
    """Return what was added at once, the latest first."""
    query = (
        select(
            CASE.added_at,
            func.max(CASE.origin).label("origin"),
            func.count().label("total"),
            _count_where(CASE.answers > 0).label("answered"),
        )
        .where(of_judge(judge))
        .group_by(CASE.added_at)
        .order_by(CASE.added_at.desc())
        .limit(_MOST_FOUND)
    )
    latest_first = connection.execute(query).all()
    batches = []
    seen = Counter[tuple[str | None, str]]()
    for row in reversed(latest_first):
        alike = (row.origin, row.added_at[:_MINUTE])
        seen[alike] += 1
        batches.append(Batch(**row._mapping, number=seen[alike]))
    return batches[::-1]


def waiting_to_measure(connection: Connection, judge: str, person: str) -> int:
    """Return how many held-out cases a person has not seen and nobody has answered blind."""
    seen = exists().where(of_person(judge, person), COME_TO)
    unmeasured = _blind_answers(judge) == 0
    waiting = select(func.count()).where(of_judge(judge), HELD_OUT, ~seen, unmeasured)
    return int(connection.execute(waiting).scalar_one())


# -- search ----------------------------------------------------------------------------------------


def find_cases(
    connection: Connection, judge: Judge, text: str, *, most: int = _MOST_FOUND
) -> list[Example]:
    """Return the cases of the queue and of the memory that hold a text, as an erasure finds it."""
    try:
        finder = Finder(text)
    except InputError:  # nothing in it is visible
        return []
    cases = {}
    query = select(type_coerce(CASE.example, Text)).where(of_judge(judge.name))
    for row in connection.scalars(query.order_by(CASE.number)):
        # Most rows need not be read. JSON writes a backslash as two.
        if "\\" in text or finder.holds(row):
            queued = Example.from_dict(from_json(row))
            cases[queued.id] = queued
    for known in judge.memory.cases:
        cases[known.example.id] = known.example
    found = list[Example]()
    for example in cases.values():
        if len(found) < most and finder.within(list(example.content.values())):
            found.append(example)
    return found
