"""A judge as one frozen file: the same bytes every time, complete, refused when damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from memalign import Memory, Registry
from memalign.errors import InputError
from memalign.registry import load_bundle, write_bundle
from memalign.registry.bundle import _checksum, bundle_of
from tests.support.places import Place
from tests.support.registry import case, judge, memories, memory_of

MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ana", "bob"))


@given(memory=memories())
@settings(max_examples=15)
def test_a_judge_comes_back_from_its_bundle_unchanged(memory: Memory):
    kept = judge(
        memory,
        model="openai:gpt-4.1-mini",
        embedding_model="wordllama",
        parameters={"seed": 7},
    )
    document = bundle_of(kept)
    assert load_bundle(document) == kept
    assert load_bundle(json.loads(json.dumps(document))) == kept
    assert bundle_of(load_bundle(document)) == document


def test_an_exported_old_version_becomes_a_version_elsewhere(
    registry: Registry, place: Place, tmp_path: Path
):
    registry.create(judge(MEMORY))
    registry.save(judge())
    for name in ("old.json", "again.json"):
        registry.export("helpfulness", tmp_path / name, version=1)
    write_bundle(judge(MEMORY), tmp_path / "direct.json")
    written = (tmp_path / "direct.json").read_bytes()
    for name in ("old.json", "again.json"):
        assert (tmp_path / name).read_bytes() == written
    elsewhere = place.another().registry()
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1
    assert elsewhere.load("helpfulness") == judge(MEMORY)
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1  # it is there already
    elsewhere.save(judge())
    assert elsewhere.import_bundle(tmp_path / "old.json") == 3
    assert elsewhere.import_bundle(tmp_path / "old.json", "renamed") == 1
    actions = [version.action for version in elsewhere.history("helpfulness")]
    assert actions == ["import", "save", "import"]


def changed(**changes: Any) -> bytes:
    return json.dumps(bundle_of(judge(MEMORY)) | changes).encode()


def signed(**changes: Any) -> bytes:
    """A bundle with these changes, whose checksum is right."""
    document = bundle_of(judge(MEMORY)) | changes
    del document["checksum"]
    return json.dumps(document | {"checksum": _checksum(document)}).encode()


def signed_judge(**settings: Any) -> bytes:
    return signed(judge=bundle_of(judge(MEMORY, model="openai:m"))["judge"] | settings)


WITH_HEADER = {"openai:m": {"headers": {"X-Key": "$OPENAI_API_KEY"}}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            changed().replace(b"comment t-1 ana", b"somebody edited this"),
            "is damaged or was edited: its checksum",
        ),
        (changed(format="something else"), "is not a judge's bundle"),
        (
            changed(format_version=3),
            "has format version 3, this memalign reads up to 1; upgrade",
        ),
        (signed(judge={}), "damaged"),
        (signed(memory={"cases": [1]}), "damaged"),
        (signed_judge(parameters={"models": WITH_HEADER}), "parameter models"),
        (signed_judge(model=True), "damaged: TypeError, model is no text"),
        (signed_judge(model=[]), "damaged: TypeError, model is no text"),
        (signed_judge(embedding_model=3), "embedding_model is no text"),
        (signed_judge(retrieval_k="x"), "damaged: InputError, retrieval_k"),
        (signed_judge(parameters=7), "damaged: InputError, parameters"),
        (signed_judge(value_type=1), "damaged: ValidationError"),
        (changed()[:-40], "it is no JSON"),
        (
            b'{"format": 1, "name": "kind", "name": "strict"}',
            "the key 'name' is there twice",
        ),
        (b"[]", "holds no JSON object"),
        (None, "cannot read the bundle"),
    ],
)
def test_what_is_no_whole_bundle_is_refused(
    registry: Registry, tmp_path: Path, data: bytes | None, message: str
):
    if data is not None:
        (tmp_path / "gift.json").write_bytes(data)
    for read in (load_bundle, registry.import_bundle):
        with pytest.raises(InputError, match=message):
            read(tmp_path / "gift.json")
    assert registry.list() == ()


def test_a_bundle_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="cannot write the bundle"):
        write_bundle(judge(), tmp_path / "no" / "where.json")
