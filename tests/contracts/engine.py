"""What every ``Engine`` keeps, run on the fake, on a small real server and on vLLM."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import pytest

from quality_lib.adapters.engine.port import Engine, EngineSpec, Instance, running
from quality_lib.errors import BadInput, EngineFailed


class EngineContract(ABC):
    """Subclass with the fixtures ``engine`` and ``spec``."""

    @pytest.fixture
    @abstractmethod
    def engine(self) -> Engine: ...

    @pytest.fixture
    @abstractmethod
    def spec(self) -> EngineSpec: ...

    def use(self, instance: Instance) -> Callable[[], None]:
        """Begin what must outlast a stop; what comes back looks, after it, whether it did."""
        return lambda: None

    def test_life_of_an_instance(self, engine: Engine, spec: EngineSpec) -> None:
        with running(engine, spec, timeout_s=600) as instance:
            assert engine.is_running(instance)
            assert instance in engine.instances()
            assert instance.labels == spec.labels
            assert engine.startup_seconds(spec.model_path) is not None
            assert engine.startup_seconds(spec.model_path / "other") is None
            assert engine.find_orphans() == ()
            assert instance.served_name == spec.served_name
            assert instance.endpoint.startswith("http://127.0.0.1:")
            with pytest.raises(EngineFailed, match="taken"):
                engine.start(replace(spec, port=_port(instance)))
            look_again = self.use(instance)
        assert not engine.is_running(instance)
        assert engine.instances() == ()
        # Stopping twice is no error and does nothing.
        assert engine.stop(instance).forced == ()
        look_again()

    def test_an_unknown_instance_is_bad_input(self, engine: Engine, spec: EngineSpec) -> None:
        stranger = Instance(
            id="nobody",
            endpoint="http://127.0.0.1:1",
            pid=1,
            log_path=spec.model_path / "log",
            model_path=spec.model_path,
            served_name="chat",
            started_at="2026-01-01T00:00:00+00:00",
        )
        with pytest.raises(BadInput, match="nobody"):
            engine.stop(stranger)


class ManyInstances(EngineContract):
    """Rules that need several starts: not run on vLLM, whose starts take a minute."""

    def test_an_error_inside_still_stops(self, engine: Engine, spec: EngineSpec) -> None:
        with pytest.raises(KeyError), running(engine, spec, timeout_s=30):
            raise KeyError
        assert engine.instances() == ()

    def test_two_instances_get_two_ports_and_end_apart(
        self, engine: Engine, spec: EngineSpec
    ) -> None:
        first, second = engine.start(spec), engine.start(spec)
        try:
            assert _port(first) != _port(second)
            assert engine.instances() == (first, second)
            engine.wait_healthy(second, 30)
            engine.stop(first)
            assert engine.instances() == (second,)
        finally:
            engine.stop(first)
            engine.stop(second)


def _port(instance: Instance) -> int:
    return int(instance.endpoint.rpartition(":")[2])
