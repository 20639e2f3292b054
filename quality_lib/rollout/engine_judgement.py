"""What an engine's signals say of it: one finding per signal, from readings alone. Pure.

A rate needs two readings of the same server process; a single one is UNKNOWN. What this server does
not tell is UNKNOWN too: no data is neither damage nor health.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quality_lib.records import Tri
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.engine_limits import EngineLimits
from quality_lib.rollout.engine_reading import (
    CORRUPTED,
    FINISHED,
    NAN_STEPS,
    PREEMPTIONS,
    EngineReading,
    EngineSample,
    increase,
    moment,
    same_process,
)

Samples = tuple[EngineSample, ...]
_Judged = tuple[Tri, str, Mapping[str, Any]]
_Judge = Callable[[Samples, EngineLimits], _Judged]

MEMORY_XIDS = frozenset({31, 48, 63, 64, 74, 79, 92, 94, 95, 119, 140})
"""Xid errors that speak of the device or its memory: page fault 31, ECC 48, 63, 64, 92, 94, 95, 140,
NVLink 74, fallen off the bus 79, GSP 119. Others (13, 43, 45…) are mostly a program's own doing."""


def judge_reading(reading: EngineReading, limits: EngineLimits) -> tuple[EngineFinding, ...]:
    """Return one finding per signal, always all of them and in the same order; none without a sample."""
    last = reading.last
    if last is None:
        return ()
    samples = same_process(reading)
    findings = []
    for name, judge in SIGNALS.items():
        state, sentence, evidence = judge(samples, limits)
        told = {"instance": last.instance, "readings": len(samples), **evidence}
        findings.append(EngineFinding(name, state, sentence, told, last.at))
    return tuple(findings)


def _health(samples: Samples, limits: EngineLimits) -> _Judged:  # noqa: ARG001
    last = samples[-1]
    if last.health is Tri.YES:
        return Tri.NO, "the server says that it is healthy", {}
    if last.health is Tri.NO:
        return Tri.YES, f"the server says that its engine is dead ({last.health_problem})", {}
    # Nobody there may be the network, a proxy or a stop on purpose: no damage of what is served.
    return Tri.UNKNOWN, f"its health could not be asked ({last.health_problem})", {}


def _corrupted(samples: Samples, limits: EngineLimits) -> _Judged:
    return _risen(
        samples,
        CORRUPTED,
        limits.corrupted_requests,
        "requests with NaN in their logits",
        "the server does not count NaN; start it with VLLM_COMPUTE_NANS_IN_LOGITS=1",
    )


def _nan_steps(samples: Samples, limits: EngineLimits) -> _Judged:
    return _risen(
        samples,
        NAN_STEPS,
        limits.nan_steps,
        "generation steps with NaN or infinity",
        "the server does not run the level-3 gates that count them",
    )


def _risen(samples: Samples, counter: str, limit: int, what: str, absent: str) -> _Judged:
    last = samples[-1]
    total = last.counters.get(counter)
    if total is None:
        problem = last.metrics_problem
        return Tri.UNKNOWN, f"its metrics could not be read ({problem})" if problem else absent, {}
    risen = increase(samples, counter)
    evidence = {"total": total, "risen": risen, "limit": limit, **_span(samples)}
    if risen is None:
        return (
            Tri.UNKNOWN,
            f"{total:.0f} {what} since its start; a second reading tells more",
            evidence,
        )
    state = Tri.YES if risen >= limit else Tri.NO
    return state, f"{risen:.0f} {what} in {_minutes(samples)}", evidence


def _leak(samples: Samples, limits: EngineLimits) -> _Judged:
    last = samples[-1]
    if last.kv_usage is None or last.is_idle is None:
        why = last.metrics_problem or "it does not tell its KV-cache usage"
        return Tri.UNKNOWN, f"no usage of the KV cache ({why})", {}
    if not last.is_idle:
        told = {"running": last.running, "waiting": last.waiting, "kv_usage": last.kv_usage}
        return Tri.NO, f"{last.kv_usage:.0%} of the KV cache is in use, by requests", told
    if last.kv_usage <= limits.idle_kv_usage:
        told = {"kv_usage": last.kv_usage, "limit": limits.idle_kv_usage}
        return Tri.NO, f"idle, and {last.kv_usage:.0%} of the KV cache is in use", told
    idle = _idle_run(samples, limits.idle_kv_usage)
    spread = (moment(last.at) - moment(idle[0].at)).total_seconds()
    evidence: Mapping[str, Any] = {
        "kv_usage": [one.kv_usage for one in idle],
        "limit": limits.idle_kv_usage,
        "idle_readings": len(idle),
        "idle_s": round(spread),
    }
    told_usage = f"{last.kv_usage:.0%} of the KV cache is in use although nothing runs or waits"
    if len(idle) >= limits.idle_readings and spread >= limits.idle_spread_s:
        return Tri.YES, f"{told_usage}, in {len(idle)} readings over {spread:.0f} s", evidence
    return Tri.UNKNOWN, f"{told_usage}; another reading tells more", evidence


def _idle_run(samples: Samples, limit: float) -> Samples:
    """Return the last samples in a row that are idle, without a request in between, above the limit."""
    run: list[EngineSample] = []
    for sample in reversed(samples):
        is_leaking = sample.is_idle and sample.kv_usage is not None and sample.kv_usage > limit
        if not is_leaking:
            break
        run.append(sample)
    return tuple(reversed(run))


def _preemptions(samples: Samples, limits: EngineLimits) -> _Judged:
    last = samples[-1]
    if PREEMPTIONS not in last.counters or FINISHED not in last.counters:
        why = last.metrics_problem or "the server does not count them"
        return Tri.UNKNOWN, f"no counters of preemptions and requests ({why})", {}
    risen, finished = increase(samples, PREEMPTIONS), increase(samples, FINISHED)
    if risen is None or finished is None:
        return Tri.UNKNOWN, "one reading is no rate of preemptions; a second one tells more", {}
    rate = risen / max(finished, 1.0)
    evidence = {
        "preemptions": risen,
        "finished": finished,
        "per_request": round(rate, 3),
        "limit": limits.preemptions_per_request,
        **_span(samples),
    }
    is_storm = risen >= limits.preemptions and rate > limits.preemptions_per_request
    sentence = (
        f"{risen:.0f} preemptions for {finished:.0f} finished requests in {_minutes(samples)}"
    )
    return (Tri.YES if is_storm else Tri.NO), sentence, evidence


def _log_errors(samples: Samples, limits: EngineLimits) -> _Judged:
    last = samples[-1]
    errors = [line for one in samples if one.log is not None for line in one.log.errors]
    evidence = {"errors": errors[-5:], "count": len(errors), "limit": limits.log_errors}
    if len(errors) >= limits.log_errors:
        return (
            Tri.YES,
            f"{len(errors)} errors of the engine in its log: {errors[-1][:160]}",
            evidence,
        )
    if last.log is None:
        return Tri.UNKNOWN, "it is not known where the engine's log lies", {}
    if last.log.problem:
        return Tri.UNKNOWN, f"the engine's log could not be read ({last.log.problem})", {}
    return Tri.NO, f"{len(errors)} errors of the engine in its log", evidence


def _gpus(samples: Samples, limits: EngineLimits) -> _Judged:
    last = samples[-1]
    if not last.gpus:
        return Tri.UNKNOWN, f"no GPU is watched ({last.gpu_problem or 'there is none'})", {}
    before = {gpu.name: gpu for gpu in (samples[0].gpus or ())}
    bad, seen = [], False
    for gpu in last.gpus:
        first = before.get(gpu.name) if len(samples) > 1 else None
        risen = None
        if first is not None and gpu.uncorrected is not None and first.uncorrected is not None:
            # The driver counts from its own start; fewer means that it was loaded again.
            gone = gpu.uncorrected - first.uncorrected
            risen = gone if gone >= 0 else gpu.uncorrected
        is_compared = first is not None and first.xid is not None and gpu.xid is not None
        seen |= risen is not None or gpu.remap_failed is not None or is_compared
        if risen is not None and risen >= limits.uncorrected_memory_errors:
            bad.append(f"{gpu.name}: {risen} uncorrected memory errors")
        if gpu.remap_failed:
            bad.append(f"{gpu.name}: a broken row of memory could not be replaced")
        # DCGM shows the last Xid for ever: only another one than before is news.
        if is_compared and first is not None and gpu.xid != first.xid and gpu.xid in MEMORY_XIDS:
            bad.append(f"{gpu.name}: Xid {gpu.xid}")
    evidence = {"gpus": [vars(gpu) for gpu in last.gpus]}
    if bad:
        return Tri.YES, "; ".join(bad), evidence
    if not seen:
        return Tri.UNKNOWN, "its GPUs do not tell about memory errors", evidence
    return Tri.NO, f"{len(last.gpus)} GPUs, no new memory errors", evidence


def _weights(samples: Samples, limits: EngineLimits) -> _Judged:  # noqa: ARG001
    look = samples[-1].weights
    if look is None:
        return Tri.UNKNOWN, "the weights in memory are not read", {}
    if look.problem:
        return Tri.UNKNOWN, f"the weights in memory could not be read ({look.problem})", {}
    evidence = {
        "fingerprint": look.fingerprint,
        "changed": look.changed,
        "names": list(look.names),
        "bytes": look.size,
        "unseen": list(look.unseen),
        "read_at": look.at,
    }
    if look.changed:
        named = ", ".join(look.names[:3])
        return Tri.YES, f"{look.changed} tensors have changed since loading: {named}", evidence
    rest = f"; {len(look.unseen)} parts cannot be seen" if look.unseen else ""
    return (
        Tri.NO,
        f"{look.size / 1e6:.0f} MB of weights are as they were after loading{rest}",
        evidence,
    )


def _span(samples: Samples) -> dict[str, str]:
    return {"from": samples[0].at, "to": samples[-1].at}


def _minutes(samples: Samples) -> str:
    seconds = (moment(samples[-1].at) - moment(samples[0].at)).total_seconds()
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


SIGNALS: dict[str, _Judge] = {
    "engine_health": _health,
    "corrupted_requests": _corrupted,
    "nan_logits": _nan_steps,
    "kv_leak": _leak,
    "preemption_storm": _preemptions,
    "engine_errors": _log_errors,
    "gpu_memory": _gpus,
    "live_weights": _weights,
}
"""Every signal by its name, as ``required_signals`` and dashboards know it."""
