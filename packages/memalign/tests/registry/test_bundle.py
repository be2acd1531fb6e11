"""A judge as one frozen file: the same bytes every time, complete, and refused when damaged."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from memalign import Memory, Registry
from memalign.errors import InputError
from memalign.registry import load_bundle, write_bundle
from memalign.registry.bundle import _checksum, bundle_of
from tests.support.places import Place
from tests.support.registry import case, judge, memories, memory_of, models

MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ana", "bob"))


@given(memory=memories())
@settings(max_examples=15)
def test_a_judge_comes_back_from_its_bundle_unchanged(memory: Memory):
    kept = judge(memory, model="openai:gpt-4.1-mini", embedding_model="wordllama", parameters={"seed": 7})
    document = bundle_of(kept)
    assert load_bundle(document) == kept
    assert load_bundle(json.loads(json.dumps(document))) == kept
    assert bundle_of(load_bundle(document)) == document


def test_an_exported_old_version_becomes_a_version_elsewhere(registry: Registry, place: Place, tmp_path: Path):
    registry.create(judge(MEMORY))
    registry.save(judge())
    for name in ("old.json", "again.json"):
        registry.export("helpfulness", tmp_path / name, version=1)
    write_bundle(judge(MEMORY), tmp_path / "direct.json")
    assert len({path.read_bytes() for path in tmp_path.glob("*.json")}) == 1, "the same judge, the same bytes"
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


def changed(*, signed: bool = False, **changes: Any) -> dict[str, Any]:
    document = bundle_of(judge(MEMORY)) | changes
    if signed:
        document["checksum"] = _checksum({k: v for k, v in document.items() if k != "checksum"})
    return document


EDITED = json.loads(json.dumps(bundle_of(judge(MEMORY))).replace("comment t-1 ana", "somebody edited this"))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (EDITED, "is damaged or was edited: its checksum does not match"),
        (changed(memory={}), "damaged"),
        (changed(checksum=None), "damaged"),
        (changed(format="something else"), "is not a judge's bundle"),
        (changed(format_version=3), "has format version 3, this memalign reads up to 1; upgrade"),
        (changed(format_version=None), "upgrade"),
        (changed(signed=True, judge={}), "damaged"),
        (changed(signed=True, name=None), "damaged"),
        (changed(signed=True, memory={"cases": [1]}), "damaged"),
    ],
)
def test_a_damaged_or_too_new_bundle_is_refused(registry: Registry, document: dict[str, Any], message: str):
    for read in (load_bundle, registry.import_bundle):
        with pytest.raises(InputError, match=message):
            read(document)
    assert registry.list() == ()


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
