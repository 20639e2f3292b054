"""The tasks that score production logs: the library's commands ``quality logs …``, a window a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import (
    BaseOperator,
    ExceptionRetryPolicy,
    RetryAction,
    RetryRule,
    TriggerRule,
    task_group,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from quality_airflow import configuration
from quality_airflow.assets import HEALTH, LOGS, SCORE_EVENTS, service_scores
from quality_airflow.commands import CommandCrashed, OutsideFailed, result_of
from quality_airflow.configuration import gpu_queue
from quality_airflow.notifier import QualityNotifier
from quality_airflow.operators import (
    VERDICTS,
    Judge,
    LibraryOperator,
    ListServices,
    PublishRun,
    retry_outside_faults,
)

_EVENT_KEYS = (
    "verdict", "summary", "changed", "depth", "score_id", "start", "end", "judged", "low",
    "low_quality_rate", "rate_low", "rate_high",
)  # fmt: skip


class PlanWindow(LibraryOperator):
    """Finds the window that is due for a service and how many tasks share it.

    Each service has its own rhythm, so a run of the DAG finds some services not due: those are skipped.
    The plan lies in the run's folder; clearing the task finds it there again.
    """

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, depth: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.service = service
        self.depth = depth

    def execute(self, context: Any) -> dict[str, Any]:
        """Return service, folder and partitions of the window."""
        folder = configuration.run_folder(
            self.service, context["run_id"], kind=f"{self.depth}-scores-"
        )
        arguments = ["logs", "partitions", "--service", self.service, "--out", str(folder)]
        arguments += ["--deep"] if self.depth == "deep" else []
        mark = context["asset_state_store"][LOGS].get(_key(self.service, self.depth))
        arguments += ["--watermark", json.dumps(mark)] if mark else []
        plan = result_of(self.run_command(*arguments), "logs partitions")
        if plan is None or not plan.get("due"):
            raise AirflowSkipException(f"no window of {self.service} is due yet")
        self.log.info("%s to %s", plan["start"], plan["end"])
        return {
            "service": self.service,
            "run_dir": str(plan["run_dir"]),
            "partitions": plan["partitions"],
        }


class ListPartitions(BaseOperator):
    """Lays the partitions of all planned windows out in one list, a task for each."""

    template_fields: Sequence[str] = ("plans",)

    def __init__(self, *, plans: Any, **kwargs: Any) -> None:
        kwargs.setdefault("trigger_rule", TriggerRule.ALL_DONE)
        kwargs.setdefault("inlets", [HEALTH])
        super().__init__(**kwargs)
        self.plans = plans

    def execute(self, context: Any) -> list[dict[str, str]]:  # noqa: ARG002 - Airflow's signature
        """Return service, folder and number of each partition; none when nothing is due."""
        plans: Iterable[Any] = self.plans or ()
        return [
            {"service": plan["service"], "run_dir": plan["run_dir"], "partition": partition}
            for plan in plans
            if isinstance(plan, Mapping)
            for partition in plan["partitions"]
        ]


class ScorePartition(LibraryOperator):
    """Scores one partition of a window. Its result lies in the run's folder, where ``merge`` finds it."""

    template_fields: Sequence[str] = ("part",)

    def __init__(self, *, part: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.part = part

    @property
    def service(self) -> str:
        """Return the service, for an alert."""
        return str(self.part["service"]) if isinstance(self.part, Mapping) else ""

    def execute(self, context: Any) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Return the few numbers that ``logs score`` printed."""
        outcome = self.run_command(
            "logs",
            "score",
            "--service",
            self.part["service"],
            "--out",
            str(self.part["run_dir"]),
            "--partition",
            self.part["partition"],
        )
        result = result_of(outcome, "logs score")
        if result is None:
            raise AirflowFailException(f"logs score: {outcome.message}")
        return dict(result)


class MergeScores(LibraryOperator):
    """Puts a window's partitions together and judges it; then the log counts as scored up to its end.

    A partition that is missing fails this task: its own task has failed, and a part of the answers is
    no verdict. Then the watermark stays, and the next run reads the window again.
    """

    template_fields: Sequence[str] = ("service", "run_dir")

    def __init__(self, *, service: str, run_dir: str, depth: str, **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [SCORE_EVENTS])
        kwargs.setdefault("inlets", [HEALTH, LOGS])
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.run_dir = run_dir
        self.depth = depth

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what ``logs merge`` printed and its verdict: good, bad or inconclusive."""
        outcome = self.run_command("logs", "merge", self.run_dir)
        result = result_of(outcome, "logs merge")
        if result is None:
            raise AirflowFailException(f"logs merge: {outcome.message}")
        run = {k: v for k, v in result.items() if k != "watermark"}
        run |= {"service": self.service, "verdict": VERDICTS[outcome.code]}
        context["outlet_events"][SCORE_EVENTS].add(
            service_scores(self.service),
            extra={k: run[k] for k in _EVENT_KEYS if run.get(k) is not None},
        )
        self._advance(context, result.get("watermark"))
        return run

    def _advance(self, context: Any, mark: Any) -> None:
        """Remember how far the log was read; a run that is cleared later never moves it back."""
        if not isinstance(mark, Mapping):
            self.log.info("the window is read again together with the next one")
            return
        store = context["asset_state_store"][LOGS]
        key = _key(self.service, self.depth)
        if _complete_to(store.get(key)) < _complete_to(mark):
            store.set(key, dict(mark))


class PublishScores(PublishRun):
    """Stores a window's score in MLflow, and its rows where the configuration says."""

    command: ClassVar[tuple[str, str]] = ("logs", "publish")

    def stored(self, context: Any) -> None:
        """Keep nothing: that the log is scored does not show that the golden set is asked."""


def _retry_what_fails_at_once(delay: timedelta) -> ExceptionRetryPolicy:
    """Retry what another try can cure, but not what hung until its time was up."""
    curable: list[type[BaseException] | str] = [OutsideFailed, CommandCrashed, SystemExit]
    return ExceptionRetryPolicy(
        rules=[RetryRule(exception=curable, action=RetryAction.RETRY, retry_delay=delay)],
        default=RetryAction.FAIL,
    )


@dataclass(frozen=True)
class _Limits:
    """How long one service may hold up the verdicts of all: they wait for every mapped task."""

    plan: timedelta
    score: timedelta
    retries: int
    policy: ExceptionRetryPolicy


_QUICK = _Limits(
    # Together shorter than the ten minutes between runs: a log that hangs costs the others one rhythm
    # at most. Its own window is read again by the next run.
    plan=timedelta(minutes=3),
    score=timedelta(minutes=4),
    retries=1,
    policy=_retry_what_fails_at_once(timedelta(seconds=20)),
)
_DEEP = _Limits(
    plan=timedelta(minutes=5),
    score=timedelta(minutes=50),
    retries=2,
    policy=retry_outside_faults(timedelta(seconds=20)),
)


def score_lanes(depth: str) -> None:
    """Declare the tasks of a scoring DAG: plan, score by partition, and a lane of its own per service.

    The quick and the deep pass are DAGs of their own, so that a deep pass that waits for a GPU never
    holds up the quick one, whose verdict may start a rollback.
    """
    topic, is_deep = f"scores:{depth}", depth == "deep"
    limits = _DEEP if is_deep else _QUICK
    broken = QualityNotifier("checker_broken", topic)
    # What a task that is mapped by itself declares must stand here: Airflow makes it only when it runs.
    plan = PlanWindow.partial(
        task_id="plan_window",
        inlets=[HEALTH, LOGS],
        map_index_template="{{ task.service }}",
        depth=depth,
        execution_timeout=limits.plan,
        retries=limits.retries,
        retry_policy=limits.policy,
        on_failure_callback=broken,
    ).expand(
        service=ListServices(
            task_id="list_services",
            execution_timeout=timedelta(minutes=2),
            on_failure_callback=broken,
        ).output
    )
    # A service without a plan has no lane that could be red; this leaf makes it the DAG run's own.
    plan >> EmptyOperator(task_id="planned", trigger_rule=TriggerRule.NONE_FAILED)
    partitions = ListPartitions(
        task_id="list_partitions",
        plans=plan.output,
        execution_timeout=timedelta(minutes=2),
        on_failure_callback=broken,
    )
    score = ScorePartition.partial(
        task_id="score",
        inlets=[HEALTH],
        map_index_template="{{ task.part.service }} {{ task.part.partition }}",
        execution_timeout=limits.score,
        retries=limits.retries,
        retry_policy=limits.policy,
        on_failure_callback=broken,
        **({"pool": "gpu", "queue": gpu_queue()} if is_deep else {}),
    ).expand(part=partitions.output)

    @task_group(group_id="services", prefix_group_id=False)
    def judge_window(service: str, run_dir: str, partitions: Any) -> None:  # noqa: ARG001 - of the plan
        """Judge one service's window."""
        merge = MergeScores(
            task_id="merge",
            service=service,
            run_dir=run_dir,
            depth=depth,
            trigger_rule=TriggerRule.ALL_DONE,
            execution_timeout=timedelta(minutes=5),
            on_failure_callback=broken,
        )
        publish = PublishScores(
            task_id="publish",
            run=merge.output,
            execution_timeout=timedelta(minutes=5),
            retries=3,
            retry_delay=timedelta(seconds=20),
            retry_exponential_backoff=True,
            on_failure_callback=QualityNotifier("not_recorded"),
            on_success_callback=QualityNotifier("recorded"),
        )
        Judge(
            task_id="judge",
            service=service,
            run=merge.output,
            published=publish.output,
            checked_by="score and merge",
            on_failure_callback=QualityNotifier("low_quality", topic),
            on_skipped_callback=QualityNotifier("no_data", topic),
            on_success_callback=QualityNotifier("recovered", topic),
        )
        # Judge runs whatever failed before it; this leaf makes such a failure the DAG run's own.
        publish >> EmptyOperator(task_id="recorded")

    lanes = judge_window.expand_kwargs(plan.output)
    score >> lanes


def _key(service: str, depth: str) -> str:
    return f"{depth}:{service}"


def _complete_to(mark: Any) -> datetime:
    try:
        return datetime.fromisoformat(mark["complete_to"])
    except (TypeError, KeyError, ValueError):
        return datetime.fromisoformat("1970-01-01T00:00:00+00:00")  # nothing remembered
