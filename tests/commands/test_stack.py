"""``quality stack`` where nothing heavy has to start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.stack.parts import ALL
from quality_lib.commands.stack import app
from quality_lib.errors import BadInput
from tests.adapters.small_commands import small_server

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("QUALITY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)
    yield tmp_path / "home"
    run("down", "--discard")


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, catch_exceptions=False, standalone_mode=False)
    assert result.exit_code == 0
    return result.stdout


def test_status_of_what_never_ran(home: Path) -> None:
    status = json.loads(run("status", "--json"))
    assert {part["name"]: part["state"] for part in status["parts"]} == dict.fromkeys(
        ALL, "stopped"
    )
    assert (status["instances"], status["config"]) == ([], None)
    assert "`make up` starts it." in run("status")
    assert not home.exists()


def test_down_ends_vllm_instances_too(home: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    engine = LocalEngine(home / "engine", command=small_server())
    instance = engine.start(EngineSpec(tmp_path, "chat", detached=True))
    engine.wait_healthy(instance, 30)
    assert instance.endpoint in run("status")
    assert json.loads(run("down", "--json")) == {"killed": [], "left": []}
    assert not engine.is_running(instance)


def test_it_must_be_run_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(tmp_path)
        with pytest.raises(BadInput, match="change to the repository's folder"):
            run("up")
