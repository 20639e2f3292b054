"""A post-mortem from a journal: with real stores, and with everything else silent."""

from __future__ import annotations

import json
import tarfile
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from quality_lib import wiring
from quality_lib.adapters.files.result import write_result
from quality_lib.adapters.mlflow.results import MlflowResults
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.jobs.bad_deployment import compare, live_facts
from quality_lib.jobs.post_mortem import golden_run_of, phases_of, write_post_mortem
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal, Relaunch, Retired, Target
from quality_lib.rollout.plan import Candidate, Choices, Costs, make_plan
from quality_lib.rollout.ports import Backend, RouteTable
from quality_lib.settings import Settings, load
from tests.contracts.incident_store import incident
from tests.rollout.post_mortem_builders import AT, bad_check, decision, events, good_check
from tests.rollout.post_mortem_builders import phases as measured_phases
from tests.snapshots.builders import manifest, serving


def settings_in(folder: Path, mlflow: str) -> Settings:
    config = {
        "services": {
            "chat": {"endpoint": "http://127.0.0.1:9", "model": "m", "weights": str(folder / "bad")}
        },
        "stores": {"mlflow": mlflow, "work_dir": str(folder / "runs")},
    }
    file = folder / "quality.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return load(file)


def archive_in(folder: Path, **parts: Any) -> Path:
    archive = folder / "evidence-abc.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, value in parts.items():
            file = folder / f"{name}.json"
            file.write_text(json.dumps(value), encoding="utf-8")
            tar.add(file, file.name)
    return archive


def journal_of(folder: Path, **more: Any) -> Journal:
    target_id = "5afe" * 16
    plan = make_plan(
        "chat-0badc0de-0",
        RouteTable("chat", (Backend("old", "127.0.0.1:8000", 100),)),
        (Candidate(target_id, 3, AT.isoformat()),),
        Choices(),
        Costs(),
    )
    facts = {
        f"move {move.index}": {
            "name": move.name,
            "weights": dict(phase.weights),
            "since": phase.since,
            "until": phase.until,
            "served": {name: asdict(one) for name, one in phase.served.items()},
        }
        for move, phase in zip(plan.moves, measured_phases(), strict=True)
    }
    given: dict[str, Any] = {
        "incident_id": "chat-0badc0de-0",
        "service": "chat",
        "plan": plan,
        "mode": "auto",
        "reason": "A and B hold",
        "by": "decide",
        "opened_at": AT,
        "closed_at": AT + timedelta(minutes=9),
        "state": "done",
        "target": Target(target_id, 3, str(folder / "good"), (), "5afe5afe5afe5afe"),
        "facts": facts,
        "events": events(),
    }
    return Journal(**given | more)


def test_with_every_store_silent_the_page_is_written_all_the_same(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "http://127.0.0.1:9")
    found = write_post_mortem(settings, journal_of(tmp_path), tmp_path, AT)
    assert "not published: MLflow at http://127.0.0.1:9 does not answer" in found["problem"]
    assert found["url"] == ""
    page = (tmp_path / "post-mortem.html").read_text(encoding="utf-8")
    assert "chat is back on snapshot 5afe5afe5afe" in page
    assert "The decision: MLflow at" in page
    assert found["decided_to_full_s"] == 390
    record = json.loads((tmp_path / "post-mortem.json").read_text(encoding="utf-8"))
    assert record["totals"]["requests"] == 400


@pytest.mark.stack
def test_with_real_stores_it_names_the_cause_and_is_kept_beside_the_incident(
    tmp_path: Path, mlflow_uri: str
) -> None:
    import torch
    from safetensors.torch import save_file

    settings = settings_in(tmp_path, mlflow_uri)
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        tensors = {f"layer.{n}.weight": torch.ones(4, 4) for n in range(40)}
        if name == "bad":
            tensors["layer.7.weight"][0, 0] = float("nan")
        save_file(tensors, tmp_path / name / "model.safetensors")
    snapshots = wiring.snapshot_store(settings)
    target = snapshots.create(
        "chat",
        manifest(weights=hash_folder(tmp_path / "good"), serving=serving(dtype="bfloat16")),
        {},
    )
    bad = replace(bad_check(), run_id="g-2")
    write_result(tmp_path, bad)
    MlflowResults(mlflow_uri).publish(bad, {"result.json": tmp_path / "result.json"})
    validation = tmp_path / "validation"
    validation.mkdir()
    write_result(validation, good_check())
    wiring.incident_store(settings).open(incident("chat"), decision())
    archive = archive_in(
        tmp_path,
        server={"args": ["--max-model-len", "2048", "--enforce-eager"], "dtype": "float16"},
        live_weights={"changed_tensors": 0, "tensors": 40, "changed": [], "unseen": []},
    )
    plain = journal_of(tmp_path)
    assert plain.target is not None
    journal = replace(
        plain,
        target=replace(plain.target, snapshot_id=target.snapshot_id),
        retired=(
            Retired(
                "old", "127.0.0.1:8000", "abc",
                relaunch=Relaunch(str(tmp_path / "bad"), "m", ()),
                evidence={"archive": str(archive), "bytes": 9, "parts": ["server.json"]},
            ),
        ),
        facts={
            **plain.facts,
            f"validation {target.snapshot_id[:12]}": {"run_dir": str(validation)},
        },
    )  # fmt: skip
    for _ in range(2):
        found = write_post_mortem(settings, journal, tmp_path, AT)
    assert "problem" not in found
    assert found["url"].endswith("/artifacts/post-mortem.html")
    assert found["cause"].endswith("a damaged copy.")
    page = (tmp_path / "post-mortem.html").read_text(encoding="utf-8")
    for words in (
        "layer.7.weight",
        "1 became NaN or infinite",
        "All 40 tensors are as loaded",
        "dtype: float16, the target has bfloat16",
        "Served before the rollback",
        "golden run g-2",
    ):
        assert words in page, words
    assert "What this report cannot tell" not in page
    kept = wiring.incident_store(settings).find("chat-0badc0de-0")
    assert kept is not None
    assert kept.url == found["url"]


@pytest.mark.parametrize(
    ("told", "state", "words"),
    [
        ({"changed_tensors": 0, "tensors": 3}, Tri.NO, "All 3 tensors are as loaded"),
        ({"changed_tensors": 0, "tensors": 3, "unseen": [{}]}, Tri.NO, "1 could not be read"),
        ({"changed_tensors": 1, "tensors": 3, "changed": [{"name": "w"}]}, Tri.YES, "1 of 3"),
    ],
)
def test_what_the_server_said_of_its_weights(told: Any, state: Tri, words: str) -> None:
    found = live_facts(told)
    assert found is not None
    assert found.state is state
    assert words in found.sentence


@pytest.mark.parametrize("told", [None, [], {}, {"changed_tensors": "many"}, "text"])
def test_an_answer_that_is_none_says_nothing(told: Any) -> None:
    assert live_facts(told) is None


def test_arguments_are_compared_as_vllm_reads_them() -> None:
    told = {
        "args": ["--enforce_eager", "--max-model-len=2048", "--port", "1"],
        "vllm_version": "0.33",
    }
    found = {one.name: one for one in compare(told, manifest())}
    assert found["arguments"].is_same
    assert (found["vllm_version"].bad, found["vllm_version"].kind) == ("0.33", "version")
    assert found["dtype"].bad == ""
    assert not found["dtype"].is_same


@pytest.mark.parametrize(
    ("decided", "run_id"),
    [
        (decision(), "g-2"),
        ({}, None),
        ({"conditions": [{"name": "A", "inputs": []}]}, None),
        ({"conditions": "nonsense"}, None),
    ],
)
def test_which_golden_run_counted(decided: Any, run_id: str | None) -> None:
    assert golden_run_of(decided) == run_id


def test_moves_that_were_not_measured_are_left_out(tmp_path: Path) -> None:
    journal = journal_of(tmp_path)
    facts = {name: fact for name, fact in journal.facts.items() if name != "move 1"}
    assert len(phases_of(replace(journal, facts=facts))) == len(phases_of(journal)) - 1 == 3
