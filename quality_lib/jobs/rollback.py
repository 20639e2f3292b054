"""Do a rollback step by step. Every step can be repeated, and goes on where a killed one stopped.

What is really there goes before what the journal says: instances are found by the incident's mark in
the engine's records, weights are read back from the route.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from quality_lib.adapters.files.journal import AtWork, IncidentFolder, Incidents, incident_folder
from quality_lib.errors import BadInput, NoData, OutsideFailure, QualityError
from quality_lib.jobs.rollback_abort import abort as do_abort
from quality_lib.jobs.rollback_finish import recover, report
from quality_lib.jobs.rollback_left import longest_wait
from quality_lib.jobs.rollback_move import move_traffic
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.jobs.rollback_retire import end_overdue, retire
from quality_lib.jobs.rollback_run import AbortRequested, CheckFailed, NoTarget, Run
from quality_lib.jobs.rollback_start import check_production, start_production
from quality_lib.jobs.rollback_validate import stop_staging, validate_target
from quality_lib.rollout.journal import AbortRequest, Bad, Done, Journal
from quality_lib.rollout.left_behind import patience
from quality_lib.rollout.machine import Step, Turn, has_moved, next_step, turn
from quality_lib.rollout.strategy import StepName

ABORT_WAIT_S = 60.0
"""An abort gives the process at work so long to notice and let go."""
STEP_WAIT_S = 30.0
"""The end of staging runs beside the steps and may hold the lock; it is short. A retry would cost more."""

_DO: dict[StepName, Callable[[Run], str]] = {
    StepName.VALIDATE: validate_target,
    StepName.START: start_production,
    StepName.CHECK: check_production,
    StepName.RETIRE: retire,
    StepName.RECOVER: recover,
    StepName.REPORT: report,
}


@dataclass(frozen=True)
class StepResult:
    """How a step stands."""

    incident_id: str
    service: str
    step: str
    index: int | None
    done: bool
    state: str
    """``done``, ``bad``, ``no_target``, ``abort_requested``, or how the incident was closed; of
    ``reconcile`` also ``busy`` (another process is at work) and ``outside`` (something did not answer)."""
    headline: str
    journal_revision: int
    next: str | None
    """What comes next; ``None`` when the incident is closed."""
    url: str = ""


def perform(parts: Parts, path: Path, step: Step) -> StepResult:
    """Do one step of the incident in a folder, or say how it stands when there is nothing to do.

    Another process at work is waited for up to ``STEP_WAIT_S``.

    Raises:
        BadInput: there is no such step, or one before it is missing.
        OutsideFailure: something outside failed, or another process stays at work; the same call goes on.
        NoData: a check could judge nothing; the same call tries again.
    """
    incidents, folder = incident_folder(path)
    with incidents.locked(STEP_WAIT_S):
        return _perform(Run(parts, folder, folder.read()), step)


def request_abort(parts: Parts, reason: str, by: str) -> StepResult:
    """Ask for an abort of the service's open incident, then carry it out.

    A process at work notices within a second or so (between effects and in every wait).

    Raises:
        BadInput: nothing is in progress.
        OutsideFailure: the process at work does not let go; its next look ends it all the same.
    """
    incidents = Incidents(parts.work_dir, parts.service_name)
    current = incidents.open()
    if current is None:
        raise BadInput(
            f"no rollback of '{parts.service_name}' is in progress, so there is nothing to abort",
            fix="'quality rollback status' shows the last one",
        )
    folder, _ = current
    folder.request_abort(AbortRequest(parts.clock(), by, reason))
    with incidents.locked(ABORT_WAIT_S):
        return _perform(Run(parts, folder, folder.read()), Step(StepName.ABORT), by, reason)


def follow(
    parts: Parts, path: Path, between: Callable[[Step, Journal], bool] = lambda step, journal: True
) -> StepResult:
    """Do every step that is left; a check that fails leads back to the starting weights.

    ``between`` is asked before each step and may say no, which leaves the incident as it is.
    """
    _, folder = incident_folder(path)
    journal = folder.read()
    last = _result(journal, Step(StepName.REPORT), journal.is_closed, journal.state, "closed")
    while (step := next_step(journal)) is not None:
        if not between(step, journal):
            return replace(last, done=False, state="waiting", next=str(step))
        last = perform(parts, path, step)
        journal = folder.read()
    return last


def status(parts: Parts) -> tuple[Journal, IncidentFolder] | None:
    """Return the incident in progress, else the newest one; ``None`` when there never was one."""
    incidents = Incidents(parts.work_dir, parts.service_name)
    found = incidents.open() or next(iter(incidents.journals()), None)
    return None if found is None else (found[1], found[0])


def reconcile(parts: Parts, older_than: timedelta | None = None) -> tuple[StepResult, ...]:
    """Take incidents whose driver is gone to their end, and end old instances that were kept long enough.

    The end is the abort, until the last share of the traffic has moved: from then on the target serves,
    and what is left of the way forward is done.

    ``older_than`` defaults to what ``rollout.left_behind`` allows a driver. What another process works on
    right now is left alone. What could not be ended has a result that is not ``done``, with the reason.
    """
    incidents = Incidents(parts.work_dir, parts.service_name)
    results: list[StepResult] = []
    untold = _open_in_store(parts)
    for folder, journal in incidents.journals():
        if journal.is_closed and journal.incident_id in untold:
            Run(parts, folder, journal).tell_store()
        kept = any(r.stop_after and not r.stopped_at for r in journal.retired)
        if journal.is_closed and not (journal.state == "done" and kept):
            continue
        if not journal.is_closed and not _is_quiet(parts, journal, older_than):
            continue
        try:
            with incidents.locked():
                results += _reconcile(Run(parts, folder, folder.read()), older_than)
        except AtWork as error:
            results.append(_not_ended(journal, "busy", error))
        except (OutsideFailure, NoData) as error:
            results.append(_not_ended(folder.read(), "outside", error))
    return tuple(results)


def _is_quiet(parts: Parts, journal: Journal, older_than: timedelta | None) -> bool:
    silence = older_than
    if silence is None:
        silence = patience(journal, longest_wait(parts.service.rollback))
    return parts.clock() - journal.touched_at >= silence


def _not_ended(journal: Journal, state: str, error: QualityError) -> StepResult:
    step = next_step(journal) or Step(StepName.RETIRE)
    return _result(journal, step, False, state, str(error))


def _open_in_store(parts: Parts) -> frozenset[str]:
    """Return the incidents that the store believes to be open; none when it does not answer."""
    try:
        history = parts.incidents.history(parts.service_name)
    except OutsideFailure as error:
        parts.note(f"the incident store does not answer: {error}")
        return frozenset()
    return frozenset(record.incident_id for record in history if not record.is_closed)


def _reconcile(run: Run, older_than: timedelta | None) -> list[StepResult]:
    journal = run.journal
    run.step = "reconcile"
    if journal.is_closed:
        names = end_overdue(run)
        if not names:
            return []
        headline = f"{', '.join(names)} ended: kept long enough"
        return [_result(run.journal, Step(StepName.RETIRE), True, "done", headline)]
    if not _is_quiet(run.parts, journal, older_than):
        return []
    if has_moved(journal):
        return _finish(run)
    age = run.parts.clock() - journal.touched_at
    reason = f"nobody has worked on it for {age.total_seconds() / 60:.0f} minutes"
    return [_perform(run, Step(StepName.ABORT), "reconcile", reason)]


def _finish(run: Run) -> list[StepResult]:
    """Do the steps that are left; a check that fails waits for a person, or for the next time."""
    results: list[StepResult] = []
    while (step := next_step(run.journal)) is not None and (not results or results[-1].done):
        results.append(_perform(run, step))
    return results


def _perform(run: Run, step: Step, by: str = "", reason: str = "") -> StepResult:
    run.step = str(step)
    request = run.folder.abort_request()
    if request is not None and run.journal.abort is None and not run.journal.is_closed:
        run.save(replace(run.journal, abort=request), f"abort asked for: {request.reason}")
    what = turn(run.journal, step)
    if what is Turn.DONE:
        done = next(d for d in run.journal.done if (d.step, d.index) == (step.name, step.index))
        return _result(run.journal, step, True, "done", done.headline)
    if what is Turn.CLOSED:
        wanted = {StepName.REPORT: ("done",), StepName.ABORT: ("aborted", "failed")}
        is_done = run.journal.state in wanted.get(step.name, ())
        run.tell_store()  # it may have been silent when the incident was closed
        return _result(
            run.journal, step, is_done, run.journal.state, f"closed: {run.journal.state}"
        )
    if what is Turn.BACK:
        return _back(run, step)
    if step.name is StepName.STOP_STAGING:
        return _result(run.journal, step, True, "done", stop_staging(run))
    if run.journal.state == "open":
        run.save(replace(run.journal, state="rolling"))
        run.tell_store()
    if step.name is StepName.ABORT:
        bad = run.journal.bad
        cause = reason or (bad.reason if bad else "asked for")
        headline = do_abort(run, by or ("rollback" if bad else "unknown"), cause)
        return _result(run.journal, step, True, run.journal.state, headline)
    return _forward(run, step)


def _forward(run: Run, step: Step) -> StepResult:
    began = run.parts.clock()
    try:
        headline = move_traffic(run, step.index) if step.index is not None else _DO[step.name](run)
    except AbortRequested as error:
        return _result(run.journal, step, False, "abort_requested", str(error))
    except CheckFailed as error:
        bad = Bad(step.name, step.index, run.parts.clock(), str(error), isinstance(error, NoTarget))
        run.save(replace(run.journal, bad=bad), f"{step}: {error}")
        return _back(run, step)
    now = run.parts.clock()
    done = Done(step.name, step.index, now, (now - began).total_seconds(), headline)
    run.save(replace(run.journal, done=(*run.journal.done, done)), headline)
    return _result(run.journal, step, True, "done", headline)


def _back(run: Run, step: Step) -> StepResult:
    bad, request = run.journal.bad, run.journal.abort
    if bad is not None:
        state = "no_target" if bad.is_no_target else "bad"
        return _result(run.journal, step, False, state, bad.reason)
    reason = request.reason if request else ""
    return _result(run.journal, step, False, "abort_requested", f"abort asked for: {reason}")


def _result(journal: Journal, step: Step, done: bool, state: str, headline: str) -> StepResult:
    following = next_step(journal)
    return StepResult(
        incident_id=journal.incident_id,
        service=journal.service,
        step=step.name.value,
        index=step.index,
        done=done,
        state=state,
        headline=headline,
        journal_revision=journal.revision,
        next=str(following) if following else None,
        url=journal.url,
    )
