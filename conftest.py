"""What every test may rely on: no network but loopback, no keys, a folder of its own, and
reproducible examples."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import platformdirs
import pytest

from memalign import aio

if TYPE_CHECKING:
    from collections.abc import Iterator

# Thousands of small databases are made, and each of their commits waits for a disk. Where
# memory serves as one (it has room, and programs may be run on it), tests have their
# folders there. TMPDIR says otherwise.
MEMORY_DISK = Path("/dev/shm")
if (
    "TMPDIR" not in os.environ
    and os.access(MEMORY_DISK, os.W_OK)
    and shutil.disk_usage(MEMORY_DISK).free > 4 * 2**30
    and not os.statvfs(MEMORY_DISK).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_DISK)

EMBEDDED_FILE = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"

# Derandomized: a push must not fail for what it did not change. The profile `random` goes looking.
hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=40, database=None
)
FAILURES = hypothesis.database.DirectoryBasedExampleDatabase(
    Path(__file__).parent / ".hypothesis" / "examples"
)
hypothesis.settings.register_profile(
    "random", deadline=None, max_examples=40, database=FAILURES, print_blob=True
)
hypothesis.settings.load_profile("ci")

# A shell's background job is started deaf to Ctrl-C, and so would be everything that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-embedded",
        action="store_true",
        help="fail the tests of the embedded model when its file is not there; else skip them",
    )


MODELS = Path(
    os.environ.get("MEMALIGN_MODELS")
    or Path(platformdirs.user_cache_dir("memalign")) / "models"
)
"""Where pulled models lie, looked up before tests get a home of their own."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("embedded") and not (MODELS / EMBEDDED_FILE).exists():
        remedy = "run: memalign models pull qwen2.5-coder-0.5b"
        missing = f"{EMBEDDED_FILE} is not in {MODELS}; {remedy}"
        if item.config.getoption("--require-embedded"):
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


class NetworkRefused(RuntimeError):
    """A test that is not marked `live` tried to leave this machine."""


class _Guard:
    """Stands before socket.connect and name look-ups, so that a forgotten fake is an error
    and never a bill."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open = False
        for name in ("connect", "connect_ex"):
            patch.setattr(
                socket.socket, name, self._connecting(getattr(socket.socket, name))
            )
        plain_getaddrinfo = socket.getaddrinfo

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            self.check(socket.AF_INET, (host,))
            return plain_getaddrinfo(host, *args, **kwargs)

        patch.setattr(socket, "getaddrinfo", getaddrinfo)

    def _connecting(self, plain: Any) -> Any:
        def connect(sock: socket.socket, address: Any) -> Any:
            self.check(sock.family, address)
            return plain(sock, address)

        return connect

    def check(self, family: int, address: Any) -> None:
        if (
            self.open
            or family not in (socket.AF_INET, socket.AF_INET6)
            or _is_loopback(address[0])
        ):
            return
        raise NetworkRefused(
            f"a test tried to reach {address[0]!r}: use a loopback server or "
            "memalign.testing, or mark the test `live`"
        )


def _is_loopback(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(scope="session")
def _guard() -> Iterator[_Guard]:
    with pytest.MonkeyPatch.context() as patch:
        yield _Guard(patch)


@pytest.fixture(scope="session", autouse=True)
def _connections() -> Iterator[None]:
    """Close, in order, what memalign's background loop opened; it lives as long as the
    process otherwise."""
    yield

    async def close() -> None:
        await asyncio.get_running_loop().shutdown_asyncgens()

    aio.run(close())


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


# What would make a test talk to a provider, through a proxy, or write into the person's
# own folders.
_ENDS = ("_API_KEY", "_API_TOKEN", "_BASE_URL", "_PROXY")
_STARTS = (
    "MEMALIGN_",
    "OPENAI_",
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GEMINI_",
    "HF_",
    "HUGGING",
    "XDG_",
    "OTEL_",
)
_NAMES = ("CO_API_KEY", "GH_TOKEN", "GITHUB_TOKEN", "LOGFIRE_TOKEN")


@pytest.fixture(autouse=True)
def _alone(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    _guard: _Guard,
    _home: Path,
) -> Iterator[None]:
    """Each test alone: its own folder, an empty home, no keys, no network; `live` ones keep
    keys and network."""
    monkeypatch.chdir(tmp_path)
    if request.node.get_closest_marker("live"):
        _guard.open = True
        yield
        _guard.open = False
        return
    for name in list(os.environ):
        upper = name.upper()
        if upper.endswith(_ENDS) or upper.startswith(_STARTS) or upper in _NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(_home))
    monkeypatch.setenv("USERPROFILE", str(_home))
    monkeypatch.setenv("MEMALIGN_MODELS", str(MODELS))
    # Beside other work, two threads of the embedded model wait for each other ten times
    # longer than one alone.
    monkeypatch.setenv("MEMALIGN_LOCAL_THREADS", "1")
    yield
