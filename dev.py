#!/usr/bin/env python3
"""What a newcomer, a contributor and CI run, with nothing but Python 3.11 or newer and git.

python3 dev.py demo [ARGS]        set up, then `memalign demo`, live: comments change a judge, and are forgotten
python3 dev.py test [PYTEST ARGS] set up, then every check and the tests; CI runs this
python3 dev.py docs [serve]       set up, then build the documentation into build/site, or serve it
python3 dev.py run COMMAND...     set up, then a command inside the environment, such as `run memalign --help`
python3 dev.py lock [--upgrade]   refresh requirements/*.txt after a change of a pyproject.toml

Everything is installed into .venv beside this file, from requirements/*.txt, where each package has its hash. A second
run finds it installed and goes straight on. pip's own settings (index, mirror, proxy, certificates) are honoured.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "memalign-installed.txt"
LOCKS = {
    kind: ROOT / "requirements" / f"{kind}.txt"
    for kind in ("runtime", "server", "dev", "engines")
}
PACKAGES = [ROOT / "packages" / name for name in ("memalign", "memalign-server")]
OLDEST = (3, 11)
EMBEDDED = "local:qwen2.5-coder-1.5b"


def main() -> int:
    """Run the command named on the command line and give its exit code."""
    if sys.version_info < OLDEST:
        # macOS's own `python3` may be 3.9: go on with a newer one if there is one.
        newer = next(
            filter(
                None, (shutil.which(f"python3.{minor}") for minor in (11, 12, 13, 14))
            ),
            None,
        )
        if newer:
            return call(newer, *sys.argv)
        print(
            "memalign needs Python {}.{} or newer; this is {}".format(
                *OLDEST, sys.version.split()[0]
            )
        )
        return 2
    commands = {"demo": demo, "test": test, "docs": docs, "run": run, "lock": lock}
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in commands:
        print(
            f"dev.py has no command {name!r}\n\n{__doc__}"
            if name.strip("-") not in ("", "h", "help")
            else __doc__
        )
        return 0 if name.strip("-") in ("h", "help") else 2
    try:
        return commands[name](sys.argv[2:])
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def demo(arguments: list[str]) -> int:
    """Set up what the package needs, then `memalign demo`, live on the embedded model.

    Only a person, or --yes, agrees to a download. Where nobody can be asked and the model is not
    there yet, the demo replays its recording.
    """
    prepare("runtime")
    if any(word.startswith("--model") for word in arguments):
        return call(PYTHON, "-m", "memalign", "demo", *arguments)
    agreed = {"--yes", "-y"} & set(arguments)
    if not (agreed or sys.stdin.isatty() or has_embedded_model()):
        say(
            "nobody can be asked here about a download of 1.1 GB, so the demo is a recording"
        )
        say("to run it live on this machine: python3 dev.py demo --yes")
        return call(PYTHON, "-m", "memalign", "demo", *arguments)
    return call(PYTHON, "-m", "memalign", "demo", "--model", EMBEDDED, *arguments)


def has_embedded_model() -> bool:
    """Return whether the demo's model was downloaded before."""
    look = "import sys; from memalign.models.catalogue import find; sys.exit(not find(sys.argv[1]).present)"
    return call(PYTHON, "-c", look, EMBEDDED.removeprefix("local:")) == 0


def test(arguments: list[str]) -> int:
    """Run every check, whatever fails, then the tests, a process a core and four at most: each loads its own model."""
    prepare("dev")
    module = (PYTHON, "-m")
    checks = {
        "ruff check": (*module, "ruff", "check", "."),
        "ruff format": (*module, "ruff", "format", "--check", "."),
        "import rooms": (BIN / "lint-imports", "--no-logo"),
        "mypy, with typing_tests": (*module, "mypy"),
        "pyright, typing_tests": (BIN / "basedpyright",),
        "locked packages fit together": (*module, "pip", "check"),
        "documentation": (PYTHON, "docs/site.py"),
        "the embedded model": (
            *module,
            "memalign",
            "models",
            "pull",
            "qwen2.5-coder-0.5b",
            "--yes",
        ),
        # A file stays in one process, and with it what its tests set up once, such as a server or a taught judge.
        "pytest": (
            *(
                *module,
                "pytest",
                "--require-embedded",
                "-n",
                min(4, os.cpu_count() or 1),
                "--dist",
                "loadfile",
            ),
            *arguments,
        ),
    }
    failed = []
    for name, command in checks.items():
        say(name)
        if call(*command) != 0:
            failed.append(name)
    say(f"FAILED: {', '.join(failed)}" if failed else "all checks and tests passed")
    return 1 if failed else 0


def docs(arguments: list[str]) -> int:
    """Build the documentation, strictly; with `serve` show it on this machine and build it again at every change."""
    prepare("dev")
    return call(PYTHON, "docs/site.py", *arguments)


def run(arguments: list[str]) -> int:
    """Set up everything, then any command of the environment, in the folder that the person is in."""
    prepare("dev")
    program = (
        shutil.which(
            arguments[0], path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        )
        if arguments
        else None
    )
    if program is None:
        print(
            "dev.py run: which program? It must be in .venv or on the PATH. For example: run memalign --help"
        )
        return 127
    return call(program, *arguments[1:], folder=Path.cwd())


def lock(arguments: list[str]) -> int:
    """Resolve pyproject.toml again into requirements/*.txt; docs/decisions/0001-lock.md says why in this form."""
    import tomllib  # not there in the older Python that only has to say that it is too old

    prepare("dev")
    core, server = (str(folder / "pyproject.toml") for folder in PACKAGES)
    build = tomllib.loads(Path(core).read_text("utf-8"))["build-system"]["requires"]
    common = [
        *(
            BIN / "uv",
            "pip",
            "compile",
            "-",
            "--quiet",
            "--universal",
            "--no-emit-package",
            "memalign",
        ),
        *(
            "--python-version",
            "{}.{}".format(*OLDEST),
            "--generate-hashes",
            "--annotation-style",
            "line",
        ),
        *("--no-header", "--no-emit-index-url", "--no-emit-find-links", *arguments),
    ]
    # Whichever provider's key a newcomer has, the demo runs with it; and a container may share a registry.
    runtime = [
        core,
        "--extra",
        "anthropic",
        "--extra",
        "google",
        "--extra",
        "postgresql",
    ]
    served = [*runtime, server, "--constraint", "requirements/runtime.txt"]
    development = [
        *runtime,
        server,
        "--extra",
        "typesafe",
        "--group",
        "pyproject.toml:dev",
    ]
    development += ["--constraint", "requirements/server.txt"]
    engines = [
        core,
        "--extra",
        "ray",
        "--extra",
        "spark",
        "--constraint",
        "requirements/dev.txt",
    ]
    for kind, words in {
        "runtime": runtime,
        "server": served,
        "dev": development,
        "engines": engines,
    }.items():
        say(f"locking requirements/{kind}.txt")
        if kind == "engines":  # only what dev.txt does not have already
            names = re.findall(
                r"^([\w.-]+)==", LOCKS["dev"].read_text("utf-8"), re.MULTILINE
            )
            for name in names:
                words += ["--no-emit-package", name]
        command = [
            *map(str, common),
            *words,
            "--output-file",
            f"requirements/{kind}.txt",
        ]
        if subprocess.run(
            command, input="\n".join(build), text=True, cwd=ROOT, check=False
        ).returncode:
            return 1
        if "://" in LOCKS[kind].read_text("utf-8"):
            print(
                f"requirements/{kind}.txt names an address; a lock must work behind any mirror. Do not commit it."
            )
            return 1
    return 0


def prepare(kind: str) -> None:
    """Make .venv hold what `kind` ("runtime" or "dev", which includes runtime) asks for; quick when it does."""
    parts = [*LOCKS.values(), *(folder / "pyproject.toml" for folder in PACKAGES)]
    digest = hashlib.sha256(
        b"\0".join([*(part.read_bytes() for part in parts), str(ROOT).encode()])
    ).hexdigest()
    done = (
        STAMP.read_text("utf-8").split()
        if PYTHON.exists() and STAMP.exists()
        else ["", ""]
    )
    if done[0] == digest and done[1] in (kind, "dev"):
        return
    if any(
        importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")
    ):
        version = "{}.{}".format(*sys.version_info)
        raise SystemExit(
            f"This Python ({sys.executable}) has no venv or no ensurepip, so it cannot make an environment.\n"
            f"On Debian and Ubuntu: sudo apt install python{version}-venv\n"
            "Elsewhere: install Python from your package manager or its own site. Then run this command again."
        )
    STAMP.unlink(
        missing_ok=True
    )  # an install that is stopped half way must not look finished
    say(
        "installing locked packages into .venv (about 150 MB to download, once: a minute or two)"
    )
    install = (
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--disable-pip-version-check",
    )
    editable = [
        word
        for folder in (PACKAGES if kind == "dev" else PACKAGES[:1])
        for word in ("-e", folder)
    ]
    # The lock is complete, so pip need not resolve; and compiling everything would double the time for little.
    commands = [
        (*install, "--require-hashes", "-r", LOCKS[kind]),
        (*install, "--no-build-isolation", *editable),
    ]
    if not works():
        commands.insert(0, (sys.executable, "-m", "venv", "--clear", VENV))
    for command in commands:
        if call(*command) != 0:
            raise SystemExit(
                f"failed (above, in full). The command was:\n  {' '.join(map(str, command))}"
            )
    STAMP.write_text(f"{digest} {kind}", "utf-8")


def works() -> bool:
    """Whether .venv has a Python that runs, new enough and with pip; a moved or half-made one has not."""
    probe = [str(PYTHON), "-c", f"import sys, pip; assert sys.version_info >= {OLDEST}"]
    return (
        PYTHON.exists()
        and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


def say(text: str) -> None:
    """Print a progress line."""
    print(f"==> {text}", flush=True)


def call(*command: object, folder: Path = ROOT) -> int:
    """Run a command in `folder` and give its exit code."""
    return subprocess.run(
        [str(word) for word in command], cwd=folder, check=False
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
