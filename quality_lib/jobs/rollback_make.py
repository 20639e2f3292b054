"""The real parts of a rollback, as the configuration names them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.model.weights_files import verify_folder
from quality_lib.golden.ports import Progress
from quality_lib.jobs.clock import Note, utc_now
from quality_lib.jobs.deployment import observe_deployment
from quality_lib.jobs.post_mortem import write_post_mortem
from quality_lib.jobs.rollback_evidence import collect_evidence
from quality_lib.jobs.rollback_examine import GoldenExaminer
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.jobs.rollback_validate import weights_folder
from quality_lib.rollout.journal import Journal
from quality_lib.settings import CONFIG_ENV, SERVICE_ENV, Settings
from quality_lib.snapshots.ports import StoredSnapshot


def make_parts(
    settings: Settings,
    service_name: str,
    config: Path,
    note: Note,
    progress: Progress = lambda stage, done, total: None,
) -> Parts:
    """Return the parts of one service; ``config`` is what its guarded instances read at start."""
    service = settings.service(service_name)

    def rehash(stored: StoredSnapshot) -> tuple[str, ...]:
        recorded = stored.manifest.weights
        found = verify_folder(weights_folder(stored), recorded, note=note)
        return tuple(difference.sentence for difference in found)

    def collect(instance: Instance, journal: Journal, to: Path) -> Mapping[str, Any]:
        return collect_evidence(settings, instance, journal, to)

    def report(journal: Journal, folder: Path) -> Mapping[str, Any]:
        return write_post_mortem(settings, journal, folder, utc_now())

    return Parts(
        service_name=service_name,
        service=service,
        work_dir=settings.stores.work_dir,
        engine=wiring.engine(service),
        route=wiring.route(service_name, settings),
        snapshots=wiring.snapshot_store(settings),
        incidents=wiring.incident_store(settings),
        examiner=GoldenExaminer(settings, service_name, note, progress),
        rehash=rehash,
        collect=collect,
        report=report,
        deployment_key=lambda: observe_deployment(service, note).key,
        is_alive=wiring.is_alive,
        clock=utc_now,
        sleep=time.sleep,  # noqa: TID251 - handed over here, an argument everywhere else
        note=note,
        instance_env={CONFIG_ENV: str(config.absolute()), SERVICE_ENV: service_name},
    )
