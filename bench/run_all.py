"""Every benchmark, one after the other; results go to ``bench/results``. ``python -m bench.run_all --list``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"

BENCHES: dict[str, list[str]] = {
    "hash_weights": ["--out", str(RESULTS / "hash_weights.json")],
    "diff_weights": ["--out", str(RESULTS / "diff_weights.json")],
    "dag_parse": ["--out", str(RESULTS / "dag_parse.json")],
    "golden": ["--out", str(RESULTS / "golden.json")],
    "gate_detection": ["--out", str(RESULTS / "gate_detection.json")],
    "gate_throughput": ["--rows", "1000000", "--out", str(RESULTS / "gate_throughput.json")],
    "log_reading": ["--out", str(RESULTS / "log_reading.json")],
    "guard_stream": ["--out", str(RESULTS / "guard_stream.json")],
    "drift_simulation": ["--out", str(RESULTS / "drift_simulation.json")],
    "route_reload": ["--out", str(RESULTS / "route_reload.json")],
    "live_fingerprint": ["--out", str(RESULTS / "live_fingerprint.json")],
    "flips_found": ["--out", str(RESULTS / "flips_found.json")],
    "healthy_checks": ["--out", str(RESULTS / "healthy_checks.json")],
    # By the checks that the line above has kept.
    "restarted_found": ["--out", str(RESULTS / "restarted_found.json")],
    "core_checks": ["--out", str(RESULTS / "core_checks.json")],
    "guard_overhead": ["--rounds", "5", "--out", str(RESULTS / "guard_overhead.json")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(BENCHES)}")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(BENCHES))
        return
    if unknown := sorted(set(args.names) - set(BENCHES)):
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    failed = []
    for name in args.names or BENCHES:
        print(f"== {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        code = subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *BENCHES[name]], cwd=HERE.parent, check=False
        ).returncode
        print(f"== {name}: {time.monotonic() - began:.0f} s, exit code {code}", file=sys.stderr)
        if code:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
