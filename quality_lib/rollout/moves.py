"""The weights that a rollback goes through, one move after the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quality_lib.rollout.ports import FULL
from quality_lib.rollout.strategy import Strategy


@dataclass(frozen=True)
class Move:
    """One step of the traffic."""

    index: int
    name: str
    """For people: ``25 %``, or ``replica 2 of 3``."""
    weights: Mapping[str, int]
    """Backend → percent when the move is done; who is not named has left the table."""
    without: Mapping[str, int] | None = None
    """Rolling: the weights while the replaced replica is out and the new one starts."""
    replaces: str | None = None
    """Rolling: the old backend that goes in this move."""
    adds: str | None = None
    """Rolling: the new backend that comes in its place."""

    @property
    def is_last(self) -> bool:
        """Whether a move of surge takes all traffic to the target."""
        return self.name == _percent(FULL)


def spread(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide a whole number in proportion; the largest remainders get what rounding leaves.

    Without any share it is divided evenly.
    """
    whole = sum(shares.values())
    wanted = {n: total * s / whole if whole else total / len(shares) for n, s in shares.items()}
    given = {name: int(share) for name, share in wanted.items()}
    # The sort is stable, so that the same plan comes out every time.
    by_remainder = sorted(wanted, key=lambda name: given[name] - wanted[name])
    for name in by_remainder[: total - sum(given.values())]:
        given[name] += 1
    return given


def moves_of(
    strategy: Strategy, start: Mapping[str, int], fresh: Sequence[str], step_percent: int
) -> tuple[Move, ...]:
    """Return the moves from the starting weights to the target's instances.

    ``fresh`` names one new backend for every old one that serves, in the order of ``start``. An old
    backend without weight stays as it is.
    """
    if strategy is Strategy.ROLLING:
        return _rolling(start, fresh)
    if strategy is Strategy.IN_PLACE:
        rest = {name: 0 for name, weight in start.items() if weight == 0}
        return (Move(0, _percent(FULL), {**rest, fresh[0]: FULL}),)
    steps = range(step_percent, FULL + 1, step_percent)
    serving = serving_names(start)
    return tuple(
        Move(
            index,
            _percent(share),
            {
                **dict.fromkeys(start, 0),
                **spread(FULL - share, {name: start[name] for name in serving}),
                # As loaded as the one that it stands for.
                **spread(share, {new: start[old] for new, old in zip(fresh, serving, strict=True)}),
            },
        )
        for index, share in enumerate(steps)
    )


def serving_names(start: Mapping[str, int]) -> tuple[str, ...]:
    """Return the backends that get requests, in the table's order."""
    return tuple(name for name, weight in start.items() if weight > 0)


def _rolling(start: Mapping[str, int], fresh: Sequence[str]) -> tuple[Move, ...]:
    moves = []
    now = dict(start)
    old = serving_names(start)
    for index, (gone, new) in enumerate(zip(old, fresh, strict=True)):
        others = {name: weight for name, weight in now.items() if name != gone}
        after = {**others, new: now[gone]}
        moves.append(
            Move(
                index,
                f"replica {index + 1} of {len(old)}",
                after,
                # Still named, so that the route can tell when its last request has ended.
                without={
                    **dict.fromkeys(now, 0),
                    **spread(FULL, {n: w for n, w in others.items() if w > 0}),
                },
                replaces=gone,
                adds=new,
            )
        )
        now = after
    return tuple(moves)


def _percent(share: int) -> str:
    return f"{share} %"
