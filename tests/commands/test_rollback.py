"""``quality rollback`` as its user and Airflow meet it: plan, JSON, exit codes, questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quality_lib import cli
from quality_lib.commands import rollback as commands
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.records import Tri
from tests.rollback_world import World

Run = Callable[..., Result]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("quality_lib.adapters.files.run_folder.os.fsync", lambda number: None)
    made = World(tmp_path, soak_s=1, step_percent=50)

    def parts(*given: Any) -> Parts:
        return made.parts

    monkeypatch.setattr(commands, "make_parts", parts)
    (tmp_path / "quality.yaml").write_text(
        "services:\n"
        "  chat: {endpoint: 'http://127.0.0.1:8000', model: chat, weights: bad, "
        "route: {kind: nginx, listen: '127.0.0.1:8000'}}\n"
    )
    return made


@pytest.fixture
def run(world: World) -> Run:
    config = str(world.folder / "quality.yaml")

    def invoke(*args: str, **more: Any) -> Result:
        return CliRunner().invoke(cli.app, ["rollback", *args, "--config", config], **more)

    return invoke


def said(done: Result, code: int = 0) -> dict[str, Any]:
    assert done.exit_code == code, (done.output, done.exception)
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def test_every_step_by_its_command(world: World, run: Run) -> None:
    plan = said(run("plan", "--service", "chat", "--reason", "bad answers", "--json"))
    assert plan["incident_id"] == "chat-baadf00d-0" and not plan["dry_run"]
    assert plan["target"] == world.good[1].snapshot_id
    assert plan["moves"] == [{"index": 0, "name": "50 %"}, {"index": 1, "name": "100 %"}]
    assert plan["plan"]["steps"][0]["name"] == "validate"
    folder = plan["incident_dir"]
    revision = 0
    for name, *index in [
        ("validate",), ("start",), ("check",), ("move", "--index", "0"), ("move", "--index", "1"),
        ("retire",), ("recover",), ("report",), ("stop-staging",),
    ]:  # fmt: skip
        result = said(run("step", name, *index, "--incident-dir", folder, "--json"))
        assert (result["done"], result["state"], result["step"]) == (True, "done", name)
        assert result["journal_revision"] >= revision
        revision = result["journal_revision"]
    assert said(run("status", "--service", "chat", "--json"))["state"] == "done"


def test_bad_quality_is_exit_code_1_and_leads_to_the_abort(world: World, run: Run) -> None:
    for entry in world.good:
        world.examiner.full_says[entry.snapshot_id] = Tri.NO
    folder = said(run("plan", "--service", "chat", "--json"))["incident_dir"]
    result = said(run("step", "validate", "--incident-dir", folder, "--json"), code=1)
    assert (result["done"], result["state"], result["next"]) == (False, "no_target", "abort")
    assert said(run("step", "abort", "--incident-dir", folder, "--json"))["state"] == "failed"
    assert said(run("step", "start", "--incident-dir", folder, "--json"), code=1)["done"] is False


def test_a_dry_run_reads_like_a_plan(world: World, run: Run) -> None:
    done = run("plan", "--service", "chat", "--dry-run")
    assert done.exit_code == 0
    for part in ("roll 'chat' back to snapshot", "capacity:", "1. validate", "50 %: old-0 50 %",
                 "an abort goes back to: old-0", "not known yet"):  # fmt: skip
        assert part in done.stdout, part
    assert said(run("status", "--service", "chat", "--json"))["incident_id"] is None


@pytest.mark.parametrize("target", ["1", "#1", "serving"])
def test_the_target_is_named_by_its_number_or_alias(world: World, run: Run, target: str) -> None:
    plan = said(run("plan", "--service", "chat", "--target", target, "--dry-run", "--json"))
    assert plan["target"] == world.good[0].snapshot_id
    assert [c["number"] for c in plan["plan"]["candidates"]] == [1]


@pytest.mark.parametrize(("answer", "moved"), [("n\n", False), ("y\n", True)])
def test_it_asks_before_it_starts(world: World, run: Run, answer: str, moved: bool) -> None:
    done = run("run", "--service", "chat", "--json", input=answer)
    assert done.exit_code == 0, done.output
    assert (world.route.table() != world.start) is moved
    assert bool(world.incidents.history("chat")) is moved


def test_approve_last_asks_before_all_traffic_moves(world: World, run: Run) -> None:
    done = run("run", "--service", "chat", "--mode", "approve-last", input="y\nn\n")
    assert done.exit_code == 1
    assert world.route.table().weights()["old-0"] == 50
    again = run("run", "--service", "chat", input="y\ny\n")
    assert again.exit_code == 0, again.output
    assert "old-0" not in world.route.table().weights()


def test_abort_and_reconcile(world: World, run: Run) -> None:
    folder = said(run("plan", "--service", "chat", "--json"))["incident_dir"]
    said(run("step", "validate", "--incident-dir", folder, "--json"))
    done = said(run("reconcile", "--older-than-minutes", "0", "--json"))
    (one,) = done["reconciled"]
    assert one["state"] == "aborted" and world.engine.instances() == tuple(world.old)
    second = said(run("plan", "--service", "chat", "--json"))
    assert second["incident_id"] == "chat-baadf00d-1"
    aborted = said(run("abort", "--service", "chat", "--reason", "no", "--by", "ada", "--json"))
    assert (aborted["done"], aborted["state"]) == (True, "aborted")


def test_a_rollback_that_cannot_be_ended_now_is_exit_code_3(world: World, run: Run) -> None:
    folder = said(run("plan", "--service", "chat", "--json"))["incident_dir"]
    for name, *index in [("validate",), ("start",), ("check",), ("move", "--index", "0"),
                         ("move", "--index", "1")]:  # fmt: skip
        said(run("step", name, *index, "--incident-dir", folder, "--json"))
    assert said(run("reconcile", "--json"))["reconciled"] == [], "its driver may be alive"
    world.is_mlflow_away = True
    stuck = run("reconcile", "--older-than-minutes", "0", "--json")
    assert isinstance(stuck.exception, OutsideFailure) and stuck.exception.exit_code == 3
    assert "chat-baadf00d-0: MLflow does not answer" in str(stuck.exception)
    (one,) = json.loads(stuck.stdout)["reconciled"]
    assert (one["step"], one["state"], one["next"]) == ("report", "outside", "report")
    world.is_mlflow_away = False
    (one,) = said(run("reconcile", "--older-than-minutes", "0", "--json"))["reconciled"]
    assert (one["step"], one["state"], one["url"]) == (
        "report", "done", "http://mlflow/post-mortem",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("step", "move", "--incident-dir", "x"), "only a move has one"),
        (("step", "start", "--index", "1", "--incident-dir", "x"), "only a move has one"),
        (("step", "start", "--incident-dir", "/nowhere"), "holds no rollback"),
        (("plan", "--service", "chat", "--strategy", "sideways"), "surge, rolling, in-place"),
        (("plan", "--service", "chat", "--step-percent", "33"), "25, 50, 100"),
        (("plan", "--service", "chat", "--mode", "maybe"), "approve-first"),
        (("plan", "--service", "chat", "--target", "9"), "there is no snapshot '9' of 'chat'"),
        (("abort", "--service", "chat", "--reason", "no"), "nothing to abort"),
    ],
)
def test_wrong_use_is_told(run: Run, args: tuple[str, ...], told: str) -> None:
    done = run(*args)
    assert isinstance(done.exception, BadInput) and told in str(done.exception)


def test_a_silent_route_is_exit_code_3(world: World, run: Run) -> None:
    world.route.is_down = True
    done = run("plan", "--service", "chat")
    assert isinstance(done.exception, OutsideFailure) and done.exception.exit_code == 3
