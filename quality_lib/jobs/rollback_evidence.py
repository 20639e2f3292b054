"""Keep the evidence of an instance before it ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.evidence.pack import EvidenceOf, collect
from quality_lib.adapters.evidence.scene import limits_of
from quality_lib.adapters.evidence.upload import upload
from quality_lib.errors import QualityError
from quality_lib.rollout.evidence_pack import EvidencePack
from quality_lib.rollout.journal import Journal
from quality_lib.settings import ServiceSettings, Settings, secret
from quality_lib.snapshots.manifest import Manifest


def collect_evidence(
    settings: Settings, instance: Instance, journal: Journal, to: Path
) -> Mapping[str, Any]:
    """Keep the evidence of an instance on disk, then upload it; what is missing is said."""
    service = settings.service(journal.service)
    of = EvidenceOf(
        service=journal.service,
        incident_id=journal.incident_id,
        manifest=_manifest(settings, journal),
        api_key=secret(service.api_key_env),
        exchange_folder=service.gates.log.folder,
        core_dump=service.rollback.core_dump,
    )
    pack = collect(instance, to, of, limits=limits_of(service.evidence))
    uri, problem = _upload(settings, service, pack)
    found = {
        "archive": str(pack.archive),
        "sha256": pack.sha256,
        "bytes": pack.size,
        "parts": [entry.name for entry in pack.entries if entry.is_there],
        "missing": list(pack.problems),
        "uri": uri,
    }
    return {**found, "problem": problem} if problem else found


def _manifest(settings: Settings, journal: Journal) -> Manifest | None:
    """Return the manifest of what is retired; without one the pack says less, and that is all."""
    if journal.bad_snapshot_id is None:
        return None
    try:
        store = wiring.snapshot_store(settings)
        return store.get(journal.service, journal.bad_snapshot_id).manifest
    except QualityError:
        return None


def _upload(settings: Settings, service: ServiceSettings, pack: EvidencePack) -> tuple[str, str]:
    """Return where the archive went, or why it is on this machine only."""
    try:
        store = wiring.incident_store(settings)
        return upload(pack, store, service.evidence.ship_to).uri, ""
    except QualityError as error:
        return "", f"not uploaded: {error}"
