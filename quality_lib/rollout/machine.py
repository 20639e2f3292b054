"""What comes next in a rollback, what may be asked for, and what an abort goes back to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from quality_lib.errors import BadInput
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.moves import serving_names, spread
from quality_lib.rollout.plan import backends
from quality_lib.rollout.ports import FULL, RouteTable
from quality_lib.rollout.strategy import ORDER, StepName


@dataclass(frozen=True)
class Step:
    """A step by name and, for a move, by number."""

    name: StepName
    index: int | None = None

    def __str__(self) -> str:
        return self.name.value if self.index is None else f"{self.name.value} {self.index}"


class Turn(StrEnum):
    """What a process that wants to do a step has to do."""

    GO = "go"
    DONE = "done"
    """It is finished: say so again."""
    BACK = "back"
    """A check failed or somebody asked for an abort: only an abort goes on from here."""
    CLOSED = "closed"


def steps_of(journal: Journal) -> tuple[Step, ...]:
    """Return the whole way forward."""
    return tuple(
        step
        for name in ORDER
        for step in (
            (Step(name, move.index) for move in journal.plan.moves)
            if name is StepName.MOVE
            else (Step(name),)
        )
    )


def next_step(journal: Journal) -> Step | None:
    """Return what comes next; ``None`` when the incident is closed."""
    if journal.is_closed:
        return None
    if journal.bad is not None or journal.abort is not None:
        return Step(StepName.ABORT)
    todo = (step for step in steps_of(journal) if not journal.is_done(step.name, step.index))
    return next(todo, None)


def has_moved(journal: Journal) -> bool:
    """Whether the target serves everything and nothing speaks against it: only the end is missing."""
    return (
        not journal.is_closed
        and journal.bad is None
        and journal.abort is None
        and all(journal.is_done(StepName.MOVE, move.index) for move in journal.plan.moves)
    )


def turn(journal: Journal, step: Step) -> Turn:
    """Say whether a step is to be done now.

    Raises:
        BadInput: there is no such step in the plan, or one before it is not finished.
    """
    order = steps_of(journal)
    if step.name in {StepName.ABORT, StepName.STOP_STAGING}:
        return Turn.CLOSED if journal.is_closed and step.name is StepName.ABORT else Turn.GO
    if step not in order:
        known = ", ".join(map(str, order))
        raise BadInput(f"the plan has no step '{step}'", fix=f"use one of: {known}")
    if journal.is_done(step.name, step.index):
        return Turn.DONE
    if journal.is_closed:
        return Turn.CLOSED
    if journal.bad is not None or journal.abort is not None:
        return Turn.BACK
    first = next_step(journal)
    if first != step:
        raise BadInput(f"'{step}' cannot be done before '{first}'", fix=f"do '{first}' first")
    return Turn.GO


def table_of(journal: Journal, weights: Mapping[str, int]) -> RouteTable:
    """Return the table for weights by backend; a mirror that is left in it stays the mirror."""
    start = journal.plan.starting
    mirror = start.mirror if start.mirror in weights else None
    return RouteTable(
        start.service,
        backends(weights, journal.addresses),
        mirror=mirror,
        mirror_percent=start.mirror_percent,
    )


def prepared_table(journal: Journal) -> RouteTable:
    """Return the starting table with every new instance beside it, without weight."""
    names = {replica.name: 0 for replica in journal.fresh}
    return table_of(journal, {**journal.plan.starting.weights(), **names})


def is_ours(journal: Journal, table: RouteTable) -> bool:
    """Whether a table is one that this rollback found or could have made.

    Anything else was put there by somebody else, whose reasons we do not know.
    """
    plan, addresses = journal.plan, journal.addresses
    if any(addresses.get(b.name) != b.address for b in table.backends):
        return False
    weights = {name: weight for name, weight in table.weights().items() if weight > 0}
    made = [plan.starting.weights()]
    for move in plan.moves:
        made += [move.weights] if move.without is None else [move.without, move.weights]
    known = [{n: w for n, w in one.items() if w > 0} for one in made]
    return weights in known or (journal.table is not None and weights == _weighted(journal.table))


@dataclass(frozen=True)
class WayBack:
    """What an abort puts into force."""

    table: RouteTable | None
    """``None``: nobody is alive, so the route stays as it is."""
    keeps: frozenset[str]
    """New backends that must go on serving, because what they replaced is gone."""
    sentence: str


def way_back(journal: Journal, alive: AbstractSet[str]) -> WayBack:
    """Return the table of an abort: the starting one exactly, as long as all who served are alive.

    A dead one is stood in for by the new instance that was to replace it, else by the others. Who is
    alive decides before what is wanted: there is never a table of dead backends alone.
    """
    start = journal.plan.starting
    weights = start.weights()
    serving = serving_names(weights)
    dead = [name for name in serving if name not in alive]
    if not dead:
        return WayBack(start, frozenset(), "the starting weights are back")
    stand_ins = dict(zip(serving, journal.plan.fresh, strict=True))
    kept = {name: weights[name] for name in serving if name in alive}
    kept |= {new: weights[old] for old in dead if (new := stand_ins[old]) in alive}
    if not kept:
        return WayBack(
            None,
            frozenset(),
            "nobody who could serve is alive: the route stays as it is, a person has to act",
        )
    keeps = frozenset(kept) - frozenset(serving)
    gone = ", ".join(dead)
    served_by = ", ".join(kept)
    return WayBack(
        table_of(journal, spread(FULL, kept)),
        keeps,
        f"{gone} cannot serve any more, so not all starting weights are back: {served_by} serve",
    )


def _weighted(table: RouteTable) -> dict[str, int]:
    return {b.name: b.weight for b in table.backends if b.weight > 0}
