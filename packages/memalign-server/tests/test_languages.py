"""Every page in every language: each sentence has its translation, and nothing English is left on a page."""

from __future__ import annotations

import ast
import configparser
import gettext
import re
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
from server_support.reviewing import answer, expect, post, put_in, shows, wait

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
        for call in (
            Environment(autoescape=True)
            .parse(path.read_text("utf-8"))
            .find_all(nodes.Call)
        ):
            place = (
                PLACES.get(call.node.name, len(call.args))
                if isinstance(call.node, nodes.Name)
                else len(call.args)
            )
            texts |= {
                part.value
                for part in call.args[place : place + 1]
                if isinstance(part, nodes.Const)
            }
    for path in SOURCE.rglob("*.py"):
        written = [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
        ]
        for code in written if path.stem != "api" else ():  # programs read it
            name = (
                code.func.id
                if isinstance(code.func, ast.Name)
                else getattr(code.func, "attr", "")
            )
            place = PLACES.get(name, len(code.args))
            constants = [
                part.value
                for part in code.args[place : place + 1]
                if isinstance(part, ast.Constant)
            ]
            texts |= {text for text in constants if isinstance(text, str)}
    return texts


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_has_its_translation(code: str) -> None:
    catalogue = gettext.translation("messages", SOURCE / "locales", [code])._catalog  # type: ignore[attr-defined]  # no public way to list it
    table = [
        (key[0] if isinstance(key, tuple) else key, text)
        for key, text in catalogue.items()
        if key
    ]
    translated = {english for english, _ in table}
    assert len(sentences()) > 250
    assert sentences() - translated == set()
    assert translated - sentences() == set(), "no page says these any more"
    for english, other in table:
        parts, others = (
            set(re.findall(r"{\w+}", text)) - {"{n}"} for text in (english, other)
        )
        assert parts == others, english
        assert other.strip(), english


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_has_untranslated_text(path: Path) -> None:
    tree = Environment(autoescape=True).parse(path.read_text("utf-8"))
    plain = "\0".join(node.data for node in tree.find_all(nodes.TemplateData))
    plain = re.sub(r"<code>[^<]*</code>", "", plain)  # commands
    shown = re.findall(r'(?:title|aria-label|alt)="([^"\0]*[a-z][^"\0]*)"', plain)
    shown += re.findall(
        r"[^\W\d_]{2,}",
        re.sub(r"<[^>]*>|^[^<\0]*>|<[^>]*$|&\w+;", " ", re.sub(r"<[^>]*>", " ", plain)),
    )
    assert [word for word in shown if word != "Ctrl"] == []


def test_templates_are_wrapped_like_code() -> None:
    lines = {path.stem: path.read_text("utf-8").splitlines() for path in TEMPLATES}
    long = {
        name: [line for line in text if len(line) > 120] for name, text in lines.items()
    }
    assert {name: found for name, found in long.items() if found} == {}


def test_the_readers_language_and_marks(local: TestClient) -> None:
    headers = {"accept-language": "es-MX,es;q=0.9,en;q=0.5"}
    expect(local.get("/", headers=headers), 200, '<html lang="es">', "Revisar")
    assert (
        post(local, "/language", language="pt", back="//evil.example").headers[
            "location"
        ]
        == "/"
    ), "to no other site"
    assert '<html lang="pt">' in local.get("/", headers={"accept-language": "es"}).text
    assert language("pt").number(1234.5, 1) == "1.234,5"
    assert language_of(None, "de, fr;q=0.9").code == "en"
    at = "2026-11-05T22:04:00+00:00"
    for code, text in (
        ("en", "Nov 05, 2026, 22:04 UTC"),
        ("pt", "05/11/2026, 22:04 UTC"),
    ):
        sentence = language(code).say(
            "<{name}> {time}", name="A&B", time=language(code).time(at)
        )
        assert sentence == f'&lt;A&amp;B&gt; <time datetime="{at}">{text}</time>', (
            "which programs can read too"
        )


ENGLISH = (
    "the of and is are was were this that these it its with from by not has have been you your what who which when "
    "where there they but if each every all any some more most case cases judge judged feedback answer answers "
    "guideline guidelines version wait waits new nothing something learned please show must will can"
)


def english_words(page: str) -> set[str]:
    """The English words that a page shows, without code, the judge's instructions and what is marked as English."""
    assert re.search('<h1|id="foot"|<p', page), page[:200]
    for line in world.INSTRUCTIONS.split("\n"):
        page = page.replace(line, "")
    page = re.sub(
        r"<(script|style|code|pre)\b.*?</\1>|<(\w+)[^>]* lang=\"?en\b.*?</\2>",
        " ",
        page,
        flags=re.DOTALL,
    )
    shown = re.findall(
        r'(?:title|aria-label|placeholder|alt|data-ask|data-announce)="([^"]*)"', page
    )
    return set(
        re.findall(r"[a-z]+", " ".join([*shown, re.sub(r"<[^>]*>", " ", page)]).lower())
    ) & {*ENGLISH.split()}


def teacher(request: ChatRequest) -> dict[str, Any]:
    """The scripted model, in Portuguese."""
    reply = world.answer(request)
    for change in reply.get("changes", ()):
        change["text"] = "Uma resposta mostra simpatia antes dos factos."
    return reply | ({"rationale": "Responde."} if "rationale" in reply else {})


PAGES = (
    "/judges", "/judges/tone/review", "/judges/tone/review?case=c-1", "/judges/tone/learned?find=atraso",
    "/judges/tone/learned?take=G1", "/judges/tone/trust", "/judges/tone/setup?open=question", "/account", "/nowhere",
)  # fmt: skip
FORMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/judges/tone/review", {"case": "c-11", "form": "f", "state": "answered"}),
    ("/judges/tone/setup/cases", {"what": "cases"}),
    ("/judges/try", {"question": "Bom?", "model": "local:none"}),
)


def test_babel_finds_what_receipts_say_is_out_of_reach_and_what_went() -> None:
    words = {kind.experts[0] for kind in NOUNS.values()}
    assert library_sentences() == OUT_OF_REACH | words


@pytest.mark.parametrize("code", OTHERS)
def test_a_receipt_says_what_is_out_of_reach_in_the_readers_language(
    code: str, place: str
) -> None:
    with world.site(place, headers={"accept-language": code}) as client:
        put_in(client)
        erased = post(
            client, "/judges/tone/erase", matching="weeks late", whole="true"
        ).headers["location"]
        wait(client)
        page = client.get(erased).text
    shows(page, *map(language(code).say, UNREACHABLE))
    assert [text for text in OUT_OF_REACH if text in page] == []


@pytest.mark.parametrize("code", OTHERS)
def test_pages_show_no_english_word(code: str, place: str) -> None:
    headers = {"accept": "text/html, */*", "accept-language": code}
    with world.site(place, script=teacher, headers=headers) as client:
        put_in(
            client,
            [
                {"id": f"c-{n}", "inputs": f"Atraso {n}?", "outputs": "Em breve."}
                for n in range(12)
            ],
        )
        for n in range(11):
            answer(
                client,
                f"c-{n}",
                value="false" if n % 3 else "true",
                rationale="Simpatia." if n < 2 else "",
            )
        changed = post(client, "/judges/tone/teach").headers["location"]
        wait(client)
        pages = {path: client.get(path).text for path in (*PAGES, changed)}
        pages |= {
            f"POST {path}": post(client, path, **fields).text for path, fields in FORMS
        }
        post(
            client, "/judges", question="Bom?", model="scripted"
        )  # its fields have the names of the reader's language
        put_in(client, judge="bom")
        own = client.get("/judges/bom/review").text
    assert {
        path: words for path, page in pages.items() if (words := english_words(page))
    } == {}
    assert (
        re.findall("<h2>(.*?)</h2>", own)
        == {"pt": ["Pedido", "Resposta"], "es": ["Petición", "Respuesta"]}[code]
    )
