"""The numbers of the benchmarks, checked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bench import gate_detection, gate_throughput, guard_overhead
from bench.measures import auroc, share, wilson
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.records import Outcome, Verdict


@pytest.mark.parametrize(
    ("hits", "total", "expected"),
    [
        (0, 100, (0.0, 0.0370)),  # the textbook value of Wilson's interval
        (50, 100, (0.4038, 0.5962)),
        (100, 100, (0.9630, 1.0)),
        (0, 0, (0.0, 1.0)),
    ],
)
def test_wilson(hits: int, total: int, expected: tuple[float, float]) -> None:
    assert wilson(hits, total) == pytest.approx(expected, abs=1e-4)


def test_a_share_of_nothing_is_no_number() -> None:
    assert share(0, 0)["share"] is None


@pytest.mark.parametrize(
    ("bad", "healthy", "area"),
    [
        ([2, 2, 2], [0, 0, 0], 1.0),
        ([0, 0], [2, 2], 0.0),
        ([1, 1], [1, 1], 0.5),
        ([2, 0], [0, 0], 0.75),  # one pair won twice, one drawn twice
        ([], [1], None),
    ],
)
def test_auroc(bad: list[float], healthy: list[float], area: float | None) -> None:
    found = auroc(bad, healthy)
    assert found["auroc"] == area
    low, high = found["interval"]
    assert 0.0 <= low <= high <= 1.0
    if area is not None:
        assert low <= area <= high


def test_more_data_makes_the_interval_of_an_auroc_narrower() -> None:
    def width(copies: int) -> float:
        low, high = auroc([2, 1, 0] * copies, [1, 0, 0] * copies)["interval"]
        return float(high - low)

    assert width(50) < width(5)


def test_an_auroc_without_overlap_is_not_called_certain() -> None:
    assert auroc([1] * 30, [0] * 60)["interval"] == [0.9, 1.0]


def _gate(name: str, outcome_of: Callable[[str], Outcome]) -> Gate:
    def ask(exchange: Exchange) -> Verdict:
        text = exchange.answer.text if exchange.answer else ""
        return Verdict(outcome_of(text or ""), f"{name}_said", "")

    return Gate(name, Level.OUTPUT, ask, (Reason(f"{name}_said", Outcome.PASSED, ""),))


def _row(name: str, label: str, text: str) -> dict[str, Any]:
    return {
        "id": name,
        "label": label,
        "kind": "k",
        "prompt": "p",
        "text": text,
        "finish_reason": "stop",
    }


def test_detection_counts_misses_and_false_alarms() -> None:
    rows = [
        _row("b1", "bad", "fail"),
        _row("b2", "bad", "suspect"),
        _row("b3", "bad", "fine"),
        _row("h1", "healthy", "fine"),
        _row("h2", "healthy", "suspect"),
    ]
    one = _gate("one", lambda t: Outcome.FAILED if t == "fail" else Outcome.PASSED)
    two = _gate("two", lambda t: Outcome.SUSPECT if t == "suspect" else Outcome.UNJUDGED)
    found = gate_detection.measured(rows, (one, two))
    assert (found["bad_flagged"]["hits"], found["bad_flagged"]["of"]) == (2, 3)
    assert found["bad_failed"]["hits"] == 1
    assert (found["healthy_failed"]["hits"], found["healthy_suspect"]["hits"]) == (0, 1)
    assert [m["id"] for m in found["missed"]] == ["b3"]
    assert [m["id"] for m in found["false_alarms"]] == ["h2"]
    assert found["detectors"]["one"]["flagged_by_no_other"] == 1
    assert found["kinds"]["bad"]["k"] == {"FAILED": 1, "PASSED": 1, "SUSPECT": 1}


def test_throughput_rows_are_long_enough_and_never_the_same() -> None:
    made = gate_throughput.records(5)
    rows = [next(made) for _ in range(200)]
    assert min(len(row["text"]) for row in rows) >= gate_throughput.ANSWER_CHARACTERS - 100
    assert len({row["text"] for row in rows}) == len(rows)
    again = gate_throughput.records(5)
    assert json.dumps(rows) == json.dumps([next(again) for _ in range(200)])


def test_overhead_pairs_requests_by_their_place() -> None:
    def row(arm: str, streams: bool, concurrency: int, extra: float, rate: float) -> dict[str, Any]:
        first = [0.1 + number * 0.05 + extra for number in range(9)]
        return {
            "arm": arm,
            "streams": streams,
            "concurrency": concurrency,
            "first_s": first,
            "tokens_per_s": rate,
        }

    rounds = [
        [
            row(arm, streams, concurrency, 0.002 if arm == "observe" else 0.0, 97 if arm == "observe" else 100)
            for streams in (True, False)
            for concurrency in guard_overhead.CONCURRENCY
            for arm in ("plain", "observe")
        ]
        for _ in range(3)
    ]  # fmt: skip
    found = guard_overhead.compared(rounds, "observe")
    assert len(found) == 6
    assert {row["added_ms"] for row in found} == {2.0}
    assert {row["throughput_ratio"] for row in found} == {0.97}
    assert guard_overhead.is_met({"observe": found})
    found[0]["throughput_ratio"] = 0.96
    assert not guard_overhead.is_met({"observe": found})


@pytest.mark.parametrize("count", [1, 5, 30])
def test_the_interval_of_a_median_holds_it(count: int) -> None:
    low, high = guard_overhead.median_interval(list(range(count)))
    assert low <= (count - 1) / 2 <= high
    if count == 30:
        assert (low, high) == (9, 20)  # the 10th and the 21st of 30
