"""A competitor's judge is asked like any other method's, in a process of its own, and what goes wrong there is said."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench_support import fake_worker
from bench_support.raw_models import Scripted
from memalign.errors import ConfigurationError, ModelUnavailable
from memalign.types import Example, Feedback, Usage
from memalign.values import Value
from memalign_bench import competitors
from memalign_bench.methods.base import Fitted, Setting, Verdict
from memalign_bench.methods.competitor import SETUP, Competitor
from memalign_bench.spending import Spending, StoppedError
from memalign_bench.tasks import Task, cases_of
from tests.support.patience import PATIENCE

FAKE = Path(fake_worker.__file__)
COMPETITORS = Path(__file__).parents[3] / ".competitors" / "bin" / "python"

needs_competitors = pytest.mark.skipif(
    not COMPETITORS.exists(), reason=f"no environment of the competitors; set it up with: {SETUP}"
)


def task(name: str = "tone", values: str = "bool", *, count: int = 8, extra: dict[str, Any] | None = None) -> Task:
    label: Value = True if values == "bool" else values.split("|", maxsplit=1)[0]
    rows = [
        Feedback(
            id=f"t-{n}",
            inputs=f"Where is parcel {n}?",
            outputs=f"Sorry, it is {n} days late.",
            value=label if n % 2 == 0 or values != "bool" else False,
            rationale=f"It says sorry for {n} days.",
            source="ana",
            **(extra or {}),
        )
        for n in range(count)
    ]
    return Task(name=name, category="tone", criterion="Is the reply polite?", values=values, cases=cases_of(rows))


def method(folder: Path, model: Scripted, **changes: Any) -> Competitor:
    return Competitor(**{"name": "fake", "python": Path(sys.executable), "folder": folder, "worker": FAKE, **changes})


async def learn(folder: Path, model: Scripted, name: str = "tone", **changes: Any) -> Fitted:
    subject = task(name)
    return await method(folder, model, **changes).learn(
        Setting(task=subject, chat=model, seed=0), subject.cases[:4], None
    )


async def judge(fitted: Fitted, outputs: str) -> Verdict:
    row = Feedback(id="new", inputs="Hm?", outputs=outputs, value=True)
    (case,) = cases_of([row])
    assert isinstance(case.example, Example)
    return await fitted.judge(case, "unseen")


class TestACompetitorInItsOwnProcess:
    async def test_a_competitor_is_charged_for_learning_and_judging(self, tmp_path: Path) -> None:
        model = Scripted(lambda body: "true" if "sorry" in json.dumps(body) else "false", "local:scripted")
        fitted = await learn(tmp_path, model)
        verdicts = [await judge(fitted, text) for text in ("so sorry", "whatever")]
        await fitted.close()
        assert (fitted.fit.id, fitted.fit.calls, fitted.fit.tokens_in, fitted.fit.seconds) == ("fp-4", 1, 100, 4.0)
        assert fitted.fit.counts == {"examples": 4}
        assert [verdict.value for verdict in verdicts] == [True, False]
        assert [(each.usage.calls, each.usage.seconds) for each in verdicts] == [(1, {"model": 2.5})] * 2
        assert {body["model"] for body in model.bodies} == {"scripted"}

    async def test_learning_again_asks_nothing_and_takes_as_long(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "true", "local:scripted")
        fits = []
        paid: list[Usage] = []
        for _ in range(2):
            fitted = await learn(tmp_path, model, paid=paid.append)
            fits.append(fitted.fit)
            await fitted.close()
        assert len(model.bodies) == 1
        assert [fit.calls for fit in fits] == [1, 1]
        assert [usage.calls for usage in paid] == [1]
        assert fits[1].seconds == fits[0].seconds + 2.5  # the call, which the worker's clock did not see this time

    async def test_rows_judged_together_do_not_mix(self, tmp_path: Path) -> None:
        model = Scripted(lambda body: "true" if "sorry" in json.dumps(body) else "false")
        fitted = await learn(tmp_path, model)
        verdicts = await asyncio.gather(*(judge(fitted, text) for text in ("sorry", "no", "sorry again", "never")))
        await fitted.close()
        assert [verdict.value for verdict in verdicts] == [True, False, True, False]
        assert {verdict.usage.calls for verdict in verdicts} == {1}

    async def test_what_libraries_print_goes_to_the_log(self, tmp_path: Path) -> None:
        fitted = await learn(tmp_path, Scripted(lambda _: "true"))
        await fitted.close()
        log = (tmp_path / "logs" / "fake-tone-seed0-4.log").read_text()
        assert "a library says hello" in log
        assert "one in C does too" in log

    async def test_a_failed_row_does_not_stop_the_next(self, tmp_path: Path) -> None:
        fitted = await learn(tmp_path, Scripted(lambda _: "true"))
        refused, odd, good = [await judge(fitted, text) for text in ("refuse", "odd", "fine")]
        await fitted.close()
        # A competitor's own words may quote what was judged, and errors are published: only its log has them.
        assert refused.error == "it failed (its log has the words)"
        assert "the model declined" in (tmp_path / "logs" / "fake-tone-seed0-4.log").read_text()
        assert odd.value is None
        assert odd.error == "its verdict is outside the value type"
        assert good.value is True

    async def test_a_dead_worker_is_reported_without_log_words(self, tmp_path: Path) -> None:
        fitted = await learn(tmp_path, Scripted(lambda _: "true"))
        died, after = [await judge(fitted, text) for text in ("die", "fine")]
        await fitted.close()
        assert died.value is None
        assert "its process ended" in str(died.error)
        assert "out of memory" not in str(died.error)
        assert "out of memory" in (tmp_path / "logs" / "fake-tone-seed0-4.log").read_text()
        assert after.error == died.error

    async def test_a_row_that_takes_too_long_is_abandoned(self, tmp_path: Path) -> None:
        fitted = await learn(tmp_path, Scripted(lambda _: "true"), judge_timeout=0.3)
        verdict = await judge(fitted, "wait")
        await fitted.close()
        assert "no answer to 'judge' in 0.3 s" in str(verdict.error)

    def test_a_worker_nobody_waits_for_ends_at_once(self) -> None:
        command = [sys.executable, "-I", str(Path(competitors.__file__).with_name("serve.py")), str(FAKE)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as worker:
            assert worker.stdin is not None
            worker.stdin.write(b'{"op": "learn", "name": "learns_for_hours"}\n')
            worker.stdin.close()
            assert worker.wait(timeout=PATIENCE) == 0


class TestARunThatStopped:
    async def test_nothing_learned_without_the_model_is_kept(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "true")
        spending = Spending(0.5, lambda _: 1.0)
        spending.pay(Usage())
        with pytest.raises(StoppedError, match="the spend limit is"):
            await learn(tmp_path, model, paid=spending.pay, gate=spending.gate)
        assert model.bodies == []

    async def test_a_judgment_without_the_model_is_none(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "true")
        spending = Spending(0.5, lambda _: 1.0)
        fitted = await learn(tmp_path, model, paid=spending.pay, gate=spending.gate)
        with pytest.raises(StoppedError):
            await judge(fitted, "fine")
        await fitted.close()
        assert len(model.bodies) == 1


class TestACompetitorThatCannotLearn:
    @pytest.mark.parametrize(
        ("name", "error", "says"),
        [
            ("cannot_learn", ModelUnavailable, "two rows are too few"),
            ("dies_learning", ModelUnavailable, "the roof fell in"),
            ("lacks_package", ConfigurationError, r"peerlib.*benchmarks/competitors/requirements\.txt"),
        ],
    )
    async def test_the_reason_is_given(self, tmp_path: Path, name: str, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            await learn(tmp_path, Scripted(lambda _: "true"), name)

    async def test_a_worker_that_talks_nonsense_is_ended(self, tmp_path: Path) -> None:
        nonsense = tmp_path / "nonsense"
        nonsense.write_text("#!/bin/sh\necho this is no JSON\nsleep 60\n")
        nonsense.chmod(0o755)
        with pytest.raises(ModelUnavailable, match="its reply cannot be read"):
            await learn(tmp_path, Scripted(lambda _: "true"), python=nonsense)

    async def test_a_missing_interpreter_names_its_setup_command(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"no interpreter at .*nowhere.*python -m venv"):
            await learn(tmp_path, Scripted(lambda _: "true"), python=tmp_path / "nowhere")

    async def test_free_text_is_no_label(self, tmp_path: Path) -> None:
        model = Scripted(lambda _: "true")
        subject = task("essay", "str")
        with pytest.raises(ConfigurationError, match=r"'essay': free text"):
            await method(tmp_path, model).learn(Setting(task=subject, chat=model, seed=0), subject.cases[:4], None)


def mlflow_answer(body: dict[str, Any]) -> str:
    if "guidelines" in json.dumps(body.get("response_format")):
        return json.dumps({"guidelines": [{"guideline_text": "An apology is polite.", "source_trace_ids": [0, 1]}]})
    return json.dumps({"result": "B", "rationale": "It says sorry."})


@pytest.mark.slow
@needs_competitors
class TestTheRealCompetitors:
    async def test_mlflow_shows_its_guidelines_and_the_nearest_cases(self, tmp_path: Path) -> None:
        model = Scripted(mlflow_answer, "local:scripted")
        subject = task("better", "A|B", count=9, extra={"expectations": "Say sorry."})
        fitted = await Competitor(name="mlflow", python=COMPETITORS, folder=tmp_path).learn(
            Setting(task=subject, chat=model, seed=0), subject.cases[:8], None
        )
        verdict = await fitted.judge(subject.cases[8], "unseen")
        await fitted.close()
        assert fitted.fit.counts == {"guidelines": 1, "examples": 8, "without_value": 0}
        assert (fitted.fit.calls, verdict.usage.calls) == (1, 1)
        assert (verdict.value, verdict.error) == ("B", None)
        system = model.bodies[-1]["messages"][0]["content"]
        assert "An apology is polite." in system
        assert "Example Judgements (5)" in system
        assert '"expected_response": "Say sorry."' in model.bodies[-1]["messages"][1]["content"]

    async def test_mlflow_without_feedback_is_its_plain_judge(self, tmp_path: Path) -> None:
        model = Scripted(mlflow_answer)
        subject = task("better", "A|B")
        fitted = await Competitor(name="mlflow", python=COMPETITORS, folder=tmp_path).learn(
            Setting(task=subject, chat=model, seed=0), (), None
        )
        verdict = await fitted.judge(subject.cases[0], "unseen")
        await fitted.close()
        assert (fitted.fit.calls, verdict.value) == (0, "B")

    @pytest.mark.parametrize("name", ["miprov2", "simba", "gepa"])
    async def test_dspy_optimizes_and_judges(self, tmp_path: Path, name: str) -> None:
        model = Scripted(dspy_answer)
        subject = task(count=5)
        fitted = await Competitor(name=name, python=COMPETITORS, folder=tmp_path).learn(
            Setting(task=subject, chat=model, seed=0), subject.cases[:4], None
        )
        verdict = await fitted.judge(subject.cases[4], "unseen")
        await fitted.close()
        assert fitted.fit.calls >= len(model.bodies) - 1 > 4  # the same question twice is asked once, and counted twice
        assert verdict.value is True


def dspy_answer(body: dict[str, Any]) -> str:
    """DSPy's own format: each output field that the system message lists, under a header."""
    system = body["messages"][0]["content"]
    _, _, listed = system.partition("Your output fields are:")
    fields = [line.split("`")[1] for line in listed.partition("All interactions")[0].splitlines() if "`" in line]
    if not fields:
        return "```\nJudge whether the reply says sorry.\n```"
    texts = {"value": "True", "module_advice": '{"self": "Look for an apology."}'}
    return "\n".join(f"[[ ## {name} ## ]]\n{texts.get(name, 'Some words.')}\n" for name in fields)
