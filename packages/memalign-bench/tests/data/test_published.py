"""Published data sets in their own formats become tasks with stable ids, labels in range and groups."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from memalign.errors import InputError
from memalign.judge import Judge
from memalign_bench.data import feedback_collection, financebench, hotpotqa
from memalign_bench.data.published import PUBLISHED, load_published
from memalign_bench.data.tables import read_table

samples = pytest.importorskip("bench_support.samples", reason="pyarrow writes the Parquet files")

if TYPE_CHECKING:
    from pathlib import Path

    from memalign_bench.tasks import Task


def load(name: str, source: Path, cache: Path) -> tuple[Task, ...]:
    return load_published([name], cache=cache, local=source)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = samples.write_all(tmp_path_factory.mktemp("published"))
    return folder


@pytest.fixture(scope="module")
def tasks(everything: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Task]:
    nothing = tmp_path_factory.mktemp("cache")
    found = {task.name: task for task in load_published(cache=nothing, local=everything)}
    assert not list(nothing.iterdir())
    return found


def test_every_name_gives_its_described_tasks(tasks: dict[str, Task]) -> None:
    assert list(tasks) == [task for entry in PUBLISHED.values() for task in entry.tasks]
    for entry in PUBLISHED.values():
        for name in entry.tasks:
            assert tasks[name].category == entry.category
            assert tasks[name].licence == entry.licence


def test_only_the_private_category_is_missing() -> None:
    assert len(PUBLISHED) == 6
    assert {entry.category for entry in PUBLISHED.values()} == {
        "answer correctness",
        "faithfulness",
        "pairwise preference",
        "fine-grained criteria",
    }


def test_labels_are_in_range_and_cases_share_groups(tasks: dict[str, Task]) -> None:
    for task in tasks.values():
        ids = [case.id for case in task.cases]
        assert len(set(ids)) == len(ids)
        assert all(task.value_type.parse(case.label) == case.label for case in task.cases)
        assert len({case.label for case in task.cases}) > 1
        assert len({case.group for case in task.cases}) < len(task.cases)


def test_tasks_split_and_make_judges(tasks: dict[str, Task]) -> None:
    for task in tasks.values():
        split = task.split(seed=0, train=10, test=10)
        assert split.test
        if not task.by_row:
            assert not {case.group for case in split.train} & {case.group for case in split.test}
        Judge(name="j", instructions=task.instructions, feedback_value_type=task.values, model="test:none")


def test_the_order_of_a_file_changes_no_id(everything: Path, tmp_path: Path) -> None:
    rows = samples.scored_rows()
    random.Random(5).shuffle(rows)
    samples.put(tmp_path / "new_feedback_collection.json", rows)
    once = load("feedback-collection", everything / "feedback-collection", tmp_path)
    again = load("feedback-collection", tmp_path, tmp_path)
    assert [(task.name, task.criterion, {case.id for case in task.cases}) for task in once] == [
        (task.name, task.criterion, {case.id for case in task.cases}) for task in again
    ]


def test_refused_answers_are_left_out_of_financebench(tasks: dict[str, Task]) -> None:
    task = tasks["financebench"]
    assert task.values == "correct|incorrect"
    assert len(task.cases) == sum(
        row["label"] != "Refusal" for system in range(16) for row in samples.result_rows(system)
    )
    case = next(case for case in task.cases if case.id == "financebench_id_00000-claude-2_inContext")
    assert case.example.expectations == "$0.00"  # the data file's gold answer, not the results' number
    assert (case.label, case.group) == ("correct", "financebench_id_00000")


def test_halubench_cases_of_a_passage_stay_together(tasks: dict[str, Task]) -> None:
    by_passage: dict[str, set[str]] = {}
    for case in tasks["halubench"].cases:
        by_passage.setdefault(case.example.inputs["passage"], set()).add(case.group)
    assert len(by_passage) == 20
    assert all(len(groups) == 1 for groups in by_passage.values())


def test_auto_j_comments_only_where_gpt_4_agrees(tasks: dict[str, Task]) -> None:
    safe, summary = tasks["autoj-saferlhf"], tasks["autoj-summary"]
    assert (safe.values, summary.values) == ("A|B", "A|B|tie")
    assert len(safe.cases) == len(summary.cases) == 40
    for case in safe.cases:
        (said,) = case.feedback
        assert (said.rationale is None) == (case.label == "B")
        assert said.rationale is None or "Response A is practical" in said.rationale
    assert safe.cases[0].example.outputs == {"A": "With a *** drop, 0.", "B": "Never, 0."}


def test_auto_j_also_reads_its_readmes_column_spelling(tmp_path: Path) -> None:
    rows = [samples.pair(n, "pku_saferlhf", gt=n % 2, pred=1, column="usermsg") for n in range(4)]
    (task,) = load("autoj-saferlhf", samples.put(tmp_path / "pairs.jsonl", rows), tmp_path)
    assert len(task.cases) == 4


@pytest.mark.parametrize("unread", [-1, None, "neither", True, 7])
def test_an_unreadable_gpt_verdict_costs_only_its_comment(tmp_path: Path, unread: object) -> None:
    rows = [samples.pair(n, "pku_saferlhf", gt=n % 2, pred=unread if n == 1 else n % 2) for n in range(4)]
    (task,) = load("autoj-saferlhf", samples.put(tmp_path / "pairs.jsonl", rows), tmp_path)
    told = [case.feedback[0].rationale is not None for case in task.cases]
    assert (len(told), sum(told)) == (4, 3)


def test_hotpotqa_takes_first_trials_without_doubtful_labels(tasks: dict[str, Task]) -> None:
    cases = tasks["hotpotqa"].cases
    assert len(cases) == 5 * 10  # of four answers one was halted and one said the same in other words
    assert not any("reflected" in case.example.outputs["answer"] for case in cases)
    right = next(case for case in cases if case.id == "hotpotqa-5a0000-gpt-4-cot-context")
    assert right.label is True
    assert right.example.expectations == "the Blue 0 River"
    assert right.feedback[0].meta["level"] == "hard"
    assert all(case.example.outputs["reasoning"] == "I think so." for case in cases)


def test_an_unlisted_question_keeps_the_logs_reference(everything: Path, tmp_path: Path) -> None:
    for path in (everything / "hotpotqa" / "hotpotqa_runs").rglob("*.txt"):
        target = tmp_path / path.relative_to(everything / "hotpotqa")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text("utf-8").replace("the Blue 0 River", "the Red River"), "utf-8")
    samples.put(tmp_path / hotpotqa.QUESTIONS.path, samples.hotpot_rows()[1:])
    (task,) = load("hotpotqa", tmp_path, tmp_path)
    assert {case.example.expectations for case in task.cases if "town 0 " in case.example.inputs["question"]} == {
        "the Red River"
    }


@pytest.mark.parametrize(
    ("answer", "gold", "doubtful"),
    [
        ("Stedelijk", "Stedelijk Museum", True),
        ("the river Po in Italy", "Po", True),
        ("22 May 1761", "22 May", True),
        ("a lake", "a river", False),
        ("The", "Rome", False),
    ],
)
def test_a_nearly_right_answer_makes_its_label_doubtful(answer: str, gold: str, doubtful: bool) -> None:
    assert hotpotqa._doubtful(answer, gold) is doubtful


def test_the_feedback_collection_gives_ten_different_criteria(tasks: dict[str, Task]) -> None:
    ten = [tasks[f"feedback-collection-{place}"] for place in range(1, 11)]
    assert len({task.criterion for task in ten}) == 10
    for task in ten:
        assert len(task.cases) == 100
        assert len({case.group for case in task.cases}) == 20
        assert task.criterion.count("\n") == 5
        assert all(case.feedback[0].rationale == f"It deserves {case.label}." for case in task.cases)


def test_repeated_or_rare_criteria_are_not_chosen(tmp_path: Path) -> None:
    rubric = feedback_collection.Rubric
    large = {rubric(f"Is the model good at {topic}?", ("a",) * 5): 100 for topic in samples.TOPICS}
    duplicates = {rubric(f"Is the model good at {topic}, always?", ("a",) * 5): 99 for topic in samples.TOPICS}
    small = {rubric(f"Rare skill number{'x' * n}", ("a",) * 5): 5 for n in range(20)}
    chosen = feedback_collection.choose({**small, **large, **duplicates}, path=tmp_path)
    assert len(chosen) == 10
    assert not set(chosen) & set(small)
    told = [next(topic for topic in samples.TOPICS if topic in one.criterion) for one in chosen]
    assert len(set(told)) == 10


def test_large_criteria_do_not_drive_out_all_others(tmp_path: Path) -> None:
    rubric = feedback_collection.Rubric
    usual = {rubric(f"Is there skill in {'x' * (4 + n)}?", ("a",) * 5): 100 for n in range(60)}
    duplicates = {rubric("The very same words?", (str(n),) * 5): 188 for n in range(4)}
    chosen = feedback_collection.choose({**usual, **duplicates}, path=tmp_path)
    assert len(set(chosen) & set(duplicates)) <= 1


def test_criteria_that_are_all_alike_are_still_ten(tmp_path: Path) -> None:
    sizes = {feedback_collection.Rubric("The very same words?", (str(n),) * 5): 3 for n in range(30)}
    assert len(set(feedback_collection.choose(sizes, path=tmp_path))) == 10


def test_single_tasks_come_in_the_order_named(everything: Path, tmp_path: Path) -> None:
    names = ("feedback-collection-3", "halubench", "feedback-collection-1")
    assert tuple(task.name for task in load_published(names, cache=tmp_path, local=everything)) == names


def test_a_local_folder_may_hold_files_by_name(tmp_path: Path) -> None:
    samples.put(tmp_path / "test-00000-of-00001.parquet", samples.halubench_rows(4))
    (task,) = load_published(["halubench"], cache=tmp_path / "cache", local=tmp_path)
    assert len(task.cases) == 4


def test_an_unknown_name_is_answered_with_existing_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'medical'.*financebench, hotpotqa.*feedback-collection-10"):
        load_published(["medical"], cache=tmp_path)


def test_an_incomplete_local_copy_uses_no_network(tmp_path: Path) -> None:
    samples.put(tmp_path / financebench.QUESTIONS.path, samples.question_rows())
    with pytest.raises(InputError, match=r"no results/claude-2_inContext\.jsonl .* patronus-ai/financebench"):
        load_published(["financebench"], cache=tmp_path, local=tmp_path)
    with pytest.raises(InputError, match="17 are needed"):
        load_published(["financebench"], cache=tmp_path, local=tmp_path / financebench.QUESTIONS.path)
    with pytest.raises(InputError, match="no local copy"):
        load_published(["financebench"], cache=tmp_path, local=tmp_path / "nowhere")


# Files that are not as published


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json"])
def test_a_missing_column_is_named_with_existing_ones(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"verdict" if name == "label" else name: cell for name, cell in row.items()}
        for row in samples.halubench_rows(4)
    ]
    path = samples.put(tmp_path / f"halubench{suffix}", rows)
    with pytest.raises(InputError, match=rf"{path}, row 1: no column 'label'; found: id, passage, .*verdict"):
        load("halubench", path, tmp_path)


def test_a_label_outside_the_values_names_its_row(tmp_path: Path) -> None:
    rows = samples.halubench_rows(4)
    rows[2]["label"] = "MAYBE"
    with pytest.raises(InputError, match=r"row 3: column 'label': .*'MAYBE'.*PASS"):
        load("halubench", samples.put(tmp_path / "h.parquet", rows), tmp_path)
    pairs = [samples.pair(0, "PKU-SafeRLHF", gt=7, pred=0)]
    with pytest.raises(InputError, match=r"row 1: column 'gt_label' should hold 0 .*found 7"):
        load("autoj-saferlhf", samples.put(tmp_path / "p.jsonl", pairs), tmp_path)


def test_an_unknown_financebench_label_or_question_is_named(tmp_path: Path) -> None:
    samples.put(tmp_path / financebench.QUESTIONS.path, samples.question_rows())
    for system, remote in enumerate(financebench.RESULTS):
        samples.put(tmp_path / remote.path, samples.result_rows(system))
    path = tmp_path / financebench.RESULTS[0].path
    samples.put(path, [{**samples.result_rows(0)[0], "label": "So so"}])
    with pytest.raises(InputError, match="row 1: column 'label': unknown label 'So so'"):
        load("financebench", tmp_path, tmp_path)
    samples.put(path, [{**samples.result_rows(0)[0], "financebench_id": "other"}])
    with pytest.raises(InputError, match="row 1: no question 'other' among the 20"):
        load("financebench", tmp_path, tmp_path)


def test_a_missing_subset_is_answered_with_existing_sources(tmp_path: Path) -> None:
    path = samples.put(tmp_path / "p.jsonl", [samples.pair(0, "chatbot_arena", gt=0, pred=0)])
    with pytest.raises(InputError, match=r"no row of summary; .*holds: chatbot_arena"):
        load("autoj-summary", path, tmp_path)


def test_a_message_of_another_form_is_named(tmp_path: Path) -> None:
    row = {**samples.pair(0, "PKU-SafeRLHF", gt=0, pred=0), "usrmsg": "Which is better?"}
    with pytest.raises(InputError, match=r"row 1: column 'usrmsg' has no \[Query\]"):
        load("autoj-saferlhf", samples.put(tmp_path / "p.jsonl", [row]), tmp_path)


def test_fewer_than_ten_criteria_are_said(tmp_path: Path) -> None:
    rows = [samples.scored(topic, 0, 3) for topic in samples.TOPICS[:4]]
    with pytest.raises(InputError, match="has 4 criteria in column 'orig_criteria'; 10 are needed"):
        load("feedback-collection", samples.put(tmp_path / "f.json", rows), tmp_path)


def test_a_log_of_another_form_is_said(everything: Path, tmp_path: Path) -> None:
    samples.put(tmp_path / hotpotqa.QUESTIONS.path, samples.hotpot_rows())
    for remote in hotpotqa.LOGS.values():
        (tmp_path / remote.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / remote.path).write_text("nothing of note\n", "utf-8")
    with pytest.raises(InputError, match="no line 'BEGIN TRIAL 1'"):
        load("hotpotqa", tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"[]", "has no row"),
        (b"id,passage\n", "neither JSON lines, a JSON array nor Parquet"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b'{"id": 1}\n{"id"', "row 2: broken JSON"),
        (b'[{"id": 1}, {"id": "cut', "row 2: broken or cut off JSON"),
        (b'[{"id": 1}, 7]', "row 2: expected an object"),
        (b'[{"id": "\xff"}]', "not UTF-8"),
        (b"PAR1 and no more", "no readable Parquet"),
    ],
)
def test_a_file_that_is_no_table_says_so(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        list(read_table(path))


def test_an_array_longer_than_chunks_gives_every_row(tmp_path: Path) -> None:
    rows = [{"id": n, "text": f"row {n}, “quoted” " * 100} for n in range(1500)]
    path = samples.put(tmp_path / "long.json", rows)
    assert path.stat().st_size > 2 << 20
    assert [row.fields for row in read_table(path)] == rows
