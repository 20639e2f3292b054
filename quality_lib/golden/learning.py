"""A calibration from collected healthy checks, and what is missing for one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.limits import HOURLY_LOAD, DriftLimits
from quality_lib.drift.reading import CheckReading
from quality_lib.errors import NoData


def learn(
    readings: Sequence[CheckReading], reference: CheckReading, limits: DriftLimits, platform: str
) -> Calibration:
    """Calibrate on all checks, or on those that were asked one at a time where these repeat bit for bit.

    The latter need fewer: three server starts instead of twenty blocks. Then nothing is known of larger batches, and
    a check that meets other traffic says nothing.

    Raises:
        NoData: there is too little; says what is missing and how to get it.
        BadInput: a check is not healthy.
    """
    try:
        return calibrate(readings, reference, limits, platform)
    except NoData as missing:
        alone = [r for r in readings if r.block.load == HOURLY_LOAD]
        is_exact = bool(alone) and _all_repeat(alone, reference)
        if is_exact:
            with suppress(NoData):
                return calibrate(alone, reference, limits, platform)
        raise NoData(f"{missing}. {_what_there_is(readings, is_exact, limits)}") from None


def _all_repeat(readings: Sequence[CheckReading], reference: CheckReading) -> bool:
    found = [compare_bits(reading, reference) for reading in readings]
    return all(bits.compared and not bits.moved for bits in found)


def _what_there_is(readings: Sequence[CheckReading], is_exact: bool, limits: DriftLimits) -> str:
    blocks = {r.block for r in readings}
    starts = {b.start for b in blocks}
    parts = [
        f"So far: {_count(len(readings), 'check')}, {_count(len(blocks), 'block')}, "
        f"{_count(len(starts), 'server start')}; they are kept"
    ]
    if is_exact:
        alone = sum(r.block.load == HOURLY_LOAD for r in readings)
        parts.append(
            f"asked one at a time every score repeated bit for bit ({_count(alone, 'check')}): with "
            f"{limits.min_checks} such checks over {limits.min_starts} starts that is enough, and "
            "--loads 1 makes no others"
        )
    if len(starts) < limits.min_starts or len(blocks) < limits.min_blocks:
        parts.append("restart the server and run the same command with --resume")
    else:
        parts.append("run the same command with --resume and more --checks")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
