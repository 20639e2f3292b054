"""Parts that the plots over time have in common: series, gaps, limits, and a calm frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quality_lib.adapters.pages.page_svg import COLOUR
from quality_lib.records import Summary

_MARKER = {
    Summary.HEALTHY: "o",
    Summary.DEGRADED: "^",
    Summary.FAILED: "D",
    Summary.INCONCLUSIVE: "s",
}


def series(
    axes: Any, xs: Sequence[float], values: Sequence[float], summaries: Sequence[Summary]
) -> None:
    """Draw values over time, each marked with how its run was judged."""
    # Not-a-number breaks the line: a gap stays a gap.
    axes.plot(xs, values, color=COLOUR["muted"], linewidth=1, alpha=0.5, zorder=2)
    size = 7 if len(xs) <= 60 else 5.5
    for summary, marker in _MARKER.items():
        own = [
            (x, v)
            for x, v, p in zip(xs, values, summaries, strict=True)
            if p is summary and math.isfinite(v)
        ]
        if own:
            axes.plot(
                [x for x, _ in own],
                [v for _, v in own],
                linestyle="none",
                marker=marker,
                markersize=size if summary is Summary.HEALTHY else size + 2,
                markerfacecolor=COLOUR[summary.value],
                markeredgecolor=COLOUR["surface"],
                markeredgewidth=0.8,
                clip_on=False,
                zorder=4 if summary is Summary.HEALTHY else 5,
            )


def missing(axes: Any, xs: Sequence[float], values: Sequence[float]) -> None:
    """Mark runs without a number on the lower edge, so that they never look like fine ones."""
    gaps = [x for x, v in zip(xs, values, strict=True) if math.isnan(v)]
    if gaps:
        axes.plot(
            gaps,
            [0.0] * len(gaps),
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="x",
            markersize=6,
            markeredgecolor=COLOUR["inconclusive"],
            markeredgewidth=1.5,
            clip_on=False,
            zorder=5,
        )


def floor_line(axes: Any, height: float, label: str, colour: str, *, above: bool) -> None:
    """Draw a limit with its label."""
    axes.axhline(height, color=COLOUR[colour], linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        label,
        xy=(0.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(3, 2 if above else -2),
        textcoords="offset points",
        va="bottom" if above else "top",
        color=COLOUR[colour],
        fontsize=11,
        zorder=6,
    )


def mark_current(
    axes: Any, xs: Sequence[float], ids: Sequence[str], current: str, label: str
) -> None:
    """Point to the run that the report is about."""
    for x, own in zip(xs, ids, strict=True):
        if own == current:
            axes.axvline(x, color=COLOUR["accent"], linewidth=1.5, alpha=0.7, zorder=1)
            axes.annotate(
                label,
                xy=(x, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right" if x > (xs[0] + xs[-1]) / 2 else "left",
                va="bottom",
                color=COLOUR["accent"],
                fontsize=11,
            )


def calm(axes: Any) -> None:
    """Take away what is no data."""
    axes.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(COLOUR["line"])
    axes.grid(axis="y", color=COLOUR["line"], linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=COLOUR["muted"], labelsize=11)


def title_style() -> dict[str, Any]:
    """Return how a plot is named."""
    return {"loc": "left", "fontsize": 12, "color": COLOUR["ink"], "pad": 8, "x": 0.0}
