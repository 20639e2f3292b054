"""What a server's log says about its end."""

from __future__ import annotations

import re
from pathlib import Path

from quality_lib.adapters.machine.file_tail import tail

TAIL_BYTES = 256 * 1024

_PREFIX = re.compile(
    r"^(\([\w.\- ]+ pid=\d+\)\s*)?((INFO|WARNING|ERROR|CRITICAL)\s+[\d-]+ [\d:]+ (\[[^\]]*\]\s?)?)?"
)
_ERROR = re.compile(
    r"^([\w.]+\.)?\w*(Error|Exception|Exit)\b\s*:|^[\w./-]+: error: |^Traceback|^Killed"
)
_SYMPTOM = re.compile(r"See root cause above|^Traceback")


def last_errors(log: Path, limit: int = 3) -> tuple[str, ...]:
    """Return the last lines that tell an error, without log prefixes, the root cause first.

    Without any such line: the last lines there are. Empty for an empty or missing log.
    """
    try:
        text, _ = tail(log, TAIL_BYTES)
    except OSError:
        return ()
    bare = [_PREFIX.sub("", line).strip() for line in text.splitlines()]
    errors = list(dict.fromkeys(line for line in bare if _ERROR.match(line)))
    # vLLM's workers raise first, the server then says that something went wrong "above".
    causes = [line for line in errors if not _SYMPTOM.search(line)]
    chosen = causes or errors or [line for line in bare if line]
    return tuple(line[:400] for line in chosen[-limit:])
