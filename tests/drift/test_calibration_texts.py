"""Decoded answers in a calibration: judged once enough checks brought them, and out of the way before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration_json import calibration_from_json, calibration_to_json
from quality_lib.drift.paired import Statistic
from quality_lib.drift.reading import CheckReading
from tests.drift.readings import LIMITS, REFERENCE, Server, healthy_checks

TEXTS = frozenset({"greedy", "seeded"})
OF_SCORES = frozenset({Statistic.MEAN_Z, Statistic.MAX_Z, Statistic.SIGNED})


def texts_of(check: CheckReading, is_decoded: bool = True) -> CheckReading:
    """Return a check as a calibration collects it: of what is decoded the tokens alone, or nothing."""
    probes = (
        replace(p, logprobs=(), finish_reason=None) if p.channel in TEXTS else p
        for p in check.probes
        if is_decoded or p.channel not in TEXTS
    )
    return replace(check, probes=tuple(probes))


def collected(every: int) -> list[CheckReading]:
    """Return healthy checks of which one burst in ``every`` was decoded; 0: none."""
    checks = healthy_checks(Server(1))
    bursts = list(dict.fromkeys(c.burst for c in checks))
    return [
        texts_of(c, every > 0 and bursts.index(c.burst) % every == 0) for c in checks
    ]  # fmt: skip


def test_texts_are_judged_once_enough_checks_were_decoded_and_stay_out_before() -> None:
    reference = texts_of(REFERENCE)
    none, some, every = (calibrate(collected(n), reference, LIMITS) for n in (0, 4, 1))
    assert none.known == some.known == OF_SCORES
    assert every.known == frozenset(Statistic)
    assert some == none, "texts that are not judged take no weight and are not asked for again"
    assert {key[1] for key in every.healthy} == {"chat_scored", "raw_scored", *TEXTS}
    assert not any(h.is_measured for key, h in every.healthy.items() if key[1] in TEXTS)
    for name in OF_SCORES:
        assert every.statistics[name].values == none.statistics[name].values
    assert every.largest_e == pytest.approx(none.largest_e)
    assert calibration_from_json(calibration_to_json(every)) == every


def test_a_sampler_that_draws_otherwise_is_seen_by_texts_alone() -> None:
    reference = texts_of(REFERENCE)
    known = calibrate(collected(1), reference, LIMITS)
    healthy = Server(8)

    def evidence(reading: CheckReading) -> float:
        found = known.evidence(known.measure(texts_of(reading), reference))
        assert found is not None
        return found

    calm = [evidence(healthy.read()) for _ in range(200)]
    assert sum(calm) / len(calm) < 1.1
    other = healthy.read()
    other = replace(
        other,
        probes=tuple(
            replace(p, token_ids=(*p.token_ids[:2], *(7 for _ in p.token_ids[2:])))
            if p.channel == "seeded" else p
            for p in other.probes
        ),
    )  # fmt: skip
    found = known.measure(texts_of(other), reference)
    e = known.e_values(found)
    assert e[Statistic.REPLAY] == pytest.approx(known.largest_e)
    assert known.p_values(found)[Statistic.REPLAY][0] == pytest.approx(1 / 145)


def test_a_check_that_was_not_decoded_lacks_their_weight() -> None:
    reference = texts_of(REFERENCE)
    known = calibrate(collected(1), reference, LIMITS)
    bad = Server(9, shift=0.2).read()
    whole, part = (
        known.evidence(known.measure(texts_of(bad, is_decoded), reference))
        for is_decoded in (True, False)
    )
    assert whole is not None
    assert part is not None
    assert 0.7 * known.largest_e < part <= 0.75 * known.largest_e + 1e-9 < whole


def test_what_has_no_bursts_of_its_own_is_not_multiplied() -> None:
    """Texts that were never decoded twice in a row: nobody knows how alike their re-checks are."""
    reference = texts_of(REFERENCE)
    checks: list[CheckReading] = []
    seen: set[str | None] = set()
    for check in collected(1):
        checks.append(texts_of(check, check.burst not in seen))
        seen.add(check.burst)
    limits = replace(LIMITS, min_checks=40)
    assert calibrate(collected(0), reference, limits).recheck_correlation is not None
    alone = [replace(c, burst=c.burst if len(c.probes) == 12 else None) for c in checks]
    found = calibrate(alone, reference, limits)
    assert Statistic.REPLAY in found.known
    assert found.recheck_correlation is None
