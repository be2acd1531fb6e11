"""What people decide: whose label counts, which cases are locked, which guidelines are in force; and reports of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memalign import Registry
from memalign.align import AlignResult, Conflict, Impact, LockCheck, VerdictChange
from memalign.cli.align import report
from memalign.cli.guidelines import precedence_words
from memalign.memory import FeedbackConflict, Memory
from memalign.types import FeedbackKey, Guideline
from tests.cli.conftest import Run, jsonl, session
from tests.support.endpoint import Endpoint
from tests.support.registry import case, judge, memory_of

replace = msgspec.structs.replace

BEN = {"id": "t-1", "value": True, "source": "ben", "created_at": "2026-03-01"}


@pytest.fixture
def disputed(memalign: Run, aligned: str, tmp_path: Path) -> str:
    """The judge after ben contradicted ana on t-1, later: ben's label counts."""
    assert memalign("align", aligned, jsonl(tmp_path / "ben.jsonl", [BEN])).code == 0
    return aligned


# -- locks -----------------------------------------------------------------------------------------------------------


def test_cases_are_locked_listed_and_unlocked(memalign: Run, aligned: str) -> None:
    assert "no case is locked; to lock one: memalign lock tone ID" in memalign("lock", aligned).out
    locked = memalign("lock", aligned, "t-1", "t-3")
    assert locked.code == 0
    assert "t-1           false" in locked.out
    assert "tone is now version 3" in locked.out
    assert "nothing changed; tone is still version" in memalign("lock", aligned, "t-1").out
    assert memalign("lock", aligned, "--json").json["locks"] == [
        {"id": "t-1", "label": False},
        {"id": "t-3", "label": True},
    ]
    assert "t-1, t-3" in memalign("show", aligned).out
    assert memalign("lock", aligned, "t-1", "--unlock", "--json").json["locks"] == [{"id": "t-3", "label": True}]
    assert memalign("show", aligned, "--json").json["locks"] == ["t-3"]
    assert [each["action"] for each in memalign("history", aligned, "--json").json["versions"]][2:] == ["lock", "lock"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("lock", "tone", "t-9"), "no case 't-9' in memory"),
        (("lock", "tone", "t-1@ana"), "as ID@SOURCE"),
        (("lock", "tone", "--unlock"), "name the cases"),
        (("lock", "tone", "t-1", "--unlock"), "is not locked"),
        (("lock", "nobody"), "no judge 'nobody'"),
        (("lock", "tone", "--pin"), "--pin"),
        (("edit", "tone"), "--authority"),
    ],
)
def test_an_impossible_decision_is_told_without_change(
    memalign: Run, aligned: str, arguments: tuple[str, ...], named: str
) -> None:
    wrong = memalign(*arguments)
    assert wrong.code == 2
    assert named in wrong.err
    assert memalign("show", aligned, "--json").json["version"] == 2


# -- whose label counts ----------------------------------------------------------------------------------------------


def test_a_new_authority_tells_what_it_moved(memalign: Run, disputed: str) -> None:
    edited = memalign("edit", disputed, "--authority", "ana, zoe")
    assert edited.code == 0
    assert "authority (ana, then zoe), then majority, then recency" in edited.out
    assert "zoe gave no feedback so far; the sources are ana, ben" in edited.out
    assert "t-1@ana: disputed -> pending" in edited.out
    assert "t-1@ben: learned -> disputed" in edited.out
    assert "memalign align tone" in edited.out
    assert "stale" not in edited.out  # what the judge said before it learned does not hang on whose label counts
    shown = memalign("show", disputed, "--json").json
    assert shown["authority"] == ["ana", "zoe"]
    back = memalign("edit", disputed, "--authority", "", "--json").json
    assert back["authority"] == []
    moved = {each["key"]: each["after"] for each in back["consequences"]["feedback"]}
    assert (moved["t-1@ana"], moved["t-1@ben"]) == ("disputed", "pending")


# -- status of guidelines ---------------------------------------------------------------------------------------------


def rule(number: int = 1, **fields: Any) -> Guideline:
    return Guideline(id=f"G{number}", text=f"rule number {number}", **fields)


@pytest.mark.parametrize(
    ("guideline", "words"),
    [
        (rule(), ""),
        (rule(pinned_by="ana"), "pinned by ana"),
        (rule(retired_by="ana"), "retired by ana"),
        (rule(barred_for="t-3"), "left out: it broke locked case t-3"),
        (rule(retired_by="ana", pinned_by="ben"), "retired by ana, pinned by ben"),
    ],
)
def test_every_precedence_has_its_words(guideline: Guideline, words: str) -> None:
    assert precedence_words(guideline) == words
    assert precedence_words(guideline, Memory(guidelines=(guideline,))) == words


def test_a_revision_is_told_from_the_same_words() -> None:
    old = rule(1, replaced_by="G2")
    assert precedence_words(old, Memory(guidelines=(old, rule(2)))) == "superseded: G2 revises it"
    assert precedence_words(old, Memory(guidelines=(old, rule(2, origin="ana")))) == "superseded: G2 took its place"
    same, pinned = rule(1), replace(rule(2, pinned_by="ana"), text=rule(1).text)
    assert precedence_words(same, Memory(guidelines=(same, pinned))) == "superseded: G2 says the same"


def test_guidelines_are_listed_with_status_and_remedy(memalign: Run, aligned: str) -> None:
    def with_statuses(latest: Any) -> Any:
        one, two = latest.memory.guidelines
        made = (
            one,
            replace(two, barred_for="t-1"),
            replace(rule(3), text=one.text),
        )
        return latest.replace(memory=replace(latest.memory, guidelines=made, next_guideline=4))

    Registry().update(aligned, with_statuses)
    listed = memalign("guideline", aligned).out
    assert "left out: it broke locked case t-1" in listed
    assert "memalign guideline tone G2 --restore" in listed
    assert "a superseded guideline comes back when" in listed
    assert "2 more guidelines not in force; to see why: memalign guideline tone" in memalign("show", aligned).out
    card = memalign("guideline", aligned, "G2").out
    assert "left out: it broke locked case t-1" in card
    back = memalign("guideline", aligned, "G2", "--restore", "--by", "cleo")
    assert "in force" in back.out


# -- reports ---------------------------------------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], result: AlignResult) -> tuple[int, str]:
    code = report(session(), dataclasses.replace(result, version=3, parent=2))
    return code, " ".join(capsys.readouterr().out.split())


MEMORY = memory_of(case("t-1", "ana"), case("t-2", "ben"), case("t-3", "ben"), size=1)


def test_a_report_names_changed_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    changes = (
        VerdictChange(id="t-1", label=False, before=True, after=False, effect="fixed", guideline_ids=("G4",)),
        VerdictChange(id="t-2", label=True, before=True, after=False, effect="broken"),
    )
    impact = Impact(checked=24, changes=changes)
    code, said = told(capsys, AlignResult(judge=judge(MEMORY), impact=impact, notes=("2 cases wait",)))
    assert code == 0
    assert "judged 24 taught cases again, each hidden from the judge: 1 fixed, 1 broken" in said
    assert "t-1 false true false fixed G4" in said
    assert "t-2 true true false broken" in said
    assert "note: 2 cases wait" in said
    _, quiet = told(capsys, AlignResult(judge=judge(MEMORY), impact=Impact(checked=3)))
    assert "judged 3 taught cases again, each hidden from the judge: no verdict changed" in quiet


def test_taught_cases_are_judged_again_where_it_is_asked_for(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    quiet = memalign("align", tone, feedback)
    assert "judged again" not in quiet.out
    assert len(endpoint.requests) == 1, "the distillation"
    assert memalign("rollback", tone, "1").code == 0
    told = memalign("align", tone, feedback, "--impact", "2")
    assert "judged 2 taught cases again, each hidden from the judge: no verdict changed" in told.out
    assert len(endpoint.requests) == 2 + 2 * 2, "each before and after"
    assert memalign("align", tone, feedback, "--impact", "0").code == 2


def test_a_report_tells_what_each_lock_became(capsys: pytest.CaptureFixture[str]) -> None:
    locks = (
        LockCheck(id="t-1", holds=True),
        LockCheck(id="t-2", holds=True, guideline_ids=("G7",), reason="G7 broke it"),
        LockCheck(
            id="t-3",
            holds=True,
            answered=False,
            reason="the locked case t-3 could not be checked: down",
        ),
    )
    code, said = told(capsys, AlignResult(judge=judge(MEMORY), locks=locks))
    assert code == 0
    assert "locked cases judged correctly: t-1" in said
    assert (
        "locked case t-2 holds because G7, which broke it, was left out. To use it anyway: memalign lock helpfulness t-2 --unlock"
        in said
    )
    assert "new guidelines are not in force yet: " in said
    broken = LockCheck(id="t-1", holds=False, reason="judged other than False")
    code, said = told(capsys, AlignResult(judge=judge(MEMORY), locks=(broken,)))
    assert code == 1
    assert "the judge is wrong on locked case t-1: judged other than False" in said


def test_a_report_shows_both_sides_of_a_conflict(capsys: pytest.CaptureFixture[str]) -> None:
    annotations = Conflict(
        ids=("t-1",), annotations={FeedbackKey("t-1", "ana"): True, FeedbackKey("t-1", "ben"): False}, label=True
    )
    _, said = told(capsys, AlignResult(judge=judge(MEMORY), conflicts=(annotations,)))
    assert "conflict on t-1: t-1@ana: true, t-1@ben: false; true counts" in said


def test_comments_that_contradict_each_other_are_shown_until_they_are_settled(memalign: Run, aligned: str) -> None:
    conflict = FeedbackConflict(feedback=(FeedbackKey("t-1", "ana"), FeedbackKey("t-2", "ana")), about="warmth")
    Registry().update(aligned, lambda one: one.replace(memory=replace(one.memory, conflicts=(conflict,))))
    shown = memalign("show", aligned).out
    assert "t-1@ana, t-2@ana" in shown
    assert "warmth" in shown
    assert f"memalign edit {aligned} --dismiss KEY KEY" in shown
    assert "no conflict between these" in memalign("edit", aligned, "--dismiss", "t-1", "t-3").err
    assert memalign("edit", aligned, "--dismiss", "t-1", "t-2").code == 0
    assert memalign("show", aligned, "--json").json["conflicts"] == []


def test_a_setting_lost_with_its_guideline_is_flagged(memalign: Run, aligned: str) -> None:
    memalign("guideline", aligned, "G1", "--pin", "--by", "cleo")
    assert "note: G1 stay: people wrote or confirmed them" in memalign("unalign", aligned, "t-1@ana").out
    memalign("rollback", aligned, "3")
    gone = memalign("unalign", aligned, "t-1@ana", "--people-agree")
    assert "G1 (pinned by cleo) was forgotten with its feedback" in gone.out
    memalign("rollback", aligned, "3")
    again = memalign("unalign", aligned, "t-1@ana", "--people-agree", "--json").json
    assert again["settings_lost"] == [{"id": "G1", "settings": "pinned by cleo"}]


# -- what did it learn from me ---------------------------------------------------------------------------------------


def test_the_ledger_says_what_became_of_every_piece(memalign: Run, disputed: str) -> None:
    shown = memalign("show", disputed, "--ledger")
    assert shown.code == 0
    assert "1 disputed" in shown.out
    entries = {
        entry["key"]: entry for entry in memalign("show", disputed, "--ledger", "--json").json["ledger"]["entries"]
    }
    assert (entries["t-1@ana"]["state"], entries["t-1@ben"]["state"]) == ("disputed", "learned")
    before = memalign("show", disputed, "--ledger", "--version", "2", "--json").json["ledger"]["entries"]
    assert {entry["state"] for entry in before if entry["key"] == "t-1@ana"} == {"learned"}
    memalign("erase", disputed, "t-2")
    assert "erased on" in memalign("show", disputed, "--ledger").out


# -- forgetting by what was said -------------------------------------------------------------------------------------


def test_an_unalign_dry_run_only_tells_what_goes(memalign: Run, aligned: str) -> None:
    memalign("lock", aligned, "t-1")
    dry = memalign("unalign", aligned, "t-1", "--dry-run")
    assert dry.code == 0
    assert "to forget: t-1@ana" in dry.out
    assert "forgotten with it: G1" in dry.out
    assert "to be learned again without this feedback: t-2@ana" in dry.out
    assert "no longer locked: t-1" in dry.out
    told = memalign("unalign", aligned, "--source", "ana", "--dry-run", "--json").json
    assert told["keys"] == ["t-1@ana", "t-2@ana"]
    assert [each["id"] for each in told["guidelines"]] == ["G1", "G2"]
    assert memalign("show", aligned, "--json").json["version"] == 3
    assert memalign("unalign", aligned, "t-9", "--dry-run").code == 2


@pytest.mark.parametrize("command", ["unalign", "erase"])
def test_matching_feedback_is_shown_and_kept_until_asked(memalign: Run, aligned: str, command: str) -> None:
    refused = memalign(command, aligned, "--matching", "ORDER  is\tLate")
    assert refused.code == 2
    assert "to forget: t-1@ana  (in inputs)" in refused.err
    assert "--yes" in refused.err
    dry = memalign(command, aligned, "--matching", "order is late", "--dry-run", "--json")
    assert dry.code == 0
    assert dry.json["keys"] == ["t-1@ana"]
    assert dry.json["places"] == {"t-1@ana": ["inputs"]}
    assert "order is late" not in dry.out + dry.err
    assert memalign("show", aligned, "--json").json["version"] == 2
    done = memalign(command, aligned, "--matching", "order is late", "--yes", "--json")
    assert done.code == 0
    assert done.json["removed" if command == "unalign" else "keys"] == ["t-1@ana"]
    assert "order is late" not in done.out.lower()
    nothing = memalign(command, aligned, "--matching", "Secret Name", "--yes")
    assert nothing.code == 2
    assert "holds this text" in nothing.err or "holds feedback with this text" in nothing.err
    assert "Secret" not in nothing.err


def test_a_person_is_asked_and_may_say_no(memalign: Run, aligned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memalign.cli.forgetting.confirmed", lambda question, *, yes: yes or "2 pieces" not in question)
    kept = memalign("unalign", aligned, "--matching", "a", "--source", "ana", "--json")
    assert kept.code == 0
    assert kept.json == {"done": False}
    assert memalign("show", aligned, "--json").json["version"] == 2


def test_text_source_and_keys_narrow_each_other(memalign: Run, aligned: str) -> None:
    both = memalign("unalign", aligned, "--matching", "the", "--source", "ben", "--dry-run", "--json")
    assert both.json["keys"] == ["t-3@ben"]
    none = memalign("unalign", aligned, "--matching", "order", "--source", "ben", "--dry-run")
    assert none.code == 2
    assert "of source 'ben' holds this text" in none.err
    wrong = memalign("erase", aligned, "t-3", "--matching", "order", "--dry-run")
    assert wrong.code == 2
    assert "holds 't-3' with this text" in wrong.err
    assert memalign("erase", aligned, "--matching", " ", "--yes").code == 2


def test_a_persons_rule_with_the_text_goes_and_instructions_are_named(memalign: Run, aligned: str) -> None:
    memalign("guideline", aligned, "--add", "When an order is late, say when it comes.", "--by", "cleo")
    shown = memalign("erase", aligned, "--matching", "order", "--dry-run").out
    assert "guidelines: G1, G2, G3" in shown
    memalign("edit", aligned, "--instructions", "Is the order met? {{ inputs }} {{ outputs }}")
    named = memalign("erase", aligned, "--matching", "order", "--dry-run").out
    assert "instructions contain the text too and stay as they are" in named
