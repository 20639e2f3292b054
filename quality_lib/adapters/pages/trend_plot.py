"""The trend over the last golden runs as an inline SVG drawing, made with matplotlib.

Colours are CSS variables of the page around it, so that one drawing serves light and dark. Text
stays text. The same input gives the same bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quality_lib.adapters.pages.page_svg import COLOUR, page_svg
from quality_lib.adapters.pages.plot_parts import (
    calm,
    floor_line,
    mark_current,
    missing,
    series,
    title_style,
)
from quality_lib.adapters.pages.trend_axis import label_times, positions
from quality_lib.golden.result import TrendPoint
from quality_lib.golden.verdict import Floors
from quality_lib.records import Summary

MOST_RUNS = 168
"""A week of hourly runs."""

# The difference spans many orders of magnitude and has two ends that no logarithm knows: exactly 0
# and infinite. Both get a line of their own outside the logarithmic part.
_SMALLEST, _LARGEST = -4.0, 1.0
_ZERO, _INFINITE = _SMALLEST - 1.0, _LARGEST + 1.0


@dataclass(frozen=True)
class TrendDrawing:
    """Two layouts of the same plot and what they show in words."""

    wide: str
    narrow: str
    text: str


def draw_trend(
    points: Sequence[TrendPoint],
    current_run_id: str,
    floors: Floors,
    logprob_limit: float | None = None,
) -> TrendDrawing:
    """Draw the last ``MOST_RUNS`` of ``points``, oldest first; ``logprob_limit`` is this run's band."""
    shown = sorted(points, key=lambda p: p.started_at)[-MOST_RUNS:]
    text = _describe(shown)
    drawn = {
        name: page_svg(
            _figure(shown, current_run_id, floors, logprob_limit, width, height), name, text
        )
        for name, (width, height) in {"wide": (960, 390), "narrow": (360, 420)}.items()
    }
    return TrendDrawing(wide=drawn["wide"], narrow=drawn["narrow"], text=text)


def _figure(
    points: Sequence[TrendPoint],
    current_run_id: str,
    floors: Floors,
    logprob_limit: float | None,
    width: int,
    height: int,
) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": "golden"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.15))
        xs, is_time = positions([p.started_at for p in points])
        _draw_similarity(upper, xs, points, floors)
        _draw_difference(lower, xs, points, floors, logprob_limit)
        for axes in (upper, lower):
            _mark_deployments(axes, xs, points)
            mark_current(
                axes,
                xs,
                [p.run_id for p in points],
                current_run_id,
                "this run" if axes is upper else "",
            )
            calm(axes)
        label_times(lower, xs, is_time, most=5 if width < 600 else 9)
        figure.subplots_adjust(
            left=46 / width,
            right=1 - 12 / width,
            top=1 - 24 / height,
            bottom=30 / height,
            hspace=0.34,
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _draw_similarity(
    axes: Any, xs: Sequence[float], points: Sequence[TrendPoint], floors: Floors
) -> None:
    values = [_number(p.mean_similarity) for p in points]
    known = [v for v in values if math.isfinite(v)]
    low = min([floors.similarity_failed - 0.05, *(v - 0.04 for v in known)])
    axes.set_ylim(low, 1.0 + (1.0 - low) * 0.06)
    floor_line(
        axes,
        floors.similarity_alert,
        f"alert {floors.similarity_alert:.2f}",
        "degraded",
        above=True,
    )
    floor_line(
        axes,
        floors.similarity_failed,
        f"failed {floors.similarity_failed:.2f}",
        "failed",
        above=False,
    )
    axes.set_title("Mean similarity", **title_style())
    series(axes, xs, values, [p.summary for p in points])
    missing(axes, xs, values)


def _draw_difference(
    axes: Any,
    xs: Sequence[float],
    points: Sequence[TrendPoint],
    floors: Floors,
    limit: float | None,
) -> None:
    values = [_height(p.raw_logprob_delta) for p in points]
    axes.set_ylim(_ZERO - 0.6, _INFINITE + 0.5)
    ticks = {
        _ZERO: "0",
        -3.0: "0.001",
        -2.0: "0.01",
        -1.0: "0.1",
        0.0: "1",
        1.0: "10",
        _INFINITE: "∞",
    }
    axes.set_yticks(list(ticks), list(ticks.values()))
    if limit and math.isfinite(limit):
        floor_line(axes, _height(limit), f"limit {limit:.2g}", "degraded", above=True)
    floor_line(
        axes,
        _height(floors.gross_logprob),
        f"failed {floors.gross_logprob:g}",
        "failed",
        above=True,
    )
    axes.set_title("Log-probability difference, nats per token", **title_style())
    series(axes, xs, values, [p.summary for p in points])
    missing(axes, xs, values)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _height(value: float | None) -> float:
    if value is None or math.isnan(value):
        return math.nan
    if math.isinf(value):
        return _INFINITE
    if value <= 0:
        return _ZERO
    return min(max(math.log10(value), _SMALLEST), _LARGEST)


def _mark_deployments(axes: Any, xs: Sequence[float], points: Sequence[TrendPoint]) -> None:
    for index in range(1, len(points)):
        before, after = points[index - 1].deployment_key, points[index].deployment_key
        if before and after and before != after:
            middle = (xs[index - 1] + xs[index]) / 2
            axes.axvline(
                middle, color=COLOUR["muted"], linewidth=1, linestyle=(0, (1, 2)), zorder=1
            )


def _describe(points: Sequence[TrendPoint]) -> str:
    counts = [
        f"{n} {summary.value}"
        for summary in Summary
        if (n := sum(p.summary is summary for p in points))
    ]
    known = [p.mean_similarity for p in points if p.mean_similarity is not None]
    similarity = (
        f" Mean similarity from {min(known):.3f} to {max(known):.3f}, last known {known[-1]:.3f}."
        if known
        else " No run has a mean similarity."
    )
    return f"{len(points)} runs: {', '.join(counts)}.{similarity}"
