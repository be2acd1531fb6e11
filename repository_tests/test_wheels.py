"""Each package's wheel holds what it needs and no more, and works without the other packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from checkout import PROGRAM, ROOT

from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint

BIN = "Scripts" if os.name == "nt" else "bin"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package by the package's name."""
    out = tmp_path_factory.mktemp("wheels")
    folders = [
        str(ROOT / "packages" / name) for name in ("memalign", "memalign-server")
    ]
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        *folders,
    ]
    subprocess.run(build, check=True, capture_output=True)
    return {
        file.name.partition("-")[0].replace("_", "-"): file
        for file in out.glob("*.whl")
    }


def packages_of(environment: Path) -> Path:
    return next(environment.glob("[Ll]ib/**/site-packages"))


def install(wheel: Path, environment: Path) -> None:
    to = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
    subprocess.run(
        [*to, str(packages_of(environment)), str(wheel)],
        check=True,
        capture_output=True,
    )


def run(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line in the environment, with a key; our sources are out of its reach."""
    variables = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    variables["OPENAI_API_KEY"] = "not-a-key"
    command = [str(environment / BIN / "python"), "-m", "memalign", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=variables,
        cwd=environment,
    )


def test_wheels_hold_code_and_its_data_only(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"memalign", "memalign-server"}
    for name, wheel in wheels.items():
        own = name.replace("-", "_")
        files = zipfile.ZipFile(wheel).namelist()
        assert {file.partition("/")[0].partition("-")[0] for file in files} == {own}
        assert (
            wheel.stat().st_size < 1_000_000
        )  # code alone: neither weights nor results
    files = zipfile.ZipFile(wheels["memalign"]).namelist()
    assert "memalign/py.typed" in files
    assert any(file.endswith(".jinja") for file in files)


def runs_the_readme(python: Path) -> None:
    """The README's first program prints in this environment what the page shows."""
    ((program, output),) = PROGRAM.findall((ROOT / "README.md").read_text("utf-8"))
    with Endpoint(attentive) as endpoint:
        variables = {
            "PATH": os.environ["PATH"],
            "OPENAI_API_KEY": "not-a-key",
            "OPENAI_BASE_URL": endpoint.base_url,
        }
        command = [str(python), "-W", "error", "-c", program]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=variables,
            cwd=python.parent,
        )
    assert (ran.stdout, ran.returncode) == (output, 0), ran.stderr


def test_the_library_works_alone_and_the_server_adds_its_command(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    environment = (
        tmp_path / "env"
    )  # the dependencies of this one and none of our packages
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True
    )
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "memalign" not in entry.name:
            (packages_of(environment) / entry.name).symlink_to(entry)
    install(wheels["memalign"], environment)
    words = (
        "--instructions",
        "Is it good? {{ outputs }}",
        "--value-type",
        "bool",
        "--model",
        "openai:gpt-4.1-mini",
    )
    for command in (("--help",), ("create", "tone", *words), ("show", "tone")):
        done = run(environment, *command)
        assert done.returncode == 0, done.stderr
    runs_the_readme(environment / BIN / "python")
    missing = run(environment, "serve")
    assert missing.returncode == 2
    assert "memalign-server" in missing.stderr
    install(wheels["memalign-server"], environment)
    shown = run(environment, "serve", "--help")
    assert shown.returncode == 0
    assert "--port" in shown.stdout


def test_a_package_page_shows_how_to_install_it_and_links_nowhere(
    wheels: dict[str, Path],
) -> None:
    """An index shows the page apart from the repository, where a relative link would
    lead nowhere."""
    for name, wheel in wheels.items():
        files = zipfile.ZipFile(wheel)
        (metadata,) = [
            files.read(file).decode()
            for file in files.namelist()
            if file.endswith(".dist-info/METADATA")
        ]
        page = metadata.partition("\n\n")[2]
        assert page.startswith(f"# {name}\n")
        assert 'pip install "git+REPOSITORY-URL#subdirectory=packages/memalign"' in page
        assert not re.search(r"\]\((?!https?://)", page)
        for version in ("3.11", "3.12", "3.13", "3.14"):
            assert (
                f"Classifier: Programming Language :: Python :: {version}\n" in metadata
            )


def test_the_workflow_runs_what_ci_runs_on_every_python() -> None:
    jobs = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    )["jobs"]
    assert [step["run"] for step in jobs["test"]["steps"] if "run" in step] == [
        ".ci/run"
    ]
    project = tomllib.loads(
        (ROOT / "packages/memalign/pyproject.toml").read_text("utf-8")
    )["project"]
    versions = [
        name.rpartition(" ")[2] for name in project["classifiers"] if " :: 3." in name
    ]
    assert jobs["install"]["strategy"]["matrix"]["python"] == versions
    steps = " ".join(step.get("run", "") for step in jobs["install"]["steps"])
    assert "--only-binary :all:" in steps
    assert "repository_tests/test_readme.py" in steps


# -- with the index that pip uses: slow, and run every night ---------------------------

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PYENV = (
    Path.home() / ".pyenv" / "versions"
)  # its shims run only the versions of a folder's settings
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
)


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_an_empty_environment_takes_the_wheels_and_runs_the_readme(
    version: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    folders = sorted(PYENV.glob(f"{version}.*/bin"))
    python = next(
        filter(
            None,
            (shutil.which(f"python{version}", path=str(folder)) for folder in folders),
        ),
        None,
    )
    python = python or shutil.which(f"python{version}")
    if (
        python is None
        or subprocess.run([python, "-c", "import ensurepip"], check=False).returncode
    ):
        pytest.skip(f"no Python {version} here; the workflow has it")
    subprocess.run([python, "-m", "venv", str(tmp_path / "env")], check=True)
    installed = tmp_path / "env" / BIN / "python"
    subprocess.run(
        [
            installed,
            "-m",
            "pip",
            "install",
            "-q",
            "--only-binary",
            ":all:",
            *wheels.values(),
        ],
        check=True,
    )
    runs_the_readme(installed)


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", PYTHONS)
def test_each_dependency_has_a_wheel_for_the_machine(
    version: str, platform: str
) -> None:
    target = (
        "--python-version",
        version,
        "--python-platform",
        platform,
        "--only-binary",
        ":all:",
    )
    project = str(ROOT / "packages" / "memalign" / "pyproject.toml")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        *target,
        project,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
