"""What an nginx of this machine holds open, by the kernel's word.

The open-source nginx keeps no count of requests per backend, and its log tells of finished ones only.
But every request in flight holds a connection to its backend, in whichever worker, also in those that
only finish their streams after a reload. Idle connections are counted too until they are closed
(seconds), so the number is an upper bound, and 0 is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psutil

LEAVING = "is shutting down"
"""In the title of a worker that takes no new connections and finishes what it has."""
_OPEN = {psutil.CONN_ESTABLISHED, psutil.CONN_SYN_SENT}


@dataclass(frozen=True)
class Worker:
    """One worker process and what it is connected to."""

    pid: int
    is_leaving: bool
    clients: int
    """Connections of clients, idle ones included."""
    remotes: tuple[tuple[str, int], ...]
    """Where its connections to backends go."""

    @property
    def unrouted(self) -> int:
        """Connections of clients whose request may still go to any backend, at most."""
        return max(0, self.clients - len(self.remotes))


def read_workers(pids: Iterable[int], ports: Sequence[int]) -> tuple[Worker, ...] | None:
    """Return the living workers; ``None`` when their connections may not be seen.

    ``ports`` are those that nginx listens on.
    """
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            title = " ".join(process.cmdline())
            if "worker process" not in title:
                continue
            open_ones = [c for c in process.net_connections("tcp") if c.status in _OPEN and c.raddr]
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        except psutil.Error:
            return None
        remotes = tuple((c.raddr.ip, c.raddr.port) for c in open_ones if c.laddr.port not in ports)
        clients = len(open_ones) - len(remotes)
        found.append(Worker(pid, LEAVING in title, clients, remotes))
    return tuple(found)


def children(master: int) -> tuple[int, ...]:
    """Return the processes that an nginx has started."""
    try:
        return tuple(child.pid for child in psutil.Process(master).children())
    except psutil.Error:
        return ()


def listening_ports(pids: Iterable[int]) -> tuple[int, ...]:
    """Return the ports that these processes listen on."""
    found: set[int] = set()
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            continue
        found.update(c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN)
    return tuple(sorted(found))
