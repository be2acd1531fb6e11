"""Build the documentation's site: `python docs/site.py` writes build/site, strictly. With `serve` it is shown instead.

The pages are staged in build/docs first, because they link to examples and raw results, which are no pages: on the
site such a link is its text alone. A link to a page that is not there fails the build.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
STAGED = ROOT / "build" / "docs"
LLMS = ROOT / "llms.txt"
LEFT_OUT = ("site.py", "structs.py", "__pycache__")
SHARED = ("--registry", "--json", "--help", "-h, --help")  # options of every command

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def main(arguments: list[str]) -> int:
    """Stage the pages, build the site, and give the builder's exit code."""
    parser = argparse.ArgumentParser(
        prog="docs/site.py", description="Build the documentation's site into build/site."
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("build", "serve", "llms"),
        default="build",
        help="serve shows the pages in a browser; llms writes llms.txt",
    )
    what = parser.parse_args(arguments).what
    if what == "llms":
        LLMS.write_text(llms(), "utf-8")
        return 0
    serve = what == "serve"
    missing = [
        name
        for name in ("zensical", "mkdocstrings", "memalign_server")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        sys.stderr.write(
            f"not installed: {', '.join(missing)}; python3 dev.py docs sets everything up\n"
        )
        return 2
    stage()
    command = ["serve"] if serve else ["build", "--strict", "--clean"]
    return subprocess.run(
        [sys.executable, "-m", "zensical", *command], cwd=ROOT, check=False
    ).returncode


def stage() -> None:
    """Copy docs/ to build/docs, without links that leave the site."""
    shutil.rmtree(STAGED, ignore_errors=True)
    STAGED.parent.mkdir(exist_ok=True)
    (STAGED.parent / ".gitignore").write_text("*\n", "utf-8")
    shutil.copytree(DOCS, STAGED, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for page in sorted(STAGED.rglob("*.md")):
        source = DOCS / page.relative_to(STAGED)
        page.write_text(inside(page.read_text("utf-8"), source.parent), "utf-8")


def inside(text: str, folder: Path) -> str:
    """A page's text, where a link to a file of the repository that is no page has become its text."""

    def relinked(link: re.Match[str]) -> str:
        label, target = link[1], link[2].partition("#")[0]
        if not target or "://" in target:
            return link[0]
        path = Path(os.path.normpath(folder / target))
        outside = not path.is_relative_to(DOCS) or path.relative_to(DOCS).parts[0] in LEFT_OUT
        return label if outside else link[0]

    return LINK.sub(relinked, text)


def commands() -> str:
    """The reference of the commands, as Typer writes it, with examples as code."""
    typer = [
        sys.executable,
        "-m",
        "typer",
        "memalign.cli.app",
        "utils",
        "docs",
        "--name",
        "memalign",
    ]
    ran = subprocess.run(
        typer, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    # The list at the top cuts every sentence; the page's own table of contents does its work.
    _, first, rest = html.unescape(ran.stdout).partition("\n## ")
    rest = re.sub(
        rf"^\* `(?:{'|'.join(SHARED)})\b.*\n", "", first.lstrip("\n") + rest, flags=re.MULTILINE
    )
    rest = re.sub(r"^Example: (.+)$", r"```console\n$ \1\n```", rest, flags=re.MULTILINE)
    rest = re.sub(r"^\* `([^`]+)`: ?(.*)$", _option, rest, flags=re.MULTILINE)
    return re.sub(r"^(#+ )`memalign ([^`]+)`$", r"\1\2", rest, flags=re.MULTILINE)


def llms() -> str:
    """Return llms.txt: what memalign is, and each page of the site with its first sentence."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    head = [
        f"# {site['site_name']}",
        f"> {site['site_description']}. Begin with SKILL.md: the commands in their order, and what never to do.",
    ]
    parts = [*head, *_section(site["nav"], "Docs")]
    return "\n\n".join(parts) + "\n"


def _section(entries: list[object], title: str) -> list[str]:
    """Return a heading with the pages below it, then the sections that it holds."""
    pages = []
    deeper = []
    for entry in entries:
        if isinstance(entry, str):
            pages.append(_page(entry))
            continue
        for name, value in entry.items():
            if isinstance(value, str):
                pages.append(_page(value))
            else:
                deeper.extend(_section(value, name))
    listed = [f"## {title}", "\n".join(pages)] if pages else []
    return [*listed, *deeper]


def _page(name: str) -> str:
    """Return the line of a page: its title, its place, its first sentence."""
    text = (DOCS / name).read_text("utf-8")
    title = text.partition("\n")[0].lstrip("# ")
    paragraphs = [part for part in text.split("\n\n")[1:] if part[:1].isalnum()]
    words = LINK.sub(r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    sentence = re.match(r".*?[.:](?= |$)", words)
    return f"- [{title}](docs/{name}): {sentence[0] if sentence else words}"


def _option(match: re.Match[str]) -> str:
    # Values in brackets, such as [x>=1], are no links and no HTML.
    return f"* `{match[1]}`: {html.escape(match[2], quote=False)}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
