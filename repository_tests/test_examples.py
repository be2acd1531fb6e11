"""The stories and the notebooks in examples/, each run as a newcomer runs it, on a model
whose rules we know.

The model on loopback takes a customer's calm, a polite word or a query that runs at face
value, until it is shown guidelines; then it knows what the experts look for. So agreement rises
because guidelines reached the prompt.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT, text_of

from memalign.evaluation import Evaluation
from tests.support.endpoint import Body, Endpoint, system_of, user_of
from tests.support.learning import changes_of

EXAMPLES = ROOT / "examples"
STORIES = sorted(path.parent.name for path in EXAMPLES.glob("*/run.py"))


def answer(body: Body) -> dict[str, Any]:
    """What the model on loopback says to a request of any of the stories."""
    system = system_of(body)
    user = user_of(body)
    if body["response_format"]["json_schema"]["name"] == "changes":
        return changes_of(user, "What an expert said holds: {1}".format)
    taught = "# Guidelines from experts" in system
    item = user.rpartition("Now judge this item:")[2].lower()
    (rule,) = (rule for words, rule in RULES.items() if words in system)
    return {"rationale": "By the rule.", "value": rule(item, taught=taught)}


def empathy(item: str, *, taught: bool) -> bool:
    customer, _, reply = item.partition("\noutputs: ")
    upset = re.search(
        "tears|funeral|fourth time|cried|scared|humiliated|second month|furious",
        customer,
    )
    warm = "sorry" in reply
    helps = re.search("i have|on the way|i released", reply)
    return not taught or bool(warm and helps if upset else not warm)


def safety(item: str, *, taught: bool) -> str:
    harm = re.search(
        "home directory|private|audit log|customer list|production|manager's|history",
        item,
    )
    rude = re.search("damn|now\\.|hell|stupid|bloody|shut up|idiot", item)
    return "unsafe" if (harm if taught else rude) else "safe"


def sql(item: str, *, taught: bool) -> bool:
    converted = "amount" not in item or "rate_to_eur" in item
    return not taught or ("certified." in item and "status" in item and converted)


RULES: dict[str, Any] = {
    "Is this support reply good enough to send?": empathy,
    "Is it safe to carry out?": safety,
    "Does this query give the right answer to the question?": sql,
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_runs_learns_and_forgets(
    story: str,
    provider: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider.answer = answer
    monkeypatch.syspath_prepend(str(EXAMPLES / story))
    monkeypatch.setattr(sys, "argv", ["run.py", "--model", "openai:gpt-4.1-mini"])
    runpy.run_path(str(EXAMPLES / story / "run.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert err == ""
    assert re.search(
        r"^G1  What an expert said holds: .* {2}\[.-1@\w+\]$", out, re.MULTILINE
    )
    found = re.search(
        r"Agreement with the experts: (\d) of 8 before, (\d) of 8 after", out
    )
    assert found, out
    assert int(found[1]) <= 4 < int(found[2])
    assert "cases scored by both" in out
    assert re.search(r"^forgotten: G\d+ ", out, re.MULTILINE)


# -- the notebooks ---------------------------------------------------------------------


def cells(notebook: str) -> list[tuple[str, str]]:
    """The kinds and texts of a notebook's cells."""
    return cells_of(json.loads(text_of(f"examples/{notebook}.ipynb")))


def cells_of(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


@pytest.mark.parametrize("name", ["dataframes", "mlflow_demo"])
def test_a_notebook_is_its_script(name: str) -> None:
    notebook_of = runpy.run_path(str(EXAMPLES / "notebook.py"))["notebook_of"]
    made = notebook_of(text_of(f"examples/{name}.py"))
    assert cells(name) == cells_of(made), f"run: python examples/notebook.py {name}"


def test_the_notebook_goes_from_dataframe_to_dataframe(
    provider: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pd = pytest.importorskip("pandas")
    shutil.copytree(EXAMPLES / "empathy", tmp_path / "empathy")
    names: dict[str, Any] = {"__name__": "__main__"}
    provider.answer = answer
    monkeypatch.setenv("MEMALIGN_MODEL", "openai:gpt-4.1-mini")
    for kind, source in cells("dataframes"):
        if kind == "code":
            exec(compile(source, "dataframes.ipynb", "exec"), names)
    assert right_cases(names["before"]) <= 4 < right_cases(names["after"])
    judged = names["judged"]
    assert isinstance(judged, pd.DataFrame)
    assert list(judged["id"]) == list(names["held_out"]["id"])
    assert judged["value"].notna().all()
    assert {"inputs", "outputs", "value", "rationale", "guideline_ids"} <= set(
        judged.columns
    )
    said = capsys.readouterr().out
    assert "cases scored by both" in said
    assert "1 withdrawn" in said
    assert (tmp_path / "judges.db").exists()


def right_cases(evaluation: Evaluation) -> int:
    return [case.correct for case in evaluation.cases].count(True)
