"""The stage of the demo: the stack, the route, and deployments of the model behind it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx

from quality_lib import settings as settings_module
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.adapters.files.cases import load_cases, write_cases
from quality_lib.adapters.model import source as model_source
from quality_lib.adapters.model.bit_flip import BitFlip, flip_bit
from quality_lib.adapters.nginx.local import LocalRoute
from quality_lib.adapters.stack import parts as stack_parts
from quality_lib.adapters.stack.airflow_client import AirflowClient
from quality_lib.adapters.stack.local import LocalStack, StackAddresses
from quality_lib.adapters.stack.local_config import (
    ALERT_CONNECTION,
    ENGINE_ARGS,
    guard_env,
    write_local_config,
)
from quality_lib.adapters.vllm.http import PROBE_HEADER
from quality_lib.errors import EngineFailed, OutsideFailure
from quality_lib.golden.case import GoldenCase
from quality_lib.jobs.demo_story import Say
from quality_lib.rollout.ports import FULL, Backend, RouteTable

SERVICE = "chat"
FAULT = ("model.layers.12.mlp.down_proj.weight", 4321, 14)
"""Tensor, element and bit: the highest exponent bit of one weight in the middle of the model."""

SOAK_S = 5.0
ROLLBACK = {"mode": "auto", "soak_s": SOAK_S, "keep_retired_minutes": 0}
"""Nobody is there to approve, and nobody wants to wait."""

DAGS = ("register_snapshot", "golden_hourly", "decide_rollback", "rollback")


class Stage:
    """Everything that runs; the ``undo`` of ``open`` ends it."""

    def __init__(self, home: Path, repository: Path, say: Say, *, every: int) -> None:
        self._say = say
        self._every = every
        self._home = home
        # The hourly run of the schedule must not come between the steps of the story.
        self._stack = LocalStack(home, repository, has_schedules=False)
        self._engine = LocalEngine(home / "engine")
        self._route = LocalRoute.of(home, SERVICE)
        self.exchange_log = home / "demo" / "exchanges"
        self.addresses: StackAddresses | None = None
        self.airflow: AirflowClient

    @property
    def config(self) -> Path:
        """The configuration that every command of the story reads."""
        return self._stack.config

    @property
    def endpoint(self) -> str:
        """Where users reach the service: nginx."""
        return self._route.url

    def prepare(self) -> Path:
        """Return the folder of the first deployment, made anew."""
        model = model_source.prepare(
            model_source.DEFAULT_SOURCE, self._home / "models", say=self._say
        ).path
        return self._copy(model, "first")

    def open(self, weights: Path, alert_url: str, undo: ExitStack) -> Instance:
        """Start everything, and the first deployment behind the route."""
        undo.callback(self._stack.down, progress=self._say)
        undo.callback(self._stop_instances)
        undo.callback(self._route.stop)
        self._engine.clean()
        # The guard inside vLLM reads the configuration and ships to S3, so these come first.
        self.addresses = self._stack.up(("s3",), progress=self._say)
        self._configure(weights)
        instance = self._start(weights)
        self.addresses = self._stack.up(
            progress=self._say, connections={ALERT_CONNECTION: alert_url}
        )
        self._configure(weights)
        self._await(instance)
        self._lead_to(instance)
        self.airflow = undo.enter_context(self._stack.airflow())
        for dag in DAGS:
            self.airflow.wait_for_dag(dag)
        return instance

    def deploy_damaged(self, good: Path) -> tuple[BitFlip, Instance]:
        """Deploy a copy of the weights with one flipped bit, as a deployment would: beside, then alone."""
        folder = self._copy(good, "second")
        flip = flip_bit(folder, *FAULT)
        before = self._engine.instances()
        instance = self._start(folder)
        self._await(instance)
        self._lead_to(instance)
        for old in before:
            self._engine.stop(old)
        return flip, instance

    def ask(self, question: str) -> str:
        """Ask through the route; return the answer of a service that calls itself healthy.

        Raises:
            EngineFailed: it does not answer 200 to both, so the fault is no silent one.
        """
        body = {
            "model": SERVICE,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": 24,
        }
        try:
            health = httpx.get(f"{self.endpoint}/health", timeout=10)
            chat = httpx.post(
                f"{self.endpoint}/v1/chat/completions",
                json=body,
                headers=PROBE_HEADER,
                timeout=120,
            )
        except httpx.HTTPError as error:
            raise EngineFailed(f"{self.endpoint} does not answer: {error}") from error
        if (health.status_code, chat.status_code) != (200, 200):
            raise EngineFailed(f"health {health.status_code}, chat {chat.status_code}: not silent")
        return str(chat.json()["choices"][0]["message"]["content"])

    def settings(self) -> settings_module.Settings:
        """Return the configuration of the story."""
        return settings_module.load(self.config)

    def env(self) -> dict[str, str]:
        """Return what a command needs to find the configuration and S3."""
        if self.addresses is None:
            raise OutsideFailure("S3 has not been started")
        return guard_env(self.config, SERVICE, self.addresses.s3 or "")

    def serving(self) -> Mapping[str, int]:
        """Return address → weight of what nginx leads to now."""
        return {b.address: b.weight for b in self._route.parts.route.table().backends}

    def _copy(self, model: Path, name: str) -> Path:
        folder = self._home / "demo" / "deployments" / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            shutil.copytree(model, folder)
        except OSError as error:
            raise OutsideFailure(f"{folder} cannot be written: {error}") from error
        return folder

    def _start(self, weights: Path) -> Instance:
        instance = self._engine.start(
            EngineSpec(weights, SERVICE, args=ENGINE_ARGS, env=self.env())
        )
        self._say(f"vllm: starting, log {instance.log_path}")
        return instance

    def _await(self, instance: Instance) -> None:
        self._say("vllm: loading the model")
        self._engine.wait_healthy(instance, 600.0)
        self._say(f"vllm: first answers after {self._engine.warm_up(instance):.0f} s of warm-up")

    def _lead_to(self, instance: Instance) -> None:
        """Give an instance all requests; those in flight elsewhere finish there."""
        route = self._route.parts.route
        route.prepare()
        address = instance.endpoint.partition("://")[2]
        route.apply(RouteTable(SERVICE, (Backend(instance.id, address, FULL),)))
        self._say(f"nginx: {self.endpoint} leads to {address}")

    def _stop_instances(self) -> None:
        """End every instance of this folder: a rollback has started some of them."""
        for instance in self._engine.instances():
            self._engine.stop(instance)

    def _configure(self, weights: Path) -> None:
        whole = load_cases("builtin:core")
        asked = thinned(whole, self._every)
        cases = self._home / "demo" / "cases.jsonl"
        write_cases(cases, asked, overwrite=True)
        self._say(f"golden set: {len(asked)} of {len(whole)} cases, two healthy runs as baseline")
        write_local_config(
            self.config,
            service=SERVICE,
            endpoint=self.endpoint,
            model=SERVICE,
            weights=weights,
            # Not there yet when vLLM starts; the guard does not need it.
            mlflow=(self.addresses and self.addresses.mlflow) or stack_parts.url(0),
            work_dir=self._home / "runs",
            engine_args=ENGINE_ARGS,
            alert_connection=ALERT_CONNECTION,
            cases=cases,
            repeats=2,
            exchange_log=self.exchange_log,
            route=(self._route.listen, self._route.folder),
            rollback=ROLLBACK,
        )


def thinned(cases: tuple[GoldenCase, ...], every: int) -> tuple[GoldenCase, ...]:
    """Return the core cases and every ``every``-th other one, in order."""
    return tuple(
        case for number, case in enumerate(cases) if "core" in case.tags or number % every == 0
    )
