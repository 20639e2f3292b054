"""Windows over an answer: a dead tail shows, and short answers say nothing."""

from __future__ import annotations

import math

import pytest

from quality_lib.gates.perplexity import SHORTEST, windowed_perplexities

GOOD, BAD = -1.0, -9.0


def test_a_good_head_does_not_hide_a_dead_tail() -> None:
    whole = windowed_perplexities([GOOD] * 400 + [BAD] * 33, 32)
    assert min(whole) == pytest.approx(math.e)
    assert max(whole) == pytest.approx(math.exp(9))
    assert math.exp(-(400 * GOOD + 33 * BAD) / 433) < 6  # what the mean over all would have said


@pytest.mark.parametrize(
    ("tokens", "windows"),
    [(0, 0), (SHORTEST - 1, 0), (SHORTEST, 1), (31, 1), (32, 1), (33, 2), (64, 3)],
)
def test_the_number_of_windows(tokens: int, windows: int) -> None:
    assert len(windowed_perplexities([GOOD] * tokens, 32)) == windows


def test_the_last_window_ends_with_the_answer() -> None:
    assert windowed_perplexities([GOOD] * 40 + [BAD] * 5, 32)[-1] > 2 * math.e


def test_numbers_that_overflow_stay_numbers() -> None:
    assert math.isfinite(windowed_perplexities([-1e6] * 20, 32)[0])
    assert windowed_perplexities([math.nan] * 20, 32) == (math.inf,)
    assert windowed_perplexities([-math.inf] * 20, 32)[0] > 1e300
