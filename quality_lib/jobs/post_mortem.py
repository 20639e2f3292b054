"""Write the post-mortem of an incident from its journal, and keep it beside the incident (R8).

Nothing that is missing or does not answer stops it: it becomes a line of what the report cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from quality_lib import wiring
from quality_lib.adapters.files.journal import JOURNAL
from quality_lib.adapters.files.result import read_result
from quality_lib.adapters.files.run_folder import write_whole
from quality_lib.adapters.mlflow.result_files import fetch_result
from quality_lib.adapters.pages.post_mortem_page import post_mortem_json, render_post_mortem
from quality_lib.errors import OutsideFailure, QualityError
from quality_lib.golden.result import GoldenResult
from quality_lib.jobs.bad_deployment import Look, look_at
from quality_lib.jobs.rollback_run import incident_record
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.ports import Served
from quality_lib.rollout.post_mortem import PostMortem, numbers, post_mortem
from quality_lib.rollout.post_mortem_facts import Facts, KeptEvidence, Phase
from quality_lib.settings import Settings

PAGE, RECORD = "post-mortem.html", "post-mortem.json"

T = TypeVar("T")


def write_post_mortem(
    settings: Settings, journal: Journal, folder: Path, now: datetime
) -> Mapping[str, Any]:
    """Write the post-mortem into the incident's folder and publish it; again replaces it.

    Returns ``url``, ``headline``, ``cause``, ``confidence`` and the paths. An incident store that does
    not answer is told as ``problem``: the files stay in the folder.

    Raises:
        OutsideFailure: the folder cannot be written.
    """
    report = post_mortem(gather(settings, journal, now))
    try:
        write_whole(folder / PAGE, render_post_mortem(report).encode("utf-8", "replace"))
        write_whole(folder / RECORD, post_mortem_json(report).encode("utf-8", "replace"))
    except OSError as error:
        raise OutsideFailure(f"{folder} cannot be written: {error.strerror or error}") from error
    url, problem = _publish(settings, journal, folder, report)
    found = {
        "url": url,
        "page": str(folder / PAGE),
        "headline": report.headline,
        "cause": report.cause.sentence,
        "confidence": report.cause.confidence.value,
        **numbers(report),
    }
    return {**found, "problem": problem} if problem else found


def gather(settings: Settings, journal: Journal, now: datetime) -> Facts:
    """Collect what is known of an incident from its journal, its evidence and the stores."""
    problems: list[str] = []

    def known(what: str, find: Callable[[], T], without: T) -> T:
        try:
            return find()
        except QualityError as error:
            problems.append(f"{what}: {error}")
            return without

    undecided: Mapping[str, Any] = {}
    decision = known(
        "The decision",
        lambda: wiring.incident_store(settings).decision(journal.incident_id),
        undecided,
    )
    nothing: GoldenResult | None = None
    before = known("The check before", lambda: _before(settings, journal, decision), nothing)
    after = known("The check after", lambda: _after(journal), nothing)
    look = known("What was deployed", lambda: look_at(settings, journal), Look())
    return Facts(
        record=incident_record(journal),
        written_at=now,
        decision=decision,
        plan_headline=journal.plan.headline,
        events=journal.events,
        phases=phases_of(journal),
        table_before=journal.plan.starting,
        table_after=journal.table or journal.plan.starting,
        rejected=journal.rejected,
        end_reason=_end_reason(journal),
        before=before,
        after=after,
        files=look.files,
        tensors=look.tensors,
        live=look.live,
        compared=look.compared,
        evidence=_evidence(journal),
        problems=(*problems, *look.problems),
    )


def phases_of(journal: Journal) -> tuple[Phase, ...]:
    """Return what was measured at each move, in the order of the plan."""
    found = []
    for move in journal.plan.moves:
        fact = journal.facts.get(f"move {move.index}")
        if not isinstance(fact, Mapping):
            continue
        served = {str(name): Served(**one) for name, one in dict(fact.get("served") or {}).items()}
        found.append(
            Phase(
                name=str(fact.get("name", move.name)),
                since=str(fact.get("since", "")),
                until=str(fact.get("until", "")),
                weights={str(n): int(w) for n, w in dict(fact.get("weights") or {}).items()},
                served=served,
            )
        )
    return tuple(found)


def golden_run_of(decision: Mapping[str, Any]) -> str | None:
    """Return the id of the newest golden run that counted against the service."""
    conditions = decision.get("conditions")
    for condition in conditions if isinstance(conditions, list | tuple) else ():
        if not isinstance(condition, Mapping) or condition.get("name") != "A":
            continue
        for one in condition.get("inputs") or ():
            if one.get("state") == Tri.YES.value and one.get("counted"):
                return str(one.get("name"))
    return None


def _before(
    settings: Settings, journal: Journal, decision: Mapping[str, Any]
) -> GoldenResult | None:
    run_id = golden_run_of(decision)
    if run_id is None:
        # A person asked for it: then the newest check is what there is to compare with.
        points = wiring.result_store(settings).history(journal.service, 24)
        earlier = [p for p in points if p.started_at <= journal.opened_at.isoformat()]
        if not earlier:
            return None
        run_id = earlier[-1].run_id
    return fetch_result(settings.stores.mlflow, journal.service, run_id)


def _after(journal: Journal) -> GoldenResult | None:
    if journal.target is None:
        return None
    fact = journal.facts.get(f"validation {journal.target.snapshot_id[:12]}")
    folder = fact.get("run_dir") if isinstance(fact, Mapping) else None
    return read_result(Path(str(folder))) if folder else None


def _end_reason(journal: Journal) -> str:
    if journal.state == "done":
        return ""
    if journal.bad is not None:
        return journal.bad.reason
    return f"{journal.abort.reason} ({journal.abort.by})" if journal.abort is not None else ""


def _evidence(journal: Journal) -> tuple[KeptEvidence, ...]:
    found = []
    for retired in journal.retired:
        kept = retired.evidence or {}
        if kept.get("archive"):
            found.append(
                KeptEvidence(
                    backend=retired.name,
                    archive=str(kept["archive"]),
                    uri=str(kept.get("uri") or ""),
                    size=int(kept.get("bytes") or 0),
                    sha256=str(kept.get("sha256") or ""),
                    parts=tuple(map(str, kept.get("parts") or ())),
                    missing=tuple(map(str, kept.get("missing") or ())),
                )
            )
    return tuple(found)


def _publish(
    settings: Settings, journal: Journal, folder: Path, report: PostMortem
) -> tuple[str, str]:
    files = {name: folder / name for name in (PAGE, RECORD, JOURNAL) if (folder / name).is_file()}
    try:
        store = wiring.incident_store(settings)
        return store.publish(journal.incident_id, files, numbers(report)), ""
    except QualityError as error:
        return "", f"not published: {error}"
