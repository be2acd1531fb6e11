"""Words for what the registry and the server keep as codes: actions, states, roles, settings, findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign_server.pages.languages import Language

__all__ = ["WORDS", "coded"]

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "version": {
        "create": "made",
        "save": "saved",
        "align": "learned",
        "unalign": "forgot",
        "edit": "changed by hand",
        "lock": "locked",
        "rollback": "went back",
        "import": "brought in",
        "erase": "erased",
    },
    "state": {
        "learned": "learned",
        "merged": "known already",
        "pending": "waits",
        "disputed": "disputed",
        "rejected": "not usable",
        "withdrawn": "withdrawn",
        "erased": "erased",
    },
    "setting": {
        "instructions": "What the judge is asked",
        "value_type": "What it may answer",
        "model": "Model",
        "embedding_model": "Model that compares cases",
        "retrieval_k": "Similar cases that it is shown",
        "parameters": "Parameters",
        "columns": "Columns of files",
    },
    "field": {
        "status": "in use or not",
        "pinned_by": "pinned",
        "retired_by": "who decided so",
        "supported_by": "feedback behind it",
        "exposed_to": "feedback that its writer saw",
        "checks": "its questions",
        "origin": "who wrote it",
        "replaced_by": "what took its place",
        "barred_for": "the locked case that it broke",
    },
    "finding": {
        "the model's own verdict": "the model's own verdict",
        "the length": "the length",
        "the likeness to the reference": "the likeness to the reference",
        "how often experts say so": "how often experts say so",
    },
    "speaker": {
        "user": "user",
        "human": "user",
        "assistant": "assistant",
        "ai": "assistant",
        "system": "system",
        "tool": "tool",
    },
    "unreachable": {each: each for each in (*UNREACHABLE, *UNREACHABLE_ON_POSTGRESQL)},
}
"""By kind of code the English words of each code; the tables of languages translate them."""


def coded(language: Language, kind: str, code: str) -> str:
    """The words of a code in a language; a code without words as it is."""
    words = WORDS[kind].get(code)
    return code if words is None else language.say(words)
