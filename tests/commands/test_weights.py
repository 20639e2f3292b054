from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.adapters.vllm.live_weights import take_fingerprint
from quality_lib.commands.weights import app
from quality_lib.errors import BadInput


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _model(tmp_path / "a", torch.ones(4))


def _model(folder: Path, weights: torch.Tensor) -> Path:
    folder.mkdir()
    save_file({"w": weights}, folder / "model.safetensors")
    return folder


def test_hash_prints_one_object(model: Path) -> None:
    done = CliRunner().invoke(app, ["hash", str(model), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["root_sha256"] == hash_folder(model).root_sha256


def test_hash_for_people_ends_with_the_root(model: Path) -> None:
    done = CliRunner().invoke(app, ["hash", str(model)])
    assert hash_folder(model).root_sha256 in done.stdout.splitlines()[-1]


def test_hash_of_no_model_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["hash", str(tmp_path)])
    assert isinstance(done.exception, BadInput)


def test_equal_folders_exit_with_0(model: Path, tmp_path: Path) -> None:
    other = _model(tmp_path / "b", torch.ones(4))
    done = CliRunner().invoke(app, ["diff", str(model), str(other), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["same"] is True


@pytest.mark.parametrize(("value", "relative"), [(3.0, 1.0), (float("inf"), "inf")])
def test_different_folders_exit_with_1(
    model: Path, tmp_path: Path, value: float, relative: float | str
) -> None:
    other = _model(tmp_path / "b", torch.tensor([1.0, 1.0, 1.0, value]))
    done = CliRunner().invoke(app, ["diff", str(model), str(other), "--json"])
    assert done.exit_code == 1
    (tensor,) = json.loads(done.stdout, parse_constant=pytest.fail)["different"]
    assert (tensor["name"], tensor["relative_l2"]) == ("w", relative)


def test_the_table_shows_the_top_and_counts_the_rest(tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        tensors = {f"w{i}": torch.ones(2) * factor * (i + 1) for i in range(3)}
        save_file(tensors, tmp_path / name / "model.safetensors")
    done = CliRunner().invoke(app, ["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--top", "2"])
    assert done.exit_code == 1
    assert "0 tensors equal, 3 different" in done.stdout
    assert "and 1 more" in done.stdout


def live_server(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> None:
    """Have every address answer with a fingerprint."""
    told = {
        "fingerprint": "v1-l-r",
        "loaded_fingerprint": "v1-l-r",
        "changed_tensors": 0,
        "changed": [],
        "restless": [],
        "tensors": 2,
        "bytes": 64,
        "unseen": [{"rank": "r0", "name": "odd.handler", "reason": "cannot be asked"}],
        "seconds": 0.1,
        "longest_call_s": 0.01,
        "wall_s": 0.2,
        **answer,
    }
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=told))
    monkeypatch.setattr(
        "quality_lib.commands.weights.take_fingerprint",
        lambda url, key, timeout_s: take_fingerprint(url, key, transport=transport),
    )


CHANGED = {
    "rank": "r0",
    "name": "norm.weight",
    "kind": "parameter",
    "loaded": "parameter bfloat16 4 00",
    "now": "parameter bfloat16 4 01",
}


@pytest.mark.parametrize(
    ("answer", "args", "code"),
    [
        ({}, [], 0),
        ({"changed_tensors": 1, "changed": [CHANGED]}, [], 1),
        ({}, ["--expect", "v1-l-r"], 0),
        ({}, ["--expect", "v1-l-other"], 1),
        ({}, ["--expect", "v1-elsewhere-r"], 4),
    ],
)
def test_live(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], args: list[str], code: int
) -> None:
    live_server(monkeypatch, **answer)
    done = CliRunner().invoke(app, ["live", "http://x", *args, "--json"])
    assert done.exit_code == code
    told = json.loads(done.stdout)
    assert told["is_changed"] == bool(answer)
    shown = CliRunner().invoke(app, ["live", "http://x", *args])
    assert shown.exit_code == code
    assert "odd.handler" in shown.stdout
    assert ("norm.weight" in shown.stdout) == bool(answer)
