"""Calibrate a healthy service: many rounds of the sentinel set, then what health looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.files.baseline import BASELINE, read_baseline
from quality_lib.adapters.files.calibration import CALIBRATION, read_calibration, write_calibration
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.readings import ReadingsFolder
from quality_lib.adapters.files.sentinel import read_sentinel
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import breaches
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.drift.rebaseline import Phase, rule
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.golden.answer import Answer
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.learning import learn
from quality_lib.golden.mode import BURST, Mode, mode_of_check, modes_of, platform_name
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.ports import ModelClient, Progress
from quality_lib.golden.reading import reading_of, reference_of, scored_keys
from quality_lib.golden.sentinel import FaultZ, Sentinel, choose_sentinel
from quality_lib.golden.sentinel_round import ask_round
from quality_lib.jobs.clock import Clock, Note, utc_now
from quality_lib.jobs.deployment import Deployment, observe_deployment
from quality_lib.settings import ServiceSettings, Settings

LOST_ROUNDS = 3
"""So many rounds in a row with lost requests end the work; it can be resumed."""


@dataclass(frozen=True)
class Calibrated:
    """A finished calibration."""

    calibration: Calibration
    file: Path
    """Beside the baseline, so that a snapshot takes it along."""
    checks_made: int
    """In this call."""
    checks_kept: int
    """In the folder, over all server starts."""


@dataclass(frozen=True)
class _Rounds:
    """What every round needs."""

    service: ServiceSettings
    cases: GoldenSet
    baseline: Baseline
    reference: CheckReading
    keys: frozenset[Key]
    modes: tuple[Mode, ...]
    start: str
    is_start_told: bool
    clock: Clock


def sentinel_of(
    service: ServiceSettings,
    baseline: Baseline,
    *,
    count: int | None = None,
    tokens: int | None = None,
    faults: FaultZ | None = None,
) -> Sentinel:
    """Choose the sentinel set of a baseline; None: as the service's settings say."""
    cases = load_cases(service.golden.cases)
    _refuse_other_set(service, cases, baseline)
    return choose_sentinel(
        cases,
        baseline,
        count=count or service.drift.sentinel_cases,
        tokens=tokens or service.drift.sentinel_tokens,
        faults=faults,
    )


def calibrate_service(
    settings: Settings,
    service_name: str,
    baseline_dir: Path,
    out: Path,
    *,
    checks: int,
    loads: Sequence[int] | None = None,
    resume: bool = False,
    sentinel: Path | None = None,
    start: str | None = None,
    accepted_by: str | None = None,
    clock: Clock = utc_now,
    progress: Progress = lambda stage, done, total: None,
    note: Note = lambda _: None,
) -> Calibrated:
    """Make ``checks`` healthy checks of this server start, then calibrate on all checks in ``out``.

    Several starts come together by restarting the server and calling again with ``resume``.

    Raises:
        NoData: there is too little yet; says what is missing, and everything is kept.
        BadInput: a check is not healthy, the start of the server is not known, or a change is suspected
            and nobody has vouched for the service (``accepted_by``).
        DigestMismatch: ``out`` holds checks of another deployment, baseline or sentinel set.
        OutsideFailure: the server, or the disk, failed.
    """
    service = settings.service(service_name)
    baseline = read_baseline(baseline_dir)
    cases = load_cases(service.golden.cases)
    _refuse_other_set(service, cases, baseline)
    if (baseline.service, baseline.model) != (service_name, service.model):
        raise DigestMismatch(
            f"is the baseline of '{baseline.service}' with model '{baseline.model}'",
            file=baseline_dir,
        )
    target = (baseline_dir if baseline_dir.is_dir() else baseline_dir.parent) / CALIBRATION
    if accepted_by is None:
        _refuse_after_suspicion(settings, service_name, target, clock())
    keys = _keys(service, baseline, sentinel)
    note("looking at the server")
    deployment = observe_deployment(service, note)
    rounds = _Rounds(
        service,
        cases,
        baseline,
        reference_of(baseline, keys),
        keys,
        modes_of(loads or service.drift.loads),
        start or _told_start(service),
        start is None,
        clock,
    )
    platform = platform_name(deployment.facts.vllm_version, deployment.environment)
    folder = ReadingsFolder(out, _plan(rounds, service_name, deployment, platform), resume=resume)
    try:
        made = asyncio.run(_collect(rounds, folder, checks, progress))
    finally:
        folder.close()
    note("learning what health looks like")
    calibration = learn(folder.readings, rounds.reference, service.drift.limits, platform)
    write_calibration(out / CALIBRATION, calibration)
    write_calibration(target, calibration)
    return Calibrated(calibration, target, made, len(folder.readings))


def _refuse_after_suspicion(
    settings: Settings, service_name: str, target: Path, now: datetime
) -> None:
    """Learning anew after a suspicion would teach the fault as health (``drift/rebaseline.py``)."""
    if not target.exists():
        return
    try:
        _, key = read_calibration(target)
        last, _ = wiring.result_store(settings).last_drift(service_name, key)
        state = SequentialState() if last is None else SequentialState.from_json(last.state)
    except BadInput:
        return  # what cannot be read is made anew
    found = rule(None, now, 0, state)
    if found.phase is Phase.REFUSED:
        raise BadInput(
            found.reason,
            field="--accepted-by",
            fix="after a deployment make a new baseline; or look at the last reports and say who vouches "
            "for the service",
        )


def _told_start(service: ServiceSettings) -> str:
    told = wiring.server_start(service)
    if told is None:
        raise BadInput(
            "the server's /metrics does not tell when its process began, so its starts cannot be "
            "told apart",
            field="--start",
            fix="name this start yourself, another name after each restart",
        )
    return told


def _plan(
    rounds: _Rounds, service_name: str, deployment: Deployment, platform: str
) -> dict[str, Any]:
    """Return what must be the same for checks to be put together."""
    return {
        "service": service_name,
        "model": rounds.service.model,
        "reference_id": rounds.baseline.run_ids[0],
        "golden_digest": rounds.baseline.golden_digest,
        "deployment_key": deployment.key,
        "platform": platform,
        "probes": sorted(list(key) for key in rounds.keys),
    }


def _keys(service: ServiceSettings, baseline: Baseline, sentinel: Path | None) -> frozenset[Key]:
    if sentinel is not None:
        return scored_keys(baseline, read_sentinel(sentinel, baseline))
    if service.drift.cases == "all":
        return scored_keys(baseline)
    return scored_keys(baseline, sentinel_of(service, baseline).case_ids)


def _refuse_other_set(service: ServiceSettings, cases: GoldenSet, baseline: Baseline) -> None:
    if golden_digest(cases) != baseline.golden_digest:
        raise DigestMismatch(
            f"the configured golden set ({golden_digest(cases)[:12]}) is not the one that the baseline "
            f"was made with ({baseline.golden_digest[:12]})",
            file=service.golden.cases,
            fix=f"name the set of {BASELINE} in golden.cases, or make a new baseline",
        )


async def _collect(rounds: _Rounds, folder: ReadingsFolder, checks: int, progress: Progress) -> int:
    """Make the checks of this start that the folder lacks; return how many were made."""
    have = sum(reading.block.start == rounds.start for reading in folder.readings)
    made, lost = 0, 0
    async with wiring.model_client(rounds.service) as client:
        while have + made < checks:
            reading = await _one_check(rounds, client, have + made)
            if any(probe.is_lost for probe in reading.probes):
                lost += 1
                if lost >= LOST_ROUNDS:
                    problem = next(p.problem for p in reading.probes if p.is_lost)
                    raise OutsideFailure(
                        f"the server stopped answering: {problem}. {have + made} checks of this start "
                        "are kept; run the same command with --resume"
                    )
                continue
            lost = 0
            _refuse_unhealthy(reading, rounds.reference)
            _refuse_restart(rounds)
            folder.record(reading)
            made += 1
            progress("healthy checks", have + made, checks)
    return made


async def _one_check(rounds: _Rounds, client: ModelClient, number: int) -> CheckReading:
    mode = mode_of_check(rounds.modes, number, rounds.start)
    name = f"{rounds.start}-{number}"
    at = rounds.clock()
    answers: tuple[Answer, ...] = await ask_round(
        rounds.cases,
        rounds.baseline.references(),
        rounds.keys,
        client,
        load=mode.load,
        # A name that was used before a kill has met the cache, so the time is part of it.
        cache_salt=mode.salt(f"{name}-{at.isoformat()}"),
        seed=name,
    )
    return reading_of(
        answers,
        check_id=name,
        at=at,
        block=Block(rounds.start, mode.load, mode.cache),
        keys=rounds.keys,
        burst=f"{rounds.start}/{number // BURST}",
    )


def _refuse_unhealthy(reading: CheckReading, reference: CheckReading) -> None:
    if found := breaches(reading, reference):
        raise BadInput(
            f"check {reading.check_id} is not healthy: {found[0].sentence}",
            fix="find out what serves; only a service that is known to be good is calibrated",
        )


def _refuse_restart(rounds: _Rounds) -> None:
    if rounds.is_start_told and wiring.server_start(rounds.service) != rounds.start:
        raise OutsideFailure(
            "the server was restarted while it was asked; run the same command with --resume"
        )
