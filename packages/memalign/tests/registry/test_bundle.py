"""A judge as one frozen file: the same bytes every time, complete, and refused when damaged."""

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
    assert len({path.read_bytes() for path in tmp_path.glob("*.json")}) == 1, (
        "the same judge, the same bytes"
    )
    elsewhere = place.another().registry()
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1
    assert elsewhere.load("helpfulness") == judge(MEMORY)
    assert elsewhere.import_bundle(tmp_path / "old.json") == 1  # it is there already
    elsewhere.save(judge())
    assert elsewhere.import_bundle(tmp_path / "old.json") == 3
    assert elsewhere.import_bundle(tmp_path / "old.json", "renamed") == 1
    assert [v.action for v in elsewhere.history("helpfulness")] == [
        "import",
        "save",
        "import",
    ]


def changed(*, signed: bool = False, **changes: Any) -> bytes:
    document = bundle_of(judge(MEMORY)) | changes
    if signed:
        document["checksum"] = _checksum(
            {k: v for k, v in document.items() if k != "checksum"}
        )
    return json.dumps(document).encode()


WITH_HEADER = bundle_of(judge(MEMORY, model="openai:m"))["judge"]
WITH_HEADER["parameters"] = {
    "models": {"openai:m": {"headers": {"X-Key": "$OPENAI_API_KEY"}}}
}


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
        (changed(signed=True, judge={}), "damaged"),
        (changed(signed=True, judge=WITH_HEADER), "parameter models"),
        (changed(signed=True, memory={"cases": [1]}), "damaged"),
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
