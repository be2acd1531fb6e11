"""A whole registry is imported, every version of every judge; what was erased stays erased."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from memalign import Registry
from memalign.cli.app import app
from memalign.errors import InvalidRows, JudgeExists
from memalign.registry.bundle import bundle_of
from tests.support.places import OnSQLite, Place
from tests.support.registry import (
    all_versions,
    case,
    judge,
    memory_of,
    models,
    optimizer,
    row,
)

MODELS = models()
DULL = row("t-2", "bob", "long and dull")


@pytest.fixture
def source(tmp_path: Path) -> Registry:
    """Two judges in a file; of one, t-2 is erased."""
    registry = OnSQLite(tmp_path / "source.db").registry(models=MODELS)
    registry.create(
        judge(memory_of(case("t-1", "ana"), case("é-9", "bob")), name="tone")
    )
    registry.create(judge(model=MODELS[0], embedding_model=MODELS[1]))
    learner = optimizer(*MODELS)
    registry.align("helpfulness", [row("t-1", "ana", "cold"), DULL], optimizer=learner)
    registry.erase("helpfulness", ["t-2"], optimizer=learner)
    return registry


def test_all_versions_come_along_and_what_was_erased_stays_erased(
    source: Registry, place: Place, tmp_path: Path
) -> None:
    target = place.registry(models=MODELS)
    helpfulness, tone = target.import_registry(source)
    assert (helpfulness.name, helpfulness.latest) == ("helpfulness", 3)
    assert (tone.name, tone.latest) == ("tone", 1)
    back = Registry(f"sqlite:///{tmp_path / 'back.db'}", models=MODELS)
    back.import_registry(target)
    for name in ("helpfulness", "tone"):
        for registry in (target, back):
            assert all_versions(registry, name) == all_versions(source, name)
            assert registry.history(name) == source.history(name)
            assert registry.ledger(name) == source.ledger(name)
    rows = [DULL, row("t-3", "bob", "fine")]
    result = target.align("helpfulness", rows, optimizer=optimizer(*MODELS))
    erased, fresh = result.rows
    assert (erased.status, fresh.status) == ("invalid", "new")
    assert "was erased on" in erased.reason
    assert len(target.history("helpfulness")) == len(source.history("helpfulness")) + 1


def test_a_judge_that_is_there_is_not_replaced(source: Registry, place: Place) -> None:
    target = place.registry(models=MODELS)
    target.create(judge(name="tone", model="openai:gpt-5"))
    said = "has judges of these names: tone. Nothing was imported"
    with pytest.raises(JudgeExists, match=said):
        target.import_registry(source)
    # Nobody deletes one.
    said = "imported; import one bundle at a time with --name$"
    with pytest.raises(JudgeExists, match=said):
        target.import_registry(target)
    (summary,) = target.list()
    assert summary.name == "tone", "nor any other"


def test_registries_that_both_erased_can_be_put_together(
    source: Registry, place: Place
) -> None:
    target = place.registry(models=MODELS)
    target.create(
        judge(memory_of(case("t-8", "ana"), case("t-9", "ana")), name="other")
    )
    target.erase("other", ["t-8"], rederive=False)
    target.import_registry(source)
    assert [entry.state for entry in target.ledger("other")].count("erased") == 1
    for stale in (case("t-8", "ana"), case("t-2", "bob")):
        with pytest.raises(InvalidRows, match="was erased on"):
            target.import_bundle(bundle_of(judge(memory_of(stale), name="new")))


def test_by_the_command_line(source: Registry, place: Place) -> None:
    imported = "imported helpfulness: 3 versions\nimported tone: 1 version\n"
    rewritten = "the registry is rewritten without what was deleted\n"
    for command, code, printed in (
        (f"import {source.url}", 0, imported),
        (f"import {source.url}", 2, ""),
        (f"import {source.url} --name other", 2, ""),
        ("erase tone", 0, rewritten),
    ):
        words = [*command.split(), "--registry", place.url]
        ended = CliRunner().invoke(app, words, prog_name="memalign")
        assert (ended.exit_code, ended.stdout) == (code, printed)
