"""Every method on cases whose answer is known by hand."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence

import pytest

from bench.matrix.methods import (
    every_method,
    product,
)
from bench.matrix.methods.method import Method
from bench.matrix.recording import FIRST_TOKEN, SAMPLED, Check, Row
from tests.bench.recordings import check, faulty, made


def _same(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Rate texts by the share of their words in common: a stand-in whose numbers are known."""
    return [
        len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split()))
        for a, b in pairs
    ]


METHODS = every_method(_same)
HEALTHY = [
    made(f"h{n}", 1 + 2 * (n % 2), noise=0.01 if n else 0.0, load=1 + n % 3) for n in range(13)
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_scores_a_harmed_check_above_a_healthy_one(method: Method) -> None:
    score = method.learn(HEALTHY)
    harmed = faulty("f", 2, shift=-2.0, forks=5)
    harmed = dataclasses.replace(
        harmed,
        rows=tuple(
            dataclasses.replace(r, token_ids=(1, 1, 1, 1, 1, 1, 1, 1), replay_ranks=(900,) * 8)
            if r.channel == SAMPLED else r
            for r in harmed.rows
        ),
    )  # fmt: skip
    if method.name == "LT":
        rows = tuple(
            dataclasses.replace(r, top_logprobs=(-9.0, -1.0, -5.0))
            if r.channel == FIRST_TOKEN
            else r
            for r in harmed.rows
        )
        harmed = dataclasses.replace(harmed, rows=rows)
    bad, good = score(harmed), score(made("g", 2, noise=0.01))
    assert bad is not None
    assert good is not None
    assert bad > good


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_is_a_pure_function(method: Method) -> None:
    one = made("g", 2, noise=0.01)
    assert method.learn(HEALTHY)(one) == method.learn(HEALTHY)(one)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_no_method_judges_nothing(method: Method) -> None:
    assert method.learn(HEALTHY)(check(check_id="empty", start=2)) is None


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_lost_request_is_no_evidence(method: Method) -> None:
    """One row of each channel is lost: where the rest is the reference's, the score stays with health."""
    whole = made("h0", 2)
    first = {row.channel: row.key for row in reversed(whole.rows)}
    rows = tuple(
        Row(*row.key, problem="transport: gone") if row.key in first.values() else row
        for row in whole.rows
    )
    score = method.learn(HEALTHY)
    lost, full = score(Check(whole.head, rows)), score(whole)
    assert full is not None
    assert lost is None or lost <= full + 4.0
    assert lost is None or math.isfinite(lost)


def test_names_are_unique_and_prices_count_own_channels() -> None:
    assert len({method.name for method in METHODS}) == len(METHODS) == 12
    one = made("g", 1)
    prices = {method.name: method.tokens(one) for method in METHODS}
    assert prices["LT"] == 2
    assert prices["exact match"] == 5 * 28
    assert prices["MET"] == 10 * 28
    assert prices["product, one check"] == 4 * 5 * 28


# --- product ----------------------------------------------------------------------------------------------------------


def _spread(count: int, noise: float) -> list[Check]:
    return [
        made(f"h{n}", 1 + 2 * (n % 4), noise=noise, block=n % 5, load=n % 5) for n in range(count)
    ]


def test_the_product_scores_facts_then_bits_then_movement() -> None:
    reference, healthy = made("ref", 1), _spread(40, 0.0)
    score = product.METHOD.learn([reference, *healthy])
    same, moved = score(made("ref", 2)), score(made("m", 2, shift=-1e-9))
    broken = made("b", 2)
    rows = tuple(dataclasses.replace(row, prompt_tokens=21) for row in broken.rows)
    fact = score(Check(broken.head, rows))
    assert same is not None
    assert moved is not None
    assert same < 10
    assert moved >= product.EXACT
    assert fact == math.inf


def test_scores_of_decoded_answers_are_not_the_products() -> None:
    score = product.METHOD.learn([made("ref", 1), *_spread(40, 0.0)])
    one = made("m", 2)
    rows = tuple(
        dataclasses.replace(row, logprobs=tuple(lp - 0.5 for lp in row.logprobs if lp is not None))
        if row.channel in {"greedy", "seeded"} else row
        for row in one.rows
    )  # fmt: skip
    assert score(Check(one.head, rows)) == score(one)
    forked = made("m", 2, forks=3)
    assert score(forked) > score(one)  # type: ignore[operator]


def test_the_product_says_nothing_with_too_little_to_learn_from() -> None:
    assert product.METHOD.learn([made("ref", 1), made("h", 1, noise=0.01)])(made("g", 2)) is None


def test_no_method_needs_a_package_that_the_lock_lacks() -> None:
    assert "model_equality_testing" not in {
        name.partition(".")[0] for name in sys.modules if name.startswith("bench")
    }
