"""Settings to adapters: the only place that picks them. Imports clients inside functions."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from quality_lib.adapters.embeddings import SentenceSimilarity
from quality_lib.adapters.vllm_client import VllmClient
from quality_lib.golden.comparison import Limits
from quality_lib.golden.ports import Similarity
from quality_lib.golden.verdict import Floors
from quality_lib.records import Tri
from quality_lib.settings import ServiceSettings, Settings, Thresholds, secret
from quality_lib.snapshots.eligibility import HealthRecord
from quality_lib.snapshots.startup_check import ServerFacts

if TYPE_CHECKING:
    from quality_lib.adapters.mlflow_results import MlflowResults
    from quality_lib.snapshots.manifest import EnvironmentRecord
    from quality_lib.snapshots.ports import SnapshotStore


def snapshot_store(settings: Settings) -> SnapshotStore:
    """Return where snapshots are kept."""
    from quality_lib.adapters.mlflow_snapshots import MlflowSnapshots

    return MlflowSnapshots(settings.stores.mlflow)


def result_store(settings: Settings) -> MlflowResults:
    """Return where golden results are kept."""
    from quality_lib.adapters.mlflow_results import MlflowResults

    return MlflowResults(settings.stores.mlflow)


def model_client(service: ServiceSettings) -> VllmClient:
    """Return a client of the service's endpoint."""
    return VllmClient(
        service.endpoint,
        service.model,
        timeout_s=service.golden.request_timeout_s,
        api_key=secret(service.api_key_env),
    )


def similarity(settings: Settings) -> Similarity:
    """Return the text similarity that the configuration names."""
    return SentenceSimilarity(settings.embedding_model)


def server_facts(service: ServiceSettings) -> ServerFacts:
    """Ask the running server for the facts of the start-up check (G6.1)."""
    from quality_lib.adapters.server_facts import observe_server

    return observe_server(service.endpoint, service.model, secret(service.api_key_env))


def server_environment(service: ServiceSettings) -> EnvironmentRecord:
    """Ask the running server for the machine and the libraries under it."""
    from quality_lib.adapters.server_facts import observe_environment

    return observe_environment(service.endpoint, secret(service.api_key_env))


def health_history(settings: Settings, service_name: str) -> tuple[HealthRecord, ...]:
    """Return the verdicts of the service's golden checks, for the question of eligibility.

    A redeployed service is expected to score differently: of it, quality alone is asked, or no new
    deployment could ever become a snapshot. Other content in the same folder with the same arguments
    stays *changed*: it may be damage, and only a person may vouch for it.
    """
    limit = math.ceil(settings.service(service_name).stable_hours) + 24
    return tuple(
        HealthRecord(
            at=datetime.fromisoformat(point.started_at),
            summary=point.summary,
            changed=Tri.NO if point.was_redeployed else point.changed,
            deployment_key=point.deployment_key,
        )
        for point in result_store(settings).history(service_name, limit)
    )


def limits(thresholds: Thresholds) -> Limits:
    """Return what the comparison holds its findings against."""
    return Limits(
        band_sigmas=thresholds.band_sigmas,
        band_floor=thresholds.band_floor,
        exact_floor=thresholds.exact_floor,
        logprob_floor=thresholds.logprob_floor,
        false_alarm=thresholds.false_alarm,
    )


def floors(thresholds: Thresholds) -> Floors:
    """Return the absolute limits of the verdict."""
    return Floors(
        similarity_alert=thresholds.similarity_alert,
        similarity_failed=thresholds.similarity_failed,
        gross_logprob=thresholds.gross_logprob,
        min_judged_share=thresholds.min_judged_share,
        max_missing_share=thresholds.max_missing_share,
    )
