"""What people decide: whose label counts, which cases are locked, which guidelines are
in force; and reports of it."""

from __future__ import annotations

import dataclasses
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
from tests.cli.conftest import Run, jsonl, latest, missing
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
        "+ t-1@ben: true [disputed]",
    )
    assert memalign("show tone --json").json["authority"] == ["ana", "zoe"]
    back = memalign("edit tone --authority", "", "--json").json
    assert back["authority"] == []
    ana, ben = back["changes"]["feedback"]
    assert (ana["name"], ana["state_after"]["state"]) == ("t-1@ana", "disputed")
    assert (ben["name"], ben["state_after"]["state"]) == ("t-1@ben", "pending")


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
    way = "memalign edit tone --dismiss KEY KEY"
    assert not missing(memalign("show tone").out, "t-1@ana, t-2@ana", "warmth", way)
    memalign("edit tone --dismiss t-1 t-2", code=0)
    assert memalign("show tone --json").json["conflicts"] == []


def test_the_ledger_says_what_became_of_every_piece(
    memalign: Run, disputed: str
) -> None:
    memalign("show tone --ledger", code=0, says="1 disputed")

    def states(command: str) -> dict[str, str]:
        entries = memalign(command).json["ledger"]["entries"]
        return {entry["key"]: entry["state"] for entry in entries}

    now = states("show tone --ledger --json")
    assert (now["t-1@ana"], now["t-1@ben"]) == ("disputed", "learned")
    assert states("show tone --ledger --version 2 --json")["t-1@ana"] == "learned"
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
    other = Guideline(id="G9", text="Be brief.")
    assert status_text(guideline, Memory(guidelines=(guideline, other))) == words


def test_a_person_edits_guidelines_under_their_name(
    memalign: Run, aligned: str
) -> None:
    add = "guideline tone --add 'Name the day of a refund.' --by cleo --json"
    (written,) = memalign(add).json["guidelines"]
    assert written["origin"] == "cleo"
    (pinned,) = memalign("guideline tone G1 --pin --json").json["guidelines"]
    assert pinned["pinned"] is True
    retired = memalign("guideline tone G2 --retire --by cleo")
    assert not missing(retired.out, "[retired, from t-2@ana]", "tone is now version 5")
    idle = "1 more guideline not in force; to see why: memalign guideline tone"
    memalign("show tone", says=idle)
    memalign("guideline tone", says="retired by cleo")
    memalign("guideline tone G2 --restore", says="[active, from t-2@ana]")
    edit = "guideline tone G1 --text 'Be kind first.' --by cleo"
    memalign(edit, says="Be kind first.")
    assert not missing(memalign("guideline tone G1").out, "cleo", "t-1@ana")
    listed = memalign("guideline tone --json").json["guidelines"]
    assert [row["id"] for row in listed] == ["G1", "G2", "G3"]


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
    impact = Impact(checked=24, changes=changes)
    assert not missing(
        told(capsys, impact=impact, notes=("2 cases wait",)),
        "judged 24 taught cases again, each hidden from the judge: ",
        ": 1 fixed, 1 broken, 2 verdicts changed",
        "fixed: t-1, true before, false now (experts: false; G4)",
        "note: 2 cases wait",
    )
    locks = (
        BrokenLock(id="t-1", label=False, value=True, guideline_ids=("G7",)),
        BrokenLock(id="t-3", label=True, reason="could not be judged: down"),
    )
    assert not missing(
        told(capsys, broken=locks),
        "locked case t-1: judged true, experts say false (G7)",
        "locked case t-3 could not be judged: down",
    )
    labels: dict[FeedbackKey, Value | None] = {
        FeedbackKey("t-1", "ana"): True,
        FeedbackKey("t-1", "ben"): False,
    }
    conflict = Conflict(ids=("t-1",), annotations=labels, label=True)
    said = told(capsys, conflicts=(conflict,))
    assert "conflict on t-1: t-1@ana: true, t-1@ben: false; true counts" in said


def test_taught_cases_are_judged_again_where_it_is_asked_for(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    memalign(
        "align tone feedback.jsonl --impact 2",
        says="judged 2 taught cases again, each hidden from the judge",
    )
    # The distillation, and each before and after.
    assert len(endpoint.requests) == 1 + 2 * 2


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
    first, second = preview["changes"]["guidelines"]
    assert (first["name"], second["name"]) == ("G1", "G2")
    assert latest() == 3


@pytest.mark.parametrize(
    ("narrowed", "removed"),
    [("", ["t-1@ana"]), ("t-1", ["t-1@ana"]), ("t-2", []), ("--source ben", [])],
)
def test_feedback_that_holds_a_text_is_withdrawn(
    memalign: Run, aligned: str, narrowed: str, removed: list[str]
) -> None:
    command = f"unalign tone {narrowed} --matching 'ORDER  is\tLate'"
    memalign(command, code=2)  # it asks first
    done = memalign(command, "--yes", "--json", code=0 if removed else 2)
    assert done.json.get("removed", []) == removed
    assert "order is late" not in (done.out + done.err).lower()


def test_what_matches_a_text_is_shown_and_kept_until_asked(
    memalign: Run, aligned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "erase tone --matching 'ORDER  is\tLate'"
    with monkeypatch.context() as person:
        # Who says no.
        asked = "memalign.cli.forgetting.confirmed"
        person.setattr(asked, lambda question, *, yes: yes)
        assert memalign(command, "--json", code=0).json == {"done": False}
    refused = memalign(command, code=2)
    assert not missing(refused.err, "comments: t-1@ana", "--yes")
    preview = memalign(command, "--dry-run", "--json", code=0)
    assert preview.json["keys"] == ["t-1@ana"]
    narrowed = "erase tone t-3 --matching order --dry-run"
    memalign(narrowed, code=2, says="holds 't-3' with this text")
    assert latest() == 2
    done = memalign(command, "--yes", "--json", code=0)
    assert done.json["keys"] == ["t-1@ana"]
    assert "order is late" not in done.out.lower()
    absent = "erase tone --matching 'Secret Name' --yes"
    nothing = memalign(absent, code=2, says="this text")
    assert "Secret" not in nothing.err


def test_a_rule_that_code_decides_is_said_switched_off_and_confirmed(
    memalign: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for n in range(12):
        row = {
            "id": f"t-{n}",
            "outputs": f"{'Unfortunately' if n % 2 else 'Today'} {n} waits.",
            "value": n % 2 == 0,
            "rationale": "Never write unfortunately.",
        }
        rows.append(row)
    weak = ScriptedChatModel([], limits=Limits(writes=False), name="openai:test")
    judge = Judge(
        name="house",
        instructions="Good? {{ outputs }}",
        feedback_value_type=bool,
        model=weak,
    )
    registry = Registry(f"sqlite:///{tmp_path / 'memalign.db'}")
    registry.create(judge.align(rows).judge)
    broken = {"id": "i-1", "outputs": "Unfortunately it broke."}
    jsonl(tmp_path / "items.jsonl", [broken])
    monkeypatch.setenv("OPENAI_API_KEY", "k")  # which nothing is sent with
    memalign("judge house items.jsonl -o out.jsonl", code=0)
    decides = (
        'Code decides: where the reply has the word "unfortunately", '
        "the verdict is false"
    )
    for command, said in (
        ("show house", decides),
        ("show house --ledger", decides),
        ("guideline house G1", decides),
        (
            "explain house out.jsonl i-1 --examples items.jsonl",
            "a rule of the experts, by code; no model was called",
        ),
        (
            "guideline house G1 --no-rule --by dora",
            "Code does not decide: dora switched it off.",
        ),
        ("guideline house G1 --rule --by dora", decides),
    ):
        assert said in " ".join(memalign(command, code=0).out.split())
