"""What people decide: whose label counts, which cases are locked, which guidelines are
in force; and reports of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Judge, Registry
from memalign.align import AlignResult, BrokenLock, Conflict, Impact, VerdictChange
from memalign.cli.align import report_parts
from memalign.cli.guidelines import status_text
from memalign.cli.output import show
from memalign.memory import FeedbackConflict, Memory
from memalign.models.base import Limits
from memalign.testing import ScriptedChatModel
from memalign.types import FeedbackKey, Guideline
from memalign.values import Value
from tests.cli.conftest import Run, jsonl, missing
from tests.support.endpoint import Endpoint
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace

BEN = {"id": "t-1", "value": True, "source": "ben", "created_at": "2026-03-01"}


@pytest.fixture
def disputed(memalign: Run, aligned: str, tmp_path: Path) -> str:
    """The judge after ben contradicted ana on t-1, later: ben's label counts."""
    memalign("align tone", jsonl(tmp_path / "ben.jsonl", [BEN]), code=0)
    return aligned


def test_cases_are_locked_and_unlocked(memalign: Run, aligned: str) -> None:
    locked = memalign("lock tone t-1 t-3", code=0)
    assert not missing(locked.out, "+ locks: t-1, t-3", "tone is now version 3")
    memalign("lock tone t-1", says="nothing changed; tone is still version")
    memalign("show tone", says="t-1, t-3")
    assert memalign("lock tone t-1 --unlock --json").json["locks"] == ["t-3"]
    assert memalign("show tone --json").json["locks"] == ["t-3"]


def test_a_new_authority_tells_what_it_moved(memalign: Run, disputed: str) -> None:
    edited = memalign("edit tone --authority", "ana, zoe", code=0)
    assert not missing(
        edited.out,
        "+ authority: ana, zoe",
        "+ t-1@ana: false · Correct but cold. [pending]",
    )
    assert "+ t-1@ben: true [disputed]" in edited.out
    shown = memalign("show tone --json").json
    assert shown["authority"] == ["ana", "zoe"]
    back = memalign("edit tone --authority", "", "--json").json
    assert back["authority"] == []
    states = {
        change["name"]: change["state_after"]["state"]
        for change in back["changes"]["feedback"]
    }
    assert (states["t-1@ana"], states["t-1@ben"]) == ("disputed", "pending")


def test_comments_that_contradict_each_other_wait_for_a_person(
    memalign: Run, aligned: str
) -> None:
    conflict = FeedbackConflict(
        feedback=(FeedbackKey("t-1", "ana"), FeedbackKey("t-2", "ana")), about="warmth"
    )
    Registry().update(
        aligned,
        lambda one: one.replace(memory=replace(one.memory, conflicts=(conflict,))),
    )
    shown = memalign("show tone").out
    assert not missing(
        shown,
        "t-1@ana, t-2@ana",
        "warmth",
        f"memalign edit {aligned} --dismiss KEY KEY",
    )
    memalign("edit tone --dismiss t-1 t-2", code=0)
    assert memalign("show tone --json").json["conflicts"] == []


def test_the_ledger_says_what_became_of_every_piece(
    memalign: Run, disputed: str
) -> None:
    memalign("show tone --ledger", code=0, says="1 disputed")
    entries = memalign("show tone --ledger --json").json["ledger"]["entries"]
    states = {entry["key"]: entry["state"] for entry in entries}
    assert (states["t-1@ana"], states["t-1@ben"]) == ("disputed", "learned")
    before = memalign("show tone --ledger --version 2 --json").json["ledger"]["entries"]
    assert {entry["state"] for entry in before if entry["key"] == "t-1@ana"} == {
        "learned"
    }
    memalign("erase tone t-2 -y")
    memalign("show tone --ledger", says="erased on")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "active"),
        ({"pinned_by": "ana"}, "active, pinned by ana"),
        ({"retired_by": "ana", "pinned_by": "ben"}, "retired by ana, pinned by ben"),
        ({"replaced_by": "G9"}, "superseded by G9"),
    ],
)
def test_every_status_says_by_whom(fields: dict[str, Any], words: str) -> None:
    guideline = Guideline(id="G1", text="Be kind.", **fields)
    assert (
        status_text(
            guideline,
            Memory(guidelines=(guideline, Guideline(id="G9", text="Be brief."))),
        )
        == words
    )


def test_a_person_edits_guidelines_under_their_name(
    memalign: Run, aligned: str
) -> None:
    written = memalign(
        "guideline tone --add",
        "Name the day of a refund.",
        "--by",
        "cleo",
        "--json",
    )
    assert written.json["guidelines"][0]["origin"] == "cleo"
    assert (
        memalign("guideline tone G1 --pin --json").json["guidelines"][0]["pinned"]
        is True
    )
    retired = memalign("guideline tone G2 --retire --by cleo")
    assert not missing(retired.out, "[retired, from t-2@ana]", "tone is now version 5")
    assert "2 more guidelines not in force" not in memalign("show tone").out
    memalign(
        "show tone",
        says="1 more guideline not in force; to see why: memalign guideline tone",
    )
    memalign("guideline tone", says="retired by cleo")
    memalign("guideline tone G2 --restore", says="[active, from t-2@ana]")
    memalign(
        "guideline tone G1 --text",
        "Be kind first.",
        "--by",
        "cleo",
        says="Be kind first.",
    )
    card = memalign("guideline tone G1").out
    assert not missing(card, "cleo", "t-1@ana")
    assert [
        row["id"] for row in memalign("guideline tone --json").json["guidelines"]
    ] == [
        "G1",
        "G2",
        "G3",
    ]


def test_a_persons_guideline_goes_only_when_they_agree(
    memalign: Run, aligned: str
) -> None:
    memalign("guideline tone G1 --pin --by cleo")
    memalign(
        "unalign tone t-1@ana",
        says="note: G1 stay: people wrote or confirmed them",
    )
    memalign("rollback tone 3")
    gone = memalign("unalign tone t-1@ana --people-agree")
    assert not missing(gone.out, "Forgotten guidelines", "pinned by cleo")


MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ben"), case("t-3", "ben"), size=1)


def told(capsys: pytest.CaptureFixture[str], **fields: Any) -> str:
    result = AlignResult(judge=judge(MEMORY), **fields)
    show(*report_parts(dataclasses.replace(result, version=3, parent=2)))
    return " ".join(capsys.readouterr().out.split())


def test_a_report_names_changed_verdicts_locks_and_conflicts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = (
        VerdictChange(
            id="t-1",
            label=False,
            before=True,
            after=False,
            effect="fixed",
            guideline_ids=("G4",),
        ),
        VerdictChange(id="t-2", label=True, before=True, after=False, effect="broken"),
    )
    said = told(
        capsys, impact=Impact(checked=24, changes=changes), notes=("2 cases wait",)
    )
    assert (
        "judged 24 taught cases again, each hidden from the judge: 1 fixed, 1 broken, 2 verdicts changed"
        in said
    )
    assert not missing(
        said,
        "fixed: t-1, true before, false now (experts: false; G4)",
        "note: 2 cases wait",
    )
    locks = (
        BrokenLock(id="t-1", label=False, value=True, guideline_ids=("G7",)),
        BrokenLock(id="t-3", label=True, reason="could not be judged: down"),
    )
    said = told(capsys, broken=locks)
    assert "locked case t-1: judged true, experts say false (G7)" in said
    assert "locked case t-3 could not be judged: down" in said
    labels: dict[FeedbackKey, Value | None] = {
        FeedbackKey("t-1", "ana"): True,
        FeedbackKey("t-1", "ben"): False,
    }
    said = told(
        capsys, conflicts=(Conflict(ids=("t-1",), annotations=labels, label=True),)
    )
    assert "conflict on t-1: t-1@ana: true, t-1@ben: false; true counts" in said


def test_taught_cases_are_judged_again_where_it_is_asked_for(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    memalign(
        "align tone feedback.jsonl --impact 2",
        says="judged 2 taught cases again, each hidden from the judge",
    )
    assert len(endpoint.requests) == 1 + 2 * 2, (
        "the distillation, and each before and after"
    )


def test_an_unalign_dry_run_only_tells_what_goes(memalign: Run, aligned: str) -> None:
    memalign("lock tone t-1")
    dry = memalign("unalign tone t-1 --dry-run", code=0)
    assert not missing(
        dry.out,
        "to forget: t-1@ana",
        "- G1 When a customer",
        "+ t-2@ana: true · Warm. [pending]",
        "+ locks: none",
    )
    preview = memalign("unalign tone --source ana --dry-run --json").json
    assert preview["keys"] == ["t-1@ana", "t-2@ana"]
    assert [change["name"] for change in preview["changes"]["guidelines"]] == [
        "G1",
        "G2",
    ]
    assert memalign("show tone --json").json["version"] == 3


@pytest.mark.parametrize(
    ("narrowed", "removed"),
    [
        ((), ["t-1@ana"]),
        (("t-1",), ["t-1@ana"]),
        (("t-2",), []),
        (("--source", "ben"), []),
    ],
)
def test_feedback_that_holds_a_text_is_withdrawn(
    memalign: Run, aligned: str, narrowed: tuple[str, ...], removed: list[str]
) -> None:
    matching = ("unalign", aligned, *narrowed, "--matching", "ORDER  is\tLate")
    memalign(*matching, code=2)  # it asks first
    done = memalign(*matching, "--yes", "--json", code=0 if removed else 2)
    assert done.json.get("removed", []) == removed
    assert "order is late" not in (done.out + done.err).lower()


def test_what_matches_a_text_is_shown_and_kept_until_asked(
    memalign: Run, aligned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matching = ("erase", aligned, "--matching", "ORDER  is\tLate")
    with monkeypatch.context() as person:
        person.setattr(
            "memalign.cli.forgetting.confirmed", lambda question, *, yes: yes
        )  # and says no
        assert memalign(*matching, "--json", code=0).json == {"done": False}
    refused = memalign(*matching, code=2)
    assert not missing(refused.err, "comments: t-1@ana", "--yes")
    assert memalign(*matching, "--dry-run", "--json", code=0).json["keys"] == [
        "t-1@ana"
    ]
    narrowed = ("erase", aligned, "t-3", "--matching", "order", "--dry-run")
    memalign(*narrowed, code=2, says="holds 't-3' with this text")
    assert memalign("show tone --json").json["version"] == 2
    done = memalign(*matching, "--yes", "--json", code=0)
    assert done.json["keys"] == ["t-1@ana"]
    assert "order is late" not in done.out.lower()
    nothing = memalign(
        "erase tone --matching", "Secret Name", "--yes", code=2, says="this text"
    )
    assert "Secret" not in nothing.err


def test_a_rule_that_code_decides_is_said_switched_off_and_confirmed(
    memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": f"t-{n}", "source": "ana", "outputs": f"{'Unfortunately' if n % 2 else 'Today'} {n} waits.",
         "value": n % 2 == 0, "rationale": "Never write unfortunately."}
        for n in range(12)
    ]  # fmt: skip
    weak = ScriptedChatModel([], limits=Limits(writes=False), name="openai:test")
    judge = Judge(
        name="house",
        instructions="Good? {{ outputs }}",
        feedback_value_type=bool,
        model=weak,
    )
    registry = Registry(f"sqlite:///{tmp_path / 'memalign.db'}")
    registry.create(judge.align(rows).judge)
    decides = 'Code decides: where the reply has the word "unfortunately", the verdict is false'
    for command in (
        ("show", "house"),
        ("show", "house", "--ledger"),
        ("guideline", "house", "G1"),
    ):
        assert decides in " ".join(memalign(*command, code=0).out.split())
    items = tmp_path / "items.jsonl"
    out = tmp_path / "out.jsonl"
    items.write_text(
        json.dumps({"id": "i-1", "outputs": "Unfortunately it broke."}) + "\n", "utf-8"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k")  # which nothing is sent with
    memalign("judge house", items, "-o", out, code=0)
    explained = memalign("explain house", out, "i-1", "--examples", items, code=0).out
    assert "a rule of the experts, by code; no model was called" in " ".join(
        explained.split()
    )
    off = memalign("guideline house G1 --no-rule --by dora", code=0).out
    assert "Code does not decide: dora switched it off." in " ".join(off.split())
    assert decides in " ".join(
        memalign("guideline house G1 --rule --by dora", code=0).out.split()
    )
