"""The story of the README on real parts: a healthy hour, one flipped bit, and what is told of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from quality_lib import settings as settings_module
from quality_lib.adapters import model_source, ports, stack_parts
from quality_lib.adapters.airflow_client import AirflowClient, TaskState
from quality_lib.adapters.alert_receiver import AlertReceiver, receiving
from quality_lib.adapters.bit_flip import BitFlip, flip_bit
from quality_lib.adapters.case_files import load_cases, write_cases
from quality_lib.adapters.engine import EngineSpec, Instance
from quality_lib.adapters.local_config import (
    ALERT_CONNECTION,
    ENGINE_ARGS,
    guard_env,
    write_local_config,
)
from quality_lib.adapters.local_engine import LocalEngine
from quality_lib.adapters.local_stack import LocalStack, StackAddresses
from quality_lib.adapters.vllm_http import PROBE_HEADER
from quality_lib.adapters.weights_files import verify_folder
from quality_lib.errors import EngineFailed, OutsideFailure, QualityError
from quality_lib.golden.case import GoldenCase
from quality_lib.jobs.demo_traffic import ask_as_users, score_traffic
from quality_lib.snapshots.ports import SERVING
from quality_lib.wiring import snapshot_store

SERVICE = "chat"
FAULT = ("model.layers.12.mlp.down_proj.weight", 4321, 14)
"""Tensor, element and bit: the highest exponent bit of one weight in the middle of the model."""

ALERT_TIMEOUT_S = 30.0

FULL, USUAL, SHORT = 1, 2, 4
"""The story asks the core cases and every such other case: all of them take 20 minutes on two cores,
every second one 12, every fourth one 8."""

Say = Callable[[str], None]


class ExpectationFailed(QualityError):
    """A step of the story did not turn out as it must."""

    exit_code = 1


@dataclass
class Step:
    """One line of the closing table."""

    title: str
    expected: str
    found: str = ""
    seconds: float = 0.0
    is_as_expected: bool = False


@dataclass
class Story:
    """What happened, for the closing table and for ``--json``."""

    steps: list[Step] = field(default_factory=list)
    addresses: StackAddresses | None = None
    endpoint: str = ""
    config: Path | None = None
    reports: list[Mapping[str, str]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    run_urls: list[str] = field(default_factory=list)

    @property
    def is_as_expected(self) -> bool:
        """Whether every step turned out as it must."""
        return bool(self.steps) and all(step.is_as_expected for step in self.steps)


class Demo:
    """Tells the story once; everything it starts ends with the ``with`` block of ``running``."""

    def __init__(self, home: Path, repository: Path, say: Say, *, every: int = USUAL) -> None:
        self._say = say
        self._every = every
        self._home = home
        self._serving = home / "demo" / "serving"
        # The hourly run of the schedule must not come between the steps of the story.
        self._stack = LocalStack(home, repository, has_schedules=False)
        self._engine = LocalEngine(home / "engine")
        self._exchange_log = home / "demo" / "exchanges"
        self._port = 0
        self._instance: Instance | None = None
        self._airflow: AirflowClient
        self.story = Story()

    @contextmanager
    def running(self) -> Generator[Story]:
        """Tell the story, give the result while everything still runs, then end everything."""
        with ExitStack() as undo:
            alerts = undo.enter_context(receiving())
            undo.callback(self._stack.down, progress=self._say)
            undo.callback(self._stop_engine)
            self._tell(alerts, undo)
            yield self.story

    def _tell(self, alerts: AlertReceiver, undo: ExitStack) -> None:
        with self._step("prepare the model", "a folder of weights") as step:
            model = model_source.prepare(
                model_source.DEFAULT_SOURCE, self._home / "models", say=self._say
            ).path
            self._deploy(model)
            step.found = f"{sum(f.stat().st_size for f in model.iterdir()) / 1e6:.0f} MB of weights"
        with self._step("start S3, MLflow, Airflow and vLLM", "all of them healthy") as step:
            self._engine.clean()
            self._port = ports.free_port()
            # The guard inside vLLM reads the configuration and ships to S3, so these come first.
            self.story.addresses = self._stack.up(("s3",), progress=self._say)
            self._configure()
            instance = self._start()
            self.story.addresses = self._stack.up(
                progress=self._say, connections={ALERT_CONNECTION: alerts.url}
            )
            self._configure()
            self._await(instance)
            self._airflow = undo.enter_context(self._stack.airflow())
            for dag in ("register_snapshot", "golden_hourly"):
                self._airflow.wait_for_dag(dag)
            step.found = f"vLLM at {instance.endpoint}"
        with self._step("users ask; score their answers", "low-quality rate as in health") as step:
            result = self._score_users(step, "healthy")
            _expect(result["summary"] == "healthy", result["headline"])
        with self._step("DAG register_snapshot, by hand", "a snapshot with its baseline") as step:
            form = {"service": SERVICE, "force": True, "reason": "the demo's healthy deployment"}
            self._run_dag("register_snapshot", form)
            stored = snapshot_store(self._settings()).get(SERVICE, SERVING)
            step.found = f"snapshot {stored.snapshot_id[:12]} is serving"
        with self._step("DAG golden_hourly, healthy", "healthy, unchanged") as step:
            result = self._golden(step, expected_state="success")
            _expect(
                result["summary"] == "healthy" and result["changed"] == "no", result["headline"]
            )
        with self._step("flip one bit of one weight, restart", "HTTP 200, no error logged") as step:
            flip, answer = self._corrupt()
            step.found = (
                f"bit {flip.bit} of {flip.tensor}[{flip.element}]; /health says 200, "
                f"a chat request too: {answer[:40]!r}"
            )
        with self._step("users ask; score their answers", "a high low-quality rate") as step:
            result = self._score_users(step, "damaged")
            _expect(result["summary"] == "failed", result["headline"])
        with self._step("DAG golden_hourly, damaged", "failed, changed; an alert") as step:
            result = self._golden(step, expected_state="failed")
            _expect(
                result["summary"] == "failed" and result["changed"] == "yes", result["headline"]
            )
            self._expect_alert(alerts)
        with self._step("verify the snapshot's files", "the damaged file by name") as step:
            step.found = self._first_difference(flip)
        self.story.alerts = list(alerts.received)

    @contextmanager
    def _step(self, title: str, expected: str) -> Generator[Step]:
        step = Step(title, expected)
        self.story.steps.append(step)
        self._say(f"▶ {title}")
        began = time.monotonic()
        try:
            yield step
            step.is_as_expected = True
        except QualityError as error:
            step.found = str(error)
            raise
        finally:
            step.seconds = time.monotonic() - began
            self._say(f"{'✓' if step.is_as_expected else '✗'} {title}: {step.found}")

    def _deploy(self, model: Path) -> None:
        """Copy the weights to where the service loads them from; the damage is done to this copy."""
        shutil.rmtree(self._serving, ignore_errors=True)
        try:
            shutil.copytree(model, self._serving)
        except OSError as error:
            raise OutsideFailure(f"{self._serving} cannot be written: {error}") from error

    def _start(self) -> Instance:
        spec = EngineSpec(
            self._serving, SERVICE, args=ENGINE_ARGS, env=self._guard_env(), port=self._port
        )
        self._instance = self._engine.start(spec)
        self._say(f"vllm: starting, log {self._instance.log_path}")
        return self._instance

    def _await(self, instance: Instance) -> None:
        self._say("vllm: loading the model")
        self._engine.wait_healthy(instance, 600.0)
        self._say(f"vllm: first answers after {self._engine.warm_up(instance):.0f} s of warm-up")

    def _stop_engine(self) -> None:
        if self._instance is not None:
            self._engine.stop(self._instance)
            self._instance = None

    def _guard_env(self) -> dict[str, str]:
        assert self.story.addresses is not None  # noqa: S101 - S3 is started before
        return guard_env(self._stack.config, SERVICE, self.story.addresses.s3 or "")

    def _score_users(self, step: Step, name: str) -> Mapping[str, Any]:
        assert self._instance is not None  # noqa: S101 - started in an earlier step
        traffic = ask_as_users(self._instance)
        self._say(f"  {traffic.requests} requests answered in {traffic.seconds:.0f} s, no error")
        out = self._home / "demo" / f"scored-{name}"
        shutil.rmtree(out, ignore_errors=True)
        result = score_traffic(
            traffic,
            SERVICE,
            self._exchange_log,
            out,
            config=self._stack.config,
            env=self._guard_env(),
        )
        step.found = str(result["headline"])
        self.story.reports.append({
            "headline": f"{name}: {result['headline']}",
            "file": str(result["report"]),
            "url": str(result["report_url"]),
        })
        return result

    def _configure(self) -> None:
        whole = load_cases("builtin:core")
        asked = thinned(whole, self._every)
        cases = self._home / "demo" / "cases.jsonl"
        write_cases(cases, asked, overwrite=True)
        self._say(f"golden set: {len(asked)} of {len(whole)} cases, two healthy runs as baseline")
        assert self.story.addresses is not None  # noqa: S101 - set one line before
        write_local_config(
            self._stack.config,
            service=SERVICE,
            endpoint=stack_parts.url(self._port),
            model=SERVICE,
            weights=self._serving,
            # Not there yet when vLLM starts; the guard does not need it.
            mlflow=self.story.addresses.mlflow or stack_parts.url(0),
            work_dir=self._home / "runs",
            engine_args=ENGINE_ARGS,
            alert_connection=ALERT_CONNECTION,
            cases=cases,
            repeats=2,
            exchange_log=self._exchange_log,
        )
        self.story.config = self._stack.config
        self.story.endpoint = stack_parts.url(self._port)

    def _settings(self) -> settings_module.Settings:
        return settings_module.load(self._stack.config)

    def _run_dag(self, dag: str, form: Mapping[str, Any], expected_state: str = "success") -> str:
        airflow = self._airflow
        run_id = airflow.trigger(dag, form)
        airflow.unpause(dag)
        shown: set[tuple[str, str]] = set()

        def progress(tasks: tuple[TaskState, ...]) -> None:
            for task in tasks:
                mark = (task.task_id, str(task.state))
                if task.state and mark not in shown:
                    shown.add(mark)
                    self._say(f"  {dag}.{task.task_id}: {task.state}")

        state = airflow.wait(dag, run_id, timeout_s=1800.0, progress=progress)
        self.story.run_urls.append(airflow.run_url(dag, run_id))
        if state != expected_state:
            bad = [t for t in airflow.task_states(dag, run_id) if t.state == "failed"]
            log = airflow.task_log(dag, run_id, bad[0]) if bad else "no task failed"
            raise ExpectationFailed(
                f"{dag} ended as {state}, expected {expected_state}. Last lines of the log:\n"
                + "\n".join(log.splitlines()[-15:])
            )
        return run_id

    def _golden(self, step: Step, expected_state: str) -> Mapping[str, Any]:
        run_id = self._run_dag("golden_hourly", {"service": SERVICE}, expected_state)
        airflow = self._airflow
        # Mapped tasks: the demo has one service, so map index 0.
        result = airflow.result("golden_hourly", run_id, "run_golden", 0)
        published = airflow.result("golden_hourly", run_id, "publish", 0)
        _expect(isinstance(result, dict), f"run_golden returned {result!r}")
        _expect(isinstance(published, dict) and published.get("report_url"), "no report in MLflow")
        step.found = str(result["headline"])
        self.story.reports.append({
            "headline": str(result["headline"]),
            "file": str(result["report"]),
            "url": str(published["report_url"]),
        })
        return dict(result)

    def _corrupt(self) -> tuple[BitFlip, str]:
        assert self._instance is not None  # noqa: S101 - started in an earlier step
        self._stop_engine()
        flip = flip_bit(self._serving, *FAULT)
        instance = self._start()
        self._await(instance)
        body = {
            "model": SERVICE,
            "messages": [{"role": "user", "content": "Name three fruits."}],
            "max_tokens": 24,
        }
        try:
            health = httpx.get(f"{instance.endpoint}/health", timeout=10)
            chat = httpx.post(
                f"{instance.endpoint}/v1/chat/completions",
                json=body,
                headers=PROBE_HEADER,
                timeout=120,
            )
        except httpx.HTTPError as error:
            raise EngineFailed(f"{instance.endpoint} does not answer: {error}") from error
        if (health.status_code, chat.status_code) != (200, 200):
            raise EngineFailed(f"health {health.status_code}, chat {chat.status_code}: not silent")
        return flip, str(chat.json()["choices"][0]["message"]["content"])

    def _expect_alert(self, alerts: AlertReceiver) -> None:
        """Callbacks run right after the task has ended, so the alert may take a moment."""
        if alerts.wait_for("quality_bad", ALERT_TIMEOUT_S):
            return
        raise ExpectationFailed(f"no alert 'quality_bad' came; received: {alerts.received}")

    def _first_difference(self, flip: BitFlip) -> str:
        stored = snapshot_store(self._settings()).get(SERVICE, SERVING)
        found = verify_folder(self._serving, stored.manifest.weights)
        _expect(
            [d.path for d in found] == [flip.file.name], f"expected {flip.file.name}, found {found}"
        )
        return found[0].sentence


def _expect(condition: object, what: str) -> None:
    if not condition:
        raise ExpectationFailed(f"not as expected: {what}")


def thinned(cases: tuple[GoldenCase, ...], every: int) -> tuple[GoldenCase, ...]:
    """Return the core cases and every ``every``-th other one, in order."""
    return tuple(
        case for number, case in enumerate(cases) if "core" in case.tags or number % every == 0
    )
