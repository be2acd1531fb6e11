"""How long an erase takes, and how much memory, in a registry with many versions.

    python benchmarks/erase.py [--versions 300] [--rows 10000] [--registry URL]

A row is a case, what somebody said of it, or its vector. Every version teaches one case more than the one before; the
erased case is in all of them but the first. The registry is a new file, unless a URL of an empty database is given.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path

from memalign import Judge, Memory, Registry
from memalign.memory import Annotation, Case
from memalign.types import Example, Guideline

NAME = "replies"
WORDS = (
    "parcel",
    "invoice",
    "refund",
    "clinic",
    "letter",
    "tone",
    "opening",
    "apology",
    "street",
    "evening",
    "customer",
)


def case(number: int) -> Case:
    """A case that one person commented on, in words of its own."""
    text = " ".join(f"{WORDS[(number + step) % len(WORDS)]} {number + step}" for step in range(12))
    annotation = Annotation(
        id=f"t-{number:05d}",
        source=f"expert{number % 7}",
        value=number % 2 == 0,
        rationale=f"Because of the {text}.",
    )
    example = Example(id=annotation.id, inputs=f"Question {number}: {text}?", outputs=f"Reply {number}: {text}.")
    return Case(example=example, annotations=(annotation,), vector=number.to_bytes(4, "little") * 64)


def memory(cases: list[Case]) -> Memory:
    """These cases, and thirty guidelines that they taught."""
    keys = [annotation.key for case in cases for annotation in case.annotations]
    guidelines = tuple(
        Guideline(id=f"G{n + 1}", text=f"Mind matter {n}.", exposed_to=keys[n::30], supported_by=keys[n::30])
        for n in range(30)
    )
    return Memory(cases=tuple(cases), guidelines=guidelines, next_guideline=31, embedding_model="hash:64")


def main() -> None:
    """Fill a registry, erase one case, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", type=int, default=300)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--registry", metavar="URL")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.registry or f"sqlite:///{Path(folder) / 'memalign.db'}"
        registry, judge = Registry(url), Judge(name=NAME, instructions="Good? {{ inputs }}", feedback_value_type=bool)
        cases = [case(n) for n in range(options.rows // 3)]
        started = time.perf_counter()
        for _ in range(options.versions):
            registry.save(judge.replace(memory=memory(cases)))
            cases.append(case(len(cases)))
        print(f"{options.versions} versions of about {options.rows:,} rows, in {time.perf_counter() - started:.0f} s")
        waits, done = list[float](), threading.Event()

        def edit() -> None:
            """Somebody who writes meanwhile, once a second: how long an erase keeps them waiting."""
            other = Registry(url, busy_timeout=600.0)
            while not done.wait(1.0):
                begun = time.perf_counter()
                with other._database.write(NAME):
                    waits.append(time.perf_counter() - begun)

        editor = threading.Thread(target=edit)
        editor.start()
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        receipt = registry.erase(NAME, ["t-00007"], rederive=False)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done.set()
        editor.join()
        print(f"erased from {len(receipt.versions)} versions in {seconds:.1f} s; {receipt.answer}")
        print(
            f"others waited up to {max(waits, default=0.0):.1f} s; memory at most {after / 1e3:.0f} MB, {(after - before) / 1e3:.0f} MB more"
        )


if __name__ == "__main__":
    main()
