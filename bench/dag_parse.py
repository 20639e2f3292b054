"""Airflow's own cost: how long each DAG file takes to parse, and what a task costs besides its work.

    python bench/dag_parse.py [--repeats 5] [--json] [--out FILE]

Parse: a fresh process per sample, the seconds of the file alone after ``import airflow.sdk``; the median.
Task: ``golden_hourly`` through ``dag.test`` on SQLite with a command that does nothing, per task instance.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT_S = 0.5

PARSE = """
import airflow.sdk, runpy, sys, time
for name in airflow.sdk.__all__: getattr(airflow.sdk, name) if name in {names!r} else None
start = time.perf_counter()
runpy.run_path({file!r})
print(time.perf_counter() - start)
"""
NAMES = ("DAG", "Param", "task_group")
"""airflow.sdk is lazy: what the files take from it belongs to importing it."""

TASKS = """
import logging, time
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.dagbag import DagBag
from airflow.models.taskinstance import TaskInstance
def run():
    dag = DagBag({file!r}).dags["golden_hourly"]
    start = time.perf_counter()
    done = dag.test()
    tis = done.get_task_instances()
    assert str(done.state) == "success", done.state
    return time.perf_counter() - start, sum(ti.duration or 0 for ti in tis), len(tis)
run()
runs = [run() for _ in range({repeats})]
print(min(wall / count for wall, work, count in runs), min(work / count for wall, work, count in runs))
"""

STUB = """#!/bin/sh
case "$4" in
check) echo '{"summary": "healthy", "changed": "no", "run_dir": "/r", "headline": "fine"}' ;;
*) echo '{}' ;;
esac
"""


def python(code: str, **env: str) -> str:
    """Run code in a fresh interpreter and return its last line."""
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def measure(repeats: int) -> dict[str, Any]:
    """Return the medians in seconds."""
    parse = {}
    with tempfile.TemporaryDirectory() as folder:
        home = {
            "AIRFLOW_HOME": folder,
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
            "QUALITY_CONFIG": f"{folder}/quality.yaml",
            "QUALITY_PYTHON": f"{folder}/python",
        }
        for file in sorted((ROOT / "dags").glob("*.py")):
            code = PARSE.format(file=str(file), names=NAMES)
            parse[file.stem] = statistics.median(
                float(python(code, **home)) for _ in range(repeats)
            )
        names = [f"  s{n}: {{endpoint: 'http://h', model: m, weights: w}}" for n in range(4)]
        Path(folder, "quality.yaml").write_text("\n".join(["services:", *names]) + "\n")
        Path(folder, "python").write_text(STUB)
        Path(folder, "python").chmod(0o755)
        code = TASKS.format(file=str(ROOT / "dags/golden_hourly.py"), repeats=3)
        whole, inside = map(float, python(code, **home).split())
    return {
        "parse_s": {name: round(seconds, 3) for name, seconds in parse.items()},
        "parse_limit_s": LIMIT_S,
        "task_overhead_s": round(whole, 3),
        "task_inside_s": round(inside, 3),
        "repeats": repeats,
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
    }


def main() -> int:
    """Print the result; exit 1 when a file is slower than the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = measure(given.repeats)
    if given.out:
        given.out.write_text(json.dumps(result) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(result))
    else:
        for name, seconds in result["parse_s"].items():
            print(f"{name:20} {seconds:6.3f} s to parse (target {LIMIT_S} s)")
        print(f"{'a task that does nothing':20} {result['task_overhead_s']:.3f} s")
    return int(any(seconds > LIMIT_S for seconds in result["parse_s"].values()))


if __name__ == "__main__":
    sys.exit(main())
