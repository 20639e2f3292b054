"""The nginx configuration of one route, as text. Nothing here touches a file or a process.

Two files besides the main one. ``http_text`` belongs into nginx's ``http`` block and changes with every table; all that
depends on a table is in variables and upstreams it defines. ``server_text`` (in
``nginx_locations``) belongs into the ``server`` block and stays as it is, so that one rename puts a whole new table into force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quality_lib.adapters.nginx.options import NginxOptions, prefix, quoted
from quality_lib.rollout.ports import FULL, Backend, RouteTable

_PIECE = 2000

KEEP_CLIENTS_SINCE = (1, 27, 4)
"""The release of nginx that can do so (``keepalive_min_timeout``)."""
KEEP_BACKENDS_S = 3
"""Below the 5 seconds after which vLLM closes an idle connection: a request that meets the close is
lost, because no POST is sent twice."""


def table_json(service: str, table: RouteTable | None, revision: str) -> str:
    """Return what the running proxy tells of itself; without quotes or signs that nginx would read."""
    data: dict[str, Any] = {"service": service, "revision": revision, "backends": []}
    if table is not None:
        data["backends"] = [vars(b) for b in table.backends]
        data |= {"mirror": table.mirror, "mirror_percent": table.mirror_percent}
    return json.dumps(data)


def read_table(data: Mapping[str, Any]) -> RouteTable | None:
    """Return the table that a proxy has told; ``None`` when it has been given none yet."""
    if not data["backends"]:
        return None
    return RouteTable(
        service=data["service"],
        backends=tuple(Backend(**one) for one in data["backends"]),
        mirror=data["mirror"],
        mirror_percent=data["mirror_percent"],
    )


def http_text(
    service: str,
    table: RouteTable | None,
    revision: str,
    resolved: Mapping[str, str],
    options: NginxOptions,
) -> str:
    """Return the file for the ``http`` block.

    ``resolved`` gives the ``ip:port`` of each backend's address.
    """
    p = prefix(service)
    backends = table.backends if table else ()
    return "\n".join([
        f"# Route of the service {service}, revision {revision}. Written by `quality`: edits are lost.",
        *_pools(p, backends, resolved),
        f"geo ${p}_friend {{ default 0; {' '.join(f'{one} 1;' for one in options.trusted)} }}",
        # Behind another proxy the address is that proxy's, and says nothing of the caller.
        f'map "${p}_friend|$http_x_forwarded_for$http_forwarded$http_x_real_ip" ${p}_trusted {{',
        '    "1|" 1; default "";',
        "}",
        f"map $http_x_quality_instance ${p}_pool {{",
        f'    "" {p if backends else "none"}; default unknown;',
        # As patterns: the table of plain words has no room for long names.
        *(f'    "~^{b.name}$" {p}_to_{b.name};' for b in backends),
        "}",
        f'map "${p}_trusted|$http_x_quality_instance" ${p}_forbidden {{',
        '    "~^[|]." 1; default "";',
        "}",
        f"map $upstream_addr ${p}_backend {{",
        '    default "";',
        *(f'    "~(^|[ ,]){re.escape(resolved[b.address])}$" {b.name};' for b in backends),
        "}",
        f"map ${p}_trusted ${p}_told {{ 1 ${p}_backend; default ''; }}",
        f'map $http_x_request_id ${p}_id {{ "" $request_id; default $http_x_request_id; }}',
        # To the instance's own pages a trusted caller comes as directly as without the proxy.
        f"map $uri ${p}_via {{",
        "    ~^/quality/ ''; default $proxy_add_x_forwarded_for;",
        "}",
        f'map $http_upgrade ${p}_connection {{ "" ""; default upgrade; }}',
        *_mirror_switch(p, table),
        *_told_table(p, table_json(service, table, revision)),
        *_log_format(p, revision),
        "",
    ])


def main_text(listen: str, http_file: Path, server_file: Path, options: NginxOptions) -> str:
    """Return the whole configuration of an nginx that serves this route alone."""
    keeps = options.version >= KEEP_CLIENTS_SINCE
    folder = options.folder
    temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "\n".join([
        "# Written by `quality`: edits are lost.",
        *([f"user {options.user};"] if options.user else []),
        f"worker_processes {options.workers};",
        "worker_rlimit_nofile 16384;",
        f"worker_shutdown_timeout {options.finish_timeout_s}s;",
        f"pid {quoted(folder / 'nginx.pid')};",
        f"error_log {quoted(options.error_log)} warn;",
        "events { worker_connections 8192; }",
        "http {",
        *(f"    {name}_temp_path {quoted(folder / 'temporary' / name)};" for name in temporary),
        "    access_log off; server_tokens off; tcp_nodelay on;",
        # A connection that sends nothing would hold an old worker, and its old table.
        "    client_header_timeout 10s; keepalive_timeout 65s; keepalive_requests 100000;",
        *([f"    keepalive_min_timeout {options.keep_idle_s}s;"] if keeps else []),
        f"    include {quoted(http_file)};",
        "    server {",
        f"        listen {listen} backlog=4096;",
        f"        include {quoted(server_file)};",
        "    }",
        "}",
        "",
    ])


def trial_text(http_file: Path, server_file: Path, options: NginxOptions) -> str:
    """Return a configuration around two files that are to be checked and not yet used."""
    return main_text("127.0.0.1:1", http_file, server_file, options)


def _pools(p: str, backends: Sequence[Backend], resolved: Mapping[str, str]) -> list[str]:
    """Return the pool that splits, and one for each backend that is asked by name."""
    keep = f"keepalive 64; keepalive_timeout {KEEP_BACKENDS_S}s;"
    lines = []
    if backends:
        lines += [f"upstream {p} {{", f"    zone {p} 256k;"]
        lines += [
            f"    server {resolved[b.address]} weight={b.weight} max_fails=3 fail_timeout=5s;"
            for b in backends
            if b.weight > 0  # nginx knows no weight of 0
        ]
        lines += [f"    {keep}", "}"]
    for b in backends:
        server = f"server {resolved[b.address]} max_fails=0;"
        lines += [f"upstream {p}_to_{b.name} {{ {server} {keep} }}"]
    return lines


def _mirror_switch(p: str, table: RouteTable | None) -> list[str]:
    if table is None or table.mirror is None:
        return [
            f'map $uri ${p}_copies {{ default ""; }}',
            f"map $uri ${p}_mirror {{ default none; }}",
        ]
    share = "*" if table.mirror_percent == FULL else f"{table.mirror_percent}%"
    rest = "" if table.mirror_percent == FULL else ' * "";'
    return [
        f"split_clients $request_id ${p}_draw {{ {share} 1;{rest} }}",
        f'map "$http_x_quality_instance|${p}_draw" ${p}_copies {{ "|1" 1; default ""; }}',
        f"map $uri ${p}_mirror {{ default {p}_to_{table.mirror}; }}",
    ]


def _told_table(p: str, text: str) -> list[str]:
    """Return the variable that holds the table; in pieces, because nginx reads no word above 4 KiB."""
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    whole = "".join(f"${{{p}_piece{n}}}" for n in range(len(pieces)))
    return [
        *(f"map $uri ${p}_piece{n} {{ default '{piece}'; }}" for n, piece in enumerate(pieces)),
        f'map $uri ${p}_table {{ default "{whole}"; }}',
    ]


def _log_format(p: str, revision: str) -> list[str]:
    # Times and sizes that may be "-" or a list stand in quotes.
    fields = {
        "end": "$msec",
        "took": "$request_time",
        "id": f'"${p}_id"',
        "method": '"$request_method"',
        "path": '"$uri"',
        "status": '"$status"',
        "backend": f'"${p}_backend"',
        "upstream": '"$upstream_addr"',
        "upstream_status": '"$upstream_status"',
        "connect": '"$upstream_connect_time"',
        "first": '"$upstream_header_time"',
        "answer": '"$upstream_response_time"',
        "sent": "$body_bytes_sent",
        "received": "$request_length",
        "done": '"$request_completion"',
        "asked": '"$http_x_quality_instance"',
        "copied": f'"${p}_copies"',
        "pid": "$pid",
        "connection": "$connection",
        "revision": f'"{revision}"',
    }
    text = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return [f"log_format {p} escape=json '{{{text}}}';"]
