"""Of several API servers one tells what the engines counted, so that sums over them are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quality_lib.serving.entropy_turn import SUFFIX, EntropyTurn
from quality_lib.serving.entropy_writer import EntropyWriter
from tests.serving.vllm_metrics_page import ROOT, MetricsPage

SERVER = """
import os, sys, time
from pathlib import Path
from quality_lib.serving.entropy_feed import EntropyFeed
from quality_lib.serving.entropy_reader import EntropyReader
from quality_lib.serving.entropy_turn import EntropyTurn
from quality_lib.serving.metrics import GuardMetrics
folder, server = Path(sys.argv[1]), int(sys.argv[2])
now = [0.0]
reader = EntropyReader(folder, anchor=server, clock=lambda: now[0])
turn = EntropyTurn(server, folder)
feed = EntropyFeed(reader.counts, GuardMetrics.of(), lambda: now[0], turn.is_ours)
for line in sys.stdin:
    now[0] += 10.0
    feed.pump()
    print("pumped", flush=True)
"""


class ApiServer:
    """A process that tells counts when it is asked to."""

    def __init__(self, folder: Path, metrics: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(folder), str(os.getpid())],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PROMETHEUS_MULTIPROC_DIR": str(metrics)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def pump(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "pumped\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def test_vllm_adds_up_what_several_api_servers_tell_of_one_engine(
    metrics_page: MetricsPage, tmp_path: Path
) -> None:
    folder, metrics = tmp_path / "engine", tmp_path / "metrics"
    folder.mkdir()
    metrics.mkdir()
    engine = EntropyWriter(folder)
    step, keys = np.array([1.0, np.nan]), np.zeros(2, dtype=np.uint64)
    servers = [ApiServer(folder, metrics) for _ in range(3)]
    try:
        engine.add(step, keys, 1)
        for server in servers:
            server.pump()
        # The one that told ends; another goes on where it ended.
        servers[0].kill()
        engine.add(step, keys, 1)
        for server in servers[1:]:
            server.pump()
    finally:
        for server in servers:
            server.kill()
        engine.close()
    lines = metrics_page.lines(metrics)
    assert "vllm_quality_nan_logits_total 2.0" in lines
    assert "vllm_quality_corrected_steps_total 2.0" in lines
    assert "vllm_generation_entropy_count 2.0" in lines
    assert "vllm_generation_entropy_sum 2.0" in lines


def test_one_of_several_has_the_turn_until_it_ends(tmp_path: Path) -> None:
    first, second, other = (
        EntropyTurn(5, tmp_path),
        EntropyTurn(5, tmp_path),
        EntropyTurn(6, tmp_path),
    )
    assert first.is_ours()
    assert first.is_ours()
    assert not second.is_ours()
    assert other.is_ours(), "another server on this machine"
    first.close()
    assert second.is_ours()
    second.close()
    other.close()


def test_locks_of_servers_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = tmp_path / f"{2**22 + 1}{SUFFIX}"
    gone.touch()
    (tmp_path / f"no-number{SUFFIX}").touch()
    turn = EntropyTurn(os.getpid(), tmp_path)
    assert turn.is_ours()
    assert not gone.exists()
    turn.close()


@pytest.mark.parametrize("kind", ["missing", "link"])
def test_where_nobody_can_be_asked_it_tells(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    if kind == "link":
        folder.mkdir()
        (folder / f"{os.getpid()}{SUFFIX}").symlink_to(tmp_path / "elsewhere")
    turn = EntropyTurn(os.getpid(), folder)
    assert turn.is_ours()
    assert not (tmp_path / "elsewhere").exists()
