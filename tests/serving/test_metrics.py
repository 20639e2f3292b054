"""The guard's metrics appear on vLLM's own /metrics, with one server process and with several."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from quality_lib.records import Outcome
from quality_lib.serving import metrics
from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS
from quality_lib.serving.metrics import GuardMetrics
from tests.serving.vllm_metrics_page import OWN, ROOT, MetricsPage


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_verdicts_are_counted_by_check(registry: CollectorRegistry) -> None:
    counted = GuardMetrics.of(registry)
    for outcome in Outcome:
        counted.gate_failed(1, "blank", "blank_input", outcome)
    labels = {"check": "blank", "level": "1", "reason": "blank_input"}
    assert registry.get_sample_value("vllm_request_failed_validation_total", labels) == 1
    assert registry.get_sample_value("vllm_request_suspect_validation_total", labels) == 1


def test_entropies_arrive_by_bucket(registry: CollectorRegistry) -> None:
    counts = [0] * (len(ENTROPY_BUCKETS) + 1)
    counts[0], counts[5], counts[-1] = 2, 3, 1
    GuardMetrics.of(registry).entropies(counts, 16.5)
    GuardMetrics.of(registry).entropies(counts, 0.0)

    def value(suffix: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"vllm_generation_entropy_{suffix}", labels)

    assert (value("count"), value("sum")) == (12, 16.5)
    assert value("bucket", le="0.01") == 4
    assert value("bucket", le="0.5") == 4
    assert value("bucket", le="1.0") == 10
    assert value("bucket", le="12.0") == 10
    assert value("bucket", le="+Inf") == 12


def test_a_wrong_number_of_buckets_is_an_error(registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="argument"):
        GuardMetrics.of(registry).entropies([1, 2], 3.0)


def test_losses_are_counted_by_cause(registry: CollectorRegistry) -> None:
    counted = GuardMetrics.of(registry)
    counted.records_lost("queue_full", 3)
    counted.gate_skipped("loops", "slow")
    counted.stream_stopped("nan_logits")
    counted.ship_failed("AccessDenied")
    counted.shipped(1, 20, 300)
    value = registry.get_sample_value
    assert value("vllm_quality_records_lost_total", {"cause": "queue_full"}) == 3
    assert value("vllm_quality_gate_skipped_total", {"check": "loops", "cause": "slow"}) == 1
    assert value("vllm_quality_stream_stopped_total", {"reason": "nan_logits"}) == 1
    assert value("vllm_quality_log_ship_failures_total", {"cause": "AccessDenied"}) == 1
    assert value("vllm_quality_log_shipped_records_total") == 20


def test_two_imports_share_one_set(registry: CollectorRegistry) -> None:
    spec = importlib.util.find_spec(metrics.__name__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    GuardMetrics.of(registry).suspicious_tokens(1)
    again.GuardMetrics.of(registry).suspicious_tokens(2)
    assert registry.get_sample_value("vllm_output_suspicious_token_total") == 3


def count_in_another_process(folder: Path) -> None:
    """Let a server of several count; it leaves its counts in the folder."""
    subprocess.run(
        [sys.executable, "-c", OWN],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PROMETHEUS_MULTIPROC_DIR": str(folder)},
        check=True,
        timeout=300,
    )


CHECKED = 'vllm_request_failed_validation_total{check="loops",level="4",reason="token_loop"}'


def test_vllm_shows_them(metrics_page: MetricsPage) -> None:
    lines = metrics_page.lines()
    assert "vllm_output_suspicious_token_total 3.0" in lines
    assert f"{CHECKED} 1.0" in lines
    assert "vllm_generation_entropy_count 15.0" in lines


def test_vllm_adds_them_up_over_several_api_servers(
    metrics_page: MetricsPage, tmp_path: Path
) -> None:
    for _ in range(2):
        count_in_another_process(tmp_path)
    lines = metrics_page.lines(tmp_path)
    assert "vllm_output_suspicious_token_total 6.0" in lines
    assert f"{CHECKED} 2.0" in lines
    assert "vllm_generation_entropy_count 30.0" in lines
    assert 'vllm_generation_entropy_bucket{le="+Inf"} 30.0' in lines
    assert "vllm_quality_log_waiting_bytes 5.0" in lines
