"""A real nginx in front of a test's backends."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from quality_lib.adapters.machine import ports
from quality_lib.adapters.nginx.process import NginxProcess
from quality_lib.adapters.nginx.route import NginxRoute
from quality_lib.adapters.nginx.setup import nginx_parts
from quality_lib.settings import RouteSettings


@dataclass
class RunningRoute:
    """A route that answers at ``url``."""

    route: NginxRoute
    process: NginxProcess
    url: str
    folder: Path
    settings: RouteSettings
    client: httpx.Client

    def post(self, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        """Send one request over a connection of its own."""
        return self.client.post(
            "/v1/chat/completions",
            **{"json": {"model": "chat"}, "headers": dict(headers or {}), **more},
        )


@contextmanager
def running_route(folder: Path, service: str = "chat", **settings: Any) -> Generator[RunningRoute]:
    """Give a started route without a table and end it with all its processes."""
    listen = f"127.0.0.1:{ports.free_port()}"
    wanted = RouteSettings(kind="nginx", listen=listen, folder=folder / "route", **settings)
    parts = nginx_parts(service, f"http://{listen}", wanted)
    assert parts.process is not None
    try:
        parts.route.prepare()
        limits = httpx.Limits(max_keepalive_connections=0)
        at = f"http://{listen}"
        with httpx.Client(base_url=at, timeout=60.0, trust_env=False, limits=limits) as client:
            yield RunningRoute(parts.route, parts.process, at, folder / "route", wanted, client)
    finally:
        parts.process.stop(1.0)
