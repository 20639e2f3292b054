"""``quality route …``: see and move the traffic of a service by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from quality_lib import wiring
from quality_lib.adapters.nginx.route import HTTP_FILE, SERVER_FILE
from quality_lib.adapters.nginx.setup import NginxParts, nginx_parts
from quality_lib.commands.output import AsJson, emit_json, stdout
from quality_lib.errors import BadInput, NoData
from quality_lib.rollout.ports import FULL, NOBODY, Backend, Route, RouteTable, Served
from quality_lib.settings import Settings, config_path, load

app = typer.Typer(no_args_is_help=True, help="The proxy that splits a service's traffic.")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]
Service = Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")]


@app.command()
def show(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Print who serves the service with which share; exit code 4 when nobody does yet."""
    route = wiring.route(service, _settings(config))
    table = route.table()
    in_flight = {backend.name: route.in_flight(backend.name) for backend in table.backends}
    if as_json:
        emit_json({**_plain(table), "in_flight": in_flight})
        return
    shown = Table("instance", "address", "weight %", "in flight, at most", box=None)
    for one in table.backends:
        count = in_flight[one.name]
        shown.add_row(
            one.name, one.address, str(one.weight), "unknown" if count is None else str(count)
        )
    stdout.print(shown)
    if table.mirror is not None:
        stdout.print(f"{table.mirror_percent} % of requests are copied to {table.mirror}")


@app.command()
def split(
    service: Service,
    minutes: Annotated[float, typer.Option(min=0, help="Of requests begun so long ago.")] = 10.0,
    since: Annotated[
        datetime | None, typer.Option(help="Or since this time, UTC, as 2026-11-30T12:00:00.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Print what each instance really served, by the proxy's log; exit code 4 without requests."""
    route = wiring.route(service, _settings(config))
    now = datetime.now(UTC)  # noqa: TID251 - the command line gives the clock
    begin = since.replace(tzinfo=UTC) if since else now - timedelta(minutes=minutes)
    found = route.split(begin)
    total = sum(served.requests for served in found.values())
    if as_json:
        emit_json({"service": service, "since": begin.isoformat(), "backends": dict(found)})
    else:
        stdout.print(_split_table(found, total))
    if total == 0:
        raise NoData(f"no request of '{service}' has begun and ended since {begin.isoformat()}")


@app.command()
def apply(
    shares: Annotated[
        list[str],
        typer.Argument(
            help="NAME=WEIGHT of an instance it knows, NAME=HOST:PORT@WEIGHT of a new one."
        ),
    ],
    service: Service,
    mirror: Annotated[str | None, typer.Option(help="Instance that gets copies.")] = None,
    mirror_percent: Annotated[int, typer.Option(help="Share of requests copied.")] = FULL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the table, do nothing.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Put a whole table into force: who is not named leaves the route. Weights sum to 100."""
    route = wiring.route(service, _settings(config))
    table = RouteTable(service, _backends(shares, _known(route)), mirror, mirror_percent)
    if not dry_run:
        route.apply(table)
    if as_json:
        emit_json({**_plain(table), "dry_run": dry_run})
    else:
        weights = ", ".join(f"{name} {weight} %" for name, weight in table.weights().items())
        stdout.print(f"{'would be' if dry_run else 'in force'}: {weights}", highlight=False)


@app.command()
def start(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Write the proxy's files; start nginx where this product runs it, with the table of last time."""
    parts = _parts(service, _settings(config))
    if parts.process is None:
        files = parts.route.write_missing_files()
    else:
        parts.route.prepare()
        files = (parts.options.folder / HTTP_FILE, parts.options.folder / SERVER_FILE)
    running = parts.process is not None
    if as_json:
        emit_json({"service": service, "running": running, "http": files[0], "server": files[1]})
        return
    if running:
        stdout.print(f"nginx runs, its files lie in {parts.options.folder}", soft_wrap=True)
        return
    stdout.print("Include in your nginx, then reload it:", highlight=False)
    stdout.print(f"  http {{ include {files[0]}; }}", highlight=False, soft_wrap=True)
    stdout.print(f"  server {{ include {files[1]}; }}", highlight=False, soft_wrap=True)


@app.command()
def stop(
    service: Service,
    grace: Annotated[float, typer.Option(min=0, help="Seconds for requests in flight.")] = 30.0,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """End the nginx that this product runs for the service; requests in flight may finish."""
    parts = _parts(service, _settings(config))
    if parts.process is None:
        raise BadInput(f"the nginx of '{service}' is your own", fix="stop it yourself")
    killed = parts.process.stop(grace)
    if as_json:
        emit_json({"service": service, "killed": killed})
    else:
        stdout.print("ended", highlight=False)


def _settings(config: Path | None) -> Settings:
    return load(config_path(config))


def _parts(service: str, settings: Settings) -> NginxParts:
    wiring.route(service, settings)  # refuses a service without a route
    chosen = settings.service(service)
    return nginx_parts(service, chosen.endpoint, chosen.route)


def _known(route: Route) -> Mapping[str, str]:
    try:
        return {backend.name: backend.address for backend in route.table().backends}
    except NoData:
        return {}


def _backends(shares: Sequence[str], known: Mapping[str, str]) -> tuple[Backend, ...]:
    found = []
    for share in shares:
        name, is_pair, value = share.partition("=")
        address, is_new, weight = value.rpartition("@")
        if not (is_pair and weight.isascii() and weight.isdigit()):
            raise BadInput(f"'{share}' is no share", fix="use NAME=WEIGHT or NAME=HOST:PORT@WEIGHT")
        if not is_new and name not in known:
            raise BadInput(
                f"the route knows no '{name}'", fix=f"give its address: {name}=HOST:PORT@{weight}"
            )
        found.append(Backend(name, address if is_new else known[name], int(weight)))
    return tuple(found)


def _plain(table: RouteTable) -> dict[str, Any]:
    return {
        "service": table.service,
        "backends": table.backends,
        "mirror": table.mirror,
        "mirror_percent": table.mirror_percent if table.mirror else None,
    }


def _split_table(found: Mapping[str, Served], total: int) -> Table:
    shown = Table(
        "instance", "requests", "share", "failed", "cut", "left by client", "slowest", box=None
    )
    for name, one in found.items():
        share = f"{one.requests / total:.1%}" if total else ""
        who = "none reached" if name == NOBODY else name
        counts = (one.requests, share, one.failed, one.cut, one.left)
        shown.add_row(who, *map(str, counts), f"{one.slowest_s:.2f} s")
    return shown
