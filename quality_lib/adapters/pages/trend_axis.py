"""The time axis of the trend plot: where a run lies, and round times as labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quality_lib.adapters.pages.page_svg import COLOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3600
_DAY = 24 * _HOUR
# Matplotlib's own locator warns about spans that it has no fitting interval for.
_STEPS = (
    *(60 * m for m in (1, 5, 15, 30)),
    *(_HOUR * h for h in (1, 2, 3, 6, 12)),
    *(_DAY * d for d in (1, 2, 4, 7, 14, 28, 91, 182, 364)),
)


def positions(moments: Sequence[str]) -> tuple[list[float], bool]:
    """Return seconds on the time axis, or the order of the runs when a time cannot be read."""
    try:
        times = [datetime.fromisoformat(text) for text in moments]
    except ValueError:
        return [float(i) for i in range(len(moments))], False
    aware = [m if m.tzinfo else m.replace(tzinfo=UTC) for m in times]
    return [(m - _EPOCH).total_seconds() for m in aware], True


def label_times(axes: Any, xs: Sequence[float], is_time: bool, most: int) -> None:
    """Put at most ``most`` labels under the axis; ``xs`` and ``is_time`` come from ``positions``."""
    first, last = xs[0], xs[-1]
    room = (last - first) * 0.02 or 1.0
    axes.set_xlim(first - room, last + room)
    ticks = round_times(first, last, most) if is_time else []
    axes.set_xticks(ticks, [_label(tick) for tick in ticks])
    if not is_time:
        axes.set_xlabel("runs in order", color=COLOUR["muted"], fontsize=11)


def round_times(first: float, last: float, most: int) -> list[float]:
    """Return the round UTC times between two, in seconds; the first itself when there is none."""
    widest = _STEPS[-1] * max(1, math.ceil((last - first) / _STEPS[-1] / most))
    step = next((s for s in _STEPS if (last - first) / s < most), widest)
    start = math.ceil(first / step)
    return [float(n * step) for n in range(start, math.floor(last / step) + 1)] or [first]


def _label(second: float) -> str:
    moment = _EPOCH + timedelta(seconds=second)
    return f"{moment:%H:%M}" if second % _DAY else f"{moment.day} {moment:%b}"
