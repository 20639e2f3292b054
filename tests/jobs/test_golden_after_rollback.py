"""Which snapshot the hourly golden run is held against once a rollback has moved the traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quality_lib import wiring
from quality_lib.adapters.files.baseline import read_baseline, write_baseline
from quality_lib.errors import OutsideFailure
from quality_lib.golden.baseline import SCHEMA, Baseline
from quality_lib.jobs import rollback
from quality_lib.jobs.golden import check_service
from quality_lib.rollout.machine import steps_of
from quality_lib.settings import Settings, StoreSettings
from quality_lib.snapshots.manifest import GoldenRecord, WeightsRecord
from quality_lib.snapshots.ports import LAST_HEALTHY, SERVING, Health, SnapshotEntry
from tests.rollback_world import World, address
from tests.snapshots import builders

BASELINE = Baseline(
    schema=SCHEMA,
    service="chat",
    model="chat",
    golden_digest="9" * 64,
    created_at="2026-01-01T00:00:00+00:00",
    run_ids=(),
    contract={},
    cases={},
)


class WorldWithBaselines(World):
    """Snapshots that carry a baseline each, told apart by its run."""

    def _snapshot(self, number: int) -> SnapshotEntry:
        folder = self.folder / f"good-{number}"
        folder.mkdir()
        file = folder.with_suffix(".json")
        write_baseline(file, replace(BASELINE, run_ids=(f"run of #{number + 1}",)))
        manifest = builders.manifest(
            weights=WeightsRecord((), f"{number:064x}", folder.as_uri()),
            golden=GoldenRecord("9" * 64, "baseline/baseline.json", "0" * 64),
        )
        files = {"baseline/baseline.json": file}
        stored = self.snapshots.create("chat", manifest, files, Health.HEALTHY)
        if number == 0:
            self.snapshots.set_alias("chat", SERVING, stored.snapshot_id, "first", "test")
        return stored.entry


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("quality_lib.adapters.files.run_folder.os.fsync", lambda number: None)
    made = WorldWithBaselines(tmp_path, step_percent=50, soak_s=1)
    monkeypatch.setattr(wiring, "snapshot_store", lambda settings: made.snapshots)

    def nobody(service: object) -> None:
        raise OutsideFailure("the server is not what this is about")

    monkeypatch.setattr(wiring, "server_facts", nobody)
    return made


def held_against(world: World, name: str) -> tuple[str, ...]:
    """Begin an hourly check; give the runs of the baseline that it fetched."""
    stores = StoreSettings(work_dir=world.folder / "runs")
    settings = Settings(services={"chat": world.parts.service}, stores=stores)
    with pytest.raises(OutsideFailure):
        check_service(settings, "chat", world.folder / name)
    return read_baseline(world.folder / name).run_ids


def test_after_a_rollback_it_is_the_target(world: World) -> None:
    assert held_against(world, "before") == ("run of #1",)
    assert rollback.follow(world.parts, world.plan()).state == "done"
    assert held_against(world, "after") == ("run of #2",)


def test_after_an_abort_it_is_the_old_one(world: World) -> None:
    path = world.plan()
    for step in steps_of(world.journal(path))[:4]:
        assert rollback.perform(world.parts, path, step).done
    assert rollback.request_abort(world.parts, "no", "ada").done
    assert held_against(world, "after") == ("run of #1",)


@pytest.mark.parametrize("is_store_away", [False, True])
def test_after_an_abort_that_only_the_target_survives_it_is_the_target(
    world: World, is_store_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.plan()
    for step in steps_of(world.journal(path))[:4]:
        assert rollback.perform(world.parts, path, step).done
    world.dies(address(world.old[0]))
    if is_store_away:

        def away(*_: object) -> None:
            raise OutsideFailure("MLflow does not answer")

        monkeypatch.setattr(world.snapshots, "set_alias", away)
    assert rollback.request_abort(world.parts, "no", "ada").done
    assert {n for n, w in world.route.table().weights().items() if w} == {"chat-baadf00d-0-r1"}
    target = world.good[1].snapshot_id
    told = [event.what for event in world.journal(path).events]
    by_hand = f"quality snapshot alias serving {target[:12]} --service chat"
    assert any(by_hand in what for what in told) is is_store_away
    assert held_against(world, "after") == ("run of #1" if is_store_away else "run of #2",)
    assert LAST_HEALTHY not in world.snapshots.aliases("chat"), (
        "an aborted rollback proves no health"
    )
