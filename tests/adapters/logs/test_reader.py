"""Windows of real log folders: every format, late objects, partitions, reruns, damage."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.logs.local import LocalLogs
from quality_lib.adapters.logs.reader import list_window, read_window
from quality_lib.adapters.logs.store import store_at
from quality_lib.errors import OutsideFailure
from quality_lib.exchanges.log_limits import ReadLimits, SampleLimits
from quality_lib.exchanges.ports import LogObject
from quality_lib.exchanges.row import DropReason
from quality_lib.exchanges.sampling import Counts, SampleResult
from quality_lib.exchanges.watermark import Watermark, advanced
from quality_lib.exchanges.window import Listing, Window, partitions
from quality_lib.serving.log_files import LogFolder
from quality_lib.settings import LogSettings
from tests.exchanges.logs import LOGS
from tests.s3_server import s3, s3_url

__all__ = ["s3", "s3_url"]

START = datetime(2026, 11, 29, 19, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Window(START, START + HOUR)
LOOKBACK = timedelta(minutes=60)


def write(folder: Path, key: str, content: bytes | str, minutes: float = 10) -> None:
    """Write an object that arrived so many minutes after the window's start."""
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    arrived = (START + timedelta(minutes=minutes)).timestamp()
    os.utime(path, (arrived, arrived))


def record(name: str, text: str = "Hi", minutes: float = 5, **more: Any) -> str:
    began = (START + timedelta(minutes=minutes)).isoformat()
    return (
        json.dumps({"id": name, "started_at": began, "prompt": "Hello", "text": text, **more})
        + "\n"
    )


def own(folder: Path, **more: Any) -> LogSettings:
    return LogSettings(source=str(folder), **more)


def read(
    folder: Path,
    source: LogSettings,
    window: Window = WINDOW,
    watermark: Watermark | None = None,
    count: int = 1,
) -> tuple[list[SampleResult], Watermark]:
    store = LocalLogs(folder)
    listing = list_window(store, source, window, service="chat", watermark=watermark)
    parts = partitions(window, listing, count, source.sample)
    results = [read_window(store, source, p, service="chat", watermark=watermark) for p in parts]
    seen = [entry for result in results for entry in result.seen]
    return results, advanced(watermark, parts[0], seen, LOOKBACK)


def ids(*results: SampleResult) -> list[str]:
    return sorted(s.row.exchange.id for result in results for s in result.rows)


@pytest.mark.parametrize(
    ("name", "settings", "scored", "dropped"),
    [
        ("litellm", {"format": "litellm"}, 8, {"failure": 1}),
        (
            "langfuse",
            {"format": "langfuse", "models": ("chat",)},
            5,
            {"failure": 1, "cache_hit": 1, "own_probe": 1, "not_generation": 1, "redacted": 1, "other_service": 1},
        ),
        (
            "openai_batch",
            {"format": "openai_batch"},
            4,
            {"duplicate": 1, "failure": 1, "no_request": 1, "not_generation": 1},
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_from_a_folder(
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    scored: int,
    dropped: dict[str, int],
    packed: bool,
) -> None:
    for file in (LOGS / name).rglob("*"):
        if file.is_file():
            key = file.relative_to(LOGS / name).as_posix() + (".gz" if packed else "")
            content = file.read_bytes()
            write(tmp_path, key, gzip.compress(content) if packed else content, 50)
    ((result,), _) = read(tmp_path, LogSettings(source=str(tmp_path), **settings))
    assert result.counts.scored == result.counts.sampled == scored
    assert {str(k): v for k, v in result.counts.dropped.items()} == dropped
    assert result.counts.bad_lines == 0


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = (LOGS / "langfuse" / "observations.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        # As the export types them: times, and texts of JSON for what differs from row to row.
        row["start_time"] = datetime.fromisoformat(row["start_time"]).replace(tzinfo=UTC)
        for name in ("model_parameters", "metadata", "tool_definitions"):
            if isinstance(row.get(name), dict):
                row[name] = json.dumps(row[name])
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "o.parquet")
    write(tmp_path, "o.parquet", (tmp_path / "o.parquet").read_bytes())
    write(tmp_path, "broken.parquet", b"PAR1 rubbish")
    ((result,), _) = read(
        tmp_path, LogSettings(source=str(tmp_path), format="langfuse", models=("chat",))
    )
    assert result.counts.scored == 5
    assert result.counts.bad_lines == 1
    assert result.rows[0].row.exchange.started_at == "2026-11-29T19:41:21+00:00"


def test_windows_divide_the_objects_among_them(tmp_path: Path) -> None:
    for minutes in (-1, 0, 30, 59.99, 60, 61):
        write(tmp_path, f"{minutes}.jsonl", record(str(minutes)), minutes)
    source = own(tmp_path)
    ((first,), mark) = read(tmp_path, source)
    ((second,), _) = read(tmp_path, source, Window(WINDOW.end, WINDOW.end + HOUR), mark)
    assert ids(first) == ["0", "30", "59.99"]
    assert ids(second) == ["60", "61"]


def test_a_late_object_is_read_once_in_the_next_window(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", record("a"), 50)
    source = own(tmp_path)
    ((first,), mark) = read(tmp_path, source)
    # Dated into the window that was read already, as a store does with a long upload.
    write(tmp_path, "late.jsonl", record("late"), 45)
    second_window = Window(WINDOW.end, WINDOW.end + timedelta(minutes=10))
    ((second,), mark) = read(tmp_path, source, second_window, mark)
    ((third,), _) = read(
        tmp_path, source, Window(second_window.end, second_window.end + timedelta(minutes=10)), mark
    )
    assert (ids(first), ids(second), ids(third)) == (["a"], ["late"], [])


def test_a_rerun_takes_the_same_rows(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, f"f-{number}.jsonl", "".join(record(f"{number}-{i}") for i in range(20)))
    source = own(tmp_path, sample=SampleLimits(max_rows=100, min_per_stratum=0, max_objects=20))
    (first, mark) = read(tmp_path, source, count=3)
    (again, mark_again) = read(tmp_path, source, count=3)
    assert first == again
    assert mark == mark_again
    assert 60 <= len(ids(*first)) <= 102


def test_partitions_read_everything_once(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"f-{number}.jsonl", record(f"r-{number}"))
    for count in (1, 4, 9):
        results, _ = read(tmp_path, own(tmp_path), count=count)
        assert len(results) == count
        assert ids(*results) == sorted(f"r-{n}" for n in range(60))
        assert sum((r.counts for r in results), Counts()).objects == 60


def test_keys_are_sampled_and_weights_tell_how(tmp_path: Path) -> None:
    for number in range(1000):
        write(tmp_path, f"time-{number}.json", record(f"r-{number}"))
    source = own(tmp_path, sample=SampleLimits(max_objects=200))
    ((result,), _) = read(tmp_path, source)
    assert result.counts.objects == pytest.approx(200, abs=60)
    assert {s.weight for s in result.rows} == {5.0}


def test_only_finished_logs_are_read(tmp_path: Path) -> None:
    for name in ("a.jsonl.open", "a.jsonl.tmp", ".a.jsonl", "_SUCCESS", "a.jsonl.part"):
        write(tmp_path, name, record(name))
    write(tmp_path, "empty.jsonl", "")
    write(tmp_path, "a.jsonl", record("a"))
    ((result,), _) = read(tmp_path, own(tmp_path))
    assert ids(result) == ["a"]


def test_the_guards_folder_is_read_by_its_own_names(tmp_path: Path) -> None:
    stamp = "20261129T190500Z-000001"
    write(tmp_path, f"chat-host.1.ab-{stamp}-n1.jsonl", record("flat", service="chat"))
    write(tmp_path, f"chat-eu-host.1.ab-{stamp}-n1.jsonl", record("other", service="chat-eu"))
    write(tmp_path, f"chat-host.1.ab-{stamp}.jsonl.open", record("open", service="chat"))
    shipped = f"chat/dt=2026-11-29/hour=19/chat-host.1.ab-{stamp}-n1.jsonl.gz"
    write(tmp_path, shipped, gzip.compress(record("shipped", service="chat").encode()))
    ((result,), _) = read(tmp_path, LogSettings())
    assert ids(result) == ["flat", "shipped"]
    assert result.counts.objects == 2


def test_files_that_were_shipped_late_are_found_under_the_hour_they_were_opened_in(
    tmp_path: Path,
) -> None:
    """S3 was away: what was opened before noon arrives hours later, in the window that is read now."""
    for hours, name in ((2, "two"), (20, "twenty")):
        opened = START - hours * HOUR
        stamp = f"{opened:%Y%m%dT%H%M%SZ}-000001"
        key = f"chat/dt={opened:%Y-%m-%d}/hour={opened:%H}/chat-host.1.ab-{stamp}-n1.jsonl.gz"
        write(tmp_path, key, gzip.compress(record(name, minutes=-60 * hours).encode()), 1)
        write(tmp_path, key.replace("-n1", "-n2"), gzip.compress(record("old").encode()), -120)
    ((result,), _) = read(tmp_path, LogSettings())
    assert ids(result) == ["twenty", "two"]


class Counting(LocalLogs):
    """A folder that counts how often it is listed."""

    listed = 0

    def objects(self, prefix: str = "") -> Iterator[LogObject]:
        self.listed += 1
        return super().objects(prefix)


def test_a_day_of_the_guards_own_hours_is_listed_and_of_a_gateway_two(tmp_path: Path) -> None:
    found = []
    for source in (LogSettings(), LogSettings(source="s3://b", format="litellm")):
        store = Counting(tmp_path)
        list_window(store, source, WINDOW, service="chat")
        found.append(store.listed)
    assert found == [26, 6]
    store = Counting(tmp_path)
    years = LogSettings(reading=ReadLimits(max_age_hours=1e6))
    list_window(store, years, WINDOW, service="chat")
    assert store.listed == 7 * 24 + 2


def test_what_the_server_has_written_is_found(tmp_path: Path) -> None:
    """The writer's names, its open files and the reader agree."""
    now = datetime.now(UTC)
    folder = LogFolder(tmp_path, "my chat/v1", "host.7.ab12", now.timestamp)
    done, still_open = folder.open_next(), folder.open_next()
    done.write(record("done", service="my chat/v1").encode())
    still_open.write(record("open", service="my chat/v1").encode())
    folder.finish(done)
    window = Window(now - timedelta(minutes=1), now + timedelta(minutes=5))
    source = LogSettings(reading=ReadLimits(max_age_hours=1e6))
    (part,) = partitions(window, Listing(1, 1), 1, source.sample)
    result = read_window(LocalLogs(tmp_path), source, part, service="my chat/v1")
    folder.finish(still_open)
    assert ids(result) == ["done"]
    assert result.rows[0].row.facts.backend == "host.7.ab12"


def test_damage_is_counted_and_nothing_is_lost(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", record("a") + '{"id": "cut of\n' + record("b"))
    write(tmp_path, "b.jsonl.gz", gzip.compress(record("c").encode() * 2)[:-10])
    write(tmp_path, "c.jsonl", b"\xff\xfe\x00 rubbish")
    ((result,), _) = read(tmp_path, own(tmp_path))
    assert ids(result) == ["a", "b", "c"]
    # Of the packed file both the entry that was cut and the rest that is missing are told.
    assert [b.key for b in result.counts.bad_examples] == [
        "a.jsonl", "b.jsonl.gz", "b.jsonl.gz", "c.jsonl",
    ]  # fmt: skip


def test_an_archive_that_was_copied_in_is_no_traffic(tmp_path: Path) -> None:
    write(tmp_path, "old.jsonl", record("old", minutes=-60 * 30))
    write(
        tmp_path,
        "new.jsonl",
        record("new", minutes=-60 * 20) + json.dumps({"prompt": "a", "text": "b"}),
    )
    ((result,), _) = read(tmp_path, own(tmp_path))
    assert result.counts.dropped == {DropReason.OUTSIDE_WINDOW: 1}
    assert result.counts.scored == 2


class Vanishing(LocalLogs):
    """A folder whose files are deleted after they were listed."""

    def blocks(self, key: str) -> Iterator[bytes]:
        if key.startswith("gone"):
            shutil.rmtree(self._root / "gone", ignore_errors=True)
        yield from super().blocks(key)


def test_an_object_that_vanishes_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "gone/a.jsonl", record("a"))
    write(tmp_path, "stays.jsonl", record("b"))
    source, store = own(tmp_path), Vanishing(tmp_path)
    (part,) = partitions(
        WINDOW, list_window(store, source, WINDOW, service="chat"), 1, source.sample
    )
    result = read_window(store, source, part, service="chat")
    assert ids(result) == ["b"]
    assert [b.problem for b in result.counts.bad_examples] == [
        "was deleted before it could be read"
    ]
    assert (result.counts.objects, result.counts.gone) == (2, 1)


class Dead:
    """A store that lists but does not give."""

    def objects(self, prefix: str = "") -> Iterator[LogObject]:
        yield from (LogObject(f"{i}.jsonl", 10, START) for i in range(50))

    def blocks(self, key: str) -> Iterator[bytes]:
        raise OutsideFailure("the store does not answer")
        yield b""


def test_a_dead_store_is_no_empty_window() -> None:
    source = LogSettings(source="s3://bucket")
    (part,) = partitions(
        WINDOW, list_window(Dead(), source, WINDOW, service="chat"), 1, source.sample
    )
    with pytest.raises(OutsideFailure, match="does not answer"):
        read_window(Dead(), source, part, service="chat")


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.jsonl"
    outside.write_text(record("secret"))
    logs = tmp_path / "logs"
    write(logs, "a.jsonl", record("a"))
    (logs / "link.jsonl").symlink_to(outside)
    (logs / "folder").symlink_to(tmp_path)
    os.mkfifo(logs / "pipe.jsonl")
    assert [o.key for o in LocalLogs(logs).objects()] == ["a.jsonl"]
    (logs / "inside.jsonl").symlink_to(logs / "a.jsonl")
    assert [o.key for o in LocalLogs(logs).objects()] == ["a.jsonl", "inside.jsonl"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutsideFailure, match="no log folder"):
        list(LocalLogs(tmp_path / "nothing").objects())


def test_progress_is_told(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"{number}.jsonl", record(str(number)))
    source, store, told = own(tmp_path), LocalLogs(tmp_path), []
    (part,) = partitions(
        WINDOW, list_window(store, source, WINDOW, service="chat"), 1, source.sample
    )
    read_window(store, source, part, service="chat", progress=lambda *now: told.append(now))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_limits_of_reading_come_from_the_settings(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", record("a", text="x" * 5000) + record("b"))
    ((result,), _) = read(tmp_path, own(tmp_path, reading=ReadLimits(max_entry_mb=0.001)))
    assert ids(result) == ["b"]


@pytest.mark.stack
def test_what_a_gateway_writes_to_s3_now_is_read_from_there(s3: Any) -> None:
    s3.create_bucket(Bucket="gateway")
    now = datetime.now(UTC)
    for number, file in enumerate(sorted((LOGS / "litellm").rglob("*.json*"))):
        # By day and by hour, as LiteLLM's two settings put them.
        folder = f"{now:%Y-%m-%d}/{now:%H}/" if number % 2 else f"{now:%Y-%m-%d}/"
        name = file.name.replace("-19-41-", f"-{now:%H}-41-").replace("_19-41-", f"_{now:%H}-41-")
        s3.put_object(Bucket="gateway", Key=f"litellm/{folder}{name}", Body=file.read_bytes())
    s3.put_object(Bucket="gateway", Key="litellm/2020-01-01/time-01-01-01-1_x.json", Body=b"{}")
    source = LogSettings(
        source="s3://gateway/litellm", format="litellm", reading=ReadLimits(max_age_hours=1e6)
    )
    window = Window(now - timedelta(minutes=1), now + timedelta(minutes=5))
    store = store_at("s3://gateway/litellm")
    listing = list_window(store, source, window, service="chat")
    assert listing.objects == 5
    results = [
        read_window(store, source, part, service="chat")
        for part in partitions(window, listing, 2, source.sample)
    ]
    assert len(ids(*results)) == 8
    assert sum((r.counts for r in results), Counts()).dropped == {DropReason.FAILURE: 1}
