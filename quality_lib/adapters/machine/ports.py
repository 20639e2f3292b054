"""Network ports of this machine."""

from __future__ import annotations

import socket
from collections.abc import Collection

import psutil

LOOPBACK = "127.0.0.1"


def free_port(avoid: Collection[int] = (), host: str = LOOPBACK) -> int:
    """Return a port that nobody listens on and that is not in ``avoid``.

    It is free at the moment of asking; the caller keeps others from taking it (a lock, a record).
    """
    held: list[socket.socket] = []
    try:
        while True:
            # Losing candidates stay bound until the end, so the kernel cannot offer them again.
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(candidate)
            candidate.bind((host, 0))
            port = int(candidate.getsockname()[1])
            if port not in avoid:
                return port
    finally:
        for candidate in held:
            candidate.close()


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        # As servers do: connections that linger in TIME_WAIT do not block a listener.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((host, port))
        except OSError:
            return False
    return True


def listener(port: int) -> int | None:
    """Return the id of the process that listens on the port, where it can be seen."""
    try:
        for connection in psutil.net_connections("inet"):
            address = connection.laddr
            if connection.status == psutil.CONN_LISTEN and address and address.port == port:
                return connection.pid
    except psutil.Error:
        pass
    return None


def holder(port: int) -> str:
    """Name the process that listens on the port, for a message."""
    pid = listener(port)
    try:
        return f"process {pid} ({psutil.Process(pid).name()})" if pid else "another process"
    except psutil.Error:
        return "another process"
