"""Each package's wheel holds what it needs and no more, and works without the other packages."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml
from checkout import PROGRAM, ROOT, python, text_of

from tests.support.attentive import attentive
from tests.support.endpoint import Endpoint

BIN = "Scripts" if os.name == "nt" else "bin"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package by the package's name."""
    out = tmp_path_factory.mktemp("wheels")
    wheels = {}
    for name in ("memalign", "memalign-server"):
        folder = ROOT / "packages" / name
        options = ("--no-deps", "--no-build-isolation", "-w", out / name)
        python("-m", "pip", "wheel", "-q", *options, folder).check_returncode()
        (wheels[name],) = (out / name).glob("*.whl")
    return wheels


def packages_of(environment: Path) -> Path:
    return next(environment.glob("[Ll]ib/**/site-packages"))


def install(wheel: Path, environment: Path) -> None:
    to = ("--no-deps", "--target", packages_of(environment))
    python("-m", "pip", "install", "-q", *to, wheel).check_returncode()


def run(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command line in the environment, with a key; our sources are out of its reach."""
    variables = os.environ | {"OPENAI_API_KEY": "not-a-key"}
    variables.pop("PYTHONPATH", None)
    return subprocess.run(
        [environment / BIN / "python", "-m", "memalign", *words],
        capture_output=True,
        text=True,
        check=False,
        env=variables,
        cwd=environment,
    )


def test_wheels_hold_code_and_its_data_only(wheels: dict[str, Path]) -> None:
    for name, wheel in wheels.items():
        own = name.replace("-", "_")
        for file in zipfile.ZipFile(wheel).namelist():
            assert re.match(f"{own}[-/]", file)
        # Code alone: neither weights nor results.
        assert wheel.stat().st_size < 1_000_000
    files = zipfile.ZipFile(wheels["memalign"]).namelist()
    assert "memalign/py.typed" in files
    assert ".jinja'" in str(files)


def runs_the_readme(python: Path) -> None:
    """The README's first program prints in this environment what the page shows."""
    ((program, output),) = PROGRAM.findall(text_of("README.md"))
    with Endpoint(attentive) as endpoint:
        variables = {
            "PATH": os.environ["PATH"],
            "OPENAI_API_KEY": "not-a-key",
            "OPENAI_BASE_URL": endpoint.base_url,
        }
        ran = subprocess.run(
            [python, "-W", "error", "-c", program],
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
    # The dependencies of this environment, and none of our packages.
    environment = tmp_path / "env"
    python("-m", "venv", "--without-pip", environment).check_returncode()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "memalign" not in entry.name:
            (packages_of(environment) / entry.name).symlink_to(entry)
    install(wheels["memalign"], environment)
    create = "create tone --value-type bool --model openai:gpt-4.1-mini"
    instructions = ("--instructions", "Is it good? {{ outputs }}")
    for words in (["--help"], [*create.split(), *instructions], ["show", "tone"]):
        done = run(environment, *words)
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
        (package,) = importlib.metadata.distributions(path=[str(wheel)])
        metadata = package.read_text("METADATA") or ""
        page = metadata.partition("\n\n")[2]
        assert page.startswith(f"# {name}\n")
        assert 'pip install "git+REPOSITORY-URL#subdirectory=packages/memalign"' in page
        assert not re.search(r"\]\((?!https?://)", page)
        versions = re.findall(r"Python :: (3\..*)\n", metadata)
        assert versions == [*PYTHONS]


def test_the_workflow_runs_what_ci_runs_on_every_python() -> None:
    jobs = yaml.safe_load(text_of(".github/workflows/test.yml"))["jobs"]
    run = [step["run"] for step in jobs["test"]["steps"] if "run" in step]
    assert run == [".ci/run"]
    assert jobs["install"]["strategy"]["matrix"]["python"] == [*PYTHONS]
    steps = str(jobs["install"]["steps"])
    assert "--only-binary :all:" in steps
    assert "repository_tests/test_readme.py" in steps


# -- with the index that pip uses: slow, and run every night ---------------------------

PYENV = Path.home() / ".pyenv/versions"
"""Its shims run only the versions of a folder's settings."""
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
    folders = [*map(str, PYENV.glob(f"{version}.*/bin")), os.environ["PATH"]]
    found = shutil.which(f"python{version}", path=os.pathsep.join(folders))
    if found is None or subprocess.call([found, "-c", "import ensurepip"]):
        pytest.skip(f"no Python {version} here; the workflow has it")
    subprocess.run([found, "-m", "venv", tmp_path / "env"], check=True)
    installed = tmp_path / "env" / BIN / "python"
    install = ["-m", "pip", "install", "-q", "--only-binary", ":all:"]
    subprocess.run([installed, *install, *wheels.values()], check=True)
    runs_the_readme(installed)


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", PYTHONS)
def test_each_dependency_has_a_wheel_for_the_machine(
    version: str, platform: str
) -> None:
    target = ("--python-version", version, "--python-platform", platform)
    project = ROOT / "packages/memalign/pyproject.toml"
    command = ("uv", "pip", "compile", "--quiet", "--only-binary", ":all:")
    done = python("-m", *command, *target, project)
    assert done.returncode == 0, done.stderr
