"""Every page in every language: each sentence has its translation, and nothing English is
left on a page."""

from __future__ import annotations

import ast
import configparser
import gettext
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient
from jinja2 import Environment, nodes

import memalign_server
from memalign.registry import NOUNS
from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign_server.pages.languages import LANGUAGES, language, language_of
from server_support import world
from server_support.catalogues import constants, nouns
from server_support.reviewing import (
    answer,
    expect,
    numbered,
    post,
    put_in,
    shows,
    work,
)

if TYPE_CHECKING:
    from memalign.models.base import ChatRequest

SOURCE = Path(memalign_server.__file__).parent
PACKAGE = Path(__file__).parents[1]
OUT_OF_REACH = {*UNREACHABLE, *UNREACHABLE_ON_POSTGRESQL}
TEMPLATES = sorted((SOURCE / "templates").glob("*.html"))
OTHERS = [code for code in LANGUAGES if code != "en"]
EXTRACTORS = {"constants": constants, "nouns": nouns}
PLACES = {"_": 0, "say": 0, "n_": 1, "count": 1, "Refused": 0, "Problem": 1}
"""Which argument of a call is a sentence."""


def library_sentences() -> set[str]:
    """What Babel finds in the files of the library that babel.cfg names."""
    config = configparser.ConfigParser()
    config.read(PACKAGE / "babel.cfg")
    texts = set[str]()
    for section in config.sections():
        kind, _, pattern = section.partition(": ")
        for path in PACKAGE.parent.glob(pattern) if kind in EXTRACTORS else ():
            with path.open("rb") as file:
                for *_, text, _ in EXTRACTORS[kind](file, (), (), {}):
                    texts.add(text if isinstance(text, str) else text[0])
    return texts


@cache
def sentences() -> set[str]:
    """Every English sentence of the pages; of two forms for one and several things the first."""
    texts = library_sentences()
    for path in TEMPLATES:
        tree = Environment(autoescape=True).parse(path.read_text("utf-8"))
        for call in tree.find_all(nodes.Call):
            texts |= sentence_of(getattr(call.node, "name", ""), call.args)
    for path in SOURCE.rglob("*.py"):
        if path.stem == "api":
            continue  # programs read it
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                texts |= sentence_of(name, node.args)
    return texts


def sentence_of(function: str, arguments: Sequence[Any]) -> set[str]:
    """The sentence among the arguments of a call, if it has one."""
    place = PLACES.get(function, len(arguments))
    found = set[str]()
    for part in arguments[place : place + 1]:
        text = getattr(part, "value", None)
        if isinstance(text, str):
            found.add(text)
    return found


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_has_its_translation(code: str) -> None:
    catalogue = gettext.translation("messages", SOURCE / "locales", [code])
    translated = set[str]()
    # No public way lists a catalogue.
    for key, other in catalogue._catalog.items():  # type: ignore[attr-defined]
        english = key[0] if isinstance(key, tuple) else key
        if english:
            translated.add(english)
            assert other.strip(), english
            assert parts_of(english) == parts_of(other), english
    assert len(translated) > 250
    # None is missing, and none is there that no page says any more.
    assert sentences() == translated


def parts_of(sentence: str) -> set[str]:
    """The places of a sentence that are filled; one thing may be said without its number."""
    return set(re.findall(r"{\w+}", sentence)) - {"{n}"}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_has_untranslated_text(path: Path) -> None:
    tree = Environment(autoescape=True).parse(path.read_text("utf-8"))
    plain = "\0".join(node.data for node in tree.find_all(nodes.TemplateData))
    plain = re.sub(r"<code>[^<]*</code>|\bCtrl\b", "", plain)  # commands and keys
    attributes = r'(?:title|aria-label|alt)="([^"\0]*[a-z][^"\0]*)"'
    assert re.findall(attributes, plain) == []
    text = re.sub(r"<[^>]*>", " ", plain)
    text = re.sub(r"<[^>]*>|^[^<\0]*>|<[^>]*$|&\w+;", " ", text)
    assert re.findall(r"[^\W\d_]{2,}", text) == []


def test_templates_are_wrapped_like_code() -> None:
    for path in TEMPLATES:
        lines = path.read_text("utf-8").splitlines()
        assert max(map(len, lines)) <= 120, path


def test_the_readers_language_and_marks(local: TestClient) -> None:
    headers = {"accept-language": "es-MX,es;q=0.9,en;q=0.5"}
    expect(local.get("/", headers=headers), 200, '<html lang="es">', "Revisar")
    chosen = post(local, "/language", language="pt", back="//evil.example")
    assert chosen.headers["location"] == "/", "to no other site"
    page = local.get("/", headers={"accept-language": "es"})
    expect(page, 200, '<html lang="pt">')
    assert language("pt").number(1234.5, 1) == "1.234,5"
    assert language_of(None, "de, fr;q=0.9").code == "en"
    at = "2026-11-05T22:04:00+00:00"
    times = {"en": "Nov 05, 2026, 22:04 UTC", "pt": "05/11/2026, 22:04 UTC"}
    for code, text in times.items():
        time = language(code).time(at)
        sentence = language(code).say("<{name}> {time}", name="A&B", time=time)
        # Programs can read it too.
        assert sentence == f'&lt;A&amp;B&gt; <time datetime="{at}">{text}</time>'


ENGLISH = """
    the of and is are was were this that these it its with from by not has have been you
    your what who which when where there they but if each every all any some more most case
    cases judge judged feedback answer answers guideline guidelines version wait waits new
    nothing something learned please show must will can
"""


def english_words(page: str) -> set[str]:
    """The English words that a page shows, without code, the judge's instructions and what
    is marked as English."""
    assert re.search('<h1|id="foot"|<p', page), page[:200]
    for line in world.INSTRUCTIONS.split("\n"):
        page = page.replace(line, "")
    hidden = r"<(script|style|code|pre)\b.*?</\1>|<(\w+)[^>]* lang=\"?en\b.*?</\2>"
    page = re.sub(hidden, " ", page, flags=re.DOTALL)
    attributes = "title|aria-label|placeholder|alt|data-ask|data-announce"
    shown = re.findall(rf'(?:{attributes})="([^"]*)"', page)
    shown.append(re.sub(r"<[^>]*>", " ", page))
    words = re.findall(r"[a-z]+", " ".join(shown).lower())
    return set(words) & set(ENGLISH.split())


def teacher(request: ChatRequest) -> dict[str, Any]:
    """The scripted model, in Portuguese."""
    reply = world.answer(request)
    for change in reply.get("changes", ()):
        change["text"] = "Uma resposta mostra simpatia antes dos factos."
    return reply | ({"rationale": "Responde."} if "rationale" in reply else {})


PAGES = (
    "/judges",
    "/judges/tone/review",
    "/judges/tone/review?case=c-1",
    "/judges/tone/learned?find=atraso",
    "/judges/tone/learned?take=G1",
    "/judges/tone/trust",
    "/judges/tone/setup?open=question",
    "/account",
    "/nowhere",
)
FORMS: dict[str, dict[str, Any]] = {
    "/judges/tone/review": {"case": "c-11", "form": "f", "state": "answered"},
    "/judges/tone/setup/cases": {"what": "cases"},
    "/judges/try": {"question": "Bom?", "model": "local:none"},
}


def test_babel_finds_what_receipts_say_is_out_of_reach_and_what_went() -> None:
    words = {kind.experts[0] for kind in NOUNS.values()}
    assert library_sentences() == OUT_OF_REACH | words


@pytest.mark.parametrize("code", OTHERS)
def test_a_receipt_says_what_is_out_of_reach_in_the_readers_language(
    code: str, place: str
) -> None:
    with world.site(place, headers={"accept-language": code}) as client:
        put_in(client)
        page = work(client, "erase", matching="weeks late", whole="true")
    shows(page, *map(language(code).say, UNREACHABLE))
    for text in OUT_OF_REACH:
        assert text not in page


@pytest.mark.parametrize("code", OTHERS)
def test_pages_show_no_english_word(code: str, place: str) -> None:
    headers = {"accept": "text/html, */*", "accept-language": code}
    with world.site(place, script=teacher, headers=headers) as client:
        put_in(client, [case | {"inputs": "Atraso?"} for case in numbered(12)])
        for n in range(11):
            said = {"value": "false" if n % 3 else "true"}
            if n < 2:
                said["rationale"] = "Simpatia."
            answer(client, f"c-{n}", **said)
        shown = {"taught": work(client, "teach")}
        for path in PAGES:
            shown[path] = client.get(path).text
        for path, fields in FORMS.items():
            shown[f"POST {path}"] = post(client, path, **fields).text
        # Its fields have the names of the reader's language.
        post(client, "/judges", question="Bom?", model="scripted")
        put_in(client, judge="bom")
        own = client.get("/judges/bom/review").text
    for path, page in shown.items():
        assert english_words(page) == set(), path
    fields_of = {"pt": ["Pedido", "Resposta"], "es": ["Petición", "Respuesta"]}
    assert re.findall("<h2>(.*?)</h2>", own) == fields_of[code]
