"""The plan of a rollback: what happens, in which order, how long it takes, who serves meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quality_lib.errors import BadInput
from quality_lib.rollout.moves import Move, moves_of, serving_names
from quality_lib.rollout.ports import Backend, RouteTable
from quality_lib.rollout.strategy import ORDER, StepName, Strategy, check_strategy

_LONGEST_NAME = 63


@dataclass(frozen=True)
class Candidate:
    """A snapshot that the rollback may go back to."""

    snapshot_id: str
    number: int
    created_at: str


@dataclass(frozen=True)
class Choices:
    """What the operator or the configuration has chosen."""

    strategy: Strategy = Strategy.SURGE
    step_percent: int = 25
    soak_s: float = 60.0
    staging: str = "instance"
    min_capacity: int = 1
    core_cases: int = 10
    keep_retired_minutes: float = 30.0
    drain_timeout_s: float = 600.0


@dataclass(frozen=True)
class Costs:
    """Seconds as measured earlier; ``None``: never measured here."""

    start: float | None = None
    """From the start of a server until it serves."""
    validate: float | None = None
    """Re-hashing and the full golden set together, without the start."""
    check: float | None = None
    """The core cases."""
    source: str = "nothing has been measured here yet"
    """Where the numbers come from, as half a sentence."""


@dataclass(frozen=True)
class PlanStep:
    """One line of the plan."""

    name: str
    what: str
    expected_s: float | None
    """``None``: not measured yet."""


@dataclass(frozen=True)
class Plan:
    """Printed, kept and approved as one thing."""

    service: str
    strategy: Strategy
    choices: Choices
    candidates: tuple[Candidate, ...]
    """The first is the target; each other one is tried when those before it fail validation."""
    starting: RouteTable
    """What an abort goes back to."""
    fresh: tuple[str, ...]
    """Names of the new backends, one for each old one that serves."""
    steps: tuple[PlanStep, ...]
    moves: tuple[Move, ...]
    capacity: str
    outage_s: float | None
    """Seconds without service: 0.0 for none, ``None`` for an outage of unknown length."""
    costs: Costs

    @property
    def has_outage(self) -> bool:
        """Whether nobody serves for a while."""
        return self.strategy is Strategy.IN_PLACE

    @property
    def expected_s(self) -> float | None:
        """The whole time; ``None`` as long as a part of it was never measured."""
        parts = [step.expected_s for step in self.steps]
        return None if None in parts else sum(part for part in parts if part is not None)

    @property
    def old(self) -> tuple[str, ...]:
        """The backends that are replaced."""
        return serving_names(self.starting.weights())

    @property
    def headline(self) -> str:
        """One line for a message or a title."""
        target = self.candidates[0]
        outage = ""
        if self.has_outage:
            length = (
                "of unknown length" if self.outage_s is None else f"of about {self.outage_s:.0f} s"
            )
            outage = f", with an outage {length}"
        return (
            f"roll '{self.service}' back to snapshot {target.snapshot_id[:12]} "
            f"(#{target.number}), {self.strategy.value}{outage}"
        )


def make_plan(
    incident_id: str,
    starting: RouteTable,
    candidates: Sequence[Candidate],
    choices: Choices,
    costs: Costs,
) -> Plan:
    """Put the plan together.

    Raises:
        BadInput: the strategy does not fit what serves, or there is no candidate.
    """
    if not candidates:
        raise BadInput(
            f"'{starting.service}' has no healthy snapshot to go back to",
            fix="name one: --target REF; 'quality snapshot list' shows them",
        )
    weights = starting.weights()
    old = serving_names(weights)
    check_strategy(choices.strategy, old, choices.min_capacity)
    fresh = tuple(backend_name(incident_id, number) for number in range(1, len(old) + 1))
    moves = moves_of(choices.strategy, weights, fresh, choices.step_percent)
    outage = {Strategy.IN_PLACE: costs.start}.get(choices.strategy, 0.0)
    return Plan(
        service=starting.service,
        strategy=choices.strategy,
        choices=choices,
        candidates=tuple(candidates),
        starting=starting,
        fresh=fresh,
        steps=_steps(choices, costs, len(old), moves, candidates),
        moves=moves,
        capacity=_capacity(choices, len(old)),
        outage_s=outage,
        costs=costs,
    )


def backend_name(incident_id: str, number: int) -> str:
    """Return the name of a new backend: unlike that of any other incident, and right for a proxy."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in incident_id.lower())
    suffix = f"-r{number}"
    return (plain[-(_LONGEST_NAME - len(suffix)) :].lstrip("-") or "new") + suffix


def backends(weights: Mapping[str, int], addresses: Mapping[str, str]) -> tuple[Backend, ...]:
    """Return a table's backends for weights by name."""
    return tuple(Backend(name, addresses[name], weight) for name, weight in weights.items())


def _steps(
    choices: Choices,
    costs: Costs,
    replicas: int,
    moves: Sequence[Move],
    candidates: Sequence[Candidate],
) -> tuple[PlanStep, ...]:
    strategy = choices.strategy
    others = len(candidates) - 1
    also = f"; if it fails, the next older of {others} more" if others else "; there is no other"
    rehash = f"re-hash the files of {candidates[0].snapshot_id[:12]}"
    if choices.staging == "skip":
        validate = f"{rehash}; NO staging instance, by choice: the golden set is not asked{also}"
        validate_s: float | None = None if costs.validate is None else 0.0
    else:
        validate = f"{rehash}, start it in staging, ask the full golden set{also}"
        validate_s = _sum(costs.start, costs.validate)
    promoted = choices.staging == "instance" and strategy is Strategy.SURGE
    what = {
        StepName.VALIDATE: (validate, validate_s),
        StepName.START: _start_line(strategy, replicas, promoted, costs),
        StepName.CHECK: (
            "each replica is checked as it comes"
            if strategy is Strategy.ROLLING
            else f"warm up and ask {choices.core_cases} core cases, past the weights",
            0.0 if strategy is Strategy.ROLLING else costs.check,
        ),
        StepName.MOVE: _move_line(choices, moves, costs),
        StepName.RETIRE: _retire_line(choices),
        StepName.RECOVER: ("ask the core cases through the route, mark the snapshots", costs.check),
        StepName.REPORT: ("write the post-mortem", 0.0),
    }
    return tuple(PlanStep(name.value, *what[name]) for name in ORDER)


def _start_line(
    strategy: Strategy, replicas: int, promoted: bool, costs: Costs
) -> tuple[str, float | None]:
    if strategy is Strategy.ROLLING:
        return "nothing yet: there is no spare hardware", 0.0
    if strategy is Strategy.IN_PLACE:
        return (
            "keep the old instance's evidence, stop it, start the target; "
            "if that fails, start the old one again",
            costs.start,
        )
    more = replicas - promoted
    first = "the staging instance becomes the new one" if promoted else ""
    rest = f"start {more} new instance{'s' if more > 1 else ''}" if more else ""
    text = " and ".join(part for part in (first, rest) if part)
    return f"{text}; in the route with weight 0", costs.start if more else 0.0


def _move_line(choices: Choices, moves: Sequence[Move], costs: Costs) -> tuple[str, float | None]:
    names = ", ".join(move.name for move in moves)
    if choices.strategy is Strategy.ROLLING:
        each = _sum(costs.start, costs.check, choices.soak_s)
        text = (
            f"{names}: out of traffic, drained, its evidence kept, stopped; the target starts in its "
            f"place, is checked and watched for {choices.soak_s:g} s"
        )
        return text, None if each is None else each * len(moves)
    text = f"{names}: each watched for {choices.soak_s:g} s and checked"
    return text, choices.soak_s * len(moves)


def _retire_line(choices: Choices) -> tuple[str, float | None]:
    if choices.strategy is not Strategy.SURGE:
        return "nothing left: the old instances are gone by now", 0.0
    kept = (
        f"kept out of traffic for {choices.keep_retired_minutes:g} minutes, then stopped"
        if choices.keep_retired_minutes
        else "then stopped"
    )
    return (
        f"let requests in flight finish (at most {choices.drain_timeout_s:g} s), keep the evidence; "
        + kept,
        0.0,
    )


def _capacity(choices: Choices, replicas: int) -> str:
    noun = "instance serves" if replicas == 1 else "instances serve"
    if choices.strategy is Strategy.SURGE:
        return (
            f"{replicas} {noun} now and as many start beside; never fewer than {replicas} serve, and "
            f"for a while {2 * replicas} need memory at once"
        )
    if choices.strategy is Strategy.ROLLING:
        return (
            f"{replicas} {noun} now; {replicas - 1} while one is replaced "
            f"(floor: {choices.min_capacity}), each with {100 / (replicas - 1):.0f} % of the requests"
        )
    staging = " beside it a staging instance needs memory" if choices.staging == "instance" else ""
    return f"1 instance serves now, NONE between its stop and the target's start;{staging}".rstrip(
        ";"
    )


def _sum(*parts: float | None) -> float | None:
    return None if None in parts else sum(part for part in parts if part is not None)
