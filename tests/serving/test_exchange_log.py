"""Appending never raises and never waits; what is lost is counted."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from quality_lib.serving.exchange_log import MAX_LINE_BYTES, ExchangeLog, encoded
from quality_lib.serving.log_files import LogFolder, OpenLogFile
from quality_lib.settings import ExchangeLogSettings


class Disk(LogFolder):
    """A folder whose disk can be told to refuse."""

    refusal: int | None = None

    def open_next(self) -> OpenLogFile:
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        made = super().open_next()
        return _File(self, made)


class _File(OpenLogFile):
    def __init__(self, disk: Disk, made: OpenLogFile) -> None:
        super().__init__(made.path, made.name, made.fd)
        self._disk = disk

    def write(self, lines: bytes, records: int = 1) -> None:
        if self._disk.refusal:
            raise OSError(self._disk.refusal, os.strerror(self._disk.refusal))
        super().write(lines, records)


class Bench:
    """A log on a disk, and what it has told."""

    def __init__(self, path: Path) -> None:
        self.disk = Disk(path, "chat", "host_1", time.time)
        self.lost: Counter[str] = Counter()
        self.written = 0
        self.log: ExchangeLog

    def start(
        self,
        prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda record: record,
        **limits: Any,
    ) -> ExchangeLog:
        self.log = ExchangeLog(
            self.disk,
            ExchangeLogSettings(**limits),
            prepare=prepare,
            on_lost=lambda cause, count: self.lost.update({cause: count}),
            on_written=self._wrote,
            tick_s=0.02,
        )
        return self.log

    def _wrote(self, count: int) -> None:
        self.written += count

    def ids(self) -> list[Any]:
        paths = sorted(self.disk.folder.glob("*.jsonl*"))
        return [json.loads(line)["id"] for path in paths for line in path.read_bytes().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "log")
    yield bench
    bench.log.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def test_a_record_is_with_the_system_when_append_returns(bench: Bench) -> None:
    log = bench.start()
    assert log.wait_ready(10)
    for number in range(50):
        log.append({"id": number})
        assert bench.ids()[-1] == number
    log.close()
    assert bench.ids() == list(range(50))
    assert [file.records for file in bench.disk.finished()] == [50]
    assert (bench.written, bench.lost) == (50, {})


def test_records_before_the_first_file_wait_for_it(bench: Bench) -> None:
    log = bench.start()
    for number in range(5):
        log.append({"id": number})
    log.close()
    assert bench.ids() == list(range(5))


def test_a_file_is_finished_by_size(bench: Bench) -> None:
    log = bench.start(max_file_mb=0.01)
    for number in range(60):
        log.append({"id": number, "text": "x" * 1000})
        time.sleep(0.002)
    log.close()
    assert len(bench.disk.finished()) > 1
    assert sorted(bench.ids()) == list(range(60))


def test_a_file_is_finished_by_age(bench: Bench) -> None:
    log = bench.start(max_file_s=0.2)
    log.append({"id": 1})
    eventually(lambda: len(bench.disk.finished()) == 1)


def test_an_idle_log_leaves_no_files(bench: Bench) -> None:
    log = bench.start(max_file_s=0.05)
    assert log.wait_ready(10)
    time.sleep(0.4)
    assert len(list(bench.disk.folder.iterdir())) <= 2
    log.close()
    assert list(bench.disk.folder.iterdir()) == []


@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_costs_nothing_when_it_comes_back(bench: Bench, refusal: int) -> None:
    log = bench.start()
    log.append({"id": 0})
    eventually(lambda: bench.written == 1)
    bench.disk.refusal = refusal
    began = time.perf_counter()
    for number in range(1, 300):
        log.append({"id": number})
    assert time.perf_counter() - began < 2
    bench.disk.refusal = None
    eventually(lambda: bench.written == 300)
    log.append({"id": 300})
    log.close()
    assert (bench.ids(), bench.lost) == (list(range(301)), {})


def test_what_a_full_disk_never_takes_is_counted(bench: Bench) -> None:
    bench.disk.refusal = errno.ENOSPC
    log = bench.start()
    text = "x" * 1_000_000
    for number in range(60):
        log.append({"id": number, "text": text})
    log.close()
    log.append({"id": 61})
    assert bench.lost["queue_full"] >= 20
    assert bench.lost.total() == 61
    assert bench.lost["closed"] == 1


def test_a_folder_that_cannot_exist_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    bench = Bench(tmp_path / "file" / "log")
    log = bench.start()
    log.append({"id": 1})
    assert not log.wait_ready(0.1)
    log.close()
    assert bench.lost == {"shutdown": 1}


def test_a_folder_that_vanishes_is_made_again(bench: Bench) -> None:
    log = bench.start()
    assert log.wait_ready(10)
    log.append({"id": 1})
    shutil.rmtree(bench.disk.folder)
    eventually(lambda: bench.lost["file_removed"] == 1)
    eventually(lambda: bench.disk.folder.exists())
    log.append({"id": 2})
    log.close()
    assert (bench.ids(), bench.lost) == ([2], {"file_removed": 1})


def test_the_bound_on_the_disk_drops_the_oldest_and_counts(bench: Bench) -> None:
    log = bench.start(max_disk_mb=0.2)
    for number in range(600):
        log.append({"id": number, "text": "x" * 1000})
        if number % 10 == 0:
            time.sleep(0.01)
    log.close()
    size = sum(path.stat().st_size for path in bench.disk.folder.iterdir())
    kept = bench.ids()
    assert size <= 0.2 * 2**20
    assert kept[-1] == 599
    assert bench.lost == {"disk_bound": 600 - len(kept)}


def test_what_a_dead_process_left_is_finished(bench: Bench) -> None:
    dead = LogFolder(bench.disk.folder, "chat", "dead", time.time).open_next()
    os.write(dead.fd, b'{"id": 1}\n{"id"')
    os.close(dead.fd)
    bench.start()
    eventually(lambda: len(bench.disk.finished()) == 1)
    assert bench.disk.finished()[0].records == 1
    assert bench.lost == {"killed": 1}


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"id": 10**5000}, "encoding"),
        ({"text": "x" * MAX_LINE_BYTES}, "too_long"),
        ({"text": "bad"}, "masking"),
    ],
)
def test_a_record_that_cannot_be_written_is_counted(
    bench: Bench, record: Mapping[str, Any], cause: str
) -> None:
    def prepare(given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("text") == "bad":
            raise RuntimeError("masking broke")
        return given

    log = bench.start(prepare)
    log.append(record)
    log.append({"id": "next"})
    log.close()
    assert (bench.lost, bench.ids()) == ({cause: 1}, ["next"])


def test_a_record_that_holds_itself_is_counted(bench: Bench) -> None:
    record: dict[str, Any] = {}
    record["self"] = record
    log = bench.start()
    log.append(record)
    log.close()
    assert bench.lost == {"encoding": 1}


def test_counting_that_breaks_does_not_reach_the_caller(tmp_path: Path) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no counting today")

    log = ExchangeLog(
        LogFolder(tmp_path, "chat", "h", time.time),
        ExchangeLogSettings(),
        prepare=lambda record: record,
        on_lost=broken,
        on_written=broken,
        tick_s=0.02,
    )
    log.append({"id": 1})
    log.append({"id": 10**5000})
    log.append(None)  # type: ignore[arg-type]
    log.close()
    assert '{"id":1}' in "".join(path.read_text() for path in tmp_path.iterdir())


def test_many_threads_write_whole_lines(bench: Bench) -> None:
    log = bench.start(max_file_mb=0.02)

    def work(name: int) -> None:
        for number in range(200):
            log.append({"id": f"{name}-{number}", "text": "y" * 200})

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    expected = {f"{name}-{number}" for name in range(8) for number in range(200)}
    assert (set(bench.ids()), len(bench.ids()), bench.lost) == (expected, 1600, {})


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"a": float("nan"), "b": [float("-inf"), 1.5]}, '{"a":null,"b":[null,1.5]}'),
        ({"t": "a\nb\u2028"}, '{"t":"a\\nb\u2028"}'),
        ({"t": "half \ud83d"}, '{"t":"half \\ud83d"}'),
        ({"t": (1, 2), "s": Path("x"), 3: None}, '{"t":[1,2],"s":"x","3":null}'),
    ],
)
def test_every_line_is_standard_json(record: Mapping[str, Any], line: str) -> None:
    text = encoded(record).decode()
    assert text == line + "\n"
    json.loads(text, parse_constant=lambda _: pytest.fail("no standard JSON"))
