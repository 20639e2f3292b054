"""The tasks of the DAG ``rollback``: each runs one step of the library's rollback, which is idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, timezone
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from quality_airflow import incident_state
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.commands import BAD_QUALITY, Outcome, OutsideFailed, result_of
from quality_airflow.decision import is_driven
from quality_airflow.incident_state import Progress
from quality_airflow.links import PlanLink, ReportLink
from quality_airflow.operators import LibraryOperator
from quality_airflow.plan_page import page

POLL = timedelta(seconds=15)
"""Between two looks whether the turn of a traffic move has come."""
PLAN_TASK = "plan"
_OPTIONS = {
    "target": "--target",
    "strategy": "--strategy",
    "step_percent": "--step-percent",
    "soak": "--soak",
    "mode": "--mode",
    "reason": "--reason",
    "incident_id": "--incident",
}
"""Fields of the form; an empty one is left to the configuration."""


class PlanRollback(LibraryOperator):
    """Plans a rollback and opens its incident; in a dry run it only says what would happen.

    The plan stands in the log, in the XCom ``page`` and, behind the button *Plan*, among the task's
    rendered templates.
    """

    template_fields: Sequence[str] = ("plan_page",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"plan_page": "md"}
    overwrite_rtif_after_execution = True
    operator_extra_links = (PlanLink(),)

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        super().__init__(**kwargs)
        self.plan_page = ""
        self.plan_url = ""
        self.run: Mapping[str, Any] = {}
        self.alert_links: dict[str, str] = {}

    def execute(self, context: Any) -> dict[str, Any]:
        """Return the plan; every later task reads it."""
        params = context["params"]
        service = str(params["service"])
        self.run = {"service": service, "incident_id": params.get("incident_id") or ""}
        store = context["asset_state_store"][ROLLBACK]
        mine = str(context["run_id"])
        _refuse_a_second_driver(context["ti"], incident_state.recall(store, service), mine)
        outcome = self.run_command("rollback", "plan", "--service", service, *_form(context))
        result = result_of(outcome, "rollback plan")
        if result is None:
            raise AirflowFailException(f"rollback plan: {outcome.message}")
        plan = {**result, "service": service}
        self._show(context, plan)
        if not plan.get("dry_run"):
            incident_state.remember(store, service, _beginning(plan, mine))
        return plan

    def _show(self, context: Any, plan: Mapping[str, Any]) -> None:
        self.run = {
            "service": plan["service"],
            "incident_id": plan.get("incident_id"),
            "headline": plan.get("headline"),
            "step": PLAN_TASK,
            "dry_run": bool(plan.get("dry_run")),
        }
        self.plan_url = page_address(context, "rendered_templates")
        self.alert_links = {"plan": self.plan_url}
        self.plan_page = page(plan)
        for line in self.plan_page.splitlines():
            self.log.info("%s", line)
        context["ti"].xcom_push(key="page", value=self.plan_page)


class BeginRollback(BaseOperator):
    """Marks the point from which something is started, and returns the traffic moves of the plan.

    It is the setup of the staging instance: from here on the teardown ``stop_staging`` always runs,
    also when the validation fails half-way. A failed setup would skip its teardown.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        super().__init__(**kwargs)
        self.run: Mapping[str, Any] = {}

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Return index and name of each move; a task is mapped over them."""
        plan = planned(context)
        self.run = plan
        store = context["asset_state_store"][ROLLBACK]
        progress = incident_state.recall(store, plan["service"])
        if progress is not None:
            self.log.info("an abort restores %s", dict(progress.starting_table))
        return [{"index": m["index"], "name": str(m.get("name", m["index"]))} for m in _moves(plan)]


class RollbackStep(LibraryOperator):
    """Runs one step. Bad quality fails at once and leads to the abort; outside faults are retried."""

    operator_extra_links = (ReportLink(),)

    def __init__(self, *, step: str, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        super().__init__(**kwargs)
        self.step = step
        self.report_url = ""
        self.run: Mapping[str, Any] = {}
        self.alert_links: dict[str, str] = {}

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what the library said of the finished step."""
        plan = planned(context)
        self.run = {**_identity(plan), "step": self.label}
        self.await_turn(context)
        outcome = self.run_command(
            "rollback", "step", self.step, "--incident-dir", str(plan["incident_dir"]), *self.more()
        )
        result = self._result(context, plan, outcome)
        self.run = {**_identity(plan), "step": self.label, "headline": result.get("headline")}
        self.report_url = str(result.get("url") or result.get("report_url") or "")
        self.alert_links = {"post_mortem": self.report_url}
        self.keep(context, plan, result)
        return dict(result)

    @property
    def label(self) -> str:
        """Return the step as people and the state store name it."""
        return self.step

    def more(self) -> list[str]:
        """Return further arguments of the command."""
        return []

    def await_turn(self, context: Any) -> None:
        """Come back later, or never, when the step's turn has not come."""

    def has_moved(self, plan: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for those that move
        """Tell whether the target serves everything after this step."""
        return self.step in {"retire", "recover", "report"}

    def keep(self, context: Any, plan: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Mirror the step in the state store; the last one closes the incident."""
        store = context["asset_state_store"][ROLLBACK]
        progress = incident_state.recall(store, plan["service"])
        if progress is None or progress.incident_id != plan["incident_id"]:
            progress = _beginning(plan, str(context["run_id"]))
        now = timezone.utcnow().isoformat()
        progress = progress.after(self.label, result, now, moved=self.has_moved(plan))
        if phase := {"report": "done", "abort": "aborted"}.get(self.step):
            progress = incident_state.closed(progress, phase)  # type: ignore[arg-type]
        incident_state.remember(store, plan["service"], progress)

    def _result(self, context: Any, plan: Mapping[str, Any], outcome: Outcome) -> Mapping[str, Any]:
        """Return the result of a step that did its work; every other end is an exception."""
        name = f"rollback step {self.label}"
        result = result_of(outcome, name)
        if result is None or outcome.code not in {0, BAD_QUALITY}:
            # Inconclusive: another try may get answers; without any, the step has not been passed.
            raise OutsideFailed(f"{name}: nothing could be judged: {outcome.message}")
        if outcome.code == BAD_QUALITY:
            store = context["asset_state_store"][ROLLBACK]
            incident_state.ask_abort(store, plan["service"])
            self.run = {**self.run, "state": result.get("state")}
            raise AirflowFailException(f"{self.label}: {result.get('headline') or outcome.message}")
        return result


class MoveTraffic(RollbackStep):
    """Moves the next share of the traffic, waits, checks. Mapped; one after the other, in their order."""

    template_fields: Sequence[str] = ("move",)

    def __init__(self, *, move: Any, **kwargs: Any) -> None:
        super().__init__(step="move", **kwargs)
        self.move = move

    @property
    def label(self) -> str:
        """Return the step with the move's name."""
        return f"move {self.move['name']}"

    def more(self) -> list[str]:
        """Return which move it is."""
        return ["--index", str(self.move["index"])]

    def has_moved(self, plan: Mapping[str, Any]) -> bool:
        """Tell whether this was the last move."""
        return bool(self.move["index"] == _moves(plan)[-1]["index"])

    def await_turn(self, context: Any) -> None:
        """Let the move before this one end; after a failed one there is nothing to do.

        Airflow runs one of them at a time, but while the first waits for its retry the second is free.
        """
        ti = context["ti"]
        if ti.map_index <= 0:
            return
        states = ti.get_task_states(
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=ti.map_index - 1,
        )
        state = next(iter((states.get(ti.run_id) or {}).values()), None)
        if state in {"failed", "upstream_failed", "skipped", "removed"}:
            raise AirflowSkipException(f"the move before it is {state}")
        if state != "success":
            raise AirflowRescheduleException(timezone.utcnow() + POLL)


class TakeWeightsBack(RollbackStep):
    """Restores the weights that the rollback started with, when a step before the last move failed.

    Once the target serves everything, only a step that found bad quality leads back: that a report
    could not be stored is no reason to serve from the bad instance again.
    """

    before_moved: ClassVar[tuple[str, ...]] = (
        "approve_first",
        "begin",
        "validate",
        "start",
        "check",
        "approve_last",
        "move",
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(step="abort", **kwargs)

    def await_turn(self, context: Any) -> None:
        """Do nothing for an incident that another run drives, or whose target serves well."""
        ti = context["ti"]
        service = planned(context)["service"]
        progress = incident_state.recall(context["asset_state_store"][ROLLBACK], service)
        if progress is not None and progress.asks_abort:
            return
        states = ti.get_task_states(
            dag_id=ti.dag_id, run_ids=[ti.run_id], task_ids=list(self.before_moved)
        )
        failed = {"failed", "upstream_failed"}
        if not failed & {str(state) for state in (states.get(ti.run_id) or {}).values()}:
            raise AirflowSkipException(
                "the target serves everything and is not taken back: decide_rollback does what is left, or "
                "clear the red task"
            )


def planned(context: Any) -> Mapping[str, Any]:
    """Return the plan of this run; skip where there is none and in a dry run."""
    plan = context["ti"].xcom_pull(task_ids=PLAN_TASK)
    if not isinstance(plan, Mapping):
        raise AirflowSkipException("nothing was planned, so nothing was changed")
    if plan.get("dry_run"):
        raise AirflowSkipException("a dry run ends with its plan")
    return plan


def page_address(context: Any, tab: str) -> str:
    """Return the address of a tab of this task on Airflow's page; empty where it is not known."""
    address = str(getattr(context.get("ti"), "log_url", "") or "").partition("?")[0]
    return f"{address}/{tab}" if address else ""


def user_of(context: Any) -> str:
    """Return who triggered the run; the schedule has no name of its own."""
    return str(getattr(context.get("dag_run"), "triggering_user_name", None) or "airflow")


def _form(context: Any) -> list[str]:
    params = context["params"]
    arguments: list[str] = []
    for name, option in _OPTIONS.items():
        value = params.get(name)
        if value not in {None, ""}:
            arguments += [option, str(value)]
    arguments += ["--by", user_of(context)]
    return [*arguments, "--dry-run"] if params.get("dry_run") else arguments


def _refuse_a_second_driver(ti: Any, progress: Progress | None, mine: str) -> None:
    if progress is None or not progress.is_open or progress.dag_run_id == mine:
        return
    if is_driven(ti, progress.dag_run_id):
        raise AirflowFailException(
            f"the rollback {progress.incident_id} of this service goes on in {progress.dag_run_id}: "
            "wait for it, or end it with abort_rollback"
        )


def _beginning(plan: Mapping[str, Any], dag_run_id: str) -> Progress:
    inner = plan.get("plan")
    starting = inner.get("starting") if isinstance(inner, Mapping) else None
    return Progress(
        incident_id=str(plan["incident_id"]),
        incident_dir=str(plan["incident_dir"]),
        dag_run_id=dag_run_id,
        phase="moving",
        at=timezone.utcnow().isoformat(),
        headline=str(plan.get("headline") or ""),
        starting_table=starting if isinstance(starting, Mapping) else {},
    )


def _identity(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {k: plan[k] for k in ("service", "incident_id") if k in plan}


def _moves(plan: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    moves = plan.get("moves")
    if not isinstance(moves, list):
        raise AirflowException("the plan has no moves")
    return moves
