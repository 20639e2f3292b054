"""The low-quality rate over the last windows as an inline SVG drawing, with its interval and limits."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
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
from quality_lib.adapters.pages.trend_plot import TrendDrawing
from quality_lib.records import Summary
from quality_lib.scoring.limits import ScoreLimits
from quality_lib.scoring.result import ScorePoint

MOST_POINTS = 144
"""A day of quick passes."""


def draw_rates(points: Sequence[ScorePoint], current: str, limits: ScoreLimits) -> TrendDrawing:
    """Draw the last ``MOST_POINTS`` windows, oldest first; a window without a rate is a gap."""
    shown = sorted(points, key=lambda p: p.end)[-MOST_POINTS:]
    text = _describe(shown)
    drawn = {
        name: page_svg(_figure(shown, current, limits, width, height), name, text)
        for name, (width, height) in {"wide": (960, 260), "narrow": (360, 280)}.items()
    }
    return TrendDrawing(wide=drawn["wide"], narrow=drawn["narrow"], text=text)


def _figure(
    points: Sequence[ScorePoint], current: str, limits: ScoreLimits, width: int, height: int
) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "scores"}):
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        axes = figure.subplots()
        xs, is_time = positions([p.end for p in points])
        _draw(axes, xs, points, limits)
        mark_current(axes, xs, [p.score_id for p in points], current, "this window")
        calm(axes)
        label_times(axes, xs, is_time, most=5 if width < 600 else 9)
        figure.subplots_adjust(
            left=46 / width, right=1 - 12 / width, top=1 - 26 / height, bottom=30 / height
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _draw(
    axes: Any, xs: Sequence[float], points: Sequence[ScorePoint], limits: ScoreLimits
) -> None:
    shares = [math.nan if p.share is None else p.share for p in points]
    highest = max([p.high or 0.0 for p in points if p.share is not None], default=0.0)
    # A wide interval of a thin window must not flatten all others.
    known = max([s for s in shares if math.isfinite(s)], default=0.0)
    top = min(1.0, max(1.6 * limits.alert_rate, 1.15 * known, min(highest, 3 * limits.alert_rate)))
    axes.set_ylim(-0.02 * top, top * 1.05)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if top > 0.1 else f"{value:.1%}")
    floor_line(axes, limits.alert_rate, f"degraded {limits.alert_rate:.0%}", "degraded", above=True)
    if limits.failed_rate <= top:
        floor_line(
            axes, limits.failed_rate, f"failed {limits.failed_rate:.0%}", "failed", above=True
        )
    for x, point in zip(xs, points, strict=True):
        if point.share is not None and point.low is not None and point.high is not None:
            axes.plot(
                [x, x],
                [point.low, min(point.high, top * 1.05)],
                color=COLOUR["muted"],
                alpha=0.45,
                linewidth=2,
                zorder=2,
            )
    axes.set_title("Low-quality answers, with the 95 % interval", **title_style())
    series(axes, xs, shares, [p.summary for p in points])
    missing(axes, xs, shares)


def _describe(points: Sequence[ScorePoint]) -> str:
    counts = [
        f"{n} {summary.value}"
        for summary in Summary
        if (n := sum(p.summary is summary for p in points))
    ]
    known = [p.share for p in points if p.share is not None]
    rates = (
        f" Low-quality rate from {min(known):.1%} to {max(known):.1%}, last known {known[-1]:.1%}."
        if known
        else " No window has a rate."
    )
    return f"{len(points)} windows: {', '.join(counts)}.{rates}"
