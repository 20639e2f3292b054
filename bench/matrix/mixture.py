"""Row 20 and the third track: faults that hit a share of the requests, composed from real recordings.

Each probe of a composed check is the recorded one of a harmed server or, else, of a healthy check of the same half.
What is lost against a real mixture: a harmed request beside healthy ones in one batch.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from bench.faults.weight_steps import seed_of
from bench.matrix.recording import Check, Track
from quality_lib.errors import BadInput

SHARES = (0.002, 0.008, 0.02, 0.05, 0.16)
"""0.8 % and 16 % are those of the best known outage of this kind (Anthropic, September 2025)."""


def mixed(healthy: Check, faulty: Check, share: float, seed: int, *, is_sticky: bool) -> Check:
    """Compose one check: every probe (iid), or every case as a session (sticky), is hit by chance."""
    if not 0 < share <= 1:
        raise BadInput(f"a share of {share} of the requests is impossible")
    draws = random.Random(seed_of(seed, healthy.head.check_id, faulty.head.check_id, str(share)))
    by_key = {row.key: row for row in faulty.rows}
    luck: dict[object, bool] = {}
    rows = []
    for row in healthy.rows:
        unit = row.case_id if is_sticky else row.key
        if unit not in luck:
            luck[unit] = draws.random() < share
        rows.append(by_key.get(row.key, row) if luck[unit] else row)
    head = dataclasses.replace(
        faulty.head,
        check_id=f"{faulty.head.check_id}+{healthy.head.check_id}@{share}",
        track=Track.MIXTURE,
        share=share,
        number=20,
    )
    return Check(head, tuple(rows))


def mixtures(
    healthy: Sequence[Check], faulty: Sequence[Check], share: float, count: int, seed: int
) -> list[Check]:
    """Compose some checks of one fault, pairs drawn with replacement; half of them sticky."""
    if not healthy or not faulty:
        return []
    draws = random.Random(seed_of(seed, faulty[0].head.fault, str(share)))
    return [
        mixed(draws.choice(healthy), draws.choice(faulty), share, seed + n, is_sticky=bool(n % 2))
        for n in range(count)
    ]
