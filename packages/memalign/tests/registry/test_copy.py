"""Judges from one registry to another: all of them that there is, and what was erased stays erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memalign import Registry
from memalign.cli.app import app
from memalign.errors import InputError, InvalidRows, JudgeExists, JudgeNotFound, RegistryError
from tests.support.places import KINDS, OnSQLite, Place, place_of
from tests.support.registry import all_versions, case, judge, memory_of, models, optimizer, row

MODELS = models()


@pytest.fixture
def source(tmp_path: Path) -> Registry:
    """Two judges in a file; of one, t-2 is erased."""
    registry = OnSQLite(tmp_path / "source.db").registry(models=MODELS)
    registry.create(judge(memory_of(case("t-1", "ana"), case("é-9", "bob")), name="tone"))
    registry.create(judge(model=MODELS[0], embedding_model=MODELS[1]))
    learner = optimizer(*MODELS)
    registry.align("helpfulness", [row("t-1", "ana", "cold"), row("t-2", "bob", "long and dull")], optimizer=learner)
    receipt = registry.erase("helpfulness", ["t-2"], optimizer=learner)
    (tmp_path / "receipt.json").write_text(json.dumps(receipt.to_dict()))
    return registry


def same(one: Registry, other: Registry, name: str) -> bool:
    return (
        all_versions(one, name) == all_versions(other, name)
        and one.history(name) == other.history(name)
        and one.ledger(name) == other.ledger(name)
        and one.lineage(name, "t-1") == other.lineage(name, "t-1")
    )


def test_a_copy_holds_all_versions_and_their_lineage(source: Registry, place: Place) -> None:
    copied = source.copy_to(place.another().registry(models=MODELS))
    assert [(each.name, each.versions, each.erasures, each.replaced) for each in copied] == [
        ("helpfulness", 3, 1, False),
        ("tone", 1, 0, False),
    ]


def test_what_was_erased_stays_erased_in_a_copy(source: Registry, place: Place, tmp_path: Path) -> None:
    target = place.registry(models=MODELS)
    source.copy_to(target)
    assert all(same(source, target, name) for name in ("helpfulness", "tone"))
    assert target.verify(tmp_path / "receipt.json").unchanged
    with pytest.raises(InvalidRows, match=r"t-2@bob.*was erased"):
        target.align("helpfulness", [row("t-2", "bob", "long and dull")], optimizer=optimizer(*MODELS))
    target.align("helpfulness", [row("t-3", "bob", "fine")], optimizer=optimizer(*MODELS))
    assert len(target.history("helpfulness")) == len(source.history("helpfulness")) + 1


def test_back_and_forth_nothing_changes(source: Registry, place: Place, tmp_path: Path) -> None:
    there = place.registry(models=MODELS)
    source.copy_to(there)
    back = Registry(f"sqlite:///{tmp_path / 'back.db'}", models=MODELS)
    there.copy_to(back)
    assert all(same(source, back, name) for name in ("helpfulness", "tone"))


def test_only_named_judges_are_copied(source: Registry, place: Place) -> None:
    target = place.registry()
    source.copy_to(target, ["tone"])
    assert [each.name for each in target.list()] == ["tone"]
    with pytest.raises(JudgeNotFound, match=r"no judge 'nobody' in .*; judges: helpfulness, tone"):
        source.copy_to(target, ["nobody"])


def test_a_judge_is_replaced_only_when_told(source: Registry, place: Place) -> None:
    target = place.registry(models=MODELS)
    target.create(judge(name="tone", model="openai:gpt-5"))
    with pytest.raises(JudgeExists, match=r"has judges of these names: tone; --overwrite .* Nothing was copied"):
        source.copy_to(target)
    assert [each.name for each in target.list()] == ["tone"], "nor any other"
    assert [each.replaced for each in source.copy_to(target, overwrite=True)] == [False, True]
    assert same(source, target, "tone")


def test_an_older_copy_brings_nothing_erased_back(source: Registry, place: Place) -> None:
    target = place.registry(models=MODELS)
    source.copy_to(target)
    target.erase("helpfulness", ["t-1"], rederive=False)
    with pytest.raises(RegistryError, match=r"hashes of what was erased from judge 'helpfulness'.*could bring it back"):
        source.copy_to(target, overwrite=True)
    assert target.history("helpfulness")[-1].action == "erase"
    source.copy_to(target, ["tone"], overwrite=True)


def test_two_registries_that_both_erased_are_not_mixed(source: Registry, place: Place) -> None:
    target = place.registry()
    target.create(judge(memory_of(case("t-8", "ana"), case("t-9", "ana")), name="other"))
    target.erase("other", ["t-8"], rederive=False)
    with pytest.raises(RegistryError, match=r"under different secrets.*Nothing was copied"):
        source.copy_to(target)
    source.copy_to(target, ["tone"])
    assert [each.name for each in target.list()] == ["other", "tone"]


def test_a_registry_is_not_copied_onto_itself(source: Registry) -> None:
    with pytest.raises(InputError, match="is both the registry to copy from and the one to copy to"):
        source.copy_to(Registry(source.url), overwrite=True)


@pytest.mark.skipif("postgresql" not in KINDS, reason="no PostgreSQL here")
def test_the_order_of_words_is_the_same_everywhere(source: Registry, tmp_path: Path) -> None:
    """A receipt's signature is over rows in order, and a server may sort words by a language."""
    names = ("b", "A", "ä", "Z", "a", "_", "é-9")
    source.create(judge(memory_of(*(case(name, "ana") for name in names)), name="order"))
    with place_of("postgresql", tmp_path) as place:
        source.copy_to(place.registry())  # which compares both states


def test_by_the_command_line(source: Registry, place: Place, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, list(words), prog_name="memalign")
        return ended.exit_code, ended.stdout

    code, said = run("registry", "copy", source.url, place.url)
    assert code == 0
    assert said.splitlines() == [
        "copied helpfulness: 3 versions, 22 rows, 1 erased feedback remembered",
        "copied tone: 1 version, 21 rows, 0 erased feedback remembered",
    ]
    assert run("registry", "copy", source.url, place.url)[0] == 2
    code, told = run("registry", "copy", source.url, place.url, "tone", "--overwrite", "--json")
    assert code == 0
    assert [(each["name"], each["replaced"]) for each in json.loads(told)["copied"]] == [("tone", True)]
    assert run("verify", str(tmp_path / "receipt.json"), "--registry", place.url)[0] == 0
    code, told = run("registry", "compact", "--registry", place.url)
    assert code == 0
    assert told.startswith("rewritten: ")
