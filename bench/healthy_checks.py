"""Thousands of real healthy checks over many starts of a real server: how often would anybody be paged?

    python -m bench.healthy_checks [--starts 20] [--checks 104] [--loads 1,4,16] [--only N ...] [--baseline DIR]
                                   [--adapter] [--work DIR] [--out FILE]

Every start is asked the sentinel set ``--checks`` times as ``quality golden calibrate`` does: each load with a warm and
a cold cache in turn, of four bursts one decoded. Then the product's decision judges the checks of the odd starts by
what was learned on the even ones, and the other way round, so no check is judged by itself: once as the product would
calibrate here, with the checks that it asks one at a time, and once with all loads mixed. Where a decision asks for a
re-check it gets the next check. Nothing is damaged, so each page is a false alarm. Interrupted, the same command goes
on where it stopped. With ``--adapter`` a LoRA adapter over the model is what answers; ``--only`` makes and judges some of the starts; two such commands may work side by side in one folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.decisions import decisions
from bench.errors_told import errors_told
from bench.measures import machine
from bench.packaged import NAME, Served, packaged_model, random_adapter
from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import running
from quality_lib.adapters.files.baseline import BASELINE, read_baseline
from quality_lib.adapters.files.readings import PLAN, READINGS, ReadingsJournal
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.limits import HOURLY_LOAD, DriftLimits
from quality_lib.drift.reading import CheckReading, Key
from quality_lib.drift.sequential import alarm_level
from quality_lib.errors import BadInput, NoData
from quality_lib.golden.learning import learn
from quality_lib.golden.reading import DECODED, is_decoded, reference_of
from quality_lib.jobs.calibration import calibrate_service
from quality_lib.jobs.golden_baseline import make_baseline
from quality_lib.records import Tri
from quality_lib.settings import ServiceSettings, Settings

WANTED = 2000
MOST_SECONDS = 3.0
"""The target for one sentinel check, asked one at a time, on two cores."""
PORT = 18571
"""Of the first start, the next ports for further ones: a baseline that is resumed belongs to one endpoint."""
HEALTHY_ADAPTER = 1
"""Seed of the adapter that is served; other seeds are other adapters."""

START = "start-{:02}"
HALVES = ("even", "odd")
Learn = Callable[[Sequence[CheckReading], CheckReading, DriftLimits, str], Calibration]


@dataclass(frozen=True)
class Judged:
    """What the decision said of one half of the starts."""

    checks: int
    """Regular ones; with ``rechecks`` all that were judged."""
    rechecks: int
    pages: int
    changed: int
    """Checks after which *changed* was said, paged or not."""
    silent: int
    """Checks of which the decision could say nothing: they are no proof of calm."""
    highest_level: float
    """Of the evidence; an alarm is told from ``DriftLimits`` on."""
    calibrated_on: int


def judge(
    checks: Sequence[CheckReading],
    reference: CheckReading,
    calibration: Calibration,
    limits: DriftLimits,
) -> Judged:
    """Feed healthy checks through the product's decision, one after the other."""
    rechecks = pages = changed = silent = 0
    highest = 0.0
    for told in decisions(checks, reference, calibration, limits):
        decision = told.decision
        rechecks += told.is_recheck
        pages += decision.pages
        changed += decision.changed is Tri.YES
        silent += decision.changed is Tri.UNKNOWN and not decision.needs_recheck
        if decision.evidence:
            highest = max(highest, decision.evidence.level)
    return Judged(
        checks=len(checks) - rechecks,
        rechecks=rechecks,
        pages=pages,
        changed=changed,
        silent=silent,
        highest_level=highest,
        calibrated_on=calibration.checks,
    )


def cross_judged(
    checks: Sequence[CheckReading],
    reference: CheckReading,
    limits: DriftLimits,
    platform: str,
    learn_on: Learn,
) -> dict[str, Judged]:
    """Judge each half of the starts by what the other half taught; names the half that was judged.

    Raises:
        NoData: a half is too small to learn from.
    """
    starts = sorted({check.block.start for check in checks})
    parts = [
        [check for check in checks if starts.index(check.block.start) % 2 == side]
        for side in range(2)
    ]
    found = {}
    for side, name in enumerate(HALVES):
        calibration = learn_on(parts[1 - side], reference, limits, platform)
        found[name] = judge(parts[side], reference, calibration, limits)
    return found


def seconds_by_mode(checks: Sequence[CheckReading]) -> dict[str, float]:
    """Return the median seconds of a check without decoding, by load and cache: from its begin to the next one's."""
    took: dict[str, list[float]] = {}
    for check, following in pairwise(checks):
        if check.block.start != following.block.start or is_decoded(check):
            continue
        between = datetime.fromisoformat(following.at) - datetime.fromisoformat(check.at)
        mode = f"{check.block.load} at once, {check.block.cache}"
        took.setdefault(mode, []).append(between.total_seconds())
    return {mode: round(statistics.median(values), 2) for mode, values in sorted(took.items())}


def different_answers(checks: Sequence[CheckReading]) -> dict[str, Any]:
    """Count the different scores that each stored answer got in health, by load and over all."""
    seen: dict[str, dict[Key, set[tuple[float | None, ...]]]] = {}
    for check in checks:
        for probe in check.answered().values():
            if probe.channel not in DECODED:
                for load in (f"{check.block.load} at once", "all"):
                    seen.setdefault(load, {}).setdefault(probe.key, set()).add(probe.logprobs)
    return {
        load: {
            "probes": len(found),
            "mean": round(statistics.fmean(map(len, found.values())), 2),
            "most": max(map(len, found.values())),
        }
        for load, found in sorted(seen.items())
    }


def most_per_year(pages: int, checks: int, checks_per_year: float) -> float:
    """Return the upper 95 % bound of false pages a year that so many checks prove (Clopper-Pearson)."""
    from scipy.stats import beta

    if pages >= checks:
        return checks_per_year
    return float(beta.ppf(0.95, pages + 1, checks - pages)) * checks_per_year


def track(halves: Mapping[str, Judged], limits: DriftLimits) -> dict[str, Any]:
    """Return one track of the result."""
    silent = sum(half.silent for half in halves.values())
    judged = sum(half.checks + half.rechecks for half in halves.values()) - silent
    pages = sum(half.pages for half in halves.values())
    return {
        "judged": judged,
        "silent": silent,
        "rechecks": sum(half.rechecks for half in halves.values()),
        "pages": pages,
        "changed": sum(half.changed for half in halves.values()),
        "highest_evidence": max(half.highest_level for half in halves.values()),
        "alarm_from": alarm_level(limits),
        "at_most_per_year": round(most_per_year(pages, judged, limits.checks_per_year), 2),
        "calibrated_on": {name: half.calibrated_on for name, half in halves.items()},
    }


def result_of(
    checks: Sequence[CheckReading], reference: CheckReading, limits: DriftLimits, platform: str
) -> dict[str, Any]:
    """Return what is reported of all recorded checks; a track without enough data says why."""
    alone = [check for check in checks if check.block.load == HOURLY_LOAD]
    tracks: dict[str, Any] = {}
    for name, part, learn_on in (("one at a time", alone, learn), ("all loads", checks, calibrate)):
        try:
            tracks[name] = track(cross_judged(part, reference, limits, platform, learn_on), limits)
        except NoData as missing:
            tracks[name] = {"no_data": str(missing)}
    return {
        "checks": len(checks),
        "wanted": WANTED,
        "starts": len({check.block.start for check in checks}),
        "decoded": sum(map(is_decoded, checks)),
        "scored_tokens": sum(len(p.logprobs) for p in checks[0].probes if p.channel not in DECODED)
        if checks
        else 0,
        "different_answers": different_answers(checks),
        "seconds": seconds_by_mode(checks),
        "limit_s": MOST_SECONDS,
        "tracks": tracks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--checks", type=int, default=104, help="per start")
    parser.add_argument("--loads", default="1,4,16", help="probes at once")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of starts")
    parser.add_argument("--baseline", type=Path, help="of the packaged model; default: one is made")
    parser.add_argument("--adapter", action="store_true", help="serve a LoRA adapter over it")
    parser.add_argument("--work", type=Path, help="folder of the checks")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with errors_told():
        _run(args)


def _run(args: argparse.Namespace) -> None:
    work = args.work or default_work(args.adapter)
    served = healthy_service(work, args.adapter)
    baseline = args.baseline or work / "baseline"
    loads = tuple(map(int, args.loads.split(",")))
    starts = args.only or range(1, args.starts + 1)
    for start in starts:
        if len(made_checks(work, [start])) >= args.checks:
            continue
        _one_start(served, start, baseline, work, loads, args.checks)
    checks = sorted(made_checks(work, starts), key=lambda check: (check.block.start, check.at))
    known = read_baseline(baseline)
    keys = {probe.key for check in checks for probe in check.probes}
    found = result_of(checks, reference_of(known, keys), DriftLimits(), platform_of(work, starts))
    text = json.dumps(
        {**machine(), "model": served.model.name, "adapter": args.adapter, "loads": loads, **found},
        indent=1,
    )
    print(text)
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    tracks = found["tracks"].values()
    is_met = len(checks) >= WANTED and all(
        one.get("pages") == 0 and not one["silent"] for one in tracks
    )
    sys.exit(0 if is_met else 1)


def default_work(with_adapter: bool) -> Path:
    """Return the folder of the checks where none is given."""
    return settings.home() / f"bench-healthy{'-adapter' if with_adapter else ''}"


def healthy_service(work: Path, with_adapter: bool) -> Served:
    """Return what is healthy: the packaged model, or an adapter over it."""
    model = packaged_model()
    return Served(model, random_adapter(model, work, HEALTHY_ADAPTER) if with_adapter else None)


def made_starts(work: Path) -> list[int]:
    """Return the numbers of the starts of which a work folder has checks."""
    return sorted(
        int(path.parent.name.rpartition("-")[2])
        for path in _folder(work, 1).parent.glob(f"*/{READINGS}")
    )


def made_checks(work: Path, starts: Iterable[int]) -> list[CheckReading]:
    """Return the checks of some starts, as far as they are made."""
    paths = [_folder(work, start) / READINGS for start in starts]
    return [check for path in paths if path.exists() for check in _read(path)]


def _folder(work: Path, start: int) -> Path:
    return work / "healthy" / START.format(start)


def _read(path: Path) -> list[CheckReading]:
    journal = ReadingsJournal(path, "run the same command again")
    try:
        return list(journal.readings)
    finally:
        journal.close()


def platform_of(work: Path, starts: Iterable[int]) -> str:
    """Return where all starts ran; they must have asked the same of the same deployment.

    Raises:
        BadInput: they did not.
    """
    paths = [_folder(work, start) / PLAN for start in starts]
    plans = [json.loads(path.read_bytes()) for path in paths]
    for path, plan in zip(paths, plans, strict=True):
        if different := [name for name in plan if plan[name] != plans[0][name]]:
            raise BadInput(
                f"differs from the first start's in {different[0]}",
                file=path,
                fix="give another --work",
            )
    return str(plans[0]["platform"])


def _one_start(
    served: Served, start: int, baseline: Path, work: Path, loads: Sequence[int], checks: int
) -> None:
    port = PORT + start - 1
    service = ServiceSettings(endpoint=f"http://127.0.0.1:{port}", model=NAME, weights=served.model)
    config = Settings(services={NAME: service})
    with running(LocalEngine(work / "engine"), served.spec(port), timeout_s=600.0):
        if not (baseline / BASELINE).exists():
            make_baseline(config, NAME, baseline, note=_say)
        with suppress(NoData):  # always: the product learns from no single start, and all is kept
            calibrate_service(
                config, NAME, baseline, _folder(work, start), checks=checks,
                loads=loads, resume=True, start=START.format(start), note=_say, progress=_told(start),
            )  # fmt: skip


def _told(start: int) -> Callable[[str, int, int], None]:
    def tell(stage: str, done: int, total: int) -> None:
        if done % 10 == 0 or done == total:
            _say(f"start {start}: {stage} {done} of {total}")

    return tell


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
