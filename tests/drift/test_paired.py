"""One check against its reference: exact small cases by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.healthy import CAP_FACTOR, LEAST_SD, Healthy, Sums, healthy_of, sums_of
from quality_lib.drift.paired import Pair, Statistic, pair, pair_up, statistics, z_scores
from quality_lib.drift.reading import Key, ProbeReading
from tests.drift.readings import REFERENCE, TOKENS, check, probe

SCORED = probe()
GREEDY = probe(channel="greedy")


def health(**changes: float) -> Healthy:
    values = {
        "mean": 0.02, "sd": 0.01, "quantile": 0.05, "signed_mean": 0.0, "signed_sd": 0.01,
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
        (0.05, 3.0),
        (0.5, 48.0),
        (9.0, 48.0),  # 10 times the healthy quantile of 0.05
        (math.inf, 48.0),
    ],
)
def test_z_is_winsorised(delta: float, z: float) -> None:
    found = z_scores(
        [Pair(("a", "chat_scored"), delta, None, None, 8)], {("a", "chat_scored"): health()}
    )
    assert found["a", "chat_scored"] == pytest.approx(z)


def test_a_probe_that_never_moved_has_a_bounded_z() -> None:
    still = health(mean=0.0, sd=LEAST_SD, quantile=0.0)
    found = z_scores([Pair(("a", "greedy"), 5.0, 5.0, None, 8)], {("a", "greedy"): still})
    assert found["a", "greedy"] == pytest.approx(CAP_FACTOR)


def keys(*channels: str) -> dict[Key, Healthy]:
    return {(f"c{number}", channel): health() for number, channel in enumerate(channels)}


def test_the_five_statistics_by_hand() -> None:
    known = keys("chat_scored", "raw_scored", "greedy", "seeded")
    known["c3", "seeded"] = health(fork_rate=0.01)
    pairs = [
        Pair(("c0", "chat_scored"), 0.03, -0.02, None, 8),  # z 1, signed -2
        Pair(("c1", "raw_scored"), 0.05, -0.02, None, 8),  # z 3, signed -2
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
    one = [Pair(("c0", "chat_scored"), 0.06, None, None, 8)]  # z 4
    assert statistics(one, known)[Statistic.MEAN_Z] == pytest.approx(2.0)  # 4 * sqrt(1 / 4)


def test_health_from_sums_by_hand() -> None:
    pairs = [
        Pair(("a", "greedy"), d, -d, f, 8) for d, f in ((0.01, None), (0.03, 4), (math.inf, 0))
    ]
    found = healthy_of(sums_of(pairs, 0.02), 0.02, 0.03)
    assert (found.checks, found.measured) == (3, 2)
    assert found.mean == pytest.approx(0.02)
    assert found.sd == pytest.approx(math.sqrt(2) * 0.01)
    assert found.signed_mean == pytest.approx(-0.02)
    assert found.fork_rate == pytest.approx(2 / (8 + 5 + 1))
    assert found.fork_weight == pytest.approx((0.0 + 0.5 + 1.0) / 3)
    assert healthy_of(Sums(), 0.0, 0.0).is_measured is False


def test_sums_can_be_taken_out_again() -> None:
    first = sums_of([Pair(("a", "greedy"), 0.01, 0.01, None, 8)], 0.0)
    second = sums_of([Pair(("a", "greedy"), 0.07, -0.07, 3, 8)], 0.0)
    assert (first + second - second).values() == pytest.approx(first.values())
