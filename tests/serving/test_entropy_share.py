"""The file between engine and API server: what is written is read, by the right reader, once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from quality_lib.serving import entropy_layout
from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS
from quality_lib.serving.entropy_layout import RING, SIZE, EntropyCounts, request_key
from quality_lib.serving.entropy_reader import LOOK_AGAIN_S, EntropyReader
from quality_lib.serving.entropy_writer import EntropyWriter, remove_stale

NONE = np.zeros(64, dtype=np.uint64)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def writer(tmp_path: Path) -> EntropyWriter:
    return EntropyWriter(tmp_path)


def keys(*ids: str) -> np.ndarray:
    return np.array([request_key(i) if i else 0 for i in ids], dtype=np.uint64)


def test_counts_are_what_was_written(tmp_path: Path, writer: EntropyWriter) -> None:
    writer.add(np.array([0.005, 0.3, 2.0, 2.5, 50.0, np.nan]), NONE[:6], 1)
    writer.add(np.array([0.01]), NONE[:1], 0)
    counts = EntropyReader(tmp_path).counts()
    assert counts is not None
    assert (counts.steps, counts.rows, counts.nan_rows, counts.corrected_rows) == (2, 6, 1, 1)
    assert counts.entropy_sum == pytest.approx(54.815)
    # An upper edge belongs to its bucket, as Prometheus has it.
    assert dict(zip([*ENTROPY_BUCKETS, None], counts.buckets, strict=True)) | {} == {
        **dict.fromkeys([*ENTROPY_BUCKETS, None], 0),
        0.01: 2,
        0.5: 1,
        2.0: 1,
        3.0: 1,
        None: 1,
    }


def test_there_is_nothing_without_an_engine(tmp_path: Path) -> None:
    assert EntropyReader(tmp_path).counts() is None
    assert EntropyReader(tmp_path / "nowhere").counts() is None


def test_a_followed_request_gets_its_own_entropies(tmp_path: Path, writer: EntropyWriter) -> None:
    reader = EntropyReader(tmp_path)
    writer.add(np.array([9.0, 9.0]), keys("a", "b"), 0)
    reader.follow("a")
    writer.add(np.array([1.0, 5.0, 6.0]), keys("a", "b", ""), 0)
    writer.add(np.array([5.0, 2.0]), keys("b", "a"), 0)
    assert reader.take("a") == [1.0, 2.0]
    assert reader.take("a") == reader.take("b") == []
    writer.add(np.array([3.0, np.nan]), keys("a", "a"), 0)
    last = reader.leave("a")
    assert last[0] == 3.0
    assert np.isnan(last[1])
    writer.add(np.array([4.0]), keys("a"), 0)
    assert reader.take("a") == []


def test_the_ring_laps_without_mixing_up(tmp_path: Path, writer: EntropyWriter) -> None:
    reader = EntropyReader(tmp_path)
    reader.follow("a")
    step = np.arange(1000.0)
    for _ in range(RING // 1000 + 10):
        writer.add(step, np.repeat(keys("a"), 1000), 0)
    values = reader.take("a")
    assert len(values) == RING
    assert reader.lost == (RING // 1000 + 10) * 1000 - RING
    assert np.array_equal(np.diff(values) % 1000, np.ones(RING - 1))


def test_a_reader_in_step_loses_nothing_while_the_engine_writes(
    tmp_path: Path, writer: EntropyWriter
) -> None:
    reader = EntropyReader(tmp_path)
    reader.follow("a")

    def write() -> None:
        for i in range(4000):
            writer.add(np.array([float(i), 0.5]), keys("a", ""), 0)

    thread = threading.Thread(target=write)
    thread.start()
    values: list[float] = []
    while thread.is_alive():
        values += reader.take("a")
        counts = reader.counts()
        assert counts is not None
        assert sum(counts.buckets) == counts.rows
    thread.join()
    assert values + reader.take("a") == [float(i) for i in range(4000)]


def test_another_servers_engine_is_not_read(tmp_path: Path, writer: EntropyWriter) -> None:
    writer.add(np.array([1.0]), NONE[:1], 0)
    assert EntropyReader(tmp_path, anchor=2**22 + 1).counts() is None
    assert EntropyReader(tmp_path, anchor=os.getppid()).counts() is not None


CHILD = """
import sys, time
from pathlib import Path
import numpy as np
from quality_lib.serving.entropy_writer import EntropyWriter
writer = EntropyWriter(Path(sys.argv[1]))
writer.add(np.array([1.0, 2.0]), np.zeros(2, dtype=np.uint64), 0)
print("ready", flush=True)
time.sleep(60)
"""


def engine(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.stdout.close()
    return child


def test_counters_go_on_when_an_engine_is_killed_and_started_again(tmp_path: Path) -> None:
    clock = Clock()
    reader = EntropyReader(tmp_path, clock=clock)
    first = engine(tmp_path)
    counts = reader.counts()
    assert counts is not None
    assert counts.rows == 2
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = engine(tmp_path)
    clock.now += LOOK_AGAIN_S
    counts = reader.counts()
    assert counts is not None
    assert counts.rows == 4
    second.kill()
    second.wait()
    remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_ends_takes_its_file_along(tmp_path: Path) -> None:
    code = CHILD.replace("time.sleep(60)", "")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def write_in_child(folder: Path) -> None:
    EntropyWriter(folder).add(np.array([1.0]), NONE[:1], 0)


def test_a_child_of_multiprocessing_does_so_too(tmp_path: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=write_in_child, args=(tmp_path,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"\0" * SIZE])
def test_a_file_that_is_none_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"{os.getpid()}-x.entropy").write_bytes(content)
    assert EntropyReader(tmp_path).counts() is None


def test_a_link_is_not_followed(tmp_path: Path, writer: EntropyWriter) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "1-x.entropy").symlink_to(writer.path)
    assert EntropyReader(folder).counts() is None


def test_the_folder_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = entropy_layout.share_folder()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_counts_add_up() -> None:
    one = EntropyCounts(1, 2, 3, 4, 5.0, (1,) * (len(ENTROPY_BUCKETS) + 1))
    assert one + one == EntropyCounts(2, 4, 6, 8, 10.0, (2,) * (len(ENTROPY_BUCKETS) + 1))
