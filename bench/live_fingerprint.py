"""Cost of the live-weights fingerprint on a running server, and what requests notice of it.

Without an address a server of the packaged model is started for it. Read times are of the idle server;
pauses are gaps between streamed tokens of concurrent requests, with and without a reading.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.measures import machine
from bench.packaged import packaged_model
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running
from quality_lib.adapters.vllm.live_weights import LiveFingerprint, take_fingerprint

LIMIT_S = 0.5
START_TIMEOUT_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint", nargs="?", help="a running server; default: one of its own")
    parser.add_argument("--model", default="chat")
    parser.add_argument("--readings", type=int, default=7)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.endpoint:
        _measure(args)
        return
    model = packaged_model()
    spec = EngineSpec(model, args.model, ("--enforce-eager", "--max-model-len", "2048"))
    with (
        tempfile.TemporaryDirectory() as folder,
        running(LocalEngine(Path(folder)), spec, START_TIMEOUT_S) as instance,
    ):
        args.endpoint = instance.endpoint
        _measure(args)


def _measure(args: argparse.Namespace) -> None:
    idle = [take_fingerprint(args.endpoint) for _ in range(args.readings)]
    quiet, _ = _under_load(args, lambda: time.sleep(1.0))
    busy, during = _under_load(args, lambda: take_fingerprint(args.endpoint))
    result = {
        **machine(),
        "load_1min": round(os.getloadavg()[0], 1),
        "bytes": idle[0].size,
        "tensors": idle[0].tensors,
        "unseen": len(idle[0].unseen),
        "same_every_time": len({one.fingerprint for one in idle}) == 1,
        "idle_read_s": round(statistics.median(one.seconds for one in idle), 4),
        "idle_wall_s": round(statistics.median(one.wall_s for one in idle), 4),
        "idle_gb_per_s": round(
            idle[0].size / statistics.median(one.seconds for one in idle) / 1e9, 2
        ),
        "longest_call_ms": round(1000 * max(one.longest_call_s for one in idle), 1),
        "streams": args.streams,
        "busy_read_s": round(during.seconds, 4),
        "busy_wall_s": round(during.wall_s, 4),
        "busy_longest_call_ms": round(1000 * during.longest_call_s, 1),
        "gap_ms_without": _gaps(quiet),
        "gap_ms_while_reading": _gaps(busy),
        "target_s": LIMIT_S,
        "is_met": statistics.median(one.seconds for one in idle) < LIMIT_S,
    }
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if args.out:
        args.out.write_text(text, encoding="utf-8")


def _under_load(
    args: argparse.Namespace, act: Callable[[], LiveFingerprint | None]
) -> tuple[list[float], Any]:
    """Stream, and act while every stream is past its first tokens; return the gaps meanwhile."""
    gaps: list[tuple[float, float]] = []
    started = threading.Semaphore(0)
    streams = [
        threading.Thread(target=_stream, args=(args, number, gaps, started))
        for number in range(args.streams)
    ]
    for one in streams:
        one.start()
    for _ in streams:
        started.acquire()
    began = time.perf_counter()
    told = act()
    ended = time.perf_counter()
    for one in streams:
        one.join()
    return [gap for at, gap in gaps if began <= at - gap and at <= ended + gap], told


def _stream(
    args: argparse.Namespace,
    number: int,
    gaps: list[tuple[float, float]],
    started: threading.Semaphore,
) -> None:
    body = {
        "model": args.model,
        "prompt": f"Stream {number} tells a long story:",
        "max_tokens": args.tokens,
        "ignore_eos": True,
        "stream": True,
        "temperature": 0,
    }
    last, seen = 0.0, 0
    url = f"{args.endpoint}/v1/completions"
    with httpx.stream("POST", url, json=body, timeout=600) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            now = time.perf_counter()
            if last:
                gaps.append((now, now - last))
            last, seen = now, seen + 1
            if seen == 5:
                started.release()


def _gaps(gaps: list[float]) -> dict[str, float]:
    ordered = sorted(gaps)
    return {
        "count": len(ordered),
        "median": round(1000 * statistics.median(ordered), 1),
        "p99": round(1000 * ordered[int(len(ordered) * 0.99)], 1),
        "max": round(1000 * ordered[-1], 1),
    }


if __name__ == "__main__":
    main()
