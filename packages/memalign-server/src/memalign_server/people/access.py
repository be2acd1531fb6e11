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
}

_API: Final[dict[str, Public | Role]] = {
    "describe_api": Public.SIGNED_IN,
    "list_judges": Public.SIGNED_IN,
    "show_judge": _VIEWER,
    "list_jobs": _VIEWER,
    "show_job": _VIEWER,
    "watch_job": _VIEWER,
    "cancel_job": _REVIEWER,
}

_PAGES: Final[dict[str, Public | Role]] = {
    "home_page": Public.SIGNED_IN,
    "create_judge": _OWNER,
    "choose_language": Public.ANYONE,
    "review_page": _REVIEWER,
    "next_case": _REVIEWER,
    "save_answer": _REVIEWER,
    "undo_answer": _REVIEWER,
    "similar_guidelines": _REVIEWER,
    "settle_page": _REVIEWER,
    "teach_judge": _REVIEWER,
    "changed_page": _VIEWER,
    "decide_turn": _REVIEWER,
    "data_page": _VIEWER,
    "upload": _REVIEWER,
    "download": _VIEWER,
}
"""The experts' pages; one line a route, by the name of its function."""

ACCESS: Final[dict[str, Public | Role]] = {**_PEOPLE, **_API, **_PAGES}
