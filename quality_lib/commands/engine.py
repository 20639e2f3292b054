"""``quality engine``: instances of vLLM on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quality_lib import settings
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, Stopped
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout
from quality_lib.errors import BadInput

app = typer.Typer(no_args_is_help=True, help="Start, list and stop vLLM instances on this machine.")


def _engine(api_key_env: str | None = None) -> LocalEngine:
    return LocalEngine(settings.home() / "engine", api_key=settings.secret(api_key_env))


@app.command()
def start(
    model: Annotated[Path, typer.Argument(help="A model folder, see `quality model prepare`.")],
    args: Annotated[
        list[str] | None, typer.Argument(help="vLLM's own arguments, after --.")
    ] = None,
    name: Annotated[str, typer.Option(help="The served model name.")] = "chat",
    port: Annotated[int | None, typer.Option(help="Default: any free one.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds until it must be ready.")] = 300.0,
    drain: Annotated[float, typer.Option(help="Seconds that requests get when it stops.")] = 30.0,
    api_key_env: Annotated[str | None, typer.Option(help="Variable that holds the key.")] = None,
    introspection: Annotated[
        bool, typer.Option(help="Whether the server tells its facts at /quality/server.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Start an instance, wait until it is ready and warm, and leave it running."""
    engine = _engine(api_key_env)
    spec = EngineSpec(
        model_path=model,
        served_name=name,
        args=tuple(args or ()),
        port=port,
        drain_s=drain,
        detached=True,
        introspection=introspection,
    )
    instance = engine.start(spec)
    try:
        stderr.print(f"log: {instance.log_path}", highlight=False, soft_wrap=True)
        with stderr.status("loading the model"):
            engine.wait_healthy(instance, timeout)
        with stderr.status("sending the first requests"):
            engine.warm_up(instance)
    except BaseException:
        engine.stop(instance, drain_s=0.0)
        raise
    if as_json:
        emit_json(instance)
    else:
        stdout.print(_line(instance), highlight=False, soft_wrap=True)


@app.command(name="list")
def list_(as_json: AsJson = False) -> None:
    """List what runs; an orphan has lost its owner or its server process."""
    engine = _engine()
    orphans = {orphan.id for orphan in engine.find_orphans()}
    instances = engine.instances()
    if as_json:
        emit_json({"instances": instances, "orphans": sorted(orphans)})
        return
    for instance in instances:
        note = "  orphan" if instance.id in orphans else ""
        stdout.print(_line(instance) + note, highlight=False, soft_wrap=True)


@app.command()
def stop(
    instance_id: Annotated[str | None, typer.Argument(help="See `quality engine list`.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop all of them.")] = False,
    drain: Annotated[float | None, typer.Option(help="Seconds for requests in flight.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let requests in flight finish, then end an instance with all its processes."""
    engine = _engine()
    if (instance_id is None) != every:
        raise BadInput("name one instance or say --all", fix="quality engine list shows them")
    chosen = (engine.find(instance_id),) if instance_id else engine.instances()
    with stderr.status("stopping"):
        _tell(tuple(engine.stop(instance, drain) for instance in chosen), as_json)


@app.command()
def clean(as_json: AsJson = False) -> None:
    """End what runs although its owner or its server process is gone."""
    with stderr.status("looking for orphans"):
        ended = _engine().clean()
    _tell(ended, as_json)


def _tell(ended: tuple[Stopped, ...], as_json: bool) -> None:
    if as_json:
        emit_json({"stopped": ended})
        return
    for one in ended:
        how = f"killed {len(one.forced)} processes" if one.forced else "graceful"
        line = f"stopped {one.instance.id} in {one.seconds:.1f} s, {how}"
        stdout.print(line, highlight=False, soft_wrap=True)


def _line(instance: Instance) -> str:
    return (
        f"{instance.id}  {instance.endpoint}  {instance.served_name}  "
        f"pid {instance.pid}  since {instance.started_at}  {instance.model_path}"
    )
