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
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlretrieve
from xml.etree import ElementTree

from shared import Line, parser_of, read_lines, write_lines

Set = Iterator[tuple[str, Line]]
"""Rows of feedback, each behind the name of its task; the name is empty if the set is one task."""


def averitec(files: Sequence[Path]) -> Set:
    """Read claims with evidence, and the fact-checkers' justification."""
    for number, claim in enumerate(json.loads(files[0].read_bytes())):
        evidence = {}
        for part in claim["questions"]:
            evidence[part["question"]] = [
                answer["answer"] for answer in part["answers"]
            ]
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
        yield "", row


def ukp_convincing(files: Sequence[Path]) -> Set:
    """Read pairs of arguments, a group in each file.

    The reason is that of the first worker who chose as most did.
    """
    sides = {"1": "A", "2": "B"}
    for path in files:
        for pair in ElementTree.parse(path).getroot():
            label = pair.findtext("goldLabel", "")
            row = {
                "id": f"{path.stem}-{pair.findtext('id')}",
                "inputs": {
                    "debate": pair.findtext("debateMetaData/title"),
                    "stance": pair.findtext("arg1/stance"),
                },
                "outputs": {
                    side: pair.findtext(f"arg{n}/text") for n, side in sides.items()
                },
                "value": sides[label[1:]],
                "source": "crowd",
                "rationale": _reason(pair, label, sides),
                "group": path.stem,
            }
            yield "", row


def _reason(pair: ElementTree.Element, label: str, sides: dict[str, str]) -> str:
    """Return a worker's reason for a label, with the sides named as in the row."""
    for vote in pair.iterfind("mTurkAssignments/mTurkAssignment"):
        if vote.findtext("value") == label:
            return re.sub(
                r"\b(?:argument |arg ?|a)([12])\b",
                lambda match: f"argument {sides[match[1]]}",
                vote.findtext("reason", ""),
                flags=re.IGNORECASE,
            )
    return ""


def saf(files: Sequence[Path]) -> Set:
    """Read students' answers to questions, which are the groups, with tutors' feedback."""
    for path in files:
        question = ElementTree.parse(path).getroot()
        name = question.get("id")
        asked = _text(question, "questionText")
        reference = _text(question, "referenceAnswers/referenceAnswer")
        for answer in question.iterfind("studentAnswers/studentAnswer"):
            row = {
                "id": f"{name}-{answer.get('id')}",
                "inputs": {"question": asked},
                "outputs": {"answer": _text(answer, "response")},
                "value": _text(answer, "verification_feedback"),
                "source": "tutor",
                "expectations": reference,
                "rationale": _text(answer, "response_feedback"),
                "group": name,
            }
            yield "", row


def _text(element: ElementTree.Element, path: str) -> str:
    return element.findtext(path, "").strip()


def shepherd(files: Sequence[Path]) -> Set:
    """Read answers with two scores, and the errors that annotators describe."""
    jobs = {"justified": "CLASSIFICATION_JOB", "relevant": "CLASSIFICATION_JOB_1"}
    for line in read_lines(files[0]):
        answers = line["latestLabel"]["jsonResponse"]
        item = line["metadata"]
        words = []
        for error in answers.get("CLASSIFICATION_JOB_0", {}).get("categories", []):
            parts = error.get("children") or {}
            words += [part["text"] for part in parts.values()]
        for task, job in jobs.items():
            if job in answers:
                name = answers[job]["categories"][0]["name"]
                row = {
                    "id": str(line["id"]),
                    "inputs": {"context": item["context"]},
                    "outputs": {"response": item["output_candidate"]},
                    "value": int(name[0]),
                    "source": "annotator",
                    "expectations": item["output_correct"],
                    "rationale": "\n".join(words),
                }
                yield task, row


def financebench(files: Sequence[Path]) -> Set:
    """Read systems' answers to questions, which are the groups.

    A refusal is neither right nor wrong, and is left out.
    """
    questions = {line["financebench_id"]: line for line in read_lines(files[0])}
    for path in files[1:]:
        for line in read_lines(path):
            name = line["financebench_id"]
            question = questions[name]
            answer = str(line["model_answer"])
            label = line["label"].partition(" ")[0].lower()
            if label not in ("correct", "incorrect") or not answer.strip():
                continue
            row = {
                "id": f"{name}-{path.stem}",
                "inputs": {
                    key: question[key] for key in ("question", "company", "doc_name")
                },
                "outputs": {"answer": answer},
                "value": label,
                "source": "authors",
                "expectations": question["answer"],
                "group": name,
            }
            yield "", row


READERS = {
    "averitec": averitec,
    "ukp_convincing": ukp_convincing,
    "saf": saf,
    "shepherd": shepherd,
    "financebench": financebench,
}


def digest(path: Path) -> str:
    """Return the file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def download(url: str, target: Path, wanted: str) -> None:
    """Bring a file, unless it is there.

    Raises:
        OSError: The file did not come whole, or is another one.
    """
    if target.exists() and digest(target) == wanted:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial, _ = urlretrieve(url, f"{target}.part")
    found = digest(Path(partial))
    if found != wanted:
        raise OSError(f"{url} is another file: its SHA-256 is {found}, not {wanted}")
    Path(partial).replace(target)


def made(name: str, source: Line, folder: Path, mirror: str | None) -> dict[str, Line]:
    """Bring a set, write its tasks, and return what each file is made of.

    Args:
        name: The set.
        source: What `sources.toml` says of it.
        folder: Where the tasks and downloads are.
        mirror: Scheme and host of a server to ask in place of the public one.
    """
    address = source["address"]
    if mirror:
        address = re.sub(r"^https?://[^/]+", mirror, address)
    files = []
    for path, wanted in source["files"].items():
        target = folder / "downloads" / name / path
        download(f"{address}/{quote(path)}", target, wanted)
        files.append(target)
    tasks: dict[str, dict[str, Line]] = {}
    for task, row in READERS[name](files):
        rows = tasks.setdefault(task, {})
        key = f"{row['id']}@{row['source']}"
        rows.setdefault(key, row)
    facts = {}
    for task, rows in tasks.items():
        title = f"{name}_{task}" if task else name
        path = folder / f"{title}.jsonl"
        write_lines(path, rows.values())
        criterion = source["criteria"][task] if task else source["criterion"]
        facts[title] = {
            "criterion": criterion,
            "values": source["values"],
            "licence": source["licence"],
            "labels": source["labels"],
            "address": source["address"],
            "rows": len(rows),
            "sha256": digest(path),
        }
    return facts


def main() -> None:
    """Make what can be had."""
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*", help="all without any")
    parser.add_argument(
        "--sources", type=Path, default=Path(__file__).with_name("sources.toml")
    )
    parser.add_argument(
        "--mirror", help="scheme and host to ask in place of the public ones"
    )
    options = parser.parse_args()
    socket.setdefaulttimeout(60)
    sources: dict[str, Line] = tomllib.loads(options.sources.read_text("utf-8"))
    listed = options.data / "tasks.json"
    tasks: dict[str, Line] = json.loads(listed.read_bytes()) if listed.exists() else {}
    missing = False
    for name in options.sets or sources:
        try:
            tasks |= made(name, sources[name], options.data, options.mirror)
        except Exception as error:  # noqa: BLE001  # not there, or of another form: others are made
            missing = True
            print(
                f"{name} is not made: {type(error).__name__}: {error}", file=sys.stderr
            )
    for title, facts in tasks.items():
        print(f"{title}: {facts['rows']:,} rows; {facts['licence']}")
    options.data.mkdir(parents=True, exist_ok=True)
    listed.write_text(json.dumps(tasks, indent=1), "utf-8")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
