"""What the guard adds to a real vLLM server: time to first token and throughput, against the same server without it.

    python -m bench.guard_overhead [--arms observe correct] [--rounds 3] [--short] [--work DIR] [--out FILE]

Two servers stand side by side, one plain and one guarded; only one is ever asked at a time, and which goes first
changes with every round. Each round sends the same requests to both: streaming and not, one at a time, eight and
thirty-two at once. ``observe`` has the middleware, the logits processor and the exchange log on; ``correct`` also
lets the processor re-draw. Finished rounds are kept in DIR: interrupted, the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from scipy.stats import binom

from bench.measures import machine
from bench.packaged import packaged_model
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running

SERVICE = "chat"
SERVER_ARGS = ("--max-model-len", "2048", "--enforce-eager")
GUARD_ARGS = (
    *("--middleware", "quality_lib.serving.guard.Guard"),
    *("--logits-processors", "quality_lib.serving.logits_processor_v1:EntropyProcessor"),
)
CONCURRENCY = (1, 8, 32)
REQUESTS = {1: 16, 8: 48, 32: 96}
SHORT_REQUESTS = {1: 5, 8: 16, 32: 32}
TOKENS = 64
MAX_TTFT_MS = 2.0
MAX_LOSS = {"observe": 0.03, "correct": 0.06}
GATES = {
    "observe": "reaction: observe",
    "correct": "reaction: enforce\n      stream:\n        reaction: correct",
}
TOPICS = (
    "the sea", "a railway station", "bread", "winter", "a small library", "bees", "the moon", "an old bridge",
    "a market", "mountains", "a lighthouse", "rain", "a violin", "the desert", "a garden", "trains",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """One arm's answers at one concurrency: paired by place with those of the other arm."""

    first_s: list[float]
    """Until the first token of a stream, or until a whole answer that does not stream."""
    tokens: int
    wall_s: float


async def _ask(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[float, int]:
    began = time.perf_counter()
    if not body["stream"]:
        answer = (await client.post("/v1/chat/completions", json=body)).raise_for_status().json()
        return time.perf_counter() - began, int(answer["usage"]["completion_tokens"])
    first, tokens = None, 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            data = json.loads(line[6:])
            if data.get("usage"):
                tokens = data["usage"]["completion_tokens"]
            if first is None and data["choices"] and data["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - began
    return first or time.perf_counter() - began, tokens


async def block(endpoint: str, concurrency: int, count: int, streams: bool, tag: str) -> Block:
    """Send ``count`` requests, ``concurrency`` at a time."""
    gate = asyncio.Semaphore(concurrency)
    async with httpx.AsyncClient(base_url=endpoint, timeout=300, trust_env=False) as client:

        async def one(number: int) -> tuple[float, int]:
            topic = TOPICS[number % len(TOPICS)]
            body: dict[str, Any] = {
                "model": SERVICE,
                # The tag keeps the prefix cache of an earlier round out of it.
                "messages": [
                    {"role": "user", "content": f"{tag}-{number}: write a paragraph about {topic}."}
                ],
                "max_tokens": TOKENS,
                "temperature": 0.7,
                "seed": number,
                "ignore_eos": True,
                "stream": streams,
            }
            if streams:
                body["stream_options"] = {"include_usage": True}
            async with gate:
                return await _ask(client, body)

        began = time.perf_counter()
        found = await asyncio.gather(*(one(number) for number in range(count)))
        wall = time.perf_counter() - began
    return Block([f for f, _ in found], sum(t for _, t in found), wall)


def one_round(
    endpoints: dict[str, str], number: int, requests: dict[int, int]
) -> list[dict[str, Any]]:
    """Ask both servers everything once; return one row per way of asking and arm."""
    rows = []
    for streams in (True, False):
        for concurrency in CONCURRENCY:
            order = list(endpoints) if number % 2 == 0 else list(reversed(endpoints))
            for arm in order:
                tag = f"r{number}c{concurrency}{'s' if streams else 'w'}"
                found = asyncio.run(
                    block(endpoints[arm], concurrency, requests[concurrency], streams, tag)
                )
                rows.append({
                    "arm": arm,
                    "streams": streams,
                    "concurrency": concurrency,
                    "first_s": found.first_s,
                    "tokens_per_s": found.tokens / found.wall_s,
                })
                print(
                    f"round {number + 1}, {arm}, {concurrency} at once, streaming {streams}: "
                    f"{found.tokens / found.wall_s:.0f} tokens/s",
                    file=sys.stderr,
                    flush=True,
                )
    return rows


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the distribution-free 95 % interval of a median, by order statistics."""
    ordered = sorted(values)
    rank = int(binom.ppf(0.025, len(ordered), 0.5))
    return ordered[max(0, rank - 1)], ordered[min(len(ordered) - 1, len(ordered) - rank)]


def compared(rounds: Sequence[list[dict[str, Any]]], arm: str) -> list[dict[str, Any]]:
    """Return, for each way of asking, what the guard added and what it cost."""
    told = []
    for streams in (True, False):
        for concurrency in CONCURRENCY:
            added, ratios, medians = [], [], {"plain": [], arm: []}  # type: ignore[var-annotated]
            for rows in rounds:
                by_arm = {
                    r["arm"]: r
                    for r in rows
                    if r["streams"] == streams and r["concurrency"] == concurrency
                }
                plain, guarded = by_arm["plain"], by_arm[arm]
                pairs = zip(guarded["first_s"], plain["first_s"], strict=True)
                added += [(g - p) * 1e3 for g, p in pairs]
                ratios.append(guarded["tokens_per_s"] / plain["tokens_per_s"])
                for name in medians:
                    medians[name].append(statistics.median(by_arm[name]["first_s"]) * 1e3)
            low, high = median_interval(added)
            told.append({
                "streams": streams,
                "concurrency": concurrency,
                "added_ms": round(statistics.median(added), 2),
                "added_ms_interval": [round(low, 2), round(high, 2)],
                "plain_ms": round(statistics.median(medians["plain"]), 1),
                "guarded_ms": round(statistics.median(medians[arm]), 1),
                "throughput_ratio": round(statistics.median(ratios), 4),
                "throughput_ratios": [round(r, 4) for r in ratios],
            })
    return told


def config_file(folder: Path, arm: str) -> Path:
    path = folder / f"{arm}.yaml"
    path.write_text(
        f"services:\n  {SERVICE}:\n    endpoint: http://127.0.0.1:8000\n    model: {SERVICE}\n"
        f"    weights: {folder}\n    gates:\n      {GATES[arm]}\n      log:\n"
        f"        folder: {folder / 'log' / arm}\n",
        "utf-8",
    )
    return path


def run_arm(arm: str, args: argparse.Namespace, model: Path, work: Path) -> list[dict[str, Any]]:
    """Run the missing rounds of one arm and return the comparison."""
    requests = SHORT_REQUESTS if args.short else REQUESTS
    files = [work / f"{arm}-{'short-' if args.short else ''}{n}.json" for n in range(args.rounds)]
    if not all(file.exists() for file in files):
        engine = LocalEngine(work / "engine")
        env = {
            settings.CONFIG_ENV: str(config_file(work, arm)),
            settings.SERVICE_ENV: SERVICE,
        }
        specs = {
            "plain": EngineSpec(model, SERVICE, SERVER_ARGS, introspection=False),
            arm: EngineSpec(model, SERVICE, (*SERVER_ARGS, *GUARD_ARGS), env, introspection=False),
        }
        with ExitStack() as stack:
            endpoints = {
                name: stack.enter_context(running(engine, spec, timeout_s=900.0)).endpoint
                for name, spec in specs.items()
            }
            one_round(endpoints, 99, dict.fromkeys(CONCURRENCY, 4))  # warms kernels up
            for number, file in enumerate(files):
                if not file.exists():
                    file.write_text(json.dumps(one_round(endpoints, number, requests)), "utf-8")
    return compared([json.loads(file.read_text("utf-8")) for file in files], arm)


def is_met(arms: dict[str, list[dict[str, Any]]]) -> bool:
    return all(
        (row["added_ms"] <= MAX_TTFT_MS or not row["streams"])
        and row["throughput_ratio"] >= 1 - MAX_LOSS[arm]
        for arm, rows in arms.items()
        for row in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--arms", nargs="+", choices=tuple(GATES), default=tuple(GATES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--short", action="store_true", help="few requests: shows that it runs")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--work", type=Path, default=None, help="folder for the rounds")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    work = args.work or settings.home() / "bench-guard-overhead"
    work.mkdir(parents=True, exist_ok=True)
    model = args.model or packaged_model()
    arms = {arm: run_arm(arm, args, model, work) for arm in args.arms}
    for file in work.glob("*.json"):
        file.unlink()  # the next run measures again
    result = {
        **machine(),
        "model": model.name,
        "rounds": args.rounds,
        "short": args.short,
        "tokens_per_answer": TOKENS,
        "limits": {"added_ms": MAX_TTFT_MS, "loss": MAX_LOSS},
        "arms": arms,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    sys.exit(0 if is_met(arms) else 1)


if __name__ == "__main__":
    main()
