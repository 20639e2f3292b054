"""B3IT with margins (after Chauvin et al., ICML 2026): positions at which two tokens nearly tie.

The published method finds such inputs by asking a server that is not deterministic. A deterministic one shows no
border, so positions are chosen by the gap in the healthy log-probabilities, and the text-only detector is whether
another token wins there. Scored answers give the winner at every position in one request.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import Check

GAP = 0.02
"""Nats between the two best tokens below which a position counts as a border."""
LEAST = 5
"""Borders at the least: with fewer the narrowest gaps are taken."""

Border = tuple[str, int, int]
"""Case, position, and the token that wins in health."""


def learn(healthy: Sequence[Check]) -> Scorer:
    """Choose the borders of the first healthy check."""
    borders = borders_of(healthy[0])
    return lambda check: crossed(check, borders)


def borders_of(check: Check) -> list[Border]:
    """Return the positions where the race is close."""
    places = sorted(
        (gap, row.case_id, position, token)
        for row in check.of("raw_scored")
        for position, (gap, token) in enumerate(zip(row.gaps, row.argmax_ids, strict=True))
    )
    close = [place for place in places if place[0] < GAP]
    return [place[1:] for place in (close if len(close) >= LEAST else places[:LEAST])]


def crossed(check: Check, borders: Sequence[Border]) -> float | None:
    """Return the share of the borders at which another token wins."""
    by_case = {row.case_id: row for row in check.of("raw_scored")}
    found = [
        float(by_case[case].argmax_ids[position] != token)
        for case, position, token in borders
        if case in by_case and position < len(by_case[case].argmax_ids)
    ]
    return sum(found) / len(found) if found else None


METHOD = Method("B3IT, margins", ("raw_scored",), learn, "Chauvin et al., arXiv 2602.11083")
