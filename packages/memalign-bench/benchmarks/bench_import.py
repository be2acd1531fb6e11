"""How long `import memalign` takes beyond Python's own start, and which heavy modules it loads.

    python benchmarks/bench_import.py

Prints the median of 11 runs of each, with the range; DESIGN's line is 0.3 s. It fails nothing: a busy machine is not a
regression. The test that no provider library is loaded is in tests/test_project.py.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

RUNS = 11
HEAVY = (
    "pydantic_ai",
    "openai",
    "numpy",
    "sqlalchemy",
    "jinja2",
    "pydantic",
    "typer",
    "rich",
    "wordllama",
    "xllamacpp",
)


def seconds(statement: str) -> list[float]:
    """Wall seconds of a fresh interpreter that runs `statement`, sorted; the first, which fills caches, is left out."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return sorted(times[1:])


def main() -> None:
    """Measure and print."""
    zero_shot, ours = seconds("pass"), seconds("import memalign")
    for name, times in (("python -c pass", zero_shot), ("python -c 'import memalign'", ours)):
        print(f"{name:<30} median {statistics.median(times):.3f} s  ({times[0]:.3f} to {times[-1]:.3f}, n = {RUNS})")
    print(
        f"{'import memalign itself':<30} median {statistics.median(ours) - statistics.median(zero_shot):.3f} s  (line: 0.300)"
    )
    script = f"import sys, memalign; print(*[name for name in {HEAVY!r} if name in sys.modules] or ['none'])"
    print(
        "heavy modules loaded:",
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip(),
    )


if __name__ == "__main__":
    main()
