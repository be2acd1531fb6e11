"""Where are public verdicts with people's own words? Makes a folder of feedback from them, as learns.py reads it.

    python benchmarks/fetch.py DATA                       every set of sources.toml that can be reached
    python benchmarks/fetch.py DATA averitec saf          some of them

`sources.toml` says of each set its repository, revision, licence, digests, and whose the labels are. Downloads lie in
`DATA/downloads`, and one with the right digest is not asked for again. `DATA/tasks.json` says what each file is made
of. A set that cannot be had is named, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import socket
import sys
import tomllib
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

CRITERIA, FEWEST = (
    10,
    90,
)  # criteria of the Feedback Collection that become tasks, and rows that each has at least
Row = dict[str, Any]


def download(url: str, target: Path, wanted: str) -> None:
    """Bring a file, unless it is there. Raises OSError for one that does not come whole, or is another file."""
    if target.exists() and wanted in ("", digest(target)):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(urllib.request.urlretrieve(url, f"{target}.part")[0])
    if wanted not in ("", digest(partial)):
        raise OSError(f"{url} is another file: its SHA-256 is {digest(partial)}, not {wanted}")
    partial.replace(target)


def digest(path: Path) -> str:
    """The file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def short(*texts: object) -> str:
    """Twelve hex digits that stand for texts."""
    return hashlib.sha256("\0".join(map(str, texts)).encode()).hexdigest()[:12]


def row(name: object, inputs: Row, outputs: Row, value: object, **others: Any) -> Row:
    """A row of feedback."""
    return {
        "id": str(name),
        "inputs": inputs,
        "outputs": outputs,
        "value": value,
        "source": "authors",
        **others,
    }


def averitec(files: Sequence[Path]) -> Iterator[Row]:
    """Claims with evidence, and the fact-checkers' justification."""
    for number, claim in enumerate(json.loads(files[0].read_bytes())):
        answers = {
            part["question"]: [answer["answer"] for answer in part["answers"]]
            for part in claim["questions"]
        }
        inputs = {
            "evidence": answers,
            "claim_date": claim["claim_date"],
            "speaker": claim["speaker"],
        }
        facts = {"rationale": claim["justification"], "source": "fact-checker"}
        yield row(number, inputs, {"claim": claim["claim"]}, claim["label"], **facts)


def ukp_convincing(files: Sequence[Path]) -> Iterator[Row]:
    """Pairs of arguments; the reason is the first worker's who chose as most did. A file is a group."""
    sides = {"1": "A", "2": "B"}
    for path in files:
        for pair in ElementTree.parse(path).getroot():
            label, votes = (
                pair.findtext("goldLabel", ""),
                pair.iterfind("mTurkAssignments/mTurkAssignment"),
            )
            reason = next(
                (vote.findtext("reason", "") for vote in votes if vote.findtext("value") == label),
                "",
            )
            words = re.sub(
                r"\b(?:argument |arg ?|a)([12])\b",
                lambda m: f"argument {sides[m[1]]}",
                reason,
                flags=re.I,
            )
            inputs = {
                "debate": pair.findtext("debateMetaData/title"),
                "stance": pair.findtext("arg1/stance"),
            }
            outputs = {side: pair.findtext(f"arg{number}/text") for number, side in sides.items()}
            facts = {"rationale": words, "source": "crowd", "group": path.stem}
            yield row(
                f"{path.stem}-{pair.findtext('id')}", inputs, outputs, sides[label[1:]], **facts
            )


def saf(files: Sequence[Path]) -> Iterator[Row]:
    """Students' answers to questions, which are the groups, with tutors' feedback."""
    for question in (ElementTree.parse(path).getroot() for path in files):
        inputs = {"question": question.findtext("questionText", "").strip()}
        reference = question.findtext("referenceAnswers/referenceAnswer", "").strip()
        for answer in question.iterfind("studentAnswers/studentAnswer"):
            outputs = {"answer": answer.findtext("response", "").strip()}
            value, words = (
                answer.findtext(f"{name}_feedback", "").strip()
                for name in ("verification", "response")
            )
            facts = {
                "expectations": reference,
                "rationale": words,
                "source": "tutor",
                "group": question.get("id"),
            }
            yield row(f"{question.get('id')}-{answer.get('id')}", inputs, outputs, value, **facts)


def shepherd(files: Sequence[Path]) -> Iterator[Row]:
    """Answers with two scores, and the errors that annotators describe."""
    for line in _lines(files[0]):
        answers, item = line["latestLabel"]["jsonResponse"], line["metadata"]
        errors = answers.get("CLASSIFICATION_JOB_0", {}).get("categories", [])
        words = [
            part["text"] for error in errors for part in (error.get("children") or {}).values()
        ]
        facts = {
            "expectations": item["output_correct"],
            "rationale": "\n".join(words),
            "source": "annotator",
        }
        for task, job in (
            ("justified", "CLASSIFICATION_JOB"),
            ("relevant", "CLASSIFICATION_JOB_1"),
        ):
            if job in answers:
                score, outputs = (
                    int(answers[job]["categories"][0]["name"][0]),
                    {"response": item["output_candidate"]},
                )
                yield row(
                    line["id"], {"context": item["context"]}, outputs, score, task=task, **facts
                )


def financebench(files: Sequence[Path]) -> Iterator[Row]:
    """Systems' answers to questions, which are the groups; a refusal is neither right nor wrong, and is left out."""
    questions = {line["financebench_id"]: line for line in _lines(files[0])}
    for path in files[1:]:
        for line in _lines(path):
            question, label = (
                questions[line["financebench_id"]],
                line["label"].partition(" ")[0].lower(),
            )
            if label in ("correct", "incorrect") and str(line["model_answer"]).strip():
                inputs = {name: question[name] for name in ("question", "company", "doc_name")}
                facts = {"expectations": question["answer"], "group": line["financebench_id"]}
                name = f"{line['financebench_id']}-{path.stem}"
                yield row(name, inputs, {"answer": str(line["model_answer"])}, label, **facts)


def halubench(files: Sequence[Path]) -> Iterator[Row]:
    """Answers to questions on a passage, which is the group."""
    from pyarrow import parquet

    for line in parquet.read_table(files[0]).to_pylist():
        inputs = {"passage": line["passage"], "question": line["question"]}
        yield row(
            line["id"],
            inputs,
            {"answer": line["answer"]},
            line["label"],
            group=short(line["passage"]),
        )


def autoj(files: Sequence[Path]) -> Iterator[Row]:
    """Pairs of two of its sources; GPT-4's reason is taken where its verdict is people's."""
    form = r"\[Query\]:(.*?)\*{3}\s*\[Response 1\]:(.*?)\*{3}\s*\[Response 2\]:(.*)\*{3}\s*\[END DATA\]"
    for line in _lines(files[0]):
        task = re.search("saferlhf|summar", re.sub("[^a-z]", "", line["source_dataset"].lower()))
        if task and (item := re.search(form, line.get("usrmsg") or line["usermsg"], re.S)):
            query, first, second = map(str.strip, item.groups())
            words = (
                line["target_output"]
                .replace("Response 1", "Response A")
                .replace("Response 2", "Response B")
            )
            facts = {
                "rationale": words if line["gt_label"] == line["pred_label"] else None,
                "group": short(query),
            }
            facts["task"] = task[0].replace("summar", "summary")
            name, label = short(query, first, second), ("A", "B", "tie")[int(line["gt_label"])]
            yield row(name, {"query": query}, {"A": first, "B": second}, label, **facts)


def feedback_collection(files: Sequence[Path]) -> Iterator[Row]:
    """Ten criteria, the first by the digest of their text, so that neither order nor alphabet chooses."""
    lines = json.loads(files[0].read_bytes())
    counts = Counter(line["orig_criteria"] for line in lines)
    chosen = sorted((text for text in counts if counts[text] >= FEWEST), key=short)[:CRITERIA]
    for line in lines:
        if (criterion := line["orig_criteria"]) in chosen:
            scores = [f"{score}: {line[f'orig_score{score}_description']}" for score in range(1, 6)]
            facts = {
                "expectations": line["orig_reference_answer"],
                "rationale": line["orig_feedback"],
            }
            facts |= {
                "group": short(line["orig_instruction"]),
                "criterion": "\n".join([criterion, *scores]),
            }
            inputs, outputs = (
                {"instruction": line["orig_instruction"]},
                {"response": line["orig_response"]},
            )
            name, task = short(criterion, inputs, outputs), str(chosen.index(criterion) + 1)
            yield row(
                name, inputs, outputs, int(line["orig_score"]), task=task, source="gpt-4", **facts
            )


def _lines(path: Path) -> Iterator[Row]:
    return map(json.loads, filter(None, path.read_bytes().split(b"\n")))


SETS = (
    averitec,
    ukp_convincing,
    saf,
    shepherd,
    financebench,
    halubench,
    autoj,
    feedback_collection,
)
READERS = {reader.__name__: reader for reader in SETS}


def tasks_of(
    name: str, source: Row, folder: Path, files: Sequence[Path]
) -> Iterator[tuple[str, Row]]:
    """Write the set's tasks, and say what each file is made of."""
    tasks, criteria = dict[str, dict[str, Row]](), dict(source.get("criteria", {}))
    for item in READERS[name](files):
        task = item.pop("task", "")
        criteria.setdefault(task, item.pop("criterion", source.get("criterion")))
        tasks.setdefault(task, {}).setdefault(f"{item['id']}@{item['source']}", item)
    for task, items in tasks.items():
        path = folder / f"{name}{task and '_'}{task}.jsonl"
        path.write_text(
            "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items.values()), "utf-8"
        )
        facts = {key: source[key] for key in ("values", "licence", "labels", "address")}
        yield (
            path.stem,
            {"criterion": criteria[task], **facts, "rows": len(items), "sha256": digest(path)},
        )


def main() -> None:
    """Make what can be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="*", help="all without any")
    parser.add_argument("--sources", type=Path, default=Path(__file__).with_name("sources.toml"))
    parser.add_argument(
        "--mirror", help="scheme and host of a server to ask in place of the public ones"
    )
    options = parser.parse_args()
    socket.setdefaulttimeout(60)
    sources: Row = tomllib.loads(options.sources.read_text("utf-8"))
    listed, missing = options.data / "tasks.json", 0
    tasks: dict[str, Row] = json.loads(listed.read_bytes()) if listed.exists() else {}
    for name in options.sets or sources:
        folder = options.data / "downloads" / name
        try:
            source = sources[name]
            address = re.sub(r"^https?://[^/]+", options.mirror or r"\g<0>", source["address"])
            for path, wanted in source["files"].items():
                download(f"{address}/{urllib.parse.quote(path)}", folder / path, wanted)
            tasks |= dict(
                tasks_of(name, source, options.data, [folder / path for path in source["files"]])
            )
        except Exception as error:  # noqa: BLE001  # not there, or of another form: the other sets are made
            missing += 1
            print(f"{name} is not made: {type(error).__name__}: {error}", file=sys.stderr)
    for title, facts in tasks.items():
        print(f"{title}: {facts['rows']:,} rows; {facts['licence']}")
    listed.write_text(json.dumps(tasks, indent=1), "utf-8")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
