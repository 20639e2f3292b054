"""What the benchmarks share: the machine, intervals, and how well a score separates two groups."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

Z95 = 1.959964


def machine() -> dict[str, str]:
    """Return date and machine, as every result file names them.

    ``load`` is the mean number of running processes of the last minute, this one not yet included: near
    zero on a machine of one's own. With others at work every rate is lower, by a third and more.
    """
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {_processor()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def wilson(hits: int, total: int, z: float = Z95) -> tuple[float, float]:
    """Return the 95 % interval of a share; (0, 1) without data."""
    if not total:
        return 0.0, 1.0
    share = hits / total
    centre = share + z * z / (2 * total)
    spread = z * float(np.sqrt(share * (1 - share) / total + z * z / (4 * total * total)))
    scale = 1 + z * z / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def share(hits: int, total: int) -> dict[str, Any]:
    low, high = wilson(hits, total)
    return {
        "hits": hits,
        "of": total,
        "share": round(hits / total, 4) if total else None,
        "interval": [round(low, 4), round(high, 4)],
    }


def auroc(bad: Sequence[float], healthy: Sequence[float]) -> dict[str, Any]:
    """Return the area under the ROC curve, ties counted half, with DeLong's 95 % interval.

    Where the groups are parted without an overlap DeLong's variance is zero; the lower end is then
    the rule of three over the smaller group.
    """
    worse, better = np.asarray(bad, float), np.asarray(healthy, float)
    if not len(worse) or not len(better):
        return {"auroc": None, "interval": [0.0, 1.0]}
    wins = (worse[:, None] > better[None, :]) + 0.5 * (worse[:, None] == better[None, :])
    area = float(wins.mean())
    parts = [
        axis.var(ddof=1) / len(axis) if len(axis) > 1 else 0.0
        for axis in (wins.mean(1), wins.mean(0))
    ]
    spread = Z95 * float(np.sqrt(sum(parts)))
    if not spread:
        spread = 3 / min(len(worse), len(better)) if area in {0.0, 1.0} else 0.0
    low, high = max(0.0, area - spread), min(1.0, area + spread)
    return {"auroc": round(area, 4), "interval": [round(low, 4), round(high, 4)]}


def resident_mib(pid: int | None = None) -> float:
    """Return the resident memory of a process, this one by default."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss) / 2**20
