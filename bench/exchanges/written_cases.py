"""Read the hand-written cases of ``written/*.txt``.

A case is a head line, ``#### kind`` with an optional JSON object of further fields, the prompt, a line ``>>>>`` and
the answer. ``text`` in the head stands instead of the answer where it cannot be written as lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).parent / "written"
HEAD = "#### "
ANSWER = ">>>>"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the cases of a file in the short form, without ids."""
    cases: list[dict[str, Any]] = []
    for block in ("\n" + path.read_text("utf-8")).split("\n" + HEAD)[1:]:
        head, _, body = block.partition("\n")
        kind, _, extra = head.partition(" ")
        prompt, mark, text = body.partition(f"\n{ANSWER}")
        if not mark:
            raise ValueError(f"{path.name}: the case '{head}' has no line {ANSWER}")
        row = {"kind": kind, "prompt": prompt, "text": text.strip("\n"), "finish_reason": "stop"}
        cases.append({**row, "source": "written by hand", **(json.loads(extra) if extra else {})})
    return cases
