"""A download ends with the very file and its hash beside it, or with an error that names the address."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from memalign.errors import ConfigurationError
from memalign_bench.data.hub import Remote, obtain
from memalign_bench.data.published import load_published
from tests.support.hub import Hub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES = hashlib.shake_128(b"a small data set").digest(300_000)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILE = Remote(hub="huggingface", repository="someone/Set", revision=COMMIT, path="data/rows.jsonl")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    paths = (f"/datasets/someone/Set/resolve/{COMMIT}/data/rows.jsonl", "/someone/Set/main/data/rows.jsonl")
    with Hub(dict.fromkeys(paths, BYTES)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("MEMALIGN_GITHUB_RAW", hub.address)
        yield hub


def fetch(cache: Path, remote: Remote = FILE) -> Path:
    (path,) = obtain((remote,), None, cache=cache)
    return path


def leftovers(path: Path) -> set[str]:
    return {other.name for other in path.parent.iterdir()} - {path.name}


def test_a_file_comes_once_beside_its_hash(hub: Hub, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    (path,) = obtain((FILE,), None, cache=tmp_path, progress=lambda *at: told.append(at))
    assert path.read_bytes() == BYTES
    assert leftovers(path) == {"rows.jsonl.sha256", "rows.jsonl.lock"}
    noted = path.with_name("rows.jsonl.sha256").read_text("utf-8")
    assert noted == f"{hashlib.sha256(BYTES).hexdigest()}  rows.jsonl\n"
    assert told[-1] == ("verify rows.jsonl", len(BYTES), len(BYTES))
    assert ("download rows.jsonl", len(BYTES), len(BYTES)) in told
    assert fetch(tmp_path) == path
    assert len(hub.asked) == 1


def test_a_cached_file_that_changed_is_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    path = fetch(tmp_path)
    path.write_bytes(b"something else")
    assert fetch(tmp_path).read_bytes() == BYTES
    assert len(hub.asked) == 2


def test_github_s_files_come_from_its_file_server(hub: Hub, tmp_path: Path) -> None:
    remote = Remote(hub="github", repository="someone/Set", revision="main", path="data/rows.jsonl")
    assert fetch(tmp_path, remote).read_bytes() == BYTES
    assert hub.asked[0].path == "/someone/Set/main/data/rows.jsonl"


def test_only_a_commits_partial_file_is_taken_up(hub: Hub, tmp_path: Path) -> None:
    branch = Remote(hub="github", repository="someone/Set", revision="main", path="data/rows.jsonl")
    for remote, wanted in ((FILE, "bytes=1000-"), (branch, None)):
        folder = tmp_path / remote.hub / "someone/Set" / remote.revision / "data"
        folder.mkdir(parents=True)
        (folder / "rows.jsonl.partial").write_bytes(BYTES[:1000])
        hub.asked.clear()
        assert fetch(tmp_path, remote).read_bytes() == BYTES
        assert hub.asked[0].range == wanted


def test_a_server_error_is_said_with_its_address(hub: Hub, tmp_path: Path) -> None:
    hub.faults = [503]
    with pytest.raises(ConfigurationError, match=rf"{hub.address}/datasets/someone/Set.*503.*--data FOLDER"):
        fetch(tmp_path)
    assert fetch(tmp_path).read_bytes() == BYTES


def test_a_broken_connection_goes_on_where_it_stopped(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)
    hub.hang_up_after = [100_000]
    assert fetch(tmp_path).read_bytes() == BYTES
    assert hub.ranges == [None, "bytes=100000-"]


def test_a_missing_file_is_told_with_its_address(hub: Hub, tmp_path: Path) -> None:
    gone = Remote(hub="huggingface", repository="someone/Set", revision=COMMIT, path="gone.jsonl")
    with pytest.raises(ConfigurationError, match=rf"{hub.address}/.*/gone\.jsonl: 404 .*--data FOLDER"):
        fetch(tmp_path, gone)
    assert hub.asked == []


def test_a_gated_set_asks_for_terms_and_token(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults = [401]
    with pytest.raises(ConfigurationError, match=r"401 .*accept its terms .*someone/Set and set HF_TOKEN"):
        fetch(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.faults = [403]
    with pytest.raises(ConfigurationError, match="HF_TOKEN has no access") as caught:
        fetch(tmp_path)
    assert "hf_secret" not in str(caught.value)


def test_only_the_hub_gets_the_token(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with Hub(hub.files) as store:
        hub.redirect_to = store.address
        assert fetch(tmp_path).read_bytes() == BYTES
    assert hub.asked[0].authorization == "Bearer hf_secret"
    assert store.asked[0].authorization is None
    hub.redirect_to = None
    fetch(tmp_path, Remote(hub="github", repository="someone/Set", revision="main", path="data/rows.jsonl"))
    assert hub.asked[-1].authorization is None


def test_a_file_of_another_hash_is_removed(hub: Hub, tmp_path: Path) -> None:
    known = Remote(hub="huggingface", repository="someone/Set", revision=COMMIT, path=FILE.path, sha256="0" * 64)
    with pytest.raises(ConfigurationError, match="wrong file, removed: expected SHA-256 0000"):
        fetch(tmp_path, known)
    assert not list(tmp_path.rglob("rows.jsonl*"))[1:]  # only the lock


def test_a_silent_hub_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
    with pytest.raises(ConfigurationError, match="the connection failed"):
        obtain((FILE,), None, cache=tmp_path)


def test_an_endpoint_must_be_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(ConfigurationError, match=r"HF_ENDPOINT must be an http\(s\) address"):
        fetch(tmp_path)


def test_a_published_set_is_downloaded_and_loaded(hub: Hub, tmp_path: Path) -> None:
    samples = pytest.importorskip("bench_support.samples", reason="pyarrow writes the Parquet files")
    rows = samples.put(tmp_path / "pairs.jsonl", samples.pair_rows()).read_bytes()
    hub.files["/GAIR-NLP/auto-j/main/data/training/pairwise_traindata.jsonl"] = rows
    tasks = load_published(["autoj-saferlhf", "autoj-summary"], cache=tmp_path / "cache")
    assert [task.name for task in tasks] == ["autoj-saferlhf", "autoj-summary"]
    assert len(hub.asked) == 1


def test_published_files_with_a_wrong_hash_are_refused(hub: Hub, tmp_path: Path) -> None:
    path = "/datasets/PatronusAI/HaluBench/resolve/5966a87929f51c204ab3cbef986b449495cc97b6/data/test-00000-of-00001.parquet"
    hub.files[path] = b"PAR1"
    with pytest.raises(ConfigurationError, match="wrong file, removed"):
        load_published(["halubench"], cache=tmp_path)
