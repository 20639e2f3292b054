"""Choose the target: re-hashed, started in staging, asked the full golden set (R3, R4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from quality_lib.errors import BadInput, EngineFailed, NoData, OutsideFailure
from quality_lib.jobs import rollback_instances as instances
from quality_lib.jobs.rollback_run import NoTarget, Run
from quality_lib.records import Tri
from quality_lib.rollout.journal import Rejected, Target
from quality_lib.rollout.launch import launch_args
from quality_lib.snapshots.ports import StoredSnapshot

ATTEMPTS = 2
"""An examination that could judge nothing is done once more before the candidate counts as unproven."""


def validate_target(run: Run) -> str:
    """Take the first candidate that passes; each that does not is remembered with its reason.

    Raises:
        NoTarget: none passes; nothing was touched.
    """
    for candidate in run.journal.plan.candidates:
        known = {rejected.snapshot_id for rejected in run.journal.rejected}
        if candidate.snapshot_id in known:
            continue
        run.hear()
        problem = _problem_of(run, candidate.snapshot_id)
        if problem is None:
            target = run.target
            return f"snapshot {target.snapshot_id[:12]} (#{target.number}) is good"
        _stop_staging(run)
        run.save(
            replace(
                run.journal,
                target=None,
                rejected=(*run.journal.rejected, Rejected(candidate.snapshot_id, problem)),
            ),
            f"snapshot {candidate.snapshot_id[:12]} is no target: {problem}",
        )
    tried = "; ".join(f"{r.snapshot_id[:12]}: {r.reason}" for r in run.journal.rejected)
    raise NoTarget(f"no snapshot to go back to, nothing was touched. {tried}")


def stop_staging(run: Run) -> str:
    """End what runs in staging; an instance that was promoted is no staging any more."""
    count = _stop_staging(run)
    return f"{count} staging instance{'s' if count != 1 else ''} stopped"


def _stop_staging(run: Run) -> int:
    promoted = {replica.instance_id for replica in run.journal.fresh}
    staging = [i for i in instances.of_incident(run, instances.STAGING) if i.id not in promoted]
    for instance in staging:
        instances.stop_instance(run, instance, 0.0)
    return len(staging)


def _problem_of(run: Run, snapshot_id: str) -> str | None:
    """Return why a snapshot cannot be the target; ``None``: it is, and the journal says so."""
    try:
        stored = run.parts.snapshots.get(run.journal.service, snapshot_id)
        target = _target_of(run, stored)
        problem = _rehash(run, stored)
        if problem is not None or run.journal.plan.choices.staging == "skip":
            if problem is None:
                run.save(
                    replace(run.journal, target=target),
                    "its files are as recorded; staging was skipped by choice",
                )
            return problem
        instance = instances.ensure(run, instances.STAGING, "staging", target)
        problem = _examine(run, target, instance.endpoint)
    except BadInput as error:
        return str(error)
    except EngineFailed as error:
        return f"it does not start: {error}"
    if problem is None:
        run.save(replace(run.journal, target=target), "the full golden set is healthy in staging")
    return problem


def _rehash(run: Run, stored: StoredSnapshot) -> str | None:
    name = f"rehash {stored.snapshot_id[:12]}"
    if name not in run.journal.facts:
        run.parts.note(f"hashing the files of snapshot {stored.snapshot_id[:12]} again")
        differences = run.parts.rehash(stored)
        run.save(run.journal.with_fact(name, list(differences)))
    differences = run.journal.facts[name]
    if differences:
        return f"its files are not what was recorded: {'; '.join(differences[:3])}"
    return None


def _examine(run: Run, target: Target, endpoint: str) -> str | None:
    short = target.snapshot_id[:12]
    for attempt in range(1, ATTEMPTS + 1):
        run.hear()
        out = run.path(f"validate-{short}-{attempt}")
        try:
            found = run.parts.examiner.full(target, endpoint, out, lambda: _hear(run))
        except NoData as error:
            return f"it cannot be judged: {error}"
        except OutsideFailure:
            run.hear()
            raise
        run.save(
            run.journal.with_fact(
                f"validation {short}", {"headline": found.headline, **found.detail}
            ),
            f"golden set in staging: {found.headline}",
        )
        if found.state is Tri.YES:
            return None
        if found.state is Tri.NO:
            return f"its golden set is bad: {found.headline}"
    return f"its golden set could not be judged: {found.headline}"


def _hear(run: Run) -> None:
    """End an examination when somebody wants to go back; the journal is not written from inside it."""
    if run.folder.abort_request() is not None:
        raise OutsideFailure("an abort was asked for")


def _target_of(run: Run, stored: StoredSnapshot) -> Target:
    manifest = stored.manifest
    recorded = manifest.serving.args
    return Target(
        snapshot_id=stored.snapshot_id,
        number=stored.entry.number,
        model_path=str(weights_folder(stored)),
        args=run.parts.service.engine.args if recorded is None else launch_args(recorded),
        deployment_key=stored.entry.deployment_key,
    )


def weights_folder(stored: StoredSnapshot) -> Path:
    """Return where the snapshot's files lay when it was made.

    Raises:
        BadInput: that is no folder of this machine.
    """
    parts = urlsplit(stored.manifest.weights.uri)
    folder = Path(unquote(parts.path))
    if parts.scheme not in {"", "file"} or not folder.is_dir():
        raise BadInput(
            f"the weights of snapshot {stored.snapshot_id[:12]} lie at "
            f"{stored.manifest.weights.uri}, which is no folder of this machine",
            fix="put the files back to where they were, or name another snapshot",
        )
    return folder
