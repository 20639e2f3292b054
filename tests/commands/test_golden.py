"""``quality golden`` as its user meets it: real vLLM, real MLflow, kills, typos and dead servers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.files.cases import load_cases, write_cases
from quality_lib.adapters.files.result import read_result
from quality_lib.adapters.files.run_folder import JOURNAL, RUN, read_run
from tests.in_process import QualityHere

pytestmark = [pytest.mark.vllm, pytest.mark.stack]
DEAD = "http://127.0.0.1:9"


def quality(
    *args: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quality_lib", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **(env or {})},
        check=False,
    )


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def object_of(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def small_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases") / "small.jsonl"
    write_cases(path, [case for case in load_cases("builtin:core") if "core" in case.tags])
    return path


def write_config(folder: Path, server: Instance, mlflow: str, cases: Path, **service: Any) -> Path:
    path = folder / "quality.yaml"
    entry = {
        "endpoint": server.endpoint,
        "model": server.served_name,
        "weights": str(server.model_path),
        "golden": {"cases": str(cases), "repeats": 2, "concurrency": 4},
        **service,
    }
    data = {
        "services": {"chat": entry},
        "stores": {"mlflow": mlflow, "work_dir": str(folder / "runs")},
    }
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def registered(
    tmp_path_factory: pytest.TempPathFactory,
    vllm_server: Instance,
    mlflow_uri: str,
    small_set: Path,
) -> Path:
    """A configuration whose service has a healthy snapshot."""
    folder = tmp_path_factory.mktemp("registered")
    config = write_config(folder, vllm_server, mlflow_uri, small_set)
    made = object_of(
        quality("golden", "baseline", "--service", "chat", "--config", config,
                "--out", folder / "baseline", "--json")
    )  # fmt: skip
    assert len(made["runs"]) == 2
    snapshot = object_of(
        quality("snapshot", "create", "--service", "chat", "--config", config,
                "--baseline", folder / "baseline", "--alias", "serving", "--by", "test", "--json")
    )  # fmt: skip
    assert snapshot["snapshot_id"]
    return config


class Checked(NamedTuple):
    """One finished check of the registered service, which several tests look at."""

    out: Path
    result: dict[str, Any]


def check(config: Path, out: Path) -> dict[str, Any]:
    return object_of(
        quality("golden", "check", "--service", "chat", "--config", config, "--out", out, "--json")
    )


@pytest.fixture(scope="module")
def checked(registered: Path, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    out = tmp_path_factory.mktemp("checked") / "check"
    return Checked(out, check(registered, out))


def test_a_healthy_service_is_healthy_unchanged_and_published_once(
    registered: Path, checked: Checked
) -> None:
    out, result = checked
    assert (result["summary"], result["changed"], result["degraded"]) == ("healthy", "no", "no")
    assert Path(result["report"]).read_text(encoding="utf-8").startswith("<!")
    assert check(registered, out) == result, "again in the same folder gives the same result"
    publish = ("golden", "publish", out, "--config", registered, "--json")
    published = object_of(quality(*publish))
    assert object_of(quality(*publish)) == published


def test_stored_answers_score_exactly_as_in_the_baseline(checked: Checked) -> None:
    findings = read_result(checked.out).comparison.findings
    scored = {f.channel: f.value for f in findings if f.statistic == "logprob_delta"}
    assert scored == {"chat_scored": 0.0, "raw_scored": 0.0}


def test_files_and_server_verify_as_registered(registered: Path, tmp_path: Path) -> None:
    done = quality(
        "snapshot", "verify", "serving", "--service", "chat", "--config", registered, "--json"
    )
    assert done.returncode in {0, 4}, done.stderr
    assert '"FAILED"' not in done.stdout


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_leaves_nothing_running_and_resumes(
    registered: Path, tmp_path: Path, kill: signal.Signals
) -> None:
    out = tmp_path / "run"
    command = [
        sys.executable, "-m", "quality_lib", "golden", "run", "--service", "chat",
        "--config", str(registered), "--out", str(out), "--json",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 120
        journal = out / JOURNAL
        while time.monotonic() < deadline:
            if journal.exists() and journal.read_bytes().count(b"\n") >= 5:
                break
            time.sleep(0.05)
        process.send_signal(kill)
        _, words = process.communicate(timeout=60)
    assert process.returncode == (130 if kill is signal.SIGINT else -kill)
    assert not [p for p in psutil.process_iter() if str(out) in " ".join(cmdline(p))]
    assert b"Traceback" not in words
    kept = journal.read_bytes().count(b"\n")
    assert kept >= 5
    assert not (out / RUN).exists()
    unfinished = quality(
        "golden", "compare", out, tmp_path / "x", "--service", "chat", "--config", registered
    )
    assert unfinished.returncode == 2
    assert "unfinished run" in unfinished.stderr
    resumed = object_of(quality(*command[3:]))
    assert resumed["faults"] == 0
    assert len(read_run(out).answers) == resumed["probes"] >= 40


def test_an_unreachable_endpoint_is_an_outside_failure(
    tmp_path: Path, vllm_server: Instance, small_set: Path
) -> None:
    config = write_config(tmp_path, vllm_server, DEAD, small_set, endpoint=DEAD)
    done = quality(
        "golden", "run", "--service", "chat", "--config", config, "--out", tmp_path / "r"
    )
    assert done.returncode == 3
    assert DEAD in done.stderr
    assert "Traceback" not in done.stderr


def test_a_silent_mlflow_loses_no_result(
    registered: Path, checked: Checked, tmp_path: Path
) -> None:
    out = tmp_path / "check"
    shutil.copytree(checked.out, out)
    (out / "published.json").unlink(missing_ok=True)
    config = yaml.safe_load(registered.read_text(encoding="utf-8"))
    config["stores"]["mlflow"] = DEAD
    broken = tmp_path / "quality.yaml"
    broken.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = quality("golden", "publish", out, "--config", broken)
    assert done.returncode == 3
    assert "MLflow" in done.stderr
    object_of(quality("golden", "publish", out, "--config", registered, "--json"))


def test_a_service_without_a_snapshot_is_inconclusive_not_healthy(
    registered: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load(registered.read_text(encoding="utf-8"))
    config["services"] = {"fresh": config["services"]["chat"]}
    path = tmp_path / "quality.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = quality(
        "golden", "check", "--service", "fresh", "--config", path, "--out", tmp_path / "c"
    )
    assert done.returncode == 4
    assert "register" in done.stderr.lower()


def test_a_changed_golden_set_is_refused(registered: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(registered.read_text(encoding="utf-8"))
    config["services"]["chat"]["golden"]["cases"] = "builtin:core"
    path = tmp_path / "quality.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    done = quality(
        "golden", "check", "--service", "chat", "--config", path, "--out", tmp_path / "c"
    )
    assert done.returncode == 2
    assert "register the service again" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("services: {chat: {endpoint: http://x, model: m}}", "services.chat.weights"),
        ("services: {chat: {endpoint: http://x, model: m, weights: w, colour: red}}", "colour"),
        ("services: [", "quality.yaml:1"),
        ("", "empty"),
    ],
)
def test_a_bad_configuration_is_named_with_file_line_and_field(
    quality_here: QualityHere, tmp_path: Path, change: str, words: str
) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(change, encoding="utf-8")
    done = quality_here("golden", "services", "--config", path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
