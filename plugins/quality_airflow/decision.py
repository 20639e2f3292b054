"""The tasks of ``decide_rollback``: is anybody looking, is an incident orphaned, is it time to go back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, timezone
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from quality_airflow import configuration, freshness, incident_state
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.commands import INCONCLUSIVE, OutsideFailed, result_of
from quality_airflow.links import ReportLink
from quality_airflow.operators import LibraryOperator

ROLLBACK_DAG = "rollback"
_RUN_ID = re.compile(r"[A-Za-z0-9_.~:+-]{1,200}")
"""What Airflow takes as a run id."""
_GOING_ON = ["queued", "running"]
_PHASES: Mapping[str, incident_state.Phase] = {
    "done": "done",
    "aborted": "aborted",
    "failed": "aborted",
}
"""How the library calls the end of an incident, and what it is here."""


class IsFresh(BaseOperator):
    """Tells when no golden run of a service was stored for too long: then every other check is blind."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH])
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.run: Mapping[str, Any] = {}

    def execute(self, context: Any) -> str:
        """Return how old the last golden run is; skip when it is too old."""
        limit = configuration.settings().service(self.service).stale_minutes
        age = freshness.age(context["asset_state_store"][HEALTH], self.service, timezone.utcnow())
        minutes = age.total_seconds() / 60
        said = f"the last golden run was stored {minutes:.0f} minutes ago"
        if minutes <= limit:
            self.run = {"service": self.service, "headline": said}
            return said
        headline = f"no golden run was stored for {minutes:.0f} minutes; {limit:.0f} are allowed"
        self.run = {"service": self.service, "headline": headline}
        raise AirflowSkipException(headline)


class TakeBack(LibraryOperator):
    """Ends a rollback whose DAG run is gone, has failed, or was marked failed.

    The library says which way: back to the weights it started with, or, once the last share of the
    traffic has moved, forward through the steps that are missing. It also ends old instances that were
    kept long enough, and rollbacks from a terminal that nobody goes on with.
    """

    template_fields: Sequence[str] = ("service",)
    operator_extra_links = (ReportLink(),)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.report_url = ""
        self.run: Mapping[str, Any] = {}
        self.alert_links: dict[str, str] = {}

    def execute(self, context: Any) -> str:
        """Return what was found; skip where a target that serves cannot be finished yet."""
        store = context["asset_state_store"][ROLLBACK]
        progress = incident_state.recall(store, self.service)
        if progress is None or not progress.is_open:
            return self._tidy() if _has_incidents() else "there never was a rollback"
        if is_driven(context["ti"], progress.dag_run_id):
            return f"{progress.incident_id} is driven by {progress.dag_run_id}"
        self.run = {"service": self.service, "incident_id": progress.incident_id}
        last = self._end(progress)
        said = self._tell(last)
        if (phase := _PHASES.get(str(last.get("state")))) is not None:
            now = timezone.utcnow().isoformat()
            ended = progress.after("reconcile", last, now, moved=False)
            incident_state.remember(store, self.service, incident_state.closed(ended, phase))
        return said

    def _end(self, progress: incident_state.Progress) -> Mapping[str, Any]:
        """Return the library's last word on the incident; its state says how it ended."""
        try:
            done = self._reconcile("--older-than-minutes", "0")
        except OutsideFailed as error:
            if progress.phase != "moved":
                raise
            # Users are served well: what is missing waits, in five minutes it is tried again.
            raise AirflowSkipException(
                f"{progress.incident_id}: the target serves, and what comes after '{progress.step}' "
                f"cannot be finished yet: {error}"
            ) from error
        mine = [one for one in done if one.get("incident_id") == progress.incident_id]
        if mine:
            return mine[-1]
        # Somebody has ended it from a terminal meanwhile.
        outcome = self.run_command("rollback", "status", "--service", self.service)
        known = result_of(outcome, "rollback status") or {}
        is_it = known.get("incident_id") == progress.incident_id and known.get("state") in _PHASES
        default = "done" if progress.phase == "moved" else "aborted"
        state = known["state"] if is_it else default
        headline = "nothing was left to end"
        return {"incident_id": progress.incident_id, "state": state, "headline": headline}

    def _tell(self, last: Mapping[str, Any]) -> str:
        """Keep a result for the alerts; fail where a check of the way forward found bad answers."""
        incident, headline = last.get("incident_id"), str(last.get("headline") or "")
        self.report_url = str(last.get("url") or "")
        self.alert_links = {"post_mortem": self.report_url}
        self.run = {
            "service": self.service,
            "incident_id": incident,
            "step": "reconcile",
            "state": last.get("state"),
            "headline": headline,
            # What ended elsewhere, and old instances that were ended, are no news.
            "went_back": last.get("step") == "abort" and bool(last.get("done")),
            "finished": last.get("step") == "report" and bool(last.get("done")),
        }
        if last.get("state") == "bad":
            # The library remembers the failed check, so the next run of this DAG goes back.
            raise AirflowFailException(f"{incident}: {last.get('step')}: {headline}")
        return f"{incident}: {headline}"

    def _tidy(self) -> str:
        done = self._reconcile()
        if not done:
            return "nothing is left behind"
        for one in done[:-1]:
            self.log.info("%s: %s", one.get("incident_id"), one.get("headline"))
        return self._tell(done[-1])

    def _reconcile(self, *more: str) -> list[Mapping[str, Any]]:
        outcome = self.run_command("rollback", "reconcile", "--service", self.service, *more)
        result = result_of(outcome, "rollback reconcile") or {}
        return [one for one in result.get("reconciled") or () if isinstance(one, Mapping)]


class Decide(LibraryOperator):
    """Asks the library whether the evidence calls for a rollback. Its answer is a result, never red."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service
        self.run: Mapping[str, Any] = {}

    def execute(self, context: Any) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Return the decision; skip when nothing usable is known."""
        outcome = self.run_command("decide", "--service", self.service)
        result = result_of(outcome, "decide")
        if outcome.code == INCONCLUSIVE or result is None:
            known = (result or {}).get("headline") or outcome.message
            raise AirflowSkipException(f"nothing is known of {self.service}: {known}")
        decision = {**result, "service": self.service}
        decision["action"] = str(result.get("action") or "").lower()
        for condition in result.get("conditions") or ():
            self.log.info("%(name)s %(state)s: %(sentence)s", _Missing(condition))
        self.run = decision
        return decision


class StartRollback(TriggerDagRunOperator):
    """Starts the DAG ``rollback`` for a decided incident, once: its run id is the incident's name."""

    template_fields: Sequence[str] = (*TriggerDagRunOperator.template_fields, "service", "decision")

    def __init__(self, *, service: str, decision: Any, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH])
        super().__init__(
            trigger_dag_id=ROLLBACK_DAG,
            logical_date=None,  # two incidents of one moment are two runs
            skip_when_already_exists=True,
            # A run of a paused DAG would wait silently while users get bad answers.
            fail_when_dag_is_paused=True,
            map_index_template="{{ task.service }}",
            **kwargs,
        )
        self.service = service
        self.decision = decision

    def execute(self, context: Any) -> None:
        """Start it; skip when nothing was decided or the run exists already."""
        if self.decision.get("action") != "rollback":
            raise AirflowSkipException(f"nothing to start: {self.decision.get('headline')}")
        incident = str(self.decision["incident_id"])
        self.trigger_run_id = run_id(incident)
        self.conf = {
            "service": self.service,
            "incident_id": incident,
            "mode": self.decision.get("mode"),
            "reason": str(self.decision.get("headline") or "")[:200],
        }
        super().execute(context)


def _has_incidents() -> bool:
    """Tell whether any service was ever rolled back here; asking the library costs a process."""
    return (configuration.settings().stores.work_dir / "incidents").is_dir()


def run_id(incident: str) -> str:
    """Return the id of the DAG run of an incident, the same for everybody who decides on it."""
    name = f"{ROLLBACK_DAG}__{incident}"
    return name if _RUN_ID.fullmatch(name) else f"{ROLLBACK_DAG}__{configuration.slug(incident)}"


def is_driven(ti: Any, dag_run_id: str) -> bool:
    """Tell whether the DAG run that drives an incident still goes on."""
    return bool(ti.get_dr_count(dag_id=ROLLBACK_DAG, run_ids=[dag_run_id], states=_GOING_ON))


class _Missing(dict[str, Any]):
    """A mapping whose missing parts are question marks."""

    def __missing__(self, key: str) -> str:
        return "?"
