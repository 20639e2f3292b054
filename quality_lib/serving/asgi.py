"""The ASGI interface as the middleware uses it, and its headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]


def path_of(scope: Scope) -> str:
    """Return the path below the server's own ``--root-path``."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def header(headers: Iterable[Any], name: bytes) -> bytes | None:
    """Return the first header of a lower-case name."""
    for key, value in headers:
        if bytes(key).lower() == name:
            return bytes(value)
    return None


def with_header(headers: Iterable[Any], name: bytes, value: bytes | None) -> list[Header]:
    """Return the headers with one set, or taken away by ``None``."""
    kept = [(bytes(k), bytes(v)) for k, v in headers if bytes(k).lower() != name]
    return kept if value is None else [*kept, (name, value)]


def media_type(headers: Iterable[Any]) -> str:
    """Return the content type without its parameters, in lower case; empty without one."""
    value = header(headers, b"content-type") or b""
    return value.partition(b";")[0].strip().lower().decode("latin-1")


def endpoint_of(scope: Scope) -> str:
    """Return the address that was asked, without a path; empty where the server tells none."""
    server = scope.get("server")
    return f"{scope.get('scheme', 'http')}://{server[0]}:{server[1]}" if server else ""
