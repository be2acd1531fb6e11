"""Statements about the project itself: what a stranger finds, and what must not creep in."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import socket
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from checkout import ROOT, missing, python, text_of, toml_of, tracked_files

PACKAGES = ("memalign", "memalign-server")
PROJECTS = {
    name: toml_of(f"packages/{name}/pyproject.toml")["project"] for name in PACKAGES
}
DEVELOPMENT = toml_of("pyproject.toml")["dependency-groups"]["dev"]

HEAVY = """
    pydantic_ai openai xllamacpp wordllama huggingface_hub tokenizers
    numpy sqlalchemy jinja2 typer rich pydantic
"""


def test_importing_memalign_loads_no_provider_and_nothing_heavy() -> None:
    loaded = python("-c", "import sys, memalign; print(*sys.modules)").stdout.split()
    assert "memalign" in loaded
    assert set(loaded).isdisjoint(HEAVY.split())


def test_no_room_takes_the_name_of_a_public_function() -> None:
    """Importing it would put the module in the function's place."""
    script = "import memalign, memalign.evaluation; memalign.evaluate.__call__"
    assert python("-c", script).returncode == 0


def test_all_is_exactly_the_public_names() -> None:
    package = importlib.import_module("memalign")
    for name in package.__all__:
        getattr(package, name)  # names may be loaded on first use
    for name, value in vars(package).items():
        own = str(getattr(value, "__module__", "")).startswith("memalign")
        assert name in package.__all__ or name.startswith("_") or not own


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
            joined = ""
            for part in node.values:
                joined += str(part.value) if isinstance(part, ast.Constant) else "…"
            texts.append(joined)
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
    # A lock or a script that names one breaks for everybody behind a mirror. As a pattern,
    # so that this file names none either.
    hosts = re.compile(
        rb"pypi[.]org|python[h]osted\.org|conda[.]anaconda\.org|registry[.]npmjs\.org"
        rb"|crates[.]io|proxy[.]golang\.org|pkg[.]dev/|/simple[/]pip",
        re.IGNORECASE,
    )
    for path in tracked_files():
        assert not hosts.search(path.read_bytes()), path


# -- dependencies and their locks ------------------------------------------------------


def names(requirements: Iterable[str]) -> set[str]:
    """The packages that requirements name."""
    return {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements}


def versions(lock: str) -> dict[str, str]:
    text = text_of(f"requirements/{lock}.txt")
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))


def test_locks_hold_every_dependency_in_one_version_and_no_address() -> None:
    runtime = {*names(PROJECTS["memalign"]["dependencies"]), "hatchling"}
    server = runtime | names(PROJECTS["memalign-server"]["dependencies"]) - {"memalign"}
    wanted = {
        "runtime": runtime,
        "server": server,
        "dev": server | names(DEVELOPMENT),
    }
    for name, packages in wanted.items():
        text = text_of(f"requirements/{name}.txt")
        assert packages <= versions(name).keys(), "run: python3 dev.py lock"
        assert "://" not in text
        for pin in text.replace("\\\n", " ").splitlines():
            assert re.match(r"\s*(#|$)|.*==\S+ .*--hash=sha256:", pin), pin
    for small, large in (("runtime", "server"), ("server", "dev")):
        assert versions(small).items() <= versions(large).items()


INSIDE = {"IPython", "pydantic_core", "pytest"}
"""Imported only by what runs inside them, a kernel, pydantic or pytest, and so there already."""


def imports(folder: Path) -> set[str]:
    """The top-level packages that the sources of a folder import."""
    modules = list[str]()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.append(node.module or "")
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("package", PACKAGES)
def test_what_the_code_imports_is_a_direct_dependency(package: str) -> None:
    project = PROJECTS[package]
    imported = imports(ROOT / "packages" / package / "src")
    optional = names(chain(*project.get("optional-dependencies", {}).values()))
    extras = set[str]()
    for name in optional - {"memalign", "pydantic-ai-slim"}:
        extras.add(name.replace("-", "_"))
    assert extras <= imported, "an extra installs what nothing imports"
    # An editable install lists no modules, and an extra of a dependency, as openai, is one.
    modules = {"memalign", package.replace("-", "_"), *extras, *INSIDE}
    for requirement in project["dependencies"]:
        modules.update(re.findall(r"\[(\w+)\]", requirement))
    for name in names(project["dependencies"]):
        for file in importlib.metadata.files(name) or ():
            modules.add(file.parts[0].removesuffix(".py"))
    assert imported - sys.stdlib_module_names <= modules


def test_every_direct_dependency_has_its_documented_line() -> None:
    wanted = set[str]()
    for project in PROJECTS.values():
        wanted |= names(project["dependencies"])
    page = text_of("docs/dependencies.md")
    assert missing(page, map("`{}".format, wanted)) == set()


# -- licence, version, links, and the guard of the tests themselves --------------------


def test_every_package_has_one_licence_and_one_version() -> None:
    text = text_of("LICENSE")
    assert re.search(r"Apache License\s+Version 2\.0", text)
    version = PROJECTS["memalign"]["version"]
    for name, project in PROJECTS.items():
        assert project["license"] == "Apache-2.0"
        assert text_of(f"packages/{name}/LICENSE") == text
        assert importlib.metadata.version(name) == project["version"] == version
    assert f"## [{version}]" in text_of("CHANGELOG.md")


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in tracked_files():
        text = page.read_text("utf-8") if page.suffix == ".md" else ""
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for file, anchor in re.findall(r"\]\((?![a-z]+:)([^)\s#]*)#?([^)\s]*)\)", text):
            goal = (page.parent / file).resolve() if file else page
            if not goal.exists() or anchor not in _anchors(goal):
                broken.append(f"{page.relative_to(ROOT)}: {file}#{anchor}")
    assert broken == []


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, and the empty one of the page itself."""
    anchors = {""}
    if page.suffix == ".md":
        headings = re.findall(r"^#+ +(.+)$", page.read_text("utf-8"), re.MULTILINE)
        for heading in headings:
            plain = re.sub(r"[^\w\- ]", "", heading.lower())
            anchors.add(plain.strip().replace(" ", "-"))
    return anchors


def test_a_forgotten_fake_is_refused_before_any_bill() -> None:
    with pytest.raises(RuntimeError, match="loopback"):
        socket.create_connection(("203.0.113.1", 443), timeout=1)
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo("api.example.com", 443)
