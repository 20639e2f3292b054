"""Throughput of weight hashing against ``sha256sum``, and how it grows with the cores.

Runs come in pairs on the same warm files, in turn, and medians are compared, so that a busy machine
slows both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from quality_lib.adapters.model.weights_files import hash_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="size of the test data")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        size = args.mib * 2**20 // args.files
        for number in range(args.files):
            (folder / f"model-{number:05}.safetensors").write_bytes(os.urandom(size))
        names = sorted(map(str, folder.iterdir()))
        tool, one, two = [], [], []
        for _ in range(args.pairs):
            tool.append(_timed(lambda: _sha256sum(names)))
            one.append(_timed(lambda: hash_folder(folder, workers=1)))
            two.append(_timed(lambda: hash_folder(folder, workers=2)))
    mib = size * args.files / 2**20
    result = {
        "mib": mib,
        "files": args.files,
        "pairs": args.pairs,
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 1),
        "sha256sum_mib_s": round(mib / statistics.median(tool)),
        "hash_1_worker_mib_s": round(mib / statistics.median(one)),
        "hash_2_workers_mib_s": round(mib / statistics.median(two)),
        "ratio_to_sha256sum": _ratio(tool, one),
        "scaling_1_to_2": _ratio(one, two),
    }
    _show(result, args.out)
    # The target: at least nine tenths of the tool, per core.
    sys.exit(0 if result["ratio_to_sha256sum"] >= 0.9 else 1)


def _sha256sum(names: list[str]) -> None:
    subprocess.run(["sha256sum", *names], check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _ratio(slower: list[float], faster: list[float]) -> float:
    """Median of the paired quotients: above 1 means that the second side is faster."""
    return round(statistics.median(a / b for a, b in zip(slower, faster, strict=True)), 2)


def _show(result: dict[str, object], out: Path | None) -> None:
    for name, value in result.items():
        print(f"{name:<24}{value}")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
