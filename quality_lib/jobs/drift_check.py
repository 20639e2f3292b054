"""The drift decision of one golden check: fetch its calibration, decide, and ask again where it asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.files.calibration import CALIBRATION, read_calibration
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import BadInput
from quality_lib.golden.answer import GoldenRun
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.comparison import Comparison
from quality_lib.golden.drift_record import (
    OTHER_TRAFFIC,
    Decided,
    DriftRecord,
    StateBefore,
    record_of,
)
from quality_lib.golden.drift_verdict import left_bands, quality_of
from quality_lib.golden.mode import platform_name, recheck_modes
from quality_lib.golden.reading import DECODED, WARM, reading_of_run, reference_of
from quality_lib.jobs.beside_run import BesideRun
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
    beside: Path | None = None
    """Where what is asked beside the run is kept for a resumed check; None: nowhere."""

    @property
    def platform(self) -> str:
        """Name the engine and host that answer."""
        return platform_name(self.deployment.facts.vllm_version, self.deployment.environment)


def decide_drift(check: DriftCheck, note: Note = lambda _: None) -> DriftRecord:
    """Decide on a finished run; while the decision asks for it, ask the calibrated answers again.

    Each re-check is asked at another load or cache state, and at most ``most_rechecks`` are. What was
    answered before a kill is not asked again.
    """
    known = check.health
    beside = BesideRun(
        check.service, check.cases, check.baseline, check.run.run_id, check.clock, check.beside
    )
    with closing(beside):
        decided = _decided(check, beside, note)
    first = decided[0].reading
    every_bit = known.calibration.is_deterministic or (
        first.running is not None
        and known.calibration.is_exact_for(first.block.load, first.running)
    )
    with_scores = every_bit or any(
        reason.code in OTHER_TRAFFIC for reason in decided[-1].decision.reasons
    )
    return record_of(
        known.key,
        decided,
        known.calibration,
        check.service.drift.limits,
        known.before,
        left_bands(check.comparison, with_scores),
    )


def _decided(check: DriftCheck, beside: BesideRun, note: Note) -> list[Decided]:
    """Return the decision on the run, and on each re-check that it asks for."""
    known, most = check.health, max(1, check.service.drift.limits.most_rechecks)
    reference = reference_of(check.baseline, known.calibration.healthy)
    keys = frozenset(reference.answered())
    start = wiring.server_start(check.service) or UNKNOWN_START
    reading = _reading(check, beside, start, keys)
    decision = _decide(check, reading, reference, known.before.state)
    decided = [Decided(reading, decision)]
    modes = recheck_modes(known.calibration, reading.block.load, reading.block.cache)
    while decision.needs_recheck and len(decided) <= most:
        mode = next(modes)
        note(
            f"re-check {len(decided)}: {decision.reasons[0].sentence}; asking {mode.load} at once, "
            f"cache {mode.cache}"
        )
        again = beside.ask(
            f"recheck-{len(decided)}",
            Block(start, mode.load, mode.cache),
            keys,
            # Where every bit counts, a second attempt shows whether other traffic shares the batches.
            repeats=2 if known.calibration.is_exact_for(mode.load) else 1,
        )
        decision = _decide(check, again, reference, decision.state, is_recheck=True)
        decided.append(Decided(again, decision))
    return decided


def _reading(
    check: DriftCheck, beside: BesideRun, start: str, keys: frozenset[Key]
) -> CheckReading:
    """Return what the run scored, and the sentinel set decoded where health is known of that."""
    decoded = frozenset(key for key in keys if key[1] in DECODED)
    probes = beside.ask("decoded", Block(start, 1, WARM), decoded).probes if decoded else ()
    return reading_of_run(check.run, start, keys, probes)


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
