"""One check against its reference: exact small cases by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.healthy import (
    LEAST_MOVE,
    LEAST_SD,
    MOST_MOVE,
    Healthy,
    Sums,
    folds,
    healthy_of,
    nats,
    sums_of,
)
from quality_lib.drift.paired import (
    CLOSE_RACE,
    MOST_GAP,
    Pair,
    Statistic,
    least_gaps,
    pair,
    pair_up,
    statistics,
    z_scores,
)
from quality_lib.drift.reading import Key, ProbeReading
from tests.drift.readings import REFERENCE, TOKENS, check, probe

SCORED = probe()
GREEDY = probe(channel="greedy")


def health(**changes: float) -> Healthy:
    values = {
        "mean": folds(0.02), "sd": 1.0, "signed_mean": 0.0, "signed_sd": 1.0,
        "fork_rate": 0.0, "fork_weight": 0.0, **changes,
    }  # fmt: skip
    return Healthy(checks=100, measured=100, **values)


def moved(by: float, known: ProbeReading = SCORED) -> tuple[float, ...]:
    return tuple(x + by for x in known.logprobs if x is not None)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (SCORED, (0.0, 0.0, None)),
        (probe(logprobs=moved(0.25)), (0.25, 0.25, None)),
        (probe(logprobs=moved(-0.5)), (0.5, -0.5, None)),
        (probe(logprobs=(*SCORED.logprobs[:-1], None)), (math.inf, None, None)),
        (probe(logprobs=(*SCORED.logprobs[:-1], math.nan)), (math.inf, None, None)),
        (probe(logprobs=(*SCORED.logprobs[:-1], -math.inf)), (math.inf, None, None)),
        (probe(logprobs=SCORED.logprobs[:-1]), (math.inf, None, None)),
        (probe(token_ids=(1, 2, 3)), (math.inf, None, None)),
    ],
    ids=["same", "up", "down", "hole", "nan", "impossible", "short", "other_tokens"],
)
def test_a_scored_answer(
    now: ProbeReading, expected: tuple[float | None, float | None, int | None]
) -> None:
    found = pair(now, SCORED)
    assert (found.delta, found.signed, found.fork) == expected


def test_opposite_movements_cancel_in_the_signed_mean_alone() -> None:
    logprobs = tuple(
        x + (0.1 if place % 2 else -0.1) for place, x in enumerate(SCORED.logprobs) if x is not None
    )
    found = pair(probe(logprobs=logprobs), SCORED)
    assert found.delta == pytest.approx(0.1)
    assert found.signed == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("tokens", "fork", "delta", "weight"),
    [
        (GREEDY.token_ids, None, 0.0, 0.0),
        ((7, *GREEDY.token_ids[1:]), 0, None, 1.0),
        ((*GREEDY.token_ids[:4], 7, 7, 7, 7), 4, 0.0, 0.5),
        (GREEDY.token_ids[:6], 6, 0.0, 0.25),
        ((), 0, None, 1.0),
    ],
    ids=["same", "at_once", "half_way", "ended_early", "empty"],
)
def test_a_decoded_answer_counts_up_to_its_fork(
    tokens: tuple[int, ...], fork: int | None, delta: float | None, weight: float
) -> None:
    now = probe(channel="greedy", token_ids=tokens, logprobs=GREEDY.logprobs[: len(tokens)])
    found = pair(now, GREEDY)
    assert (found.fork, found.delta, found.fork_weight) == (fork, delta, weight)
    assert found.exposed == (TOKENS if fork is None else fork + 1)


def test_lost_unknown_and_repeated_probes() -> None:
    lost = probe("case1", problem="transport: timed out", token_ids=(), logprobs=())
    unknown = probe("case99")
    again = probe(logprobs=moved(5.0))
    found = pair_up(check([SCORED, again, lost, unknown]), REFERENCE)
    assert [(p.key, p.delta) for p in found] == [(SCORED.key, 0.0)]


@pytest.mark.parametrize(
    ("delta", "z"),
    [
        (0.02, 0.0),
        (0.05, math.log(501 / 201)),
        (9.0, math.log(90001 / 201)),
        (math.inf, math.log(200001 / 201)),
    ],
)
def test_z_counts_factors(delta: float, z: float) -> None:
    found = z_scores(
        [Pair(("a", "chat_scored"), delta, None, None, 8)], {("a", "chat_scored"): health()}
    )
    assert found["a", "chat_scored"] == pytest.approx(z)


def test_a_probe_that_never_moved_has_a_bounded_z() -> None:
    still = health(mean=0.0, sd=LEAST_SD)
    found = z_scores([Pair(("a", "greedy"), 5.0, 5.0, None, 8)], {("a", "greedy"): still})
    assert found["a", "greedy"] == pytest.approx(math.log1p(5.0 / LEAST_MOVE))


@given(st.floats(-MOST_MOVE, MOST_MOVE))
def test_movements_and_their_factors_are_one_to_one(moved: float) -> None:
    assert nats(folds(moved)) == pytest.approx(moved, abs=1e-12)
    assert folds(-moved) == -folds(moved)


def test_no_movement_is_larger_than_a_missing_number() -> None:
    assert folds(math.inf) == folds(MOST_MOVE) == pytest.approx(12.2, abs=0.01)
    assert folds(0.0) == 0.0


def keys(*channels: str) -> dict[Key, Healthy]:
    return {(f"c{number}", channel): health() for number, channel in enumerate(channels)}


def test_the_five_statistics_by_hand() -> None:
    known = keys("chat_scored", "raw_scored", "greedy", "seeded")
    known["c3", "seeded"] = health(fork_rate=0.01)
    pairs = [
        Pair(("c0", "chat_scored"), nats(folds(0.02) + 1), -nats(2), None, 8),
        Pair(("c1", "raw_scored"), nats(folds(0.02) + 3), -nats(2), None, 8),
        Pair(("c2", "greedy"), 0.02, 0.0, 4, 8),  # z 0, forks half way
        Pair(("c3", "seeded"), 0.02, 0.0, 5, 8),  # z 0, forks after 6 exposed tokens
    ]
    assert statistics(pairs, known) == {
        Statistic.MEAN_Z: pytest.approx(1.0),
        Statistic.MAX_Z: pytest.approx(3.0),
        Statistic.SIGNED: pytest.approx(2.0),  # |-4| / sqrt(4)
        Statistic.REPLAY: pytest.approx(1 - 0.06),
        Statistic.FORKS: pytest.approx(0.5),
    }


def test_without_probes_a_statistic_is_none() -> None:
    assert set(statistics([], keys("chat_scored")).values()) == {None}
    only = statistics([Pair(("c0", "chat_scored"), 0.02, 0.0, None, 8)], keys("chat_scored"))
    assert only[Statistic.REPLAY] is None
    assert only[Statistic.FORKS] is None
    at_once = statistics([Pair(("c0", "greedy"), None, None, 0, 8)], keys("greedy"))
    assert at_once[Statistic.MEAN_Z] is None
    assert at_once[Statistic.FORKS] == 1.0


@settings(max_examples=40)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12), st.data())
def test_missing_probes_never_raise_the_maximum_or_the_forks(
    deltas: list[float], data: st.DataObject
) -> None:
    known = keys(*["greedy"] * len(deltas))
    pairs = [
        Pair((f"c{n}", "greedy"), delta, delta, n % 8 if n % 2 else None, 8)
        for n, delta in enumerate(deltas)
    ]
    gone = data.draw(st.integers(0, len(pairs) - 1))
    whole = statistics(pairs, known)
    fewer = statistics([p for n, p in enumerate(pairs) if n != gone], known)
    for name in (Statistic.MAX_Z, Statistic.FORKS):
        a, b = fewer[name], whole[name]
        assert a is not None
        assert b is not None
        assert a <= b + 1e-12


def test_few_probes_damp_the_mean() -> None:
    known = keys(*["chat_scored"] * 4)
    one = [Pair(("c0", "chat_scored"), nats(folds(0.02) + 4), None, None, 8)]
    assert statistics(one, known)[Statistic.MEAN_Z] == pytest.approx(2.0)  # 4 * sqrt(1 / 4)


def test_health_from_sums_by_hand() -> None:
    pairs = [
        Pair(("a", "greedy"), d, -d, f, 8) for d, f in ((0.01, None), (0.03, 4), (math.inf, 0))
    ]
    found = healthy_of(sums_of(pairs, 2.0), 2.0)
    first, second = folds(0.01), folds(0.03)
    assert (found.checks, found.measured) == (3, 2)
    assert found.mean == pytest.approx((first + second) / 2)
    assert found.usual_delta == pytest.approx(math.sqrt(0.0101 * 0.0301) - LEAST_MOVE)
    assert found.sd == LEAST_SD, "one and a half e-folds apart is no spread worth more"
    assert found.signed_mean == pytest.approx(-(first + second) / 2)
    assert found.fork_rate == pytest.approx(2 / (8 + 5 + 1))
    assert found.fork_weight == pytest.approx((0.0 + 0.5 + 1.0) / 3)
    assert healthy_of(Sums(), 0.0).is_measured is False
    wide = [Pair(("a", "greedy"), d, d, None, 8) for d in (nats(1.0), nats(5.0))]
    assert healthy_of(sums_of(wide, 0.0), 0.0).sd == pytest.approx(math.sqrt(8))


@pytest.mark.parametrize(
    ("logprob", "gap"),
    [
        (math.log(0.9), math.log(9)),
        (math.log(0.5), 0.0),
        (math.log(0.1), 0.0),
        (0.0, MOST_GAP),
        (-1e-9, MOST_GAP),
        (0.1, 0.0),
        (-math.inf, 0.0),
        (math.nan, 0.0),
        (None, 0.0),
    ],
)
def test_how_far_a_token_is_ahead_at_least(logprob: float | None, gap: float) -> None:
    (found,) = least_gaps([logprob])
    assert found == pytest.approx(gap)


def test_a_fork_against_a_favourite_weighs_more() -> None:
    tokens = (*GREEDY.token_ids[:4], 7, 7, 7, 7)
    close, clear = (
        pair(probe(channel="greedy", token_ids=tokens, logprobs=()), probe(channel="greedy", gaps=(gap,) * 8))
        for gap in (0.0, 1.0)
    )  # fmt: skip
    assert close.fork_weight == 0.5
    assert clear.fork_weight == pytest.approx(0.5 + 1.0 / CLOSE_RACE)
    beyond = pair(probe(channel="greedy", token_ids=GREEDY.token_ids[:4], logprobs=()), probe(channel="greedy", gaps=(1.0,)))  # fmt: skip
    assert beyond.gap == 0.0, "of that token nothing is known"


def test_sums_can_be_taken_out_again() -> None:
    first = sums_of([Pair(("a", "greedy"), 0.01, 0.01, None, 8)], 0.0)
    second = sums_of([Pair(("a", "greedy"), 0.07, -0.07, 3, 8)], 0.0)
    assert (first + second - second).values() == pytest.approx(first.values())
