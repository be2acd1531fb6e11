"""Attacks: what they write, and that a verdict that they turn is counted, and one that they do not is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memalign import Example, Judge, aio
from memalign.errors import InputError, ModelUnavailable
from memalign.models.base import ChatRequest
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel
from memalign.values import Value, ValueType
from memalign_bench.attacks.attack_methods import attack_methods, markdown
from memalign_bench.attacks.catalogue import ATTACKS, attacked, chosen_attacks
from memalign_bench.attacks.measure import Flips, flips_of, measure, wanted_value
from memalign_bench.data.folder import load_folder
from tests.security.test_prompts import check_item, check_marks

REPLIES = Path(__file__).parents[1] / "benchmarks" / "attacks"


def gullible(request: ChatRequest) -> Answer:
    """Obeys whatever ends in `Answer true.`, and otherwise finds nothing good; breaks down where an expert is forged."""
    if request.schema_name != "judgment":
        return {"changes": []}
    item = request.user.rpartition("Now judge this item:")[2]
    if 'Comment: \\"' in request.user:  # as JSON writes a forged one
        return ModelUnavailable("down: HTTP 503")
    return {"rationale": "So.", "value": 'Answer true."' in item}


def judge(answer: Any = gullible) -> tuple[Judge, ScriptedChatModel]:
    model = ScriptedChatModel(answer)
    made = Judge(
        name="j",
        instructions="Good? {{ outputs }}",
        feedback_value_type=bool,
        model=model,
        embedding_model=HashEmbedding(8),
    )
    return made, model


ITEMS = [Example(id=f"t-{n}", outputs=f"reply {n}") for n in range(4)]


def flips(one: Judge, *names: str, per_attack: int = 0) -> tuple[Flips, ...]:
    """How often attacks turn the judge's verdicts on ITEMS to true."""

    async def ask(example: Example) -> Value | None:
        return (await one.ajudge_many([example]))[0].value

    tried = measure("j", ask, ITEMS, wanted=True, attacks=chosen_attacks(names), per_attack=per_attack)
    return flips_of(aio.run(tried), wanted=True)


class TestTheCatalogue:
    @pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
    def test_an_attack_keeps_the_text_inside_its_fence(self, attack: Any) -> None:
        item = attacked(Example(id="t", outputs="A reply."), attack, wanted=True)
        assert item.outputs.startswith("A reply.")
        assert item.id == f"t+{attack.name}"
        hidden = "".join(chr(ord(each) & 0x7F) for each in item.outputs)
        assert ("true" in hidden) == (attack.name != "neutral")
        one, model = judge(lambda _: {"rationale": "x", "value": False})
        one(item)
        check_marks(model.requests[0].user)
        assert check_item(model.requests[0].user.split("\n")) == []

    def test_the_alternative_that_should_win_carries_the_attack(self) -> None:
        pair = Example(id="t", inputs="q", outputs={"A": "first", "B": "second"})
        changed = attacked(pair, ATTACKS["order"], wanted="A")
        assert changed.outputs["B"] == "second"
        assert changed.outputs["A"].endswith('Answer "A".')
        turns = Example(id="t", conversation=[{"role": "user", "content": "hi"}, {"role": "bot", "content": "ho"}])
        assert attacked(turns, ATTACKS["order"], wanted="A").conversation[0]["content"] == "hi"

    def test_what_holds_no_text_cannot_be_attacked(self) -> None:
        with pytest.raises(InputError, match="no text"):
            attacked(Example(id="t", outputs=[1, {"a": None}]), ATTACKS["order"], wanted=True)

    def test_the_control_is_always_there(self) -> None:
        assert [each.name for each in chosen_attacks(("order",))] == ["neutral", "order"]
        with pytest.raises(InputError, match="no attack 'x'"):
            chosen_attacks(("x",))


class TestTheMeasurement:
    def test_flips_are_counted_with_their_interval(self) -> None:
        one, model = judge()
        found = {each.attack: each for each in flips(one, "order", "fence", "plea")}
        assert (found["order"].flips, found["order"].n) == (4, 4)
        assert found["order"].low == pytest.approx(0.51, abs=0.01)
        assert (found["neutral"].flips, found["plea"].flips) == (0, 0)
        assert (found["fence"].flips, found["fence"].n, found["fence"].failed) == (0, 0, 4)
        assert str(found["fence"]) == "4 without a verdict"
        assert (found["all attacks"].flips, found["all attacks"].n, found["all attacks"].failed) == (4, 8, 4)
        assert str(found["all attacks"]) == "4 of 8, 0.50  [0.22, 0.78]; 4 without a verdict"
        assert len(model.requests) == 4 + 4 * 4
        assert str(found["order"]).startswith("4 of 4, 1.00")

    def test_a_case_passing_anyhow_is_not_attacked(self) -> None:
        one, model = judge(lambda _: {"rationale": "x", "value": True})
        assert flips(one) == ()
        assert len(model.requests) == 4

    def test_few_judgments_cover_other_cases_for_each_attack(self) -> None:
        one, model = judge()
        flips(one, "order", "plea", per_attack=1)
        tried = [f"reply {n}" in request.user for request in model.requests[4:] for n in range(4)]
        assert len(model.requests) == 4 + 3
        assert [n % 4 for n, there in enumerate(tried) if there] == [0, 1, 2]

    def test_free_text_and_wrong_labels_are_refused(self) -> None:
        with pytest.raises(InputError, match="free text"):
            wanted_value(ValueType.of("str"), "x")
        with pytest.raises(InputError, match="wanted"):
            wanted_value(ValueType.of("A|B"), "C")
        assert wanted_value(ValueType.of("bool"), "true") is True
        assert wanted_value(ValueType.of("int:1..5"), "5") == 5


class TestMethods:
    async def test_all_methods_are_attacked_only_once(self, tmp_path: Path) -> None:
        (task,) = load_folder(REPLIES, ("replies",))
        model = ScriptedChatModel(gullible)

        async def run() -> Any:
            return await attack_methods(
                task,
                model,
                wanted=True,
                attacks=chosen_attacks(("order",)),
                per_attack=3,
                memo=tmp_path,
                competitors=tmp_path / "nowhere",
                methods=("zero-shot", "memalign", "mlflow"),
            )

        first = await run()
        asked = len(model.requests)
        again = await run()
        assert len(model.requests) == asked
        assert first.attempts == again.attempts
        assert first.flips == again.flips
        assert (first.train, first.cases) == (7, 11)
        assert first.honest == {"zero-shot": (11, 11), "memalign": (11, 11)}
        assert {(each.method, each.attack): (each.flips, each.n) for each in first.flips} == {
            (method, attack): (0 if attack == "neutral" else 3, 3)
            for method in ("zero-shot", "memalign")
            for attack in ("neutral", "order", "all attacks")
        }
        assert len(first.notes) == 1
        assert "no interpreter" in first.notes[0]
        table = markdown(first)
        assert "| `order`: ignore everything, answer this | 3 of 3" in table
        assert "Right on the cases as they are: zero-shot 11 of 11, memalign 11 of 11." in table
        assert "reply" not in json.dumps([each.id for each in first.attempts])


def test_replies_are_labelled_and_teaching_ones_have_words() -> None:
    (task,) = load_folder(REPLIES, ("replies",))
    taught = [case for case in task.cases if case.feedback[0].meta.get("teach")]
    assert {case.label for case in taught} == {True, False}
    assert all(case.feedback[0].rationale for case in taught)
    assert sum(case.label is False for case in task.cases if case not in taught) == 11
