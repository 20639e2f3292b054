"""What is learned from collected checks, what is missing, and the modes that they are made in."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.reading import Block
from quality_lib.errors import NoData
from quality_lib.golden.learning import learn
from quality_lib.golden.mode import Mode, mode_of_check, modes_of, platform_name, recheck_modes
from tests.drift.readings import LIMITS, REFERENCE, Server, blocks, healthy_checks


def test_loads_that_disturb_the_scores_do_not_hide_that_one_at_a_time_repeats() -> None:
    server = Server(block_noise=lambda block: float(block.load > 1), forks=0.0)
    found = learn(healthy_checks(server, each=40), REFERENCE, LIMITS, "p")
    assert (found.exact_up_to, found.is_deterministic) == (1, False)
    assert {block.load for block in found.blocks} == {1, 4, 16}
    assert found.checks == 480
    assert found.is_exact_for(1, None)
    assert found.is_exact_for(1, 1)
    assert not found.is_exact_for(1, 2)
    assert not found.is_exact_for(4, 4)


def test_with_few_blocks_those_that_repeat_are_enough() -> None:
    server = Server(block_noise=lambda block: float(block.load > 1), forks=0.0)
    found = learn(healthy_checks(server, each=40, starts=3), REFERENCE, LIMITS, "p")
    assert (found.exact_up_to, found.is_deterministic, found.checks) == (1, True, 120)
    assert {block.load for block in found.blocks} == {1}


def test_too_few_exact_checks_fall_back_on_all() -> None:
    server = Server(block_noise=lambda block: float(block.load > 1), forks=0.0)
    found = learn(healthy_checks(server, each=12), REFERENCE, LIMITS, "p")
    assert (found.exact_up_to, found.is_deterministic) == (0, False)
    assert {block.load for block in found.blocks} == {1, 4, 16}


def test_noise_calibrates_on_everything() -> None:
    assert learn(healthy_checks(Server()), REFERENCE, LIMITS, "p").checks == 144


@pytest.mark.parametrize(
    ("starts", "each", "noise", "words"),
    [
        (1, 40, 0.02, ("3 server starts, there are 1", "Restart the server", "1 server start;")),
        (4, 2, 0.02, ("needs 120 healthy checks, there are 24", "more --checks")),
        (1, 2, 0.0, ("needs 120", "every score repeated bit for bit (2 checks)")),
    ],
)
def test_what_is_missing_is_said(
    starts: int, each: int, noise: float, words: tuple[str, ...]
) -> None:
    checks = healthy_checks(Server(noise=noise, forks=0.0), each=each, starts=starts)
    with pytest.raises(NoData) as refused:
        learn(checks, REFERENCE, LIMITS, "p")
    assert [word for word in words if word not in str(refused.value)] == []


def test_checks_take_all_modes_in_turn_and_in_another_order_each_time() -> None:
    modes = modes_of((16, 1, 4, 4))
    assert len(modes) == 6
    made = [mode_of_check(modes, number, "start") for number in range(60)]
    assert set(Counter(made).values()) == {10}
    rows = [tuple(made[i : i + 6]) for i in range(0, 60, 6)]
    assert len(set(rows)) > 3
    assert made == [mode_of_check(modes, number, "start") for number in range(60)]


def test_rechecks_take_calibrated_modes_and_another_one_first() -> None:
    calibration = calibrate(healthy_checks(Server()), REFERENCE, LIMITS)
    first = list(itertools.islice(recheck_modes(calibration, 1, "warm"), 12))
    known = {(b.load, b.cache) for b in blocks()}
    assert {(m.load, m.cache) for m in first} == known - {(1, "warm")}
    assert first[0] == Mode(16, "cold")
    assert all(calibration.covers(Block("new", m.load, m.cache)) for m in first)


def test_where_every_bit_counts_the_rechecks_count_too() -> None:
    server = Server(block_noise=lambda block: float(block.load > 1), forks=0.0)
    calibration = learn(healthy_checks(server, each=40), REFERENCE, LIMITS, "p")
    assert {m.load for m in itertools.islice(recheck_modes(calibration, 1, "warm"), 9)} == {1}
    assert 16 in {m.load for m in itertools.islice(recheck_modes(calibration, 4, "warm"), 9)}


def test_the_only_calibrated_mode_is_asked_again() -> None:
    server = Server()
    checks = [server.read(Block(f"s{n % 14}", 1, "warm"), burst=f"b{n // 4}") for n in range(140)]
    calibration = calibrate(checks, REFERENCE, LIMITS)
    assert next(recheck_modes(calibration, 1, "warm")) == Mode(1, "warm")


@pytest.mark.parametrize(
    ("version", "environment", "name"),
    [
        ("0.32.0", {"cpu": "x", "gpu": None, "python": "3.11"}, "vllm 0.32.0, cpu x"),
        (None, {"gpu": "H100", "driver": "570"}, "gpu H100, driver 570"),
        (None, {}, ""),
    ],
)
def test_a_platform_is_named_by_what_sets_the_bits(
    version: str | None, environment: dict[str, str | None], name: str
) -> None:
    assert platform_name(version, environment) == name


@pytest.mark.parametrize(("cache", "salt"), [("cold", "name"), ("warm", "")])
def test_only_a_cold_cache_has_a_salt(cache: str, salt: str) -> None:
    assert Mode(1, cache).salt("name") == salt
