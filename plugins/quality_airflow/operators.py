"""The tasks: each runs one command of the library and hands its small result on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import (
    BaseOperator,
    ExceptionRetryPolicy,
    RetryAction,
    RetryRule,
    TriggerRule,
    timezone,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, AirflowTaskTimeout

from quality_airflow import configuration, freshness
from quality_airflow.assets import (
    EVIDENCE,
    HEALTH,
    HEALTH_EVENTS,
    SNAPSHOT_EVENTS,
    service_health,
    service_snapshot,
)
from quality_airflow.commands import (
    INCONCLUSIVE,
    Command,
    CommandCrashed,
    Outcome,
    OutsideFailed,
    result_of,
)
from quality_airflow.links import ReportLink, SnapshotLink

VERDICTS = {0: "good", 1: "bad", INCONCLUSIVE: "inconclusive"}
"""By exit code of ``golden check`` and ``logs merge``: the library decides what is good, once."""


def retry_outside_faults(delay: timedelta) -> ExceptionRetryPolicy:
    """Retry what another try can cure; a defect of our own fails at once and is seen at once."""
    curable: list[type[BaseException] | str] = [
        OutsideFailed,
        CommandCrashed,
        AirflowTaskTimeout,
        SystemExit,
    ]
    return ExceptionRetryPolicy(
        rules=[RetryRule(exception=curable, action=RetryAction.RETRY, retry_delay=delay)],
        default=RetryAction.FAIL,
    )


class LibraryOperator(BaseOperator):
    """Runs ``python -m quality_lib …``; a killed task leaves no process behind.

    Every operator reads and writes the health asset's state store through its callbacks, so the asset is
    an inlet.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH])
        super().__init__(**kwargs)
        self._command: Command | None = None

    def run_command(self, *arguments: str) -> Outcome:
        """Run a command with the configuration and ``--json``; its words go to the task log."""
        command = Command([*arguments, "--config", str(configuration.config_file()), "--json"])
        self._command = command
        self.log.info("quality %s", " ".join(command.arguments))
        try:
            return command.run(lambda line: self.log.info("%s", line))
        finally:
            self._command = None

    def on_kill(self) -> None:
        """End the command when Airflow ends the task."""
        if self._command is not None:
            self._command.kill()


class ListServices(BaseOperator):
    """Returns the services that this run is for, from the configuration and the form."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str = "{{ params.service }}", **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH])
        super().__init__(**kwargs)
        self.service = service

    def execute(self, context: Any) -> list[str]:  # noqa: ARG002 - Airflow's signature
        """Return the names; the tasks after it are mapped over them."""
        return configuration.chosen_services(self.service)


class GoldenRun(LibraryOperator):
    """Asks the golden set and judges the answers. A bad verdict is a result, not a failure."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [HEALTH_EVENTS])
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what ``golden check`` printed, and its verdict: good, bad or inconclusive."""
        folder = configuration.run_folder(self.service, context["run_id"])
        outcome = self.run_command(
            "golden", "check", "--service", self.service, "--out", str(folder)
        )
        result = result_of(outcome, "golden check")
        if result is None:
            result = {"summary": "inconclusive", "changed": "unknown", "headline": outcome.message}
        run = {**result, "service": self.service, "verdict": VERDICTS[outcome.code]}
        keys = ("verdict", "summary", "changed", "degraded", "snapshot_id", "run_id")
        context["outlet_events"][HEALTH_EVENTS].add(
            service_health(self.service), extra={k: run[k] for k in keys if run.get(k) is not None}
        )
        return run


class PublishRun(LibraryOperator):
    """Stores a run in MLflow. The run folder stays, so a later try loses nothing.

    Only what lies in MLflow is evidence, so from here, and not from the check, ``decide_rollback`` is woken.
    """

    template_fields: Sequence[str] = ("run",)
    operator_extra_links = (ReportLink(),)
    command: ClassVar[tuple[str, str]] = ("golden", "publish")

    def __init__(self, *, run: Any, **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [EVIDENCE])
        super().__init__(map_index_template="{{ task.run.service }}", **kwargs)
        self.run = run
        self.report_url = ""

    def execute(self, context: Any) -> dict[str, Any]:
        """Return the addresses in MLflow; none when there was nothing to run against."""
        folder = self.run.get("run_dir")
        if not folder:
            self.log.info("nothing to store: %s", self.run.get("headline"))
            return {}
        outcome = self.run_command(*self.command, str(folder))
        published = result_of(outcome, " ".join(self.command)) or {}
        self.report_url = str(published.get("report_url") or "")
        self.stored(context)
        return dict(published)

    def stored(self, context: Any) -> None:
        """Keep what follows from the run being stored: the service is looked at."""
        freshness.seen(
            context["asset_state_store"][HEALTH], str(self.run["service"]), timezone.utcnow()
        )


class Judge(BaseOperator):
    """Turns the verdict into the colour of a task: green, red, or pink for no data.

    It comes after everything, so a run that could not be stored is judged all the same. When the run
    itself failed it is pink too: nothing is known of the model, and ``checked_by`` says why.
    """

    template_fields: Sequence[str] = ("service", "run", "published")
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        service: str,
        run: Any,
        published: Any,
        checked_by: str = "run_golden",
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("inlets", [HEALTH])
        kwargs.setdefault("trigger_rule", TriggerRule.ALL_DONE)
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.run = run
        self.published = published
        self.checked_by = checked_by
        self.report_url = ""

    def execute(self, context: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the headline of a good run; fail on a bad one, skip without data."""
        if not isinstance(self.run, Mapping):
            raise AirflowSkipException(f"the check itself failed: see {self.checked_by}")
        if isinstance(self.published, Mapping):  # None when publishing failed
            self.report_url = str(self.published.get("report_url") or "")
        headline = str(self.run.get("headline") or self.run.get("summary"))
        if self.run["verdict"] == "good":
            return headline
        if self.run["verdict"] == "bad":
            raise AirflowFailException(headline)
        words = "more answers are awaited" if self.run.get("waits") else "nothing could be judged"
        raise AirflowSkipException(f"{words}: {headline}")


class IsEligible(LibraryOperator):
    """Lets only a deployment through that has been healthy long enough, or that a person vouches for."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service

    def execute(self, context: Any) -> str:
        """Return why it may be registered; skip with the reason when it may not."""
        if context["params"]["force"]:
            return "asked for by hand"
        outcome = self.run_command("snapshot", "eligible", "--service", self.service)
        result = result_of(outcome, "snapshot eligible")
        reason = str((result or {}).get("reason") or outcome.message)
        if result is None or not result.get("eligible"):
            raise AirflowSkipException(f"{self.service} is not registered: {reason}")
        return reason


class BuildBaseline(LibraryOperator):
    """Runs the golden set several times and keeps the spread of the healthy answers."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service

    def execute(self, context: Any) -> str:
        """Return the path of the baseline."""
        folder = configuration.run_folder(self.service, context["run_id"], kind="baseline-")
        outcome = self.run_command(
            "golden", "baseline", "--service", self.service, "--out", str(folder)
        )
        result = result_of(outcome, "golden baseline")
        if result is None:
            raise AirflowFailException(f"golden baseline: {outcome.message}")
        return str(result["baseline"])


class CreateSnapshot(LibraryOperator):
    """Registers what is serving, with its baseline, in MLflow."""

    template_fields: Sequence[str] = ("service", "baseline")
    operator_extra_links = (SnapshotLink(),)

    def __init__(self, *, service: str, baseline: Any, **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [SNAPSHOT_EVENTS])
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.baseline = baseline
        self.snapshot_url = ""
        self.headline = ""

    def execute(self, context: Any) -> dict[str, Any]:
        """Return id and address of the snapshot; the alias ``serving`` points to it."""
        outcome = self.run_command(
            "snapshot",
            "create",
            "--service",
            self.service,
            "--baseline",
            str(self.baseline),
            "--alias",
            "serving",
            "--by",
            registered_by(context),
        )
        result = result_of(outcome, "snapshot create")
        if result is None:
            raise AirflowFailException(f"snapshot create: {outcome.message}")
        snapshot_id = str(result["snapshot_id"])
        self.snapshot_url = str(result.get("url") or "")
        self.headline = (
            f"{self.service}: snapshot {snapshot_id[:12]} registered by {registered_by(context)}"
        )
        context["outlet_events"][SNAPSHOT_EVENTS].add(
            service_snapshot(self.service), extra={"snapshot_id": snapshot_id}
        )
        return dict(result)


def registered_by(context: Any) -> str:
    """Return who asked, for the audit trail: the schedule, or the user with the reason from the form."""
    user = getattr(context.get("dag_run"), "triggering_user_name", None)
    reason = str(context["params"].get("reason") or "").strip()
    name = f"{user} by hand" if user else "airflow"
    return f"{name}: {reason}" if reason else name
