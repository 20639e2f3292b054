"""Files of the exchange log: whole lines, finished, recovered after a crash, bounded."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quality_lib.exchanges.log_name import LogName
from quality_lib.serving.log_files import LogFolder, OpenLogFile, Recovered, taken

LINE = b'{"id":"x"}\n'


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path, clock: Clock) -> LogFolder:
    return LogFolder(tmp_path / "log", "chat", "host_1", clock)


def crashed(folder: LogFolder, content: bytes) -> OpenLogFile:
    """Return a file as a killed process leaves it: the kernel has closed it."""
    file = folder.open_next()
    os.write(file.fd, content)
    os.close(file.fd)
    return file


def test_a_file_is_private_and_named_open_until_it_is_finished(folder: LogFolder) -> None:
    file = folder.open_next()
    file.write(LINE * 3, 3)
    assert file.path.name == "chat-host_1-20270115T080000Z-000001.jsonl.open"
    assert folder.finished() == []
    done = folder.finish(file)
    assert done is not None
    assert done.path.name == "chat-host_1-20270115T080000Z-000001-n3.jsonl"
    assert (done.records, done.size, done.path.read_bytes()) == (3, 33, LINE * 3)
    assert done.path.stat().st_mode & 0o777 == 0o600
    assert folder.folder.stat().st_mode & 0o777 == 0o700
    assert folder.finished() == [done]


def test_an_empty_file_leaves_nothing(folder: LogFolder) -> None:
    assert folder.finish(folder.open_next()) is None
    assert list(folder.folder.iterdir()) == []


def test_a_name_that_is_taken_is_left_alone(folder: LogFolder, clock: Clock) -> None:
    first = folder.open_next()
    again = LogFolder(folder.folder, "chat", "host_1", clock).open_next()
    assert first.path != again.path
    folder.finish(first)
    folder.finish(again)


@pytest.mark.parametrize(
    ("content", "kept", "recovered"),
    [
        (LINE * 2, LINE * 2, Recovered(1, 2, 0)),
        (LINE * 2 + b'{"id":', LINE * 2, Recovered(1, 2, 1)),
        (b'{"id":', None, Recovered(0, 0, 1)),
        (b"", None, Recovered()),
        (b'{"a":"' + b"x" * 3_000_000, None, Recovered(0, 0, 1)),
        (LINE * 200_000 + b"{", LINE * 200_000, Recovered(1, 200_000, 1)),
    ],
)
def test_what_a_dead_process_left(
    folder: LogFolder, content: bytes, kept: bytes | None, recovered: Recovered
) -> None:
    crashed(folder, content)
    assert folder.recover() == recovered
    assert [file.path.read_bytes() for file in folder.finished()] == ([kept] if kept else [])
    assert folder.recover() == Recovered()


def test_a_file_that_is_being_written_is_left_alone(folder: LogFolder, clock: Clock) -> None:
    file = folder.open_next()
    file.write(LINE)
    other = LogFolder(folder.folder, "chat", "host_2", clock)
    assert other.recover() == Recovered()
    file.write(LINE)
    assert folder.finish(file) is not None
    assert other.finished()[0].path.read_bytes() == LINE * 2


def test_a_killed_process_loses_its_lock(tmp_path: Path, clock: Clock) -> None:
    script = (
        "import sys, time; from pathlib import Path; from quality_lib.serving.log_files import LogFolder\n"
        "f = LogFolder(Path(sys.argv[1]), 'chat', 'other', time.time).open_next()\n"
        'f.write(b\'{"id":1}\\n\'); print("ready", flush=True); time.sleep(60)'
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        folder = LogFolder(tmp_path, "chat", "me", clock)
        assert folder.recover() == Recovered()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.recover() == Recovered(1, 1, 0)


def test_files_of_others_are_neither_recovered_nor_dropped(folder: LogFolder) -> None:
    folder.folder.mkdir()
    (folder.folder / "notes.jsonl.open").write_bytes(b"x" * 1000)
    (folder.folder / "notes.jsonl").write_bytes(b"x" * 1000)
    outside = folder.folder.parent / "outside"
    outside.write_bytes(b"half a line")
    link = folder.folder / "chat-host_1-20270115T080000Z-000009.jsonl.open"
    link.symlink_to(outside)
    assert folder.recover() == Recovered()
    assert folder.make_room(1, 1) == []
    assert outside.read_bytes() == b"half a line"


def test_the_oldest_files_make_room(folder: LogFolder, clock: Clock) -> None:
    for count in (1, 2, 3):
        file = folder.open_next()
        file.write(LINE * count, count)
        folder.finish(file)
        clock.now += 60
    removed = folder.make_room(5 * len(LINE), 0)
    assert [file.records for file in removed] == [1]
    assert [file.records for file in folder.finished()] == [2, 3]


def test_a_file_that_is_being_shipped_is_not_dropped(folder: LogFolder, clock: Clock) -> None:
    for _ in range(2):
        file = folder.open_next()
        file.write(LINE)
        folder.finish(file)
        clock.now += 60
    oldest, newest = folder.finished()
    with taken(oldest.path) as fd:
        assert fd is not None
        assert [file.path for file in folder.make_room(1, 0)] == [newest.path]


def test_open_files_are_part_of_the_bound(folder: LogFolder) -> None:
    done = folder.open_next()
    done.write(LINE * 10, 10)
    folder.finish(done)
    still = folder.open_next()
    assert folder.make_room(150, 20) == []
    assert len(folder.make_room(150, 60)) == 1
    folder.finish(still)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path, clock: Clock) -> None:
    folder = LogFolder(tmp_path / "nowhere", "chat", "h", clock)
    assert (folder.finished(), folder.recover(), folder.make_room(1, 1)) == ([], Recovered(), [])


def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing(folder: LogFolder) -> None:
    file = folder.open_next()
    file.write(LINE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel takes what fits and reports the rest, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINE) + 100, hard))
    try:
        with pytest.raises(OSError) as refused:
            file.write(b"x" * 5000)
        file.write(LINE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.errno in {errno.ENOSPC, errno.EFBIG}
    done = folder.finish(file)
    assert done is not None
    assert done.path.read_bytes() == LINE * 2


def test_a_full_device_refuses(tmp_path: Path) -> None:
    name = LogName.parse("chat-h-20270115T080000Z-000001.jsonl.open")
    assert name is not None
    file = OpenLogFile(tmp_path / str(name), name, os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match="No space left"):
        file.write(LINE)
    assert file.records == 0
    os.close(file.fd)


def test_a_removed_file_is_noticed(folder: LogFolder) -> None:
    file = folder.open_next()
    assert not file.has_vanished
    file.path.unlink()
    assert file.has_vanished
    folder.finish(file)


def test_many_processes_share_a_folder(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from quality_lib.serving.log_files import LogFolder\n"
        "folder = LogFolder(Path(sys.argv[1]), 'chat', sys.argv[2], time.time)\n"
        "for n in range(40):\n"
        "    file = folder.open_next(); file.write(b'{}\\n'); folder.recover(); folder.finish(file)\n"
    )
    started = time.monotonic()
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), f"p{n}"]) for n in range(4)
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    assert time.monotonic() - started < 60
    files = LogFolder(tmp_path, "chat", "me", time.time).finished()
    assert (len(files), sum(file.records for file in files)) == (160, 160)
