"""Where are public verdicts with people's own words? Makes a folder of feedback from them.

    python benchmarks/fetch.py DATA                       every set of sources.toml
    python benchmarks/fetch.py DATA averitec saf          some of them

learns.py reads the folder. `sources.toml` says of each set its repository, revision, licence,
digests, and whose the labels are. Downloads lie in `DATA/downloads`, and one with the right digest
is not asked for again. `DATA/tasks.json` says what each file is made of. A set that cannot be had
is named, and the exit code is then 1.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlretrieve
from xml.etree import ElementTree

from shared import Line, parser_of, read_lines, write_lines

Set = Iterator[tuple[str, Line]]
"""Rows of feedback, each behind the name of its task."""
Files = Sequence[Path]
Element = ElementTree.Element

SIDES = {"1": "A", "2": "B"}
"""What an argument's number in UKP's sets is here."""
ASKED = ("question", "company", "doc_name")
"""The fields of a question of FinanceBench."""
NAMED = re.compile(r"\b(?:argument |arg ?|a)([12])\b", re.IGNORECASE)
"""How workers name an argument."""


# -- the sets --------------------------------------------------------------------------


def averitec(files: Files) -> Set:
    """Read claims with evidence, and the fact-checkers' justification."""
    text = files[0].read_bytes()
    for number, claim in enumerate(json.loads(text)):
        evidence = {}
        for part in claim["questions"]:
            question = part["question"]
            answers = part["answers"]
            evidence[question] = [answer["answer"] for answer in answers]
        row = {
            "id": str(number),
            "inputs": {
                "evidence": evidence,
                "claim_date": claim["claim_date"],
                "speaker": claim["speaker"],
            },
            "outputs": {"claim": claim["claim"]},
            "value": claim["label"],
            "source": "fact-checker",
            "rationale": claim["justification"],
        }
        yield "averitec", row


def ukp_convincing(files: Files) -> Set:
    """Read pairs of arguments, a group in each file."""
    for path in files:
        for pair in ElementTree.parse(path).getroot():
            name = pair.findtext("id")
            label = pair.findtext("goldLabel", "")
            row = {
                "id": f"{path.stem}-{name}",
                "inputs": {
                    "debate": pair.findtext("debateMetaData/title"),
                    "stance": pair.findtext("arg1/stance"),
                },
                "outputs": {
                    "A": pair.findtext("arg1/text"),
                    "B": pair.findtext("arg2/text"),
                },
                "value": SIDES[label[1:]],
                "source": "crowd",
                "rationale": _reason(pair, label),
                "group": path.stem,
            }
            yield "ukp_convincing", row


def _reason(pair: Element, label: str) -> str:
    """Return the reason of the first worker who chose as most did, with the row's sides."""
    for vote in pair.iterfind("mTurkAssignments/mTurkAssignment"):
        if vote.findtext("value") == label:
            reason = vote.findtext("reason", "")
            return NAMED.sub(_named, reason)
    return ""


def _named(match: re.Match[str]) -> str:
    side = SIDES[match[1]]
    return f"argument {side}"


def saf(files: Files) -> Set:
    """Read students' answers to questions, which are the groups, with tutors' feedback."""
    for path in files:
        question = ElementTree.parse(path).getroot()
        name = question.get("id")
        asked = _text(question, "questionText")
        reference = _text(question, "referenceAnswers/referenceAnswer")
        for answer in question.iterfind("studentAnswers/studentAnswer"):
            number = answer.get("id")
            row = {
                "id": f"{name}-{number}",
                "inputs": {"question": asked},
                "outputs": {"answer": _text(answer, "response")},
                "value": _text(answer, "verification_feedback"),
                "source": "tutor",
                "expectations": reference,
                "rationale": _text(answer, "response_feedback"),
                "group": name,
            }
            yield "saf", row


def _text(element: Element, path: str) -> str:
    return element.findtext(path, "").strip()


def shepherd(files: Files) -> Set:
    """Read answers with two scores, and the errors that annotators describe."""
    jobs = {"justified": "CLASSIFICATION_JOB", "relevant": "CLASSIFICATION_JOB_1"}
    for line in read_lines(files[0]):
        answers = line["latestLabel"]["jsonResponse"]
        item = line["metadata"]
        words = _errors(answers)
        for score, job in jobs.items():
            if job in answers:
                [category, *_] = answers[job]["categories"]
                row = {
                    "id": str(line["id"]),
                    "inputs": {"context": item["context"]},
                    "outputs": {"response": item["output_candidate"]},
                    "value": int(category["name"][0]),
                    "source": "annotator",
                    "expectations": item["output_correct"],
                    "rationale": "\n".join(words),
                }
                yield f"shepherd_{score}", row


def _errors(answers: Line) -> list[str]:
    """Return what an annotator says is wrong with an answer."""
    words = []
    job = answers.get("CLASSIFICATION_JOB_0", {})
    for error in job.get("categories", []):
        parts = error.get("children") or {}
        for part in parts.values():
            words.append(part["text"])
    return words


def financebench(files: Files) -> Set:
    """Read systems' answers to questions, which are the groups.

    A refusal is neither right nor wrong, and is left out.
    """
    listed, *systems = files
    questions = {}
    for line in read_lines(listed):
        name = line["financebench_id"]
        questions[name] = line
    for path in systems:
        for line in read_lines(path):
            name = line["financebench_id"]
            answer = str(line["model_answer"])
            label, _, _ = line["label"].lower().partition(" ")
            if label in ("correct", "incorrect") and answer.strip():
                asked = questions[name]
                row = {
                    "id": f"{name}-{path.stem}",
                    "inputs": {key: asked[key] for key in ASKED},
                    "outputs": {"answer": answer},
                    "value": label,
                    "source": "authors",
                    "expectations": asked["answer"],
                    "group": name,
                }
                yield "financebench", row


READERS = {
    "averitec": averitec,
    "ukp_convincing": ukp_convincing,
    "saf": saf,
    "shepherd": shepherd,
    "financebench": financebench,
}


# -- the folder ------------------------------------------------------------------------


def made(name: str, source: Line, folder: Path, mirror: str | None) -> dict[str, Line]:
    """Bring a set, write its tasks, and return what each task is made of.

    Args:
        name: The set.
        source: What `sources.toml` says of it.
        folder: Where the tasks and downloads are.
        mirror: Scheme and host of a server to ask in place of the public one.
    """
    address = source["address"]
    if mirror:
        address = re.sub(r"^https?://[^/]+", mirror, address)
    downloads = folder / "downloads" / name
    files = downloaded(address, source["files"], downloads)
    facts = {}
    for title, rows in rows_by_task(name, files).items():
        path = folder / f"{title}.jsonl"
        write_lines(path, rows)
        facts[title] = {
            "criterion": source["criteria"][title],
            "values": source["values"],
            "licence": source["licence"],
            "labels": source["labels"],
            "address": source["address"],
            "rows": len(rows),
            "sha256": digest(path),
        }
    return facts


def rows_by_task(name: str, files: Files) -> dict[str, list[Line]]:
    """Return the rows of each task of a set; of rows with the same key, the first."""
    tasks = defaultdict(list)
    known = set()
    for title, row in READERS[name](files):
        key = title, row["id"]
        if key not in known:
            known.add(key)
            tasks[title].append(row)
    return tasks


def downloaded(address: str, digests: dict[str, str], folder: Path) -> list[Path]:
    """Bring what a folder lacks of the files with these digests, and return them all.

    Raises:
        OSError: A file did not come whole, or is another one.
    """
    files = []
    for name, wanted in digests.items():
        path = folder / name
        files.append(path)
        if path.exists() and digest(path) == wanted:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        url = f"{address}/{quote(name)}"
        part, _ = urlretrieve(url, f"{path}.part")
        found = digest(Path(part))
        if found != wanted:
            raise OSError(f"{url} is another file: its SHA-256 is {found}")
        Path(part).replace(path)
    return files


def digest(path: Path) -> str:
    """Return the file's SHA-256."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    """Make what can be had."""
    true = Path(__file__).with_name("sources.toml")
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*", help="all without any")
    parser.add_argument("--sources", type=Path, default=true)
    parser.add_argument("--mirror", help="scheme and host in place of the public ones")
    options = parser.parse_args()
    socket.setdefaulttimeout(60)
    text = options.sources.read_text("utf-8")
    sources = tomllib.loads(text)
    listed = options.data / "tasks.json"
    tasks = {}
    if listed.exists():
        tasks = json.loads(listed.read_bytes())
    missing = False
    for name in options.sets or sources:
        try:
            tasks |= made(name, sources[name], options.data, options.mirror)
        except Exception as error:  # noqa: BLE001  # not there, or of another form: others are made
            missing = True
            reason = f"{type(error).__name__}: {error}"
            print(f"{name} is not made: {reason}", file=sys.stderr)
    for title, facts in tasks.items():
        rows = facts["rows"]
        print(f"{title}: {rows:,} rows; {facts['licence']}")
    options.data.mkdir(parents=True, exist_ok=True)
    listed.write_text(json.dumps(tasks, indent=1), "utf-8")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
