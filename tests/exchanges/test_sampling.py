"""The sample: the same again, every kind in it, and weights that add up to the whole."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Scored
from quality_lib.exchanges.sampling import (
    MOST_CHOICES,
    Counts,
    Sampler,
    SampleResult,
    allocated,
)
from quality_lib.exchanges.strata import Length, stratum_of


def row(number: int, size: int = 300, key: str = "k", **exchange: Any) -> Scored:
    made = Exchange(id=f"r-{number}", answer=Answer(text="x" * size), **exchange)
    return Scored(made, Facts(model="chat"), key, number, f"r-{number}")


def sample(
    rows: Iterable[Scored], most: int = 50, least: int = 0, seed: str = "s", weight: float = 1.0
) -> SampleResult:
    sampler = Sampler(seed, most, least)
    for one in rows:
        sampler.add(one, weight)
    return sampler.result()


def ids(result: SampleResult) -> set[str]:
    return {s.row.exchange.id for s in result.rows}


def test_few_rows_are_all_taken_with_weight_one() -> None:
    result = sample(row(i) for i in range(10))
    assert len(result.rows) == 10
    assert {s.weight for s in result.rows} == {1.0}


def test_the_same_rows_in_any_order_give_the_same_sample() -> None:
    rows = [row(i) for i in range(3000)]
    first = sample(rows)
    random.Random(1).shuffle(rows)
    assert ids(sample(rows)) == ids(first)
    assert len(first.rows) == 50
    assert ids(sample(rows, seed="another")) != ids(first)


def test_every_kind_is_there_and_weights_add_up() -> None:
    rows = [row(i) for i in range(5000)] + [row(5000 + i, tools=({},)) for i in range(30)]
    result = sample(rows, most=100, least=10)
    kinds = {s.stratum for s in result.rows}
    assert len(kinds) == 2
    for kind in kinds:
        members = [s for s in result.rows if s.stratum == kind]
        assert len(members) >= 10
        assert sum(s.weight for s in members) == pytest.approx(result.counts.strata[kind])
    assert sum(s.weight for s in result.rows) == pytest.approx(5030)


def test_an_objects_weight_multiplies() -> None:
    result = sample((row(i) for i in range(200)), most=50, weight=4.0)
    assert sum(s.weight for s in result.rows) == pytest.approx(800)


def test_the_estimate_has_no_bias() -> None:
    """A fifth of the tool calls and a hundredth of the rest are bad; the sample favours tools."""
    rows = [row(i, tools=({},) if i % 20 == 0 else ()) for i in range(4000)]
    bad = {r.exchange.id for r in rows if r.line % (100 if r.exchange.tools else 99) == 0}
    true = len(bad) / len(rows)
    estimates = []
    for seed in range(60):
        chosen = sample(rows, most=200, least=60, seed=str(seed)).rows
        hits = sum(s.weight for s in chosen if s.row.exchange.id in bad)
        estimates.append(hits / sum(s.weight for s in chosen))
    assert mean(estimates) == pytest.approx(true, abs=4 * stdev(estimates) / 60**0.5)
    plain = [
        sum(s.row.exchange.id in bad for s in sample(rows, 200, 60, str(i)).rows) / 260
        for i in range(20)
    ]
    assert mean(plain) > 1.3 * true, "unweighted it would be wrong, so this test can fail"


def test_a_request_met_twice_counts_once() -> None:
    result = sample([row(1), row(1, key="copy"), row(2)])
    assert len(result.rows) == 2
    assert result.counts.dropped == {DropReason.DUPLICATE: 1}


def choices(number: int, count: int, sizes: tuple[int, ...] = (300,)) -> list[Scored]:
    made = [row(number, sizes[c % len(sizes)]) for c in range(count)]
    return [
        replace(one, exchange=replace(one.exchange, id=f"r-{number}#{c}"))
        for c, one in enumerate(made)
    ]


def test_choices_of_a_request_are_no_duplicates_and_share_one_weight() -> None:
    result = sample([*choices(1, 2), row(2)])
    assert [(s.row.exchange.id, s.weight) for s in result.rows] == [
        ("r-1#0", 0.5), ("r-1#1", 0.5), ("r-2", 1.0),
    ]  # fmt: skip
    assert {s.request for s in result.rows[:2]} == {("r-1", "")}
    assert result.counts.scored == 3
    assert list(result.counts.strata.values()) == [2]


def test_a_request_with_many_choices_weighs_no_more_than_another() -> None:
    """Choices of another length, choices between those of others, and the same lines once more."""
    many = choices(0, 64, sizes=(50, 300, 3000))
    others = [row(i) for i in range(1, 201)]
    mixed = [one for pair in zip(many, others[:64], strict=True) for one in pair] + others[64:]
    for rows in (mixed, [*others, *many], [*many, *others]):
        result = sample(rows, most=300)
        own = [s for s in result.rows if s.row.request_id == "r-0"]
        assert len(own) == MOST_CHOICES
        assert sum(s.weight for s in own) == pytest.approx(1)
        assert sum(s.weight for s in result.rows) == pytest.approx(201)
        assert result.counts.scored == 264
    assert sample([*many, *many]).counts.dropped == {DropReason.DUPLICATE: 64}


def test_choices_of_a_request_that_was_not_kept_are_not_met_again() -> None:
    rows = [one for number in range(400) for one in choices(number, 8, sizes=(300, 3000))]
    result = sample(rows, most=20)
    assert len({s.request for s in result.rows}) == 20
    assert sum(s.weight for s in result.rows) == pytest.approx(400)


def test_the_choices_of_a_request_follow_each_other() -> None:
    """A server that answers many at once writes their lines between each other."""
    rows = [replace(one, line=2 * c + n) for n in range(2) for c, one in enumerate(choices(n, 3))]
    assert [s.row.request_id for s in sample(rows).rows] == ["r-0"] * 3 + ["r-1"] * 3


def test_one_id_sent_with_many_requests_loses_none_of_them() -> None:
    one = row(1)
    rows = [
        replace(one, exchange=replace(one.exchange, started_at=f"2026-11-29T19:00:00.{ms:03}Z"))
        for ms in range(500)
    ]
    result = sample(rows, most=1000)
    assert len(result.rows) == 500
    assert result.counts.dropped == {}
    # The same entries again, as from an upload that was repeated.
    assert sample([*rows, *rows], most=1000).counts.dropped == {DropReason.DUPLICATE: 500}


def test_memory_is_bounded_over_many_kinds_and_rows() -> None:
    sampler = Sampler("s", 100, 2)
    tracemalloc.start()
    for number in range(30_000):
        facts = Facts(model=f"model-{number}")
        sampler.add(replace(row(number, size=1500), facts=facts))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    result = sampler.result()
    assert len(result.counts.strata) <= 501
    assert result.counts.scored == 30_000
    assert peak < 12 << 20, f"{peak >> 20} MiB"


def test_counts_tell_everything_and_add_up() -> None:
    sampler = Sampler("s", 10, 0)
    sampler.add(row(1))
    for line in range(7):
        sampler.add(BadLine("k", line, "is no JSON object"))
    sampler.add(Dropped(DropReason.CACHE_HIT, "k", 9))
    sampler.objects = 1
    counts = sampler.result().counts
    assert (counts.entries, counts.scored, counts.sampled, counts.bad_lines) == (9, 1, 1, 7)
    assert len(counts.bad_examples) == 5
    both = counts + counts + Counts()
    assert (both.objects, both.entries, both.bad_lines) == (2, 18, 14)
    assert both.dropped == {DropReason.CACHE_HIT: 2}
    assert list(both.strata.values()) == [2]
    assert len(both.bad_examples) == 5


def test_nothing_is_an_empty_sample() -> None:
    assert sample([]).rows == ()
    assert sample([]).counts == Counts()


@pytest.mark.parametrize(
    ("met", "rows", "least", "expected"),
    [
        ({"a": 900, "b": 100}, 100, 0, {"a": 90, "b": 10}),
        ({"a": 900, "b": 100}, 100, 20, {"a": 90, "b": 20}),
        ({"a": 9999, "b": 3}, 100, 20, {"a": 99, "b": 3}),
        ({"a": 5}, 100, 0, {"a": 5}),
        ({"a": 10_000, "b": 1}, 10, 0, {"a": 9, "b": 1}),
    ],
)
def test_allocation(met: dict[str, int], rows: int, least: int, expected: dict[str, int]) -> None:
    assert allocated(met, rows, least) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "model=chat tools=no structured=no stream=no length=medium"),
        ({"tools": ({},)}, "model=chat tools=yes structured=no stream=no length=medium"),
        (
            {"response_format": {"type": "json_schema"}},
            "model=chat tools=no structured=yes stream=no length=medium",
        ),
        (
            {"response_format": {"type": "text"}},
            "model=chat tools=no structured=no stream=no length=medium",
        ),
        (
            {"params": {"guided_json": {"a": 1}}},
            "model=chat tools=no structured=yes stream=no length=medium",
        ),
        (
            {"response_format": {"type": ["odd"]}},
            "model=chat tools=no structured=no stream=no length=medium",
        ),
    ],
)
def test_kinds(change: dict[str, Any], expected: str) -> None:
    assert str(stratum_of(row(1, **change))) == expected


@pytest.mark.parametrize(
    ("answer", "length"),
    [
        (Answer(text=None), Length.SHORT),
        (Answer(text="x" * 200), Length.MEDIUM),
        (Answer(text="x" * 2000), Length.LONG),
        (Answer(text="", reasoning="x" * 2000), Length.LONG),
        (Answer(text=None, tool_calls=(ToolCall("f", "x" * 300),)), Length.MEDIUM),
        (None, Length.SHORT),
    ],
)
def test_length_classes(answer: Answer | None, length: Length) -> None:
    made = row(1)
    assert (
        stratum_of(replace(made, exchange=replace(made.exchange, answer=answer))).length is length
    )
