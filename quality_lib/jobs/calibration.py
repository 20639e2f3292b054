"""Calibrate a healthy service: many rounds of the sentinel set, then what health looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.files.baseline import read_baseline
from quality_lib.adapters.files.calibration import CALIBRATION, read_calibration, write_calibration
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.readings import ReadingsFolder
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import breaches
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.drift.rebaseline import Phase, rule
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.learning import learn
from quality_lib.golden.mode import BURST, Mode, mode_of_check, modes_of, platform_name
from quality_lib.golden.ports import ModelClient, Progress
from quality_lib.golden.reading import (
    decoded_keys,
    is_decoded,
    reference_of,
)
from quality_lib.golden.sentinel_round import check_sentinel
from quality_lib.jobs.clock import Clock, Note, utc_now
from quality_lib.jobs.deployment import Deployment, observe_deployment
from quality_lib.jobs.sentinel import refuse_other_set, watched_keys
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
    checks_decoded: int
    """Of these, how many were decoded too."""


@dataclass(frozen=True)
class _Rounds:
    """What every round needs."""

    service: ServiceSettings
    cases: GoldenSet
    baseline: Baseline
    reference: CheckReading
    keys: frozenset[Key]
    """What is scored in every check."""
    decoded: frozenset[Key]
    """What is decoded in some."""
    decode_every: int
    modes: tuple[Mode, ...]
    start: str
    is_start_told: bool
    clock: Clock

    def keys_of(self, number: int) -> frozenset[Key]:
        """Return what one of many checks asks: bursts are decoded whole, as a check with its re-checks is."""
        draws = self.decode_every > 0 and number // BURST % self.decode_every == 0
        return self.keys | self.decoded if draws else self.keys


def calibrate_service(
    settings: Settings,
    service_name: str,
    baseline_dir: Path,
    out: Path,
    *,
    checks: int,
    loads: Sequence[int] | None = None,
    decode_every: int | None = None,
    resume: bool = False,
    sentinel: Path | None = None,
    start: str | None = None,
    accepted_by: str | None = None,
    clock: Clock = utc_now,
    progress: Progress = lambda stage, done, total: None,
    note: Note = lambda _: None,
) -> Calibrated:
    """Make ``checks`` healthy checks of this server start, then calibrate on all checks in ``out``.

    Several starts come together by restarting the server and calling again with ``resume``. Of
    ``decode_every`` bursts one is decoded too, by default as the settings say; 0: none.

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
    refuse_other_set(service, cases, baseline)
    if (baseline.service, baseline.model) != (service_name, service.model):
        raise DigestMismatch(
            f"is the baseline of '{baseline.service}' with model '{baseline.model}'",
            file=baseline_dir,
        )
    target = (baseline_dir if baseline_dir.is_dir() else baseline_dir.parent) / CALIBRATION
    if accepted_by is None:
        _refuse_after_suspicion(settings, service_name, target, clock())
    keys = watched_keys(service, baseline, sentinel)
    decoded = decoded_keys(baseline, {case_id for case_id, _ in keys})
    note("looking at the server")
    deployment = observe_deployment(service, note)
    rounds = _Rounds(
        service,
        cases,
        baseline,
        reference_of(baseline, keys | decoded),
        keys,
        decoded,
        service.drift.decode_every if decode_every is None else decode_every,
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
    learned = learn(folder.readings, rounds.reference, service.drift.limits, platform)
    calibration = replace(learned, accepted_by=accepted_by or "")
    write_calibration(out / CALIBRATION, calibration)
    write_calibration(target, calibration)
    with_decoding = sum(map(is_decoded, folder.readings))
    return Calibrated(calibration, target, made, len(folder.readings), with_decoding)


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
    return await check_sentinel(
        rounds.cases,
        rounds.baseline.references(),
        rounds.keys_of(number),
        client,
        Block(rounds.start, mode.load, mode.cache),
        f"{rounds.start}-{number}",
        rounds.clock(),
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
