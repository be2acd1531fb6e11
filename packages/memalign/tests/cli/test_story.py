"""The whole life of a judge, as a person types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, jsonl, latest, missing
from tests.support.endpoint import Endpoint, bad_request, system_of, user_of


def test_a_judge_learns_and_its_author_sees_what(
    memalign: Run, tone: str, feedback: Path
) -> None:
    memalign("check feedback.jsonl tone", code=0, says="3 new, 0 changed, 0 unchanged")

    learned = memalign("align tone feedback.jsonl", code=0)
    assert not missing(
        learned.out, "New guidelines", "t-1@ana", "tone is now version 2"
    )
    assert learned.out.splitlines()[-1].startswith("3 learned, new G1-G2, ")
    assert "distil" in learned.err

    shown = memalign("show tone")
    assert not missing(
        shown.out, "Is the reply warm and helpful?", "Guidelines in force"
    )
    assert "must show sympathy before facts (F1)." in shown.out

    memalign("show tone --ledger", says="3 learned")
    assert "no feedback" not in memalign("guideline tone G1").out


def test_an_align_shows_what_the_judge_had_said(
    memalign: Run, tone: str, feedback: Path, endpoint: Endpoint
) -> None:
    memalign("judge tone feedback.jsonl -o judged.jsonl", code=0)
    asked = len(endpoint.requests)
    learned = memalign("align tone feedback.jsonl --judged judged.jsonl", code=0)
    shown = "".join(user_of(body) for body in endpoint.requests[asked:])
    assert 'judge: true because "It answers the question."\nexpert: false\n' in shown
    assert "judge: true\nexpert: true" in shown
    assert "another judge" not in learned.out


def test_judgments_use_the_memory(
    memalign: Run, aligned: str, held_out: Path, endpoint: Endpoint
) -> None:
    judged = memalign("judge tone held_out.jsonl", code=0)
    assert not missing(judged.out, "h-1", "true")
    assert "3 judged, 2 calls" in judged.out, "experts have judged t-2"
    assert "sympathy before facts" in system_of(endpoint.requests[-1])


def test_a_withdrawn_comment_takes_its_guidelines_with_it(
    memalign: Run, aligned: str
) -> None:
    gone = memalign("unalign tone t-1@ana", code=0)
    assert not missing(
        gone.out, "withdrawn: t-1@ana", "Forgotten guidelines", "forgotten"
    )
    assert gone.out.splitlines()[-1].startswith("1 withdrawn, forgot G1-G2, new G3")
    assert "t-1@ana withdrawn" in " ".join(memalign("show tone --ledger").out.split())
    assert memalign("unalign tone --source ben --json").json["removed"] == ["t-3@ben"]


def test_only_a_real_erase_gives_a_receipt(
    memalign: Run, aligned: str, feedback: Path
) -> None:
    memalign(
        "erase tone t-1 --dry-run",
        code=0,
        says="1 case, 1 comment and 2 guidelines would be erased",
    )
    assert latest() == 2
    done = memalign("erase tone t-1 --json -y", code=0)
    assert done.json["keys"] == ["t-1@ana"]
    assert done.json["unreachable"]
    memalign("history tone", says="redacted")
    assert memalign("show tone --version 2 --json").json["feedback"] == 2
    memalign("align tone feedback.jsonl", code=1, says="erased on")
    memalign("align tone feedback.jsonl --allow-erased", code=0)


def test_an_erase_that_is_not_complete_exits_with_1(
    memalign: Run, aligned: str, endpoint: Endpoint
) -> None:
    answers = endpoint.answer
    endpoint.answer = bad_request("no such model")
    erased = memalign("erase tone t-1 -y", code=1, says="yes, no word is left")
    assert "pending" in erased.out
    endpoint.answer = answers
    memalign("export tone -o tone.json", code=0)
    memalign("import tone.json --name copy", code=0)
    left = "NO, words are left in the judge copy"
    memalign("erase tone t-2 -y", code=1, says=left)
    memalign("erase copy t-2 -y", code=0, says="yes, no word is left")


def test_history_diff_and_rollback_tell_one_story(memalign: Run, aligned: str) -> None:
    created, aligned_ = memalign("history tone --json").json["versions"]
    assert (created["action"], aligned_["action"]) == ("create", "align")
    changed = memalign("diff tone 1 2")
    assert not missing(
        changed.out,
        "+ G1 When a customer is disappointed",
        "t-1@ana: false · Correct but cold.",
    )
    assert len(memalign("diff tone 1 2 --json").json["feedback"]) == 3
    back = "tone is now version 3, with the content of version 1"
    memalign("rollback tone 1", says=back)
    assert memalign("show tone --json").json["feedback"] == 0
    memalign("rollback tone 3", says="nothing changed")


def test_a_judge_travels_as_one_file(memalign: Run, aligned: str) -> None:
    memalign("export tone -o tone.json", says="wrote version 2 of tone to tone.json")
    memalign("import tone.json", says="nothing changed; tone is still version 2")
    added = "copy is at version 1: 3 feedback added, 2 guidelines added (G1, G2)"
    elsewhere = "import tone.json --name copy --registry sqlite:///other.db"
    memalign(elsewhere, says=added)
    memalign("guideline tone --add 'Greet first.'")
    # What is replaced is named.
    dropped = "tone is at version 4: 1 guideline removed (G3)"
    memalign("import tone.json", says=dropped)
    Path("tone.json").write_text("{}", "utf-8")
    memalign("import tone.json", code=2)


def test_a_judge_is_deleted_only_after_confirmation(
    memalign: Run, aligned: str
) -> None:
    memalign("delete tone", code=2, says="--yes")
    assert memalign("delete tone --yes --json").json["deleted"] is True
    assert memalign("list --json").json == {"judges": []}


def test_an_edit_keeps_memory(memalign: Run, aligned: str, tmp_path: Path) -> None:
    instructions = "Is it kind? {{ inputs }} {{ outputs }}"
    (tmp_path / "new.txt").write_text(f"{instructions}\n", "utf-8")
    edit = "edit tone --instructions @new.txt -k 2 --param temperature=0.5"
    memalign(edit, says="tone is now version 3")
    now = memalign("show tone --json").json
    assert now["instructions"] == instructions
    assert (now["retrieval_k"], now["parameters"]) == (2, {"temperature": 0.5})
    assert len(now["guidelines"]) == 2
    memalign("edit tone", says="nothing changed")


def test_words_of_others_cannot_steer_the_terminal(
    memalign: Run, tone: str, held_out: Path, endpoint: Endpoint
) -> None:
    endpoint.answer = {
        "rationale": "\x1b[2J\x1b]0;owned\x07 [bold]fine[/bold]",
        "value": True,
    }
    judged = memalign("judge tone held_out.jsonl")
    assert "\x1b" not in judged.out
    assert "[bold]fine[/bold]" in judged.out


def test_a_long_align_fits_a_screen_or_two(
    memalign: Run, tone: str, tmp_path: Path
) -> None:
    rows = []
    for n in range(120):
        own = {"id": f"n-{n}", "outputs": f"Reply {n}.", "rationale": f"Cold, {n}."}
        rows.append(FEEDBACK[0] | own)
    jsonl(tmp_path / "rows.jsonl", rows)
    printed = memalign("align tone rows.jsonl", code=0).out
    assert not missing(
        printed,
        "(20 of 120; for all: memalign show tone --ledger)",
        "for all: memalign guideline tone)",
    )
    assert len(printed.splitlines()) < 100


@pytest.mark.parametrize("what", ["t-1", "t-1@ana", "--source ANA", "t-1 --source ana"])
def test_an_erase_by_key_or_person_shows_what_goes_and_asks(
    memalign: Run, aligned: str, what: str
) -> None:
    erase = f"erase tone {what}"
    before = latest()
    refused = memalign(erase, code=2)
    assert not missing(
        refused.err,
        "would be erased",
        "comments: t-1@ana",
        "to be learned again without them:",
        "add --yes",
    )
    assert "pending" not in refused.err, "an erase learns it again at once"
    assert latest() == before
    preview = memalign(erase, "--dry-run", "--json", code=0).json
    receipt = memalign(erase, "--yes", "--json").json
    for counted in ("counts", "keys", "cases", "guidelines", "versions"):
        assert receipt[counted] == preview[counted]
    assert receipt["latest"] == latest()
    again = memalign(erase, "--yes", code=2)
    assert "it was erased on" in again.err


def test_a_pinned_wording_is_shown_before_it_goes_and_a_locked_case_is_named(
    memalign: Run, aligned: str
) -> None:
    memalign("guideline tone G1 --pin --by olga", code=0)
    memalign("lock tone t-1", code=0)
    preview = memalign("erase tone t-1 --dry-run", code=0)
    assert not missing(
        preview.out,
        "that people wrote or confirmed: G1",
        "G1 (olga):",
        "locked no longer: t-1",
    )
    done = memalign("erase tone t-1 -y", code=0, says="yes, no word is left")
    assert not missing(
        done.out,
        "that people wrote or confirmed: G1",
        "locked no longer: t-1",
        "looked for:",
    )
    memalign("guideline tone G1", code=2)
