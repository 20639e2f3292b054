"""The story of the README on real parts: a healthy hour, a bad deployment, and the way back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from quality_lib.adapters.model.bit_flip import BitFlip
from quality_lib.adapters.model.weights_files import verify_folder
from quality_lib.adapters.stack.airflow_client import TaskState
from quality_lib.adapters.stack.alert_receiver import AlertReceiver, receiving
from quality_lib.adapters.stack.user_load import UserLoad, by_phase
from quality_lib.jobs.clock import utc_now
from quality_lib.jobs.demo_stage import SERVICE, Stage
from quality_lib.jobs.demo_story import (
    ExpectationFailed,
    Say,
    Step,
    Story,
    expect,
    failed_tasks,
)
from quality_lib.jobs.demo_traffic import REQUESTS, garbage_test, score_traffic
from quality_lib.snapshots.ports import SERVING
from quality_lib.wiring import snapshot_store

ALERT_TIMEOUT_S = 30.0
DAG_TIMEOUT_S = 1800.0

FULL, USUAL = 1, 8
"""The story asks the core cases and every such other case."""

USERS = 4
"""At a time, half of them streaming long answers."""


class Demo:
    """Tells the story once; everything it starts ends with the ``with`` block of ``running``."""

    def __init__(
        self, home: Path, repository: Path, say: Say, *, every: int = USUAL, users: int = USERS
    ) -> None:
        self._say = say
        self._home = home
        self._clients = users
        self._stage = Stage(home, repository, say, every=every)
        self.story = Story()

    @contextmanager
    def running(self) -> Generator[Story]:
        """Tell the story, give the result while everything still runs, then end everything."""
        with ExitStack() as undo:
            alerts = undo.enter_context(receiving())
            self._tell(alerts, undo)
            yield self.story

    def _tell(self, alerts: AlertReceiver, undo: ExitStack) -> None:
        story, stage = self.story, self._stage
        with self._step("prepare the model", "a folder of weights") as step:
            good = stage.prepare()
            step.found = f"{sum(f.stat().st_size for f in good.iterdir()) / 1e6:.0f} MB of weights"
        with self._step("start S3, MLflow, Airflow, vLLM and nginx", "all of them healthy") as step:
            first = stage.open(good, alerts.url, undo)
            story.addresses, story.endpoint, story.config = (
                stage.addresses,
                stage.endpoint,
                stage.config,
            )
            step.found = f"vLLM at {first.endpoint}, users ask {stage.endpoint}"
        self._healthy_hour()
        load = UserLoad(stage.endpoint, SERVICE, self._clients)
        load.begin("before the deployment")
        try:
            with load.asking():
                flip = self._bad_deployment(load, alerts)
                self._way_back(load, alerts, flip)
        finally:
            story.phases = list(by_phase(load.asked, garbage_test()))
            story.alerts = list(alerts.received)
        with self._step("what users have noticed", "no failed or cut request") as step:
            failed = [one for one in load.asked if one.problem]
            step.found = f"{len(load.asked)} requests, {len(failed)} failed"
            expect(not failed, f"{step.found}, first: {failed and failed[0].problem}")

    def _healthy_hour(self) -> None:
        with self._step("users ask; score their answers", "low-quality rate as in health") as step:
            load = UserLoad(self._stage.endpoint, SERVICE, self._clients)
            since = utc_now()
            with load.asking():
                load.await_answers(since, REQUESTS)
            result = self._score(step, since, "healthy")
            expect(result["summary"] == "healthy", result["headline"])
        with self._step("DAG register_snapshot, by hand", "a snapshot with its baseline") as step:
            form = {"service": SERVICE, "force": True, "reason": "the demo's healthy deployment"}
            self._run_dag("register_snapshot", form)
            step.found = f"snapshot {self._serving_snapshot()[:12]} is serving"
        with self._step("DAG golden_hourly, healthy", "healthy, unchanged") as step:
            result = self._golden(step, expected_state="success")
            expect(result["summary"] == "healthy" and result["changed"] == "no", result["headline"])

    def _bad_deployment(self, load: UserLoad, alerts: AlertReceiver) -> BitFlip:
        """Deploy damaged weights under the users' eyes; return what was done to them."""
        title = "deploy a copy with one flipped bit"
        with self._step(title, "HTTP 200, no error logged") as step:
            good = self._stage.settings().service(SERVICE).weights
            load.begin("during the deployment")
            flip, _ = self._stage.deploy_damaged(good)
            load.begin("on the damaged instance")
            self._deployed = time.monotonic()
            answer = self._stage.ask("Name three fruits.")
            step.found = (
                f"bit {flip.bit} of {flip.tensor}[{flip.element}]; /health says 200, "
                f"a chat request too: {answer[:40]!r}"
            )
        for number in ("first", "second"):
            title = f"DAG golden_hourly, damaged, {number} hour"
            with self._step(title, "failed; an alert") as step:
                result = self._golden(step, expected_state="failed")
                expect(result["summary"] == "failed", result["headline"])
                self._expect_alert(alerts, "quality_bad")
                self._happened(f"{number} failed golden run")
            if number == "first":
                # Only answers since the new deployment was first seen speak against it.
                since = utc_now()
        with self._step("score what users have got", "a high low-quality rate") as step:
            load.await_answers(since, REQUESTS)
            result = self._score(step, since, "damaged")
            expect(result["summary"] == "failed", result["headline"])
            self._happened("low-quality rate measured")
        return flip

    def _way_back(self, load: UserLoad, alerts: AlertReceiver, flip: BitFlip) -> None:
        stage = self._stage
        target = self._serving_snapshot()
        with self._step("DAG decide_rollback", "roll back, once") as step:
            stage.airflow.unpause("rollback")
            run_id = self._run_dag("decide_rollback", {"service": SERVICE})
            decision = stage.airflow.result("decide_rollback", run_id, "decide", 0)
            expect(decision["action"] == "rollback", decision["headline"])
            step.found = str(decision["headline"])
            self._happened("decision")
        with self._step("DAG rollback, started by the decision", "the snapshot serves") as step:
            load.begin("during the rollback")
            run_id = f"rollback__{decision['incident_id']}"
            self._await_dag("rollback", run_id, on_task=self._note_moves(run_id))
            load.begin("after the rollback")
            report = stage.airflow.result("rollback", run_id, "report")
            self._expect_alert(alerts, "rollback_done")
            step.found = str(report["headline"])
            self.story.reports.append({
                "headline": f"post-mortem of {decision['incident_id']}",
                "file": "",
                "url": str(report.get("url") or ""),
            })
        with self._step("users ask the service again; score", "as in health") as step:
            since = utc_now()
            load.await_answers(since, REQUESTS)
            result = self._score(step, since, "recovered")
            expect(result["summary"] == "healthy", result["headline"])
            self._happened("healthy answers proven")
        with self._step("what serves now", "the snapshot's own files, alone") as step:
            expect(self._serving_snapshot() == target, "the alias 'serving' was moved")
            weights = stage.serving()
            expect(sorted(weights.values()) == [100], f"the route leads to {dict(weights)}")
            step.found = f"snapshot {target[:12]} at 100 %; the damaged copy: " + self._damage(flip)

    def _step(self, title: str, expected: str) -> Any:
        return self.story.step(title, expected, self._say)

    def _happened(self, what: str) -> None:
        self.story.moments.setdefault(what, time.monotonic() - self._deployed)

    def _score(self, step: Step, since: datetime, name: str) -> Mapping[str, Any]:
        out = self._home / "demo" / f"scored-{name}"
        shutil.rmtree(out, ignore_errors=True)
        result = score_traffic(
            since,
            SERVICE,
            self._stage.exchange_log,
            out,
            config=self._stage.config,
            env=self._stage.env(),
        )
        step.found = str(result["headline"])
        self.story.reports.append({
            "headline": f"{name}: {result['headline']}",
            "file": str(result["report"]),
            "url": str(result["report_url"]),
        })
        return result

    def _run_dag(self, dag: str, form: Mapping[str, Any], expected_state: str = "success") -> str:
        run_id = self._stage.airflow.trigger(dag, form)
        self._stage.airflow.unpause(dag)
        self._await_dag(dag, run_id, expected_state)
        return run_id

    def _await_dag(
        self, dag: str, run_id: str, expected_state: str = "success", on_task: Any = None
    ) -> None:
        airflow = self._stage.airflow
        shown: set[tuple[str, int, str]] = set()

        def progress(tasks: tuple[TaskState, ...]) -> None:
            for task in tasks:
                mark = (task.task_id, task.map_index, str(task.state))
                if task.state and mark not in shown:
                    shown.add(mark)
                    self._say(f"  {dag}.{task.name}: {task.state}")
                    if on_task is not None:
                        on_task(task)

        state = airflow.wait(dag, run_id, timeout_s=DAG_TIMEOUT_S, progress=progress)
        self.story.run_urls.append(airflow.run_url(dag, run_id))
        if state != expected_state:
            bad = [t for t in airflow.task_states(dag, run_id) if t.state == "failed"]
            log = airflow.task_log(dag, run_id, bad[0]) if bad else ""
            raise ExpectationFailed(
                f"{dag} ended as {state}, expected {expected_state}; "
                + failed_tasks([task.name for task in bad], log)
            )

    def _note_moves(self, run_id: str) -> Any:
        """Return a listener that keeps when the traffic has moved."""

        def note(task: TaskState) -> None:
            if task.task_id == "validate" and task.state == "success":
                self._happened("target validated in staging")
            if task.task_id == "move" and task.state == "success":
                moves = self._stage.airflow.result("rollback", run_id, "begin")
                self._happened(f"users at {moves[task.map_index]['name']}")

        return note

    def _golden(self, step: Step, expected_state: str) -> Mapping[str, Any]:
        run_id = self._run_dag("golden_hourly", {"service": SERVICE}, expected_state)
        airflow = self._stage.airflow
        # Mapped tasks: the demo has one service, so map index 0.
        result = airflow.result("golden_hourly", run_id, "run_golden", 0)
        published = airflow.result("golden_hourly", run_id, "publish", 0)
        expect(isinstance(result, dict), f"run_golden returned {result!r}")
        expect(isinstance(published, dict) and published.get("report_url"), "no report in MLflow")
        step.found = str(result["headline"])
        self.story.reports.append({
            "headline": str(result["headline"]),
            "file": str(result["report"]),
            "url": str(published["report_url"]),
        })
        return dict(result)

    def _expect_alert(self, alerts: AlertReceiver, name: str) -> None:
        """Callbacks run right after the task has ended, so the alert may take a moment."""
        if alerts.wait_for(name, ALERT_TIMEOUT_S):
            return
        told = [event.get("name") for event in alerts.received]
        raise ExpectationFailed(f"no alert '{name}' came; received: {told}")

    def _serving_snapshot(self) -> str:
        return snapshot_store(self._stage.settings()).get(SERVICE, SERVING).snapshot_id

    def _damage(self, flip: BitFlip) -> str:
        """Return what is wrong with the damaged copy, by the snapshot's hashes."""
        stored = snapshot_store(self._stage.settings()).get(SERVICE, SERVING)
        found = verify_folder(flip.file.parent, stored.manifest.weights)
        expect(
            [d.path for d in found] == [flip.file.name], f"expected {flip.file.name}, found {found}"
        )
        return found[0].sentence
