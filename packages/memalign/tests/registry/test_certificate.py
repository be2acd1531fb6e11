"""A receipt that can be checked later: changed, foreign, or with the erased feedback back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memalign import Registry
from memalign.errors import InputError
from tests.support.places import Place
from tests.support.registry import judge, models, optimizer, row

MODELS = models()


def said(name: str) -> dict[str, Any]:
    return row(name, "ana", f"The reply {name} should open with an apology of its own kind.")


@pytest.fixture
def registry(place: Place) -> Registry:
    return place.registry(models=MODELS)


@pytest.fixture
def receipt(registry: Registry, tmp_path: Path) -> Path:
    """The receipt of an erasure of t-2, with t-1 and t-3 left."""
    registry.save(judge(model=MODELS[0]))
    registry.align("helpfulness", [said("t-1"), said("t-2"), said("t-3")], optimizer=optimizer(*MODELS))
    erased = registry.erase("helpfulness", ["t-2"], optimizer=optimizer(*MODELS))
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(erased.to_dict()), "utf-8")
    return file


def test_an_erasure_that_holds(registry: Registry, receipt: Path) -> None:
    found = registry.verify(receipt)
    assert found.holds
    assert found.unchanged
    assert found.versions == len(registry.history("helpfulness"))


def test_later_versions_do_not_hurt(registry: Registry, receipt: Path) -> None:
    registry.align("helpfulness", [said("t-9")], optimizer=optimizer(*MODELS))
    found = registry.verify(receipt)
    assert found.holds
    assert not found.unchanged


@pytest.mark.parametrize(
    "change",
    [
        {"searched": "everything"},
        {"keys": []},
        {"judge": "another"},
        {"signature": {"mac": "é"}},
        {"signature": {}},
    ],
)
def test_a_changed_receipt_is_not_genuine(registry: Registry, receipt: Path, change: dict[str, Any]) -> None:
    receipt.write_text(json.dumps(json.loads(receipt.read_text("utf-8")) | change), "utf-8")
    found = registry.verify(receipt)
    assert not found.genuine
    assert not found.holds


def test_nor_is_that_of_another_registry(receipt: Path, place: Place) -> None:
    other = place.another().registry()
    other.save(judge(model=MODELS[0]))
    assert not other.verify(receipt).genuine


def test_feedback_that_was_taken_back_is_named(registry: Registry, receipt: Path) -> None:
    registry.align("helpfulness", [said("t-2")], optimizer=optimizer(*MODELS), allow_erased=True)
    found = registry.verify(receipt)
    assert found.genuine
    assert not found.holds
    (key, number, why), *_ = found.back
    assert key.id == "t-2"
    assert number == registry.history("helpfulness")[-1].number
    assert why == "this feedback was taken back"


def test_a_judge_that_is_gone_holds_nothing(registry: Registry, receipt: Path) -> None:
    registry.delete("helpfulness")
    found = registry.verify(receipt)
    assert found.holds
    assert found.versions == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no receipt"),
        ("[]", "is no receipt"),
        ('{"judge": "a", "keys": [], "versions": NaN}', "is no receipt: NaN is no JSON value"),
        ('{"judge": "a", "keys": [], "versions": []}', "has no signature"),
    ],
)
def test_a_file_that_is_no_receipt_is_named(registry: Registry, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        registry.verify(tmp_path / "x.json")
    with pytest.raises(InputError, match="no such file"):
        registry.verify(tmp_path / "nothing.json")


def test_a_dry_run_is_not_signed(registry: Registry) -> None:
    registry.save(judge(model=MODELS[0]))
    registry.align("helpfulness", [said("t-1"), said("t-2")], optimizer=optimizer(*MODELS))
    assert registry.erase("helpfulness", ["t-2"], dry_run=True).signature is None
