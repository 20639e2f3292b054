"""What a rollback asks of the proxy that splits a service's traffic. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord

INSTANCE_HEADER = "X-Quality-Instance"
"""A request that carries a backend's name here is led to that backend whatever its weight."""
NOBODY = "-"
"""In a measured split: requests that no backend took."""
FULL = 100

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
_MAX_PORT = 65_535


@dataclass(frozen=True)
class Backend:
    """An instance as the route knows it."""

    name: str
    """Lower-case letters, digits, ``-`` and ``_``, at most 63; it goes into the proxy's configuration."""
    address: str
    """``host:port``, an IPv6 host in brackets."""
    weight: int
    """Percent of the service's requests; 0: out of rotation, still reachable by header."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(
                f"{self.name!r} cannot be the name of a backend",
                fix="use lower-case letters, digits, '-' and '_', at most 63 of them",
            )
        host, _, port = self.address.rpartition(":")
        right = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MAX_PORT
        if not (_HOST.fullmatch(host) and right):
            raise BadInput(
                f"{self.address!r} is no address of backend '{self.name}'", fix="use host:port"
            )
        if isinstance(self.weight, bool) or not isinstance(self.weight, int):
            raise BadInput(f"the weight of '{self.name}' must be a whole number of percent")
        if not 0 <= self.weight <= FULL:
            raise BadInput(f"the weight of '{self.name}' must lie between 0 and {FULL}")


@dataclass(frozen=True)
class RouteTable:
    """Who serves a service, and with which share; weights sum to 100, names are unique."""

    service: str
    backends: tuple[Backend, ...]
    mirror: str | None = None
    """The backend that gets copies of requests, whose answers are thrown away."""
    mirror_percent: int = FULL
    """Share of requests that are copied, when there is a mirror."""

    def __post_init__(self) -> None:
        names = [backend.name for backend in self.backends]
        if len(set(names)) != len(names):
            raise BadInput(f"the backends of '{self.service}' have no unique names: {names}")
        addresses = [backend.address for backend in self.backends]
        if len(set(addresses)) != len(addresses):
            raise BadInput(f"two backends of '{self.service}' have one address: {addresses}")
        total = sum(backend.weight for backend in self.backends)
        if total != FULL:
            raise BadInput(f"the weights of '{self.service}' sum to {total}, not to {FULL}")
        if self.mirror is not None and self.mirror not in names:
            raise BadInput(f"the mirror '{self.mirror}' is no backend of '{self.service}'")
        if not 1 <= self.mirror_percent <= FULL:
            raise BadInput("mirror_percent must lie between 1 and 100")

    def backend(self, name: str) -> Backend:
        """Return the named backend; a wrong name lists the right ones."""
        for backend in self.backends:
            if backend.name == name:
                return backend
        known = ", ".join(sorted(backend.name for backend in self.backends))
        raise BadInput(f"'{self.service}' has no backend '{name}'", fix=f"use one of: {known}")

    def weights(self) -> Mapping[str, int]:
        """Return name → percent, in the table's order."""
        return {backend.name: backend.weight for backend in self.backends}


@dataclass(frozen=True)
class Served:
    """What one backend did with the requests it was given."""

    requests: int
    """Requests that have ended, whatever came of them."""
    failed: int
    """Answered with a status of 500 or above, by the backend or by the proxy in its place."""
    cut: int
    """Answers that began and that the backend did not finish."""
    slowest_s: float
    """0.0 without requests."""
    in_flight: int | None
    """Requests that are still being answered now, at most; None where nobody can tell."""
    left: int = 0
    """Requests whose client went away before the end: no fault of the backend."""


class Route(Protocol):
    """The proxy in front of one service. Every call raises OutsideFailure when it does not answer."""

    def table(self) -> RouteTable:
        """Return the table that the proxy really works by.

        Raises:
            NoData: the proxy runs and has not been given a table yet.
        """
        ...

    def apply(self, table: RouteTable) -> None:
        """Put a table into force; return when no new request is split by an older one.

        Requests in flight go on with the backend they have. Applying what is in force changes nothing.

        Raises:
            BadInput: the table is another service's, or the proxy refuses it; what was in force still is.
            OutsideFailure: the proxy did not take it over; what was in force is written back.
        """
        ...

    def split(self, since: datetime, until: datetime | None = None) -> Mapping[str, Served]:
        """Return what each backend did with the requests that began in the time; the end is excluded.

        Every backend of the table is named, also one without requests, and ``NOBODY`` when there are
        requests that no backend took. Copies for the mirror and requests that were led straight to a
        backend are not counted: they say nothing of the split.
        """
        ...

    def in_flight(self, backend: str) -> int | None:
        """Return how many requests the backend is answering now, at most; None where nobody can tell.

        0 means that there is none for certain.
        """
        ...

    def straight(self, backend: str) -> Mapping[str, str]:
        """Return the headers that lead a request to the backend whatever its weight."""
        ...


class IncidentStore(Protocol):
    """Where incidents are kept. Every call raises OutsideFailure when the store does not answer.

    A service's incidents are told apart by their ids alone; whoever opens one first has opened it.
    """

    def open(self, record: IncidentRecord, decision: Mapping[str, Any]) -> IncidentRecord:
        """Keep a new incident with the decision behind it; one that is there stays as it is.

        Returns what is kept, with its address.
        """
        ...

    def update(self, record: IncidentRecord) -> IncidentRecord:
        """Write down how the incident stands now; the same again changes nothing.

        Raises:
            BadInput: there is no such incident, or it is closed and would be opened again.
        """
        ...

    def find(self, incident_id: str) -> IncidentRecord | None:
        """Return one incident; None when there is none of that id."""
        ...

    def history(self, service: str, limit: int = 100) -> tuple[IncidentRecord, ...]:
        """Return a service's incidents, newest first."""
        ...

    def decision(self, incident_id: str) -> Mapping[str, Any]:
        """Return the decision that the incident was opened with; empty when it was not kept."""
        ...

    def publish(
        self, incident_id: str, files: Mapping[str, Path], metrics: Mapping[str, float]
    ) -> str:
        """Keep files (name → local path) and numbers beside an incident, and return its address.

        The same names again replace what was there. With ``post-mortem.html`` among the files, now
        or before, the address is that page's. Empty where the store has no pages.

        Raises:
            BadInput: there is no such incident or file, or a name leaves the incident.
        """
        ...
