"""Judges and their versions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from memalign import Judge
from memalign.align import set_policy
from memalign.cli.judges import described
from memalign.errors import JudgeExists, JudgeNotFound
from memalign.models import resolve, resolve_embedding
from memalign.registry import load_bundle
from memalign.types import as_json
from memalign_server.api import shapes
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.people.identity import team_of
from memalign_server.people.judge_teams import check_addresses, keep_team, team_for
from memalign_server.review.blind import open_diff
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Blind, Here, Owning, Server

__all__ = ["JudgeName", "Version", "latest", "loaded", "router"]

router = guarded_router(prefix="/judges", tags=["judges"])

JudgeName = Annotated[str, Path(max_length=100, description="The judge's name.")]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The default is the latest.")]


def latest(server: Server, judge: str) -> int:
    """The number of a judge's latest version. Raises JudgeNotFound."""
    return server.registry.history(judge)[-1].number


def loaded(server: Server, judge: str, version: int | None) -> tuple[Judge, int]:
    """A version, or the latest, and its number; the latest is read from the registry once, not once a request."""
    if version is not None:
        return server.registry.load(judge, version), version
    found = server.judges.latest(judge)
    return found.judge, found.version


def _shown(judge: Judge, version: int) -> shapes.JudgeShown:
    found = described(judge, version=version)
    pending = [{"key": str(each["key"]), "reason": each["reason"]} for each in found["pending"]]
    return shapes.JudgeShown(**{**found, "pending": pending, "parameters": as_json(found["parameters"])})


@router.get("")
def list_judges(server: Here, person: Asking, limit: Limit = 50, cursor: Cursor = None) -> Page[shapes.JudgeSummary]:
    """The judges of your teams, by name."""
    start = after(cursor) or ""
    with server.store.read() as connection:
        found = [(each, team_of(connection, each.name)) for each in server.registry.list() if each.name > start]
    mine = [shapes.JudgeSummary(**each.to_dict(), team=team) for each, team in found if team in person.roles]
    return cut(mine, limit, lambda each: each.name)


@router.post("", status_code=201)
def create_judge_by_api(given: shapes.JudgeGiven, server: Here, person: Asking) -> shapes.JudgeShown:
    """Define a judge and keep it as version 1. No model is called."""
    team = team_for(person, given.team)
    made = Judge(
        name=given.name,
        instructions=given.instructions,
        feedback_value_type=given.value_type,
        model=resolve(given.model).name,
        embedding_model=None if given.embedding_model is None else resolve_embedding(given.embedding_model).name,
        retrieval_k=given.retrieval_k,
        parameters=given.parameters,
        columns=given.columns,
    )
    check_addresses(server.settings, made)
    server.registry.create(made)
    keep_team(server.store, given.name, team)
    return _shown(made, 1)


@router.get("/{judge}")
def show_judge(judge: JudgeName, server: Here, version: Version = None) -> shapes.JudgeShown:
    """A judge's settings, its guidelines with their sources, and what is pending."""
    return _shown(*loaded(server, judge, version))


@router.patch("/{judge}")
def edit_judge(judge: JudgeName, given: shapes.JudgeChanged, server: Here) -> shapes.JudgeShown:
    """Change settings: a new version with the same memory."""
    changes = {name: getattr(given, name) for name in ("instructions", "retrieval_k", "columns")}
    if given.model is not None:
        changes["model"] = resolve(given.model).name
    if given.embedding_model is not None:
        changes["embedding_model"] = resolve_embedding(given.embedding_model).name
    wanted = {name: value for name, value in changes.items() if value is not None}

    def changed(old: Judge) -> Judge:
        edited = old.replace(**wanted, parameters={**old.parameters, **(given.parameters or {})})
        check_addresses(server.settings, edited)
        if given.authority is None and given.policy is None:
            return edited
        return set_policy(edited, authority=given.authority, policy=given.policy)

    saved = server.registry.update(judge, changed, "edit")
    return _shown(saved.judge, saved.version)


@router.delete("/{judge}")
def delete_judge(judge: JudgeName, server: Here) -> shapes.JudgeSummary:
    """Delete a judge with all its versions, cases, answers and jobs, for good; what went."""
    with server.store.read() as connection:
        team = team_of(connection, judge)
    gone = server.registry.delete(judge)
    return shapes.JudgeSummary(**gone.to_dict(), team=team or "")


@router.get("/{judge}/versions")
def list_versions(
    judge: JudgeName, server: Here, limit: Limit = 50, cursor: Cursor = None
) -> Page[shapes.VersionShown]:
    """Every version, the newest first."""
    start = after(cursor)
    found = reversed(server.registry.history(judge))
    shown = [shapes.VersionShown(**each.to_dict()) for each in found if start is None or each.number < _number(start)]
    return cut(shown, limit, lambda each: str(each.number))


def _number(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else 0


_One = Annotated[int, Query(ge=1, le=2**31 - 1)]


@router.get("/{judge}/diff")
def diff_versions(
    judge: JudgeName, server: Here, blind: Blind, owner: Owning, one: _One, other: _One
) -> dict[str, Any]:
    """What changed from version `one` to version `other`: settings, guidelines, feedback."""
    diff = server.registry.diff(judge, one, other)
    with server.store.read() as connection:
        return open_diff(connection, diff, None if owner else blind).to_dict()


@router.post("/{judge}/rollback")
def rollback_judge(judge: JudgeName, to: _One, server: Here) -> shapes.Saved:
    """Make the content of version `to` the next version; never brings back what was erased."""
    saved = server.registry.rollback(judge, to)
    return shapes.Saved(judge=judge, version=saved.version, parent=saved.parent)


@router.get("/{judge}/bundle")
def export_judge(judge: JudgeName, server: Here, version: Version = None) -> dict[str, Any]:
    """A version as one frozen JSON document. It holds the cases and what everybody said, and so is for owners."""
    return server.registry.export(judge, version=version)


@router.post("/import", status_code=201)
def import_judge(given: shapes.BundleGiven, server: Here, person: Asking) -> shapes.Saved:
    """Keep an exported judge as version 1. A name that is there is a conflict; give another `name`."""
    team = team_for(person, given.team)
    judge = load_bundle(given.bundle)
    name = given.name or judge.name
    check_addresses(server.settings, judge)
    try:
        latest(server, name)
    except JudgeNotFound:
        number = server.registry.import_bundle(given.bundle, name, allow_erased=given.allow_erased)
        keep_team(server.store, name, team)
        return shapes.Saved(judge=name, version=number, parent=number)
    raise JudgeExists(f"a judge {name!r} is in the registry already; give another `name`")
