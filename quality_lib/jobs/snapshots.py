"""Take a snapshot of what serves now; check whether what serves now still is a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.baseline_file import BASELINE, read_baseline
from quality_lib.adapters.git_checkout import git_commit
from quality_lib.adapters.weights_files import (
    Difference,
    Note,
    Progress,
    hash_files,
    hash_folder,
    verify_folder,
)
from quality_lib.errors import BadInput, OutsideFailure, QualityError
from quality_lib.records import Outcome, Verdict
from quality_lib.serving.arguments import mask_secrets
from quality_lib.settings import ServiceSettings, Settings
from quality_lib.snapshots.arguments import args_sha256
from quality_lib.snapshots.eligibility import Eligibility, is_eligible
from quality_lib.snapshots.manifest import (
    CodeRecord,
    EnvironmentRecord,
    GoldenRecord,
    ImageRecord,
    Manifest,
    ServingRecord,
    root_hash,
)
from quality_lib.snapshots.ports import BASELINE_FOLDER
from quality_lib.snapshots.startup_check import ServerFacts, check_startup

ServerFactsOf = Callable[[ServiceSettings], ServerFacts]


@dataclass(frozen=True)
class Draft:
    """A snapshot that is ready to be stored."""

    manifest: Manifest
    files: Mapping[str, Path]


@dataclass(frozen=True)
class Verification:
    """Whether the files and the running server are what a snapshot says."""

    snapshot_id: str
    folder: Path
    differences: tuple[Difference, ...]
    server: tuple[Verdict, ...] = ()
    server_problem: str = ""
    """Why the server could not be asked; empty when it was or nobody wanted to."""

    @property
    def outcome(self) -> Outcome:
        """FAILED on any mismatch; UNJUDGED when the server was to be judged and nothing could be."""
        outcomes = {verdict.outcome for verdict in self.server}
        if self.differences or Outcome.FAILED in outcomes:
            return Outcome.FAILED
        if self.server_problem or outcomes == {Outcome.UNJUDGED}:
            return Outcome.UNJUDGED
        return Outcome.PASSED


def draft_snapshot(
    service: ServiceSettings,
    *,
    checkout: Path,
    baseline: Path | None,
    is_live: bool,
    by: str,
    now: datetime,
    progress: Progress | None = None,
    note: Note | None = None,
) -> Draft:
    """Record what serves now: the server's own word, the files it serves, and the baseline.

    ``checkout`` is the folder of the configuration, whose commit is recorded. With ``is_live``
    false the server is not asked: what only it knows stays unrecorded and is never judged later.

    Raises:
        BadInput: the server serves another folder than the configuration says.
    """
    golden, files = (None, {}) if baseline is None else _baseline(baseline)
    if is_live:
        facts, environment = wiring.server_facts(service), wiring.server_environment(service)
        if problem := _other_folder(service.weights, facts):
            raise BadInput(problem, field="weights", fix="correct the folder in quality.yaml")
    else:
        args = service.engine.args if service.engine.kind == "local" else None
        facts, environment = ServerFacts(args=args), EnvironmentRecord()
    weights = hash_folder(service.weights, progress, note=note)
    return Draft(
        Manifest(
            weights=weights,
            image=ImageRecord(service.image.ref, service.image.digest),
            code=CodeRecord(git_commit(checkout)),
            serving=_serving(facts),
            environment=environment,
            golden=golden,
            live_fingerprint=_live_fingerprint(service, facts) if is_live else None,
            created_at=now.isoformat(timespec="seconds"),
            created_by=by,
        ),
        files,
    )


def verify_snapshot(
    manifest: Manifest,
    service: ServiceSettings,
    *,
    weights: Path | None,
    ask_server: ServerFactsOf | None,
    progress: Progress | None = None,
    note: Note | None = None,
) -> Verification:
    """Hash the files again and, with ``ask_server``, compare the running server's facts (G6.1).

    ``weights`` defaults to the configured folder; then a server that serves another folder fails
    too. A server that does not answer hides nothing that the files told.
    """
    folder = weights or service.weights
    differences = tuple(verify_folder(folder, manifest.weights, progress, note=note))
    if ask_server is None:
        return Verification(manifest.snapshot_id, folder, differences)
    try:
        facts = ask_server(service)
    except OutsideFailure as error:
        return Verification(manifest.snapshot_id, folder, differences, server_problem=str(error))
    verdicts = check_startup(manifest, facts)
    if weights is None and (problem := _other_folder(folder, facts)):
        verdicts += (Verdict(Outcome.FAILED, "startup_weights_path", problem),)
    return Verification(manifest.snapshot_id, folder, differences, verdicts)


def judge_eligibility(settings: Settings, service_name: str, now: datetime) -> Eligibility:
    """Return whether the service's deployment has been healthy long enough to be registered."""
    entries = wiring.snapshot_store(settings).list(service_name)
    return is_eligible(
        wiring.health_history(settings, service_name),
        now=now,
        stable_hours=settings.service(service_name).stable_hours,
        already_registered={entry.deployment_key for entry in entries},
    )


def _baseline(folder: Path) -> tuple[GoldenRecord, dict[str, Path]]:
    if not folder.is_dir():
        raise BadInput(
            "is no folder with a baseline",
            file=folder,
            fix="make one with 'quality golden baseline'",
        )
    digest = read_baseline(folder).golden_digest
    records = hash_files(folder)
    uri = BASELINE_FOLDER + BASELINE
    files = {BASELINE_FOLDER + record.path: folder / record.path for record in records}
    return GoldenRecord(digest, uri, root_hash(records)), files


def _serving(facts: ServerFacts) -> ServingRecord:
    return ServingRecord(
        vllm_version=facts.vllm_version,
        args=None if facts.args is None else mask_secrets(facts.args),
        args_sha256=None if facts.args is None else args_sha256(facts.args),
        generation_config=facts.generation_config,
        chat_template_sha256=facts.chat_template_sha256,
        tokenizer_sha256=facts.tokenizer_sha256,
        dtype=facts.dtype,
        kv_cache_dtype=facts.kv_cache_dtype,
        max_model_len=facts.max_model_len,
        adapters=facts.adapters,
    )


def _live_fingerprint(service: ServiceSettings, facts: ServerFacts) -> str | None:
    """Return the fingerprint of the weights as they were loaded; None where the server has none.

    A server that has just started may still be reading; asking for a reading waits for that.
    """
    if facts.live_fingerprint is not None:
        return facts.live_fingerprint
    try:
        return wiring.live_fingerprint(service).loaded_fingerprint
    except QualityError:
        return None


def _other_folder(folder: Path, facts: ServerFacts) -> str:
    """Return a sentence when the server is seen to serve another folder of this machine."""
    if facts.weights_path is None:
        return ""
    served = Path(facts.weights_path)
    # A name of a hub, or a path inside a container, cannot be compared from here.
    if not served.is_absolute() or not served.is_dir() or served.resolve() == folder.resolve():
        return ""
    return f"weights_path: the server serves {served}, not {folder}"
