"""The nginx of the local stack: one per service, on loopback, before the instances of this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.machine import ports
from quality_lib.adapters.machine.private_files import write_private
from quality_lib.adapters.nginx import process as nginx_process
from quality_lib.adapters.nginx.backend_address import split_address
from quality_lib.adapters.nginx.options import prefix
from quality_lib.adapters.nginx.setup import NginxParts, nginx_parts
from quality_lib.adapters.stack.processes import StackProcesses
from quality_lib.errors import NoData, OutsideFailure
from quality_lib.rollout.ports import FULL, Backend, RouteTable
from quality_lib.settings import RouteSettings

_RECORD = "local.json"


@dataclass(frozen=True)
class LocalRoute:
    """Where the route of a local service listens and keeps its files."""

    service: str
    listen: str
    folder: Path

    @classmethod
    def of(cls, home: Path, service: str) -> Self:
        """Return the service's route; its port is that of last time where nobody else has it."""
        folder = home / nginx_process.ROUTES / prefix(service)
        known = cls._recorded(folder)
        if known is not None and (known.is_running() or ports.is_free(_port(known.listen))):
            return known
        made = cls(service, f"{ports.LOOPBACK}:{ports.free_port()}", folder)
        write_private(folder / _RECORD, json.dumps({"service": service, "listen": made.listen}))
        return made

    @classmethod
    def running(cls, home: Path) -> tuple[Self, ...]:
        """Return the routes whose nginx runs."""
        folders = sorted((home / nginx_process.ROUTES).glob("*"))
        known = (cls._recorded(folder) for folder in folders)
        return tuple(route for route in known if route is not None and route.is_running())

    @staticmethod
    def stop_all(home: Path) -> tuple[int, ...]:
        """End every nginx below the home folder; return what had to be killed."""
        return nginx_process.stop_all(home)

    @property
    def url(self) -> str:
        """The address at which the service is reached."""
        return f"http://{self.listen}"

    @property
    def settings(self) -> RouteSettings:
        """The same as a part of the configuration."""
        return RouteSettings(kind="nginx", listen=self.listen, folder=self.folder)

    @property
    def parts(self) -> NginxParts:
        """The route and the nginx under it."""
        return nginx_parts(self.service, self.url, self.settings)

    def is_running(self) -> bool:
        """Return whether its nginx lives."""
        return StackProcesses(self.folder / "process").is_running(nginx_process.NAME)

    def lead_to(self, instance: Instance) -> None:
        """Start nginx if need be; give the instance all requests if nobody serves them.

        Where traffic was moved meanwhile, as a rollback does, it stays where it is.
        """
        route = self.parts.route
        route.prepare()
        try:
            serving = [b.address for b in route.table().backends if b.weight > 0]
        except NoData:
            serving = []
        address = urlsplit(instance.endpoint).netloc
        if address not in serving and not any(_is_listened_to(one) for one in serving):
            route.apply(RouteTable(self.service, (Backend(instance.id, address, FULL),)))

    def stop(self) -> tuple[int, ...]:
        """End its nginx; return what had to be killed."""
        process = self.parts.process
        if process is None:
            raise OutsideFailure(f"the nginx of '{self.service}' is not ours")
        return process.stop()

    @classmethod
    def _recorded(cls, folder: Path) -> Self | None:
        try:
            data = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
            return cls(data["service"], data["listen"], folder)
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _is_listened_to(address: str) -> bool:
    host, port = split_address(address)
    return host == ports.LOOPBACK and not ports.is_free(port)


def _port(listen: str) -> int:
    return int(listen.rpartition(":")[2])
