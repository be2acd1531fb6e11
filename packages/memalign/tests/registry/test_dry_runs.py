"""A dry run asks nobody, pays nothing and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memalign import Registry
from memalign.errors import RegistryError
from memalign.testing import HashEmbedding, ScriptedChatModel
from tests.support.places import Place
from tests.support.registry import judge

ROWS = [
    {"id": f"t-{n}", "inputs": f"Where is parcel {n}?", "outputs": "Soon.", "value": False, "rationale": "Too vague."}
    for n in range(3)
]


def test_vectors_are_paid_for_once_and_never_in_a_dry_run(place: Place) -> None:
    model, embedding = ScriptedChatModel([]), HashEmbedding(dim=16)  # the model's first call stops the align
    registry = place.registry(models=[model, embedding])
    registry.create(judge(model=model, embedding_model=embedding))
    assert registry.estimate("helpfulness", ROWS).calls > 0
    assert embedding.texts == []
    for _ in range(2):
        with pytest.raises(AssertionError):
            registry.align("helpfulness", ROWS)
        assert len(embedding.texts) == len(ROWS)


def test_a_dry_run_needs_no_right_to_write(tmp_path: Path) -> None:
    # A name so long that no file can stand beside it keeps root from writing, too.
    path = tmp_path / f"{'m' * 250}.db"
    Registry(str(tmp_path / "m.db")).create(judge(model="openai:m"))
    (tmp_path / "m.db").rename(path)
    only_read = Registry(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        assert only_read.estimate("helpfulness", ROWS).calls > 0
        with pytest.raises(
            RegistryError, match=r"cannot open the registry .*: its folder must exist, and you must be allowed"
        ):
            only_read.align("helpfulness", ROWS)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
