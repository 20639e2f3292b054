"""Does a rollback's check by a few core cases take a healthy target back, and does it refuse a damaged one?

    python -m bench.core_checks [--looks 40] [--damaged-looks 6] [--users 0 2 4] [--only NAME ...] [--work DIR] [--out FILE]

Starts vLLM on the packaged model, makes the baseline of the demo's golden set and then looks at the server as a
rollback does, with ``--looks`` looks at ten and at three core cases for each number of users that ask meanwhile. Every
look that calls it bad is a false one; two in a row would take the rollback back. Then the same beside two users on a
copy with the demo's flipped bit and on each deployment that differs from its start on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.errors_told import errors_told
from bench.faults.fault import Expected
from bench.faults.model_copy import model_copy
from bench.measures import machine, wilson
from bench.packaged import NAME, Served, packaged_model
from bench.restarted_found import PORT, RESTART, Deployment, chosen, deployments
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, running
from quality_lib.adapters.files.cases import load_cases, write_cases
from quality_lib.adapters.model.bit_flip import flip_bit
from quality_lib.adapters.model.cached_similarity import CachedSimilarity
from quality_lib.adapters.stack.user_load import UserLoad
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.ports import Similarity
from quality_lib.jobs.demo import USUAL
from quality_lib.jobs.demo_stage import FAULT, thinned
from quality_lib.jobs.golden_baseline import make_baseline
from quality_lib.jobs.rollback_examine import ask_once, core_cases, judge_core
from quality_lib.jobs.rollback_move import FEW
from quality_lib.jobs.rollback_parts import Examination
from quality_lib.records import Tri
from quality_lib.settings import GoldenSettings, RollbackSettings, ServiceSettings, Settings

FLIP = "flipped-bit"
HEALTHY = "healthy"
SIZES = (RollbackSettings().core_cases, FEW)
DAMAGED_USERS = 2


@dataclass(frozen=True)
class Looked:
    """What the looks at one deployment said, at so many cases beside so many users."""

    deployment: str
    users: int
    cases: int
    looks: int
    bad: int
    """Looks that called it bad."""
    bad_twice: int
    """Pairs of looks, one after the other and each in one pair alone, that both did: it is refused."""
    unjudged: int
    below_floor: int
    """Looks whose mean similarity was below the floor, whatever else they said."""
    lowest_similarity: float | None
    median_s: float


def looked(
    deployment: str, users: int, cases: int, found: Sequence[Examination], floor: float, median_s: float
) -> Looked:  # fmt: skip
    """Count what the looks said, in the order in which they were taken."""
    means = [one.detail["mean_similarity"] for one in found]
    known = [mean for mean in means if mean is not None]
    bad = [one.state is Tri.NO for one in found]
    return Looked(
        deployment=deployment,
        users=users,
        cases=cases,
        looks=len(found),
        bad=sum(bad),
        bad_twice=sum(a and b for a, b in zip(bad[::2], bad[1::2], strict=False)),
        unjudged=sum(one.state is Tri.UNKNOWN for one in found),
        below_floor=sum(mean < floor for mean in known),
        lowest_similarity=min(known, default=None),
        median_s=median_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--looks", type=int, default=40, help="of each size beside so many users")
    parser.add_argument("--damaged-looks", type=int, default=6)
    parser.add_argument("--users", type=int, nargs="+", default=[0, 2, 4])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="deployments")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with errors_told():
        _run(args)


def _run(args: argparse.Namespace) -> None:
    work = args.work or settings.home() / "bench-core-checks"
    work.mkdir(parents=True, exist_ok=True)
    served = Served(packaged_model())
    among = chosen([_flipped(served), *deployments(served)], args.only)
    short = work / "short.jsonl"
    write_cases(short, thinned(load_cases("builtin:core"), USUAL), overwrite=True)
    service = ServiceSettings(
        endpoint=f"http://127.0.0.1:{PORT}",
        model=NAME,
        weights=served.model,
        golden=GoldenSettings(cases=str(short)),
    )
    config = Settings(services={NAME: service})
    # One for all looks: loading it takes longer than a look.
    similarity = CachedSimilarity(config.embedding_model)
    rows: list[Looked] = []

    def serving(spec: EngineSpec) -> AbstractContextManager[object]:
        return running(LocalEngine(work / "engine"), spec, timeout_s=600.0)

    def look_at(name: str, users: int, looks: int, baseline: Baseline) -> None:
        for count in SIZES:
            row = _look(service, similarity, baseline, name, users, count, looks)
            _say(str(row))
            rows.append(row)

    with serving(served.spec(PORT)):
        baseline = make_baseline(config, NAME, work / "baseline", note=_say)
        for users in args.users:
            look_at(HEALTHY, users, args.looks, baseline)
    for deployment in among:
        with deployment.serve(work) as spec, serving(spec):
            look_at(deployment.name, DAMAGED_USERS, args.damaged_looks, baseline)
    healthy = [row for row in rows if row.deployment in {HEALTHY, RESTART}]
    pairs = sum(row.looks // 2 for row in healthy)
    refused = sum(row.bad_twice for row in healthy)
    flipped = [row for row in rows if row.deployment == FLIP]
    result = {
        **machine(),
        "healthy_looks": sum(row.looks for row in healthy),
        "healthy_looks_bad": sum(row.bad for row in healthy),
        "healthy_looks_below_floor": sum(row.below_floor for row in healthy),
        "healthy_pairs": pairs,
        "healthy_pairs_bad": refused,
        "healthy_pairs_bad_95": wilson(refused, pairs),
        "rows": [asdict(row) for row in rows],
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if refused or any(row.bad < row.looks for row in flipped) else 0)


def _flipped(healthy: Served) -> Deployment:
    @contextmanager
    def serve(work: Path) -> Generator[EngineSpec]:
        with model_copy(healthy.model, work / FLIP, (".json", ".jinja", ".safetensors")) as folder:
            flip_bit(folder, *FAULT)
            yield replace(healthy, model=folder).spec(PORT)

    return Deployment(FLIP, Expected.DEGRADED, serve)


def _look(
    service: ServiceSettings,
    similarity: Similarity,
    baseline: Baseline,
    deployment: str,
    users: int,
    count: int,
    looks: int,
) -> Looked:
    asked = core_cases(load_cases(service.golden.cases), baseline, count)
    floor = service.thresholds.similarity_failed
    found: list[Examination] = []
    seconds: list[float] = []
    with ExitStack() as stack:
        if users:
            stack.enter_context(UserLoad(service.endpoint, NAME, users).asking())
        for _ in range(looks):
            began = time.monotonic()
            answers = ask_once(service, {}, asked)
            found.append(judge_core(asked, answers, baseline, similarity, floor))
            seconds.append(time.monotonic() - began)
            if found[-1].state is not Tri.YES:
                _say(f"{deployment}, {users} users: {found[-1].headline}")
    return looked(deployment, users, count, found, floor, round(statistics.median(seconds), 1))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
