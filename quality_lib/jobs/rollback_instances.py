"""The instances of a rollback: found again by their marks, started once, stopped once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.errors import BadInput, EngineFailed
from quality_lib.jobs.rollback_run import Run
from quality_lib.rollout.journal import Relaunch, Target
from quality_lib.rollout.launch import launch_args

INCIDENT_ENV = "QUALITY_INCIDENT"
"""In the environment of every instance that a rollback has started."""

STAGING, FRESH, RESTORED = "staging", "fresh", "restored"
EAR_S = 5.0


def of_incident(run: Run, role: str | None = None) -> tuple[Instance, ...]:
    """Return what runs for this incident, whoever started it."""
    wanted = {"incident": run.journal.incident_id} | ({"role": role} if role else {})
    return tuple(i for i in run.parts.engine.instances() if wanted.items() <= i.labels.items())


def by_id(run: Run, instance_id: str | None) -> Instance | None:
    """Return a running instance with its server; ``None`` when it is gone."""
    found = next((i for i in run.parts.engine.instances() if i.id == instance_id), None)
    return found if found is not None and run.parts.engine.is_running(found) else None


def at_address(run: Run, address: str) -> Instance | None:
    """Return the instance of this machine that serves at ``host:port``; ``None``: not ours."""
    endpoint = f"http://{address}"
    return next((i for i in run.parts.engine.instances() if i.endpoint == endpoint), None)


def address_of(instance: Instance) -> str:
    """Return ``host:port``, as a route wants it."""
    return instance.endpoint.partition("://")[2]


def ensure(run: Run, role: str, backend: str, target: Target) -> Instance:
    """Return a ready instance of the target, the one that is there already or a new one.

    Raises:
        EngineFailed: it does not start; what was left of it is ended.
    """
    labels = {
        "incident": run.journal.incident_id,
        "service": run.journal.service,
        "role": role,
        "backend": backend,
        "snapshot": target.snapshot_id,
    }
    relaunch = Relaunch(target.model_path, run.parts.service.model, target.args)
    return _ensure(run, labels, relaunch, None)


def restore(run: Run, name: str, address: str, relaunch: Relaunch) -> Instance:
    """Start an old instance again, where the route expects it.

    Raises:
        EngineFailed: it does not start; what was left of it is ended.
    """
    labels = {
        "incident": run.journal.incident_id,
        "service": run.journal.service,
        "role": RESTORED,
        "backend": name,
        "snapshot": "",
    }
    return _ensure(run, labels, relaunch, int(address.rpartition(":")[2]))


def relaunch_of(run: Run, instance: Instance) -> Relaunch:
    """Return how an instance is started again; what was masked comes from the configuration."""
    try:
        args = launch_args(instance.args)
    except BadInput:
        args = run.parts.service.engine.args
    return Relaunch(str(instance.model_path), instance.served_name, args)


def stop_instance(run: Run, instance: Instance, drain_s: float | None = None) -> None:
    """End an instance, and say so."""
    stopped = run.parts.engine.stop(instance, drain_s)
    how = f", {len(stopped.forced)} processes had to be killed" if stopped.forced else ""
    run.parts.note(f"stopped {instance.id} at {address_of(instance)}{how}")


def _ensure(run: Run, labels: Mapping[str, str], relaunch: Relaunch, port: int | None) -> Instance:
    engine = run.parts.engine
    chosen: Instance | None = None
    for instance in of_incident(run, labels["role"]):
        if instance.labels.get("backend") != labels["backend"]:
            continue
        if chosen is None and instance.labels == labels and engine.is_running(instance):
            chosen = instance
        else:
            stop_instance(run, instance, 0.0)
    if chosen is None:
        run.hear()
        spec = EngineSpec(
            model_path=Path(relaunch.model_path),
            served_name=relaunch.served_name,
            args=relaunch.args,
            env={**run.parts.instance_env, INCIDENT_ENV: run.journal.incident_id},
            port=port,
            detached=True,  # it has to outlive this command
            labels=labels,
        )
        chosen = engine.start(spec)
        run.tell(
            f"started {labels['role']} instance {chosen.id} of {relaunch.model_path}",
            instance=chosen.id,
            address=address_of(chosen),
            log=str(chosen.log_path),
        )
    try:
        _await(run, chosen)
        seconds = engine.warm_up(chosen)
    except EngineFailed:
        with contextlib.suppress(EngineFailed):  # the first error is the one to tell
            engine.stop(chosen, 0.0)
        raise
    run.parts.note(f"{chosen.id} is ready; its first answers took {seconds:.0f} s")
    return chosen


def _await(run: Run, instance: Instance) -> None:
    """Wait until it is ready, in pieces, with an ear for an abort."""
    engine = run.parts.engine
    end = run.parts.clock() + timedelta(seconds=run.limits.start_timeout_s)
    while True:
        left = (end - run.parts.clock()).total_seconds()
        try:
            engine.wait_healthy(instance, min(EAR_S, max(left, 0.0)))
            return
        except EngineFailed:
            if left <= EAR_S or not engine.is_running(instance):
                raise
        run.hear()
