"""Calibration and evaluation, disjoint by server start: the rule is enforced here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.faults.fault import Expected
from bench.matrix.recording import HEALTHY, Check, Track
from quality_lib.errors import BadInput


def is_calibration(start: int) -> bool:
    """Return whether a server start calibrates: the odd ones do, and faults come in the even ones."""
    return start % 2 == 1


@dataclass(frozen=True)
class Halves:
    """Healthy checks to learn from, and healthy and faulty ones to be judged on."""

    calibration: tuple[Check, ...]
    healthy: tuple[Check, ...]
    faulty: tuple[Check, ...]

    def __post_init__(self) -> None:
        learned = {check.head.start for check in self.calibration}
        servers = {check.head.server for check in self.calibration}
        judged = (*self.healthy, *self.faulty)
        if shared := sorted(learned & {check.head.start for check in judged}):
            raise BadInput(
                f"server start {shared[0]} is in both halves: what was learned from may not be judged"
            )
        if shared_servers := sorted(servers & {check.head.server for check in judged}):
            raise BadInput(f"server {shared_servers[0]} is in both halves")
        if any(check.head.expected is not Expected.SILENT for check in self.calibration):
            raise BadInput("a faulty check is among those to learn from")
        if not self.calibration:
            raise BadInput("no healthy check to learn from", fix="record more server starts")


def split(checks: Sequence[Check], track: Track) -> Halves:
    """Split the checks of a track by the parity of their server start.

    Faults that were recorded in a calibrating start are refused. Controls other than plain healthy checks
    are never learned from.
    """
    own = [check for check in checks if check.head.track is track]
    faulty = [check for check in own if check.head.fault != HEALTHY]
    if any(is_calibration(check.head.start) for check in faulty):
        raise BadInput("a fault was recorded in a server start that calibrates")
    plain = [check for check in own if check.head.fault == HEALTHY]
    return Halves(
        tuple(check for check in plain if is_calibration(check.head.start)),
        tuple(check for check in plain if not is_calibration(check.head.start)),
        tuple(faulty),
    )
