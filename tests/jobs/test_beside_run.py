"""What is asked beside a golden run is kept as it was answered, and only then not asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.files.readings import RECHECKS
from quality_lib.drift.reading import Block
from quality_lib.errors import BadInput
from quality_lib.golden.reading import decoded_keys, scored_keys
from quality_lib.jobs.beside_run import BesideRun
from tests.drift_world import DriftWorld

BLOCK = Block("s", 4, "cold")
CASES = ("case-01", "case-20")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriftWorld:
    return DriftWorld(tmp_path, monkeypatch)


def beside(world: DriftWorld, run_id: str = "run", file: str | None = RECHECKS) -> BesideRun:
    return BesideRun(
        world.settings.service("chat"), world.cases, world.baseline, run_id, world.hour,
        world.folder / file if file else None,
    )  # fmt: skip


def test_an_answered_round_comes_back_as_it_was(world: DriftWorld) -> None:
    keys = scored_keys(world.baseline, CASES) | decoded_keys(world.baseline, CASES)
    first = beside(world)
    answered = first.ask("recheck-1", BLOCK, keys, repeats=2)
    first.close()
    assert answered.check_id == "run-recheck-1"
    assert len(answered.probes) == 4 * 2 + 2
    asked = len(world.model.asked)
    again = beside(world)
    assert again.ask("recheck-1", BLOCK, keys, repeats=2) == answered
    again.close()
    assert len(world.model.asked) == asked


@pytest.mark.parametrize(
    ("name", "block", "cases", "run_id"),
    [
        ("recheck-2", BLOCK, CASES, "run"),
        ("recheck-1", Block("s", 1, "cold"), CASES, "run"),
        ("recheck-1", Block("s", 4, "warm"), CASES, "run"),
        ("recheck-1", BLOCK, ("case-01",), "run"),
        ("recheck-1", BLOCK, CASES, "another run"),
    ],
)
def test_another_round_is_asked(
    world: DriftWorld, name: str, block: Block, cases: tuple[str, ...], run_id: str
) -> None:
    first = beside(world)
    first.ask("recheck-1", BLOCK, scored_keys(world.baseline, CASES))
    first.close()
    asked = len(world.model.asked)
    other = beside(world, run_id)
    keys = scored_keys(world.baseline, cases)
    assert other.ask(name, block, keys).block == block
    other.close()
    assert len(world.model.asked) == asked + len(keys)


def test_a_round_that_got_lost_was_not_answered(world: DriftWorld) -> None:
    keys = scored_keys(world.baseline, CASES)
    first = beside(world)
    world.model.lose = True
    assert all(probe.is_lost for probe in first.ask("recheck-1", BLOCK, keys).probes)
    world.model.lose = False
    found = first.ask("recheck-1", BLOCK, keys)
    first.close()
    assert not any(probe.is_lost for probe in found.probes)
    assert (world.folder / RECHECKS).read_bytes().count(b"\n") == 1


def test_nothing_is_kept_where_nobody_asks_for_it(world: DriftWorld) -> None:
    alone = beside(world, file=None)
    alone.ask("recheck-1", BLOCK, scored_keys(world.baseline, CASES))
    alone.close()
    beside(world).close()
    assert not (world.folder / RECHECKS).exists()


def test_a_damaged_file_is_named(world: DriftWorld) -> None:
    (world.folder / RECHECKS).write_text("{}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=f"{RECHECKS}:1"):
        beside(world).ask("recheck-1", BLOCK, scored_keys(world.baseline, CASES))
