"""Every page in every language: each sentence has its translation, and nothing English is left on a page."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import Environment, nodes

import memalign_server
from memalign.models.base import ChatRequest
from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign_server.pages.languages import LANGUAGES, language, language_of
from server_support import world
from server_support.reviewing import answer, post, put_in, wait

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

SOURCE = Path(memalign_server.__file__).parent
TEMPLATES = sorted((SOURCE / "templates").glob("*.html"))
OTHERS = [code for code in LANGUAGES if code != "en"]
PLACES = {"_": (0,), "say": (0,), "n_": (1, 2), "count": (1, 2), "Refused": (0,), "Problem": (1,)}
"""Which arguments of a call are sentences."""
SAID = "Como se responde a um atraso?"


def of_templates() -> Iterator[str]:
    for path in TEMPLATES:
        for call in Environment(autoescape=True).parse(path.read_text("utf-8")).find_all(nodes.Call):
            name = call.node.name if isinstance(call.node, nodes.Name) else ""
            given = [call.args[place] for place in PLACES.get(name, ()) if place < len(call.args)]
            yield from (each.value for each in given if isinstance(each, nodes.Const))


def of_modules() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        if path.stem == "api":  # programs read it
            continue
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            given = [call.args[place] for place in PLACES.get(name, ()) if place < len(call.args)]
            yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))


@cache
def sentences() -> set[str]:
    """Every English sentence of the pages."""
    return {*of_templates(), *of_modules(), *UNREACHABLE, *UNREACHABLE_ON_POSTGRESQL}


def texts_of(code: str) -> dict[str, str]:
    """The translations that a .po file holds, one for each English text, and for each of its plurals."""
    found: dict[str, str] = {}
    for entry in (SOURCE / "locales" / code / "LC_MESSAGES" / "messages.po").read_text("utf-8").split("\n\n"):
        fields = {"msgid": "", "msgid_plural": "", "msgstr": "", "msgstr[0]": "", "msgstr[1]": ""}
        field = ""
        for line in entry.splitlines():
            if line and not line.startswith("#"):
                field = line.partition(" ")[0] if not line.startswith('"') else field
                fields[field] += ast.literal_eval(line.removeprefix(field).strip())
        found[fields["msgid"]] = fields["msgstr"] or fields["msgstr[0]"]
        if fields["msgid_plural"]:
            found[fields["msgid_plural"]] = fields["msgstr[1]"]
    return {english: text for english, text in found.items() if english}


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_has_its_translation(code: str) -> None:
    table = texts_of(code)
    assert len(sentences()) > 300
    assert sentences() - set(table) == set()
    assert set(table) - sentences() == set(), "no page says these any more"
    for english, other in table.items():
        assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", other)), english
        assert other.strip(), english


@pytest.mark.parametrize("code", OTHERS)
def test_the_compiled_catalogue_is_of_its_source(code: str) -> None:
    compiled = gettext.translation("messages", SOURCE / "locales", [code])
    for english, other in texts_of(code).items():
        assert other in (compiled.gettext(english), compiled.ngettext(*plural(code, english), 2)), english


@cache
def plurals(code: str) -> dict[str, str]:
    text = (SOURCE / "locales" / code / "LC_MESSAGES" / "messages.po").read_text("utf-8")
    pairs = re.findall(r'^msgid "(.*)"\nmsgid_plural "(.*)"$', text, re.MULTILINE)
    return {several: one for one, several in pairs}


def plural(code: str, several: str) -> tuple[str, str]:
    """The two English forms of a text that is a plural."""
    return plurals(code).get(several, several), several


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_has_untranslated_text(path: Path) -> None:
    tree = Environment(autoescape=True).parse(path.read_text("utf-8"))
    plain = "\0".join(node.data for node in tree.find_all(nodes.TemplateData))
    plain = re.sub(r"<code>[^<]*</code>", "", plain)  # commands
    shown = re.findall(r'(?:title|aria-label|alt)="([^"\0]*[a-z][^"\0]*)"', plain)
    shown += re.findall(
        r"[^\W\d_]{2,}", re.sub(r"<[^>]*>|^[^<\0]*>|<[^>]*$|&\w+;", " ", re.sub(r"<[^>]*>", " ", plain))
    )
    assert [word for word in shown if word != "Ctrl"] == []


def test_the_readers_language_and_marks(local: TestClient) -> None:
    page = local.get("/", headers={"accept-language": "es-MX,es;q=0.9,en;q=0.5"}).text
    assert '<html lang="es">' in page
    assert "Revisar" in page
    post(local, "/language", language="pt", back="/")
    assert '<html lang="pt">' in local.get("/", headers={"accept-language": "es"}).text
    assert language("pt").number(1234.5, 1) == "1.234,5"
    assert language_of(None, "de, fr;q=0.9").code == "en"


@pytest.mark.parametrize(("code", "text"), [("en", "Nov 05, 2026, 22:04 UTC"), ("pt", "05/11/2026, 22:04 UTC")])
def test_a_time_in_a_sentence_is_one_for_programs_too(code: str, text: str) -> None:
    at = "2026-11-05T22:04:00+00:00"
    sentence = language(code).say("<{name}> {time}", name="A&B", time=language(code).time(at))
    assert sentence == f'&lt;A&amp;B&gt; <time datetime="{at}">{text}</time>'


def test_language_leads_to_no_other_site(local: TestClient) -> None:
    for back in ("//evil.example", "https://evil.example", "/\\evil.example"):
        assert post(local, "/language", language="pt", back=back).headers["location"] == "/"


class Words(HTMLParser):
    """The words that a page shows, without those that are marked as English, and without code."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: list[str] = []
        self.words: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if self.hidden or tag in ("script", "style", "code", "pre") or given.get("lang") == "en":
            if tag not in ("input", "meta", "link", "br", "hr"):
                self.hidden.append(tag)
            return
        for name in ("title", "aria-label", "placeholder", "alt", "data-ask", "data-announce"):
            self.handle_data(given.get(name) or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.update(re.findall(r"[a-z]+", data.lower()))


ENGLISH = frozenset(
    re.findall(
        r"\w+",
        "the of and is are was were this that these it its with from by not has have had been you your what who which "
        "when where there they their then than but if each every all any some more most case cases judge judged "
        "feedback answer answers guideline guidelines version wait waits new nothing something learned please show "
        "must will can",
    )
)


def teacher(request: ChatRequest) -> dict[str, Any]:
    """The scripted model, in Portuguese."""
    given = world.answer(request)
    for change in given.get("changes", ()):
        change["text"] = "Uma resposta mostra simpatia antes dos factos."
    return given | ({"rationale": "Responde."} if "rationale" in given else {})


PAGES = (
    "/", "/judges", "/judges/tone/review", "/judges/tone/review?case=c-1", "/judges/tone/learned?find=atraso",
    "/judges/tone/learned?better=G1", "/judges/tone/learned?take=G1", "/judges/tone/trust", "/judges/tone/teach",
    *(f"/judges/tone/setup?open={block}" for block in ("question", "cases", "experts", "erase")),
    "/nowhere", "/judges/tone/review?case=none",
    "/judges/none/review", "/account",
)  # fmt: skip
FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/judges/tone/review", {"case": "c-11", "form": "f", "state": "answered"}),
    ("/judges/tone/setup/cases", {"what": "cases"}),
    ("/judges", {"name": "a/b", "instructions": "{{ outputs }}"}),
    ("/judges/tone/find", {"matching": "atraso"}),
    ("/judges/try", {"question": "Bom?", "model": "local:none"}),
    ("/judges/tone/pull", {"experiment": " ", "uri": "http://localhost"}),
)


@pytest.mark.slow
def test_pages_show_no_english_word(tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    world.registry(tmp_path, script=teacher)
    app = world.server(tmp_path, script=teacher)
    with TestClient(app, base_url=world.ADDRESS, headers={"accept": "text/html, */*"}) as there:
        put_in(there, [{"id": f"c-{n}", "inputs": f"{SAID} {n}", "outputs": "Em breve."} for n in range(12)])
        for n in range(11):
            answer(there, f"c-{n}", value="false" if n % 3 else "true", rationale="Simpatia." if n < 2 else "")
        changed = post(there, "/judges/tone/teach").headers["location"]
        wait(there)
        found: dict[str, set[str]] = {}
        for code in OTHERS:
            there.headers["accept-language"] = code
            found |= {f"{code} {path}": seen(there.get(path).text) for path in (*PAGES, changed)}
            found |= {f"{code} POST {path}": seen(post(there, path, **fields).text) for path, fields in FORMS}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.slow
def test_pages_of_people_show_no_english_word(shared: world.Shared) -> None:
    owner, visitor, reviewer = shared.signed_in("owner"), shared.browser(), shared.signed_in("reviewer")
    found: dict[str, set[str]] = {}
    for code in OTHERS:
        for browser in (owner, visitor, reviewer):
            browser.headers["accept-language"] = code
        invited = post(owner, "/judges/tone/experts", name=f"Zoe {code}")
        link = re.findall(r"<code>http://[^/]+(/join/[^<]+)</code>", invited.text)[0]
        answers = {
            "invited": invited,
            "token": post(owner, "/token"),
            "taken": post(owner, "/judges/tone/experts", name="owner"),
            "forbidden": reviewer.get("/judges/tone/setup"),
            "forged": owner.post("/token", headers={"origin": "https://evil.example"}),
            **{path: owner.get(path) for path in ("/account", "/judges/tone/setup", "/judges/tone/trust")},
            **{path: visitor.get(path) for path in ("/sign-in", link, "/join/none")},
        }
        found |= {f"{code} {name}": seen(page.text) for name, page in answers.items()}
    assert {name: words for name, words in found.items() if words} == {}


def seen(page: str) -> set[str]:
    """The English words that a page shows, but for the judge's question and what its model is told."""
    assert re.search('<h1|id="foot"|<p', page), page[:200]
    reader = Words()
    for line in world.INSTRUCTIONS.split("\n"):
        page = page.replace(line, "")
    reader.feed(page)
    return {*reader.words} & ENGLISH
