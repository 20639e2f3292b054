"""Healthy answers come in a few kinds: near one of them is healthy, away from all of them is a change."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.drift import variants as drift_variants
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.calibration_json import calibration_from_json, calibration_to_json
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.paired import Statistic, pair, pair_up
from quality_lib.drift.reading import Block, CheckReading, ProbeReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.drift.variants import Variant, Variants, common_prefix, variants_of
from quality_lib.records import Tri
from tests.drift.readings import CASES, LIMITS, REFERENCE, TOKENS, check, probe

SCORED, GREEDY = probe(), probe(channel="greedy")
LOADS = (1, 4, 16)


def moved(by: Sequence[float], known: ProbeReading = SCORED) -> tuple[float, ...]:
    return tuple(x + d for x, d in zip(known.logprobs, by, strict=True) if x is not None)


def scored(*rows: Sequence[float]) -> Variants:
    return Variants(tuple(Variant(logprobs=moved(row)) for row in rows))


class Batches:
    """A server whose kernels add up in another order when batches are large; nothing else varies.

    ``alone``: one request at a time never meets a large batch.

    Each probe of a check is served alone or in a large batch by chance; the large batch moves it by up to 0.04
    nats a token, always to the same values. A fault moves all tokens as much again, in its own directions.
    """

    def __init__(self, seed: int, fault: bool = False, orders: int = 2, alone: bool = False) -> None:  # fmt: skip
        self.rng, self.orders, self.made = random.Random(seed), orders, 0
        self.fault, self.alone = fault, alone

    def read(self, block: Block, burst: str | None = None) -> CheckReading:
        self.made += 1
        is_alone = self.alone and block.load == 1
        probes = tuple(self._answer(p, is_alone) for p in REFERENCE.probes if p.channel.endswith("scored"))  # fmt: skip
        return CheckReading(f"{id(self)}-{self.made}", "2026-01-01T00:00:00+00:00", block, probes, burst)  # fmt: skip

    def _answer(self, known: ProbeReading, is_alone: bool) -> ProbeReading:
        order = 0 if is_alone else self.rng.randrange(self.orders)
        logprobs = known.logprobs
        for name in [f"order {order}"] * (order > 0) + ["fault"] * self.fault:
            own = random.Random(f"{name} {known.key}")
            logprobs = tuple(x + own.uniform(-0.04, 0.04) for x in logprobs if x is not None)
        return replace(known, logprobs=logprobs)


@pytest.fixture(scope="module")
def known() -> Calibration:
    server = Batches(1)
    blocks = [Block(f"start{start}", load, "cold") for start in range(4) for load in LOADS]
    return calibrate([server.read(b, str(b)) for b in blocks for _ in range(12)], REFERENCE, LIMITS)


def test_a_fault_as_large_as_healthy_differences_is_seen(known: Calibration) -> None:
    block = Block("new", 4, "cold")
    healthy, faulty = (
        [known.measure(server.read(block), REFERENCE) for _ in range(50)]
        for server in (Batches(2), Batches(3, fault=True))
    )
    calm = [e for found in healthy if (e := known.evidence(found)) is not None]
    assert sum(calm) / 50 < 1.1
    for found in faulty:
        value, largest = found[Statistic.MEAN_Z], known.statistics[Statistic.MEAN_Z].ordered[-1]
        assert value is not None
        assert value > 3 * max(1.0, largest), "the shortcut needs no second hour"
    # From the reference alone they look alike: half of the healthy probes are as far away.
    far = [
        [p.delta for p in pair_up(server.read(block), REFERENCE) if p.delta]
        for server in (Batches(2), Batches(3, fault=True))
    ]
    assert max(far[0]) > min(far[1])


def test_an_order_that_no_healthy_check_met_is_away_from_all(known: Calibration) -> None:
    """The honest limit: what calibration did not see looks like a change, so it must see the load that there is."""
    found = known.measure(Batches(4, orders=9).read(Block("new", 4, "cold")), REFERENCE)
    value = found[Statistic.MEAN_Z]
    assert value is not None
    assert value > known.statistics[Statistic.MEAN_Z].ordered[-1]


def test_one_kind_of_answer_is_kept_once(known: Calibration) -> None:
    assert {len(found.answers) for found in known.variants.values()} == {1}
    assert all(not found.blocks for found in known.variants.values())
    assert calibration_from_json(calibration_to_json(known)) == known


@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=TOKENS, max_size=TOKENS), max_size=6),
    st.lists(st.floats(-3, 3), min_size=TOKENS, max_size=TOKENS),
)
def test_the_nearest_scored_answer_is_the_nearest(
    rows: list[list[float]], now: list[float]
) -> None:
    here = probe(logprobs=moved(now))
    every = [SCORED, *(replace(SCORED, logprobs=moved(row)) for row in rows)]
    found = pair(here, scored(*rows).nearest(here, SCORED)).delta
    assert found == min(pair(here, one).delta or 0.0 for one in every)


def test_the_reference_wins_ties() -> None:
    same = scored([0.0] * TOKENS)
    assert same.nearest(SCORED, SCORED) is SCORED
    assert Variants((Variant(GREEDY.token_ids),)).nearest(GREEDY, GREEDY) is GREEDY


@pytest.mark.parametrize(
    "now",
    [
        probe(logprobs=(*SCORED.logprobs[:-1], None)),
        probe(logprobs=(*SCORED.logprobs[:-1], math.nan)),
        probe(logprobs=(*SCORED.logprobs[:-1], -math.inf)),
        probe(logprobs=SCORED.logprobs[:-1]),
        probe(logprobs=()),
        probe(token_ids=(1, 2, 3)),
    ],
    ids=["hole", "nan", "impossible", "short", "none", "other_tokens"],
)
def test_damage_is_near_to_nothing(now: ProbeReading) -> None:
    assert pair(now, scored([0.1] * TOKENS).nearest(now, SCORED)).delta == math.inf


def test_places_without_a_number_in_the_reference_do_not_count() -> None:
    """The first token of a prompt has no log-probability on any server."""
    reference = replace(SCORED, logprobs=(None, *SCORED.logprobs[1:]))
    row = (None, *moved([0.1] * TOKENS)[1:])
    now = replace(SCORED, logprobs=row)
    found = pair(now, Variants((Variant(logprobs=row),)).nearest(now, reference))
    assert found.delta == 0.0


def test_a_known_way_is_no_fork_and_a_new_one_forks_where_it_leaves_all() -> None:
    start = GREEDY.token_ids
    ways = Variants((Variant((*start[:3], 7, 7, 7)), Variant((*start[:6], 8))))
    reference = replace(GREEDY, gaps=(2.0,) * TOKENS)

    def fork(tokens: tuple[int, ...]) -> tuple[int | None, float]:
        now = replace(GREEDY, token_ids=tokens, logprobs=())
        found = pair(now, ways.nearest(now, reference))
        return found.fork, found.gap

    assert fork(start) == (None, 0.0)
    assert fork((*start[:3], 7, 7, 7)) == (None, 0.0)
    assert fork((*start[:3], 7, 7, 5)) == (5, 0.0), "how clear that race was is not known"
    assert fork((*start[:2], 5)) == (2, 2.0)
    assert fork((*start[:6], 8, 9)) == (7, 0.0)
    assert fork((*start[:3], 7, 7)) == (5, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [((), (), 1), ((1,), (), 0), ((1, 2), (1, 2), 3), ((1, 2), (1, 3), 1), ((1, 2), (1,), 1)],
)
def test_how_long_two_answers_go_together(
    one: tuple[int, ...], other: tuple[int, ...], together: int
) -> None:
    assert common_prefix(one, other) == common_prefix(other, one) == together


def test_each_block_has_its_say_and_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_variants, "MOST_VARIANTS", 4)

    def given(block: int, *moves: float) -> list[tuple[int, CheckReading]]:
        place = Block(f"s{block}", 1, "cold")
        probes = [probe(logprobs=moved([by] * TOKENS)) for by in moves]
        return [(block, check([one], name=f"{block}-{n}", block=place)) for n, one in enumerate(probes)]  # fmt: skip

    rows = [*given(0, 0.5, 0.5, 0.0), *given(1, 0.5, 0.5), *given(2, 0.25, 0.25, 9.0), *given(0, 3.0)]  # fmt: skip
    blocks, readings = zip(*rows, strict=True)
    found = variants_of(readings, REFERENCE, blocks)[SCORED.key]
    said = [round((a.logprobs[0] or 0.0) - (SCORED.logprobs[0] or 0.0), 6) for a in found.answers]
    # One new answer a block: the third one of block 2 and the late one of block 0 are too many.
    assert said == [0.5, 0.25]
    assert found.blocks == (frozenset({0, 1}), frozenset({2}))
    assert [a.logprobs for a in found.without(2).answers] == [found.answers[0].logprobs]
    assert found.without(0) == found.without(1) == found


def test_a_rare_answer_is_kept_though_it_comes_late() -> None:
    usual = [check(REFERENCE.probes, name=str(n)) for n in range(500)]
    late = check([probe(logprobs=moved([0.02] * TOKENS))], name="late")
    found = variants_of([*usual, late], REFERENCE, [0] * 501)
    assert len(found[SCORED.key].answers) == 1


def test_what_only_the_reference_says_needs_no_variants() -> None:
    readings = [check(REFERENCE.probes, name=str(n)) for n in range(3)]
    assert variants_of(readings, REFERENCE, [0, 0, 1]) == {}
    lost = check([probe(case, problem="transport: reset") for case in CASES])
    assert variants_of([lost], REFERENCE, [0]) == {}


@pytest.fixture(scope="module")
def exact_alone() -> Calibration:
    server = Batches(5, alone=True)
    blocks = [Block(f"start{start}", load, "cold") for start in range(4) for load in LOADS]
    readings = [server.read(b, str(b)) for b in blocks for _ in range(40)]
    return calibrate(readings, REFERENCE, LIMITS)


def judged(
    known: Calibration, *readings: CheckReading, running: int | None = None
) -> list[DriftDecision]:
    """Decide on a check and its re-checks."""
    state, found = SequentialState(), []
    for number, reading in enumerate(readings):
        asked = replace(reading, running=running)
        found.append(decide(asked, REFERENCE, known, state, LIMITS, is_recheck=number > 0))
        state = found[-1].state
    return found


def bit_moved(reading: CheckReading) -> CheckReading:
    first, *rest = reading.probes
    logprobs = (first.logprobs[0], *((x or 0.0) - 1e-5 for x in first.logprobs[1:]))
    return replace(reading, probes=(replace(first, logprobs=logprobs), *rest))


ALONE = Block("new", 1, "cold")
BUSY = 5


@pytest.mark.parametrize("running", [None, 1])
def test_where_nothing_shares_a_batch_every_bit_counts(
    exact_alone: Calibration, running: int | None
) -> None:
    assert (exact_alone.exact_up_to, exact_alone.is_deterministic) == (1, False)
    server = Batches(6, alone=True)
    checks = [bit_moved(server.read(ALONE)) for _ in range(2)]
    found = judged(exact_alone, *checks, running=running)
    assert [(f.layer, f.pages) for f in found] == [("L1", False), ("L1", True)]


@pytest.mark.parametrize("running", [None, 1, BUSY])
def test_an_answer_of_another_batch_is_no_moved_bit(
    exact_alone: Calibration, running: int | None
) -> None:
    """Traffic that nobody saw: the same other bits come again and again."""
    server = Batches(7)
    found = judged(exact_alone, *(server.read(ALONE) for _ in range(3)), running=running)
    assert [(f.changed, f.pages) for f in found] == [(Tri.NO, False)] * 3


def test_in_traffic_the_evidence_decides(exact_alone: Calibration) -> None:
    server = Batches(8, fault=True)
    found = judged(exact_alone, *(server.read(ALONE) for _ in range(2)), running=BUSY)
    assert (found[0].layer, found[0].needs_recheck) == ("L2", True)
    moved = [bit_moved(Batches(9).read(ALONE)) for _ in range(2)]
    assert not any(f.layer == "L1" or f.pages for f in judged(exact_alone, *moved, running=BUSY)), (
        "of a busy server a bit is no proof"
    )


def test_with_more_traffic_than_calibrated_nothing_is_said(exact_alone: Calibration) -> None:
    (found,) = judged(exact_alone, Batches(8, fault=True).read(ALONE), running=17)
    assert (found.changed, found.reasons[0].code) == (Tri.UNKNOWN, "more_traffic")
