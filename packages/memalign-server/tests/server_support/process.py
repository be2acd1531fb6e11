"""`memalign serve` as a process of its own, which a test may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import httpx2

from tests.support.patience import PATIENCE

__all__ = ["Process"]


class Process:
    """A server on a free port over the registry at `url`; models of OpenAI are at `base_url`."""

    def __init__(self, url: str, *, base_url: str = "http://127.0.0.1:9") -> None:
        environment = {**os.environ, "OPENAI_BASE_URL": base_url, "NO_PROXY": "*"}
        command = [sys.executable, "-m", "memalign", "serve", "--port", "0", "--registry", url]
        self.running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.running.stderr is not None
        line = self.running.stderr.readline()
        assert "memalign is at http://127.0.0.1:" in line, line
        self.client = httpx2.Client(base_url=line.split()[3].rstrip(","), timeout=PATIENCE, trust_env=False)

    def end(self, by: signal.Signals) -> int:
        """End it by a signal; returns its exit status."""
        self.running.send_signal(by)
        status = self.running.wait(PATIENCE)
        self.client.close()
        assert self.running.stderr is not None
        self.running.stderr.close()
        return status
