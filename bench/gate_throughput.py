"""How many exchanges of about 200 answer tokens levels 1, 2 and 4 judge in a second on one core, and in what memory.

    python -m bench.gate_throughput [--rows 20000] [--exchanges 10000] [--processes 2] [--out FILE]

The exchanges are ordinary answers for 85 % (prose in several languages, lists, tables, code) and odd look-alikes and
bad ones for the rest; a second number is taken over odd kinds alone. Each differs from all before. Seconds are processor seconds: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.gate_detection import DATA
from bench.gates_under_test import gates_by_level
from bench.measures import machine, resident_mib
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.parse import parse_exchange
from quality_lib.gates.gate import Gate, judge

LIMIT_PER_S = 5000
ANSWER_CHARACTERS = 820
"""About 200 tokens of mixed text; 4.1 characters a token."""
MAX_GROWTH_MIB = 32.0
STEPS = 10


ORDINARY = {
    "real_model": 0.45,
    "explanation": 0.15,
    "german": 0.03,
    "french": 0.03,
    "spanish": 0.02,
    "chinese": 0.01,
    "russian": 0.01,
    "list": 0.05,
    "table": 0.05,
    "code": 0.05,
}
"""Kinds of what services answer on most days, by their share of the ordinary mix; the rest, 15 %, is drawn from
all other healthy look-alikes and all bad answers."""


def sources(*labels: str) -> list[dict[str, Any]]:
    """Return the rows of these labels that hold a text."""
    lines = [
        line
        for label in labels
        for line in (DATA / f"{label}.jsonl").read_text("utf-8").split("\n")
    ]
    rows = [json.loads(line) for line in lines if line]
    return [row for row in rows if row.get("text") and not row.get("tool_calls")]


def records(seed: int, *, ordinary: bool = True) -> Iterator[dict[str, Any]]:
    """Yield short records without end; whole answers of one kind are joined until they are long enough.

    ``ordinary`` draws kinds by ``ORDINARY``; otherwise every healthy kind comes as often, odd ones for the most part.
    """
    draw = random.Random(seed)
    healthy, bad = sources("healthy"), sources("bad")
    usual = by_kind([row for row in healthy if row.get("finish_reason", "stop") == "stop"])
    usual = {kind: rows for kind, rows in usual.items() if kind in ORDINARY}
    odd = by_kind([row for row in healthy if row["kind"] not in ORDINARY] + bad)
    every = {kind: rows for kind, rows in by_kind(healthy).items() if len(rows) > 1}
    number = 0
    while True:
        number += 1
        if not ordinary:
            rows = every[draw.choice(sorted(every))]
        elif draw.random() < sum(ORDINARY.values()):
            rows = usual[draw.choices(list(ORDINARY), list(ORDINARY.values()))[0]]
        else:
            rows = odd[draw.choice(sorted(odd))]
        yield record(f"x{seed}-{number}", rows, draw)


def by_kind(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    return kinds


def record(name: str, rows: Sequence[dict[str, Any]], draw: random.Random) -> dict[str, Any]:
    """Join answers in a drawn order, none twice while others are left."""
    left: list[dict[str, Any]] = []
    asked, text = [], f"Answer {name}."
    while len(text) < ANSWER_CHARACTERS - 100:
        left = left or draw.sample(rows, len(rows))
        row = left.pop()
        asked.append(row.get("prompt") or row["messages"][-1]["content"])
        text += "\n\n" + row["text"]
    ends = len(text) <= ANSWER_CHARACTERS + 200
    return {
        "id": name,
        "messages": [{"role": "user", "content": "\n".join(asked)}],
        "text": text if ends else text[: ANSWER_CHARACTERS + 40],
        "finish_reason": "stop" if ends else "length",
        "params": {"temperature": 0.7, "top_p": 0.95, "max_tokens": 256},
        "usage": {"prompt_tokens": 60, "completion_tokens": 200},
    }


def exchanges(seed: int, count: int, *, ordinary: bool = True) -> list[Exchange]:
    made = records(seed, ordinary=ordinary)
    return [parse_exchange(next(made)) for _ in range(count)]


def rate(gates: Sequence[Gate], found: Sequence[Exchange]) -> float:
    """Return exchanges per processor second, each judged once: the median of five parts."""
    rates = []
    step = len(found) // 5
    for start in range(0, step * 5, step):
        began = time.process_time()
        for exchange in found[start : start + step]:
            judge(exchange, gates)
        rates.append(step / (time.process_time() - began))
    return statistics.median(rates)


def slowest_gates(found: Sequence[Exchange], gates: Sequence[Gate]) -> dict[str, float]:
    """Return the microseconds that each gate adds; the first gate also pays for the shared reading."""
    cost = {}
    for gate in gates:
        began = time.process_time()
        for exchange in found:
            gate.judge(exchange)
        cost[gate.name] = round((time.process_time() - began) / len(found) * 1e6, 1)
    return dict(sorted(cost.items(), key=lambda item: -item[1]))


def memory(gates: Sequence[Gate], rows: int) -> dict[str, Any]:
    """Judge ``rows`` exchanges, one after the other, and return the memory along the way."""
    made, sizes = records(99), []
    for done in range(1, rows + 1):
        judge(parse_exchange(next(made)), gates)
        if done % max(1, rows // STEPS) == 0:
            gc.collect()
            sizes.append(round(resident_mib(), 1))
            print(f"{done} of {rows} rows, {sizes[-1]:.0f} MiB", file=sys.stderr, flush=True)
    # The first step warms every cache that is allowed to fill.
    return {"rows": rows, "mib": sizes, "growth_mib": round(sizes[-1] - sizes[0], 1)}


def _worker(seed: int, seconds: float) -> tuple[int, float]:
    every = tuple(gate for gates in gates_by_level().values() for gate in gates)
    found = exchanges(seed, 400)
    for exchange in found:
        judge(exchange, every)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for exchange in found:
            judge(exchange, every)
        done += len(found)
    return done, time.perf_counter() - began


def scaling(processes: int, seconds: float) -> dict[str, Any]:
    """Return exchanges per second of wall clock with one and with several processes at once."""
    context = multiprocessing.get_context("spawn")
    rates = {}
    for count in (1, processes):
        with context.Pool(count) as pool:
            parts = pool.starmap(_worker, [(seed, seconds) for seed in range(count)], chunksize=1)
        rates[count] = sum(done / took for done, took in parts)
    return {
        "processes": processes,
        "one_per_s": round(rates[1]),
        "all_per_s": round(rates[processes]),
        "speed_up": round(rates[processes] / rates[1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000, help="for the memory")
    parser.add_argument("--exchanges", type=int, default=10_000, help="for the rates")
    parser.add_argument("--seconds", type=float, default=6.0, help="for the scaling")
    parser.add_argument("--processes", type=int, default=2, help="1: leave scaling out")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    levels = gates_by_level()
    every = tuple(gate for gates in levels.values() for gate in gates)
    began = time.process_time()
    found = exchanges(1, args.exchanges)
    parse_us = (time.process_time() - began) / args.exchanges * 1e6
    odd = exchanges(3, max(500, args.exchanges // 10), ordinary=False)
    rate(every, exchanges(2, 500))
    result: dict[str, Any] = {
        **machine(),
        "answer_characters": statistics.median(len(x.answer.text or "") for x in found if x.answer),
        "per_s_and_core": round(rate(every, found)),
        "limit_per_s": LIMIT_PER_S,
        "mix": {**ORDINARY, "look-alikes and bad": round(1 - sum(ORDINARY.values()), 2)},
        "odd_per_s_and_core": round(rate(every, odd)),
        "per_s_by_level": {name: round(rate(gates, found)) for name, gates in levels.items()},
        "making_and_parsing_us": round(parse_us, 1),
        "us_by_gate": slowest_gates(found[:1000], every),
        "memory": memory(every, args.rows),
    }
    if args.processes > 1:
        result["scaling"] = scaling(args.processes, args.seconds)
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    is_met = (
        result["per_s_and_core"] >= LIMIT_PER_S and result["memory"]["growth_mib"] <= MAX_GROWTH_MIB
    )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
