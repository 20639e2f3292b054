"""A calibration as one JSON text and back. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from typing import Any

from quality_lib.drift.block_effect import BlockEffect
from quality_lib.drift.calibration import Calibration, StatisticHealth
from quality_lib.drift.healthy import Healthy
from quality_lib.drift.paired import Statistic
from quality_lib.drift.reading import Block
from quality_lib.errors import BadInput

SCHEMA = 1


def calibration_to_json(calibration: Calibration) -> str:
    """Write a calibration; ``calibration_from_json`` reads it again, number for number."""
    return json.dumps({
        "schema": SCHEMA,
        "reference_id": calibration.reference_id,
        "platform": calibration.platform,
        "checks": calibration.checks,
        "blocks": [asdict(block) for block in calibration.blocks],
        "is_deterministic": calibration.is_deterministic,
        "healthy": [
            {"case_id": key[0], "channel": key[1], **asdict(known)}
            for key, known in sorted(calibration.healthy.items())
        ],
        "statistics": {name.value: asdict(s) for name, s in calibration.statistics.items()},
        "recheck_correlation": calibration.recheck_correlation,
        "bursts": list(calibration.bursts),
        "risk": calibration.risk,
    })


def calibration_from_json(text: str, file: str | None = None) -> Calibration:
    """Read what ``calibration_to_json`` wrote.

    Raises:
        BadInput: the text is something else; names the file where it is known.
    """
    try:
        return _read(json.loads(text, parse_constant=_no_constant))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"is no calibration: {error!r}",
            file=file,
            fix="calibrate again with healthy checks",
        ) from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of a calibration")


def _read(data: Any) -> Calibration:
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']!r}, this release reads {SCHEMA}")
    blocks = tuple(Block(str(b["start"]), int(b["load"]), str(b["cache"])) for b in data["blocks"])
    correlation = data["recheck_correlation"]
    return Calibration(
        reference_id=str(data["reference_id"]),
        platform=str(data["platform"]),
        checks=int(data["checks"]),
        blocks=blocks,
        is_deterministic=bool(data["is_deterministic"]),
        healthy={(str(r["case_id"]), str(r["channel"])): _healthy(r) for r in data["healthy"]},
        statistics={
            Statistic(name): _statistic(row, len(blocks))
            for name, row in data["statistics"].items()
        },
        recheck_correlation=None if correlation is None else _finite(correlation),
        bursts=tuple(sorted(_finite(x) for x in data["bursts"])),
        risk=_share(data["risk"]),
    )


def _healthy(row: Any) -> Healthy:
    numbers = {f.name: _finite(row[f.name]) for f in fields(Healthy)}
    checks, measured = int(numbers.pop("checks")), int(numbers.pop("measured"))
    return Healthy(checks=checks, measured=measured, **numbers)


def _statistic(row: Any, blocks: int) -> StatisticHealth:
    values = tuple(_finite(x) for x in row["values"])
    numbers = tuple(int(x) for x in row["blocks"])
    if not values or len(values) != len(numbers) or not all(0 <= n < blocks for n in numbers):
        raise ValueError("values and blocks of a statistic do not belong together")
    effect = row["effect"]
    return StatisticHealth(
        values,
        numbers,
        BlockEffect(_finite(effect["between_sd"]), _finite(effect["scale"])),
        _finite(row["block_sigmas"]),
    )


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _share(value: Any) -> float:
    if not 0 < _finite(value) < 1:
        raise ValueError(f"{value!r} does not lie between 0 and 1")
    return float(value)
