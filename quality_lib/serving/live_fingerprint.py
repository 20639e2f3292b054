"""What the readings of the workers say together: roots, layout, and which tensors changed.

A fingerprint is the text ``v1-LAYOUT-ROOT``. The layout covers what lies in memory before any value
does: names, types and shapes, ranks, and the kind of device that weights are packed for. Two
fingerprints may be compared only when their layouts are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quality_lib.serving.live_tensors import JUDGED, LiveTensor

FORMAT = "v1"
MAX_CHANGED = 50
"""Changed tensors that an answer names; it tells their number too."""


def tensor_line(tensor: LiveTensor, checksum: str) -> str:
    """Return one tensor's line: kind, type, shape, checksum."""
    return f"{tensor.kind} {tensor.dtype} {'x'.join(map(str, tensor.shape))} {checksum}"


def root_of(lines: Mapping[str, str]) -> str:
    """Return SHA-256 over the judged lines, sorted by name; 64 hexadecimal digits."""
    return _sha(f"{name} {line}" for name, line in sorted(lines.items()) if is_judged(line))


def layout_of(place: str, tensors: Sequence[LiveTensor]) -> str:
    """Return 16 digits that are equal where fingerprints may be compared."""
    shapes = sorted(tensor_line(t, t.name) for t in tensors if t.kind in JUDGED)
    return _sha([place, *shapes])[:16]


def is_judged(line: str) -> bool:
    """Return whether a change of this tensor is a change of the weights."""
    return line.partition(" ")[0] in JUDGED


def compare(loaded: Mapping[str, str], now: Mapping[str, str]) -> list[dict[str, Any]]:
    """Name the tensors whose line differs, those that are judged first."""
    changed = [
        {
            "name": name,
            "kind": (now.get(name) or loaded[name]).partition(" ")[0],
            "judged": is_judged(now.get(name) or loaded[name]),
            "loaded": loaded.get(name),
            "now": now.get(name),
        }
        for name in sorted(loaded.keys() | now.keys())
        if loaded.get(name) != now.get(name)
    ]
    return sorted(changed, key=lambda one: not one["judged"])


def merged(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the results of all ranks together as the answer of ``/quality/weights``."""
    ranks = sorted(results, key=lambda result: str(result["rank"]))
    changed = [{"rank": rank["rank"], **one} for rank in ranks for one in rank["changed"]]
    judged = [one for one in changed if one["judged"]]
    return {
        "format": FORMAT,
        "fingerprint": _fingerprint(ranks, "root"),
        "loaded_fingerprint": _fingerprint(ranks, "loaded_root"),
        "is_first": all(rank["is_first"] for rank in ranks),
        "changed_tensors": len(judged),
        "changed": judged[:MAX_CHANGED],
        "restless": [one for one in changed if not one["judged"]][:MAX_CHANGED],
        "tensors": sum(rank["tensors"] for rank in ranks),
        "bytes": sum(rank["bytes"] for rank in ranks),
        "unseen": [{"rank": rank["rank"], **one} for rank in ranks for one in rank["unseen"]],
        # Ranks read beside each other: the slowest is what a request may have waited for.
        "seconds": max(rank["seconds"] for rank in ranks),
        "longest_call_s": max(rank["longest_call_s"] for rank in ranks),
        "ranks": [
            {key: value for key, value in rank.items() if key not in {"changed", "unseen"}}
            for rank in ranks
        ],
    }


def _fingerprint(ranks: Sequence[Mapping[str, Any]], root: str) -> str:
    layout = _sha(f"{rank['rank']} {rank['layout']}" for rank in ranks)[:16]
    roots = _sha(f"{rank['rank']} {rank[root]}" for rank in ranks)
    return f"{FORMAT}-{layout}-{roots}"


def _sha(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
