"""The statistic of each method on cases that can be computed by hand or by scipy."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import pytest

from bench.matrix.methods import (
    article,
    b3it,
    difr,
    exact_match,
    kayenta,
    lt,
    met,
    perplexity,
    rolling_z,
    rut,
    scored_delta,
)
from bench.matrix.recording import SAMPLED, Check, Row
from tests.bench.recordings import check


def _same(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Rate texts by the share of their words in common: a stand-in whose numbers are known."""
    return [
        len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split()))
        for a, b in pairs
    ]


# --- scored delta -----------------------------------------------------------------------------------------------------


def _scored(*logprobs: float | None, ids: tuple[int, ...] = (1, 2), **changed: Any) -> Check:
    return check(Row("a", "raw_scored", 1, ids, logprobs, **changed))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (_scored(-1.0, -2.0), 0.0),
        (_scored(-1.5, -1.0), 0.75),
        (_scored(-1.0, None), math.inf),
        (_scored(-1.0, -2.0, ids=(1, 3)), math.inf),
        (_scored(-1.0, ids=(1,)), math.inf),
        (check(Row("a", "raw_scored", problem="HTTP 500")), math.inf),
        (check(Row("a", "raw_scored", problem="transport: gone")), None),
        (check(Row("other", "raw_scored", 1, (1,), (-1.0,))), None),
    ],
)
def test_scored_delta(now: Check, expected: float | None) -> None:
    assert scored_delta.scored_delta(now, _scored(-1.0, -2.0)) == expected


# --- exact match, article's rule --------------------------------------------------------------------------------------


def _greedy(*texts: str | None) -> Check:
    rows = [
        Row(str(n), "greedy", 1, (len(t),), text=t) if t is not None else Row(str(n), "greedy", problem="HTTP 500")
        for n, t in enumerate(texts)
    ]  # fmt: skip
    return check(*rows)


@pytest.mark.parametrize(
    ("texts", "mismatch", "dissimilarity"),
    [
        (("one two", "three"), 0.0, 0.0),
        (("one", "three"), 0.5, 0.25),  # half of the words of one of two answers
        (("", "three"), 0.5, 0.5),
        ((None, "three"), 0.5, 0.5),
        ((None, None), 1.0, 1.0),
    ],
)
def test_exact_match_and_the_articles_rule(
    texts: tuple[str | None, ...], mismatch: float, dissimilarity: float
) -> None:
    reference, now = _greedy("one two", "three"), _greedy(*texts)
    assert exact_match.mismatch(now, reference) == mismatch
    found = article.dissimilarity(now, reference, _same)
    assert found == pytest.approx(dissimilarity)


def test_the_articles_own_rule_is_085() -> None:
    assert article.method(_same).own_rule == pytest.approx(0.15)


# --- LT ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "reference", "expected"),
    [
        ([{1: -1.0, 2: -2.0}], [{1: -1.0, 2: -2.0}], 0.0),
        ([{1: -1.5, 2: -2.0}], [{1: -1.0, 2: -2.0}], 0.25),
        ([{1: -1.0, 3: -4.0}], [{1: -1.0, 2: -2.0}], (0 + 2 + 2) / 3),  # what is missing counts as the smallest
        ([{1: -1.0}, {1: -3.0}], [{1: -2.0}], 0.0),  # means are compared
    ],
)  # fmt: skip
def test_lt(own: Any, reference: Any, expected: float) -> None:
    assert lt.distance(own, reference) == pytest.approx(expected)


# --- MET --------------------------------------------------------------------------------------------------------------

X: met.Samples = {"p": [(1, 2, 3, 4), (1, 2, 9, 9)], "q": [(5, 5, 5, 5), (5, 5, 5, 6)]}
Y: met.Samples = {"p": [(1, 2, 3, 4), (7, 7, 7, 7)], "q": [(5, 5, 5, 5), (8, 8, 8, 8)]}


def test_met_by_hand() -> None:
    # Within X: p 2/4, q 3/4 → 0.625. Within Y: 0. Across: p 4+0+2+0, q 4+0+3+0 of 32 → 13/32.
    assert met.mmd(X, Y) == pytest.approx(0.625 + 0.0 - 2 * 13 / 32)
    assert met.mmd(X, X) <= 0


def test_met_agrees_with_the_authors_package() -> None:
    package = "model_equality_testing"
    pytest.importorskip(package, reason="an extra that no lock holds")
    import random

    import numpy as np

    distribution = importlib.import_module(f"{package}.distribution")
    theirs = importlib.import_module(f"{package}.tests").mmd_hamming

    def sample(answers: met.Samples) -> Any:
        prompts = np.array([n for n, p in enumerate(answers) for _ in answers[p]])
        told = np.array([a for p in answers for a in answers[p]])
        return distribution.CompletionSample(prompts, told, m=2)

    draws = random.Random(1)
    tables: list[tuple[met.Samples, met.Samples]] = [(X, Y)]
    for _ in range(5):
        one, other = (
            {p: [tuple(draws.randrange(4) for _ in range(7)) for _ in range(count)] for p in "pq"}
            for count in (draws.randrange(2, 6), draws.randrange(2, 6))
        )
        tables.append((one, other))
    for left, right in tables:
        assert met.mmd(left, right) == pytest.approx(float(theirs(sample(left), sample(right))))


def test_met_finds_other_distributions_and_no_difference_in_the_same() -> None:
    import random

    draws = random.Random(4)

    def answers(tokens: range, count: int) -> dict[str, list[tuple[int, ...]]]:
        return {
            p: [tuple(draws.choice(tokens) for _ in range(6)) for _ in range(count)] for p in "abcd"
        }

    reference, same, other = answers(range(3), 8), answers(range(3), 8), answers(range(2, 5), 8)
    assert met.permutation_p(same, reference, 100, 1) > 0.05
    assert met.permutation_p(other, reference, 100, 1) < 0.02


def test_met_with_single_answers_speaks_by_the_cross_term() -> None:
    own, reference = {"p": [(1, 2)]}, {"p": [(1, 2)]}
    assert met.mmd(own, reference) == pytest.approx(0.0)
    assert met.mmd({"p": [(3, 4)]}, reference) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("one", "other", "length", "expected"),
    [((1, 2), (1, 3), 2, 0.5), ((1,), (1, 2), 2, 0.5), ((), (), 0, 0.0), ((1,), (1,), 4, 1.0)],
)
def test_agreement(
    one: tuple[int, ...], other: tuple[int, ...], length: int, expected: float
) -> None:
    assert met.agreement(one, other, length) == expected


# --- B3IT -------------------------------------------------------------------------------------------------------------


def _border(gaps: tuple[float, ...], winners: tuple[int, ...]) -> Check:
    return check(Row("a", "raw_scored", 1, winners, (-1.0,) * len(gaps), winners, gaps))


def test_borders_are_the_close_races_and_crossings_are_counted() -> None:
    gaps = (0.5, 0.001, 0.019, 0.002, 0.003, 0.004, 0.9)
    borders = b3it.borders_of(_border(gaps, (1, 2, 3, 4, 5, 6, 7)))
    assert {position for _, position, _ in borders} == {1, 2, 3, 4, 5}
    assert b3it.crossed(_border(gaps, (1, 2, 3, 4, 5, 6, 7)), borders) == 0.0
    assert b3it.crossed(_border(gaps, (9, 9, 3, 4, 5, 6, 9)), borders) == pytest.approx(1 / 5)
    assert b3it.crossed(_border(gaps[:2], (1, 9)), borders) == 1.0


def test_without_close_races_the_closest_are_taken() -> None:
    borders = b3it.borders_of(_border((0.5, 0.4, 0.3, 0.2, 0.9, 0.8), (1, 2, 3, 4, 5, 6)))
    assert {position for _, position, _ in borders} == {0, 1, 2, 3, 5}


# --- RUT --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "others", "luck", "expected"),
    [(5.0, [1, 2, 3], 0.0, 0.75), (0.0, [1, 2, 3], 0.5, 0.125), (2.0, [2, 2, 2], 0.5, 0.5)],
)
def test_places(value: float, others: list[float], luck: float, expected: float) -> None:
    assert rut.place(value, others, luck) == expected


def test_cramer_von_mises_as_scipy_computes_it() -> None:
    from scipy.stats import cramervonmises

    places = [0.1, 0.15, 0.4, 0.62, 0.97]
    assert rut.cramer_von_mises(places) == pytest.approx(
        cramervonmises(places, "uniform").statistic
    )
    even = [(2 * i + 1) / 10 for i in range(5)]
    assert rut.cramer_von_mises(even) == pytest.approx(1 / 60)


def test_log_rank() -> None:
    assert rut.log_rank(Row("a", SAMPLED, replay_ranks=(1, 1))) == 0.0
    assert rut.log_rank(Row("a", SAMPLED, replay_ranks=(1, 8))) == pytest.approx(math.log(8) / 2)
    assert rut.log_rank(Row("a", SAMPLED)) is None


# --- Token-DiFR -------------------------------------------------------------------------------------------------------


def _seeded(*answers: tuple[int, ...] | None) -> Check:
    rows = [
        Row(str(n), "seeded", 1, ids) if ids is not None else Row(str(n), "seeded", problem="HTTP 500")
        for n, ids in enumerate(answers)
    ]  # fmt: skip
    return check(*rows)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (_seeded((1, 2, 3), (4, 5, 6)), 0.0),
        (_seeded((1, 9, 9), (4, 5, 6)), 1 / 5),  # two tokens and three could have differed, one did
        (_seeded((9, 9, 9), (9, 9, 9)), 1.0),
        (_seeded((1, 2), (4, 5, 6)), 1 / 6),
        (_seeded(None, (4, 5, 6)), 1 / 4),
    ],
)
def test_hazard(now: Check, expected: float) -> None:
    assert difr.hazard(now, _seeded((1, 2, 3), (4, 5, 6))) == pytest.approx(expected)


# --- perplexity, rolling z, Kayenta -----------------------------------------------------------------------------------


def _told(channel: str, *values: float) -> Check:
    fields: dict[str, Any] = (
        {"replay_logprobs": values} if channel == SAMPLED else {"logprobs": values}
    )
    return check(Row("a", channel, 1, tuple(range(len(values))), **fields))


@pytest.mark.parametrize(("module", "channel"), [(perplexity, SAMPLED), (rolling_z, "greedy")])
def test_z_scores_are_two_sided(module: Any, channel: str) -> None:
    healthy = [_told(channel, -1.0), _told(channel, -2.0), _told(channel, -3.0)]
    score = module.METHOD.learn(healthy)
    assert score(_told(channel, -2.0)) == pytest.approx(0.0)
    assert score(_told(channel, -5.0)) == pytest.approx(3.0)
    assert score(_told(channel, 0.0, 2.0)) == pytest.approx(3.0)


def test_a_window_without_any_variation_is_no_division_by_zero() -> None:
    score = rolling_z.METHOD.learn([_told("greedy", -2.0)] * 3)
    assert score(_told("greedy", -2.0)) == 0.0
    assert score(_told("greedy", -2.1)) > 1000  # type: ignore[operator]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]),
        ([1.0, 5.0, 5.0, 9.0], [2.0, 5.0, 6.0, 6.0, 10.0]),
        ([3.0, 1.0], [2.0, 2.0, 2.0]),
    ],
)
def test_mann_whitney_as_scipy_computes_it(one: list[float], other: list[float]) -> None:
    from scipy.stats import mannwhitneyu

    expected = mannwhitneyu(one, other, alternative="two-sided", method="asymptotic").pvalue
    assert kayenta.mann_whitney_p(one, other) == pytest.approx(expected)


def test_mann_whitney_of_equal_values_says_nothing() -> None:
    assert kayenta.mann_whitney_p([1.0, 1.0], [1.0, 1.0, 1.0]) == 1.0
