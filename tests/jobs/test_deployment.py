"""The root hash is right, and files that did not change are not read again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quality_lib import wiring
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.jobs.deployment import observe_deployment, weights_root
from quality_lib.settings import ServiceSettings
from quality_lib.snapshots.manifest import EnvironmentRecord, ImageRecord, deployment_key
from quality_lib.snapshots.startup_check import ServerFacts


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUALITY_HOME", str(tmp_path / "home"))


def model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(os.urandom(1000))
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return folder


def test_it_is_the_root_hash_of_the_folder(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    assert weights_root(folder) == hash_folder(folder).root_sha256 == weights_root(folder)


def test_an_unchanged_folder_is_not_read_again(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    weights_root(folder)
    cache = tmp_path / "home" / "weights-roots.json"
    kept = json.loads(cache.read_text(encoding="utf-8"))
    kept[str(folder)]["root"] = "remembered"
    cache.write_text(json.dumps(kept), encoding="utf-8")
    assert weights_root(folder) == "remembered"


@pytest.mark.parametrize("how", ["content", "name", "extra"])
def test_any_change_is_seen(tmp_path: Path, how: str) -> None:
    folder = model(tmp_path / "m")
    before = weights_root(folder)
    file = folder / "model.safetensors"
    if how == "content":
        data = bytearray(file.read_bytes())
        data[500] ^= 1
        file.write_bytes(data)
    elif how == "name":
        file.rename(folder / "other.safetensors")
    else:
        (folder / "extra.json").write_text("{}", encoding="utf-8")
    assert weights_root(folder) != before


@pytest.mark.parametrize(
    ("told", "hashed"),
    [
        ("{tmp}/target", "target"),  # after a rollback
        (None, "configured"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "configured"),  # a name of a hub
        ("target", "configured"),  # relative to somebody else's folder
        ("/models/in-a-container", "configured"),
        ("{tmp}/configured/config.json", "configured"),
    ],
)
def test_what_the_server_serves_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, hashed: str
) -> None:
    configured, target = model(tmp_path / "configured"), model(tmp_path / "target")
    facts = ServerFacts(weights_path=told and told.format(tmp=tmp_path))
    monkeypatch.setattr(wiring, "server_facts", lambda service: facts)
    monkeypatch.setattr(wiring, "server_environment", lambda service: EnvironmentRecord())
    service = ServiceSettings(endpoint="http://127.0.0.1:1", model="chat", weights=configured)
    folder = {"configured": configured, "target": target}[hashed]
    wanted = deployment_key(hash_folder(folder).root_sha256, None, ImageRecord())
    assert observe_deployment(service).key == wanted
