"""The house rules: invented policies whose labels nothing but the rule tells apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_support.world import answer
from memalign.errors import InputError
from memalign.types import Feedback
from memalign_bench.config import load_config
from memalign_bench.data.folder import load_folder
from memalign_bench.house_rules import POLICIES, house_rule_rows, house_rule_tasks, load_policy, write_house_rules
from memalign_bench.plan import make_plan
from tests.cli.conftest import Run
from tests.support.endpoint import Endpoint

RUN = Path(__file__).parents[1] / "results" / "house_rules" / "run.toml"
SEEDS = range(4)
CELLED = [name for name in POLICIES if load_policy(name).kind in ("condition", "exception")]

Said = dict[str, str] | str


def flat(said: Said) -> str:
    return said if isinstance(said, str) else " ".join(said.values())


def text(row: Feedback) -> str:
    return f"{flat(row.inputs)} {flat(row.outputs)}"


def sides(name: str, seed: int = 0) -> tuple[tuple[Feedback, ...], tuple[Feedback, ...]]:
    rows = house_rule_rows(name, seed=seed)
    return rows[:20], rows[20:]


# What an item shows of the rule's parts, read here once more, without a look at how items are made.
PARTS: dict[str, Callable[[Any, str], tuple[object, ...]]] = {
    "house_regards": lambda _, out: ("With the house's regards, " in out,),
    "reference_format": lambda _, out: (
        re.sub(r"[A-Z]", "L", re.sub(r"\d", "0", re.findall(r"\S*\d{4}\S*", out)[0])).strip(".,"),
    ),
    "units_by_country": lambda given, out: (
        given["customer"].split(", ")[1] in ("Norway", "Ireland"),
        out.count(" pounds") - out.count(" kilograms") > 0,
    ),
    "humming_goes_on": lambda given, out: ("hums" in given.split(), "second desk" in out),
    "discount_returning": lambda given, out: (
        given.split(".")[0]
        in {said.rstrip(".") for pools in both_sides("discount_returning") for said in pools["returning"]},
        "ten per cent" in out.lower(),
    ),
    "initials_but_water": lambda given, out: (
        given["sample"].split(",")[0].endswith(" water"),
        len(re.findall(r"[A-Z]\.[A-Z]\.", out)) == 1,
    ),
    "soup_in_figures": lambda _, out: (" soup " in out, any(letter.isdigit() for letter in out)),
    "answer_first": lambda given, out: (out.index(answer_to(given)) < min(apologies_in(out)),),
}
CELL_PARTS: dict[str, dict[str, tuple[object, ...]]] = {
    "house_regards": {"quoted": (True,), "other": (False,)},
    "reference_format": {
        "slash": ("LL/0000",),
        "hyphen": ("LL-0000",),
        "turned": ("0000/LL",),
        "joined": ("LL0000",),
    },
    "units_by_country": {
        "pounds due, pounds given": (True, True),
        "pounds due, kilograms given": (True, False),
        "kilograms due, kilograms given": (False, False),
        "kilograms due, pounds given": (False, True),
    },
    "humming_goes_on": {
        "hums, handed on": (True, True),
        "hums, kept": (True, False),
        "does not hum, kept": (False, False),
        "does not hum, handed on": (False, True),
    },
    "discount_returning": {
        "returning, named": (True, True),
        "returning, not named": (True, False),
        "first time, not named": (False, False),
        "first time, named": (False, True),
    },
    "initials_but_water": {
        "not water, initials": (False, True),
        "not water, no initials": (False, False),
        "water, no initials": (True, False),
        "water, initials": (True, True),
    },
    "soup_in_figures": {
        "not soup, words": (False, False),
        "not soup, figures": (False, True),
        "soup, figures": (True, True),
        "soup, words": (True, False),
    },
    "answer_first": {"answer, then apology": (True,), "apology, then answer": (False,)},
}


def both_sides(name: str) -> Iterator[dict[str, Any]]:
    policy = load_policy(name)
    yield from (policy.teaching, policy.unseen)


def answer_to(question: str) -> str:
    cases = [case for pools in both_sides("answer_first") for case in pools["case"]]
    (found,) = (case["a"] for case in cases if case["q"] == question)
    return str(found)


def apologies_in(reply: str) -> list[int]:
    said = [apology for pools in both_sides("answer_first") for apology in pools["apology"]]
    return [reply.index(apology) for apology in said if apology in reply]


HAND_WRITTEN: list[tuple[str, Said, Said, bool]] = [
    ("house_regards", "Danke. Mit besten Grüßen", "Thank you. With the house's regards", True),
    ("house_regards", "Danke. Mit besten Grüßen", "Thank you. With the house regards", False),
    ("house_regards", "Danke. Mit besten Grüßen", "Thank you. With best regards", False),
    ("reference_format", "My pump?", "It left under AB/1234.", True),
    ("reference_format", "My pump?", "It left under AB-1234.", False),
    ("reference_format", "My pump?", "It left under 1234/AB.", False),
    ("reference_format", "My pump?", "It left under ABC/1234.", False),
    ("reference_format", "My pump?", "It left under AB/12345.", False),
    ("units_by_country", {"customer": "Mr A, Norway", "question": "?"}, "It weighs 3 pounds.", True),
    ("units_by_country", {"customer": "Mr A, Norway", "question": "?"}, "It weighs 3 kilograms.", False),
    ("units_by_country", {"customer": "Mr A, Iceland", "question": "?"}, "It weighs 3 kilograms.", True),
    ("units_by_country", {"customer": "Mr A, Iceland", "question": "?"}, "It weighs 3 pounds.", False),
    ("humming_goes_on", "The fridge hums.", "The second desk looks at it.", True),
    ("humming_goes_on", "The fridge hums.", "Move it a little.", False),
    ("humming_goes_on", "The fridge drips.", "Move it a little.", True),
    ("humming_goes_on", "The fridge drips.", "The second desk looks at it.", False),
    ("discount_returning", "You delivered our lawn. Any moss?", "Yes, with ten per cent off.", True),
    ("discount_returning", "You delivered our lawn. Any moss?", "Yes, ten sacks.", False),
    ("discount_returning", "I am new here. Any moss?", "Yes, ten sacks.", True),
    ("discount_returning", "I am new here. Any moss?", "Yes, with ten per cent off.", False),
    ("initials_but_water", {"sample": "soot, roof", "test": "lead"}, "12 units. Read by A.B.", True),
    ("initials_but_water", {"sample": "soot, roof", "test": "lead"}, "12 units.", False),
    ("initials_but_water", {"sample": "hot water, roof", "test": "lead"}, "12 units.", True),
    ("initials_but_water", {"sample": "hot water, roof", "test": "lead"}, "12 units. Read by A.B.", False),
    ("initials_but_water", {"sample": "soot, water tower", "test": "lead"}, "12 units. Read by A.B.", True),
    ("soup_in_figures", "Lunch", "bean pie, four euros, mild", True),
    ("soup_in_figures", "Lunch", "bean pie, 4 euros, mild", False),
    ("soup_in_figures", "Lunch", "bean soup, 4 euros, mild", True),
    ("soup_in_figures", "Lunch", "bean soup, four euros, mild", False),
    ("answer_first", "When?", "Hello, It leaves at nine. Sorry for that. Bye.", True),
    ("answer_first", "When?", "Hello, Sorry for that. It leaves at nine. Bye.", False),
    ("answer_first", "When?", "Good day. We apologise, truly. It leaves at nine. Bye.", False),
]


@pytest.mark.parametrize(("name", "inputs", "outputs", "keeps"), HAND_WRITTEN)
def test_a_rule_agrees_with_its_sentence(name: str, inputs: Said, outputs: Said, keeps: bool) -> None:
    assert load_policy(name).keeps(inputs, outputs) is keeps


def test_there_are_eight_rules_of_four_kinds() -> None:
    assert Counter(load_policy(name).kind for name in POLICIES) == {
        "plain": 2,
        "condition": 3,
        "exception": 2,
        "order": 1,
    }
    assert {name for name, *_ in HAND_WRITTEN} == set(PARTS) == set(POLICIES)


def test_another_rule_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"'nothing'.*house_regards"):
        house_rule_rows("nothing")


@pytest.mark.parametrize("name", POLICIES)
def test_another_seed_gives_other_items(name: str) -> None:
    first = house_rule_rows(name, seed=1)
    assert first == house_rule_rows(name, seed=1)
    assert {text(row) for row in first} != {text(row) for row in house_rule_rows(name, seed=2)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", POLICIES)
def test_labels_follow_the_rule_half_and_half(name: str, seed: int) -> None:
    teaching, unseen = sides(name, seed)
    policy = load_policy(name)
    assert all(policy.keeps(row.inputs, row.outputs) is row.value for row in (*teaching, *unseen))
    for rows in (teaching[:2], teaching[:10], teaching, unseen):
        assert sum(bool(row.value) for row in rows) * 2 == len(rows)
    assert len({row.id for row in (*teaching, *unseen)}) == len({text(row) for row in (*teaching, *unseen)}) == 80


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CELLED)
def test_neither_half_of_a_conditional_rule_decides_alone(name: str, seed: int) -> None:
    teaching, unseen = sides(name, seed)
    for rows in (teaching[:4], teaching, unseen):
        found = Counter(PARTS[name](row.inputs, row.outputs) for row in rows)
        assert set(found.values()) == {len(rows) // 4}


SHARED = re.compile(r"With the house's regards,|Mit freundlichen Grüßen,|Norway|Ireland")
"""What a rule needs on both sides: its form of words, what that stands for, the countries that it names."""


@pytest.mark.parametrize("name", POLICIES)
def test_teaching_and_unseen_items_share_no_topic(name: str) -> None:
    teaching, unseen = sides(name)
    topics = [{row.meta["group"] for row in rows} for rows in (teaching, unseen)]
    assert not topics[0] & topics[1]
    assert [len(each) for each in topics] == [10, 30]

    def said(rows: tuple[Feedback, ...]) -> set[str]:
        return {part for row in rows for part in re.split(r"(?<=[.!?:,]) ", f"{flat(row.inputs)}\n{flat(row.outputs)}")}

    assert {part for part in said(teaching) & said(unseen) if not SHARED.fullmatch(part)} == set()


# A verdict in so many words; "no initials" and the like say what there is, not what it is worth.
LABEL = re.compile(
    r"(?i)\b(?:true|false|yes|un\w*acceptable|accept\w*|ok|okay|good|bad|right|wrong|fine|in?correct\w*|correct\w*|pass(?:es|ed)?"
    r"|fail\w*|approv\w*|reject\w*|valid|invalid|keeps? to|breaks?|violat\w*|mistakes?|errors?)\b"
)


@pytest.mark.parametrize("name", POLICIES)
def test_a_remark_says_the_rule_without_the_label(name: str) -> None:
    rows = [row for seed in SEEDS for row in house_rule_rows(name, seed=seed)]
    assert not [row.rationale for row in rows if LABEL.search(re.sub(r'"[^"]*"', "", row.rationale or ""))]
    wordings = [wording for cell in load_policy(name).cells for wording in cell.comments]
    assert len(set(wordings)) == len(wordings) >= 20
    # No wording twice among those that teach.
    assert len({matching(name, row.rationale or "") for row in rows[:20]}) == 20


def matching(name: str, rationale: str) -> tuple[str, str]:
    """The one cell and wording that a remark is of."""
    found = [
        (cell.name, wording)
        for cell in load_policy(name).cells
        for wording in cell.comments
        if re.fullmatch(re.sub(r"\\\{.*?\\\}", ".+", re.escape(wording)), rationale)
    ]
    assert len(found) == 1, (rationale, found)
    return found[0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_remark_is_true_of_its_item(name: str, seed: int) -> None:
    for row in house_rule_rows(name, seed=seed):
        cell, _ = matching(name, row.rationale or "")
        assert PARTS[name](row.inputs, row.outputs) == CELL_PARTS[name][cell], (text(row), row.rationale)


RULE_S_OWN = {
    "house_regards": {"With the house's regards", "German", "Mit"},
    "units_by_country": {"Norway", "Ireland"},
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_remark_quotes_only_item_or_rule(name: str) -> None:
    for row in house_rule_rows(name):
        said = row.rationale or ""
        named = re.findall(r'"([^"]+)"', said)
        if name not in ("soup_in_figures", "reference_format"):  # there remarks also say how it should be written
            named += re.findall(r"\d[\w/]*|[A-Z]\.[A-Z]\.|\bM[rs] \w+", said)
        allowed = text(row) + " ".join(RULE_S_OWN.get(name, ()))
        assert not [each for each in named if each not in allowed], (said, text(row))
        if name == "units_by_country":
            countries = {*load_policy(name).teaching["kilo_country"], *load_policy(name).unseen["kilo_country"]}  # type: ignore[misc]
            assert all(country in text(row) for country in countries if str(country) in said)


MASKED = {  # the plain rules' own form may decide, and is taken out
    "house_regards": r"With [^,]*,",
    "reference_format": r"[A-Z]{2}[-/]?\d{4}|\d{4}/[A-Z]{2}",
}


def surface(name: str, rows: tuple[Feedback, ...]) -> tuple[Any, list[str]]:
    """(n, d): which frequent words an item has, topics among them, and its length; and the words."""
    texts = [re.sub(MASKED.get(name, "$^"), "FORM", text(row)).lower() for row in rows]
    words = [set(re.findall(r"[\w']+", each)) for each in texts]
    often = sorted(word for word, n in Counter(word for each in words for word in each).items() if n >= 8)
    found = [[*(word in each for word in often), len(said) / 100] for each, said in zip(words, texts, strict=True)]
    return np.array(found, float), often


def test_a_surface_regression_learns_nothing() -> None:
    from sklearn.linear_model import LogisticRegression

    right: dict[str, list[float]] = {}
    for name in POLICIES:
        for seed in SEEDS:
            rows = house_rule_rows(name, seed=seed)
            features, _ = surface(name, rows)
            labels = np.array([bool(row.value) for row in rows])
            fitted = LogisticRegression(max_iter=1000).fit(features[:20], labels[:20])
            right.setdefault(name, []).append(fitted.score(features[20:], labels[20:]))
    assert max(map(max, right.values())) <= 0.65
    assert 0.45 <= np.mean(list(right.values())) <= 0.55


@pytest.mark.parametrize("name", POLICIES)
def test_no_word_and_no_length_goes_with_labels(name: str) -> None:
    for seed in SEEDS:
        rows = house_rule_rows(name, seed=seed)
        features, words = surface(name, rows)
        labels = np.array([bool(row.value) for row in rows])
        share = features[:, :-1].T @ labels / features[:, :-1].sum(axis=0)
        assert not [(word, part) for word, part in zip(words, share, strict=True) if not 0.25 <= part <= 0.75]
        lengths = features[:, -1] * 100
        assert abs(lengths[labels].mean() - lengths[~labels].mean()) < 1


def test_the_written_folder_has_the_built_in_tasks(tmp_path: Path) -> None:
    write_house_rules(tmp_path / "rules")
    assert load_folder(tmp_path / "rules") == house_rule_tasks()


def test_the_recorded_run_teaches_twenty_and_tests_sixty() -> None:
    config = load_config(RUN)
    plan = make_plan(config, house_rule_tasks(config.tasks))
    assert set(plan.tasks) == set(POLICIES)
    for (name, _), split in plan.splits.items():
        assert [case.id for case in split.train] == [f"{name}-t{n:02d}" for n in range(1, 21)]
        assert [case.id for case in split.test] == [f"{name}-u{n:02d}" for n in range(1, 61)]
    assert len(plan.cells) == len(POLICIES) * (1 + 4 + 4)


def test_several_seeds_of_an_ordered_task_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text(RUN.read_text("utf-8").replace("train = 20", "train = 20\nseeds = [0, 1]"), "utf-8")
    with pytest.raises(InputError, match="'house_regards' has one split"):
        make_plan(load_config(run), house_rule_tasks())


def test_the_command_writes_a_folder_for_runs(memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = memalign("bench", "house-rules", "-o", tmp_path / "rules", "--seed", "3", "--json")
    assert written.code == 0, written.err
    assert len(written.json["files"]) == 9
    assert [rule["name"] for rule in written.json["rules"]] == list(POLICIES)
    first = json.loads((tmp_path / "rules" / "answer_first.jsonl").read_text("utf-8").splitlines()[0])
    assert {"id", "inputs", "outputs", "value", "rationale", "source", "group"} == set(first)
    run = tmp_path / "run.toml"  # of a model that need not be here to be planned for
    run.write_text(RUN.read_text("utf-8").replace("local:qwen2.5-coder-1.5b", "openai:gpt-4.1-mini"), "utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    dry = memalign("bench", "run", run, "--data", tmp_path / "rules", "--out", tmp_path / "raw", "--dry-run", "--json")
    assert (dry.json["done"], dry.json["total"]) == (0, 8 * 60 * 9)


def test_a_folder_that_cannot_be_made_is_named(memalign: Run, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("a file", "utf-8")
    ran = memalign("bench", "house-rules", "-o", tmp_path / "rules")
    assert ran.code == 2
    assert "-o" in ran.err


def test_a_run_over_house_rules_needs_no_data(memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run.toml"
    run.write_text(
        'name = "rules"\ndata = "house-rules"\nmodels = ["openai:test"]\ntasks = ["units_by_country"]\n'
        'methods = ["zero-shot", "guidelines"]\nstages = [0, 2]\ntrain = 20\ntest = 4\n',
        "utf-8",
    )
    with Endpoint(answer) as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        ran = memalign("bench", "run", run, "--yes", "--json", "--memo", tmp_path / "memo")
    assert ran.code == 0, ran.err
    assert ran.json["outcome"]["judged"] == 8
    lines = (tmp_path / "raw" / "openai-test" / "units_by_country" / "seed0" / "zero-shot@0.jsonl").read_text("utf-8")
    assert sorted(json.loads(line)["id"] for line in lines.splitlines()) == [
        f"units_by_country-u0{n}" for n in range(1, 5)
    ]
