"""The steps of a rollback, one after the other, over everything in memory."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.files.journal import IncidentFolder, Incidents, incident_folder
from quality_lib.errors import BadInput, NoData, OutsideFailure
from quality_lib.jobs import rollback
from quality_lib.jobs.rollback_plan import Wishes, plan_rollback
from quality_lib.records import Tri
from quality_lib.rollout.journal import AbortRequest
from quality_lib.rollout.machine import steps_of
from quality_lib.rollout.ports import Backend, RouteTable
from quality_lib.rollout.strategy import StepName
from quality_lib.snapshots.ports import LAST_HEALTHY, PREVIOUS, SERVING, Health
from tests.rollback_world import ROUTE, World, address

MakeWorld = Callable[..., World]


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut is not what these tests are about, and waiting for the disk is all their time."""
    monkeypatch.setattr("quality_lib.adapters.files.run_folder.os.fsync", lambda number: None)


@pytest.fixture
def make(tmp_path: Path) -> MakeWorld:
    def world(**settings: Any) -> World:
        return World(tmp_path, **settings)

    return world


def forward(world: World, path: Path, *, until: str = "") -> rollback.StepResult:
    """Do step after step until one is reached or fails."""
    journal = world.journal(path)
    result = None
    for step in steps_of(journal):
        if str(step) == until:
            break
        result = rollback.perform(world.parts, path, step)
        if not result.done:
            break
    assert result is not None
    return result


def shares(world: World) -> dict[str, int]:
    return {name: weight for name, weight in world.route.table().weights().items() if weight}


def test_surge_from_plan_to_post_mortem(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    new = "chat-baadf00d-0-r1"
    seen = []
    for step in steps_of(world.journal(path)):
        result = rollback.perform(world.parts, path, step)
        assert result.done, result.headline
        seen.append((result.step, shares(world)))
        again = rollback.perform(world.parts, path, step)
        assert (again.done, again.headline) == (True, result.headline) or step.name == "report"
    assert [weights for name, weights in seen if name == "move"] == [
        {"old-0": 75, new: 25},
        {"old-0": 50, new: 50},
        {"old-0": 25, new: 75},
        {new: 100},
    ]
    assert seen[2][1] == {"old-0": 100}, "nothing moves before it was checked"
    # One instance is left, the one that was validated in staging.
    (left,) = world.engine.instances()
    assert left.labels["role"] == "staging"
    assert world.route.table() == RouteTable("chat", (Backend(new, address(left), 100),))
    assert world.collected == [world.old[0].id]
    target, bad = world.good[1], world.good[0]
    aliases = world.snapshots.aliases("chat")
    assert aliases[SERVING] == aliases[LAST_HEALTHY] == target.snapshot_id
    assert aliases[PREVIOUS] == bad.snapshot_id
    record = world.incidents.find("chat-baadf00d-0")
    assert record is not None
    assert (record.state, record.target_snapshot_id, record.bad_deployment_key) == (
        "done",
        target.snapshot_id,
        "baadf00dbaadf00d",
    )
    assert world.reports == ["done"]
    assert world.journal(path).url == "http://mlflow/post-mortem"


def test_the_measured_split_is_kept_for_the_post_mortem(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="retire")
    fact = world.journal(path).facts["move 1"]
    assert fact["split"]["state"] == "yes"
    assert sum(one["requests"] for one in fact["served"].values()) == 30


def test_a_dry_run_touches_nothing(make: MakeWorld, tmp_path: Path) -> None:
    world = make()
    journal, folder = plan_rollback(world.parts, Wishes(), is_dry_run=True)
    assert folder is None and journal.plan.headline.startswith("roll 'chat' back to snapshot")
    assert not (tmp_path / "runs").exists()
    assert world.incidents.history("chat") == ()
    assert world.engine.instances() == tuple(world.old)


def test_planning_again_gives_the_same_plan_and_another_incident_is_refused(
    make: MakeWorld,
) -> None:
    world = make()
    path = world.plan()
    assert world.plan() == path == world.plan(incident="chat-baadf00d-0")
    assert world.journal(path).revision == 1
    with pytest.raises(BadInput, match="in progress"):
        world.plan(incident="chat-other-7")


@pytest.mark.parametrize(
    ("settings", "wishes", "told"),
    [
        ({"strategy": "rolling"}, {}, "rolling needs several replicas"),
        ({"replicas": 2, "strategy": "in-place"}, {}, "use rolling"),
        ({"replicas": 2, "strategy": "rolling", "min_capacity": 2}, {}, "min_capacity is 2"),
        ({"healthy": 0}, {}, "no healthy snapshot to go back to"),
        ({"mode": "alert-only"}, {}, "nothing is ever moved"),
        ({}, {"target": "nothing-like-it"}, "there is no snapshot"),
        ({}, {"incident": "../elsewhere"}, "cannot be the id"),
    ],
)
def test_what_cannot_be_planned(
    make: MakeWorld, settings: dict[str, Any], wishes: dict[str, Any], told: str
) -> None:
    world = make(**settings)
    with pytest.raises(BadInput, match=told):
        world.plan(**wishes)


def test_a_candidate_that_is_bad_leaves_its_place_to_the_next_older(make: MakeWorld) -> None:
    world = make(healthy=4)
    older, damaged, ill, unstartable = world.good
    world.engine.unstartable.add("good-3")
    world.examiner.full_says[ill.snapshot_id] = Tri.NO
    world.rehash_says[damaged.snapshot_id] = ("model.safetensors: has SHA-256 b, recorded is a",)
    path = world.plan()
    result = world.do(path, "validate")
    assert result.done
    journal = world.journal(path)
    assert journal.target is not None and journal.target.snapshot_id == older.snapshot_id
    reasons = {r.snapshot_id: r.reason for r in journal.rejected}
    assert "does not start" in reasons[unstartable.snapshot_id]
    assert "golden set is bad" in reasons[ill.snapshot_id]
    assert "model.safetensors" in reasons[damaged.snapshot_id]
    staging = [i for i in world.engine.instances() if i.labels]
    assert [i.labels["snapshot"] for i in staging] == [older.snapshot_id]


def test_without_any_good_snapshot_nothing_is_touched(make: MakeWorld) -> None:
    world = make()
    for entry in world.good:
        world.examiner.full_says[entry.snapshot_id] = Tri.NO
    path = world.plan()
    result = world.do(path, "validate")
    assert (result.done, result.state, result.next) == (False, "no_target", "abort")
    assert world.do(path, "start").state == "no_target"
    assert world.do(path, "abort").done
    assert world.route.applied == [world.start]
    assert world.engine.instances() == tuple(world.old)
    record = world.incidents.find(result.incident_id)
    assert record is not None and record.state == "failed"


def test_a_validation_that_can_judge_nothing_is_no_pass(make: MakeWorld) -> None:
    world = make(healthy=1)
    world.examiner.full_says[world.good[0].snapshot_id] = Tri.UNKNOWN
    path = world.plan()
    assert world.do(path, "validate").state == "no_target"
    assert [what for what, _ in world.examiner.asked] == ["full", "full"], "it gets a second try"


def test_a_skipped_staging_still_hashes_the_files(make: MakeWorld) -> None:
    world = make(staging="skip", healthy=1)
    path = world.plan()
    assert world.do(path, "validate").done
    assert world.examiner.asked == [] and world.engine.instances() == tuple(world.old)
    assert world.do(path, "start").done
    assert [i.labels["role"] for i in world.engine.instances() if i.labels] == ["fresh"]


@pytest.mark.parametrize("step", ["start", "move 0", "move 2", "retire", "recover"])
def test_an_abort_restores_exactly_the_starting_weights(make: MakeWorld, step: str) -> None:
    world = make(replicas=3, keep_retired_minutes=30)
    path = world.plan()
    forward(world, path, until=step)
    result = rollback.request_abort(world.parts, "changed my mind", "ada")
    assert (result.done, result.state) == (True, "aborted")
    assert world.route.table() == world.start
    assert world.engine.instances() == tuple(world.old)
    record = world.incidents.find(result.incident_id)
    assert record is not None and record.state == "aborted"
    journal = world.journal(path)
    assert journal.abort is not None and journal.abort.by == "ada"
    assert world.do(path, "abort").done, "an abort can be repeated"
    closed = world.do(path, "report")
    assert (closed.done, closed.state) == (False, "aborted")


def test_an_abort_with_nothing_in_progress_does_no_harm(make: MakeWorld) -> None:
    world = make()
    with pytest.raises(BadInput, match="nothing to abort"):
        rollback.request_abort(world.parts, "why not", "ada")
    assert world.route.applied == [world.start]


def test_an_abort_is_heard_in_the_middle_of_a_soak(make: MakeWorld) -> None:
    world = make(soak_s=600)
    path = world.plan()
    forward(world, path, until="move 1")
    began = world.now

    def ask_for_it(point: str) -> None:
        if point == "sleep" and world.now - began > timedelta(seconds=5):
            (path / "abort.json").write_text(
                '{"at": "2026-03-14T09:00:00Z", "by": "ada", "reason": "no"}', encoding="utf-8"
            )

    world.hook = ask_for_it
    result = world.do(path, "move", 1)
    assert (result.done, result.state, result.next) == (False, "abort_requested", "abort")
    assert world.now - began < timedelta(seconds=10)
    assert world.do(path, "abort").done and world.route.table() == world.start


def test_an_abort_is_heard_in_the_middle_of_a_golden_set(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    request = AbortRequest(world.now, "ada", "no")

    def ask_for_it() -> None:
        IncidentFolder(path).request_abort(request)

    world.examiner.during = ask_for_it
    result = world.do(path, "validate")
    assert (result.done, result.state, result.next) == (False, "abort_requested", "abort")
    assert world.examiner.asked == []
    assert world.do(path, "abort").done and world.engine.instances() == tuple(world.old)


def test_an_old_instance_that_died_is_stood_in_for(make: MakeWorld) -> None:
    world = make(replicas=2)
    path = world.plan()
    forward(world, path, until="move 2")
    world.dies(address(world.old[0]))
    result = rollback.request_abort(world.parts, "no", "ada")
    assert "old-0 cannot serve any more" in result.headline
    assert shares(world) == {"old-1": 50, "chat-baadf00d-0-r1": 50}
    alive = {address(i) for i in world.engine.instances()}
    assert alive == {b.address for b in world.route.table().backends}


def test_with_nobody_alive_the_route_stays_and_that_is_said(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="move 1")
    before = world.route.table()
    for instance in world.engine.instances():
        world.engine.stop(instance)
    result = rollback.request_abort(world.parts, "no", "ada")
    assert "a person has to act" in result.headline
    assert world.route.table() == before


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda w: w.examiner.core_says.update({"chat-baadf00d-0-r1": Tri.NO}), "core cases"),
        (lambda w: w.route.outcomes.update({"chat-baadf00d-0-r1": "failed"}), "failed or were cut"),
        (lambda w: w.dies(w.route.table().backend("chat-baadf00d-0-r1").address), "is gone|well|healthy"),
        (lambda w: w.ill.add(w.route.table().backend("chat-baadf00d-0-r1").address), "well|healthy"),
    ],
    ids=["bad answers", "failed requests", "dead", "ill"],
)  # fmt: skip
def test_a_bad_move_leads_back(make: MakeWorld, harm: Callable[[World], None], told: str) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="move 1")
    harm(world)
    result = world.do(path, "move", 1)
    assert (result.done, result.state, result.next) == (False, "bad", "abort")
    assert re.search(told, result.headline)
    with_reason = world.do(path, "move", 2)
    assert with_reason.state == "bad" and with_reason.headline == result.headline
    assert world.do(path, "abort").done
    assert world.route.table() == world.start


def test_a_gateway_that_ignores_the_weights_is_found(
    make: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(soak_s=60)
    path = world.plan()
    forward(world, path, until="move 0")
    monkeypatch.setattr(world.route, "_next", lambda weights: "old-0")
    result = world.do(path, "move", 0)
    assert result.state == "bad" and "by weight 25% should" in result.headline


def test_a_core_check_that_can_judge_nothing_is_tried_again(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="check")
    world.examiner.core_says["chat-baadf00d-0-r1"] = Tri.UNKNOWN
    with pytest.raises(NoData):
        world.do(path, "check")
    world.examiner.core_says.clear()
    assert world.do(path, "check").done


def test_a_route_that_somebody_else_changed_is_left_alone(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="move 1")
    theirs = RouteTable("chat", (Backend("theirs", "127.0.0.1:1", 100),))
    world.route.apply(theirs)
    with pytest.raises(OutsideFailure, match="changed by somebody else"):
        world.do(path, "move", 1)
    assert world.route.table() == theirs


@pytest.mark.parametrize("step", ["start", "move 0", "move 3", "retire"])
def test_a_lost_route_is_a_clear_error_and_the_step_goes_on_later(
    make: MakeWorld, step: str
) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until=step)
    name, _, index = step.partition(" ")
    world.route.is_down = True
    with pytest.raises(OutsideFailure, match="does not answer"):
        world.do(path, name, int(index) if index else None)
    world.route.is_down = False
    assert world.do(path, name, int(index) if index else None).done


def test_steps_come_in_order(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    with pytest.raises(BadInput, match="'move 0' cannot be done before 'validate'"):
        world.do(path, "move", 0)
    with pytest.raises(BadInput, match="no step 'move 9'"):
        world.do(path, "move", 9)


def test_old_requests_are_waited_for_and_only_so_long(make: MakeWorld) -> None:
    world = make(drain_timeout_s=30)
    path = world.plan()
    forward(world, path, until="retire")
    world.route.busy["old-0"] = 2
    began = world.now
    assert world.do(path, "retire").done
    assert timedelta(seconds=29) < world.now - began < timedelta(seconds=35)
    assert any("still has 2 requests" in event.what for event in world.journal(path).events)


def test_a_kept_instance_is_ended_when_its_time_is_over(make: MakeWorld) -> None:
    world = make(keep_retired_minutes=30)
    path = world.plan()
    assert forward(world, path).done
    assert world.old[0] in world.engine.instances()
    assert world.route.table().weights()["old-0"] == 0
    assert rollback.reconcile(world.parts) == ()
    world.now += timedelta(minutes=31)
    (done,) = rollback.reconcile(world.parts)
    assert "old-0 ended" in done.headline
    assert world.old[0] not in world.engine.instances()
    assert "old-0" not in world.route.table().weights()
    assert rollback.reconcile(world.parts) == ()


def test_a_kept_instance_that_serves_again_is_left_alone(make: MakeWorld) -> None:
    world = make(keep_retired_minutes=30)
    forward(world, world.plan())
    world.route.apply(world.start)
    world.now += timedelta(minutes=31)
    assert rollback.reconcile(world.parts) == ()
    assert world.old[0] in world.engine.instances()


def test_an_incident_without_a_driver_goes_back(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="move 2")
    assert rollback.reconcile(world.parts) == (), "a driver may be between two steps"
    world.now += timedelta(hours=2)
    (result,) = rollback.reconcile(world.parts)
    assert result.state == "aborted" and world.route.table() == world.start
    assert "nobody has worked on it for 120 minutes" in str(world.journal(path).abort)


@pytest.mark.parametrize("until", ["retire", "recover", "report"])
def test_an_incident_whose_target_serves_is_finished_not_taken_back(
    make: MakeWorld, until: str
) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until=until)
    world.now += timedelta(hours=2)
    results = rollback.reconcile(world.parts)
    assert [r.step for r in results] == ["retire", "recover", "report"][-len(results) :]
    assert results[0].step == until and all(r.done for r in results)
    assert world.journal(path).state == "done"
    assert not {"old-0"} & world.route.table().weights().keys()


def test_a_check_that_fails_at_the_end_stops_the_finish(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="recover")
    world.now += timedelta(hours=2)
    world.examiner.core_says[ROUTE] = Tri.NO
    (result,) = rollback.reconcile(world.parts)
    assert (result.step, result.done, result.state) == ("recover", False, "bad")


@pytest.mark.parametrize(("minutes", "steps"), [(14, 0), (15, 3)])
def test_once_all_traffic_has_moved_nobody_is_waited_for(
    make: MakeWorld, minutes: int, steps: int
) -> None:
    world = make(approval_timeout_minutes=600)
    path = world.plan()
    forward(world, path, until="retire")
    world.now += timedelta(minutes=minutes)
    assert len(rollback.reconcile(world.parts)) == steps
    assert world.journal(path).is_closed is bool(steps)


def test_what_cannot_be_ended_is_told_and_ended_the_next_time(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="recover")
    world.now += timedelta(hours=2)
    world.is_mlflow_away = True
    (result,) = rollback.reconcile(world.parts)
    assert (result.step, result.done, result.state) == ("report", False, "outside")
    assert "MLflow does not answer" in result.headline
    world.is_mlflow_away = False
    world.now += timedelta(hours=2)
    (result,) = rollback.reconcile(world.parts)
    assert (result.step, result.done, world.journal(path).state) == ("report", True, "done")


def test_a_post_mortem_that_cannot_be_published_is_told_and_holds_nothing_open(
    make: MakeWorld,
) -> None:
    world = make()
    world.is_file_store_away = True
    path = world.plan()
    result = rollback.follow(world.parts, path)
    assert (result.step, result.done, result.state) == ("report", True, "done")
    assert f"lies only at {path}/post-mortem.html: not published: S3" in result.headline
    assert world.journal(path).is_closed


def test_what_somebody_works_on_is_left_to_them(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="retire")
    world.now += timedelta(hours=2)
    before = world.journal(path)
    with Incidents(world.parts.work_dir, "chat").locked():
        (result,) = rollback.reconcile(world.parts)
    assert (result.step, result.done, result.state) == ("retire", False, "busy")
    assert world.journal(path) == before


def test_rolling_replaces_one_after_the_other(make: MakeWorld) -> None:
    world = make(replicas=3, strategy="rolling")
    path = world.plan()
    counts = []
    world.hook = lambda point: counts.append(len(world.engine.instances()))
    assert world.do(path, "validate").done
    assert forward(world, path).done
    tables = [{n: w for n, w in t.weights().items() if w} for t in world.route.applied]
    assert all(len(weights) >= 2 for weights in tables)
    assert set(tables[-1]) == {f"chat-baadf00d-0-r{n}" for n in (1, 2, 3)}
    assert world.collected == [instance.id for instance in world.old]
    assert {i.labels["role"] for i in world.engine.instances()} == {"fresh"}
    start = next(n for n, c in enumerate(counts) if c == 2)
    assert max(counts[start:]) <= 3, "no spare hardware is used once the staging has ended"


def test_rolling_back_from_the_middle_of_rolling(make: MakeWorld) -> None:
    world = make(replicas=3, strategy="rolling")
    path = world.plan()
    forward(world, path, until="move 1")
    rollback.request_abort(world.parts, "no", "ada")
    # The first replica is replaced for good: its successor is what is left of its capacity.
    assert shares(world) == {"old-1": 33, "old-2": 33, "chat-baadf00d-0-r1": 34}


def test_in_place_announces_its_outage_and_comes_back(make: MakeWorld) -> None:
    world = make(strategy="in-place")
    path = world.plan()
    assert "outage" in world.journal(path).plan.headline
    assert forward(world, path).done
    (left,) = world.engine.instances()
    assert left.labels["role"] == "fresh" and shares(world) == {"chat-baadf00d-0-r1": 100}
    assert any(event.what.startswith("OUTAGE") for event in world.journal(path).events)
    assert world.collected == [world.old[0].id]


def test_in_place_starts_the_old_one_again_when_the_target_does_not_start(make: MakeWorld) -> None:
    world = make(strategy="in-place", healthy=1, staging="skip")
    world.engine.unstartable.add("good-0")
    path = world.plan()
    assert world.do(path, "validate").done
    result = world.do(path, "start")
    assert (result.state, result.next) == ("bad", "abort")
    assert world.engine.instances() == ()
    assert world.do(path, "abort").done
    (again,) = world.engine.instances()
    assert (again.model_path, address(again)) == (world.old[0].model_path, address(world.old[0]))
    assert again.args == ("--enforce-eager",)
    assert world.route.table() == world.start


def test_a_silent_mlflow_delays_the_report_and_nothing_else(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="report")
    world.is_mlflow_away = True
    with pytest.raises(OutsideFailure, match="MLflow"):
        world.do(path, "report")
    assert world.journal(path).state == "rolling"
    world.is_mlflow_away = False
    assert world.do(path, "report").done


def test_an_abort_does_not_wait_for_mlflow(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    forward(world, path, until="move 1")
    world.is_mlflow_away = True
    assert rollback.request_abort(world.parts, "no", "ada").state == "aborted"
    assert world.route.table() == world.start


def test_the_bad_snapshot_is_marked(make: MakeWorld) -> None:
    world = make()
    bad = world.good[1]
    world.examiner.full_says.clear()
    parts = world.parts
    journal, folder = plan_rollback(
        dataclasses.replace(parts, deployment_key=lambda: bad.deployment_key),
        Wishes(),
    )
    assert folder is not None
    assert [c.snapshot_id for c in journal.plan.candidates] == [world.good[0].snapshot_id]
    assert forward(world, folder.path).done
    health = {e.snapshot_id: e.health for e in world.snapshots.list("chat")}
    assert health[bad.snapshot_id] is Health.DEGRADED


def test_follow_does_everything_and_goes_back_by_itself(make: MakeWorld) -> None:
    world = make()
    path = world.plan()
    assert rollback.follow(world.parts, path).step == "report"
    world.examiner.core_says[ROUTE] = Tri.NO
    # The next incident finds the first one's target bad and goes back to the older snapshot.
    journal, folder = plan_rollback(
        dataclasses.replace(world.parts, deployment_key=lambda: world.good[1].deployment_key),
        Wishes(),
    )
    assert (
        folder is not None and journal.plan.candidates[0].snapshot_id == world.good[0].snapshot_id
    )
    result = rollback.follow(world.parts, folder.path)
    assert (result.step, result.state) == ("abort", "aborted")


def test_a_step_waits_for_one_that_is_short(make: MakeWorld) -> None:
    """In the DAG staging is ended beside the first move; a failed try and its retry cost half a minute."""
    world = make()
    path = world.plan()
    incidents, _ = incident_folder(path)
    is_held = threading.Event()

    def short() -> None:
        with incidents.locked():
            is_held.set()
            time.sleep(0.5)

    beside = threading.Thread(target=short)
    beside.start()
    assert is_held.wait(10)
    assert world.do(path, StepName.VALIDATE.value).done
    beside.join()


def test_another_process_at_work_is_told(make: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "STEP_WAIT_S", 0.1)
    world = make()
    path = world.plan()
    incidents, _ = incident_folder(path)
    with incidents.locked(), pytest.raises(OutsideFailure, match="another process"):
        world.do(path, StepName.VALIDATE.value)
