"""Wrong use and bad input: one clear message, exit 2, and nothing done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FEEDBACK, Run, creating, jsonl, latest, missing
from tests.support.endpoint import Endpoint


def test_a_missing_model_and_key_names_both_remedies(
    memalign: Run, tmp_path: Path
) -> None:
    *new, _, _ = creating("tone")
    stuck = memalign(*new, code=2)
    assert not missing(stuck.err, "OPENAI_API_KEY", "memalign models pull")
    assert not (tmp_path / "memalign.db").exists()
    memalign(*new, "--model", "openai:x", code=2, says="OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("option", "given", "named"),
    [
        (
            "--instructions",
            "Is {{ reply }} good?",
            "{{ reply }}, which is not a field",
        ),
        (
            "--instructions",
            "@nowhere.txt",
            "--instructions @nowhere.txt: No such file",
        ),
        ("--param", "temperature", "KEY=VALUE"),
        ("--param", "colour=3", "parameters: Object contains unknown field `colour`"),
    ],
)
def test_a_judge_that_cannot_be_is_not_created(
    memalign: Run, endpoint: Endpoint, option: str, given: str, named: str
) -> None:
    refused = memalign(*creating("tone"), option, given, code=2, says=named)
    assert "Traceback" not in refused.err
    assert memalign("list --json").json == {"judges": []}
    memalign(*creating("tone"), code=0)
    memalign(*creating("tone"), says="tone")  # a name is taken once


TO_NOBODY = """\
show nobody
align nobody feedback.jsonl
judge nobody feedback.jsonl
evaluate nobody feedback.jsonl
history nobody
next nobody feedback.jsonl
review nobody feedback.jsonl -o x.xlsx
check feedback.jsonl nobody
edit nobody -k 3
unalign nobody t-1
erase nobody t-1
guideline nobody
lock nobody t-1
erase nobody --matching order --dry-run
diff nobody 1 2
rollback nobody 1
export nobody -o x.json
delete nobody --yes"""


@pytest.mark.parametrize("command", TO_NOBODY.splitlines())
def test_an_unknown_judge_is_named_by_every_command(
    memalign: Run, tone: str, feedback: Path, command: str
) -> None:
    error = memalign(command, "--json", code=2).json["error"]
    assert error["type"] == "JudgeNotFound"
    assert not missing(error["message"], "nobody", tone), (
        "and the judges that there are"
    )


def test_a_mistyped_registry_is_not_created(memalign: Run, tmp_path: Path) -> None:
    memalign("show tone --registry sqlite:///nowhere.db", code=2, says="nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()
    memalign("show tone --registry nonsense", code=2)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("unalign tone t-9", "no feedback 't-9'"),
        ("unalign tone t-404", "memalign show tone --ledger"),
        ("unalign tone", "name feedback by id"),
        ("erase tone t-9", "t-9"),
        ("show tone --version 9", "no version 9"),
        ("guideline tone --pin", "name the guideline to change"),
        ("guideline tone G1 --add x", "--add"),
        ("models pull gpt-5 --yes", "unknown embedded model"),
        (
            "judge tone feedback.jsonl -o s3://lake/b.jsonl?sig=0f6c",
            "is a URL; copy the file to this",
        ),
        (
            "judge tone feedback.jsonl -o out.csv",
            "judgments are kept as JSON lines, so that a run can",
        ),
        ("align tone feedback.jsonl --max-cost nan", "dollars above 0"),
        ("align tone feedback.jsonl --max-cost 0", "dollars above 0"),
        ("judge tone feedback.jsonl --max-cost 0", "dollars above 0"),
        ("evaluate tone feedback.jsonl --max-cost 0", "dollars above 0"),
        ("lock tone t-9", "no case 't-9' in memory"),
        ("lock tone t-1@ana", "as ID@SOURCE"),
        ("lock tone t-1 --unlock", "is not locked"),
        ("edit tone --dismiss t-1 t-3", "no conflict between these"),
    ],
)
def test_an_unknown_key_says_what_there_is(
    memalign: Run, aligned: str, command: str, named: str
) -> None:
    assert "0f6c" not in memalign(command, code=2, says=named).err
    assert latest() == 2


@pytest.mark.parametrize("command", ["align", "judge", "evaluate", "next"])
def test_an_empty_or_missing_file_is_named(
    memalign: Run, tone: str, tmp_path: Path, command: str
) -> None:
    (tmp_path / "empty.jsonl").touch()
    memalign(command, tone, "empty.jsonl", code=2, says="empty.jsonl has no rows")
    memalign(command, tone, "missing.jsonl", says="no such file")


def test_broken_rows_are_named_and_nothing_learned(
    memalign: Run, tone: str, tmp_path: Path
) -> None:
    rows = [
        FEEDBACK[0],
        {**FEEDBACK[1], "value": "maybe"},
        {"id": "t-9", "value": True},
    ]
    bad = jsonl(tmp_path / "bad.jsonl", rows)
    with bad.open("a", encoding="utf-8") as file:
        file.write('{"id": "t-10", \n')
    refused = memalign("align tone bad.jsonl --json", code=2)
    assert [row["line"] for row in refused.json["error"]["rows"]] == [2, 3, 4]
    assert not missing(
        refused.err,
        "line 2 (t-2): value 'maybe' is not allowed; use true or false",
        "--skip-invalid",
    )
    assert latest() == 1
    kept = memalign("align tone bad.jsonl --skip-invalid", code=1)
    assert "3 invalid" in kept.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("alig", "align"),
        ("align", "NAME"),
        ("create tone --value-type bool", "--instructions"),
        ("judge tone x.jsonl --concurrency 0", "--concurrency"),
        ("judge tone x.jsonl --versio 2", "--version"),
        ("diff tone one 2", "V1"),
    ],
)
def test_wrong_use_says_what_was_meant(memalign: Run, command: str, named: str) -> None:
    wrong = memalign(command, code=2)
    assert wrong.out == ""
    assert named in wrong.err
    memalign(command, "--json", says="UsageError")
