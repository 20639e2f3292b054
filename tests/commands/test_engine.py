"""``quality engine`` over instances that another process left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.commands.engine import app
from quality_lib.errors import BadInput
from tests.adapters.small_commands import small_server


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    monkeypatch.setenv("QUALITY_HOME", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    engine = LocalEngine(tmp_path / "engine", command=small_server())
    instance = engine.start(EngineSpec(tmp_path, "chat", detached=True))
    engine.wait_healthy(instance, 30)
    yield instance
    engine.stop(instance, 0.0)


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, catch_exceptions=False, standalone_mode=False)
    assert result.exit_code == 0
    return result.stdout


def test_list(instance: Instance) -> None:
    assert instance.endpoint in run("list")
    listed = json.loads(run("list", "--json"))
    assert [found["id"] for found in listed["instances"]] == [instance.id]
    assert listed["orphans"] == []


@pytest.mark.parametrize("by_name", [True, False])
def test_stop(instance: Instance, by_name: bool) -> None:
    what = instance.id if by_name else "--all"
    (stopped,) = json.loads(run("stop", what, "--json"))["stopped"]
    assert stopped["instance"]["id"] == instance.id
    assert stopped["forced"] == []
    assert json.loads(run("list", "--json"))["instances"] == []


def test_clean_leaves_a_healthy_detached_instance(instance: Instance) -> None:
    assert json.loads(run("clean", "--json")) == {"stopped": []}
    assert instance.id in run("list")


@pytest.mark.parametrize("args", [("stop",), ("stop", "x", "--all"), ("stop", "nobody")])
def test_wrong_use(instance: Instance, args: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="quality engine list"):
        run(*args)


def test_start_of_a_folder_that_is_no_model(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="quality model prepare"):
        run("start", str(tmp_path / "empty"))
