"""The statistic of each method on cases that can be computed by hand or by scipy."""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
from collections.abc import Sequence
from pathlib import Path
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
    sampler_noise,
    scored_delta,
)
from bench.matrix.methods.sampler_noise import Noise
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
def test_without_known_noise_each_fork_counts_as_clipped(now: Check, expected: float) -> None:
    reference = _seeded((1, 2, 3), (4, 5, 6))
    assert difr.margin(now, reference, None) == pytest.approx(difr.CLIP * expected)


VOCABULARY = 50


def _drawn(scores: Sequence[Sequence[float]], noise: Noise, **changed: Any) -> Row:
    """Let the reproduced sampler answer: at each step the token with the largest score plus noise."""
    tokens = tuple(
        max(range(len(step)), key=lambda token: step[token] + noise.of(place, token))
        for place, step in enumerate(scores)
    )
    logprobs = tuple(step[token] for step, token in zip(scores, tokens, strict=True))
    return Row("a", "seeded", 1, **{"token_ids": tokens, "logprobs": logprobs, **changed})


def _distributions(seed: int, steps: int = 40) -> list[list[float]]:
    draws = random.Random(seed)
    found = []
    for _ in range(steps):
        logits = [draws.gauss(0, 2) for _ in range(VOCABULARY)]
        whole = math.log(math.fsum(map(math.exp, logits)))
        found.append([logit - whole for logit in logits])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_recorded_answers_tell_whether_their_noise_is_known(seed: int) -> None:
    scores = _distributions(seed)
    row = _drawn(scores, Noise(42))
    assert sampler_noise.explains([row], Noise(42))
    assert not sampler_noise.explains([row], Noise(43))
    greedy = tuple(max(range(VOCABULARY), key=step.__getitem__) for step in scores)
    best = tuple(step[token] for step, token in zip(scores, greedy, strict=True))
    assert not sampler_noise.explains([Row("a", "seeded", 1, greedy, best)], Noise(42))
    assert not sampler_noise.explains(
        [Row("a", "seeded", 1, row.token_ids[:9], row.logprobs[:9])], Noise(42)
    )


def test_margins_are_those_of_the_two_winners() -> None:
    noise, scores = Noise(42), _distributions(1)
    healthy = check(_drawn(scores, noise))
    score = difr.METHOD.learn([healthy])
    assert score(healthy) == 0.0
    tokens, logprobs = healthy.rows[0].token_ids, healthy.rows[0].logprobs
    # Another token with so much less, noise included, is taken at the sixth step.
    other = (tokens[5] + 1) % VOCABULARY
    for less, expected in ((0.2, 0.2), (0.001, 0.001), (-0.1, 0.1), (3.0, difr.CLIP)):
        value = logprobs[5] + noise.of(5, tokens[5]) - less - noise.of(5, other)  # type: ignore[operator]
        row = Row("a", "seeded", 1, (*tokens[:5], other, *tokens[6:]),
                  (*logprobs[:5], value, *logprobs[6:]))  # fmt: skip
        assert score(check(row)) == pytest.approx(expected / 6)
    lost = Row("a", "seeded", 1, (*tokens[:5], other), (*logprobs[:5], None))
    assert score(check(lost)) == pytest.approx(difr.CLIP / 6)


def test_a_turned_close_race_counts_less_than_another_temperature() -> None:
    noise, scores = Noise(42), _distributions(2)
    draws = random.Random(9)
    rounding = [[x + draws.gauss(0, 0.05) for x in step] for step in scores]
    score = difr.METHOD.learn([check(_drawn(scores, noise))])

    def hot(step: Sequence[float], place: int) -> int:
        return max(range(VOCABULARY), key=lambda t: step[t] / 1.5 + noise.of(place, t))

    tokens = tuple(hot(step, place) for place, step in enumerate(scores))
    told = tuple(step[token] for step, token in zip(scores, tokens, strict=True))
    close, far = (
        score(check(_drawn(rounding, noise))),
        score(check(Row("a", "seeded", 1, tokens, told))),
    )
    assert close is not None
    assert far is not None
    assert 0 < 4 * close < far


def test_the_noise_is_that_of_vllms_own_sampler() -> None:
    import torch

    found = importlib.util.find_spec("vllm")
    assert found is not None
    root = Path(str(found.origin)).parent
    name = "_C_AVX2"
    if torch.cpu._is_avx512_supported():
        name = "_C" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512"
    library = root / f"{name}.abi3.so"
    if not library.exists():
        pytest.skip("this vLLM is not the build for processors")
    torch.ops.load_library(str(library))
    logits = torch.tensor(_distributions(3))
    seeds = sampler_noise.step_seeds(42, len(logits))
    theirs = torch.ops._C.fused_gumbel_argmax(logits, torch.tensor(seeds)).tolist()
    assert theirs == list(_drawn(logits.tolist(), Noise(42)).token_ids)
    assert len(set(theirs)) > 10


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
    assert kayenta.tolerant_p([1.0, 1.0], [1.0, 1.0, 1.0]) == 1.0


def test_the_shift_is_the_median_of_all_differences() -> None:
    assert kayenta.shift_of([3.0, 5.0], [1.0, 2.0, 4.0]) == pytest.approx(1.5)  # -1 1 1 2 3 4


def test_the_tolerance_is_kayentas_own() -> None:
    """A metric is bad when the whole 98 % interval of the shift lies beyond a quarter of its estimate."""
    draws, verdicts = random.Random(1), []
    for shift in (-2.0, -1.2, -0.6, -0.3, 0.0, 0.35, 0.8, 1.0, 1.5, 2.0):
        one = [draws.gauss(shift, 0.7) for _ in range(8)]
        other = [draws.gauss(0, 0.7) for _ in range(12)]
        # The interval: every shift that the test does not refuse, looked for on a grid.
        kept = [
            place / 20
            for place in range(-80, 80)
            if kayenta.mann_whitney_p([x - place / 20 for x in one], other) > 0.02
        ]
        allowed = abs(0.25 * kayenta.shift_of(one, other))
        low, high = min(kept), max(kept)
        if min(abs(low - allowed), abs(high + allowed)) > 0.1:  # else the grid is too coarse
            is_bad = low > allowed or high < -allowed
            assert (kayenta.tolerant_p(one, other) < 0.02) is is_bad, (shift, low, high, allowed)
            verdicts.append(is_bad)
    assert len(verdicts) >= 6
    assert {True, False} == set(verdicts)


def test_a_shift_may_be_significant_and_within_the_tolerance() -> None:
    one, other = [x + 0.5 for x in range(6, 14)], [float(x) for x in range(12)]
    assert kayenta.shift_of(one, other) == pytest.approx(4.5)
    assert kayenta.mann_whitney_p(one, other) < 1 - kayenta.CONFIDENCE
    assert kayenta.tolerant_p(one, other) > 1 - kayenta.CONFIDENCE
