"""A look at a server: what vLLM exports, what it leaves out, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.signals import SignalSource, is_this_machine, read_sample
from quality_lib.adapters.engine.watch import watch
from quality_lib.errors import OutsideFailure
from quality_lib.records import Tri
from quality_lib.rollout.engine_limits import EngineLimits
from quality_lib.rollout.engine_reading import GpuHealth

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SERIES = {
    "process_start_time_seconds": 1796040000.25,
    'vllm:num_requests_running{engine="0",model_name="chat"}': 1.0,
    'vllm:num_requests_running{engine="1",model_name="chat"}': 2.0,
    'vllm:num_requests_waiting{engine="0",model_name="chat"}': 0.0,
    'vllm:kv_cache_usage_perc{engine="0",model_name="chat"}': 0.25,
    'vllm:kv_cache_usage_perc{engine="1",model_name="chat"}': 0.5,
    'vllm:num_preemptions_total{engine="0",model_name="chat"}': 4.0,
    'vllm:request_success_total{engine="0",finished_reason="stop"}': 10.0,
    'vllm:request_success_total{engine="0",finished_reason="length"}': 5.0,
    'vllm:request_success_created{engine="0",finished_reason="stop"}': 1.7e9,
    'vllm:corrupted_requests_total{engine="0"}': 0.0,
}
WEIGHTS = {
    "fingerprint": "v1-l-r",
    "loaded_fingerprint": "v1-l-r",
    "changed_tensors": 0,
    "changed": [],
    "restless": [],
    "tensors": 2,
    "bytes": 64,
    "unseen": [],
    "seconds": 0.1,
    "longest_call_s": 0.01,
    "wall_s": 0.2,
}


def exposition(**changes: float | None) -> str:
    """Return the metrics as text; ``changes`` by the beginning of a name, None leaves it out."""
    lines = []
    for name, value in SERIES.items():
        changed = next((c for prefix, c in changes.items() if name[5:].startswith(prefix)), value)
        if changed is not None:
            lines.append(f"{name} {changed}")
    return "\n".join(lines) + "\n"


def server(answers: Mapping[str, Any] | None = None) -> httpx.MockTransport:
    known: dict[str, Any] = {
        "/health": httpx.Response(200),
        "/metrics": httpx.Response(200, text=exposition()),
        "/quality/weights": httpx.Response(200, json=WEIGHTS),
        **(answers or {}),
    }

    def answer(request: httpx.Request) -> httpx.Response:
        found = known.get(request.url.path, httpx.Response(404))
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    return httpx.MockTransport(answer)


def look(answers: Mapping[str, Any] | None = None, source: Any = None, previous: Any = None) -> Any:
    return read_sample(
        source or SignalSource("http://127.0.0.1:8000"),
        previous,
        NOON,
        transport=server(answers),
        gpus=lambda: ((GpuHealth("g", 0),), ""),
    )


def test_a_server_that_tells_everything() -> None:
    found = look()
    assert found.counters == {
        "corrupted_requests": 0.0,
        "preemptions": 4.0,
        "finished_requests": 15.0,
    }
    assert (found.running, found.waiting, found.kv_usage) == (3.0, 0.0, 0.5)
    assert found.process == "1796040000.25"
    assert found.health is Tri.YES
    assert found.gpus == (GpuHealth("g", 0),)
    assert found.weights.fingerprint == "v1-l-r"
    assert found.log is None


def test_what_is_not_exported_is_absent_and_never_zero() -> None:
    found = look({"/metrics": httpx.Response(200, text=exposition(corrupted=None, kv_cache=None))})
    assert "corrupted_requests" not in found.counters
    assert found.kv_usage is None


@pytest.mark.parametrize(
    "metrics", [httpx.Response(404), httpx.Response(200, text="# TYPE\n{{{ 1"), httpx.Response(500)]
)
def test_metrics_that_cannot_be_read(metrics: httpx.Response) -> None:
    found = look({"/metrics": metrics})
    assert found.metrics_problem
    assert not found.counters
    assert found.health is Tri.YES


@pytest.mark.parametrize(
    ("health", "wanted"),
    [
        (httpx.Response(200), Tri.YES),
        (httpx.Response(503, headers={"server": "uvicorn"}), Tri.NO),
        (httpx.Response(503, headers={"server": "nginx/1.31"}, text="<html>"), Tri.UNKNOWN),
        (httpx.Response(502, headers={"server": "nginx/1.31"}), Tri.UNKNOWN),
        (httpx.Response(404, headers={"server": "uvicorn"}), Tri.UNKNOWN),
        (httpx.ConnectError("connection refused"), Tri.UNKNOWN),
    ],
)
def test_health(health: Any, wanted: Tri) -> None:
    assert look({"/health": health}).health is wanted


def test_a_server_that_is_gone_is_a_problem_and_no_exception() -> None:
    gone = dict.fromkeys(("/health", "/metrics", "/quality/weights"), httpx.ConnectError("refused"))
    found = look(gone)
    assert found.health_problem == found.metrics_problem == "refused"
    assert "refused" in found.weights.problem


def test_weights_that_are_not_asked_for_or_cannot_be_read() -> None:
    assert look(source=SignalSource("http://127.0.0.1:8000", weights=False)).weights is None
    assert "middleware" in look({"/quality/weights": httpx.Response(404)}).weights.problem


@pytest.mark.parametrize(("age_s", "is_read_again"), [(60, False), (700, True)])
def test_young_weights_are_taken_over(age_s: float, is_read_again: bool) -> None:
    source = SignalSource("http://127.0.0.1:8000", weights_every_s=600)
    at = (NOON - timedelta(seconds=age_s)).isoformat()
    before = look(source=source)
    from dataclasses import replace

    before = replace(before, at=at, weights=replace(before.weights, at=at))
    other = {"/quality/weights": httpx.Response(200, json={**WEIGHTS, "fingerprint": "v1-l-new"})}
    found = look(other, source, before)
    assert found.weights.fingerprint == ("v1-l-new" if is_read_again else "v1-l-r")
    restarted = replace(before, process="1.00")
    assert look(other, source, restarted).weights.fingerprint == "v1-l-new"


def test_gpus_of_another_machine_are_not_those_of_this_one() -> None:
    found = look(source=SignalSource("http://10.0.0.9:8000"))
    assert found.gpus is None
    assert "another machine" in found.gpu_problem
    exported = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 79\n'
    dcgm = SignalSource("http://10.0.0.9:8000", dcgm="http://10.0.0.9:9400/dcgm")
    seen = look({"/dcgm": httpx.Response(200, text=exported)}, dcgm)
    assert seen.gpus == (GpuHealth("GPU-a", None, None, 79),)


@pytest.mark.parametrize(
    ("endpoint", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1:1", False),
        ("http://vllm.internal:1", False),
    ],
)
def test_where_an_engine_is(endpoint: str, here: bool) -> None:
    assert is_this_machine(endpoint) is here


def test_what_was_seen_is_kept_for_the_next_look(tmp_path: Path) -> None:
    kept = tmp_path / "signals" / "chat.json"
    source = SignalSource("http://127.0.0.1:8000", weights=False)

    def at(minute: float, corrupted: float) -> dict[str, Tri]:
        text = exposition(corrupted=corrupted)
        transport = server({"/metrics": httpx.Response(200, text=text)})
        found = watch(
            [source],
            kept,
            EngineLimits(),
            NOON + timedelta(minutes=minute),
            lambda s, previous, now: read_sample(s, previous, now, transport=transport),
        )
        return {finding.name: finding.state for finding in found}

    assert at(0, 3)["corrupted_requests"] is Tri.UNKNOWN
    assert at(1, 3)["corrupted_requests"] is Tri.NO
    assert at(2, 4)["corrupted_requests"] is Tri.YES
    kept.write_text("{ half", encoding="utf-8")
    assert at(3, 4)["corrupted_requests"] is Tri.UNKNOWN


def test_each_instance_is_watched_by_itself(tmp_path: Path) -> None:
    sources = [SignalSource(f"http://127.0.0.1:{port}", weights=False) for port in (1, 2)]
    found = watch(
        sources,
        tmp_path / "chat.json",
        EngineLimits(),
        NOON,
        lambda s, previous, now: read_sample(s, previous, now, transport=server()),
    )
    assert {finding.evidence["instance"] for finding in found} == {s.endpoint for s in sources}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideFailure, match="cannot be written"):
        watch([], tmp_path / "file" / "chat.json", EngineLimits(), NOON)
