"""A calibration as one JSON text and back. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from quality_lib.drift.block_effect import BlockEffect
from quality_lib.drift.calibration import Calibration, StatisticHealth
from quality_lib.drift.healthy import Healthy
from quality_lib.drift.paired import Statistic
from quality_lib.drift.reading import Block, Key
from quality_lib.drift.variants import Variant, Variants
from quality_lib.errors import BadInput

SCHEMA = 2
FIX = "make it again: 'quality golden calibrate --resume' learns from the checks that were kept"
_T = TypeVar("_T")


def calibration_to_json(calibration: Calibration) -> str:
    """Write a calibration; ``calibration_from_json`` reads it again, number for number."""
    return json.dumps({
        "schema": SCHEMA,
        "reference_id": calibration.reference_id,
        "platform": calibration.platform,
        "checks": calibration.checks,
        "blocks": [asdict(block) for block in calibration.blocks],
        "exact_up_to": calibration.exact_up_to,
        "healthy": [
            {"case_id": key[0], "channel": key[1], **asdict(known)}
            for key, known in sorted(calibration.healthy.items())
        ],
        "variants": [
            {"case_id": key[0], "channel": key[1], "answers": [asdict(a) for a in found.answers]}
            for key, found in sorted(calibration.variants.items())
        ],
        "statistics": {name.value: asdict(s) for name, s in calibration.statistics.items()},
        "recheck_correlation": calibration.recheck_correlation,
        "bursts": list(calibration.bursts),
        "risk": calibration.risk,
        "most_running": calibration.most_running,
        "accepted_by": calibration.accepted_by,
    })


def calibration_from_json(text: str, file: str | None = None) -> Calibration:
    """Read what ``calibration_to_json`` wrote.

    Raises:
        BadInput: the text is something else; names the file where it is known.
    """
    try:
        return calibration_of(json.loads(text, parse_constant=_no_constant))
    except ValueError as error:
        why = error.why if isinstance(error, FieldAtFault) else error
        raise BadInput(f"is no calibration: {why!r}", file=file, fix=FIX) from error


class FieldAtFault(ValueError):
    """A field of a calibration that is missing or cannot be read."""

    def __init__(self, field: str, why: Exception) -> None:
        super().__init__(f"{field}: {why!r}")
        self.field = field
        self.why = why


def calibration_of(data: Any) -> Calibration:
    """Read a calibration from what its JSON holds.

    Raises:
        FieldAtFault: naming the first field that cannot be read.
    """

    def part(name: str, read: Callable[[Any], _T]) -> _T:
        try:
            return read(data[name])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FieldAtFault(name, error) from error

    part("schema", _refuse_other_schema)
    blocks = part("blocks", lambda rows: tuple(map(_block, rows)))
    return Calibration(
        reference_id=part("reference_id", str),
        platform=part("platform", str),
        checks=part("checks", int),
        blocks=blocks,
        exact_up_to=part("exact_up_to", int),
        healthy=part(
            "healthy",
            lambda rows: {(str(r["case_id"]), str(r["channel"])): _healthy(r) for r in rows},
        ),
        variants=part("variants", _variants),
        statistics=part(
            "statistics",
            lambda rows: {Statistic(k): _statistic(row, len(blocks)) for k, row in rows.items()},
        ),
        recheck_correlation=part(
            "recheck_correlation", lambda value: None if value is None else _finite(value)
        ),
        bursts=part("bursts", lambda values: tuple(sorted(map(_finite, values)))),
        risk=part("risk", _share),
        most_running=part("most_running", int),
        accepted_by=str(data.get("accepted_by", "")),  # older files have none
    )


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of a calibration")


def _refuse_other_schema(schema: Any) -> None:
    if schema != SCHEMA:
        raise ValueError(f"schema {schema!r}, this release reads {SCHEMA}")


def _variants(rows: Any) -> dict[Key, Variants]:
    return {(str(row["case_id"]), str(row["channel"])): _answers(row) for row in rows}


def _answers(row: Any) -> Variants:
    answers = tuple(map(_variant, row["answers"]))
    if len({len(answer.logprobs) for answer in answers}) > 1:
        raise ValueError(f"scores of {row['case_id']} ({row['channel']}) differ in their number")
    return Variants(answers)


def _variant(row: Any) -> Variant:
    return Variant(
        tuple(map(int, row["token_ids"])),
        tuple(None if x is None else _finite(x) for x in row["logprobs"]),
    )


def _block(row: Any) -> Block:
    return Block(str(row["start"]), int(row["load"]), str(row["cache"]))


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
