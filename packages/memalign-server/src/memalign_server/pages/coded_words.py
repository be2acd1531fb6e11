"""Words for what the registry and the server keep as codes: actions, states, roles, settings, findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign_server.pages.languages import Language

__all__ = ["WORDS", "coded"]

_ACTS: Final = {
    "put in cases": ("add_review_cases", "upload"),
    "pulled cases from MLflow": ("pull_cases",),
    "taught the judge": ("align_judge", "teach_judge", "teach_kept"),
    "replaced feedback": ("overwrite_feedback",),
    "withdrew feedback": ("unalign_judge", "withdraw"),
    "erased feedback": ("erase", "erase_feedback"),
    "looked at what an erasure would take": ("preview_erase",),
    "looked at what learning would cost": ("estimate_align",),
    "wrote a guideline": ("add_guideline", "write_guideline"),
    "changed a guideline": ("change_guideline", "edit_guideline"),
    "merged guidelines": ("merge_guideline_page", "merge_guidelines"),
    "locked a case": ("lock_case",),
    "unlocked a case": ("unlock_case",),
    "made a judge": ("create_judge", "import_judge"),
    "changed the judge": ("edit_judge",),
    "deleted the judge": ("delete_judge",),
    "went back to an older version": ("rollback", "rollback_judge"),
    "let cases be judged": ("judge_many",),
    "looked at a prompt": ("explain_judgment",),
    "checked feedback": ("check_feedback",),
    "checked a receipt": ("verify_receipt",),
    "stopped a job": ("cancel_job",),
    "signed in": ("sign_in",),
    "failed to sign in": ("sign_in_failed",),
    "signed out": ("sign_out",),
    "took up an invitation": ("join",),
    "changed their password": ("change_password",),
    "made an API token": ("make_token", "make_token_page"),
    "revoked an API token": ("revoke_token", "revoke_token_page"),
    "made a team": ("make_team",),
    "invited somebody": ("invite_page", "invite_to_team"),
    "withdrew an invitation": ("withdraw_invitation", "withdraw_page"),
    "changed somebody's role": ("member_page", "set_member", "remove_member"),
}

WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "act": {name: words for words, names in _ACTS.items() for name in names},
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
    "role": {"viewer": "viewer", "reviewer": "reviewer", "owner": "owner"},
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
        "status_by": "who decided so",
        "pinned": "pinned",
        "supported_by": "feedback behind it",
        "exposed_to": "feedback that its writer saw",
        "checks": "its questions",
        "origin": "who wrote it",
        "superseded_by": "what replaced it",
        "overridden_by": "what counts instead",
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
