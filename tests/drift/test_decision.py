"""The layers put together: what is changed, what pages, and the healthy look-alikes that must not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest

from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.evidence import gross_level, threshold
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import Statistic
from quality_lib.drift.reading import Block, CheckReading, ProbeReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.drift.severity import Quality, Severity
from quality_lib.records import Tri
from tests.drift.readings import (
    LIMITS,
    QUIET,
    REFERENCE,
    Server,
    blocks,
    check,
    healthy_checks,
    probe,
)

NONE = SequentialState()


@pytest.fixture(scope="module")
def noisy() -> Calibration:
    return calibrate(healthy_checks(Server(1)), REFERENCE, LIMITS, platform="cpu")


@pytest.fixture(scope="module")
def exact() -> Calibration:
    return calibrate(healthy_checks(Server(1, noise=0.0)), REFERENCE, LIMITS, platform="cpu")


def with_probe(changed: ProbeReading, name: str = "bad") -> CheckReading:
    """Return the reference's answers but for one."""
    rest = [p for p in REFERENCE.probes if p.key != changed.key]
    return check([changed, *rest], name)


def follow(
    checks: Iterable[CheckReading],
    known: Calibration | None,
    state: SequentialState = NONE,
    rechecks: bool = False,
    limits: DriftLimits = LIMITS,
) -> list[DriftDecision]:
    """Decide check after check; ``rechecks``: all but the first follow at once."""
    found: list[DriftDecision] = []
    for number, reading in enumerate(checks):
        one = decide(reading, REFERENCE, known, state, limits, is_recheck=rechecks and number > 0)
        found.append(one)
        state = one.state
    return found


def codes(decision: DriftDecision) -> list[str]:
    return [reason.code for reason in decision.reasons]


# No data ----------------------------------------------------------------------------------------


BEGUN = SequentialState(before=3.0, hour=2.0, checks=7, pending=("refused",), last_check_id="c0")


@pytest.mark.parametrize(
    ("reading", "code"),
    [
        (check([]), "no_data"),
        (Server(2).read(lost=[f"case{n}" for n in range(6)]), "no_data"),
        (Server(2).read(lost=["case0", "case1", "case2", "case3"]), "too_few_probes"),
    ],
    ids=["empty", "all_lost", "most_lost"],
)
def test_without_data_nothing_is_known_and_nothing_moves(
    noisy: Calibration, reading: CheckReading, code: str
) -> None:
    found = decide(reading, REFERENCE, noisy, BEGUN, LIMITS)
    assert (found.changed, found.severity, found.pages) == (Tri.UNKNOWN, Severity.UNKNOWN, False)
    assert codes(found) == [code]
    assert found.state == BEGUN


def test_without_calibration_only_facts_are_judged() -> None:
    assert codes(follow([Server(2).read()], None)[0]) == ["not_calibrated"]
    twice = follow([with_probe(probe(prompt_tokens=9), n) for n in ("a", "b")], None)
    assert (twice[1].changed, twice[1].pages) == (Tri.YES, True)


def test_another_reference_is_not_compared(noisy: Calibration) -> None:
    other = replace(REFERENCE, check_id="other")
    found = decide(Server(2).read(), other, noisy, NONE, LIMITS)
    assert (found.changed, codes(found)) == (Tri.UNKNOWN, ["other_reference"])


@pytest.mark.parametrize("block", [Block("s", 64, "warm"), Block("s", 4, "off")])
def test_conditions_that_were_never_calibrated_say_nothing(
    noisy: Calibration, exact: Calibration, block: Block
) -> None:
    for known, server in ((noisy, Server(2)), (exact, Server(2, noise=0.02))):
        found = decide(server.read(block), REFERENCE, known, NONE, LIMITS)
        assert (found.changed, found.pages) == (Tri.UNKNOWN, False)
        assert codes(found) == ["unseen_conditions"]


def test_a_check_counts_once(noisy: Calibration) -> None:
    reading = Server(2, shift=0.05).read()
    first = decide(reading, REFERENCE, noisy, NONE, LIMITS)
    again = decide(reading, REFERENCE, noisy, first.state, LIMITS)
    assert again.state == first.state
    assert (again.changed, again.pages, codes(again)) == (first.changed, False, ["already_counted"])


# L0 -----------------------------------------------------------------------------------------------


BROKEN = [
    probe(prompt_tokens=9),
    probe(problem="500: internal error"),
    probe(logprobs=(math.nan,) * 8),
    probe(channel="greedy", token_ids=(0,) * 8),
]


@pytest.mark.parametrize("broken", BROKEN, ids=["prompt", "refused", "nan", "token_zero"])
def test_a_broken_fact_needs_its_repeat(noisy: Calibration, broken: ProbeReading) -> None:
    first, second = follow([with_probe(broken, n) for n in ("a", "b")], noisy, rechecks=True)
    assert (first.changed, first.pages, first.needs_recheck) == (Tri.UNKNOWN, False, True)
    assert (second.changed, second.pages, second.layer) == (Tri.YES, True, "L0")
    assert second.suspected is not None


def test_damage_on_the_way_does_not_page(noisy: Calibration) -> None:
    found = follow(
        [with_probe(BROKEN[0], "a"), Server(2).read(), with_probe(BROKEN[0], "b")], noisy
    )
    assert [d.pages for d in found] == [False, False, False]
    assert found[1].state.pending == ()


def test_another_broken_fact_is_no_repeat(noisy: Calibration) -> None:
    found = follow([with_probe(BROKEN[0], "a"), with_probe(BROKEN[1], "b")], noisy)
    assert not found[1].pages


def test_facts_that_take_turns_are_a_change(noisy: Calibration) -> None:
    readings = [with_probe(BROKEN[n % 2], f"c{n}") for n in range(3)]
    assert [d.pages for d in follow(readings, noisy)] == [False, False, True]


def test_a_lost_repeat_does_not_clear_what_is_pending(noisy: Calibration) -> None:
    lost = Server(2).read(lost=[f"case{n}" for n in range(5)])
    found = follow([with_probe(BROKEN[0], "a"), lost, with_probe(BROKEN[0], "b")], noisy)
    assert [d.pages for d in found] == [False, False, True]


def test_garbage_is_called_garbage(noisy: Calibration) -> None:
    found = follow([with_probe(BROKEN[3], n) for n in ("a", "b")], noisy)
    assert [d.severity for d in found] == [Severity.UNKNOWN, Severity.GARBAGE]


def test_another_engine_is_told_and_not_paged(noisy: Calibration) -> None:
    reading = Server(2, shift=0.3).read()
    found = decide(reading, REFERENCE, noisy, NONE, LIMITS, platform="gpu")
    assert (found.changed, found.pages, codes(found)) == (Tri.YES, False, ["other_platform"])


# L1 -----------------------------------------------------------------------------------------------


def bit(case: str = "case0", by: float = 1e-9) -> ProbeReading:
    known = probe(case)
    return replace(known, logprobs=tuple(x - by for x in known.logprobs if x is not None))


def test_one_bit_seen_twice_is_a_change(exact: Calibration) -> None:
    first, second = follow([with_probe(bit(), n) for n in ("a", "b")], exact, rechecks=True)
    assert (first.changed, first.pages, first.needs_recheck) == (Tri.UNKNOWN, False, True)
    assert (second.changed, second.pages, second.layer) == (Tri.YES, True, "L1")


def test_a_bit_that_moves_back_does_not_page(exact: Calibration) -> None:
    same = [replace(REFERENCE, check_id=n) for n in "xy"]
    found = follow([with_probe(bit(), "a"), same[0], with_probe(bit(), "b"), same[1]], exact)
    assert not any(d.pages for d in found)
    assert found[3].changed is Tri.NO


def test_bits_that_move_elsewhere_each_time_take_longer(exact: Calibration) -> None:
    readings = [with_probe(bit(by=1e-9 * n), f"c{n}") for n in range(1, 4)]
    assert [d.pages for d in follow(readings, exact)] == [False, False, True]


def test_other_traffic_in_the_batches_says_nothing(exact: Calibration) -> None:
    shared = check([*REFERENCE.probes[1:], probe(), bit("case1"), bit("case2")], "shared")
    shared = replace(shared, probes=(bit(), *shared.probes))
    found = follow([shared, replace(shared, check_id="again")], exact)
    assert [(d.changed, d.pages, codes(d)) for d in found] == [
        (Tri.UNKNOWN, False, ["unsteady"])
    ] * 2


def test_health_that_repeats_is_unchanged(exact: Calibration) -> None:
    server = Server(2, noise=0.0)
    found = follow([server.read(b) for b in blocks(6)], exact)
    assert {d.changed for d in found} == {Tri.NO}
    assert {d.severity for d in found} == {Severity.SAME}


# L2 -----------------------------------------------------------------------------------------------


def look_alike(name: str) -> list[CheckReading]:
    """Return healthy checks that look odd."""
    if name == "one_bad_hour":
        server, bad = Server(11), Server(12, shift=0.5)
        return [bad.read() if n == 20 else server.read() for n in range(60)]
    if name == "restarts":
        server = Server(13)
        return [server.read(Block(f"new{n // 5}", 4, "warm")) for n in range(60)]
    if name == "loads_and_caches":
        server = Server(14)
        return [
            server.read(Block("new", 1 + n % 16, "cold" if n % 3 else "warm")) for n in range(60)
        ]
    if name == "lost_probes":
        server = Server(15)
        return [server.read(lost=[f"case{n % 6}", f"case{(n + 1) % 6}"]) for n in range(60)]
    server = Server(16)
    return [replace(server.read(), probes=tuple(reversed(server.read().probes))) for n in range(60)]


@pytest.mark.parametrize(
    "name", ["one_bad_hour", "restarts", "loads_and_caches", "lost_probes", "other_order"]
)
def test_healthy_look_alikes_do_not_page(noisy: Calibration, name: str) -> None:
    found = follow(look_alike(name), noisy)
    assert not any(d.pages for d in found)
    assert found[-1].changed is Tri.NO


@pytest.mark.parametrize("kind", ["blocks", "heavy_tails", "restless_blocks"])
def test_odd_health_does_not_page_once_it_was_calibrated(kind: str) -> None:
    def server(seed: int) -> Server:
        if kind == "heavy_tails":
            return Server(
                seed, draw=lambda rng: rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2 / 3))
            )
        widths: dict[str, float] = {}
        made = Server(seed)
        least = 0.7 if kind == "blocks" else 0.4

        def width(block: Block) -> float:
            if block.start not in widths:
                widths[block.start] = least + made.rng.random()
            return widths[block.start]

        made.block_noise = width
        return made

    known = calibrate(healthy_checks(server(21), each=8, starts=10), REFERENCE, LIMITS)
    later = server(22)
    found = follow([later.read(Block(f"new{n // 40}", 4, "warm")) for n in range(240)], known)
    assert not any(d.pages for d in found)


def test_a_gross_shift_pages_when_it_is_repeated(noisy: Calibration) -> None:
    server = Server(31, shift=0.3)
    first = decide(server.read(), REFERENCE, noisy, NONE, LIMITS)
    assert (first.changed, first.pages, first.needs_recheck) == (Tri.UNKNOWN, False, True)
    elsewhere = server.read(Block("start0", 16, "warm"))
    second = decide(elsewhere, REFERENCE, noisy, first.state, LIMITS, is_recheck=True)
    assert (second.changed, second.pages, second.layer) == (Tri.YES, True, "L2")
    assert "gross" in codes(second)


def test_a_gross_re_check_in_the_same_mode_proves_nothing(noisy: Calibration) -> None:
    server = Server(31, shift=0.3)
    known = replace(noisy, recheck_correlation=None)
    found = follow([server.read(QUIET), server.read(QUIET)], known, rechecks=True)
    assert not found[1].pages


def test_a_small_shift_pages_after_hours(noisy: Calibration) -> None:
    server = Server(32, shift=0.012)
    found = follow([server.read() for _ in range(60)], noisy)
    first = next(n for n, d in enumerate(found) if d.pages)
    assert 2 < first < 60
    assert "evidence" in codes(found[first])
    told = found[first].evidence
    assert told is not None
    assert told.level >= told.alarm_level


def test_a_larger_shift_pages_sooner(noisy: Calibration) -> None:
    def hours(shift: float) -> int:
        server = Server(33, shift=shift)
        found = follow([server.read() for _ in range(80)], noisy)
        return next((n for n, d in enumerate(found) if d.pages), 80)

    assert hours(0.05) <= hours(0.016) <= hours(0.01)
    assert hours(0.05) < hours(0.01)


def test_re_checks_bring_it_within_the_hour(noisy: Calibration) -> None:
    limits = replace(LIMITS, gross_factor=0.0)
    server = Server(34, shift=0.03)
    readings = [server.read() for _ in range(9)]
    known = replace(noisy, recheck_correlation=0.0)
    found = follow(readings, known, rechecks=True, limits=limits)
    assert found[0].needs_recheck
    within = next(n for n, d in enumerate(found) if d.pages)
    hours = next(n for n, d in enumerate(follow(readings, noisy, limits=limits)) if d.pages)
    # A product of bets needs no fewer checks than their sum over hours, but takes one hour.
    assert 2 < within < 9
    assert hours <= within + 1


@pytest.mark.parametrize("correlation", [None, 0.0, 0.5])
@pytest.mark.parametrize("limits", [LIMITS, replace(LIMITS, min_bursts=40)])
def test_re_checks_come_to_an_end(
    noisy: Calibration, correlation: float | None, limits: DriftLimits
) -> None:
    """Whatever a server does, at most 8 re-checks are asked for, after an alarm none."""
    known = replace(noisy, recheck_correlation=correlation)
    for shift in (0.0, 0.02, 0.3):
        server, state, asked = Server(39, shift=shift), NONE, 0
        wants = decide(server.read(), REFERENCE, known, state, limits).needs_recheck
        while wants:
            asked += 1
            found = decide(server.read(), REFERENCE, known, state, limits, is_recheck=asked > 1)
            state, wants = found.state, found.needs_recheck
            assert asked < 20
        assert asked <= 9


def test_correlated_re_checks_add_nothing(noisy: Calibration) -> None:
    server = Server(34, shift=0.03)
    known = replace(noisy, recheck_correlation=0.5)
    found = follow([server.read() for _ in range(9)], known, rechecks=True)
    assert found[-1].state.level == pytest.approx(found[0].state.level)


def test_a_fault_in_few_requests_is_found(noisy: Calibration) -> None:
    server = Server(35, shift=1.0, hit_share=0.05)
    found = follow([server.read() for _ in range(60)], noisy)
    assert any(d.pages for d in found)


def test_a_change_stands_until_checks_are_quiet_again(noisy: Calibration) -> None:
    bad, good = Server(36, shift=0.05), Server(37)
    found = follow([*(bad.read() for _ in range(10)), *(good.read() for _ in range(150))], noisy)
    alarm = next(n for n, d in enumerate(found) if d.pages)
    assert found[alarm + 1].changed is Tri.YES
    assert found[-1].changed is Tri.NO
    assert found[-1].state.suspicious_since is not None


def test_small_calibrations_ask_again_earlier(noisy: Calibration) -> None:
    assert threshold(noisy, LIMITS) == pytest.approx(min(5.0, noisy.largest_e / 2))
    assert threshold(replace(noisy, statistics={}), LIMITS) == 1.0


def test_suspicion_forbids_learning(noisy: Calibration) -> None:
    found = decide(Server(31, shift=0.3).read(), REFERENCE, noisy, NONE, LIMITS)
    assert found.state.suspicious_since is not None


def test_a_declared_deployment_pages_nobody_and_is_not_remembered(noisy: Calibration) -> None:
    for reading in (Server(31, shift=0.3).read(), with_probe(BROKEN[0])):
        found = decide(reading, REFERENCE, noisy, BEGUN, LIMITS, frozen="deployed at noon")
        assert (found.pages, found.needs_recheck) == (False, False)
        assert found.state == BEGUN
        assert "frozen" in codes(found)


def test_the_watch_line_never_pages(noisy: Calibration) -> None:
    server = Server(38, shift=0.008)
    found = follow([server.read() for _ in range(120)], noisy)
    watched = [d for d in found if "watch" in codes(d)]
    assert watched
    assert any(not d.pages for d in watched)


# L3 -----------------------------------------------------------------------------------------------


def judged(
    known: Calibration, score: float | None, shift: float, checks: int = 25
) -> DriftDecision:
    server, state = Server(41, shift=shift), NONE
    quality = None if score is None else Quality({"tasks": score}, {"tasks": 0.95})
    for _ in range(checks):
        found = decide(server.read(), REFERENCE, known, state, LIMITS, quality=quality)
        state = found.state
    return found


@pytest.mark.parametrize(
    ("score", "shift", "changed", "severity"),
    [
        (0.95, 0.05, Tri.YES, Severity.SAME),
        (0.4, 0.05, Tri.YES, Severity.DEGRADED),
        (None, 0.05, Tri.YES, Severity.UNKNOWN),
        (0.95, 0.0, Tri.NO, Severity.SAME),
        (0.4, 0.0, Tri.NO, Severity.DEGRADED),
    ],
)
def test_changed_and_degraded_are_two_questions(
    noisy: Calibration, score: float | None, shift: float, changed: Tri, severity: Severity
) -> None:
    found = judged(noisy, score, shift)
    assert (found.changed, found.severity) == (changed, severity)
    assert severity is not Severity.DEGRADED or changed is Tri.YES or not found.pages


def redrawn(readings: Iterable[CheckReading], share: float, channel: str) -> list[CheckReading]:
    """Let some decoded answers go a way that no healthy one goes, from the third token on."""

    def changed(number: int, p: ProbeReading) -> ProbeReading:
        cases = int(p.case_id.removeprefix("case"))
        if p.channel != channel or cases >= share * 6:
            return p
        tokens = (*p.token_ids[:2], *(700 + number for _ in p.token_ids[2:]))
        return replace(p, token_ids=tokens)

    return [
        replace(r, probes=tuple(changed(n, p) for p in r.probes)) for n, r in enumerate(readings)
    ]


@pytest.mark.parametrize("channel", ["seeded", "greedy"])
def test_a_sampler_that_draws_otherwise_pages_within_the_hour(
    noisy: Calibration, channel: str
) -> None:
    """No score moves; the first check asks for its repeat, the repeat in another state is proof."""
    server = Server(21)
    first = server.read(Block("start0", 4, "warm"))
    again = server.read(Block("start0", 16, "cold"))
    found = follow(redrawn([first, again], 1.0, channel), noisy, rechecks=True)
    assert [(f.pages, f.needs_recheck) for f in found] == [(False, True), (True, False)]
    assert any(reason.code == "gross" for reason in found[-1].reasons)
    assert ("sampler" if channel == "seeded" else "decoding") in str(found[-1].suspected)


@pytest.mark.parametrize("channel", ["seeded", "greedy"])
def test_one_answer_that_went_another_way_does_not_page(noisy: Calibration, channel: str) -> None:
    server = Server(22)
    for _ in range(20):
        first = server.read(Block("start0", 4, "warm"))
        again = server.read(Block("start0", 16, "cold"))
        assert not any(
            f.pages for f in follow(redrawn([first, again], 0.1, channel), noisy, rechecks=True)
        )


@pytest.mark.parametrize(
    ("name", "largest", "sd", "level"),
    [
        (Statistic.MEAN_Z, 0.0, 0.0, 1.0 + math.log(3)),
        (Statistic.MEAN_Z, 2.0, 0.1, 2.0 + math.log(3)),
        (Statistic.MEAN_Z, 2.0, 1.0, 5.0),
        (Statistic.REPLAY, 0.0, 0.0, 0.3),
        (Statistic.REPLAY, 0.4, 0.0, 0.8),
        (Statistic.FORKS, 0.4, 0.0, 1.2),
        (Statistic.FORKS, 0.2, 1.0, 0.6),
    ],
)
def test_what_is_gross(name: Statistic, largest: float, sd: float, level: float) -> None:
    assert gross_level(name, largest, sd, 3.0) == pytest.approx(level)
