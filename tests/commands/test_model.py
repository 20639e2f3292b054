from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quality_lib.commands.model import app
from quality_lib.errors import BadInput


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, catch_exceptions=False, standalone_mode=False)
    assert result.exit_code == 0
    return result.stdout


def test_prepare_of_a_folder_prints_its_hashes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("w")
    told = json.loads(run("prepare", str(tmp_path), "--json"))
    assert told["path"] == str(tmp_path)
    assert set(told["files"]) == {"config.json", "model.safetensors"}
    for_people = run("prepare", str(tmp_path))
    assert told["root_sha256"] in for_people
    assert for_people.splitlines()[-1] == str(tmp_path)


def test_prepare_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no model folder"):
        run("prepare", str(tmp_path))
