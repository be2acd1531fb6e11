"""What a model was paid for is kept until the commit: a stopped align that is run again pays for none of it twice."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from memalign import Judge, Registry
from memalign.aio import run
from memalign.errors import RegistryError, SpendLimitReached
from memalign.judge.paid_calls import PaidCalls
from memalign.models.base import ChatReply, ChatRequest, Decision, Question
from memalign.registry.kept_answers import KeptAnswers
from memalign.testing import HashEmbedding, ScriptedChatModel, ScriptedDecisionModel
from memalign.types import Usage
from tests.support import paying
from tests.support.endpoint import Endpoint
from tests.support.patience import PATIENCE
from tests.support.paying import NAME, OPTIMIZER, create, kept_files, rows

ROWS = rows(36)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(paying.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


class Undisturbed(NamedTuple):
    judge: Judge
    calls: int


@pytest.fixture
def undisturbed(endpoint: Endpoint, tmp_path: Path) -> Undisturbed:
    """What the same feedback comes to where nothing stops the align. The server's record is empty again."""
    result = create(tmp_path / "undisturbed.db").align(NAME, ROWS, optimizer=OPTIMIZER)
    kinds = Counter(body["response_format"]["json_schema"]["name"] for body in endpoint.requests)
    assert kinds == {"changes": 18, "merged": 1}
    assert not kept_files(tmp_path / "undisturbed.db")
    endpoint.requests.clear()
    return Undisturbed(result.judge, kinds.total())


def stop_after(endpoint: Endpoint, count: int, stop: Callable[[], object]) -> None:
    """From request number `count` + 1 on, the server calls `stop` and answers nobody."""
    seen = iter(range(1_000))

    def answer(body: dict[str, Any]) -> Any:
        if next(seen) < count:
            return paying.answer(body)
        stop()
        time.sleep(30)
        return {}

    endpoint.answer = answer


def texts(endpoint: Endpoint) -> list[str]:
    return [json.dumps(body["messages"]) for body in endpoint.requests]


def kept_replies(path: Path) -> int:
    """How many chat answers are kept; a vector is a JSON text, and an answer an object."""
    return sum(line.partition(b" ")[2].startswith(b"{") for file in kept_files(path) for line in lines_of(file))


def lines_of(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is another thing there")
@pytest.mark.parametrize("answered", [5, 15])
def test_a_killed_align_pays_for_no_answer_twice(
    endpoint: Endpoint, undisturbed: Undisturbed, path: Path, tmp_path: Path, answered: int
) -> None:
    registry = create(path)
    given = tmp_path / "feedback.json"
    given.write_text(json.dumps(ROWS), "utf-8")
    waiting = threading.Event()
    stop_after(endpoint, answered, waiting.set)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.support.paying", registry.url, NAME, str(given)]
    python_path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(command, cwd=root, env=os.environ | {"PYTHONPATH": python_path}) as process:
        assert waiting.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while kept_replies(path) < answered:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    (file,) = kept_files(path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(registry.history(NAME)) == 1
    paid = texts(endpoint)[:answered]
    kept = registry.kept_answers(NAME)  # vectors, too

    endpoint.requests.clear()
    endpoint.answer = paying.answer
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == kept >= answered
    assert result.usage.calls == undisturbed.calls - answered
    assert not set(paid) & set(texts(endpoint)), "what was answered is not asked again"
    assert result.judge.memory == undisturbed.judge.memory
    assert registry.load(NAME).memory.hash == undisturbed.judge.memory.hash
    assert registry.export(NAME) == Registry(f"sqlite:///{tmp_path / 'undisturbed.db'}").export(NAME)
    assert not kept_files(path)
    assert registry.kept_answers(NAME) == 0


def test_a_full_disk_keeps_every_paid_answer(
    endpoint: Endpoint, undisturbed: Undisturbed, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, write = create(path), os.write
    count = iter(range(1_000))

    def full(descriptor: int, data: bytes) -> int:
        if next(count) < 4:
            return write(descriptor, data)
        write(descriptor, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("memalign.registry.kept_answers.os.write", full)
        with pytest.raises(RegistryError, match=r"No space left on device\. Nothing was committed; 4 answers are kept"):
            registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert registry.kept_answers(NAME) == 4
    endpoint.requests.clear()
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == 4
    assert result.usage.calls == undisturbed.calls - 4  # the server may still count a request of the align that stopped
    assert result.judge.memory == undisturbed.judge.memory


def test_a_cut_last_line_is_no_answer(endpoint: Endpoint, undisturbed: Undisturbed, path: Path) -> None:
    registry = left_behind(endpoint, path, answered=5)
    (file,) = kept_files(path)
    file.write_bytes(file.read_bytes()[:-20])
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == 4
    assert result.judge.memory == undisturbed.judge.memory


def test_a_damaged_line_is_no_answer_either(endpoint: Endpoint, undisturbed: Undisturbed, path: Path) -> None:
    registry = left_behind(endpoint, path, answered=5)
    (file,) = kept_files(path)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:75] + b"\n"
    lines[2] = lines[2].partition(b" ")[0] + b' {"data": 3}\n'
    lines[3] = lines[3][:30] + b"\n"
    file.write_bytes(b"".join(lines))
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.usage.calls == undisturbed.calls - 2
    assert result.judge.memory == undisturbed.judge.memory


def left_behind(endpoint: Endpoint, path: Path, *, answered: int, **changes: Any) -> Registry:
    """A registry beside which an align that was stopped has left so many answers."""
    registry = create(path, **changes)

    class Stopped(BaseException):
        """As Ctrl-C: nothing in memalign takes it for a failure."""

    done = iter(range(1_000))
    keep = KeptAnswers.keep

    def kept(self: KeptAnswers, key: str, answer: bytes) -> None:
        if next(done) >= answered:
            raise Stopped
        keep(self, key, answer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptAnswers, "keep", kept)
        with pytest.raises(Stopped):
            registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert registry.kept_answers(NAME) == answered
    endpoint.requests.clear()
    return registry


def test_vectors_of_a_provider_are_kept_too(endpoint: Endpoint, path: Path) -> None:
    registry = left_behind(endpoint, path, answered=len(ROWS) + 3, embedding_model="openai:embed")
    assert endpoint.embedding_requests
    endpoint.embedding_requests.clear()
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == len(ROWS) + 3
    assert endpoint.embedding_requests == []
    assert all(case.vector for case in result.judge.memory.cases)


def test_other_feedback_leaves_kept_answers_alone(endpoint: Endpoint, path: Path) -> None:
    registry = left_behind(endpoint, path, answered=5)
    registry.align(NAME, rows(2, source="ben"), optimizer=OPTIMIZER)
    assert registry.kept_answers(NAME) == 5


def test_what_nobody_took_up_in_a_month_goes(endpoint: Endpoint, path: Path) -> None:
    registry = left_behind(endpoint, path, answered=5)
    (file,) = kept_files(path)
    os.utime(file, (0, time.time() - 31 * 86_400))
    empty = file.with_name(f"{path.name}-answers-1-0123")
    empty.touch()
    os.utime(empty, (0, time.time() - 2 * 86_400))
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == 0
    assert not kept_files(path)


@pytest.mark.parametrize("step", ["erase", "unalign", "delete"])
def test_forgetting_leaves_no_kept_answer(endpoint: Endpoint, path: Path, step: str) -> None:
    registry = create(path)
    registry.align(NAME, rows(2, source="eve"), optimizer=OPTIMIZER)
    (left := path.with_name(f"{path.name}-answers-1-0123")).write_text("key answer\n", "utf-8")
    (other := path.with_name(f"{path.name}-answers-12-0123")).write_text("key answer\n", "utf-8")
    if step == "delete":
        registry.delete(NAME)
    elif step == "erase":
        registry.erase(NAME, ["t-eve-0"], dry_run=True)
        assert left.exists()
        registry.erase(NAME, ["t-eve-0"], rederive=False)
    else:
        registry.unalign(NAME, "t-eve-0", optimizer=OPTIMIZER)
    assert not left.exists()
    assert other.exists(), "another judge's"


def test_an_overtaken_align_keeps_nothing_of_old_versions(endpoint: Endpoint, path: Path) -> None:
    registry = create(path)
    endpoint.answer = {}  # no answer that fits: the lesson waits
    registry.align(NAME, [rows(1, source="eve")[0] | {"rationale": "matter number 7 and word777"}])
    erased = False

    def quoting(body: dict[str, Any]) -> Any:
        nonlocal erased
        said = paying.answer(body)
        if isinstance(said, dict) and "changes" in said and "word777" in json.dumps(body):
            said["changes"][0]["text"] = "Mind matter number 7 and word777."
            if not erased:
                erased = True
                Registry(registry.url).erase(NAME, ["t-eve-0"], rederive=False)
        return said

    class Stopped(BaseException):
        pass

    endpoint.answer = quoting
    with pytest.raises(Stopped):
        # Stopped after the answer that quotes came, and before anything is committed.
        registry.align(
            NAME,
            ROWS,
            optimizer=OPTIMIZER,
            progress=lambda phase, done, total: stop(Stopped) if (phase, done) == ("distil", total) else None,
        )
    assert erased
    assert not any(b"word777" in file.read_bytes() for file in path.parent.iterdir())


def stop(error: type[BaseException]) -> None:
    raise error


def test_committed_answers_are_asked_anew(endpoint: Endpoint, path: Path) -> None:
    registry = create(path)
    registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    asked = len(endpoint.requests)
    endpoint.requests.clear()
    registry.unalign(NAME, source="ana", optimizer=OPTIMIZER)
    result = registry.align(NAME, [row | {"id": f"again-{row['id']}"} for row in ROWS], optimizer=OPTIMIZER)
    assert result.taken_up == 0
    assert len(endpoint.requests) == asked


# -- models of one's own ---------------------------------------------------------------------------------------------


def test_probabilities_vectors_and_half_characters_are_kept_exactly(path: Path) -> None:
    said = "a half \ud83d of a pair"
    usage = Usage(calls=1, input_tokens=10, output_tokens=3, cost=0.25)

    def answers(request: ChatRequest) -> ChatReply:
        changes = [{"action": "ADD", "feedback": ["F1"], "text": "Mind the tone.", "guideline": "", "checks": []}]
        data: dict[str, Any] = {"rationale": said, "value": True}
        if request.schema_name == "changes":
            data = {"changes": changes}
        return ChatReply(data=data, text=said, usage=usage, probabilities={"true": 0.1 + 0.2, "false": 0.7})

    chat = ScriptedChatModel(answers)
    request = ChatRequest(system="s", user=said, schema={"type": "object"})
    vectors = HashEmbedding(dim=16)
    path.touch()
    with KeptAnswers(path, 1) as first:
        calls = PaidCalls(answers=first)
        paid = run(calls.chat(chat).complete(request))
        embedded = run(calls.embedding(vectors).embed(["a b", said]))
    with KeptAnswers(path, 1) as second:
        calls = PaidCalls(answers=second)
        again = run(calls.chat(chat).complete(request))
        assert (again.data, again.text, again.probabilities) == (paid.data, paid.text, paid.probabilities)
        assert (paid.usage, again.usage) == (usage, Usage())
        assert run(calls.embedding(vectors).embed([said, "a b"])).tobytes() == embedded[::-1].tobytes()
        assert vectors.texts == ["a b", said]
        assert second.taken_up == 3
    assert len(chat.requests) == 1


def test_decisions_are_kept_one_by_one_and_paid_once(path: Path) -> None:
    deciding = ScriptedDecisionModel(lambda state, question: len(question.text) / 30)
    one, two, three = (Question(key=f"q{n}", text=f"Is it {n}?" + "!" * n) for n in (1, 2, 3))
    path.touch()
    with KeptAnswers(path, 1) as first:
        paid = run(PaidCalls(answers=first).decision(deciding).decide("item", [one, two]))
    with KeptAnswers(path, 1) as second:
        model = PaidCalls(answers=second).decision(deciding)
        renamed = msgspec.structs.replace(one, key="q9")
        again = run(model.decide("item", [three, renamed, two]))
        elsewhere = run(model.decide("another item", [one]))
    assert list(again.probabilities) == ["q3", "q9", "q2"]
    assert again.probabilities["q9"] == paid.probabilities["q1"]
    assert again.probabilities["q2"] == paid.probabilities["q2"]
    assert (again.usage.calls, elsewhere.usage.calls) == (1, 1)
    assert deciding.calls == [2, 1, 1]


def test_decisions_keep_within_the_limit_of_spending() -> None:
    priced = Usage(calls=1, cost=0.6)

    class Priced(ScriptedDecisionModel):
        async def decide(
            self,
            state: str,
            questions: Sequence[Question],
            *,
            timeout: float | None = None,  # noqa: ASYNC109  # the protocol's
        ) -> Decision:
            decision = await super().decide(state, questions, timeout=timeout)
            return msgspec.structs.replace(decision, usage=priced)

    deciding = Priced(lambda state, question: 0.5)
    model = PaidCalls(max_cost=1.0).decision(deciding)
    run(model.decide("item", [Question(key="q1", text="Is it?")]))
    with pytest.raises(SpendLimitReached):
        run(model.decide("another", [Question(key="q1", text="Is it?")]))
    assert deciding.calls == [1]


# -- several at once -------------------------------------------------------------------------------------------------


def test_eight_aligns_at_once_pay_only_once(endpoint: Endpoint, path: Path) -> None:
    create(path)
    ready, problems, results = threading.Barrier(8), list[Exception](), list[Any]()

    def align(who: str) -> None:
        registry = Registry(f"sqlite:///{path}")
        ready.wait()
        try:
            results.append(registry.align(NAME, rows(2, source=who, first=10 * ord(who[-1])), optimizer=OPTIMIZER))
        except Exception as error:  # noqa: BLE001  # told in the main thread
            problems.append(error)

    people = [threading.Thread(target=align, args=(f"expert{n}",)) for n in range(8)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert problems == []
    registry = Registry(f"sqlite:///{path}")
    assert {str(entry.key) for entry in registry.ledger(NAME)} == {
        f"{row['id']}@{row['source']}" for n in range(8) for row in rows(2, source=f"expert{n}", first=10 * ord(str(n)))
    }
    assert [info.action for info in registry.history(NAME)] == ["create", *["align"] * 8]
    assert sorted(result.version for result in results) == list(range(2, 10))
    assert sum(result.usage.calls for result in results) == len(endpoint.requests)
    distilled = [text for text in texts(endpoint) if "You maintain the guidelines of a judge" in text]
    assert len(distilled) == len(set(distilled)), "no lesson was paid for twice"
    assert not kept_files(path)
    assert not list(path.parent.glob("*-aligning-*"))


def test_one_attempt_is_enough_among_staggered_aligns(endpoint: Endpoint, path: Path) -> None:
    registry = create(path)
    for n in range(3):
        registry.align(NAME, rows(1, source=f"expert{n}"), optimizer=OPTIMIZER, attempts=1)
    assert len(registry.history(NAME)) == 4
