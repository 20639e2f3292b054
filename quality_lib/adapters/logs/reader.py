"""Reads one partition of a window of a service's log into a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

from quality_lib.adapters.logs.parquet_entries import parquet_entries
from quality_lib.exchanges.entries import MIB, Broken, Entry, entries
from quality_lib.exchanges.field_map import compile_fields, mapped_records
from quality_lib.exchanges.json_fields import when
from quality_lib.exchanges.key_hash import KeyHash, key_hash
from quality_lib.exchanges.langfuse import langfuse
from quality_lib.exchanges.layout import LITELLM, prefixes
from quality_lib.exchanges.litellm import litellm
from quality_lib.exchanges.log_name import OPEN, LogName, safe_name
from quality_lib.exchanges.openai_batch import rows_of_batch
from quality_lib.exchanges.own_records import own_records
from quality_lib.exchanges.ports import LogObject, LogStore, ObjectGone
from quality_lib.exchanges.reading import rows_of_entries
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Row, Scored
from quality_lib.exchanges.sampling import Sampler, SampleResult
from quality_lib.exchanges.source import Reader, Source
from quality_lib.exchanges.watermark import Watermark, seen_entry
from quality_lib.exchanges.window import Listing, Partition, Window
from quality_lib.settings import LogSettings

SMALL = 4 * MIB
"""Objects up to this size are fetched ahead, several at once; longer ones are streamed."""
FETCHERS = 8
LONGEST_SHIPPING = timedelta(days=7)
"""However old exchanges may be, no more hours than these are listed, one request each."""
_UNFINISHED = (OPEN, ".tmp", ".part", ".partial", ".crc", ".md5", ".sha256")

Progress = Callable[[int, int], None]
"""Called with the objects read and the objects to read."""


def list_window(
    store: LogStore,
    source: LogSettings,
    window: Window,
    *,
    service: str,
    watermark: Watermark | None = None,
) -> Listing:
    """Count the objects of a window: what ``partitions`` needs to divide it.

    Raises:
        OutsideFailure: when the store cannot be listed.
    """
    objects = size = 0
    for found in _objects(store, source, window, service, watermark):
        if found.is_new:
            objects += 1
            size += found.object.size
    return Listing(objects, size)


def read_window(
    store: LogStore,
    source: LogSettings,
    partition: Partition,
    *,
    service: str,
    watermark: Watermark | None = None,
    progress: Progress = lambda done, of: None,
) -> SampleResult:
    """Read and sample one partition; the same partition and watermark give the same sample again.

    Raises:
        OutsideFailure: when the store cannot be read.
    """
    window, limits = partition.window, source.sample
    picked, seen = _picked(store, source, partition, service, watermark)
    sampler = Sampler(
        seed=f"{limits.seed}|{window.start.isoformat()}",
        max_rows=-(-limits.max_rows // partition.count),
        min_per_stratum=-(-limits.min_per_stratum // partition.count),
    )
    rows_of = _rows_of(store, source, service)
    oldest = window.start - timedelta(hours=source.reading.max_age_hours)
    for blocks, (found, weight) in _fetched(store, picked):
        try:
            for row in rows_of(blocks, found.key):
                sampler.add(_fresh(row, oldest), weight)
        except ObjectGone:
            sampler.add(BadLine(found.key, 1, "was deleted before it could be read"))
            sampler.gone += 1
        sampler.objects += 1
        progress(sampler.objects, len(picked))
    return sampler.result(tuple(seen))


def _fresh(row: Row, oldest: datetime) -> Row:
    """Drop what an archive, copied in, has brought; an exchange without a time passes."""
    if isinstance(row, Scored):
        began = when(row.exchange.started_at)
        if began is not None and began < oldest:
            return Dropped(DropReason.OUTSIDE_WINDOW, row.key, row.line, row.request_id)
    return row


@dataclass(frozen=True)
class _Found:
    object: LogObject
    hashed: KeyHash
    is_new: bool
    """It arrived in the window; else it lies in the look-back."""


def _objects(
    store: LogStore,
    source: LogSettings,
    window: Window,
    service: str,
    watermark: Watermark | None,
) -> Iterator[_Found]:
    """Give the finished objects that arrived in the window or its look-back.

    After a pause the look-back may reach behind what the watermark remembers: nothing is told of that.
    """
    lookback = timedelta(minutes=source.reading.lookback_minutes)
    earliest = window.start - lookback if watermark else window.start
    named = prefixes(
        _layouts(source, service),
        window,
        _oldest_name(source),
        timedelta(hours=source.layout_offset_hours),
    )
    for prefix in named:
        for found in store.objects(prefix):
            if earliest <= found.changed_at < window.end and _is_log(found, source, service):
                hashed = key_hash(source.sample.seed, found.key)
                yield _Found(found, hashed, found.changed_at >= window.start)


def _oldest_name(source: LogSettings) -> timedelta:
    """Return how long before the window the name of an object that arrives in it may lie.

    The guarded server ships its files again and again until the store takes them, and they keep the hour
    in which they were opened. It writes few, so a day of them is listed with some 25 requests. Gateways
    write an object per request and do not try again for long.
    """
    reading = source.reading
    lookback = timedelta(minutes=reading.lookback_minutes)
    if source.format != "own":
        return lookback
    return max(lookback, min(timedelta(hours=reading.max_age_hours), LONGEST_SHIPPING))


def _layouts(source: LogSettings, service: str) -> tuple[str, ...]:
    if source.layout is not None:
        return source.layout
    if source.format == "litellm":
        return LITELLM
    if source.format == "own" and source.source is None:
        # As the guard's files lie in its folder, and as they are shipped.
        name = safe_name(service).replace("%", "")
        return (f"{name}/dt=%Y-%m-%d/hour=%H/", f"{name}-")
    return ()


def _is_log(found: LogObject, source: LogSettings, service: str) -> bool:
    name = found.key.rsplit("/", 1)[-1]
    if not found.size or name.startswith((".", "_SUCCESS")) or name.endswith(_UNFINISHED):
        return False
    if source.format == "openai_batch":
        return name.removesuffix(".gz").endswith(source.batch_names[1])
    if source.format == "own" and source.source is None:
        # Other services of the server's machine may write to the same place.
        known = LogName.parse(name.removesuffix(".gz"))
        return known is not None and known.service == safe_name(service)
    return True


def _picked(
    store: LogStore,
    source: LogSettings,
    partition: Partition,
    service: str,
    watermark: Watermark | None,
) -> tuple[list[tuple[LogObject, float]], list[str]]:
    """Choose the objects that are read, with what each stands for, and what to remember of them."""
    window = partition.window
    remember = window.end - timedelta(minutes=source.reading.lookback_minutes)
    picked, seen = [], []
    for found in _objects(store, source, window, service, watermark):
        hashed = found.hashed
        if hashed.partition(partition.count) != partition.index:
            continue
        if found.is_new:
            known, rate = hashed.position < partition.key_rate, partition.key_rate
            is_read = known
        else:
            known = watermark is not None and hashed.position < watermark.seen_rate
            is_read = known and watermark is not None and watermark.is_late(hashed)
            rate = watermark.seen_rate if watermark else 1.0
        if is_read:
            picked.append((found.object, 1 / rate))
        if known and found.object.changed_at >= remember:
            seen.append(seen_entry(hashed))
    return picked, seen


def _fetched(
    store: LogStore, picked: list[tuple[LogObject, float]]
) -> Iterator[tuple[Iterable[bytes], tuple[LogObject, float]]]:
    """Give the contents in order; small objects are fetched ahead, at most ``2 * FETCHERS`` of them."""
    pool = ThreadPoolExecutor(FETCHERS, thread_name_prefix="log-fetch")
    ahead: list[Future[list[bytes]] | None] = []
    started = 0
    try:
        for item in picked:
            while started < len(picked) and len(ahead) < 2 * FETCHERS:
                coming = picked[started][0]
                ahead.append(
                    pool.submit(_content, store, coming.key) if coming.size <= SMALL else None
                )
                started += 1
            waiting = ahead.pop(0)
            yield (store.blocks(item[0].key) if waiting is None else _awaited(waiting)), item
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _awaited(fetched: Future[list[bytes]]) -> Iterator[bytes]:
    yield from fetched.result()


def _content(store: LogStore, key: str) -> list[bytes]:
    return list(store.blocks(key))


def _rows_of(
    store: LogStore, source: LogSettings, service: str
) -> Callable[[Iterable[bytes], str], Iterator[Row]]:
    whose = Source(service, frozenset(source.models))
    if source.format != "openai_batch":
        reader = _reader(source, whose)
        return lambda blocks, key: rows_of_entries(_entries(blocks, key, source), key, reader)

    def pair(blocks: Iterable[bytes], key: str) -> Iterator[Row]:
        return rows_of_batch(
            _entries(blocks, key, source), lambda: _inputs(store, source, key), whose, key
        )

    return pair


def _reader(source: LogSettings, whose: Source) -> Reader:
    if source.format == "litellm":
        return litellm(whose)
    if source.format == "langfuse":
        return langfuse(whose)
    if source.format == "fields":
        return mapped_records(compile_fields(source.fields), whose)
    return own_records(whose)


def _entries(blocks: Iterable[bytes], key: str, source: LogSettings) -> Iterator[Entry | Broken]:
    if key.endswith(".parquet"):
        return parquet_entries(blocks, source.reading)
    return entries(blocks, source.reading)


def _inputs(store: LogStore, source: LogSettings, key: str) -> Iterator[Entry | Broken]:
    """Read the input file of a batch; where there is none, no line."""
    packed = ".gz" if key.endswith(".gz") else ""
    stem = key.removesuffix(".gz").removesuffix(source.batch_names[1]) + source.batch_names[0]
    for name in dict.fromkeys((stem + packed, stem, f"{stem}.gz")):
        try:
            yield from entries(store.blocks(name), source.reading)
        except ObjectGone:
            continue
        return
