"""Hand-made recordings for the tests of the matrix and its methods."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from bench.faults.fault import Expected
from bench.matrix.recording import FIRST_TOKEN, HEALTHY, SAMPLED, Check, Head, Row, Track

CASES = ("a", "b", "c", "d", "e")
BORDER = (0.5, 0.5, 0.5, 0.01, 0.5, 0.5, 0.5, 0.5)
"""Gaps of a scored answer: a close race at the position where forks are made."""


def head(check_id: str = "c", start: int = 1, **changed: Any) -> Head:
    given = {"server": f"server-{start}", "track": Track.DETERMINISTIC, **changed}
    return Head(check_id, start, **given)


def check(*rows: Row, check_id: str = "c", start: int = 1, **changed: Any) -> Check:
    return Check(head(check_id, start, **changed), rows)


def made(
    check_id: str,
    start: int,
    *,
    shift: float = 0.0,
    forks: int = 0,
    noise: float = 0.0,
    track: Track = Track.DETERMINISTIC,
    fault: str = HEALTHY,
    block: int = 0,
    **changed: Any,
) -> Check:
    """Make a whole check: log-probabilities moved by ``shift`` and noise, some answers forked."""
    draws = random.Random(check_id)

    def lp(position: int) -> float:
        return -1.0 - 0.1 * position + shift + (draws.gauss(0, noise) if noise else 0.0)

    rows = []
    for number, case in enumerate(CASES):
        ids = tuple(range(10, 18))
        out = (*ids[:3], 99, *ids[4:]) if number < forks else ids
        common: dict[str, Any] = {"prompt_tokens": 20, "tokens_in": 20, "tokens_out": 8}
        logprobs = tuple(lp(p) for p in range(8))
        rows += [
            Row(case, "greedy", 1, out, logprobs, text=f"{case} {out[3]}", prompt_digest="d", **common),
            Row(case, "seeded", 1, out, logprobs, prompt_digest="d", **common),
            Row(case, "chat_scored", 1, ids, logprobs, ids, (0.5,) * 8, prompt_digest="d", **common),
            Row(case, "raw_scored", 1, ids, logprobs, out, BORDER, prompt_digest="d", **common),
        ]  # fmt: skip
        rows += [
            Row(case, SAMPLED, attempt, tuple(draws.randrange(10, 14) for _ in range(8)),
                replay_logprobs=tuple(lp(p) for p in range(8)),
                replay_ranks=tuple(draws.randrange(1, 4) for _ in range(8)), **common)
            for attempt in (1, 2)
        ]  # fmt: skip
    rows.append(
        Row("x", FIRST_TOKEN, 1, (5,), top_ids=(5, 6, 7), top_logprobs=(lp(0), lp(1), lp(2)),
            tokens_in=1, tokens_out=1)
    )  # fmt: skip
    given = {"track": track, "fault": fault, "block": block, **changed}
    return Check(head(check_id, start, **given), tuple(rows))


def faulty(check_id: str, start: int, **changed: Any) -> Check:
    given: dict[str, Any] = {
        "fault": "int8", "kind": "int8 weights", "number": 5, "expected": Expected.CHANGED, "shift": -0.4, "forks": 2,
        **changed,
    }  # fmt: skip
    return made(check_id, start, **given)


def recorded(noise: float = 0.01) -> list[Check]:
    """Make a small whole matrix: two starts, both tracks, a fault and a control."""
    checks = []
    for track, own in ((Track.DETERMINISTIC, 0.0), (Track.NOISY, noise)):
        for start in (1, 2, 3, 4):
            checks += [
                made(f"{track}-{start}-{n}", start, noise=own, track=track, block=n % 3)
                for n in range(8)
            ]
        checks += [
            faulty(f"{track}-int8-{n}", 2, noise=own, track=track, is_gross=True) for n in range(5)
        ]
        checks += [
            faulty(f"{track}-tiny-{n}", 2, noise=own, track=track, shift=-0.2, forks=0, number=18,
                   fault=f"noise-2^-7-{n}", kind="TinyChange noise")
            for n in range(3)
        ]  # fmt: skip
    checks.append(made("load", 4, fault="load-32", kind="load", expected=Expected.SILENT, load=32))
    return checks


def changed(one: Check, channel: str, **fields: Any) -> Check:
    """Return the check with some fields of a channel's rows replaced."""
    rows = tuple(
        dataclasses.replace(row, **fields) if row.channel == channel else row for row in one.rows
    )
    return Check(one.head, rows)
