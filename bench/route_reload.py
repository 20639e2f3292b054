"""What a change of weights costs clients, and what nginx adds to a request and to a streamed chunk.

    python -m bench.route_reload [--reloads 100] [--clients 16] [--out FILE]

Clients stream in a process of their own, one request after the other with a pool of connections, through a real
nginx with two backends, while the weights move all the time; every answer is checked for completeness. Then the same
requests are sent one at a time, straight to a backend and through nginx. Backends are a process of their own too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from bench.measures import machine
from quality_lib.rollout.ports import Backend, RouteTable
from tests.nginx_route import RunningRoute, running_route
from tests.route_backends import Backends

NAMES = ("a", "b")
WEIGHTS = ((100, 0), (75, 25), (50, 50), (25, 75), (0, 100), (50, 50))
CHUNKS = 20
ROOT = Path(__file__).parents[1]


def wish(**what: Any) -> dict[str, str]:
    return {"x-test": json.dumps(what)}


async def stream_without_end(url: str, clients: int, done: dict[str, int]) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=clients)
    async with httpx.AsyncClient(
        base_url=url, timeout=120.0, trust_env=False, limits=limits
    ) as http:

        async def one(number: int) -> None:
            # Half of them stream long answers.
            chunks = CHUNKS if number % 2 else 2
            while True:
                try:
                    answer = await http.post(
                        "/v1/completions", json={}, headers=wish(chunks=chunks, pause=0.02)
                    )
                    good = answer.status_code == 200 and answer.text.count("data:") == chunks
                    name = "good" if good else f"status {answer.status_code}"
                except httpx.HTTPError as error:
                    name = repr(error)
                done[name] = done.get(name, 0) + 1

        stop = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        streams = [asyncio.create_task(one(number)) for number in range(clients)]
        await stop
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


def arm(name: str, url: str, clients: int) -> None:
    """Be the backends or the clients until standard input ends."""
    if name == "backends":
        with Backends(names=NAMES) as backends:
            print(json.dumps(backends.addresses), flush=True)
            sys.stdin.read()
        return
    done = {"good": 0}
    asyncio.run(stream_without_end(url, clients, done))
    print(json.dumps(done), flush=True)


class Child:
    """This file as another process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bench.route_reload", *arguments]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> str:
        return self._process.communicate(timeout=120)[0]


def table(addresses: dict[str, str], weights: Sequence[int]) -> RouteTable:
    pairs = zip(addresses.items(), weights, strict=True)
    return RouteTable("chat", tuple(Backend(n, at, weight) for (n, at), weight in pairs))


def measure_reloads(
    running: RunningRoute, addresses: dict[str, str], reloads: int, clients: int
) -> dict[str, Any]:
    since = datetime.now(UTC)
    child = Child("--arm", "clients", "--url", running.url, "--clients", str(clients))
    taken = []
    try:
        for number in range(reloads):
            began = time.perf_counter()
            running.route.apply(table(addresses, WEIGHTS[number % len(WEIGHTS)]))
            taken.append((time.perf_counter() - began) * 1000)
    finally:
        done = json.loads(child.end())
    split = running.route.split(since).values()
    good = done.pop("good")
    return {
        "reloads": reloads,
        "clients": clients,
        "requests": good + sum(done.values()),
        "not_complete": done,
        "failed_by_log": sum(s.failed for s in split),
        "cut_by_log": sum(s.cut for s in split),
        "apply_ms_median": round(statistics.median(taken), 1),
        "apply_ms_slowest": round(max(taken), 1),
    }


def measure_latency(url: str, count: int) -> tuple[float, float]:
    """Return the median milliseconds of a short request, and of a chunk from its sending."""
    with httpx.Client(base_url=url, timeout=60.0, trust_env=False) as http:
        whole, chunks = [], []
        for _ in range(count):
            began = time.perf_counter()
            http.post("/v1/completions", json={}, headers=wish(chunks=1))
            whole.append((time.perf_counter() - began) * 1000)
        headers = wish(chunks=CHUNKS, pause=0.005)
        for _ in range(count // CHUNKS):
            with http.stream("POST", "/v1/completions", json={}, headers=headers) as answer:
                for line in answer.iter_lines():
                    if line:
                        chunks.append((time.time() - float(line.split()[-1])) * 1000)
    return statistics.median(whole), statistics.median(chunks)


def measured(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    backends = Child("--arm", "backends")
    try:
        addresses: dict[str, str] = backends.line()
        with running_route(folder) as running:
            running.route.apply(table(addresses, (100, 0)))
            result = measure_reloads(running, addresses, args.reloads, args.clients)
            running.route.apply(table(addresses, (100, 0)))
            rounds = []
            for _ in range(3):
                direct = measure_latency(f"http://{addresses['a']}", args.requests)
                proxied = measure_latency(running.url, args.requests)
                rounds.append([
                    through - straight for through, straight in zip(proxied, direct, strict=True)
                ])
        requests, chunks = zip(*rounds, strict=True)
    finally:
        backends.end()
    return {
        **machine(),
        **result,
        "added_ms_per_request": round(statistics.median(requests), 3),
        "added_ms_per_request_of_rounds": [round(one, 3) for one in requests],
        "added_ms_per_chunk": round(statistics.median(chunks), 3),
        "added_ms_per_chunk_of_rounds": [round(one, 3) for one in chunks],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--arm", choices=("backends", "clients"), help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    if args.arm:
        arm(args.arm, args.url, args.clients)
        return
    with tempfile.TemporaryDirectory() as folder:
        result = measured(args, Path(folder))
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    is_met = not (result["not_complete"] or result["failed_by_log"] or result["cut_by_log"])
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
