"""The configuration file ``quality.yaml``, its defaults, and the only reader of the environment.

Precedence: a service's own ``thresholds`` over the file's ``defaults``, over the defaults here.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from quality_lib.drift.limits import DriftLimits, check_loads
from quality_lib.errors import BadInput
from quality_lib.exchanges.field_map import compile_fields
from quality_lib.exchanges.layout import check_layout
from quality_lib.exchanges.log_limits import ReadLimits, SampleLimits
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.rollout.engine_limits import EngineLimits
from quality_lib.rollout.limits import Mode, Strategy, TriggerLimits
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits

CONFIG_ENV = "QUALITY_CONFIG"
HOME_ENV = "QUALITY_HOME"
SERVICE_ENV = "QUALITY_SERVICE"
"""Which service of the configuration a guarded vLLM server is."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _address(value: str) -> str:
    """Check the base address of a server and return it without ``/v1``."""
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an address such as http://host:8000")
    if parts.username or parts.password:
        raise ValueError("must not hold a user or password; name the key in its api_key_env")
    return value.rstrip("/").removesuffix("/v1")


class Thresholds(_Strict):
    """Every limit of the golden verdict; the statistics they apply to are in ``golden/verdict.py``."""

    similarity_alert: float = Field(default=0.85, ge=0, le=1)
    """Mean similarity below this is degraded (requirement G5.4)."""
    similarity_failed: float = Field(default=0.80, ge=0, le=1)
    """Mean similarity below this is failed and counts for rollback (requirement G5.4)."""
    band_sigmas: float = Field(default=6.0, gt=0)
    """Width of a noise band in standard errors of the baseline's own repeats."""
    band_floor: float = Field(default=0.02, ge=0)
    """A share or similarity must fall at least this far below the healthy mean to leave its band."""
    exact_floor: float = Field(default=0.15, ge=0, le=1)
    """The share of answers equal to a healthy text must fall at least this far to count as changed:
    near-ties flip with the batch (14 of 16 answers equal in the measured worst healthy case)."""
    logprob_floor: float = Field(default=0.05, ge=0)
    """On platforms with rounding noise: mean |log-probability difference|, nats per token, that is
    within health (measured bf16 reordering noise is 0.02, facts 8 and 9)."""
    false_alarm: float = Field(default=1e-3, gt=0, lt=1)
    """Chance with which so many cases of a healthy run fall below all their healthy values; only a
    greater number lets a share or similarity leave its band."""
    gross_logprob: float = Field(default=1.0, gt=0)
    """Mean |log-probability difference| above this is failed: tokens the baseline found likely have
    become improbable."""
    min_judged_share: float = Field(default=0.9, gt=0, le=1)
    """Below this share of answered probes (when the rest failed in transport) nothing is judged."""
    max_missing_share: float = Field(default=0.02, ge=0, le=1)
    """Above this share of cases that the server refused or left empty the run has failed."""


class GoldenSettings(_Strict):
    """What is asked and how."""

    cases: str = "builtin:core"
    """A ``.jsonl`` path or ``builtin:core``."""
    concurrency: int = Field(default=16, ge=1, le=256)
    repeats: int = Field(default=3, ge=2, le=50)
    """Healthy runs that make a baseline."""
    request_timeout_s: float = Field(default=120.0, gt=0)


class DriftSettings(_Strict):
    """How *changed* is decided by a calibration; ``docs/drift.md``. Without one bands decide."""

    enabled: bool = True
    """False: bands decide, even beside a calibration."""
    cases: Literal["sentinel", "all"] = "sentinel"
    """Which stored answers are calibrated: those of a small chosen set, or all."""
    sentinel_cases: int = Field(default=16, ge=1, le=1000)
    sentinel_tokens: int = Field(default=1000, ge=16)
    """Scored tokens of one round of the sentinel set."""
    loads: tuple[int, ...] = (1, 4, 16)
    """Probes at once under which health is calibrated; the hourly check asks one at a time."""
    decode_every: int = Field(default=4, ge=0)
    """Of so many bursts of healthy checks one is decoded too, so that texts have a healthy rate; 0: none."""
    limits: DriftLimits = DriftLimits()

    @field_validator("loads")
    @classmethod
    def _hold_the_hourly_load(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return check_loads(value)


class EngineSettings(_Strict):
    """How the service's instance is started where this product starts it itself."""

    kind: Literal["external", "local"] = "external"
    """``external``: somebody else runs the server. ``local``: a process on this machine."""
    args: tuple[str, ...] = ()
    """Arguments passed to vLLM's OpenAI server beside model, host, port and served name."""


class ImageSettings(_Strict):
    """The container image that serves; empty on a host without containers."""

    ref: str = ""
    digest: str = ""


class ExchangeLogSettings(_Strict):
    """Where the guarded server writes its exchanges, one JSON object per line."""

    folder: Path | None = None
    """None: nothing is recorded."""
    ship_to: str | None = None
    """``s3://bucket/prefix`` that finished files are uploaded to; None: they stay in the folder."""
    max_file_mb: float = Field(default=64.0, gt=0)
    """A file is finished, and may be shipped, at this size or age."""
    max_file_s: float = Field(default=60.0, gt=0)
    max_disk_mb: float = Field(default=2048.0, gt=0)
    """Beyond this the oldest files are dropped and counted as lost."""
    detail_share: float = Field(default=0.1, ge=0, le=1)
    """Share of requests that are recorded with token ids and log-probabilities; the rest text only."""
    mask: bool = True
    """Whether personal data is masked before it is written."""
    prompt: Literal["text", "hash"] = "text"
    """``hash``: of what the caller wrote only the SHA-256 is recorded; such records cannot be replayed."""

    @field_validator("ship_to")
    @classmethod
    def _is_a_bucket(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme != "s3" or not parts.hostname or parts.username or parts.query:
            raise ValueError(
                "must look like s3://bucket/prefix, without keys; those come from AWS_…"
            )
        return value

    @model_validator(mode="after")
    def _ships_from_a_folder(self) -> Self:
        if self.ship_to is not None and self.folder is None:
            raise ValueError("ship_to needs a folder that files wait in")
        return self


class GateSettings(_Strict):
    """Gates of levels 1 to 4 for one service; defaults and meanings are in ``docs/gates.md``."""

    reaction: Literal["observe", "enforce"] = "observe"
    """``observe`` records verdicts and touches nothing; ``enforce`` refuses FAILED requests of level 1
    and lets levels 2 and 3 react in their own modes."""
    disabled: tuple[str, ...] = ()
    """Names of gates that are not asked."""
    bounds: Path | None = None
    """``bounds.json`` of a baseline; None: constants, and verdicts say so."""
    input: InputLimits = InputLimits()
    parameters: ParameterBounds = ParameterBounds()
    stream: StreamLimits = StreamLimits()
    output: OutputLimits = OutputLimits()
    log: ExchangeLogSettings = ExchangeLogSettings()

    @field_validator("disabled")
    @classmethod
    def _are_gates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            return value
        from quality_lib.gates.catalogue import unknown_names  # all gates: most readers need none

        unknown = unknown_names(value)
        if unknown:
            raise ValueError(f"there is no gate {unknown[0]!r}; docs/gates.md lists their names")
        return value


class LogSettings(_Strict):
    """Where the service's production traffic is logged, and how that log is read; ``docs/logs.md``."""

    source: str | None = None
    """A folder or ``s3://bucket/prefix``; None: what the guarded server records (``gates.log``)."""
    format: Literal["own", "litellm", "langfuse", "openai_batch", "fields"] = "own"
    """Who wrote the log; ``fields``: anybody, read through the map ``fields``."""
    layout: tuple[str, ...] | None = None
    """What keys of an hour begin with, as ``%Y-%m-%d/%H/``; an empty list: list everything; None:
    what the format is known to use."""
    layout_offset_hours: float = Field(default=0.0, ge=-14, le=14)
    """How far the clock that names the objects is ahead of UTC."""
    models: tuple[str, ...] = ()
    """Names of the service's model in a log that others write to as well; empty: the log is its own."""
    fields: Mapping[str, str | tuple[str, ...]] = {}
    """Our field → path in a log entry, or several paths and a default ``=text``."""
    batch_names: tuple[str, str] = ("_input.jsonl", "_output.jsonl")
    """How the names of an OpenAI batch's two files end; what stands before is the same."""
    sample: SampleLimits = SampleLimits()
    reading: ReadLimits = ReadLimits()

    @field_validator("layout")
    @classmethod
    def _is_a_layout(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return value if value is None else tuple(check_layout(layout) for layout in value)

    @model_validator(mode="after")
    def _has_a_map_that_can_be_read(self) -> Self:
        compile_fields(self.fields)
        if self.format == "fields" and not self.fields:
            raise ValueError("format 'fields' needs the map 'fields'")
        if not all(self.batch_names) or self.batch_names[0] == self.batch_names[1]:
            raise ValueError("batch_names must be two different endings")
        return self


class ScoringSettings(_Strict):
    """Level-4 scoring of the service's production log; ``docs/scoring.md`` tells how."""

    every_minutes: int = Field(default=10, ge=1, le=1440)
    """A quick pass covers so much time: gates without a model (requirement D2)."""
    deep_every_minutes: int = Field(default=60, ge=0, le=10_080)
    """A deep pass covers so much time; 0 switches it off."""
    longest_windows: int = Field(default=6, ge=1, le=144)
    """A window without a verdict is read again together with the next one, up to so many lengths."""
    partitions: int = Field(default=1, ge=1, le=256)
    """Tasks that share the work on one window."""
    deep_rows: int = Field(default=200, ge=1)
    """Answers that a deep pass judges, all partitions together."""
    limits: ScoreLimits = ScoreLimits()
    embeddings: bool = True
    """Whether a deep pass compares recent answers to the same prompt and parameters, and with a reference
    model every answer with its prompt."""
    reference_model: str | None = "builtin:smollm2-135m"
    """Model whose perplexity tells incoherent text: a Hugging Face folder, a ``.gguf`` file or the
    packaged SmolLM2; null: no perplexity."""
    reference_memory_mb: int = Field(default=512, ge=64)
    """Memory that one batch of the reference model's outputs may take, beside its weights."""
    replay_endpoint: str | None = None
    """A healthy instance of the serving snapshot, for reference replay (G6.3); null: no replay."""
    replay_model: str | None = None
    """Served model name there; null: the service's own."""
    replay_api_key_env: str | None = None
    replay_rows: int = Field(default=20, ge=1)
    """Answers that a deep pass replays, all partitions together."""
    replay: ReplayLimits = ReplayLimits()
    results_uri: str | None = None
    """``s3://bucket/prefix`` or a folder that every judged row is written to as Parquet, masked;
    null: the rows stay in the run folder."""

    @field_validator("replay_endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return value if value is None else _address(value)


class RollbackSettings(_Strict):
    """When and how the service is taken back to a healthy snapshot; ``docs/rollback-decision.md``."""

    mode: Mode = "approve-first"
    """``auto`` asks nobody; ``approve-first`` before anything starts; ``approve-last`` after the
    target was validated, before traffic moves; ``alert-only`` never starts a rollback."""
    strategy: Strategy = "surge"
    """``surge``: new instance beside the old; ``rolling``: replica by replica; ``in-place``: stop the
    old, start the new, with an outage (requirement R10)."""
    step_percent: Literal[25, 50, 100] = 25
    """Traffic moves in steps of this size (requirement R5)."""
    soak_s: float = Field(default=60.0, ge=0, le=86_400)
    """How long each step is watched before the next."""
    approval_timeout_minutes: float = Field(default=30.0, gt=0, le=10_080)
    """Without an answer for so long, nothing is done and a person is told."""
    cool_down_minutes: float = Field(default=60.0, ge=0, le=10_080)
    """After the end of an incident no other rollback starts for so long."""
    daily_limit: int = Field(default=3, ge=1, le=100)
    """Rollbacks within 24 hours."""
    staging: Literal["instance", "skip"] = "instance"
    """``instance``: the target is validated on an instance of its own first (requirement R4);
    ``skip``: not, by explicit choice, where there is no hardware for it."""
    min_capacity: int = Field(default=1, ge=1, le=10_000)
    """Replicas that must serve at every moment, except in-place."""
    keep_retired_minutes: float = Field(default=30.0, ge=0, le=10_080)
    """The retired instance is kept, out of traffic, for so long."""
    core_cases: int = Field(default=10, ge=1, le=1000)
    """Golden cases that the new production instance must pass before it gets traffic."""
    start_timeout_s: float = Field(default=900.0, gt=0)
    """An instance that is not ready by then has failed to start."""
    drain_timeout_s: float = Field(default=600.0, ge=0)
    """Requests in flight on the old instance may take so long to finish."""
    core_dump: bool = False
    """Whether the memory of the retired server is kept as evidence; as large as the server."""
    triggers: TriggerLimits = TriggerLimits()


class SignalSettings(_Strict):
    """What is read of the service's engines (condition C); ``docs/engine-signals.md``."""

    log: Path | None = None
    """The engine's log; null: that of an instance which this product started, else none."""
    dcgm: str | None = None
    """Address of DCGM's exporter, ``http://host:9400/metrics``; null: NVML, when the engine runs on this
    machine."""
    dcgm_only: str = ""
    """Regular expression over the labels of the exporter's lines, where it tells of other GPUs too."""
    live_weights: bool = True
    """Whether the weights in memory are read and compared with those after loading (G6.2)."""
    live_weights_every_minutes: float = Field(default=10.0, ge=0, le=1440)
    limits: EngineLimits = EngineLimits()

    @field_validator("dcgm")
    @classmethod
    def _is_an_exporter(cls, value: str | None) -> str | None:
        return value if value is None else _address(value)

    @field_validator("dcgm_only")
    @classmethod
    def _is_an_expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return value


class RouteSettings(_Strict):
    """The proxy in front of the service; ``docs/route.md`` tells how."""

    kind: Literal["none", "nginx"] = "none"
    """``none``: nothing splits the service's traffic, so it cannot be moved."""
    listen: str | None = None
    """``host:port`` of an nginx that this product runs itself; null: your own nginx, which includes the
    written files."""
    folder: Path | None = None
    """Where the configuration and the logs of the route lie; null: below ``$QUALITY_HOME/route``."""
    binary: Path | None = None
    """The nginx program; null: the packaged one, else the ``nginx`` of the search path."""
    check_command: tuple[str, ...] = ("nginx", "-t")
    """Checks the whole configuration of your own nginx."""
    reload_command: tuple[str, ...] = ("nginx", "-s", "reload")
    """Makes your own nginx take it over."""
    pid_file: Path | None = None
    """Of your own nginx, where it runs on this machine: its connections tell what is in flight."""
    status_url: str | None = None
    """Base address that the route is asked at, when it is not the service's endpoint."""
    trusted: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses and networks that may choose an instance by header and read the route's state."""
    workers: int = Field(default=2, ge=1, le=64)
    """Worker processes of an nginx that this product runs."""
    connect_timeout_s: int = Field(default=5, ge=1, le=60)
    read_timeout_s: int = Field(default=3600, ge=1)
    """How long an instance may be silent: until the first token of a request that waits in its queue."""
    finish_timeout_s: int = Field(default=3600, ge=1)
    """How long answers in flight may go on after a change of the weights."""
    keep_clients: bool = False
    """Whether clients keep their connections between requests. Off, a change of the weights can lose no
    request; on, each saves a handshake, and one that is sent at the very end of another is lost."""
    keep_idle_s: int = Field(default=3, ge=0, le=60)
    """After a change of the weights a client's idle connection is kept so long, because the client may
    be about to send a request on it; the change is complete when these are used or closed."""
    body_limit_mb: int = Field(default=64, ge=1)
    apply_timeout_s: float = Field(default=30.0, gt=0)
    """How long the proxy may take until it works by a new table."""

    @field_validator("listen")
    @classmethod
    def _is_host_and_port(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        if not (re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", host) and port.isdigit()):
            raise ValueError("must look like 127.0.0.1:8080")
        return value

    @field_validator("trusted")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            if ipaddress.ip_network(one).version == 6 and "%" in one:
                raise ValueError("must be an address or a network, without a zone")
        return value

    @field_validator("status_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return value if value is None else _address(value)


class EvidenceSettings(_Strict):
    """What is kept of an instance before it is stopped; ``docs/post-mortem.md``."""

    ship_to: str | None = None
    """``s3://bucket/prefix`` or a folder that archives go to; null: beside the incident in MLflow."""
    part_timeout_s: float = Field(default=30.0, gt=0, le=3600)
    """Each part may take so long; a part that takes longer is left out and told."""
    hash_timeout_s: float = Field(default=1800.0, gt=0)
    """Hashing the weights on disk may take so long."""
    log_mb: int = Field(default=16, ge=1, le=1024)
    """The end of the engine's log."""
    exchanges: int = Field(default=200, ge=0, le=100_000)
    """The last recorded exchanges, masked."""


class ServiceSettings(_Strict):
    """One named vLLM deployment."""

    endpoint: str
    """Base address of the serving instance, without ``/v1`` and without a password."""
    model: str
    """The served model name that requests carry."""
    weights: Path
    """The folder that the snapshot hashes."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the server's key; the key is never stored."""
    image: ImageSettings = ImageSettings()
    engine: EngineSettings = EngineSettings()
    golden: GoldenSettings = GoldenSettings()
    thresholds: Thresholds = Thresholds()
    drift: DriftSettings = DriftSettings()
    gates: GateSettings = GateSettings()
    logs: LogSettings = LogSettings()
    scoring: ScoringSettings = ScoringSettings()
    route: RouteSettings = RouteSettings()
    rollback: RollbackSettings = RollbackSettings()
    signals: SignalSettings = SignalSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    stable_hours: float = Field(default=24.0, ge=0, le=720)
    """How long every gate must be green before the deployment is registered by itself (D3)."""
    stale_minutes: float = Field(default=150.0, gt=0, le=10_080)
    """Without a stored golden run for so long an alert tells that nobody is looking: two hourly runs
    and a half."""

    @field_validator("endpoint")
    @classmethod
    def _has_no_password(cls, value: str) -> str:
        return _address(value)

    @property
    def log_source(self) -> str | None:
        """Return where the service's log lies; None when nothing is recorded."""
        log = self.gates.log
        return self.logs.source or log.ship_to or (str(log.folder) if log.folder else None)


class StoreSettings(_Strict):
    """Where state lives."""

    mlflow: str = "http://127.0.0.1:5000"
    work_dir: Path = Path(".quality/runs")
    """Run folders; one golden run is a few hundred kilobytes."""


class RetentionSettings(_Strict):
    """What ``quality prune`` keeps, of every service; ``docs/prune.md`` tells what is never removed."""

    keep_healthy: int = Field(default=5, ge=1, le=1000)
    """The newest healthy snapshots."""
    snapshot_days: float = Field(default=30.0, ge=0)
    """Other snapshots, and healthy ones beyond that number, are kept so long."""
    evidence_days: float = Field(default=180.0, ge=0)
    """Evidence of closed incidents. The incidents themselves and their post-mortems stay."""
    run_days: float = Field(default=14.0, ge=1)
    """Run folders in ``stores.work_dir``, and journals of closed incidents there."""
    log_days: float | None = Field(default=None, ge=1)
    """Exchange logs where they are shipped to (``gates.log.ship_to``); null: left to the bucket's own
    rules."""


class AlertSettings(_Strict):
    """Where alerts go besides the task log."""

    http_conn_id: str | None = None
    """Airflow connection of a receiver that takes one JSON object by POST; none: log only."""
    slack_conn_id: str | None = None
    """Airflow connection of a Slack incoming webhook; none: nothing goes to Slack."""


class Settings(_Strict):
    """The whole of ``quality.yaml``."""

    services: Mapping[str, ServiceSettings] = Field(min_length=1)
    stores: StoreSettings = StoreSettings()
    alerts: AlertSettings = AlertSettings()
    retention: RetentionSettings = RetentionSettings()
    embedding_model: str = "builtin:all-MiniLM-L6-v2"
    """A sentence-transformers folder, or the packaged all-MiniLM-L6-v2."""

    def service(self, name: str) -> ServiceSettings:
        """Return the named service; a wrong name lists the right ones."""
        if name not in self.services:
            known = ", ".join(sorted(self.services))
            raise BadInput(f"there is no service '{name}'", fix=f"use one of: {known}")
        return self.services[name]


def config_path(given: Path | None, env: Mapping[str, str] | None = None) -> Path:
    """Return the configuration file: the option, else ``$QUALITY_CONFIG``, else ``quality.yaml``."""
    env = os.environ if env is None else env
    return given or Path(env.get(CONFIG_ENV) or "quality.yaml")


def home(env: Mapping[str, str] | None = None) -> Path:
    """Return the folder for caches and local processes: ``$QUALITY_HOME``, else ``.quality`` here."""
    env = os.environ if env is None else env
    return Path(env.get(HOME_ENV) or ".quality").absolute()


def secret(name: str | None, env: Mapping[str, str] | None = None) -> str | None:
    """Return the value of a named environment variable; a name without a value is an error."""
    if name is None:
        return None
    env = os.environ if env is None else env
    if not env.get(name):
        raise BadInput(f"the environment variable {name} is not set", fix=f"export {name}=…")
    return env[name]


def load(path: Path) -> Settings:
    """Read and check the configuration; relative paths in it start at its own folder.

    Raises:
        BadInput: naming file, line and field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(
            "there is no such configuration file",
            file=path,
            fix=f"pass --config FILE or set {CONFIG_ENV}; quality.yaml in the repository is an example",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", file=path) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise BadInput(f"is no valid YAML: {error.problem}", file=path, line=line) from error
    if not isinstance(data, dict):
        raise BadInput(
            "is empty or no mapping", file=path, fix="start from the example quality.yaml"
        )
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(
            first["msg"],
            file=path,
            line=_line_of(node, first["loc"]),
            field=".".join(str(part) for part in first["loc"]),
        ) from None
    return _anchored(settings, path.absolute().parent)


def line_of(path: Path, *keys: str) -> int | None:
    """Return the line of a key in the configuration, else of the deepest part of it that is there."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    return _line_of(node, keys)


def _anchored(settings: Settings, root: Path) -> Settings:
    services = {
        name: service.model_copy(
            update={
                "weights": root / service.weights.expanduser(),
                "logs": service.logs.model_copy(
                    update={"source": _place(service.logs.source, root)}
                ),
                "golden": service.golden
                if service.golden.cases.startswith("builtin:")
                else service.golden.model_copy(
                    update={"cases": str(root / Path(service.golden.cases).expanduser())}
                ),
                "gates": _anchored_gates(service.gates, root),
                "evidence": service.evidence.model_copy(
                    update={"ship_to": _place(service.evidence.ship_to, root)}
                ),
                "route": service.route.model_copy(
                    update={
                        name: root / path.expanduser()
                        for name in ("folder", "binary", "pid_file")
                        if (path := getattr(service.route, name)) is not None
                    }
                ),
            }
        )
        for name, service in settings.services.items()
    }
    stores = settings.stores.model_copy(update={"work_dir": root / settings.stores.work_dir})
    return settings.model_copy(update={"services": services, "stores": stores})


def _anchored_gates(gates: GateSettings, root: Path) -> GateSettings:
    bounds, folder = gates.bounds, gates.log.folder
    log = gates.log.model_copy(update={"folder": root / folder.expanduser() if folder else None})
    return gates.model_copy(
        update={"bounds": root / bounds.expanduser() if bounds else None, "log": log}
    )


def _place(source: str | None, root: Path) -> str | None:
    """Let a folder start at the configuration's; addresses stay as they are."""
    if source is None or "://" in source:
        return source
    return str(root / Path(source).expanduser())


def _line_of(node: Any, location: tuple[Any, ...]) -> int | None:
    """Find the line of the deepest part of ``location`` that the file really has."""
    line = None
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if k.value == str(part)]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
