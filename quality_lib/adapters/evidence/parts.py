"""The parts of the evidence: how each is read from an instance that still runs, without its secrets.

A part writes one file and returns what is missing in it, in a sentence; empty when nothing is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.evidence.scene import NotGiven, Part, Scene
from quality_lib.adapters.evidence.secrets import shown_environment
from quality_lib.adapters.machine import process_facts
from quality_lib.adapters.machine.file_tail import last_lines, tail
from quality_lib.adapters.model.weights_files import hash_folder, verify_folder
from quality_lib.serving.introspection import PATH as SERVER_PATH

WEIGHTS_PATH = "/quality/weights"
SAME_START_S = 120.0
"""A process that began so long after its record was written is another one of the same id."""
MOST_METRICS = 8 << 20
_MARK = "QUALITY_INSTANCE"


def parts_of(scene: Scene, *, core_dump: bool = False) -> list[Part]:
    """Return the parts, what lives only as long as the process first."""
    short = scene.limits.part_s

    def part(name: str, what: str, collect: Callable[[Scene, Path], str], limit_s: float) -> Part:
        return Part(name, what, limit_s, lambda path: collect(scene, path))

    found = [
        part("stacks.txt", "Where every thread of the server stood.", _stacks, short),
        part(
            "processes.json", "The server's processes: memory, files, threads.", _processes, short
        ),
        part("metrics.txt", "The server's /metrics, as Prometheus reads them.", _metrics, short),
        part("server.json", "What the server says of itself: arguments, versions.", _server, short),
        part("live_weights.json", "Checksums of the weights in device memory.", _live, 4 * short),
        part("environment.json", "Environment variables; null is a value not shown.", _env, short),
        part("instance.json", "How the instance was started.", _instance, short),
        part("engine.log", "The end of the engine's log.", _log, short),
        part("exchanges.jsonl", "The last recorded exchanges, masked.", _exchanges, short),
        part("gpu.txt", "What the driver says of the GPUs, memory errors included.", _gpu, short),
        part(
            "weight_files.json",
            "SHA-256 of the files on disk, against the snapshot.",
            _weight_files,
            scene.limits.hash_s,
        ),
    ]
    if core_dump:
        what = "The server's whole memory. Holds users' texts and keys: it stays on the machine."
        found.append(
            Part("core", what, scene.limits.core_s, lambda path: _core(scene, path), False)
        )
    return found


def is_alive(instance: Instance) -> bool:
    """Return whether the instance's own process is there, not another one with its recycled id."""
    try:
        born = psutil.Process(instance.pid).create_time()
        late = born - datetime.fromisoformat(instance.started_at).timestamp()
    except (psutil.Error, ValueError):
        return False
    marked = process_facts.environment_of(instance.pid).get(_MARK) == instance.id
    return marked or -5 < late < SAME_START_S


def _stacks(scene: Scene, path: Path) -> str:
    _require_process(scene)
    text, problem = process_facts.stacks(scene.instance.pid, scene.limits.part_s / 3)
    path.write_text(scene.mask.text(text), encoding="utf-8")
    return problem


def _processes(scene: Scene, path: Path) -> str:
    _require_process(scene)
    _write_json(path, process_facts.process_facts(scene.instance.pid, scene.mask))
    return ""


def _env(scene: Scene, path: Path) -> str:
    _require_process(scene)
    env = process_facts.environment_of(scene.instance.pid)
    if not env:
        raise OSError("the environment may not be read, or the server has overwritten it")
    _write_json(path, shown_environment(env, scene.mask))
    return ""


def _instance(scene: Scene, path: Path) -> str:
    _write_json(path, scene.mask.value(json.loads(json.dumps(asdict(scene.instance), default=str))))
    return ""


def _metrics(scene: Scene, path: Path) -> str:
    text = _get(scene, "/metrics").text
    path.write_text(scene.mask.text(text[:MOST_METRICS]), encoding="utf-8")
    return "cut at 8 MiB" if len(text) > MOST_METRICS else ""


def _server(scene: Scene, path: Path) -> str:
    _write_json(path, scene.mask.value(_get(scene, SERVER_PATH).json()))
    return ""


def _live(scene: Scene, path: Path) -> str:
    _write_json(path, scene.mask.value(_get(scene, WEIGHTS_PATH, 4).json()))
    return ""


def _log(scene: Scene, path: Path) -> str:
    log, most = scene.instance.log_path, scene.limits.log_bytes
    text, size = tail(log, most)
    path.write_text(scene.mask.spoken(text), encoding="utf-8")
    return f"the last {most:,} of {size:,} bytes" if size > most else ""


def _exchanges(scene: Scene, path: Path) -> str:
    folder = scene.exchange_folder
    if scene.limits.exchanges == 0:
        raise NotGiven("not asked for")
    if folder is None or not folder.is_dir():
        raise OSError("exchanges are not recorded on this machine")
    lines: list[str] = []
    pattern = f"{scene.exchange_service}-*.jsonl*" if scene.exchange_service else "*.jsonl*"
    files = sorted(folder.glob(pattern), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files:
        if len(lines) >= scene.limits.exchanges:
            break
        wanted = scene.limits.exchanges - len(lines)
        lines = [*last_lines(file, wanted, scene.limits.log_bytes), *lines]
    if not lines:
        raise OSError(f"{folder} holds no exchange")
    path.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in _masked(scene, lines)),
        encoding="utf-8",
    )
    return ""


def _masked(scene: Scene, lines: list[str]) -> list[Any]:
    records = []
    for line in lines:
        try:
            records.append(scene.mask.spoken_value(json.loads(line)))
        except (ValueError, RecursionError):
            continue  # the line that is being written
    return records


def _gpu(_: Scene, path: Path) -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise OSError("there is no nvidia-smi")
    done = subprocess.run([tool, "-q"], capture_output=True, text=True, timeout=60, check=False)
    path.write_text(done.stdout or done.stderr, encoding="utf-8")
    return "" if done.returncode == 0 else f"nvidia-smi ended with {done.returncode}"


def _weight_files(scene: Scene, path: Path) -> str:
    deadline = time.monotonic() + scene.limits.hash_s

    def within_time(_: int, __: int) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError("hashing took too long")

    folder = scene.instance.model_path
    if scene.manifest is None:
        found = hash_folder(folder, within_time)
        _write_json(path, {"folder": str(folder), "found": asdict(found), "snapshot_id": None})
        return "there is no snapshot of this deployment to compare with"
    recorded = scene.manifest
    differences = verify_folder(folder, recorded.weights, within_time)
    _write_json(
        path,
        {
            "folder": str(folder),
            "snapshot_id": recorded.snapshot_id,
            "recorded_root_sha256": recorded.weights.root_sha256,
            "files": len(recorded.weights.files),
            "differences": [{**asdict(d), "sentence": d.sentence} for d in differences],
        },
    )
    return ""


def _core(scene: Scene, path: Path) -> str:
    _require_process(scene)
    tool = shutil.which("gcore")
    if tool is None:
        raise OSError("there is no gcore: install gdb")
    pid = scene.instance.pid
    command = [tool, "-o", str(path), str(pid)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=scene.limits.core_s, check=False
    )
    written = path.with_name(f"{path.name}.{pid}")
    if done.returncode != 0 or not written.is_file():
        lines = done.stderr.strip().splitlines()
        raise OSError(f"gcore failed: {lines[-1][:200] if lines else done.returncode}")
    written.chmod(0o600)
    written.replace(path)
    return ""


def _require_process(scene: Scene) -> None:
    if not is_alive(scene.instance):
        raise OSError("the server process is gone")


def _get(scene: Scene, path: str, patience: float = 1) -> httpx.Response:
    key = scene.api_key
    with httpx.Client(
        base_url=scene.instance.endpoint,
        headers={"authorization": f"Bearer {key}"} if key else {},
        timeout=scene.limits.part_s * patience / 2,
        transport=scene.transport,
        trust_env=False,
    ) as client:
        answer = client.get(path)
    if answer.status_code == 404:
        raise NotGiven(f"the server has no {path}")
    if answer.status_code != 200:
        raise NotGiven(f"{path} answers {answer.status_code}")
    return answer


def _write_json(path: Path, value: Any) -> None:
    path.write_text(
        json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True, default=str),
        encoding="utf-8",
    )
