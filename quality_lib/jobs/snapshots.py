"""Take a snapshot of what serves now; check whether what serves now still is a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.files.baseline import BASELINE, read_baseline
from quality_lib.adapters.machine.git_checkout import git_commit
from quality_lib.adapters.model.weights_files import (
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
from quality_lib.settings import ServiceSettings, Settings, line_of
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
    service_name: str,
    config: Path,
    baseline: Path | None,
    is_live: bool,
    by: str,
    now: datetime,
    progress: Progress | None = None,
    note: Note | None = None,
) -> Draft:
    """Record what serves now: the server's own word, the files it serves, and the baseline.

    ``config`` is the configuration file; the commit of the checkout that it lies in is recorded. With
    ``is_live`` false the server is not asked: what only it knows stays unrecorded and is never
    judged later.

    Raises:
        BadInput: the server serves another folder than the configuration says, as after a rollback.
    """
    golden, files = (None, {}) if baseline is None else _baseline(baseline)
    if is_live:
        facts, environment = wiring.server_facts(service), wiring.server_environment(service)
        if (served := other_folder(service.weights, facts)) is not None:
            raise _another_is_served(service, service_name, served, config)
    else:
        args = service.engine.args if service.engine.kind == "local" else None
        facts, environment = ServerFacts(args=args), EnvironmentRecord()
    weights = hash_folder(service.weights, progress, note=note)
    return Draft(
        Manifest(
            weights=weights,
            image=ImageRecord(service.image.ref, service.image.digest),
            code=CodeRecord(git_commit(config.absolute().parent)),
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
    too, unless that is where the snapshot's own files lay: so it is after a rollback, and these are
    hashed. A server that does not answer hides nothing that the files told.
    """
    facts, silence = ServerFacts(), ""
    if ask_server is not None:
        try:
            facts = ask_server(service)
        except OutsideFailure as error:
            silence = str(error)
    served = None if weights is not None else other_folder(service.weights, facts)
    is_own = served is not None and served.absolute().as_uri() == manifest.weights.uri
    folder = served if served is not None and is_own else weights or service.weights
    differences = tuple(verify_folder(folder, manifest.weights, progress, note=note))
    if ask_server is None or silence:
        return Verification(manifest.snapshot_id, folder, differences, server_problem=silence)
    verdicts = check_startup(manifest, facts)
    if served is not None:
        outcome = Outcome.SUSPECT if is_own else Outcome.FAILED
        problem = f"weights_path: the server serves {served}, configured is {service.weights}"
        verdicts += (Verdict(outcome, "startup_weights_path", problem),)
    return Verification(manifest.snapshot_id, folder, differences, verdicts)


def judge_eligibility(
    settings: Settings, service_name: str, now: datetime, config: Path
) -> Eligibility:
    """Return whether the service's deployment has been healthy long enough to be registered.

    One that is served from another folder than configured is not: 'snapshot create' would refuse it.

    Raises:
        OutsideFailure: the store does not answer, or the server of a service that were eligible.
    """
    service = settings.service(service_name)
    entries = wiring.snapshot_store(settings).list(service_name)
    answer = is_eligible(
        wiring.health_history(settings, service_name),
        now=now,
        stable_hours=service.stable_hours,
        already_registered={entry.deployment_key for entry in entries},
    )
    if answer.eligible:
        served = other_folder(service.weights, wiring.server_facts(service))
        if served is not None:
            problem = _another_is_served(service, service_name, served, config)
            return replace(answer, eligible=False, reason=str(problem))
    return answer


def other_folder(configured: Path, facts: ServerFacts) -> Path | None:
    """Return the folder of this machine that the server is seen to serve instead of the configured one.

    ``None``: it serves the configured one, or a name of a hub or a path inside a container, which
    cannot be compared from here.
    """
    if facts.weights_path is None:
        return None
    served = Path(facts.weights_path)
    is_comparable = served.is_absolute() and served.is_dir()
    return served if is_comparable and served.resolve() != configured.resolve() else None


def _another_is_served(
    service: ServiceSettings, service_name: str, served: Path, config: Path
) -> BadInput:
    """Return the error that names both folders and the line to change.

    A rollback starts the target from where its files lie and leaves the configuration to people: a
    snapshot of what is configured would be one of what does not serve.
    """
    keys = ("services", service_name, "weights")
    return BadInput(
        f"the server serves {served}, configured is {service.weights}: a rollback, or somebody by hand, "
        "has started it from another folder",
        file=config,
        line=line_of(config, *keys),
        field=".".join(keys),
        fix=f"write 'weights: {served}' there if that is what is to be served from now on; else deploy "
        "the configured folder again",
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
