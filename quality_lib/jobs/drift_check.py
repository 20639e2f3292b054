"""The drift decision of one golden check: fetch its calibration, decide, and ask again where it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.files.calibration import CALIBRATION, read_calibration
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.reading import Block, CheckReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import BadInput
from quality_lib.golden.answer import GoldenRun
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.comparison import Comparison
from quality_lib.golden.drift_record import (
    UNSTEADY,
    Decided,
    DriftRecord,
    StateBefore,
    record_of,
)
from quality_lib.golden.drift_verdict import left_bands, quality_of
from quality_lib.golden.mode import Mode, platform_name, recheck_modes
from quality_lib.golden.reading import reading_of, reading_of_run, reference_of
from quality_lib.golden.sentinel_round import ask_round
from quality_lib.jobs.clock import Note
from quality_lib.jobs.deployment import Deployment
from quality_lib.settings import ServiceSettings, Settings
from quality_lib.snapshots.ports import BASELINE_FOLDER, SnapshotStore, StoredSnapshot

UNKNOWN_START = "unknown"


@dataclass(frozen=True)
class KnownHealth:
    """A snapshot's calibration, and what the check before has left of it."""

    calibration: Calibration
    key: str
    before: StateBefore


def calibration_name(stored: StoredSnapshot) -> str | None:
    """Return the name of a snapshot's calibration among its files; None when it has none."""
    name = BASELINE_FOLDER + CALIBRATION
    return name if name in stored.entry.files else None


def fetch_health(
    settings: Settings,
    service_name: str,
    store: SnapshotStore,
    stored: StoredSnapshot,
    out: Path,
    note: Note,
) -> KnownHealth | None:
    """Return the calibration that decides; None where there is none or the settings want bands.

    Raises:
        BadInput: the calibration cannot be read; names file and field.
        OutsideFailure: a store does not answer.
    """
    name = calibration_name(stored)
    if name is None or not settings.service(service_name).drift.enabled:
        return None
    calibration, key = read_calibration(store.fetch_file(stored, name, out / CALIBRATION))
    last, told = wiring.result_store(settings).last_drift(service_name, key)
    state = SequentialState()
    bands: tuple[str, ...] = ()
    if last is not None:
        try:
            state, bands = SequentialState.from_json(last.state), last.bands
        except BadInput as problem:
            told = f"lost: {problem}"
    if state.last_check_id is None:
        note(f"evidence of earlier checks: {told}")
    return KnownHealth(calibration, key, StateBefore(state, told, bands))


@dataclass(frozen=True)
class DriftCheck:
    """Everything that one decision is made of."""

    service: ServiceSettings
    cases: GoldenSet
    baseline: Baseline
    health: KnownHealth
    run: GoldenRun
    deployment: Deployment
    comparison: Comparison
    frozen: str | None
    """Why nobody may be paged and nothing is remembered; None: nothing speaks against it."""
    clock: Callable[[], datetime]

    @property
    def platform(self) -> str:
        """Name the engine and host that answer."""
        return platform_name(self.deployment.facts.vllm_version, self.deployment.environment)


def decide_drift(check: DriftCheck, note: Note = lambda _: None) -> DriftRecord:
    """Decide on a finished run; while the decision asks for it, ask the calibrated answers again.

    Each re-check is asked at another load or cache state, and at most ``most_rechecks`` are.
    """
    known, limits = check.health, check.service.drift.limits
    keys = frozenset(known.calibration.healthy)
    reference = reference_of(check.baseline, keys)
    start = wiring.server_start(check.service) or UNKNOWN_START
    reading = reading_of_run(check.run, start, keys)
    decision = _decide(check, reading, reference, known.before.state)
    decided = [Decided(reading, decision)]
    modes = recheck_modes(known.calibration, reading.block.load, reading.block.cache)
    while decision.needs_recheck and len(decided) <= max(1, limits.most_rechecks):
        mode = next(modes)
        note(
            f"re-check {len(decided)}: {decision.reasons[0].sentence}; asking {mode.load} at once, "
            f"cache {mode.cache}"
        )
        again = asyncio.run(
            _ask_again(check, reference, Block(start, mode.load, mode.cache), len(decided))
        )
        decision = _decide(check, again, reference, decision.state, is_recheck=True)
        decided.append(Decided(again, decision))
    with_scores = known.calibration.is_deterministic or any(
        reason.code == UNSTEADY for reason in decision.reasons
    )
    return record_of(
        known.key,
        decided,
        known.calibration,
        limits,
        known.before,
        left_bands(check.comparison, with_scores),
    )


def _decide(
    check: DriftCheck,
    reading: CheckReading,
    reference: CheckReading,
    state: SequentialState,
    is_recheck: bool = False,
) -> DriftDecision:
    return decide(
        reading,
        reference,
        check.health.calibration,
        state,
        check.service.drift.limits,
        is_recheck=is_recheck,
        platform=check.platform,
        # The texts are those of the run; a re-check brings none of its own.
        quality=None if is_recheck else quality_of(check.comparison),
        frozen=check.frozen,
    )


async def _ask_again(
    check: DriftCheck, reference: CheckReading, block: Block, number: int
) -> CheckReading:
    keys = frozenset(reference.answered())
    name = f"{check.run.run_id}-recheck-{number}"
    salt = Mode(block.load, block.cache).salt(name)
    async with wiring.model_client(check.service) as client:
        answers = await ask_round(
            check.cases,
            check.baseline.references(),
            keys,
            client,
            load=block.load,
            cache_salt=salt,
            seed=name,
            # Where every bit counts, a second attempt shows whether other traffic shares the batches.
            repeats=2 if check.health.calibration.is_deterministic else 1,
        )
    return reading_of(
        answers,
        check_id=name,
        at=check.clock(),
        block=block,
        keys=keys,
        burst=check.run.run_id,
    )
