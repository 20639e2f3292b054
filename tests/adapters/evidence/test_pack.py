"""Evidence of a real process: everything is in the archive, planted secrets are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.evidence import pack as evidence_pack
from quality_lib.adapters.evidence.pack import EvidenceOf, collect, read_pack
from quality_lib.adapters.evidence.scene import PackLimits, Part
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.errors import BadInput, OutsideFailure
from tests.snapshots.builders import manifest

SECRETS = {
    "argument": "planted-argument-1",
    "environment": "planted-environment-2",
    "given": "planted-given-key-3",
    "shape": "sk-plantedplanted1234567890",
    "address": "planted-password-4",
    "person": "ada.lovelace@example.com",
}
LIMITS = PackLimits(part_s=60, hash_s=60, log_bytes=4096, exchanges=3)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def process(tmp_path: Path) -> Generator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [
            sys.executable, "-c", "import time; print(flush=True); time.sleep(600)",
            "--api-key", SECRETS["argument"], "--port", "1",
        ],
        env=os.environ | {"VLLM_API_KEY": SECRETS["environment"], "VLLM_LOGGING_LEVEL": "INFO"},
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()  # it has become Python: its arguments can be read
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.fixture
def instance(process: subprocess.Popen[bytes], tmp_path: Path) -> Instance:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights")
    log = tmp_path / "server.log"
    log.write_text(
        f"old line {SECRETS['shape']}\n" * 200
        + f"INFO key {SECRETS['argument']} and {SECRETS['environment']} of {SECRETS['person']}\n"
        + f"INFO http://user:{SECRETS['address']}@host/ {SECRETS['shape']} the end\n"
    )
    return Instance(
        id="abc123",
        endpoint="http://127.0.0.1:1",
        pid=process.pid,
        log_path=log,
        model_path=model,
        served_name="m",
        started_at=datetime.now(UTC).isoformat(),
        args=("--api-key", "***"),
    )


def server(request: httpx.Request) -> httpx.Response:
    if request.headers.get("authorization") != f"Bearer {SECRETS['given']}":
        return httpx.Response(401)
    match request.url.path:
        case "/metrics":
            return httpx.Response(200, text="vllm:num_requests_running 0\ntime 1.7644752e+09\n")
        case "/quality/server":
            told = {"args": ["--x", SECRETS["given"]], "hf_token": "whatever", "dtype": "bf16"}
            return httpx.Response(200, json=told)
    return httpx.Response(404)


def exchanges(folder: Path) -> Path:
    folder.mkdir()
    lines = [
        json.dumps({"id": str(n), "text": f"{SECRETS['shape']} by {SECRETS['person']}"})
        for n in range(5)
    ]
    cut = '{"id": "5", "te'
    (folder / "chat-host.1-20260301T000000Z-000001-n5.jsonl").write_text("\n".join([*lines, cut]))
    return folder


def about(tmp_path: Path, **more: Any) -> EvidenceOf:
    given: dict[str, Any] = {
        "service": "chat",
        "incident_id": "chat-unknown-0",
        "api_key": SECRETS["given"],
        "exchange_folder": exchanges(tmp_path / "exchanges"),
    }
    return EvidenceOf(**given | more)


def content(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        found = {}
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read().decode()
        return found


def test_everything_is_kept_and_no_secret_is(instance: Instance, tmp_path: Path) -> None:
    of = about(tmp_path, manifest=replace(manifest(), weights=hash_folder(instance.model_path)))
    (instance.model_path / "model.safetensors").write_bytes(b"weightz")
    pack = collect(
        instance, tmp_path / "kept", of, limits=LIMITS, transport=httpx.MockTransport(server)
    )
    files = content(pack.archive)
    assert [s for s in SECRETS.values() for text in files.values() if s in text] == []
    problems = {entry.name: entry.problem for entry in pack.entries if entry.problem}
    # What this machine lacks, and what no longer is whole.
    assert problems.keys() <= {"stacks.txt", "live_weights.json", "gpu.txt", "engine.log"}
    assert problems["live_weights.json"] == "the server has no /quality/weights"
    assert problems["engine.log"].startswith("the last 4,096 of")
    assert files["metrics.txt"].startswith("vllm:num_requests_running 0\ntime 1.7644752e+09")
    assert files["engine.log"].rstrip().endswith("the end")
    assert json.loads(files["server.json"])["dtype"] == "bf16"
    assert json.loads(files["environment.json"])["VLLM_LOGGING_LEVEL"] == "INFO"
    (facts,) = json.loads(files["processes.json"])
    assert facts["memory_bytes"]["rss"] > 1_000_000
    assert facts["command_line"][-4:] == ["--api-key", "***", "--port", "1"]
    assert [json.loads(x)["id"] for x in files["exchanges.jsonl"].splitlines()] == ["3", "4"]
    (difference,) = json.loads(files["weight_files.json"])["differences"]
    assert (difference["path"], difference["kind"]) == ("model.safetensors", "hash")
    assert f"thread {instance.pid}" in files["stacks.txt"] or "Thread" in files["stacks.txt"]
    assert pack.archive.stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "kept").iterdir()) == [pack.archive], "no draft stays"


def test_of_a_dead_instance_what_is_left_is_kept(
    process: subprocess.Popen[bytes], instance: Instance, tmp_path: Path
) -> None:
    process.kill()
    process.wait()

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    pack = collect(
        instance,
        tmp_path / "kept",
        about(tmp_path, exchange_folder=None),
        limits=LIMITS,
        transport=httpx.MockTransport(silent),
    )
    there = {entry.name for entry in pack.entries if entry.is_there}
    assert there - {"gpu.txt"} == {"instance.json", "engine.log", "weight_files.json"}
    problems = "\n".join(pack.problems)
    assert "processes.json: OSError: the server process is gone" in problems
    assert "metrics.txt: ConnectError: refused" in problems
    assert "no snapshot of this deployment" in problems


def test_a_recycled_process_id_is_not_taken_for_the_server(
    instance: Instance, tmp_path: Path
) -> None:
    of_another_day = replace(instance, started_at="2026-01-01T00:00:00+00:00")
    pack = collect(
        of_another_day, tmp_path / "kept", about(tmp_path), limits=LIMITS,
        transport=httpx.MockTransport(server),
    )  # fmt: skip
    assert "the server process is gone" in "\n".join(pack.problems)
    assert "processes.json" not in content(pack.archive)


def test_collecting_again_gives_what_was_kept(instance: Instance, tmp_path: Path) -> None:
    of = about(tmp_path)
    transport = httpx.MockTransport(server)
    first = collect(instance, tmp_path / "kept", of, limits=LIMITS, transport=transport)
    instance.log_path.unlink()
    assert collect(instance, tmp_path / "kept", of, limits=LIMITS, transport=transport) == first


def with_parts(monkeypatch: pytest.MonkeyPatch, *parts: Part) -> None:
    monkeypatch.setattr(evidence_pack, "parts_of", lambda *_, **__: list(parts))


def writes(text: str) -> Any:
    def collect_it(path: Path) -> str:
        path.write_text(text, encoding="utf-8")
        return ""

    return collect_it


def test_a_part_that_hangs_or_crashes_costs_only_itself(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def hangs(path: Path) -> str:
        path.write_text("half", encoding="utf-8")
        release.wait(600)
        return ""

    def crashes(_: Path) -> str:
        raise RuntimeError(f"no luck with {SECRETS['given']}")

    with_parts(
        monkeypatch,
        Part("slow.txt", "hangs", 0.2, hangs),
        Part("bad.txt", "crashes", 60, crashes),
        Part("good.txt", "works", 60, writes("fine")),
    )
    pack = collect(instance, tmp_path / "kept", about(tmp_path), limits=LIMITS, now=lambda: NOW)
    release.set()
    slow, bad, good = pack.entries
    assert (slow.is_there, slow.problem) == (False, "not done after 0.2 s")
    assert (bad.is_there, bad.problem) == (False, "RuntimeError: no luck with ***")
    assert (good.is_there, good.problem, good.size) == (True, "", 4)
    assert content(pack.archive).keys() == {"manifest.json", "good.txt"}
    assert pack.collected_at == "2026-03-01T12:00:00+00:00"


def test_a_memory_dump_stays_on_the_machine(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_parts(monkeypatch, Part("core", "all", 60, writes(SECRETS["given"]), is_in_archive=False))
    pack = collect(instance, tmp_path / "kept", about(tmp_path), limits=LIMITS)
    kept = tmp_path / "kept" / "evidence-abc123.core"
    assert kept.read_text() == SECRETS["given"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert content(pack.archive).keys() == {"manifest.json"}
    assert read_pack(pack.archive).entries[0].is_there


@pytest.mark.parametrize("damage", ["cut", "other", "missing", "part"])
def test_a_damaged_archive_is_refused(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    with_parts(monkeypatch, Part("good.txt", "works", 60, writes("fine")))
    archive = collect(instance, tmp_path / "kept", about(tmp_path), limits=LIMITS).archive
    match damage:
        case "cut":
            archive.write_bytes(archive.read_bytes()[:-60])
        case "other":
            archive.write_bytes(b"no archive")
        case "missing":
            archive.unlink()
        case "part":
            files = content(archive) | {"good.txt": "evil"}
            archive.unlink()
            with tarfile.open(archive, "w:gz") as tar:
                for name, text in files.items():
                    file = tmp_path / "x"
                    file.write_text(text)
                    tar.add(file, name)
    with pytest.raises(BadInput, match=r"evidence|altered|does not exist"):
        read_pack(archive)


def test_a_place_that_cannot_be_written(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideFailure, match="cannot be written"):
        collect(instance, tmp_path / "file" / "kept", about(tmp_path), limits=LIMITS)
