"""How many log entries a second one core reads and maps, format by format, and in what memory.

    python -m bench.log_reading [--rows 20000] [--flat-rows 1000000] [--out FILE]

Entries are those of the sample logs with fresh ids, made while they are read and not counted: seconds are
processor seconds of reading alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measures import machine, resident_mib
from quality_lib.exchanges.langfuse import langfuse
from quality_lib.exchanges.litellm import litellm
from quality_lib.exchanges.own_records import own_records
from quality_lib.exchanges.reading import rows_of
from quality_lib.exchanges.record import record_of
from quality_lib.exchanges.row import Scored
from quality_lib.exchanges.sampling import Sampler
from quality_lib.exchanges.source import Reader, Source

LOGS = Path(__file__).parents[1] / "tests" / "data" / "gateway_logs"
SERVICE = Source("chat", frozenset({"chat"}))
BLOCK = 1 << 20
LIMIT_PER_S = 5000
"""Reading must not be slower than the gates that judge what was read."""
MAX_GROWTH_MIB = 32.0
STEPS = 10


def litellm_entries() -> list[dict[str, Any]]:
    (batch,) = LOGS.rglob("batch_*.jsonl")
    return [json.loads(line) for line in batch.read_text(encoding="utf-8").splitlines()]


def langfuse_entries() -> list[dict[str, Any]]:
    lines = (LOGS / "langfuse" / "observations.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def own_entries() -> list[dict[str, Any]]:
    content = "\n".join(json.dumps(entry) for entry in litellm_entries()).encode()
    rows = rows_of([content], "bench", litellm(SERVICE))
    return [record_of(r.exchange, status=200, stream=True) for r in rows if isinstance(r, Scored)]


FORMATS: dict[str, tuple[Reader, Callable[[], list[dict[str, Any]]]]] = {
    "own": (own_records(SERVICE), own_entries),
    "litellm": (litellm(SERVICE), litellm_entries),
    "langfuse": (langfuse(SERVICE), langfuse_entries),
}


def blocks(entries: list[dict[str, Any]], first: int, rows: int) -> Iterator[bytes]:
    """Yield log content with ``rows`` entries, each with an id of its own."""
    lines, size = [], 0
    for number in range(first, first + rows):
        entry = entries[number % len(entries)]
        entry["id"] = f"bench-{number:09d}"
        lines.append(json.dumps(entry) + "\n")
        size += len(lines[-1])
        if size >= BLOCK:
            yield "".join(lines).encode()
            lines, size = [], 0
    yield "".join(lines).encode()


def speed(name: str, rows: int) -> dict[str, Any]:
    """Read ``rows`` entries of one format into a sample."""
    reader, make = FORMATS[name]
    entries = make()
    sampler = Sampler("bench", 2000, 20)
    spent, size, step = 0.0, 0, 2000
    for first in range(0, rows, step):
        content = list(blocks(entries, first, min(step, rows - first)))
        size += sum(map(len, content))
        began = time.process_time()
        for row in rows_of(content, "bench", reader):
            sampler.add(row)
        spent += time.process_time() - began
    counts = sampler.result().counts
    return {
        "rows": rows,
        "bytes_per_row": size // rows,
        "rows_per_s": round(rows / spent),
        "mib_per_s": round(size / spent / 2**20, 1),
        "scored": counts.scored,
        "bad_lines": counts.bad_lines,
    }


def flatness(rows: int) -> dict[str, Any]:
    """Read one long log of own records and watch the memory."""
    reader, make = FORMATS["own"]
    sampler, resident = Sampler("bench", 2000, 20), []
    step = max(1, rows // STEPS)
    for number, row in enumerate(rows_of(blocks(make(), 0, rows), "bench", reader), 1):
        sampler.add(row)
        if number % step == 0:
            resident.append(round(resident_mib(), 1))
            print(f"{number:,} rows, {resident[-1]} MiB", file=sys.stderr, flush=True)
    # The sample fills during the first step.
    return {
        "rows": rows,
        "resident_mib": resident,
        "growth_mib": round(resident[-1] - resident[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--flat-rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result: dict[str, Any] = {**machine(), "formats": {}}
    for name in FORMATS:
        result["formats"][name] = speed(name, args.rows)
        print(f"{name}: {result['formats'][name]['rows_per_s']:,} rows/s", file=sys.stderr)
    result["memory"] = flatness(args.flat_rows)
    result["limits"] = {"own_rows_per_s": LIMIT_PER_S, "growth_mib": MAX_GROWTH_MIB}
    result["passed"] = (
        result["formats"]["own"]["rows_per_s"] >= LIMIT_PER_S
        and result["memory"]["growth_mib"] <= MAX_GROWTH_MIB
    )
    text = json.dumps(result, indent=2)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(0 if result["passed"] else 1)


if __name__ == "__main__":
    main()
