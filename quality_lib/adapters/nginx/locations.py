"""The locations of one route: what belongs into nginx's ``server`` block, the same for every table."""

from __future__ import annotations

import json
from dataclasses import replace

from quality_lib.adapters.nginx.options import STATUS_PATH, NginxOptions, prefix, quoted
from quality_lib.rollout.ports import INSTANCE_HEADER

SERVED_BY = "X-Quality-Served-By"
"""Tells a trusted caller which backend has answered."""


def server_text(service: str, options: NginxOptions) -> str:
    """Return the file for the ``server`` block; it is the same for every table."""
    p = prefix(service)
    say = _error_body
    proxy = _proxy(p, options)
    refusals = [
        f"if (${p}_forbidden) {{ {say(403, f'{INSTANCE_HEADER} is for trusted callers')} }}",
        f"if (${p}_pool = unknown) {{ {say(404, f'no such instance as {INSTANCE_HEADER} names')} }}",
        f"if (${p}_pool = none) {{ {say(503, 'the service has no instance yet')} }}",
    ]
    logs = [
        f"access_log {quoted(options.access_log)} {p};",
        f"error_log {quoted(options.error_log)} warn;",
    ]
    stranger = f"if (${p}_trusted = '') {{ {say(403, 'for trusted callers only')} }}"
    unreachable = [f"error_page 502 504 = @{p}_unreachable;"]
    blocks = {
        f"= {STATUS_PATH}": [
            "access_log off; default_type application/json;",
            stranger,
            "add_header Cache-Control no-store;",
            f"return 200 ${p}_table;",
        ],
        "/quality/": [
            f"access_log off; {logs[1]} default_type application/json;",
            stranger,
            *refusals,
            *proxy,
        ],
        "/": [
            *logs,
            "default_type application/json;",
            *refusals,
            # Copies are made in a location of their own, see there.
            f"error_page 418 = @{p}_copied; if (${p}_copies) {{ return 418; }}",
            *unreachable,
            *proxy,
        ],
        f"@{p}_copied": [
            *logs,
            *unreachable,
            "recursive_error_pages on;",
            f"mirror /.{p}_copy; mirror_request_body on;",
            # The connection stays busy until the copy is answered too: its next request would wait.
            *_proxy(p, replace(options, keep_clients=False)),
        ],
        f"= /.{p}_copy": [
            "internal; access_log off;",
            *_proxy(p, options, pool=f"${p}_mirror$request_uri"),
            "proxy_set_header X-Quality-Probe 1;",
        ],
        f"@{p}_unreachable": [
            *logs,
            "default_type application/json;",
            say(502, "no instance of the service could answer"),
        ],
    }
    lines = [f"# Locations of the service {service}. Written by `quality`: edits are lost."]
    for place, directives in blocks.items():
        lines += [f"location {place} {{", *(f"    {d}" for d in directives), "}"]
    return "\n".join([*lines, ""])


def _proxy(p: str, options: NginxOptions, pool: str | None = None) -> list[str]:
    return [
        # A worker that leaves closes a connection at the end of its answer. A client that was promised
        # to keep it may be sending the next request in that moment, and lose it.
        *([] if options.keep_clients else ["keepalive_timeout 0;"]),
        f"client_max_body_size {options.body_limit_mb}m; client_body_buffer_size 1m;",
        "gzip off; send_timeout 300s; tcp_nodelay on;",
        "proxy_http_version 1.1; proxy_socket_keepalive on; proxy_redirect off; proxy_cache off;",
        # Tokens go out as they come. The request is read whole first: then an instance that refuses
        # the connection has cost nothing, and a slow upload holds none.
        "proxy_buffering off; proxy_request_buffering on;",
        f"proxy_connect_timeout {options.connect_timeout_s}s; proxy_send_timeout 300s;",
        f"proxy_read_timeout {options.read_timeout_s}s;",
        # Without `non_idempotent`: a POST goes on to another instance only if nothing was sent yet.
        "proxy_next_upstream error timeout; proxy_next_upstream_tries 3;",
        "proxy_set_header Host $http_host;",
        f"proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection ${p}_connection;",
        f"proxy_set_header X-Forwarded-For ${p}_via;",
        f"proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Request-Id ${p}_id;",
        f"proxy_set_header {INSTANCE_HEADER} '';",
        f"add_header {SERVED_BY} ${p}_told always;",
        f"proxy_pass http://{pool or f'${p}_pool'};",
    ]


def _error_body(status: int, message: str) -> str:
    error = {"message": message, "type": "quality_route", "param": None, "code": status}
    return f"return {status} '{json.dumps({'error': error})}';"
