"""The address of a backend as numbers."""

from __future__ import annotations

import socket

from quality_lib.errors import BadInput


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 host comes without its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def resolve(address: str) -> str:
    """Return ``ip:port`` of ``host:port``; of several addresses of a name, the first.

    Raises:
        BadInput: the host cannot be found.
    """
    host, port = split_address(address)
    try:
        family, _, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise BadInput(f"'{host}' cannot be found: {error}", fix="use its IP address") from error
    return f"[{found[0]}]:{port}" if family == socket.AF_INET6 else f"{found[0]}:{port}"
