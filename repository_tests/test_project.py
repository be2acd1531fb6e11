"""Statements about the project itself: what a stranger finds, and what must not creep in."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from checkout import ROOT, tracked_files

PACKAGES = [ROOT / "packages" / name for name in ("memalign", "memalign-server")]
PROJECTS = {
    folder.name: tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    for folder in PACKAGES
}
DEVELOPMENT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
    "dependency-groups"
]["dev"]

HEAVY = (
    *(
        "pydantic_ai",
        "openai",
        "xllamacpp",
        "wordllama",
        "huggingface_hub",
        "tokenizers",
    ),
    *("numpy", "sqlalchemy", "jinja2", "typer", "rich", "pydantic"),
)


def test_importing_memalign_loads_no_provider_and_nothing_heavy() -> None:
    script = f"import sys, memalign; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == []
    # A room may not share its name with a public function: importing it would put the
    # module in the function's place.
    script = "import memalign, memalign.evaluation, sys; sys.exit(not callable(memalign.evaluate))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_all_is_exactly_the_public_names() -> None:
    package = importlib.import_module("memalign")
    for name in package.__all__:
        getattr(package, name)  # names may be loaded on first use
    public = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith("memalign")
    }
    assert public <= set(package.__all__)


DOUBLED = re.compile(
    r"\b(a|an|and|are|as|at|be|by|for|from|has|in|is|it|no|not|of|on|or|that|the|to|was|with)"
    r"\s+\1\b"
)


def texts_of(path: Path) -> list[str]:
    """Return the texts that a file shows to people: of code its literals, put together."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return [text]
    texts = list[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(part, "value", "") for part in node.values]
            texts.append("".join(p if isinstance(p, str) else "…" for p in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def test_no_word_of_a_message_or_page_is_there_twice() -> None:
    suffixes = {".py", ".md", ".html", ".jinja"}
    found = list[str]()
    for path in tracked_files():
        if path.suffix in suffixes and "tests" not in path.parts:
            for text in texts_of(path):
                for doubled in DOUBLED.finditer(text):
                    found.append(f"{path.name}: {doubled[0]}")
    assert found == []


def test_no_file_names_a_package_registry() -> None:
    # Put together here, so that this file does not name them either. A lock or a script
    # that names one breaks for
    # everybody behind a mirror.
    hosts = [
        "pypi" + ".org",
        "python" + "hosted.org",
        "conda" + ".anaconda.org",
        "registry" + ".npmjs.org",
    ]
    hosts += [
        "crates" + ".io",
        "proxy" + ".golang.org",
        "pkg" + ".dev/",
        "/simple" + "/pip",
    ]
    contents = {path: path.read_bytes().lower() for path in tracked_files()}
    assert [
        (path, host)
        for path, content in contents.items()
        for host in hosts
        if host.encode() in content
    ] == []


# -- dependencies and their locks ------------------------------------------------------


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements name."""
    return {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements}


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")


def versions(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock(name), flags=re.MULTILINE))


def test_locks_hold_every_dependency_in_one_version_and_no_address() -> None:
    runtime = {*names(PROJECTS["memalign"]["dependencies"]), "hatchling"}
    server = runtime | names(PROJECTS["memalign-server"]["dependencies"]) - {"memalign"}
    for name, wanted in (
        ("runtime", runtime),
        ("server", server),
        ("dev", server | names(DEVELOPMENT)),
    ):
        assert wanted - versions(name).keys() == set(), "run: python3 dev.py lock"
        assert "://" not in lock(name)
        pins = [pin.strip() for pin in lock(name).replace("\\\n", " ").splitlines()]
        pins = [pin for pin in pins if pin and not pin.startswith("#")]
        assert [
            pin for pin in pins if not re.search(r"==\S+ .*--hash=sha256:", pin)
        ] == [], "one version, and hashes"
    for small, large in (("runtime", "server"), ("server", "dev")):
        assert versions(small).items() <= versions(large).items(), (
            "run: python3 dev.py lock"
        )


INSIDE = {"IPython", "pydantic_core", "pytest"}
"""Imported only by what runs inside them, a kernel, pydantic or pytest, and so there already."""


def imports(folder: Path) -> set[str]:
    """The top-level packages that the sources of a folder import."""
    nodes = [
        node
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]
    plain = {
        alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    froms = [
        node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.level == 0
    ]
    return plain | {module.partition(".")[0] for module in froms if module}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_what_the_code_imports_is_a_direct_dependency(folder: Path) -> None:
    project = PROJECTS[folder.name]
    imported = imports(folder / "src")
    optional = names(
        [
            each
            for extra in project.get("optional-dependencies", {}).values()
            for each in extra
        ]
    )
    extras = {
        name.replace("-", "_") for name in optional - {"memalign", "pydantic-ai-slim"}
    }
    assert extras <= imported, "an extra installs what nothing imports"
    modules = {"memalign"}  # an editable install lists none
    for name in names(project["dependencies"]):
        modules |= {
            str(file).partition("/")[0].removesuffix(".py")
            for file in importlib.metadata.files(name) or ()
        }
    asked_for = {
        extra
        for each in project["dependencies"]
        for extra in re.findall(r"\[(\w+)\]", each)
    }  # as openai
    own = {folder.name.replace("-", "_")}
    assert (
        imported - sys.stdlib_module_names - own - extras - asked_for - INSIDE
        <= modules
    )


def test_every_direct_dependency_has_its_documented_line() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    wanted = names(
        [each for project in PROJECTS.values() for each in project["dependencies"]]
    )
    assert {name for name in wanted if f"`{name}" not in text} == set()


# -- licence, version, links, and the guard of the tests themselves --------------------


def test_every_package_has_one_licence_and_one_version() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert re.search(r"Apache License\s+Version 2\.0", text)
    (version,) = {project["version"] for project in PROJECTS.values()}
    for folder in PACKAGES:
        assert PROJECTS[folder.name]["license"] == "Apache-2.0"
        assert (folder / "LICENSE").read_text("utf-8") == text
        assert importlib.metadata.version(folder.name) == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in (path for path in tracked_files() if path.suffix == ".md"):
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for file, anchor in re.findall(r"\]\((?![a-z]+:)([^)\s#]*)#?([^)\s]*)\)", text):
            goal = (page.parent / file).resolve() if file else page
            if not goal.exists() or (
                anchor and goal.suffix == ".md" and anchor not in _anchors(goal)
            ):
                broken.append(f"{page.relative_to(ROOT)}: {file}#{anchor}")
    assert broken == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in headings
    }


def test_a_forgotten_fake_is_refused_before_any_bill() -> None:
    with pytest.raises(RuntimeError, match="loopback"):
        socket.create_connection(("203.0.113.1", 443), timeout=1)
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo("api.example.com", 443)
