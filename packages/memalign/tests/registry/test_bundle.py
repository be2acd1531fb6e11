"""A judge as one frozen file: the same bytes every time, complete, and refused when damaged."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from memalign import Memory, Registry
from memalign.errors import InputError, InvalidValueType
from memalign.registry import load_bundle, write_bundle
from memalign.registry.bundle import bundle_of
from tests.support.places import Place
from tests.support.registry import case, judge, keys_of, memories, memory_of, models

MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ana", "bob"))


@given(memory=memories())
@settings(max_examples=15)
def test_a_judge_comes_back_from_its_bundle_unchanged(memory: Memory):
    kept = judge(memory, model="openai:gpt-4.1-mini", embedding_model="wordllama", parameters={"seed": 7})
    document = bundle_of(kept)
    assert load_bundle(document) == kept
    assert load_bundle(json.loads(json.dumps(document))) == kept
    assert bundle_of(load_bundle(document)) == document


def test_the_same_judge_gives_the_same_bytes(registry: Registry, tmp_path: Path):
    registry.create(judge(MEMORY))
    for name in ("one.json", "two.json"):
        registry.export("helpfulness", tmp_path / name)
    write_bundle(judge(MEMORY), tmp_path / "three.json")
    first, *others = [(tmp_path / name).read_bytes() for name in ("one.json", "two.json", "three.json")]
    assert all(other == first for other in others)


def test_an_exported_old_version_becomes_a_version_elsewhere(registry: Registry, place: Place, tmp_path: Path):
    registry.create(judge(MEMORY))
    registry.save(judge())
    registry.export("helpfulness", tmp_path / "old.json", version=1)
    elsewhere = place.another().registry()
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1
    assert elsewhere.load("helpfulness") == judge(MEMORY)
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1  # it is there already
    elsewhere.save(judge())
    assert elsewhere.import_bundle(tmp_path / "old.json") == 3
    assert elsewhere.import_bundle(tmp_path / "old.json", "renamed") == 1
    assert [v.action for v in elsewhere.history("helpfulness")] == ["import", "save", "import"]


def test_a_bundle_needs_no_registry_and_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chat, embedding = models()
    path = tmp_path / "judge.json"
    write_bundle(judge(MEMORY, model=chat, embedding_model=embedding), path)

    def refused(*_: Any) -> None:
        raise AssertionError("it went to the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    loaded = load_bundle(path).replace(model=chat, embedding_model=None, retrieval_k=0)
    assert loaded(inputs="question", outputs="answer").value is True
    assert [file.name for file in tmp_path.iterdir()] == ["judge.json"]


def test_what_was_exported_with_other_prompts_is_said(registry: Registry, monkeypatch: pytest.MonkeyPatch):
    document = bundle_of(judge(MEMORY))
    monkeypatch.setattr("memalign.registry.bundle.prompts_hash", lambda: "other")
    with pytest.warns(UserWarning, match="exported with other prompts"):
        load_bundle(document)
    registry.import_bundle(document)
    assert "exported with other prompts" in (registry.history("helpfulness")[0].note or "")


def changed(**changes: Any) -> dict[str, Any]:
    return bundle_of(judge(MEMORY)) | changes


def deep(document: dict[str, Any]) -> dict[str, Any]:
    copy = json.loads(json.dumps(document))
    copy["memory"]["cases"][0]["annotations"][0]["rationale"] = "somebody edited this"
    return dict(copy)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (deep(bundle_of(judge(MEMORY))), "is damaged or was edited: its checksum does not match"),
        (changed(memory={}), "damaged"),
        (changed(checksum=None), "damaged"),
        (changed(format="something else"), "is not a judge's bundle"),
        (changed(format_version=3), "has format version 3, this memalign reads up to 1; upgrade"),
        (changed(format_version=None), "upgrade"),
    ],
)
def test_a_damaged_or_too_new_bundle_is_refused(registry: Registry, document: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        load_bundle(document)
    with pytest.raises(InputError, match=message):
        registry.import_bundle(document)
    assert registry.list() == ()


def test_a_signed_bundle_without_a_judge_is_refused():
    from memalign.registry.bundle import _checksum

    changes: list[dict[str, Any]] = [{"judge": {}}, {"name": None}, {"memory": {"cases": [1]}}]
    for change in changes:
        document = {k: v for k, v in bundle_of(judge(MEMORY)).items() if k != "checksum"} | change
        with pytest.raises(InputError, match="damaged"):
            load_bundle(document | {"checksum": _checksum(document)})
    assert issubclass(InvalidValueType, InputError)


def test_files_that_are_no_bundles_are_named(tmp_path: Path):
    (tmp_path / "half.json").write_bytes(json.dumps(bundle_of(judge(MEMORY))).encode()[:-40])
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name, message in (
        ("half.json", "it is no JSON"),
        ("list.json", "holds no JSON object"),
        ("binary.json", "it is no JSON"),
        ("none.json", "cannot read the bundle"),
    ):
        with pytest.raises(InputError, match=message):
            load_bundle(tmp_path / name)
    with pytest.raises(InputError, match="cannot write the bundle"):
        write_bundle(judge(), tmp_path / "no" / "where.json")


def test_what_was_erased_is_in_no_later_bundle(registry: Registry):
    registry.create(judge(MEMORY))
    registry.erase("helpfulness", ["t-2@bob"], rederive=False)
    document = registry.export("helpfulness")
    assert "bob" not in json.dumps(document)
    assert keys_of(load_bundle(document)) == {"t-1@ana", "t-2@ana"}
