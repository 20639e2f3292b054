"""Reads the signals of one running vLLM server: metrics, health, log, GPUs, weights in memory."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from prometheus_client.parser import text_string_to_metric_families

from quality_lib.adapters.engine import gpu_health
from quality_lib.adapters.engine.error_log import look_at_log
from quality_lib.adapters.vllm.live_weights import LiveFingerprint, take_fingerprint
from quality_lib.errors import QualityError
from quality_lib.records import Tri
from quality_lib.rollout.engine_reading import (
    CORRUPTED,
    FINISHED,
    NAN_STEPS,
    PREEMPTIONS,
    EngineSample,
    WeightsLook,
    moment,
)

TIMEOUT_S = 15.0
MAX_NAMES = 10

_COUNTERS = {
    "vllm:corrupted_requests_total": CORRUPTED,
    "vllm_quality_nan_logits_total": NAN_STEPS,
    "vllm:num_preemptions_total": PREEMPTIONS,
    "vllm:request_success_total": FINISHED,
}
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_USAGE = "vllm:kv_cache_usage_perc"
_START = "process_start_time_seconds"


@dataclass(frozen=True)
class SignalSource:
    """Where the signals of one instance come from."""

    endpoint: str
    api_key: str | None = None
    log: Path | None = None
    log_is_own: bool = False
    """Whether the log began with the instance's process; else an unknown file is read from its end."""
    dcgm: str | None = None
    dcgm_only: str = ""
    weights: bool = True
    weights_every_s: float = 0.0
    """A younger reading of the weights is taken over, when it is of the same process."""


def read_sample(
    source: SignalSource,
    previous: EngineSample | None,
    now: datetime,
    *,
    transport: httpx.BaseTransport | None = None,
    gpus: Callable[[], gpu_health.Seen] = gpu_health.gpus_of_this_machine,
) -> EngineSample:
    """Look at everything once; what fails is a ``problem`` in the sample and never an exception."""
    sample = EngineSample(at=now.isoformat(timespec="milliseconds"), instance=source.endpoint)
    headers = {"Authorization": f"Bearer {source.api_key}"} if source.api_key else {}
    try:
        with httpx.Client(
            base_url=source.endpoint, headers=headers, timeout=TIMEOUT_S, transport=transport
        ) as client:
            sample = _with_metrics(_with_health(sample, client), client)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = str(error) or type(error).__name__
        sample = replace(sample, health_problem=problem, metrics_problem=problem)
    if source.log is not None:
        before = None if previous is None else previous.log
        look = look_at_log(source.log, before, from_start=source.log_is_own)
        sample = replace(sample, log=look)
    sample = _with_gpus(sample, source, transport, gpus)
    if source.weights:
        sample = replace(sample, weights=_weights(source, sample, previous, transport))
    return sample


def _with_health(sample: EngineSample, client: httpx.Client) -> EngineSample:
    answer = client.get("/health")
    if answer.status_code == 200:
        return replace(sample, health=Tri.YES)
    told = f"/health answers {answer.status_code}"
    # vLLM itself says 503 of a dead engine; a proxy in front of it says the same of a dead server.
    is_vllm = answer.headers.get("server", "").startswith("uvicorn") and not answer.content
    if answer.status_code == 503 and is_vllm:
        return replace(sample, health=Tri.NO, health_problem=told)
    return replace(sample, health_problem=told)


def _with_metrics(sample: EngineSample, client: httpx.Client) -> EngineSample:
    answer = client.get("/metrics")
    if answer.status_code != 200:
        return replace(sample, metrics_problem=f"/metrics answers {answer.status_code}")
    try:
        values = _values(answer.text)
    except ValueError as error:
        return replace(sample, metrics_problem=f"/metrics cannot be read: {error}")
    usage = values.get(_USAGE)
    return replace(
        sample,
        process=_process(values),
        counters={own: sum(values[name]) for name, own in _COUNTERS.items() if name in values},
        running=sum(values[_RUNNING]) if _RUNNING in values else None,
        waiting=sum(values[_WAITING]) if _WAITING in values else None,
        kv_usage=max(usage) if usage else None,
    )


def process_of(metrics: str) -> str:
    """Return a name of the server's process from its ``/metrics``: when it began.

    Empty where that does not tell, and where several processes tell: then no one name is right.

    Raises:
        ValueError: the text is no page of metrics.
    """
    return _process(_values(metrics))


def _process(values: Mapping[str, list[float]]) -> str:
    started = values.get(_START)
    return f"{started[0]:.2f}" if started and len(started) == 1 else ""


def _values(text: str) -> Mapping[str, list[float]]:
    """Return the values of the series that are looked at, one per engine and label."""
    wanted = {*_COUNTERS, _RUNNING, _WAITING, _USAGE, _START}
    values: dict[str, list[float]] = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in wanted:
                values[sample.name].append(sample.value)
    return values


def _with_gpus(
    sample: EngineSample,
    source: SignalSource,
    transport: httpx.BaseTransport | None,
    gpus: Callable[[], gpu_health.Seen],
) -> EngineSample:
    if source.dcgm is not None:
        found, problem = gpu_health.gpus_of_dcgm(source.dcgm, source.dcgm_only, transport)
    elif is_this_machine(source.endpoint):
        found, problem = gpus()
    else:
        found, problem = None, "the server is on another machine; name its DCGM exporter"
    return replace(sample, gpus=found, gpu_problem="" if found else problem)


def _weights(
    source: SignalSource,
    sample: EngineSample,
    previous: EngineSample | None,
    transport: httpx.BaseTransport | None,
) -> WeightsLook:
    last = None if previous is None else previous.weights
    if (
        last is not None
        and previous is not None
        and not last.problem
        and sample.process
        and previous.process == sample.process
        and (moment(sample.at) - moment(last.at)).total_seconds() < source.weights_every_s
    ):
        return last
    try:
        taken = take_fingerprint(source.endpoint, source.api_key, transport=transport)
    except QualityError as error:
        return WeightsLook(sample.at, problem=str(error))
    return _look(taken, sample.at)


def _look(taken: LiveFingerprint, at: str) -> WeightsLook:
    return WeightsLook(
        at,
        taken.fingerprint,
        taken.changed_tensors,
        tuple(str(one.get("name")) for one in taken.changed[:MAX_NAMES]),
        taken.size,
        tuple(str(one.get("name")) for one in taken.unseen[:MAX_NAMES]),
    )


def is_this_machine(endpoint: str) -> bool:
    """Return whether an address is one of the loopback interface."""
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
