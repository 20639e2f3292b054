"""An engine in memory: what the rest of the product is tested with."""

from __future__ import annotations

from pathlib import Path

from quality_lib.adapters.engine.port import EngineSpec, Instance, Stopped
from quality_lib.errors import BadInput, EngineFailed


class FakeEngine:
    """Instances that exist only here; tests can kill a server or an owner."""

    def __init__(self, *, never_healthy: bool = False) -> None:
        self._never_healthy = never_healthy
        self._known: dict[str, Instance] = {}
        self._running: set[str] = set()
        self._orphaned: set[str] = set()
        self._owned: set[str] = set()
        self.warmed_up: list[str] = []
        self.ready: list[str] = []

    def start(self, spec: EngineSpec) -> Instance:
        number = len(self._known) + 1
        port = spec.port or 20000 + number
        if any(self._known[i].endpoint.endswith(f":{port}") for i in self._running):
            raise EngineFailed(f"port {port} is taken")
        instance = Instance(
            id=f"fake-{number}",
            endpoint=f"http://127.0.0.1:{port}",
            pid=100000 + number,
            log_path=Path("/nowhere") / f"fake-{number}.log",
            model_path=spec.model_path,
            served_name=spec.served_name,
            started_at=f"2026-01-01T00:00:{number:02}.000+00:00",
            args=spec.args,
            drain_s=spec.drain_s,
            labels=dict(spec.labels),
        )
        self._known[instance.id] = instance
        self._running.add(instance.id)
        if not spec.detached:
            self._owned.add(instance.id)
        return instance

    def wait_healthy(self, instance: Instance, timeout_s: float) -> None:
        if self._never_healthy:
            raise EngineFailed(f"not ready after {timeout_s:.0f} s. Its log: {instance.log_path}")
        if not self.is_running(instance):
            raise EngineFailed(f"died while starting. Its log: {instance.log_path}")
        self.ready.append(instance.id)

    def warm_up(self, instance: Instance) -> float:
        self.wait_healthy(instance, 0.0)
        self.warmed_up.append(instance.id)
        return 0.0

    def is_running(self, instance: Instance) -> bool:
        if instance.id not in self._known:
            raise BadInput(f"there is no instance '{instance.id}'")
        return instance.id in self._running

    def stop(self, instance: Instance, drain_s: float | None = None) -> Stopped:
        forced = (instance.pid,) if self.is_running(instance) and drain_s == 0.0 else ()
        self._running.discard(instance.id)
        self._orphaned.discard(instance.id)
        return Stopped(self._known[instance.id], forced, 0.0)

    def instances(self) -> tuple[Instance, ...]:
        return tuple(i for i in self._known.values() if i.id in self._running)

    def find_orphans(self) -> tuple[Instance, ...]:
        return tuple(i for i in self.instances() if i.id in self._orphaned)

    def startup_seconds(self, model_path: Path) -> float | None:
        seen = [i for i in self.ready if self._known[i].model_path == model_path]
        return 1.0 if seen else None

    def owner_dies(self) -> None:
        self._orphaned |= self._running & self._owned
