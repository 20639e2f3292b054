"""Files that only their owner may read, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600; its folder is made with mode 0700."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # The mode is set at creation: nobody can open the file in between.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def kept_secret(path: Path, size: int = 24) -> str:
    """Return the random secret that the file holds; make one the first time."""
    try:
        if secret := path.read_text(encoding="utf-8").strip():
            path.chmod(0o600)
            return secret
    except FileNotFoundError:
        pass
    secret = secrets.token_urlsafe(size)
    write_private(path, secret + "\n")
    return secret
