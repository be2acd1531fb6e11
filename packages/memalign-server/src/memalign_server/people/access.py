"""Who may use which route: the one table. A route that is not in it stops the server from starting.

`ANYONE` needs no account, `SIGNED_IN` any account; a role is needed in the team of the judge that the path names, and
in any team where it names none.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from memalign_server.people.roles import Role

__all__ = ["ACCESS", "Public"]


class Public(Enum):
    """What needs less than a role."""

    ANYONE = "anyone"
    SIGNED_IN = "signed in"


_VIEWER, _REVIEWER, _OWNER = Role.VIEWER, Role.REVIEWER, Role.OWNER

_PEOPLE: Final[dict[str, Public | Role]] = {
    "health": Public.ANYONE,
    "sign_in_page": Public.ANYONE,
    "sign_in": Public.ANYONE,
    "sign_out": Public.ANYONE,
    "join_page": Public.ANYONE,
    "join": Public.ANYONE,
    "openid_start": Public.ANYONE,
    "openid_callback": Public.ANYONE,
    "account_page": Public.SIGNED_IN,
    "change_password": Public.SIGNED_IN,
    "make_token_page": Public.SIGNED_IN,
    "revoke_token_page": Public.SIGNED_IN,
    "team_page": _OWNER,
    "invite_page": _OWNER,
    "withdraw_page": _OWNER,
    "member_page": _OWNER,
}

_API: Final[dict[str, Public | Role]] = {
    "describe_api": Public.SIGNED_IN,
    "list_judges": Public.SIGNED_IN,
    "judge_one": _REVIEWER,
    "thumb_case": _REVIEWER,
    "put_cases": _REVIEWER,
    "list_review_cases": _REVIEWER,
    "answer_case": _REVIEWER,
    "teach_answers": _REVIEWER,
    "align_judge": _REVIEWER,
    "unalign_judge": _REVIEWER,
    "erase": _OWNER,
    "show_job": _VIEWER,
    "show_me": Public.SIGNED_IN,
}

_PAGES: Final[dict[str, Public | Role]] = {
    "home_page": Public.SIGNED_IN,
    "create_judge": _OWNER,
    "choose_language": Public.ANYONE,
    "review_page": _REVIEWER,
    "next_case": _REVIEWER,
    "save_answer": _REVIEWER,
    "undo_answer": _REVIEWER,
    "save_words": _REVIEWER,
    "similar_guidelines": _REVIEWER,
    "settle_page": _REVIEWER,
    "teach_judge": _REVIEWER,
    "changed_page": _VIEWER,
    "job_progress": _VIEWER,
    "decide_turn": _REVIEWER,
    "data_page": _VIEWER,
    "upload": _REVIEWER,
    "pull_cases": _OWNER,
    "download": _VIEWER,
    "memory_page": _VIEWER,
    "change_guideline": _REVIEWER,
    "write_guideline": _REVIEWER,
    "withdraw": _REVIEWER,
    "erase_page": _OWNER,
    "erase_feedback": _OWNER,
    "receipt": _OWNER,
    "delete_judge_page": _OWNER,
    "trust_page": _VIEWER,
    "cases_page": _VIEWER,
    "history_page": _VIEWER,
    "rollback": _OWNER,
}
"""The experts' pages; one line a route, by the name of its function."""

ACCESS: Final[dict[str, Public | Role]] = {**_PEOPLE, **_API, **_PAGES}
