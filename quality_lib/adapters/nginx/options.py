"""What nginx calls things, and what of its configuration does not change with the table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quality_lib.errors import BadInput

STATUS_PATH = "/quality/route"
_SERVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PATH = re.compile(r"[^\x00-\x1f\x7f\"\\$]+")
_LONGEST = 20
"""nginx finds variables in a table with room for 46 letters."""


@dataclass(frozen=True)
class NginxOptions:
    """What does not change with the table."""

    folder: Path
    """Where logs and pid file lie."""
    trusted: Sequence[str]
    """Addresses and networks; checked by the settings."""
    connect_timeout_s: int = 5
    read_timeout_s: int = 3600
    finish_timeout_s: int = 3600
    keep_clients: bool = False
    """Whether clients keep their connections between requests."""
    keep_idle_s: int = 3
    """A client's idle connection is kept so long after a reload: it may be about to send a request."""
    body_limit_mb: int = 64
    workers: int = 2
    user: str = ""
    """Whom workers run as, ``user group``; empty: nginx's own choice."""
    version: tuple[int, ...] = ()
    """Of the nginx that will read it; empty: unknown, so nothing new is used."""

    @property
    def access_log(self) -> Path:
        """One JSON object per finished request."""
        return self.folder / "access.log"

    @property
    def error_log(self) -> Path:
        """Tells answers that an instance broke off from those that a client left."""
        return self.folder / "error.log"


def prefix(service: str) -> str:
    """Return what every name of the service begins with in nginx.

    Raises:
        BadInput: the service's name cannot stand in a configuration file.
    """
    if not _SERVICE.fullmatch(service):
        raise BadInput(
            f"a route cannot be made for a service called {service!r}",
            fix="use letters, digits, '-', '_' and '.', at most 63 of them",
        )
    plain = re.sub(r"[^a-z0-9]", "_", service)
    if plain != service or len(plain) > _LONGEST:
        # nginx does not tell "Chat" from "chat"; the digest does.
        plain = f"{plain[: _LONGEST - 9]}_{hashlib.sha256(service.encode()).hexdigest()[:8]}"
    return f"quality_{plain}"


def quoted(path: Path) -> str:
    """Return a path as nginx reads it.

    Raises:
        BadInput: it holds a sign that nginx would take for its own.
    """
    text = str(path.absolute())
    if not _PATH.fullmatch(text):
        raise BadInput(
            f"{text!r} cannot stand in an nginx configuration",
            fix="use a folder without quotes, backslashes and dollar signs",
        )
    return f'"{text}"'
