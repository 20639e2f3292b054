"""Settings to adapters: the only place that picks them. Imports clients inside functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from quality_lib.adapters.model.embeddings import SentenceSimilarity
from quality_lib.adapters.vllm.client import VllmClient
from quality_lib.errors import BadInput, QualityError
from quality_lib.golden.comparison import Limits
from quality_lib.golden.ports import Similarity
from quality_lib.golden.verdict import Floors
from quality_lib.records import Tri
from quality_lib.settings import ServiceSettings, Settings, Thresholds, home, secret
from quality_lib.snapshots.eligibility import HealthRecord
from quality_lib.snapshots.startup_check import ServerFacts

if TYPE_CHECKING:
    from quality_lib.adapters.engine.port import Engine
    from quality_lib.adapters.engine.signals import SignalSource
    from quality_lib.adapters.mlflow.results import MlflowResults
    from quality_lib.adapters.mlflow.scores import MlflowScores
    from quality_lib.adapters.vllm.live_weights import LiveFingerprint
    from quality_lib.rollout.engine_finding import EngineFinding
    from quality_lib.rollout.ports import IncidentStore, Route
    from quality_lib.snapshots.manifest import EnvironmentRecord
    from quality_lib.snapshots.ports import SnapshotStore


def snapshot_store(settings: Settings) -> SnapshotStore:
    """Return where snapshots are kept."""
    from quality_lib.adapters.mlflow.snapshots import MlflowSnapshots

    return MlflowSnapshots(settings.stores.mlflow)


def result_store(settings: Settings) -> MlflowResults:
    """Return where golden results are kept."""
    from quality_lib.adapters.mlflow.results import MlflowResults

    return MlflowResults(settings.stores.mlflow)


def score_store(settings: Settings) -> MlflowScores:
    """Return where scores of production logs are kept."""
    from quality_lib.adapters.mlflow.scores import MlflowScores

    return MlflowScores(settings.stores.mlflow)


def incident_store(settings: Settings) -> IncidentStore:
    """Return where incidents are kept."""
    from quality_lib.adapters.mlflow.incidents import MlflowIncidents

    return MlflowIncidents(settings.stores.mlflow)


def route(service_name: str, settings: Settings) -> Route:
    """Return the proxy that splits the service's traffic.

    Raises:
        BadInput: the service has none.
    """
    service = settings.service(service_name)
    if service.route.kind == "none":
        raise BadInput(
            f"nothing splits the traffic of '{service_name}'",
            fix=f"set services.{service_name}.route.kind; docs/route.md tells how",
        )
    from quality_lib.adapters.nginx.setup import nginx_parts

    return nginx_parts(service_name, service.endpoint, service.route).route


def model_client(service: ServiceSettings, headers: Mapping[str, str] | None = None) -> VllmClient:
    """Return a client of the service's endpoint; ``headers`` go with every request."""
    from quality_lib.adapters.vllm.header_transport import HeaderTransport

    return VllmClient(
        service.endpoint,
        service.model,
        timeout_s=service.golden.request_timeout_s,
        api_key=secret(service.api_key_env),
        transport=HeaderTransport(headers) if headers else None,
    )


def engine(service: ServiceSettings) -> Engine:
    """Return what starts and stops the service's instances on this machine."""
    from quality_lib.adapters.engine.local import LocalEngine

    return LocalEngine(home() / "engine", api_key=secret(service.api_key_env))


def is_alive(address: str) -> bool:
    """Return whether a server at ``host:port`` answers that it is well."""
    from quality_lib.adapters.vllm.server_health import is_healthy

    return is_healthy(address)


def similarity(settings: Settings) -> Similarity:
    """Return the text similarity that the configuration names."""
    return SentenceSimilarity(settings.embedding_model)


def server_facts(service: ServiceSettings) -> ServerFacts:
    """Ask the running server for the facts of the start-up check (G6.1)."""
    from quality_lib.adapters.vllm.server_facts import observe_server

    return observe_server(service.endpoint, service.model, secret(service.api_key_env))


def server_start(service: ServiceSettings) -> str | None:
    """Return a name of the running server's start; None where it does not tell."""
    from quality_lib.adapters.vllm.server_start import server_start as ask

    return ask(service.endpoint, secret(service.api_key_env))


def engine_findings(
    settings: Settings, service_name: str, endpoints: Sequence[str] | None = None
) -> tuple[EngineFinding, ...]:
    """Look at the service's engines and return what their signals say (condition C).

    What was seen is kept below ``stores.work_dir`` for the next look. ``endpoints``: the instances to
    look at; default: those that get traffic by the route, else the service's endpoint.
    """
    from quality_lib.adapters.engine.watch import watch

    service = settings.service(service_name)
    places = endpoints or _serving_endpoints(settings, service_name)
    kept = settings.stores.work_dir / "signals" / f"{service_name}.json"
    sources = [_signal_source(service, place) for place in places]
    return watch(sources, kept, service.signals.limits, datetime.now(UTC))


def live_fingerprint(service: ServiceSettings, endpoint: str | None = None) -> LiveFingerprint:
    """Have a server read its weights in memory."""
    from quality_lib.adapters.vllm.live_weights import take_fingerprint

    return take_fingerprint(endpoint or service.endpoint, secret(service.api_key_env))


def _serving_endpoints(settings: Settings, service_name: str) -> tuple[str, ...]:
    service = settings.service(service_name)
    if service.route.kind == "none":
        return (service.endpoint,)
    try:
        backends = route(service_name, settings).table().backends
    except QualityError:
        # A dead proxy must not hide what the engine has to say, where it can still be reached.
        return (service.endpoint,)
    return tuple(f"http://{one.address}" for one in backends if one.weight > 0)


def _signal_source(service: ServiceSettings, endpoint: str) -> SignalSource:
    from quality_lib.adapters.engine.local import LocalEngine
    from quality_lib.adapters.engine.signals import SignalSource

    signals = service.signals
    started = LocalEngine(home() / "engine").instances()
    own = next((one.log_path for one in started if one.endpoint == endpoint), None)
    return SignalSource(
        endpoint=endpoint,
        api_key=secret(service.api_key_env),
        log=signals.log or own,
        log_is_own=signals.log is None,
        dcgm=signals.dcgm,
        dcgm_only=signals.dcgm_only,
        weights=signals.live_weights,
        weights_every_s=signals.live_weights_every_minutes * 60,
    )


def server_environment(service: ServiceSettings) -> EnvironmentRecord:
    """Ask the running server for the machine and the libraries under it."""
    from quality_lib.adapters.vllm.server_facts import observe_environment

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
