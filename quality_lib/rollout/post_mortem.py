"""The post-mortem of an incident: facts put into one record, saying what is missing in it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from quality_lib.records import Tri
from quality_lib.rollout.cause import Cause, causes
from quality_lib.rollout.ports import Served
from quality_lib.rollout.post_mortem_facts import Facts

SCHEMA = 1


@dataclass(frozen=True)
class Step:
    """Something to do, with the command where there is one."""

    sentence: str
    command: str = ""


@dataclass(frozen=True)
class Totals:
    """Requests during the shift, all phases and backends together."""

    requests: int
    failed: int
    cut: int
    slowest_s: float


@dataclass(frozen=True)
class PostMortem:
    """What is stored, shown and linked."""

    schema: int
    headline: str
    tone: str
    """``healthy`` after a rollback that came through, else ``failed`` or ``inconclusive``."""
    meaning: str
    """What it means for the users of the service."""
    causes: tuple[Cause, ...]
    """The best first."""
    totals: Totals | None
    """None when nothing was measured."""
    decided_to_full_s: float | None
    """From the decision until the target had all the traffic."""
    duration_s: float | None
    """From the decision to the end."""
    next_steps: tuple[Step, ...]
    missing: tuple[str, ...]
    """What this report cannot tell, and why."""
    facts: Facts

    @property
    def cause(self) -> Cause:
        """The best explanation."""
        return self.causes[0]


def post_mortem(facts: Facts) -> PostMortem:
    """Write the post-mortem; there is nothing it cannot be written from."""
    found = causes(facts)
    tone, headline, meaning = _words(facts)
    record = facts.record
    return PostMortem(
        schema=SCHEMA,
        headline=headline,
        tone=tone,
        meaning=meaning,
        causes=found,
        totals=_totals(facts),
        decided_to_full_s=_seconds_to_full(facts),
        duration_s=(record.closed_at - record.opened_at).total_seconds()
        if record.closed_at
        else None,
        next_steps=tuple(_next_steps(facts, found[0])),
        missing=(*facts.problems, *_missing(facts)),
        facts=facts,
    )


def numbers(report: PostMortem) -> dict[str, float]:
    """Return the numbers of a post-mortem by name; what was not measured has none."""
    totals = report.totals
    known: dict[str, float | None] = {
        "decided_to_full_s": report.decided_to_full_s,
        "duration_s": report.duration_s,
        "requests": totals.requests if totals else None,
        "requests_failed": totals.failed if totals else None,
        "requests_cut": totals.cut if totals else None,
        "slowest_s": totals.slowest_s if totals else None,
        "candidates_rejected": len(report.facts.rejected),
        "rolled_back": float(report.facts.record.state == "done"),
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def _words(facts: Facts) -> tuple[str, str, str]:
    record, reason = facts.record, facts.end_reason
    name = record.service
    target = (record.target_snapshot_id or "")[:12] or "a healthy snapshot"
    why = f" {_sentence(reason)}" if reason else ""
    match record.state:
        case "done":
            return (
                "healthy",
                f"{name} is back on snapshot {target}",
                "All its traffic goes to a snapshot that was validated before it served.",
            )
        case "aborted":
            return (
                "failed",
                f"The rollback of {name} was aborted",
                "The traffic is split as it was before the rollback: what was found bad still "
                f"serves.{why}",
            )
        case "failed":
            return (
                "failed",
                f"{name} could not be taken back",
                f"Nothing was touched: what was found bad still serves.{why}",
            )
        case _:
            return (
                "inconclusive",
                f"The incident of {name} is not over",
                "This report was written while the incident was in progress; it is written again "
                "at its end.",
            )


def _totals(facts: Facts) -> Totals | None:
    served: list[Served] = [one for phase in facts.phases for one in phase.served.values()]
    if not served:
        return None
    return Totals(
        requests=sum(one.requests for one in served),
        failed=sum(one.failed for one in served),
        cut=sum(one.cut for one in served),
        slowest_s=max(one.slowest_s for one in served),
    )


def _seconds_to_full(facts: Facts) -> float | None:
    before = facts.table_before.weights() if facts.table_before else {}
    for phase in facts.phases:
        old = sum(weight for name, weight in phase.weights.items() if name in before)
        if phase.weights and old == 0 and before:
            try:
                since = datetime.fromisoformat(phase.since)
                return (since - facts.record.opened_at).total_seconds()
            except (ValueError, TypeError):
                return None
    return None


def _missing(facts: Facts) -> Iterator[str]:
    if not facts.decision:
        yield "The decision with its inputs: none was recorded, as when a person starts a rollback."
    if facts.before is None:
        yield "The golden check that counted against the service."
    if facts.after is None:
        yield "The golden check of the target."
    if not facts.phases:
        yield "Requests during the shift: no step of it was measured."
    if facts.files is None:
        yield "Whether the files on disk are as recorded."
    if facts.live is None or facts.live.state is Tri.UNKNOWN:
        yield "Whether the weights in device memory are as loaded."
    if not facts.evidence:
        yield "The evidence of the instance that served: it was not retired, or not ours."


_BY_CAUSE = {
    "files_changed": "Serve nothing from that folder again. Check the disk and whatever writes to it.",
    "weights_damaged": "Serve nothing from that folder again. Copy the weights anew, and hash the copy "
    "before it serves.",
    "other_weights": "If the new weights were meant to serve, find out with a golden run in staging why "
    "they answer worse.",
    "memory_changed": "Take the device out of use until its memory was tested, and look at its error "
    "counters.",
    "arguments_changed": "Deploy again with the arguments of the target, or register what is meant to "
    "be new as a snapshot.",
    "versions_changed": "Try the new versions in staging with the whole golden set before they serve.",
    "machine_changed": "Try the snapshot on that machine in staging with the whole golden set.",
    "engine_signals": "Look at the engine's log and metrics in the evidence at the time of the signals.",
    "unknown": "Reproduce a worst case on an isolated instance of what served, then change one thing "
    "at a time.",
}


def _next_steps(facts: Facts, cause: Cause) -> Iterator[Step]:
    record = facts.record
    service = shlex.quote(record.service)
    if record.state in {"aborted", "failed"}:
        yield Step(
            "What was found bad still serves: fix the reason below, then plan the rollback again.",
            f"quality rollback plan --service {service} --dry-run",
        )
    if record.state == "failed" or facts.rejected:
        yield Step(
            "Look at the snapshots that did not pass, and repair or retire them.",
            f"quality snapshot list --service {service}",
        )
    yield Step(_BY_CAUSE[cause.code], _command(facts, cause))
    for kept in facts.evidence:
        if not kept.uri:
            yield Step(f"Take the evidence of {kept.backend} off the machine: {kept.archive}")
    if record.state == "done":
        yield Step(
            "Keep an eye on the next golden checks; the bad snapshot is no target any more.",
            f"quality golden check --service {service}",
        )


def _command(facts: Facts, cause: Cause) -> str:
    if facts.files is None or cause.code not in {"files_changed", "weights_damaged"}:
        return ""
    ref = facts.files.snapshot_id[:12]
    folder = shlex.quote(facts.files.folder)
    name = shlex.quote(facts.record.service)
    return f"quality snapshot verify {ref} --service {name} --weights {folder} --no-server"


def _sentence(text: str) -> str:
    text = text.strip()
    return (text[:1].upper() + text[1:]).rstrip(".") + "."
