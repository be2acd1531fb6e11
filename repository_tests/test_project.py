"""Statements about the project itself: what a stranger finds, and what must not creep in."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [ROOT / "packages" / name for name in ("memalign", "memalign-server")]
PROJECTS = {
    folder.name: tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in PACKAGES
}
DEVELOPMENT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]

HEAVY = (
    *("pydantic_ai", "openai", "xllamacpp", "wordllama", "huggingface_hub", "tokenizers"),
    *("numpy", "sqlalchemy", "jinja2", "typer", "rich", "pydantic"),
)


def tracked_files() -> list[Path]:
    """What git tracks or would track; in a copy without .git, everything outside the usual output folders."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]


def pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def test_importing_memalign_loads_no_provider_and_nothing_heavy() -> None:
    script = f"import sys, memalign; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
    # A room may not share its name with a public function: importing it would put the module in the function's place.
    script = "import memalign, memalign.evaluation, sys; sys.exit(not callable(memalign.evaluate))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_all_is_exactly_the_public_names() -> None:
    package = importlib.import_module("memalign")
    for name in package.__all__:
        getattr(package, name)  # names may be loaded on first use
    public = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("memalign")
    }
    assert public <= set(package.__all__)
    assert sorted(package.__all__) == list(package.__all__), "keep __all__ sorted"


def test_no_file_names_a_package_registry() -> None:
    # Put together here, so that this file does not name them either. A lock or a script that names one breaks for
    # everybody behind a mirror.
    hosts = ["pypi" + ".org", "python" + "hosted.org", "conda" + ".anaconda.org", "registry" + ".npmjs.org"]
    hosts += ["crates" + ".io", "proxy" + ".golang.org", "pkg" + ".dev/", "/simple" + "/pip"]
    found = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in tracked_files()
        for host in hosts
        if host.encode() in path.read_bytes().lower()
    ]
    assert found == []


def test_locks_pin_and_hash_everything_without_addresses() -> None:
    for name in ("runtime", "server", "dev"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
        assert "://" not in text
        logical = [
            line for line in text.replace("\\\n", " ").splitlines() if line and not line.lstrip().startswith("#")
        ]
        assert logical
        assert [line for line in logical if "==" not in line.split(";")[0] or "--hash=sha256:" not in line] == []


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements name."""
    return {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements}


def test_locks_hold_every_direct_dependency() -> None:
    def locked(name: str) -> set[str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
        return set(re.findall(r"^([a-z0-9.-]+)==", text, flags=re.MULTILINE))

    runtime = {*names(PROJECTS["memalign"]["dependencies"]), "hatchling"}
    others = names([each for name in PROJECTS if name != "memalign" for each in PROJECTS[name]["dependencies"]])
    assert runtime - locked("runtime") == set(), "run: python3 dev.py lock"
    served = names(PROJECTS["memalign-server"]["dependencies"]) - {"memalign"}
    assert (runtime | served) - locked("server") == set(), "run: python3 dev.py lock"
    assert (runtime | (others - {"memalign"}) | names(DEVELOPMENT)) - locked("dev") == set(), "run: python3 dev.py lock"


def test_each_lock_has_the_smaller_ones_versions() -> None:
    def versions(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
        return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, flags=re.MULTILINE))

    for small, large in (("runtime", versions("server")), ("server", versions("dev"))):
        assert {name: large.get(name) for name in versions(small)} == versions(small), "run: python3 dev.py lock"


HOSTS = {"IPython", "pydantic_core", "pytest"}
"""Imported only by what runs inside them, a kernel, pydantic or pytest, and so there already."""
BEHIND = {"itsdangerous", "python-multipart", "wordllama"}
"""What another dependency imports, which does not install it; and what has files that are read, and no code that is run."""


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_direct_dependencies_are_exactly_what_the_code_imports(folder: Path) -> None:
    imported = set()
    for path in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                imported.add(node.module.partition(".")[0])
    project = PROJECTS[folder.name]
    named = names(project["dependencies"])
    gives = {name: {str(file).partition("/")[0] for file in importlib.metadata.files(name) or ()} for name in named}
    gives |= {"memalign": {"memalign"}} if "memalign" in named else {}  # an editable install lists no module
    wanted = names([each for extra in project.get("optional-dependencies", {}).values() for each in extra])
    extras = {name.replace("-", "_") for name in wanted - {"memalign", "pydantic-ai-slim"}}
    assert extras - imported == set(), "an extra installs what nothing imports"
    own = folder.name.replace("-", "_")
    asked_for = {
        extra for each in project["dependencies"] for extra in re.findall(r"\[(\w+)\]", each)
    }  # such as openai
    ours = imported - sys.stdlib_module_names - {own} - extras - asked_for - HOSTS
    assert {name for name in ours if not any({name, f"{name}.py"} & files for files in gives.values())} == set()
    assert {
        name
        for name, files in gives.items()
        if name not in BEHIND and not ours & {file.removesuffix(".py") for file in files}
    } == set()


def test_every_direct_dependency_has_its_documented_line() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    wanted = names([each for project in PROJECTS.values() for each in project["dependencies"]])
    assert {name for name in wanted if f"`{name}" not in text} == set()


def test_every_package_has_the_licence_that_it_names() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "Version 2.0" in text
    for folder in PACKAGES:
        assert PROJECTS[folder.name]["license"] == "Apache-2.0"
        assert (folder / "LICENSE").read_text("utf-8") == text


def test_one_version_is_everywhere_and_in_the_changelog() -> None:
    versions = {project["version"] for project in PROJECTS.values()}
    (version,) = versions
    assert {importlib.metadata.version(name) for name in PROJECTS} == versions
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = (page.parent / file).resolve() if file else page
            if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in _anchors(goal)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


def test_a_forgotten_fake_is_refused_before_any_bill() -> None:
    with pytest.raises(RuntimeError, match="loopback"):
        socket.create_connection(("203.0.113.1", 443), timeout=1)
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo("api.example.com", 443)


LONGEST_NAME = 12  # words


def test_the_name_of_a_test_is_one_statement() -> None:
    files = [path for path in tracked_files() if re.fullmatch(r"test_\w+\.py", path.name)]
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    names = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, functions) and node.name.startswith("test_")
    }
    assert names
    assert {name for name in names if len(name.rpartition("::")[2].split("_")) > LONGEST_NAME + 1} == set()
