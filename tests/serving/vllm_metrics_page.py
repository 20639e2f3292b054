"""One process that has vLLM loaded and shows what vLLM's own ``/metrics`` shows; loading takes 10 s."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
END = "# the page ends"
_SHOW = """
import os, sys
from fastapi import FastAPI
from starlette.testclient import TestClient
from vllm.entrypoints.serve.instrumentator.metrics import attach_router
from vllm.v1.metrics.prometheus import unregister_vllm_metrics
exec(sys.argv[1])
unregister_vllm_metrics()
for folder in sys.stdin:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder.strip()
    if not folder.strip():
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
    app = FastAPI()
    attach_router(app)
    print(TestClient(app).get("/metrics").text)
    print(sys.argv[2], flush=True)
"""
OWN = """
from quality_lib.records import Outcome
from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS
from quality_lib.serving.metrics import GuardMetrics
GuardMetrics.of().gate_failed(4, "loops", "token_loop", Outcome.FAILED)
GuardMetrics.of().suspicious_tokens(3)
GuardMetrics.of().entropies([1] * (len(ENTROPY_BUCKETS) + 1), 20.0)
GuardMetrics.of().waiting_to_ship(5, 1.0)
"""
"""What the process counts itself, in a registry of its own."""


class MetricsPage:
    """Asks the process for the page, of its own counts or of those that other processes left in a folder."""

    def __init__(self) -> None:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        env.pop("PROMETHEUS_MULTIPROC_DIR", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SHOW, OWN, END],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self, folder: Path | str = "") -> list[str]:
        """Return the page; without a folder, of a server that is one process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        found: list[str] = []
        for line in self._process.stdout:
            if line.strip() == END:
                return found
            found.append(line.rstrip("\n"))
        raise AssertionError(f"the process has ended with {self._process.wait()}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session")
def metrics_page() -> Generator[MetricsPage]:
    """The page, loaded once."""
    page = MetricsPage()
    yield page
    page.close()
