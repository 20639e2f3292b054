"""Builds the route that the configuration of a service describes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quality_lib.adapters.nginx.options import NginxOptions, prefix
from quality_lib.adapters.nginx.process import ROUTES, NginxProcess, worker_user
from quality_lib.adapters.nginx.program import find_nginx, nginx_version
from quality_lib.adapters.nginx.route import HTTP_FILE, SERVER_FILE, NginxRoute
from quality_lib.adapters.nginx.user import UserNginx
from quality_lib.errors import BadInput
from quality_lib.settings import RouteSettings, home


@dataclass(frozen=True)
class NginxParts:
    """A route with the nginx under it."""

    route: NginxRoute
    process: NginxProcess | None
    """None where somebody else runs nginx."""
    options: NginxOptions


def nginx_parts(service: str, endpoint: str, settings: RouteSettings) -> NginxParts:
    """Return the route of a service and, where this product runs it, its nginx; starts nothing."""
    name = prefix(service)
    folder = (settings.folder or home() / ROUTES / name).absolute()
    binary = _binary(settings)
    options = NginxOptions(
        folder=folder,
        trusted=settings.trusted,
        connect_timeout_s=settings.connect_timeout_s,
        read_timeout_s=settings.read_timeout_s,
        finish_timeout_s=settings.finish_timeout_s,
        keep_clients=settings.keep_clients,
        keep_idle_s=settings.keep_idle_s,
        body_limit_mb=settings.body_limit_mb,
        workers=settings.workers,
        version=nginx_version(binary) if binary else (),
        user=worker_user(),
    )
    files = (folder / HTTP_FILE, folder / SERVER_FILE)
    timeout_s = settings.apply_timeout_s
    if settings.listen is not None and binary is not None:
        process = NginxProcess(binary, settings.listen, *files, options, timeout_s=timeout_s)
        at = settings.status_url or f"http://{_reachable(settings.listen)}"
        return NginxParts(
            NginxRoute(service, process, options, at, timeout_s=timeout_s), process, options
        )
    user = UserNginx(
        binary, options, settings.check_command, settings.reload_command, settings.pid_file
    )
    at = settings.status_url or endpoint
    return NginxParts(NginxRoute(service, user, options, at, timeout_s=timeout_s), None, options)


def _binary(settings: RouteSettings) -> Path | None:
    try:
        return find_nginx(settings.binary)
    except BadInput:
        if settings.listen is not None or settings.binary is not None:
            raise
        return None  # a user's own nginx may run elsewhere


def _reachable(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return f"{ {'0.0.0.0': '127.0.0.1', '[::]': '[::1]'}.get(host, host) }:{port}"  # noqa: S104
