"""Golden runs on a real server: how long they take, and whether healthy ones are called healthy.

    python -m bench.golden [--starts 4] [--checks 5] [--only N ...] [--short] [--work DIR] [--out FILE]

Starts vLLM ``--starts`` times on the packaged model. The first start makes the baseline; then every start is
checked ``--checks`` times against it. Nothing is damaged, so any verdict but *healthy, unchanged* is a false
alarm. Interrupted, the same command goes on where it stopped. With ``--only`` some of the starts are made, so
that another process can make the others; the whole command then puts them together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.measures import machine
from bench.packaged import packaged_model
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running
from quality_lib.adapters.files.cases import load_cases, write_cases
from quality_lib.adapters.files.run_folder import RUN
from quality_lib.adapters.stack.local_config import ENGINE_ARGS
from quality_lib.golden.comparison import Statistic
from quality_lib.jobs.demo import USUAL
from quality_lib.jobs.demo_stage import thinned
from quality_lib.jobs.golden_baseline import make_baseline
from quality_lib.jobs.golden_run import Reference, compare_run, run_golden
from quality_lib.settings import GoldenSettings, ServiceSettings, Settings

LIMIT_S = 180.0
"""The target for the full set on two cores."""

PORT = 18471
"""Of the first start, the next ports for further ones; fixed, because a run that is resumed belongs to one endpoint."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--checks", type=int, default=5, help="per start")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of starts")
    parser.add_argument("--short", action="store_true", help="the demo's short set")
    parser.add_argument("--work", type=Path, default=None, help="folder for the runs")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    work = args.work or settings.home() / f"bench-golden{'-short' if args.short else ''}"
    model = packaged_model()
    cases = "builtin:core"
    if args.short:
        work.mkdir(parents=True, exist_ok=True)
        cases = str(work / "short.jsonl")
        write_cases(Path(cases), thinned(load_cases("builtin:core"), USUAL), overwrite=True)
    rows: list[dict[str, Any]] = []
    for start in args.only or range(1, args.starts + 1):
        service = ServiceSettings(
            endpoint=f"http://127.0.0.1:{PORT + start - 1}",
            model="chat",
            weights=model,
            golden=GoldenSettings(cases=cases),
        )
        rows += _one_start(service, start, args.checks, work)
    healthy = sum(row["verdict"] == "HEALTHY, unchanged" for row in rows)
    result = {
        **machine(),
        "model": model.name,
        "cases": len(load_cases(cases)),
        "starts": args.starts,
        "checks": len(rows),
        "healthy_unchanged": healthy,
        "median_duration_s": statistics.median(row["duration_s"] for row in rows),
        "longest_duration_s": max(row["duration_s"] for row in rows),
        "limit_s": LIMIT_S,
        "largest_scored_delta": max(
            row[f"{channel}_delta"] for row in rows for channel in ("raw_scored", "chat_scored")
        ),
        "runs": rows,
    }
    print(json.dumps({k: v for k, v in result.items() if k != "runs"}, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    is_met = (
        healthy == len(rows)
        and result["largest_scored_delta"] == 0.0
        and (args.short or result["median_duration_s"] < LIMIT_S)
    )
    sys.exit(0 if is_met else 1)


def _one_start(
    service: ServiceSettings, start: int, checks: int, work: Path
) -> Iterator[dict[str, Any]]:
    """Check one start of the server; what is on disk needs no server."""
    config = Settings(services={"chat": service})
    cases = load_cases(service.golden.cases)
    outs = [work / f"start-{start}-check-{number}" for number in range(1, checks + 1)]
    with ExitStack() as stack:
        if not all((folder / RUN).exists() for folder in outs):
            spec = EngineSpec(
                Path(service.weights), "chat", args=ENGINE_ARGS, port=PORT + start - 1
            )
            stack.enter_context(running(LocalEngine(work / "engine"), spec, timeout_s=600.0))
        baseline = make_baseline(config, "chat", work / "baseline", note=_say)
        reference = Reference.of(baseline)
        for number, folder in enumerate(outs, 1):
            run = run_golden("chat", service, cases, folder, reference=reference)
            comparison, verdict = compare_run(config, service, run, baseline)
            row = {
                "start": start,
                "duration_s": run.duration_s,
                "verdict": verdict.headline,
                "mean_similarity": comparison.mean_similarity,
                **{
                    f"{f.channel}_delta": f.value
                    for f in comparison.findings
                    if f.statistic is Statistic.LOGPROB_DELTA
                },
                "reasons": [r.sentence for r in verdict.reasons],
            }
            _say(f"start {start}, check {number}: {row}")
            yield row


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
