"""A baseline of repeated healthy runs, with the bounds that gates learn from them."""

from __future__ import annotations

import random
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.files.baseline import BASELINE, read_baseline, write_baseline
from quality_lib.adapters.files.bounds import BOUNDS, write_bounds
from quality_lib.adapters.files.cases import load_cases
from quality_lib.errors import BadInput, DigestMismatch
from quality_lib.golden.answer import GoldenRun
from quality_lib.golden.baseline import Baseline, build_baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.plan import first_attempts
from quality_lib.golden.ports import Progress
from quality_lib.jobs.clock import Clock, Note, silent, utc_now
from quality_lib.jobs.deployment import observe_deployment
from quality_lib.jobs.golden_run import Reference, refuse_redeployment, run_golden
from quality_lib.jobs.learned_bounds import learn_bounds
from quality_lib.settings import Settings


def make_baseline(
    settings: Settings,
    service_name: str,
    out: Path,
    *,
    repeats: int | None = None,
    clock: Clock = utc_now,
    progress: Progress = lambda stage, done, total: None,
    note: Note = silent,
) -> Baseline:
    """Run the set several times, write ``bounds.json`` and, last, ``baseline.json``.

    Finished runs in ``out`` are kept.

    The runs differ in load and order on purpose, so that the band holds what batching alone does:
    the first as configured, the others with half the concurrency and in another order.

    Raises:
        NoData: a healthy run must be complete.
        BadInput: healthy runs agree less than the alert floor: every later check would alert.
    """
    service = settings.service(service_name)
    cases = load_cases(service.golden.cases)
    if (out / BASELINE).exists():
        done = read_baseline(out)
        if (done.golden_digest, done.service, done.model) != (
            golden_digest(cases),
            service_name,
            service.model,
        ):
            raise DigestMismatch(
                "holds the baseline of another service or golden set",
                file=out,
                fix="choose another --out, or remove that folder",
            )
        return done
    repeats = repeats or service.golden.repeats
    deployment = observe_deployment(service, note)
    runs: list[GoldenRun] = []
    for number in range(repeats):
        note(f"healthy run {number + 1} of {repeats}")
        concurrency = max(1, service.golden.concurrency >> min(number, 1))
        runs.append(
            run_golden(
                service_name,
                service,
                _reordered(cases, number),
                out / f"run-{number + 1}",
                reference=_reference_of(runs[0]) if runs else None,
                concurrency=concurrency,
                deployment=deployment,
                clock=clock,
                progress=progress,
            )
        )
    refuse_redeployment(service, deployment, note)
    note("comparing the runs with each other")
    baseline = build_baseline(
        cases,
        runs,
        wiring.similarity(settings),
        clock().isoformat(timespec="seconds"),
        settings.embedding_model,
    )
    healthy = _mean_similarity(baseline)
    floor = service.thresholds.similarity_alert + service.thresholds.band_floor
    if healthy < floor:
        raise BadInput(
            f"healthy runs agree with each other only to {healthy:.3f}, and a check alerts below "
            f"{service.thresholds.similarity_alert}: every hour would alert",
            file=service.golden.cases,
            fix="use more greedy cases or lower similarity_alert for this service",
        )
    note("learning the bounds of healthy answers")
    bounds = learn_bounds(service, cases, runs, baseline, progress=progress, note=note)
    refuse_redeployment(service, deployment, note)
    write_bounds(out / BOUNDS, bounds)
    write_baseline(out / BASELINE, baseline)
    return baseline


def _reordered(cases: GoldenSet, number: int) -> GoldenSet:
    """Return the cases as they are for the first run, in another fixed order for each further one."""
    shuffled = list(cases)
    if number:
        random.Random(number).shuffle(shuffled)  # noqa: S311 - an order, no secret
    return shuffled


def _mean_similarity(baseline: Baseline) -> float:
    values = [
        o.similarity
        for case in baseline.cases.values()
        for o in case.observations
        if o.similarity is not None
    ]
    return sum(values) / len(values)


def _reference_of(run: GoldenRun) -> Reference:
    return Reference(run.run_id, first_attempts(run.answers.values()))
