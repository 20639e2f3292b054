"""Healthy checks make a calibration, or are refused with what is missing; and it survives JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from quality_lib.drift.block_effect import BlockEffect
from quality_lib.drift.calibrate import _burst_values, calibrate
from quality_lib.drift.calibration import Calibration, StatisticHealth
from quality_lib.drift.calibration_json import calibration_from_json, calibration_to_json
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.evalue import WEIGHTS, rank_e
from quality_lib.drift.healthy import LEAST_SD
from quality_lib.drift.paired import Statistic
from quality_lib.drift.reading import Block, CheckReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import BadInput, NoData
from quality_lib.records import Tri
from tests.drift.readings import LIMITS, QUIET, REFERENCE, Server, healthy_checks, probe


@pytest.fixture(scope="module")
def readings() -> list[CheckReading]:
    return healthy_checks(Server(1))


@pytest.fixture(scope="module")
def known(readings: list[CheckReading]) -> Calibration:
    return calibrate(readings, REFERENCE, LIMITS, platform="vllm 0.32 on cpu")


def test_what_it_holds(known: Calibration) -> None:
    assert (known.checks, len(known.blocks), known.starts) == (144, 12, 4)
    assert known.reference_id == "reference"
    assert (known.exact_up_to, known.is_deterministic) == (0, False)
    assert known.known == frozenset(Statistic)
    assert set(known.healthy) == {p.key for p in REFERENCE.probes}
    assert known.recheck_correlation is not None
    assert known.recheck_correlation < 0.2
    assert len(known.bursts) == 48


def test_noise_is_found_as_it_was_made(known: Calibration) -> None:
    scored = known.healthy["case0", "chat_scored"]
    # Two answers differ by |N(0, 0.028)|, 0.023 on average over 8 tokens; the nearest of 130 lies at half of that.
    assert scored.usual_delta == pytest.approx(0.0105, rel=0.1)
    assert scored.sd == LEAST_SD
    assert scored.fork_rate == 0.0
    assert 0.0 < known.healthy["case0", "seeded"].fork_rate < 0.02


def test_each_check_is_measured_without_its_own_block() -> None:
    """A block with answers of its own must not be near because it knows itself; a later check of it is near."""
    usual, other = Server(3), Server(4, shift=0.5)
    readings = [other.read(b) if (b := r.block) == QUIET else r for r in healthy_checks(usual)]
    found = calibrate(readings, REFERENCE, LIMITS)
    health = found.statistics[Statistic.MEAN_Z]
    own = [v for v, b in zip(health.values, health.blocks, strict=True) if found.blocks[b] == QUIET]
    later = found.measure(other.read(QUIET), REFERENCE)[Statistic.MEAN_Z]
    assert later is not None
    assert min(own) > later + 1.5


def test_a_further_healthy_check_and_a_bad_one(known: Calibration) -> None:
    def evidence(server: Server) -> float:
        value = known.evidence(known.measure(server.read(), REFERENCE))
        assert value is not None
        return value

    healthy = Server(8)
    found = [evidence(healthy) for _ in range(200)]
    assert sum(found) / len(found) < 1.1
    assert evidence(Server(9, shift=0.2)) > 0.6 * known.largest_e


def test_p_values_are_for_people(known: Calibration) -> None:
    found = known.measure(Server(9, shift=0.2).read(), REFERENCE)
    plain, upper = known.p_values(found)[Statistic.MEAN_Z]
    assert plain == pytest.approx(1 / 145)
    assert upper > plain
    conservative, e = known.conservative_evidence(found), known.evidence(found)
    assert conservative is not None
    assert e is not None
    assert conservative < e


def test_nothing_measured_is_no_evidence(known: Calibration) -> None:
    assert known.evidence({}) is None
    assert known.evidence(dict.fromkeys(Statistic)) is None


@pytest.mark.parametrize(
    ("block", "is_covered"),
    [
        (Block("new", 1, "warm"), True),
        (Block("new", 7, "cold"), True),
        (Block("new", 17, "warm"), False),
        (Block("new", 0, "warm"), False),
        (Block("new", 4, "off"), False),
    ],
)
def test_what_it_covers(known: Calibration, block: Block, is_covered: bool) -> None:
    assert known.covers(block) is is_covered


def test_a_server_that_repeats_itself_is_deterministic() -> None:
    checks = healthy_checks(Server(1, noise=0.0))
    found = calibrate(checks, REFERENCE, LIMITS)
    assert (found.exact_up_to, found.is_deterministic) == (16, True)
    assert not found.variants
    few = [c for c in checks if c.block.load == 4] * 4
    few = [replace(c, check_id=f"{c.check_id}-{n}") for n, c in enumerate(few)]
    # Three starts at one load are enough where nothing ever moves.
    assert calibrate(few, REFERENCE, LIMITS).is_deterministic


def test_one_moved_bit_is_not_deterministic() -> None:
    checks = healthy_checks(Server(1, noise=0.0))
    logprobs = (*probe().logprobs[:-1], -2.2500000001)
    moved = (probe(logprobs=logprobs), *checks[5].probes[1:])
    checks[5] = replace(checks[5], probes=moved)
    assert not calibrate(checks, REFERENCE, LIMITS).is_deterministic


Readings = Callable[[list[CheckReading]], list[CheckReading]]


@pytest.mark.parametrize(
    ("pick", "message"),
    [
        (lambda r: [], "needs 120 healthy checks, there are 0"),
        (lambda r: r[:119], "needs 120 healthy checks, there are 119"),
        (
            lambda r: [replace(c, block=replace(c.block, start="only")) for c in r],
            "needs 3 server starts, there are 1",
        ),
        (
            lambda r: [replace(c, block=replace(c.block, load=4)) for c in r],
            "needs 12 blocks .* there are 4",
        ),
    ],
)
def test_too_little_is_refused(readings: list[CheckReading], pick: Readings, message: str) -> None:
    with pytest.raises(NoData, match=message):
        calibrate(pick(readings), REFERENCE, LIMITS)


def test_damage_is_refused(readings: list[CheckReading]) -> None:
    with pytest.raises(BadInput, match="there twice"):
        calibrate([*readings, readings[0]], REFERENCE, LIMITS)
    broken = replace(readings[7], probes=(probe(prompt_tokens=1), *readings[7].probes[1:]))
    with pytest.raises(BadInput, match="not healthy: case0"):
        calibrate([*readings[:7], broken, *readings[8:]], REFERENCE, LIMITS)
    with pytest.raises(NoData, match="reference"):
        calibrate(readings, replace(REFERENCE, probes=()), LIMITS)


def test_lost_probes_do_not_matter(readings: list[CheckReading]) -> None:
    lost = Server(5).read(lost=["case0", "case1"])
    found = calibrate([*readings[:-1], replace(lost, block=readings[-1].block)], REFERENCE, LIMITS)
    assert found.healthy["case0", "greedy"].checks == 143


def test_re_checks_that_move_together_are_seen() -> None:
    """Noise that is constant within a burst, as the batch of an hour is."""
    server = Server(2)
    checks = []
    for number, check in enumerate(healthy_checks(Server(1))):
        if number % 3 == 0:
            server.noise = 0.02 * (1 + server.rng.random())
        checks.append(replace(server.read(check.block), burst=check.burst))
    correlation = calibrate(checks, REFERENCE, LIMITS).recheck_correlation
    assert correlation is not None
    assert correlation > 0.5


def test_without_bursts_nothing_is_known_of_re_checks(readings: list[CheckReading]) -> None:
    found = calibrate([replace(r, burst=None) for r in readings], REFERENCE, LIMITS)
    assert found.recheck_correlation is None
    assert found.bursts == ()
    assert not found.multiplies(LIMITS)


def test_a_healthy_check_is_not_its_own_rival() -> None:
    """The largest of four is ranked among the three others, as a further check will be."""
    values = (1.0, 2.0, 3.0, 4.0)
    health = {Statistic.MEAN_Z: StatisticHealth(values, (0, 0, 1, 1), BlockEffect(), 3.0)}
    found = [{Statistic.MEAN_Z: value} for value in values]
    share = 0.01 / len(WEIGHTS)
    e = [rank_e(rank, 4, share) for rank in (3, 2, 1, 0)]
    assert _burst_values(health, found, ["a", "a", "b", "b"], 0.01) == pytest.approx((
        (e[0] + e[1]) / 2,
        (e[2] + e[3]) / 2,
    ))


def test_json_round_trip(known: Calibration) -> None:
    again = calibration_from_json(calibration_to_json(known))
    assert again == known
    vouched = replace(known, accepted_by="ada")
    assert calibration_from_json(calibration_to_json(vouched)) == vouched
    older = json.loads(calibration_to_json(known))
    del older["accepted_by"]
    assert calibration_from_json(json.dumps(older)) == known
    assert again.statistics[Statistic.MEAN_Z].ordered == known.statistics[Statistic.MEAN_Z].ordered


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(schema=99),
        lambda d: d.pop("healthy"),
        lambda d: d.update(risk=0),
        lambda d: d["blocks"].clear(),
        lambda d: d["healthy"][0].update(sd="wide"),
        lambda d: d["healthy"][0].pop("mean"),
        lambda d: d["statistics"].update(other={}),
        lambda d: d["statistics"]["mean_z"]["values"].pop(),
        lambda d: d["statistics"]["mean_z"].update(values=[], blocks=[]),
        lambda d: d.update(bursts=[float("nan")]),
        lambda d: d.pop("variants"),
        lambda d: d["variants"][0].pop("answers"),
        lambda d: d["variants"][0]["answers"][0].update(logprobs=["low"]),
        lambda d: d["variants"][0]["answers"][0]["logprobs"].pop(),
        lambda d: d.update(most_running="many"),
    ],
)
def test_damaged_files_are_refused(
    known: Calibration, damage: Callable[[dict[str, object]], object]
) -> None:
    data = json.loads(calibration_to_json(known))
    damage(data)
    with pytest.raises(BadInput, match=r"calibration\.json: is no calibration"):
        calibration_from_json(json.dumps(data), file="calibration.json")


@pytest.mark.parametrize("text", ["", "[]", "null", "{"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no calibration"):
        calibration_from_json(text)


def test_more_traffic_than_was_calibrated_proves_nothing(readings: list[CheckReading]) -> None:
    """Kernels take other ways in batches that no healthy check was in."""
    busy = [replace(r, running=20 if n == 7 else None) for n, r in enumerate(readings)]
    known = calibrate(busy, REFERENCE, LIMITS)
    assert known.most_under_way == known.most_running == 20
    block = Block("new", 1, "warm")

    def decided(server: Server, running: int | None) -> DriftDecision:
        reading = replace(server.read(block), running=running)
        return decide(reading, REFERENCE, known, SequentialState(), LIMITS)

    moved = Server(9, shift=0.5)
    found = decided(moved, 21)
    assert (found.changed, found.pages, found.state.checks) == (Tri.UNKNOWN, False, 0)
    assert found.reasons[0].code == "more_traffic"
    assert "21 requests at once, and on 20" in found.reasons[0].sentence
    for running in (20, 1, None):
        assert decided(moved, running).state.checks == 1
    calm = [decided(Server(seed), 500) for seed in range(30)]
    assert sum(f.changed is Tri.NO for f in calm) > 15, "what did not move is unchanged"
    assert not any(f.pages for f in calm)


def test_where_bits_repeat_traffic_that_moves_none_is_unchanged() -> None:
    known = calibrate(healthy_checks(Server(1, noise=0.0)), REFERENCE, LIMITS)
    assert known.most_under_way == 16, "where nobody told, the calibrated loads"

    def decided(server: Server) -> DriftDecision:
        reading = replace(server.read(Block("new", 1, "warm")), running=17)
        return decide(reading, REFERENCE, known, SequentialState(), LIMITS)

    assert decided(Server(2, noise=0.0)).changed is Tri.NO
    moved = decided(Server(2, noise=0.0, shift=0.01))
    assert (moved.changed, moved.reasons[0].code) == (Tri.UNKNOWN, "more_traffic")
