"""The command line: one file a command group, nothing heavy loaded before a command needs it."""

from __future__ import annotations

import contextlib
import os
import sys
from io import StringIO

__all__ = ["main"]

_INTERRUPTED = 130
_LOST = 2  # what was printed, because a disk is full


def main() -> None:
    """Run the command line and exit with its code.

    It is 0 when done, 1 when done with failures that are named, and 2 for wrong use.

    130 is Ctrl-C.
    """
    for name in ("stdout", "stderr"):
        # A service may start a program with both closed, which is None here.
        setattr(sys, name, getattr(sys, name) or StringIO())
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot spell a character shows a mark; that must not cost the result.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        from memalign.cli.app import app

        app(prog_name="memalign")
    except (KeyboardInterrupt, SystemExit) as ended:
        if isinstance(ended, SystemExit) and ended.code != _INTERRUPTED:
            raise
        # Python would wait for every thread, and an embedded model reads on for seconds.
        _flush()
        os._exit(_INTERRUPTED)
    finally:
        _flush()


def _flush() -> None:
    """Flush what was printed; a reader that has gone (`| head`) is nobody's error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python flushes once more on its way out, and would complain then.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise SystemExit(_LOST) from None
