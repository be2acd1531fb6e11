#!/usr/bin/env python3
"""What a newcomer, a contributor and CI run, with nothing but Python 3.11 or newer and git.

python3 dev.py demo [ARGS]        set up, then `memalign demo`: an expert's feedback changes a judge, and is forgotten
python3 dev.py test [--slow] [--random [SEED]] [PYTEST ARGS]
                                  set up, then the tests and, beside them, every check; CI runs this.
                                  --random draws new examples, prints the seed and keeps what failed
python3 dev.py test --engines [PYTEST ARGS]
                                  set up, then the tests on Spark (with Java 17 or newer) and Ray, in an environment of
                                  their own under build/; a nightly CI runs this
python3 dev.py endure [MINUTES]   set up, then state machines at length and kills at every write, each round from a new
                                  seed, for 20 minutes or as many as given; a nightly CI runs this
python3 dev.py lint               set up, then every check without the tests
python3 dev.py run COMMAND...     set up, then a command inside the environment, such as `run memalign --help`
python3 dev.py lock [--upgrade]   refresh requirements/*.txt after a change of pyproject.toml
python3 dev.py docs [serve]       set up, then build the documentation into build/site, or serve it

Everything is installed into .venv beside this file, from requirements/*.txt, where each package has its hash. A second
run finds it installed and goes straight on. pip's own settings (index, mirror, proxy, certificates) are honoured.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
EXE = ".exe" if os.name == "nt" else ""
PYTHON = BIN / f"python{EXE}"
STAMP = VENV / "memalign-installed.txt"
LOCKS = {kind: ROOT / "requirements" / f"{kind}.txt" for kind in ("runtime", "server", "dev")}
ENGINES = ROOT / "requirements" / "engines.txt"  # what the extras spark and ray need beside the others
PACKAGES = [ROOT / "packages" / name for name in ("memalign", "memalign-server")]
MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
OLDEST = (3, 11)


def main() -> int:
    """Run the command named on the command line and give its exit code."""
    # "Python 3.9" on macOS is where a newcomer's `python3` may lead: go on with a newer one if there is one.
    if sys.version_info < OLDEST:
        return _with_newer_python()
    commands = {"demo": demo, "test": test, "endure": endure, "lint": lint, "run": run, "lock": lock, "docs": docs}
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name not in commands:
        known = name in ("", "-h", "--help", "help")
        print(__doc__ if known else f"dev.py has no command {name!r}; it has: {', '.join(commands)}")
        return 0 if known and name else 2
    try:
        return commands[name](arguments)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def demo(arguments: list[str]) -> int:
    """Set up what the package needs, then `memalign demo`, with either source of the embedded model agreed to."""
    prepare("runtime")
    return call([str(BIN / f"memalign{EXE}"), "demo", "--yes", *arguments])


def run(arguments: list[str]) -> int:
    """Set up everything, then any command of the environment."""
    prepare("dev")
    if not arguments:
        print("dev.py run: which command? For example: python3 dev.py run memalign --help")
        return 2
    program = shutil.which(arguments[0], path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        print(f"dev.py run: no program {arguments[0]!r} in .venv or on the PATH")
        return 127
    return call([program, *arguments[1:]], folder=Path.cwd())


def lint(arguments: list[str]) -> int:
    """Run every check but the tests; says at the end which failed."""
    del arguments
    prepare("dev")
    failed = checks()
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall checks passed")
    return 1 if failed else 0


def test(arguments: list[str]) -> int:
    """Run the tests, and every check beside them; 0 only if all passed. pytest's closing line comes last again."""
    prepare("dev")
    if "--engines" in arguments:
        return _test_engines([argument for argument in arguments if argument != "--engines"])
    slow = "--slow" in arguments
    arguments = [argument for argument in arguments if argument != "--slow"]
    arguments, environment = _drawn(arguments)
    failed = [f"pull of {model}" for model in MODELS[: 2 if slow else 1] if pull(model) != 0]
    beside = _Beside()
    say("pytest, with every check beside it")
    # The slow tests time what they run and hold a model of 1.1 GB: one after another.
    wanted = ["-m", "not live"] if slow else side_by_side()
    longest = ["--durations=10", "--durations-min=2"]
    command = [str(PYTHON), "-m", "pytest", "--require-embedded", *longest, *wanted, *arguments]
    code, closing = _told(command, environment)
    failed += beside.wait()
    say(f"checks: {'FAILED: ' + ', '.join(failed) if failed else 'all passed'}")
    print(closing, flush=True)
    return code or (1 if failed else 0)


def _test_engines(arguments: list[str]) -> int:
    """Run the tests of Spark and Ray, which weigh half a gigabyte, in an environment that sees all of .venv."""
    folder = ROOT / "build" / "engines"
    python = folder / BIN.name / f"python{EXE}"
    stamp = folder / "installed.txt"
    digest = hashlib.sha256(ENGINES.read_bytes() + str(ROOT).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text("utf-8") != digest:
        say("installing Spark and Ray into build/engines (about 500 MB to download, once)")
        if call([str(PYTHON), "-m", "venv", "--clear", str(folder)]) != 0:
            return 1
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        ours, theirs = (
            subprocess.check_output([str(each), "-c", where], text=True).strip() for each in (PYTHON, python)
        )
        Path(theirs, "memalign.pth").write_text(f"import site; site.addsitedir({ours!r})\n", "utf-8")
        pip = [str(python), "-m", "pip", "install", "--no-deps", "--no-compile", "--disable-pip-version-check"]
        _install([*pip, "--require-hashes", "-r", str(ENGINES)])
        stamp.write_text(digest, "utf-8")
    tests = ["packages/memalign/tests/integrations/engines", "repository_tests/test_engine_pages.py"]
    return call([str(python), "-m", "pytest", "-m", "slow", *tests, *arguments])


def pull(model: str) -> int:
    """Fetch an embedded model, unless it is there."""
    return step(f"the embedded model {model}", [str(BIN / f"memalign{EXE}"), "models", "pull", model, "--yes"])


def endure(arguments: list[str]) -> int:
    """Run the tests marked `endurance`, from a new seed each round, until the minutes are over or one fails."""
    prepare("dev")
    if len(arguments) > 1 or not all(argument.isdigit() for argument in arguments):
        print("dev.py endure: how many minutes? For example: python3 dev.py endure 20")
        return 2
    end = time.monotonic() + 60 * int(arguments[0] if arguments else 20)
    rounds = code = 0
    while code == 0 and (rounds == 0 or time.monotonic() < end):
        chosen, environment = _drawn(["--random"])
        command = [str(PYTHON), "-m", "pytest", "-q", "-m", "endurance and not live", *side_by_side(), *chosen]
        code = subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode
        rounds += 1
    print(f"{rounds} rounds, {'the last one FAILED; its seed is above' if code else 'no failure'}")
    return code


def _drawn(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Pytest's arguments and environment: with `--random`, those by which tests draw from the seed after it or a new one."""
    if "--random" not in arguments:
        return arguments, dict(os.environ)
    place = arguments.index("--random")
    given = arguments[place + 1 : place + 2]
    seed = int(given[0]) if given and given[0].isdigit() else secrets.randbelow(1_000_000)
    rest = arguments[:place] + arguments[place + 1 + (str(seed) in given) :]
    say(f"drawing from seed {seed}; the same again: python3 dev.py test --random {seed}")
    drawing = ["--hypothesis-profile=random", f"--hypothesis-seed={seed}"]
    return [*drawing, *rest], {**os.environ, "MEMALIGN_TEST_SEED": str(seed)}


class _Beside:
    """Every check in a thread of its own, with its output kept until somebody waits for it."""

    def __init__(self) -> None:
        self._failed: list[str] = []
        self._said = io.StringIO()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._failed = checks(self._said)

    def wait(self) -> list[str]:
        """Print what the checks said; the names of those that failed."""
        self._thread.join()
        print(self._said.getvalue(), end="", flush=True)
        return self._failed


def _told(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of `command`, whose output passes through, and its last line."""
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    last = b""
    with subprocess.Popen([*command, *colour], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101  # it was asked for
        while said := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(said)
            sys.stdout.buffer.flush()
            last = (last + said)[-2000:]
    return process.returncode, last.decode("utf-8", "replace").rstrip().rpartition("\n")[2]


def side_by_side() -> list[str]:
    """Arguments of pytest: a process a core, four at most, since each that meets the embedded model loads it."""
    # A file stays in one process, and with it what its tests set up once, such as a server or a taught judge.
    return ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]


def checks(log: TextIO = sys.stdout) -> list[str]:
    """Run the linters and the type checker, all of them whatever fails, and give the names of those that failed."""
    python = [str(PYTHON), "-m"]
    commands = {
        "ruff check": [*python, "ruff", "check", "."],
        "ruff format": [*python, "ruff", "format", "--check", "."],
        "import rooms": [str(BIN / f"lint-imports{EXE}"), "--no-logo"],
        "mypy, with typing_tests": [*python, "mypy", "--cache-dir", str(_kept() / "mypy")],
        "locked packages fit together": [*python, "pip", "check"],
        "documentation": [str(PYTHON), "docs/site.py"],
    }
    return [name for name, command in commands.items() if step(name, command, log) != 0]


def _kept() -> Path:
    """Where a checker's findings outlive a checkout: a type check from nothing takes minutes."""
    given = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return Path(given or Path.home() / ".cache") / "memalign-dev"


def docs(arguments: list[str]) -> int:
    """Build the documentation, strictly; with `serve` show it on this machine and build it again at every change."""
    prepare("dev")
    return call([str(PYTHON), "docs/site.py", *arguments])


def lock(arguments: list[str]) -> int:
    """Resolve pyproject.toml again into requirements/*.txt; docs/decisions/0001-lock.md says why in this form."""
    import tomllib  # here, because an older Python has to get as far as saying that it is too old

    prepare("dev")
    core, *others = (folder / "pyproject.toml" for folder in PACKAGES)
    server = str(others[-1])
    build = tomllib.loads(core.read_text("utf-8"))["build-system"]["requires"]
    common = [
        *(str(BIN / f"uv{EXE}"), "pip", "compile", "-", "--quiet", "--universal", "--no-emit-package", "memalign"),
        *("--python-version", "{}.{}".format(*OLDEST), "--generate-hashes", "--annotation-style", "line"),
        *("--no-header", "--no-emit-index-url", "--no-emit-find-links", *arguments),
    ]
    # Whichever provider's key a newcomer has, the demo runs with it; and a container may share a registry.
    runtime = [str(core), "--extra", "anthropic", "--extra", "google", "--extra", "postgresql"]
    development = [*map(str, others), "--group", "pyproject.toml:dev", "--constraint", "requirements/server.txt"]
    served = [*runtime, server, "--constraint", "requirements/runtime.txt"]  # for the image of `memalign serve`
    kinds = {LOCKS["runtime"]: runtime, LOCKS["server"]: served, LOCKS["dev"]: [*runtime, *development], ENGINES: []}
    for lock, extra in kinds.items():
        if lock == ENGINES:  # what dev.txt does not have already
            names = re.findall(r"^([\w.-]+)==", LOCKS["dev"].read_text("utf-8"), re.MULTILINE)
            there = [word for name in names for word in ("--no-emit-package", name)]
            extra = [str(core), "--extra", "ray", "--extra", "spark", "--constraint", "requirements/dev.txt", *there]  # noqa: PLW2901
        say(f"locking {lock.relative_to(ROOT)}")
        output = ["--output-file", lock.relative_to(ROOT).as_posix()]
        code = subprocess.run([*common, *extra, *output], input="\n".join(build), text=True, cwd=ROOT, check=False)
        if code.returncode:
            return code.returncode
        if "://" in lock.read_text("utf-8"):
            print(f"{lock} names an address; a lock must work behind any mirror. Look at it before committing.")
            return 1
    return 0


def prepare(kind: str) -> None:
    """Make .venv hold what `kind` ("runtime" or "dev", which includes runtime) asks for; quick when it does."""
    if PYTHON.exists() and STAMP.exists():
        digest, _, installed = STAMP.read_text("utf-8").partition(" ")
        if digest == _digest() and installed in (kind, "dev"):
            return
    _make_venv()
    STAMP.unlink(missing_ok=True)  # an install that is stopped half way must not look finished
    packages = sum("==" in line for line in LOCKS[kind].read_text("utf-8").splitlines())
    say(f"installing up to {packages} locked packages into .venv (about 150 MB to download, once)")
    # The lock is complete, so pip need not resolve; and compiling everything would double the time for little.
    pip = [str(PYTHON), "-m", "pip", "install", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    _install([*pip, "--require-hashes", "-r", str(LOCKS[kind])])
    say("installing memalign itself")
    ours = PACKAGES if kind == "dev" else PACKAGES[:1]
    _install([*pip, "--no-build-isolation", *(word for folder in ours for word in ("-e", str(folder)))])
    STAMP.write_text(f"{_digest()} {kind}", "utf-8")


def _digest() -> str:
    """What the environment was made from: the locks, the packages, and the folder (an editable install is a path)."""
    files = [*LOCKS.values(), *(folder / "pyproject.toml" for folder in PACKAGES)]
    return hashlib.sha256(b"\0".join([*(file.read_bytes() for file in files), str(ROOT).encode()])).hexdigest()


def _make_venv() -> None:
    works = (
        PYTHON.exists()
        and call([str(PYTHON), "-c", f"import sys, pip; assert sys.version_info >= {OLDEST}"], quiet=True) == 0
    )
    if works:
        return
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        version = "{}.{}".format(*sys.version_info)
        raise SystemExit(
            f"This Python ({sys.executable}) has no venv or no ensurepip, so it cannot make an environment.\n"
            f"On Debian and Ubuntu: sudo apt install python{version}-venv\n"
            "Elsewhere: install Python from your package manager or its own site. Then run this command again."
        )
    say(
        f"making {VENV.name} with Python {sys.version.split()[0]}"
        + (" (the old one does not work)" if VENV.exists() else "")
    )
    if call([sys.executable, "-m", "venv", "--clear", str(VENV)]) != 0:
        raise SystemExit(f"could not make {VENV}; the lines above say why")


def _install(command: list[str]) -> None:
    """Run pip: a counter while it works, all that it said when it fails."""
    said = []
    seen = 0
    tty = sys.stdout.isatty()
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            said.append(line)
            seen += line.startswith("Collecting ")
            if tty and line.startswith(("Collecting ", "Installing ")):
                shown = line.split()[1].partition("=")[0] if line.startswith("C") else "unpacking"
                print(f"\r    {seen} {shown:<40.40}", end="", flush=True)
    if tty:
        print(f"\r{'':<60}\r", end="")
    if process.returncode:
        print("".join(said))
        raise SystemExit(f"pip failed (above, in full). The command was:\n  {' '.join(command)}")


def _with_newer_python() -> int:
    for minor in (11, 12, 13, 14):
        newer = shutil.which(f"python3.{minor}")
        if newer:
            return call([newer, *sys.argv])
    print("memalign needs Python {}.{} or newer; this is {}".format(*OLDEST, sys.version.split()[0]))
    return 2


def say(text: str) -> None:
    """A progress line."""
    print(f"==> {text}", flush=True)


def step(name: str, command: list[str], log: TextIO = sys.stdout) -> int:
    """Run one check, with its name before and its seconds after; what it says goes to `log`."""
    print(f"==> {name}", file=log, flush=True)
    started = time.monotonic()
    kept = None if log is sys.stdout else subprocess.PIPE
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=kept, stderr=kept and subprocess.STDOUT)
    if done.stdout:
        print(done.stdout.decode("utf-8", "replace"), end="", file=log)
    ended = "ok" if done.returncode == 0 else f"FAILED with exit code {done.returncode}"
    print(f"    {ended} ({time.monotonic() - started:.1f} s)", file=log, flush=True)
    return done.returncode


def call(command: list[str], *, folder: Path = ROOT, quiet: bool = False) -> int:
    """Run a command in `folder` and give its exit code; `quiet` throws its output away."""
    sink = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, cwd=folder, check=False, stdout=sink, stderr=sink).returncode


if __name__ == "__main__":
    raise SystemExit(main())
