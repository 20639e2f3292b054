"""How the looks of the benchmark of core checks are counted."""

from __future__ import annotations

from bench.core_checks import looked
from quality_lib.jobs.rollback_parts import Examination
from quality_lib.records import Tri


def look(state: Tri, mean: float | None) -> Examination:
    return Examination(state, str(state), {"mean_similarity": mean})


BAD, GOOD = look(Tri.NO, 0.2), look(Tri.YES, 1.0)


def test_a_target_is_refused_by_two_bad_looks_that_belong_together() -> None:
    row = looked("healthy", 4, 3, [BAD, GOOD, GOOD, BAD, BAD, GOOD, BAD, BAD, BAD], 0.8, 1.0)
    # The pairs are (1, 2), (3, 4), (5, 6), (7, 8); the ninth look has no second one.
    assert (row.looks, row.bad, row.bad_twice) == (9, 6, 1)


def test_looks_below_the_floor_and_without_a_verdict_are_counted_apart() -> None:
    row = looked("healthy", 0, 3, [look(Tri.YES, 0.7), look(Tri.UNKNOWN, None), GOOD], 0.8, 1.0)
    assert (row.bad, row.below_floor, row.unjudged, row.lowest_similarity) == (0, 1, 1, 0.7)
    assert looked("healthy", 0, 3, [], 0.8, 0.0).lowest_similarity is None
