"""Requests against weights: exact, and silent when there are too few."""

from __future__ import annotations

import pytest

from quality_lib.records import Tri
from quality_lib.rollout.ports import Served
from quality_lib.rollout.split import judge_faults, judge_split
from tests.rollout.plans import table


def served(requests: int, failed: int = 0, cut: int = 0) -> Served:
    return Served(requests, failed, cut, 0.1, 0)


@pytest.mark.parametrize(
    ("weight", "old", "new", "state"),
    [
        (25, 75, 25, Tri.YES),
        (25, 70, 30, Tri.YES),  # chance
        (25, 99, 1, Tri.NO),
        (25, 50, 50, Tri.NO),
        (25, 100, 0, Tri.NO),
        (25, 10, 9, Tri.UNKNOWN),
        (25, 0, 0, Tri.UNKNOWN),
        (100, 0, 500, Tri.YES),
        (100, 1, 500, Tri.NO),  # weight 0 is no weight
        (100, 1, 2, Tri.NO),
    ],
)
def test_the_split(weight: int, old: int, new: int, state: Tri) -> None:
    found = judge_split(
        table(old=100 - weight, new=weight), {"old": served(old), "new": served(new)}, {"new"}
    )
    assert found.state is state, found.sentence


@pytest.mark.parametrize(
    ("requests", "failed", "cut", "state"),
    [
        (0, 0, 0, Tri.UNKNOWN),
        (1, 0, 0, Tri.YES),
        (1, 1, 0, Tri.NO),
        (20, 1, 0, Tri.YES),
        (20, 2, 1, Tri.NO),
        (1000, 10, 0, Tri.YES),
        (1000, 0, 40, Tri.NO),
    ],
)
def test_failures_on_the_target(requests: int, failed: int, cut: int, state: Tri) -> None:
    found = judge_faults(
        {"old": served(100, failed=100), "new": served(requests, failed, cut)}, {"new"}
    )
    assert found.state is state, found.sentence
