"""The exchange log under ``kill -9`` and without S3: what is lost, and that it is counted.

A child process appends records at a fixed rate, as the guarded server's event loop does, and notes in
shared memory which ``append`` has returned; it is killed at a random moment, the folder is recovered,
and acknowledged records are compared with those found. Then the log of this process is shipped to a
real S3 server (moto) that comes up after one hour of log time, once with room on the disk for all of
it and once without.
"""

from __future__ import annotations

import argparse
import gzip
import json
import mmap
import os
import platform
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from quality_lib.adapters.machine.ports import LOOPBACK, free_port
from quality_lib.adapters.stack.s3_contents import CREDENTIALS
from quality_lib.exchanges.log_name import LogName
from quality_lib.exchanges.masking import mask_text
from quality_lib.serving.log_files import LogFolder
from quality_lib.serving.metrics import GuardMetrics
from quality_lib.serving.recording import start_recording
from quality_lib.settings import ExchangeLogSettings

BUCKET = "exchanges"
WORDS = "The harbour was quiet when the last ferry of the day came in from the island. " * 13
COUNTER = struct.Struct("<q")


def record(number: int, *, detail: bool) -> dict[str, Any]:
    """Return an exchange of about 200 answer tokens."""
    response: dict[str, Any] = {"text": WORDS, "finish_reason": "stop"}
    if detail:
        response |= {"token_ids": list(range(200)), "logprobs": [-0.1234] * 200}
    return {
        "id": f"chatcmpl-{number}",
        "started_at": "2026-01-01T00:00:00Z",
        "service": "chat",
        "snapshot_id": "0" * 64,
        "detail": detail,
        "request": {
            "messages": [{"role": "user", "content": WORDS[:300]}],
            "params": {"temperature": 0.7},
        },
        "response": response,
        "usage": {"prompt_tokens": 60, "completion_tokens": 200},
        "gates": [
            {"gate": f"gate_{i}", "level": 4, "outcome": "PASSED", "reason": "fine"}
            for i in range(20)
        ],
    }


# --- killed -----------------------------------------------------------------------------------------


def child(folder: Path, shared: Path, rate: float) -> None:
    """Append until killed; a tenth of the records with token ids and log-probabilities."""
    settings = ExchangeLogSettings(folder=folder, max_file_mb=4, max_file_s=0.5)
    recording = start_recording(settings, "chat", GuardMetrics(CollectorRegistry()))
    assert recording is not None
    with shared.open("r+b") as file, mmap.mmap(file.fileno(), COUNTER.size) as acknowledged:
        began = time.perf_counter()
        number = 0
        while True:
            number += 1
            recording.append(record(number, detail=number % 10 == 0))
            COUNTER.pack_into(acknowledged, 0, number)
            if (ahead := began + number / rate - time.perf_counter()) > 0.002:
                time.sleep(ahead)


def killed_once(rate: float, run_s: float) -> tuple[int, int, int, float]:
    """Return records acknowledged, records lost, lines cut, and records a second."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, shared = Path(temporary, "log"), Path(temporary, "shared")
        shared.write_bytes(COUNTER.pack(0))
        command = [sys.executable, __file__, "--child", str(folder), str(shared), str(rate)]
        process = subprocess.Popen(command)
        try:
            while not _acknowledged(shared):
                time.sleep(0.01)
            began, first = time.perf_counter(), _acknowledged(shared)
            time.sleep(run_s)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        acknowledged = _acknowledged(shared)
        speed = (acknowledged - first) / (time.perf_counter() - began)
        recovered = LogFolder(folder, "chat", "after", time.time).recover()
        found = set(_ids(folder))
        lost = sum(f"chatcmpl-{n}" not in found for n in range(1, acknowledged + 1))
        return acknowledged, lost, recovered.cut_lines, speed


def _acknowledged(shared: Path) -> int:
    return int(COUNTER.unpack(shared.read_bytes())[0])


def _ids(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        if (name := LogName.parse(path.name)) is not None:
            assert name.records is not None, path
            lines = path.read_bytes().splitlines()
            assert len(lines) == name.records
            yield from (json.loads(line)["id"] for line in lines)


def measure_kills(kills: int, rate: float) -> dict[str, Any]:
    runs = [killed_once(rate, random.uniform(0.2, 1.2)) for _ in range(kills)]
    return {
        "kills": kills,
        "asked_records_s": rate,
        "median_records_s": round(statistics.median(run[3] for run in runs)),
        "acknowledged": sum(run[0] for run in runs),
        "acknowledged_and_lost": sum(run[1] for run in runs),
        "worst_lost_per_kill": max(run[1] for run in runs),
        "half_lines_cut": sum(run[2] for run in runs),
    }


# --- what it costs the caller -----------------------------------------------------------------------


def measure_cost(records: int = 1500) -> dict[str, float]:
    """Return processor time per call in microseconds, the best of five rounds on a busy machine."""
    with tempfile.TemporaryDirectory() as temporary:
        settings = ExchangeLogSettings(folder=Path(temporary))
        recording = start_recording(settings, "chat", GuardMetrics(CollectorRegistry()))
        assert recording is not None
        text, detail = record(1, detail=False), record(1, detail=True)
        ordinary = WORDS[:1024]
        assert len(ordinary.encode()) > 900
        costs = {
            "append_text_us": _cost(lambda: recording.append(text), records),
            "append_with_detail_us": _cost(lambda: recording.append(detail), records),
            "masking_us_per_kb": _cost(lambda: mask_text(ordinary), records),
        }
        recording.close()
        return costs


def _cost(call: Callable[[], object], count: int) -> float:
    rounds = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(count):
            call()
        rounds.append((time.thread_time() - began) / count)
    return round(min(rounds) * 1e6, 1)


# --- without S3 -------------------------------------------------------------------------------------


@contextmanager
def s3_server(port: int) -> Generator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert time.monotonic() < deadline, "moto did not start"
            time.sleep(0.2)
        s3_client(port).create_bucket(Bucket=BUCKET)
        yield
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://{LOOPBACK}:{port}/moto-api/", timeout=1, trust_env=False)
    except httpx.HTTPError:
        return False
    return True


def s3_client(port: int) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=f"http://{LOOPBACK}:{port}")


def shipped_ids(port: int) -> list[str]:
    client, ids = s3_client(port), []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for item in page.get("Contents", ()):
            body = client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read()
            ids += [json.loads(line)["id"] for line in gzip.decompress(body).splitlines()]
    return ids


def measure_outage(down_s: float, rate: float, max_disk_mb: float) -> dict[str, Any]:
    """Record for ``down_s`` seconds that the log takes for one hour, while S3 is down."""
    port = free_port()
    os.environ |= {
        **CREDENTIALS,
        "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{port}",
        "NO_PROXY": LOOPBACK,
    }
    registry = CollectorRegistry()
    start = time.time()

    def clock() -> float:
        return start + (time.time() - start) * 3600 / down_s

    with tempfile.TemporaryDirectory() as temporary:
        settings = ExchangeLogSettings(
            folder=Path(temporary, "log"), ship_to=f"s3://{BUCKET}/logs", max_disk_mb=max_disk_mb
        )
        recording = start_recording(settings, "chat", GuardMetrics(registry), clock=clock)
        assert recording is not None
        number, took, most = 0, [], 0
        began = time.perf_counter()
        while (now := time.perf_counter()) - began < down_s:
            number += 1
            recording.append(record(number, detail=number % 10 == 0))
            took.append(time.perf_counter() - now)
            if number % 200 == 0:
                most = max(most, _size(Path(temporary, "log")))
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        outage_s = clock() - start
        back = time.perf_counter()
        with s3_server(port):
            _wait_until_shipped(Path(temporary, "log"))
            caught_up_s = time.perf_counter() - back
            recording.close(20)
            ids = shipped_ids(port)
        left = _size(Path(temporary, "log"))
    lost = _lost(registry)
    return {
        "log_time_without_s3_s": round(outage_s),
        "max_disk_mb": max_disk_mb,
        "appended": number,
        "failed_appends": 0,
        "longest_append_ms": round(max(took) * 1e3, 2),
        "median_append_us": round(statistics.median(took) * 1e6),
        "in_s3": len(set(ids)),
        "twice_in_s3": len(ids) - len(set(ids)),
        "counted_as_lost": lost,
        "unaccounted": number - len(set(ids)) - sum(lost.values()),
        "most_mb_on_disk": round(most / 2**20, 1),
        "bytes_left": left,
        "caught_up_after_s": round(caught_up_s, 1),
    }


def _wait_until_shipped(folder: Path) -> None:
    """Wait until no finished file is left; at most two of the longest pauses."""
    deadline = time.monotonic() + 130
    while time.monotonic() < deadline:
        if not any(name.endswith(".jsonl") for name in os.listdir(folder)):  # noqa: PTH208
            return
        time.sleep(0.2)


def _size(folder: Path) -> int:
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat().st_size
        except FileNotFoundError:
            continue
    return total


def _lost(registry: CollectorRegistry) -> dict[str, int]:
    found: Counter[str] = Counter()
    for metric in registry.collect():
        for sample in metric.samples:
            if sample.name == "vllm_quality_records_lost_total":
                found[sample.labels["cause"]] += int(sample.value)
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument(
        "--rate", type=float, default=2000.0, help="records a second until the kill"
    )
    parser.add_argument("--down-s", type=float, default=30.0, help="seconds that pass as one hour")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.child:
        folder, shared, rate = args.child
        child(Path(folder), Path(shared), float(rate))
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        "load_1min": round(os.getloadavg()[0], 1),
        "cost": measure_cost(),
        "killed": measure_kills(args.kills, args.rate),
        "s3_down_with_room": measure_outage(args.down_s, 200, 2048),
        "s3_down_without_room": measure_outage(args.down_s, 200, 8),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if is_good(result) else 1)


def is_good(result: dict[str, Any]) -> bool:
    """Whether the promises hold: one record per kill, nothing unaccounted, the disk bound, the cost."""
    room, none = result["s3_down_with_room"], result["s3_down_without_room"]
    return bool(
        result["killed"]["worst_lost_per_kill"] <= 1
        and result["cost"]["masking_us_per_kb"] <= 20
        and room["in_s3"] == room["appended"]
        and room["unaccounted"] == none["unaccounted"] == 0
        and none["counted_as_lost"].get("disk_bound", 0) > 0
        and none["most_mb_on_disk"] <= none["max_disk_mb"]
    )


if __name__ == "__main__":
    main()
