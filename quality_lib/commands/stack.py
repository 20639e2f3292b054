"""``quality stack``: S3, MLflow, Airflow and vLLM behind nginx on this machine, for a first try."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.adapters.machine import ports
from quality_lib.adapters.model import source as model_source
from quality_lib.adapters.nginx.local import LocalRoute
from quality_lib.adapters.stack.local import LocalStack, PartStatus, StackAddresses
from quality_lib.adapters.stack.local_config import (
    ALERT_CONNECTION,
    ENGINE_ARGS,
    guard_env,
    write_local_config,
)
from quality_lib.adapters.stack.parts import url
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout

app = typer.Typer(
    no_args_is_help=True,
    help="Run S3, MLflow, Airflow and vLLM behind nginx here, on loopback, for a first try.",
)


@dataclass(frozen=True)
class Running:
    """What runs, for people and for ``--json``."""

    addresses: StackAddresses
    parts: tuple[PartStatus, ...]
    instances: tuple[Instance, ...]
    routes: tuple[LocalRoute, ...]
    """Every nginx that runs; a service is reached at its address."""
    config: Path | None


@app.command()
def up(
    model: Annotated[
        str, typer.Option(help="What vLLM serves: see `quality model prepare`.")
    ] = model_source.DEFAULT_SOURCE,
    service: Annotated[str, typer.Option(help="The service's name.")] = "chat",
    engine: Annotated[bool, typer.Option(help="Whether to start a vLLM instance too.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds until vLLM must be ready.")] = 600.0,
    alert_url: Annotated[
        str | None, typer.Option(help="Receiver of alerts: takes one JSON object by POST.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start what does not run yet, wait until all of it works, and print where it is."""
    stack = _stack()
    with ExitStack() as undo, stderr.status("starting") as status:

        def say(line: str) -> None:
            status.update(line)
            stderr.print(line, highlight=False, soft_wrap=True)

        if not any(part.pids for part in stack.status()):
            undo.callback(stack.down, progress=say)  # but what ran before stays
        alerts = {ALERT_CONNECTION: alert_url} if alert_url else {}
        route = LocalRoute.of(settings.home(), service)

        def configure(weights: Path) -> None:
            write_local_config(
                stack.config,
                service=service,
                endpoint=route.url,
                model=service,
                weights=weights,
                # Not there yet when vLLM starts; the guard does not need it.
                mlflow=stack.addresses().mlflow or url(0),
                work_dir=settings.home() / "runs",
                engine_args=ENGINE_ARGS,
                alert_connection=ALERT_CONNECTION if alert_url else None,
                exchange_log=settings.home() / "exchanges",
                route=(route.listen, route.folder),
            )

        instance = None
        if engine:
            weights = model_source.prepare(model, settings.home() / "models", say=say).path
            # The guard inside vLLM reads the configuration and ships to S3, so these come first.
            s3 = stack.up(("s3",), progress=say).s3 or ""
            port = ports.free_port()
            spec = EngineSpec(
                weights,
                service,
                args=ENGINE_ARGS,
                env=guard_env(stack.config, service, s3),
                port=port,
                detached=True,
            )
            instance = _running(weights, service, say)
            if instance is None:
                configure(weights)
                instance = _serve(spec, undo, say)
        # vLLM loads its model while the others start.
        stack.up(progress=say, connections=alerts)
        if instance is not None:
            configure(instance.model_path)
            say("vllm: loading the model")
            _engine().wait_healthy(instance, timeout)
            say(f"vllm: answered its first requests after {_engine().warm_up(instance):.0f} s")
            if not route.is_running():
                undo.callback(route.stop)
            route.lead_to(instance)
            say(f"nginx: {service} is reached at {route.url}")
        undo.pop_all()
    _tell(stack, as_json)


@app.command()
def down(
    discard: Annotated[bool, typer.Option(help="Whether the objects in S3 may be lost.")] = False,
    as_json: AsJson = False,
) -> None:
    """End the stack and every vLLM instance of this folder, with all their processes."""
    stack = _stack()
    with stderr.status("ending"):
        unrouted = LocalRoute.stop_all(settings.home())
        stopped = tuple(_engine().stop(instance) for instance in _engine().instances())
        for one in stopped:
            stderr.print(f"vllm: {one.instance.id} ended", highlight=False)
        forced = stack.down(
            progress=lambda line: stderr.print(line, highlight=False), discard=discard
        )
    killed = (*unrouted, *forced, *(pid for one in stopped for pid in one.forced))
    if as_json:
        emit_json({"killed": killed, "left": [pid for part in stack.status() for pid in part.pids]})
    else:
        note = f" ({len(killed)} processes had to be killed)" if killed else ""
        stdout.print(f"nothing is left running{note}", highlight=False)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Print what runs, where, and how to log in."""
    _tell(_stack(), as_json)


def _stack() -> LocalStack:
    return LocalStack(settings.home(), Path.cwd())


def _engine() -> LocalEngine:
    return LocalEngine(settings.home() / "engine")


def _running(weights: Path, service: str, say: Callable[[str], None]) -> Instance | None:
    """Return the instance of these weights that still runs; end what is left of a dead one."""
    engine = _engine()
    for instance in engine.instances():
        if instance.model_path == weights and instance.served_name == service:
            if engine.is_running(instance):
                say(f"vllm: runs already at {instance.endpoint}")
                return instance
            engine.stop(instance, drain_s=0.0)
    return None


def _serve(spec: EngineSpec, undo: ExitStack, say: Callable[[str], None]) -> Instance:
    """Start an instance that ends if ``up`` fails."""
    engine = _engine()
    instance = engine.start(spec)
    undo.callback(engine.stop, instance, 0.0)
    say(f"vllm: starting at {instance.endpoint}, log {instance.log_path}")
    return instance


def _tell(stack: LocalStack, as_json: bool) -> None:
    config = stack.config if stack.config.exists() else None
    running = Running(
        stack.addresses(),
        stack.status(),
        _engine().instances(),
        LocalRoute.running(settings.home()),
        config,
    )
    if as_json:
        emit_json(running)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("part", "state", "address", "login"):
        # An address that is broken over two lines cannot be clicked.
        table.add_column(heading, no_wrap=True, overflow="ignore")
    addresses = running.addresses
    logins = {
        "s3": f"bucket {addresses.bucket}, any key",
        "mlflow": "none",
        "airflow-api-server": f"{addresses.airflow_user} / {addresses.airflow_password}",
    }
    for part in running.parts:
        login = logins.get(part.name, "") if part.address else ""
        table.add_row(part.name, part.state, part.address or "", login)
    for route in running.routes:
        table.add_row(f"nginx {route.service}", "running", route.url, "none")
    for one in running.instances:
        table.add_row(f"vllm {one.served_name}", "running", one.endpoint, "none")
    stdout.print(table)
    for line in _next_steps(running):
        stdout.print(line, highlight=False, soft_wrap=True)


def _next_steps(running: Running) -> tuple[str, ...]:
    addresses = running.addresses
    if addresses.airflow is None:
        return ("", "`make up` starts it.")
    by_hand = (
        (f"By hand: export QUALITY_CONFIG={_short(running.config)}; quality golden --help",)
        if running.config
        else ()
    )
    return (
        "",
        f"Open {addresses.airflow}, log in, switch a DAG on and trigger it.",
        f"Snapshots and golden runs: {addresses.mlflow}",
        f"Logs: {_short(addresses.logs)}/*.log and those of vLLM beside it in engine/",
        *by_hand,
        "`make down` ends all of it.",
    )


def _short(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
