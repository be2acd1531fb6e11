"""How long an erase takes in a registry with many versions, how much memory, and how long others wait who write.

    python benchmarks/erase.py [--versions 300] [--rows 10000]

A row is a case, what somebody said of it, or its vector. Every version teaches one case more than the one before; the
erased case is in all of them. 300 versions of 10,000 rows, SQLite, two busy cores: 86 s, 89 MB, others wait 0.2 s.
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

WORDS = ("parcel", "invoice", "refund", "clinic", "letter", "tone", "opening", "apology", "street", "evening")


def case(number: int) -> Case:
    """A case that one person commented on, in words of its own."""
    text = " ".join(f"{WORDS[(number + step) % len(WORDS)]} {number + step}" for step in range(12))
    example = Example(id=f"t-{number:05d}", inputs=f"Question {number}: {text}?", outputs=f"Reply {number}: {text}.")
    annotation = Annotation(
        id=example.id, source=f"expert{number % 7}", value=number % 2 == 0, rationale=f"Because of the {text}."
    )
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'memalign.db'}"
        registry, judge = Registry(url), Judge(name="a", instructions="Good? {{ inputs }}", feedback_value_type=bool)
        cases = [case(n) for n in range(options.rows // 3)]
        for _ in range(options.versions):
            registry.save(judge.replace(memory=memory(cases)))
            cases.append(case(len(cases)))
        waits, done, other = list[float](), threading.Event(), Registry(url, busy_timeout=600.0)

        def write() -> None:
            while not done.wait(1.0):
                begun = time.perf_counter()
                with other._database.write("a"):
                    waits.append(time.perf_counter() - begun)

        writer = threading.Thread(target=write)
        writer.start()
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        receipt = registry.erase("a", ["t-00007"], rederive=False)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done.set()
        writer.join()
        print(f"erased from {len(receipt.versions)} versions in {seconds:.1f} s; {receipt.answer}")
        print(f"others waited up to {max(waits, default=0.0):.1f} s; {(after - before) / 1e3:.0f} MB more memory")


if __name__ == "__main__":
    main()
