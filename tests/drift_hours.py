"""The hours of a calibrated service with a stand-in model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from quality_lib import wiring
from quality_lib.adapters.files.calibration import read_calibration
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import NoData
from quality_lib.golden.comparison import compare
from quality_lib.golden.drift_record import DriftRecord, StateBefore
from quality_lib.golden.drift_verdict import judge_with_drift
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.verdict import GoldenVerdict
from quality_lib.jobs.calibration import calibrate_service
from quality_lib.jobs.deployment import observe_deployment
from quality_lib.jobs.drift_check import DriftCheck, KnownHealth, decide_drift
from quality_lib.records import Tri
from tests.drift_world import DriftWorld
from tests.golden.conftest import words_in_common

LOADS = (1, 4)


class Hours:
    """The same service, hour by hour."""

    def __init__(
        self,
        world: DriftWorld,
        starts: int,
        each: int,
        spread: float = 0.0,
        decode_every: int | None = None,
    ) -> None:
        self.world, self.spread = world, spread
        self.rng = random.Random(7)
        for number in range(starts):
            self.restart()
            try:
                made = calibrate_service(
                    world.settings, "chat", world.baseline_dir, world.folder / "healthy",
                    checks=each, loads=LOADS, resume=number > 0, clock=world.hour,
                    decode_every=decode_every,
                )  # fmt: skip
            except NoData:
                assert number < starts - 1
        self.calibration, self.key = read_calibration(made.file)
        self.before = StateBefore(SequentialState(), "none: the first check")
        self.number = 0

    def restart(self) -> None:
        """Start the server anew; a healthy start lies a little aside of the others."""
        self.world.start = f"start-{self.rng.random()}"
        self.world.model.offset = self.rng.gauss(0, self.spread)

    def asked(self, beside: Path | None = None) -> DriftCheck:
        """Return the next hour's run, as the decision gets it."""
        world = self.world
        world.hour()
        self.number += 1
        service = world.settings.service("chat")
        run = world.run(f"hour-{self.number}")
        comparison = compare(
            world.cases, run, world.baseline, words_in_common, wiring.limits(service.thresholds),
            golden_digest(world.cases),
        )  # fmt: skip
        return DriftCheck(
            service,
            world.cases,
            world.baseline,
            KnownHealth(self.calibration, self.key, self.before),
            run,
            observe_deployment(service),
            comparison,
            None,
            world.hour,
            beside,
        )

    def check(self) -> tuple[DriftRecord, GoldenVerdict]:
        hour = self.asked()
        record = decide_drift(hour)
        told = f"check {hour.run.run_id}"
        self.before = StateBefore(SequentialState.from_json(record.state), told, record.bands)
        floors = wiring.floors(hour.service.thresholds)
        return record, judge_with_drift(hour.comparison, floors, (), record)

    def until_changed(self, most: int) -> Iterator[tuple[DriftRecord, GoldenVerdict]]:
        """Yield checks up to the one that says *changed*."""
        for _ in range(most):
            found = self.check()
            yield found
            if found[1].changed is Tri.YES:
                return
        pytest.fail(f"nothing was found in {most} hours")
