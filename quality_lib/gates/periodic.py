"""Finds stretches of a text that repeat themselves. Pure.

A stretch with period *p* is found by looking for the next copy of a short probe: in a periodic
stretch the nearest one lies exactly one smallest period away. So a few searches in C do the work of
comparing every character at every period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PROBES = (32, 8)
"""Characters of the end that are searched for, the surer first."""
_BLOCK = 64
_GLANCE = 8


@dataclass(frozen=True)
class Run:
    """A stretch in which every character equals the one a period before."""

    start: int
    end: int
    unit: str
    """The smallest unit, as it stands at the start of the stretch."""

    @property
    def length(self) -> int:
        """Return the characters covered."""
        return self.end - self.start

    @property
    def copies(self) -> int:
        """Return the whole copies of the unit."""
        return self.length // len(self.unit)


def closing_run(text: str, max_period: int = 2_000) -> Run | None:
    """Find the longest run that reaches the end of the text, with at least two whole copies."""
    best: Run | None = None
    least = min(PROBES)
    # What ends in the longer probe ends in the shorter one, too.
    if text.rfind(text[-least:], max(0, len(text) - least - max_period), len(text) - 1) < 0:
        return None
    for size in PROBES:
        if len(text) <= size:
            continue
        probe = text[-size:]
        at = text.rfind(probe, max(0, len(text) - size - max_period), len(text) - 1)
        if at < 0:
            continue
        run = _run_through(text, at, len(text) - size, size)
        if run is not None and run.end == len(text) and (best is None or run.length > best.length):
            best = run
    return best


def runs(text: str, *, step: int = 64, probe: int = 24, max_period: int = 2_000) -> Iterator[Run]:
    """Find runs anywhere, first to last; one shorter than ``step + probe`` and a period may be missed."""
    position, last, reach = 0, len(text) - 2 * probe, 1 + max_period + probe
    find = text.find
    while position <= last:
        other = find(text[position : position + probe], position + 1, position + reach)
        if other < 0:
            position += step
            continue
        run = _run_through(text, position, other, probe)
        if run is None:
            position += step
            continue
        yield run
        position = max(position + step, run.end)


def smallest_period(unit: str) -> int:
    """Return the length of the shortest text whose copies make up the unit."""
    return (unit + unit).find(unit, 1)


def _run_through(text: str, first: int, second: int, known: int) -> Run | None:
    """Extend two equal pieces both ways; None unless they make two whole copies."""
    period = second - first
    if period >= known + 2 * _GLANCE:
        # Two whole copies need a period of equal characters, so at least this many on one side.
        ahead, behind = first + known, second + known
        is_equal = text[ahead : ahead + _GLANCE] == text[behind : behind + _GLANCE]
        if not (is_equal and behind + _GLANCE <= len(text)) and (
            first < _GLANCE or text[first - _GLANCE : first] != text[second - _GLANCE : second]
        ):
            return None
    end = second + known + equal_ahead(text, first + known, second + known)
    start = first - equal_behind(text, first, second)
    if end - start < 2 * period:
        return None
    return Run(start, end, text[start : start + smallest_period(text[start : start + period])])


def equal_ahead(text: str, first: int, second: int) -> int:
    """Count the characters from ``first`` on that equal those from ``second`` on."""
    limit, done, size = len(text) - second, 0, _BLOCK
    while done < limit and size:
        size = min(size, limit - done)
        here, there = first + done, second + done
        if text[here : here + size] == text[there : there + size]:
            done += size
            size *= 2
        else:
            size //= 2
            if size:
                limit = min(limit, done + 2 * size + 1)
    return done


def equal_behind(text: str, first: int, second: int) -> int:
    """Count the characters before ``first`` that equal those before ``second``."""
    limit, done, size = first, 0, _BLOCK
    while done < limit and size:
        size = min(size, limit - done)
        here, there = first - done, second - done
        if text[here - size : here] == text[there - size : there]:
            done += size
            size *= 2
        else:
            size //= 2
            if size:
                limit = min(limit, done + 2 * size + 1)
    return done
