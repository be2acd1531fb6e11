"""Tasks of a folder, and splits that anybody can draw again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import InputError, InvalidRows
from memalign.types import Example, Feedback
from memalign_bench.data.folder import load_folder
from memalign_bench.tasks import Case, Task, cases_of


def test_a_folder_gives_tasks_with_questions_and_values(tasks: Path) -> None:
    tone, better = load_folder(tasks)
    assert (tone.name, tone.values, tone.licence, len(tone.cases)) == ("tone", "bool", "ours", 40)
    assert tone.instructions == "Is the reply warm?\nGiven: {{ inputs }}\nTo judge: {{ outputs }}"
    assert better.values == "A|B"
    assert better.by_row


def test_tasks_keep_the_requested_order(tasks: Path) -> None:
    assert [task.name for task in load_folder(tasks, ("better", "tone"))] == ["better", "tone"]


def test_several_peoples_feedback_is_one_majority_label() -> None:
    said = [("ana", True), ("ben", False), ("eva", True)]
    rows = [Feedback(id="t-1", inputs="a", outputs="b", value=value, source=who) for who, value in said]
    (case,) = cases_of([*rows, Feedback(id="t-2", inputs="c", rationale="only words", source="ana")])
    assert (case.label, len(case.feedback)) == (True, 3)


@pytest.mark.parametrize(
    ("listing", "says"),
    [
        (None, "no .*tasks.toml"),
        ("[tone", "no TOML"),
        ("[tone]\nvalues = 'bool'", "criterion"),
        ("[other]\ncriterion = 'x'\nvalues = 'bool'", "no task 'tone'.*tasks: other"),
        ("[tone]\ncriterion = 'x'\nvalues = 'maybe'", "task 'tone' in .*value type"),
        ("[tone]\ncriterion = 'x'\nvalues = 'bool'\nsplit = 'rows'", "task 'tone' in .*'rows'"),
        ("", "names no task"),
    ],
)
def test_an_unreadable_folder_says_what_is_wrong(tasks: Path, listing: str | None, says: str) -> None:
    if listing is None:
        (tasks / "tasks.toml").unlink()
    else:
        (tasks / "tasks.toml").write_text(listing, "utf-8")
    with pytest.raises(InputError, match=says):
        load_folder(tasks, ("tone",))


def test_a_bad_row_is_named_by_its_line(tasks: Path) -> None:
    with (tasks / "tone.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "t-99", "inputs": "x", "outputs": "y", "value": "maybe"}\n')
    with pytest.raises(InvalidRows, match="41") as wrong:
        load_folder(tasks, ("tone",))
    assert "--skip-invalid" not in str(wrong.value)  # which this command does not have


def test_a_file_instead_of_the_folder_is_named(tasks: Path) -> None:
    with pytest.raises(InputError, match=r"tone\.jsonl"):
        load_folder(tasks / "tone.jsonl")


groups = st.lists(st.integers(0, 30), min_size=30, max_size=80)


@given(groups=groups, seed=st.integers(0, 5), by_row=st.booleans())
def test_no_case_or_group_is_on_both_sides(groups: list[int], seed: int, by_row: bool) -> None:
    task = _task(groups, by_row=by_row)
    try:
        split = task.split(seed=seed, train=10, test=20)
    except InputError:
        assert len(set(groups)) < 30  # one group so large that nothing is left beside it
        return
    train, test = ({case.id for case in side} for side in (split.train, split.test))
    assert len(train) == len(split.train) == 10
    assert 0 < len(test) <= 20
    assert not train & test
    if not by_row:
        assert not {case.group for case in split.train} & {case.group for case in split.test}


@given(groups=groups, order=st.randoms(use_true_random=False))
def test_a_split_ignores_the_order_of_the_file(groups: list[int], order: object) -> None:
    task = _task(groups, by_row=True)
    shuffled = list(task.cases)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Task(name="t", category="c", criterion="Good?", values="bool", cases=tuple(shuffled), by_row=True)
    assert task.split(seed=0, train=10, test=10) == other.split(seed=0, train=10, test=10)


def test_a_larger_test_begins_with_the_smaller_one() -> None:
    task = _task(list(range(60)), by_row=False)
    small, large = (task.split(seed=3, train=20, test=n) for n in (10, 30))
    assert large.test[:10] == small.test
    assert large.train == small.train


def test_a_task_that_is_too_small_says_so() -> None:
    with pytest.raises(InputError, match="30 cases: too few to teach 50"):
        _task(list(range(30)), by_row=False).split(seed=0, train=50, test=10)


def _task(groups: list[int], *, by_row: bool) -> Task:
    cases = tuple(
        Case(example=Example(id=f"c-{n:03d}", inputs=str(n)), label=n % 2 == 0, group=f"g{group}", feedback=())
        for n, group in enumerate(groups)
    )
    return Task(name="t", category="c", criterion="Good?", values="bool", cases=cases, by_row=by_row)


def test_an_ordered_task_teaches_with_its_first_cases(tasks: Path) -> None:
    listing = tasks / "tasks.toml"
    listing.write_text(
        listing.read_text("utf-8").replace('values = "bool"', 'values = "bool"\nsplit = "order"'), "utf-8"
    )
    (tone,) = load_folder(tasks, ("tone",))
    split = tone.split(seed=7, train=4, test=2)
    assert [case.id for case in (*split.train, *split.test)] == [f"t-0{n}" for n in range(6)]
    assert len(tone.split(seed=0, train=4).test) == 36
