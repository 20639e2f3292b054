"""Plots of a result: power against tokens, delay against intensity, and false alarms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, DPI = 7.5, 4.2, 120
INTENSITY = re.compile(r"^(?P<family>.+)-2\^-(?P<power>\d+)-\d+$")
OURS = ("product, one check", "scored delta")


def write_plots(result: Mapping[str, Any], folder: Path, stem: str) -> list[Path]:
    """Write the plots beside the result and return their files."""
    import matplotlib

    matplotlib.use("Agg")
    noisy = result["tracks"]["noisy"]["methods"]
    return [
        _draw(_power, noisy, folder / f"{stem}_power.png"),
        _draw(_delay, noisy, folder / f"{stem}_delay.png"),
        _draw(_false_alarms, noisy, folder / f"{stem}_false_alarms.png"),
    ]


def delays(faults: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Return (power of two, share found) of the faults that come in intensities, by family, mildest first."""
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for fault in faults:
        if told := INTENSITY.match(fault["fault"]):
            grouped.setdefault((told["family"], int(told["power"])), []).append(fault)
    found: dict[str, list[tuple[int, float]]] = {}
    for (family, power), group in sorted(grouped.items(), key=lambda g: (g[0][0], -g[0][1])):
        hits, checks = sum(f["hits"] for f in group), sum(f["of"] for f in group)
        found.setdefault(family, []).append((power, hits / checks))
    return found


def _draw(draw: Any, methods: Mapping[str, Any], file: Path) -> Path:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH, HEIGHT), dpi=DPI)
    draw(axes, methods)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)
    return file


def _power(axes: Any, methods: Mapping[str, Any]) -> None:
    from matplotlib import colormaps

    for number, (name, one) in enumerate(methods.items()):
        points = [(row["tokens"], row["mean_auc"]) for row in one["by_tokens"] if row["mean_auc"]]
        if points:
            style = {"linewidth": 2.4} if name in OURS else {"linewidth": 1, "alpha": 0.8}
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name,
                      color=colormaps["tab20"](number), **style)  # fmt: skip
    _log_scale(axes.set_xscale, [x for line in axes.lines for x in line.get_xdata()])
    axes.set(xlabel="tokens of a check", ylabel="mean AUC over the faults", ylim=(0.4, 1.02))
    axes.set_title("Power against tokens, noisy track", loc="left", fontsize=10)
    if axes.lines:
        axes.legend(fontsize=7, ncol=2)


def _delay(axes: Any, methods: Mapping[str, Any]) -> None:
    lines = {"solid": OURS[0], "dashed": "LT", "dotted": "exact match"}
    for line, name in lines.items():
        for number, (family, points) in enumerate(delays(methods[name]["faults"]).items()):
            xs = [power for power, _ in points]
            ys = [1 / found if found else float("nan") for _, found in points]
            axes.plot(xs, ys, linestyle=line, marker="o", markersize=3, color=f"C{number}",
                      label=f"{family}: {name}")  # fmt: skip
    axes.invert_xaxis()
    _log_scale(axes.set_yscale, [y for line in axes.lines for y in line.get_ydata()])
    axes.set(
        xlabel="intensity of the fault, as the power k of 2^-k", ylabel="checks until found (mean)"
    )
    axes.set_title("Delay against intensity, noisy track", loc="left", fontsize=10)
    if axes.lines:
        axes.legend(fontsize=7)


def _log_scale(set_scale: Callable[[str], None], values: Sequence[float]) -> None:
    """Make an axis logarithmic if it has something to show; matplotlib refuses one without positive values."""
    if any(value > 0 for value in values):
        set_scale("log")


def _false_alarms(axes: Any, methods: Mapping[str, Any]) -> None:
    names = list(methods)[::-1]
    for place, name in enumerate(names):
        one = methods[name]["false_alarms"]
        low, high = one["interval"]
        axes.plot([low, high], [place, place], color="C0", linewidth=2)
        axes.plot(one["share"] or 0.0, place, marker="o", color="C3" if one["hits"] else "C0")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set(xlabel="share of healthy checks that alarm, with its 95 % interval", xlim=(-0.02, 1))
    axes.set_title("False alarms in health, noisy track", loc="left", fontsize=10)
