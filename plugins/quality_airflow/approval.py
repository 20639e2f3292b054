"""A person's yes, by Airflow's own approval operator, where the mode of the rollback asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from quality_airflow import configuration, incident_state
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.notifier import QualityNotifier
from quality_airflow.rollback import page_address, planned

_PLAN = "{{ ti.xcom_pull(task_ids='plan', key='page') or '' }}"


class Approval(ApprovalOperator):
    """Waits for a yes in one mode, passes in every other. A no, or no answer in time, is red.

    Red, and not skipped: a skip would pass the tasks by that take a started instance away again.
    """

    operator_extra_links = ()
    modes: ClassVar[frozenset[str]] = frozenset({"approve-first", "approve-last"})

    def __init__(self, *, mode: str, question: str, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        # A no, and no answer, fail at once. But Airflow 3.3.2 can take the end of the question for a lost
        # task when the answer comes within a turn of its scheduler; then it is asked again.
        kwargs.setdefault("retries", 5)
        kwargs.setdefault("retry_delay", timedelta(seconds=10))
        super().__init__(
            subject="{{ params.service }}: " + question,
            body=_PLAN,
            fail_on_reject=True,
            notifiers=[QualityNotifier("approval_wanted", "rollback")],
            **kwargs,
        )
        if mode not in self.modes:
            raise ValueError(f"no mode '{mode}': use one of {', '.join(sorted(self.modes))}")
        self.mode = mode
        self.question = question
        self.run: Mapping[str, Any] = {}
        self.alert_links: dict[str, str] = {}

    def execute(self, context: Any) -> Any:
        """Ask, where the plan's mode is this one's; Airflow parks the task until somebody answers."""
        plan = self._about(context)
        if plan.get("mode") != self.mode:
            self.log.info("nobody is asked here in mode %s", plan.get("mode"))
            return {"asked": False}
        minutes = self._patience(plan)
        self.response_timeout = timedelta(minutes=minutes)
        self.run = {
            **self.run,
            "headline": f"{plan.get('headline') or self.question}. Without an answer within "
            f"{minutes:g} minutes it is given up.",
        }
        self.alert_links = {"approve": page_address(context, "required_actions")}
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Return the answer with the name of who gave it; fail on a no, and when nobody answered."""
        plan = self._about(context)
        progress = incident_state.recall(context["asset_state_store"][ROLLBACK], plan["service"])
        if progress is not None and progress.phase == "aborted":
            raise AirflowFailException("the rollback was aborted meanwhile")
        who = (event.get("responded_by_user") or {}).get("name") or "somebody"
        try:
            answer = super().execute_complete(context, event)
        except HITLTimeoutError as error:
            raise AirflowFailException("nobody approved the rollback in time") from error
        except HITLRejectException as error:
            raise AirflowFailException(f"{who} rejected the rollback") from error
        self.run = {**self.run, "headline": f"approved by {who}"}
        return {"asked": True, "approved_by": who, "at": str(answer.get("responded_at") or "")}

    def _about(self, context: Any) -> Mapping[str, Any]:
        plan = planned(context)
        named = ("service", "incident_id")
        self.run = {k: plan[k] for k in named if k in plan} | {"step": str(self.task_id)}
        return plan

    def _patience(self, plan: Mapping[str, Any]) -> float:
        service = configuration.settings().service(str(plan["service"]))
        return service.rollback.approval_timeout_minutes
